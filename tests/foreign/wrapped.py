"""`countermand wrap` between clients and servers that others wrote. A tap before the server tells what that was told; where the
server works for it, the upstream's record tells what came of it; the ledger must say the same.
"""

import contextlib
import itertools
import json
import os
import pathlib
import signal

import install
import parts
from parts import Failure, until

# What is told at once is told within this: far less than any timer here.
AT_ONCE_MS = 1000
# How long a client of a session over HTTP may be away.
GRACE_MS = 30_000
# How long a process may go on once its input is closed, and what its end may take.
ENDS_WITHIN = 10
# After how long silence is unverified.
UNVERIFIED_MS = 10_000
ECHO = {"tool": "echo", "arguments": {"message": "Grüße"}}
numbers = itertools.count(1)


class Stage:
    """One client program, transport and revision, and one server, with a countermand between them."""

    def __init__(self, kind, transport, revision, server, upstream, directory):
        self.kind, self.transport, self.revision, self.server = kind, transport, revision, server
        self.upstream, self.tag = upstream, f"wrap-{next(numbers)}"
        self.ledger, self.told_file = f"sqlite:{directory / 'wrap.db'}", directory / "told.jsonl"
        self.told_file.touch()
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        tap = ["python3", install.HERE / "tap_stdio.py", self.told_file, *self.server.command]
        tap += [self.upstream.url] if self.server.visible else []
        wrap = ["wrap", "--ledger", self.ledger, "--log", "info"]
        if self.transport == "http":
            listening = self.stack.enter_context(parts.Listening(*wrap, "--http", "127.0.0.1:0", "--", *tap))
            self.where = {"url": listening.url}
        else:
            self.where = {"command": list(map(str, [install.binary(), *wrap, "--", *tap]))}
        return self

    def __exit__(self, *_):
        self.stack.close()

    @contextlib.contextmanager
    def client(self, **more):
        with parts.Client(self.kind.command) as client:
            client.ask("connect", "connected", **self.where, revision=self.revision, **more)
            yield client

    def told(self, *methods):
        """What the server was told, of these methods."""
        entries = [json.loads(line) for line in self.told_file.read_text().splitlines()]
        return [entry for entry in entries if entry["what"] in methods]

    def wire(self):
        entries = [json.loads(line) for line in self.told_file.read_text().splitlines()]
        return [entry for entry in entries if entry["what"] not in ("tools/list", "initialize", "notifications/initialized")]

    def start(self, client, name, what="slow", **more):
        """Calls a tool, and waits until it runs. Its request as the server knows it, and the id of the process that called."""
        tag = f"{self.tag}-{name}"
        pid = client.ask("call", "calling", id=name, **self.server.call(what, tag), **more)["pid"]

        def request():
            calls = self.told("tools/call")
            return next((call for call in calls if call["params"]["arguments"].get("tag") == tag), None)

        call = until(f"a call of {what} at the server", request)
        if self.server.visible:
            until(f"{what} at the upstream", lambda: self.upstream.of(tag, "slow_started"))
        return {**call, "tag": tag, "process": Process(call["server"])}, pid

    def cancels(self):
        """Of what is work: a subscription ends in no other way."""
        entries = self.told("notifications/cancelled", "subscriptions/listen")
        listened = {(e["server"], e["id"]) for e in entries if e["what"] == "subscriptions/listen"}
        cancels = (e for e in entries if e["what"] == "notifications/cancelled")
        return [e for e in cancels if (e["server"], e["params"]["requestId"]) not in listened]

    def stopped(self, call, since, patience=parts.PATIENCE):
        """The server is told that this call is cancelled, and no other; what runs for it upstream ends."""
        def cancel():
            ours = [c for c in self.cancels() if c["server"] == call["server"]]
            return next((c for c in ours if c["params"]["requestId"] == call["id"]), None)

        at = until(f"the cancel of {call['id']} at the server", cancel, patience)["at"]
        outcome = {"ms": at - since}
        if self.server.visible:
            closed = until("the upstream's loss", lambda: self.upstream.of(call["tag"], "closed_early"))
            outcome["upstream"] = closed - since
        if others := [c for c in self.cancels() if c["params"]["requestId"] != call["id"]]:
            raise Failure(f"the server was told of {others}, too; the call was {call['id']}")
        return outcome

    def row(self, call, fits=lambda row: True):
        """The cancel's row in the ledger."""
        def found():
            rows = parts.operations(self.ledger)
            return next((row for row in rows if row["upstream_id"] == json.dumps(call["id"]) and fits(row)), None)

        row = until(f"the row of {call['id']}", found, every=0.3)
        if row["kind"] != "mcp" or row["tool"] != call["params"]["name"]:
            raise Failure(f"the row of {call['params']['name']} is {row}")
        return row

    def in_session(self):
        return self.transport == "http" and self.revision < "2026"

    def left(self, call, since, gone):
        """The client is gone: its call is cancelled, after its grace where it may come back; then the server's process is ended."""
        outcome = self.stopped(call, since, parts.PATIENCE + GRACE_MS / 1000)
        row = self.row(call)
        away = self.in_session() and row["cause"] == "client_disconnected"
        if away and outcome["ms"] < GRACE_MS:
            raise Failure(f"cancelled {outcome['ms']:.0f} ms after its client left, within its grace")
        if not away and outcome["ms"] > AT_ONCE_MS:
            raise Failure(f"the server was told after {outcome['ms']:.0f} ms")
        if row["cause"] not in gone:
            raise Failure(f"the cause is {row['cause']}")
        outcome["cause"] = row["cause"]
        if self.transport == "stdio" or row["cause"] == "session_ended":
            until("the end of the server's process", call["process"].is_gone, ENDS_WITHIN)
            # The kernel's word, which is final.
            row = self.row(call, lambda row: row["settled"])
            if row["phase"] != "cancelled":
                raise Failure(f"the server's process has ended, and the row is {row['phase']}")
            return {**outcome, "note": "its process is gone"}
        if call["process"].is_gone():
            raise Failure("the server's process has ended, and others may use it")
        return {**outcome, "note": "its process stays"}


class Process:
    """A process, by its id and its start, so that it is never taken for a later one with the same id."""

    def __init__(self, pid):
        self.pid, self.start = pid, started(pid)
        if self.start is None:
            raise Failure("the server's process is gone already")

    def is_gone(self):
        return started(self.pid) != self.start


def started(pid):
    """When the process of this id was started; none where there is none, or only its exit code."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else fields[19]


def text_of(ended):
    result = ended.get("result") or {}
    if result.get("isError") or not result.get("content"):
        raise Failure(f"the call ended with {ended}")
    return result["content"][0]["text"]


def echoes(client):
    client.do("call", id=(name := f"echo-{next(numbers)}"), **ECHO)
    if "Echo: Grüße" not in (said := text_of(client.wait("ended", name))):
        raise Failure(f"its echo is {said!r}")


def lists(stage):
    """What the server has, and one tool more; its prompts and resources."""
    with stage.client() as client:
        tools = set(client.ask("list", "listed")["listed"])
        if not stage.server.tools | {"cancellation_status"} <= tools:
            raise Failure(f"it lists {tools}")
        if "prompts" not in stage.kind.can:
            return {"note": f"{len(tools)} tools"}
        offered = client.ask("offers", "offered", resource=stage.server.resource)
        if not offered["offered"] or not offered["text"]:
            raise Failure(f"prompts and resource are {offered}")
        return {"note": f"{len(tools)} tools, {len(offered['offered'])} prompts, a resource"}


def calls(stage):
    """To the end, with the server's progress and its result; no row is made of that."""
    with stage.client() as client:
        echoes(client)
        if stage.server.visible:
            call, _ = stage.start(client, "short", "short")
            stage.upstream.control("finish", {"slow": call["tag"]})
        else:
            client.do("call", id="short", **stage.server.call("short"))
        text_of(client.wait("ended", "short"))
        progress = [event for event in client.events if "progress" in event]
        if stage.kind.progress != bool(progress):
            raise Failure(f"its progress was {progress}")
        if rows := parts.operations(stage.ledger):
            raise Failure(f"the ledger has {rows}")
        return {"note": f"{len(progress)} messages of progress"}


def answers(stage):
    """What the server asks in the middle of a call, the client's user answers."""
    with stage.client(answers=True) as client:
        client.ask("list", "listed")
        client.do("call", id="ask", **stage.server.call("ask"))
        if stage.server.answered not in (said := text_of(client.wait("ended", "ask"))):
            raise Failure(f"the server makes {said!r} of the answer")
        return {"note": said.replace("\n", " ")[:40]}


def stops(stage):
    """Of two calls that follow one another the first is stopped. The other goes on, and the client can be used afterwards."""
    with stage.client() as client:
        call, _ = stage.start(client, "stopped")
        other, _ = stage.start(client, "other")
        since = client.ask("stop", "stopping", id="stopped")["at"]
        ended = client.wait("ended", "stopped")
        if "error" not in ended:
            raise Failure(f"the stopped call ended with {ended}")
        if stage.kind.silent:
            return tells_nobody(stage, client, call)
        stays = "close" in stage.kind.can
        if not stays:
            # Its user has pressed Ctrl-C: the client has gone.
            return stage.left(call, since, {"client_disconnected", "shutdown"})
        outcome = stage.stopped(call, since)
        if outcome["ms"] > AT_ONCE_MS:
            raise Failure(f"the server was told after {outcome['ms']:.0f} ms")
        row = stage.row(call)
        modern = stage.transport == "http" and stage.revision >= "2026"
        if row["cause"] != ("client_disconnected" if modern else "client_cancelled"):
            raise Failure(f"the cause is {row['cause']}")
        echoes(client)
        if stage.server.visible:
            stage.upstream.control("finish", {"slow": other["tag"]})
            text_of(client.wait("ended", "other"))
        elif any("ended" in event and event["ended"] == "other" for event in client.events):
            raise Failure("the other call has ended, too")
        return {**outcome, "cause": row["cause"], "note": f"ids {call['id']} and {other['id']}"}


def tells_nobody(stage, client, call):
    """What a client makes of a stop that keeps it to itself: nothing, until it goes."""
    client.ask("list", "listed")
    if cancels := stage.cancels():
        raise Failure(f"it was thought to say nothing, and the server is told {cancels}")
    client.ask("close", "closed")
    until("the cancel at the server", lambda: any(c["params"]["requestId"] == call["id"] for c in stage.cancels()))
    return {"cell": "silent", "note": "it tells nobody; the server was told when the client was closed"}


def stays_silent(stage):
    """A server that does not listen: its cancel was delivered, and cannot be verified."""
    with stage.client() as client:
        call, _ = stage.start(client, "deaf", "deaf")
        since = client.ask("stop", "stopping", id="deaf")["at"]
        until("the cancel at the server", stage.cancels)
        row = stage.row(call, lambda row: row["settled"])
        if row["phase"] != "unverified":
            raise Failure(f"of a server that runs on the ledger says {row['phase']}")
        if parts.now() - since < UNVERIFIED_MS:
            raise Failure("it was settled before its time")
        if call["process"].is_gone() or stage.upstream.of(call["tag"], "closed_early"):
            raise Failure("it has ended, and was thought to be deaf")
        echoes(client)
        if stage.server.visible:
            stage.upstream.control("finish", {"slow": call["tag"]})
        return {"cell": "unverified", "note": "it runs on, and the row says unverified"}


def times_out(stage):
    """The client's own timeout, which its library enforces."""
    with stage.client() as client:
        # Now the server has been started, which may take longer.
        client.ask("list", "listed")
        call, _ = stage.start(client, "late", timeout_ms=1500)
        ended = client.wait("ended", "late")
        if "error" not in ended:
            raise Failure(f"the call ended with {ended}")
        if stage.kind.silent:
            return tells_nobody(stage, client, call)
        outcome = stage.stopped(call, ended["at"])
        if outcome["ms"] > AT_ONCE_MS:
            raise Failure(f"the server was told after {outcome['ms']:.0f} ms")
        # Some tell their user first, and some the server.
        return {"cause": stage.row(call)["cause"], "note": ended["error"]}


def closes(stage):
    """The client is closed in good order while a call runs."""
    with stage.client() as client:
        call, _ = stage.start(client, "closed")
        since = client.ask("close", "closed")["at"]
        return stage.left(call, since, {"client_cancelled", "client_disconnected", "session_ended", "shutdown"})


def is_killed(stage):
    with stage.client() as client:
        call, pid = stage.start(client, "killed")
        since = parts.now()
        os.kill(pid, signal.SIGKILL)
        return stage.left(call, since, {"client_disconnected"})


SCENARIOS = {
    "list": lists,
    "call": calls,
    "asks": answers,
    "stop": stops,
    "silence": stays_silent,
    "timeout": times_out,
    "close": closes,
    "kill -9": is_killed,
}


def scenarios(kind, transport, thorough):
    """What this client is put through: everything at one server, at the others what depends on the server."""
    talks = "prompts" in kind.can
    # A process for each request has nobody to be asked, and who says nothing makes no silence to follow.
    can = {*kind.can, *(["asks"] if talks else []), *(["silence"] if talks and not kind.silent else [])}
    depends = ["list", "call", "asks", "stop", *(["silence", "kill -9"] if transport == "stdio" else [])]
    return [name for name in SCENARIOS if name in can and (thorough or name in depends)]
