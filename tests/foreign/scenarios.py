"""What each client is put through, written once. The upstream's own record is the judge; the wire is told, and must explain the cause.

A cancel is placed by an event at the upstream, never by a sleep. That something did not happen is said only of records that
are final: a job's that has ended, a wire's whose client is gone.
"""

import contextlib
import itertools
import json
import os
import re
import signal

import install
import parts
from parts import Failure, until
from tap_http import Tap

# How long a client of the 2025 revisions may be away, here.
GRACE_MS = 4000
# What nothing hangs on.
IDLE = ("closes the connection", "the gateway closes the connection", "the server ended")
numbers = itertools.count(1)


class Stage:
    """One client program, transport and revision, with a gateway and a wire of its own."""

    def __init__(self, kind, transport, revision, upstream, directory):
        self.kind, self.transport, self.revision = kind, transport, revision
        self.upstream, self.directory = upstream, directory
        self.tag = f"{kind.name}-{transport}-{revision}-{next(numbers)}".replace(" ", "-")
        config = (install.ROOT / "examples" / "reports.yaml").read_text()
        self.config = config.replace("http://127.0.0.1:9100", upstream.url)
        if transport == "http" and revision < "2026":
            self.config += f"defaults: {{ on_disconnect: {{ grace: {GRACE_MS}ms }} }}\n"
        self.path = directory / "gateway.yaml"
        self.ledger = f"sqlite:{directory / 'gateway.db'}"
        self.wire_file = directory / "wire.jsonl"

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        if self.transport == "http":
            self.gateway = self.stack.enter_context(parts.Gateway(self.directory, self.config))
            self.tap = self.stack.enter_context(Tap(self.gateway.url))
            self.where = {"url": self.tap.url}
        else:
            # Without a listener: two editors may start it side by side.
            self.path.write_text(re.sub(r"\n  http: .*", "", self.config, count=1))
            self.wire_file.touch()
            serve = [install.binary(), "serve", "-c", self.path, "--ledger", self.ledger, "--log", "warn"]
            tap = ["python3", install.HERE / "tap_stdio.py", self.wire_file]
            self.where = {"command": list(map(str, [*tap, *serve]))}
        return self

    def __exit__(self, *_):
        self.stack.close()

    @contextlib.contextmanager
    def client(self, **more):
        with parts.Client(self.kind.command) as client:
            connect = {**self.where, "revision": self.revision, **more}
            self.session = client.ask("connect", "connected", **connect).get("session")
            yield client

    def start(self, client, name, tool="run_report", seen="job_polled", **more):
        """Calls a tool, and waits until the upstream has seen it run. Its tag, and the id of the process that called."""
        tag = f"{self.tag}-{name}"
        pid = client.ask("call", "calling", id=name, tool=tool, arguments={"tag": tag}, **more)["pid"]
        self.sees(tag, seen)
        return tag, pid

    def sees(self, tag, kind):
        return until(f"{kind} of {tag}", lambda: self.upstream.of(tag, kind))

    def wire(self, since=0.0):
        if self.transport == "http":
            log = list(self.tap.log)
        else:
            log = [json.loads(line) for line in self.wire_file.read_text().splitlines()]
        return [entry for entry in log if entry["at"] >= since and entry["what"] not in IDLE and "<-" not in entry["what"]]

    def operation(self, tag):
        """Its row in the ledger, once it is settled."""
        job = self.upstream.job(tag)

        def settled():
            rows = parts.operations(self.ledger)
            return next((row for row in rows if row["upstream_id"] == job and row["settled"]), None)

        return until(f"a settled row of {job}", settled)


def said(entries):
    """The wire in words, each once."""
    return list(dict.fromkeys(entry["what"] + (f" ({entry['reason']})" if entry.get("reason") else "") for entry in entries))


def cause_by(wire):
    """What the gateway has to make of this wire."""
    words = " ".join(wire)
    if "notifications/cancelled" in words:
        return {"client_cancelled"}
    if "DELETE" in words:
        return {"session_ended"}
    if "SIGINT" in words or "SIGTERM" in words:
        # Ctrl-C reaches client and server at once: the signal and the end of stdin race.
        return {"shutdown", "client_disconnected"}
    return {"client_disconnected"}


def stopped(stage, tag, since):
    """The upstream's record says that the job was cancelled, and its rows are gone; what the wire and the ledger say of it."""
    at = stage.sees(tag, "job_cancelled")
    stage.sees(tag, "rows_deleted")
    row = stage.operation(tag)
    wire = said(stage.wire(since))
    if row["cause"] not in cause_by(wire):
        raise Failure(f"the wire was {wire}, and the cause is {row['cause']}")
    return {"wire": wire, "ms": at - since, "cause": row["cause"]}


def ran_on(stage, client, tag, since, end):
    """What a client makes upstream that keeps its user's wish to itself: nothing, until it goes."""
    # What it had to say before this has been read before it is answered.
    client.ask("list", "listed")
    wire = [words for words in said(stage.wire(since)) if "tools/list" not in words]
    if wire:
        raise Failure(f"it was thought to say nothing, and says {wire}")
    closed = client.ask("close", "closed")["at"]
    if stage.sees(tag, end) < closed - stage.upstream.slack:
        raise Failure("it was stopped, and nobody has said so")
    return {"cell": "silent", "note": "it tells nobody; upstream ran on until the client was closed"}


def away(stage, outcome):
    """A 2025 client over HTTP that leaves without a word may come back for a while."""
    if stage.transport == "http" and stage.revision < "2026" and outcome["cause"] == "client_disconnected":
        if outcome["ms"] < GRACE_MS:
            raise Failure(f"cancelled {outcome['ms']:.0f} ms after the client left, within its grace")
    return outcome


def lists(stage):
    with stage.client() as client:
        tools = client.ask("list", "listed")["listed"]
        if "run_report" not in tools:
            raise Failure(f"it lists {tools}")
        return {"note": f"{len(tools)} tools"}


def asks_for_more(stage):
    """For prompts, which a gateway does not have; its session must not suffer from that."""
    with stage.client() as client:
        told = client.ask("prompts", "asked")["asked"]
        if stage.wire() and any("prompts/list" in words for words in said(stage.wire())):
            if "method not found" not in told.lower() or "session" in told.lower() or "http" in told.lower():
                raise Failure(f"asked for prompts, its user is told {told!r}")
        client.ask("list", "listed")
        return {"note": told}


def calls(stage):
    """To its end, with its result and its progress."""
    tag = f"{stage.tag}-done"
    with stage.client() as client:
        client.do("call", id="done", tool="run_report", arguments={"tag": tag, "secs": 0.5})
        ended = client.wait("ended", "done")
        result = ended.get("result") or {}
        if result.get("isError") or not result.get("content"):
            raise Failure(f"the call ended with {ended}")
        job = stage.upstream.job(tag)
        told = (result.get("_meta") or {}).get("dev.countermand/operations", [{}])[0].get("upstream_id")
        if told != job:
            raise Failure(f"the result names {told}, the upstream made {job}")
        first = next((event for event in client.events if "progress" in event), None)
        if first and job not in (first["message"] or ""):
            raise Failure(f"the first progress is {first}")
        if stage.kind.progress != bool(first):
            raise Failure(f"its progress was {first}")
        return {"note": f"{job} completed; " + (f"first progress: {first['message']}" if first else "it shows no progress")}


def stops(stage):
    """Its user presses stop. Another call goes on, and the client can be used afterwards."""
    with stage.client() as client:
        other, _ = stage.start(client, "other")
        tag, _ = stage.start(client, "stopped")
        at = client.ask("stop", "stopping", id="stopped")["at"]
        ended = client.wait("ended", "stopped")
        if "error" not in ended:
            raise Failure(f"the stopped call ended with {ended}")
        if stage.kind.silent:
            return ran_on(stage, client, tag, at, "job_cancelled")
        outcome = away(stage, stopped(stage, tag, at))
        client.ask("list", "listed")
        stage.upstream.finish(other)
        result = client.wait("ended", "other")
        if (result.get("result") or {}).get("isError", True):
            raise Failure(f"the other call ended with {result}")
        if stage.upstream.of(other, "cancel_received"):
            raise Failure("the other call was cancelled too")
        return {**outcome, "note": ended["error"]}


def stops_a_read(stage):
    """The same with a tool that only reads: the upstream's connection is closed."""
    with stage.client() as client:
        tag, _ = stage.start(client, "read", tool="search", seen="slow_started")
        at = client.ask("stop", "stopping", id="read")["at"]
        if stage.kind.silent:
            return ran_on(stage, client, tag, at, "closed_early")
        ended = stage.sees(tag, "closed_early")
        return {"wire": said(stage.wire(at)), "ms": ended - at}


def times_out(stage):
    """The client's own timeout, which its library enforces."""
    with stage.client() as client:
        tag, _ = stage.start(client, "late", timeout_ms=1500)
        ended = client.wait("ended", "late")
        if "error" not in ended:
            raise Failure(f"the call ended with {ended}")
        if stage.kind.silent:
            return ran_on(stage, client, tag, ended["at"], "job_cancelled")
        stage.sees(tag, "job_cancelled")
        signals = [e for e in stage.wire() if any(s in e["what"] for s in ("cancelled", "closes", "DELETE"))]
        since = min((e["at"] for e in signals), default=ended["at"])
        return {**away(stage, stopped(stage, tag, since)), "note": ended["error"]}


def closes(stage):
    """The client is closed in good order while a call runs."""
    with stage.client() as client:
        tag, _ = stage.start(client, "closed")
        at = client.ask("close", "closed")["at"]
        return away(stage, stopped(stage, tag, at))


def terminates(stage):
    """The client ends its session."""
    with stage.client() as client:
        tag, _ = stage.start(client, "terminated")
        at = client.ask("terminate", "terminated")["at"]
        return stopped(stage, tag, at)


def is_killed(stage):
    with stage.client() as client:
        tag, pid = stage.start(client, "killed")
        at = parts.now()
        os.kill(pid, signal.SIGKILL)
        return away(stage, stopped(stage, tag, at))


def is_cut(stage):
    """The network cuts the call's connection. Sessions survive it; without one the call is lost, and stops."""
    with stage.client() as client:
        # Some clients find out by nothing but their own timeout; where it can be set, the call ends in any case.
        lost = stage.revision >= "2026" or not stage.kind.resumes
        tag, _ = stage.start(client, "cut", **({"timeout_ms": 2 * GRACE_MS} if lost else {}))
        at = parts.now()
        if not stage.tap.cut("tools/call"):
            raise Failure("no connection carries the call")
        if lost:
            outcome = away(stage, stopped(stage, tag, at))
            if "timeout" not in stage.kind.can:
                return outcome
            return {**outcome, "note": client.wait("ended", "cut").get("error", "no error")}
        resumed = until("a resumption", lambda: next(
            (e for e in stage.wire(at) if "Last-Event-ID" in e["what"]), None))
        stage.upstream.finish(tag)
        ended = client.wait("ended", "cut")
        return {**completed(stage, tag, ended), "wire": said(stage.wire(at)), "ms": resumed["at"] - at}


def is_resumed(stage):
    """Killed, and its session taken up by another process with the token of the last event."""
    with stage.client() as client:
        tag, pid = stage.start(client, "resumed")
        token = client.wait("token")["token"]
        session, at = stage.session, parts.now()
        os.kill(pid, signal.SIGKILL)
    with stage.client(session=session) as client:
        more = {"tool": "run_report", "arguments": {"tag": f"{stage.tag}-never"}, "token": token}
        client.do("call", id="again", **more)
        until("a resumption", lambda: any("Last-Event-ID" in e["what"] for e in stage.wire(at)) or None)
        stage.upstream.finish(tag)
        ended = client.wait("ended", "again")
        if stage.upstream.of(f"{stage.tag}-never", "job_created"):
            raise Failure("the resumed call was started a second time")
        return {**completed(stage, tag, ended), "wire": said(stage.wire(at))}


def completed(stage, tag, ended):
    if (ended.get("result") or {}).get("isError", True):
        raise Failure(f"the call ended with {ended}")
    if stage.upstream.of(tag, "cancel_received"):
        raise Failure("it was cancelled all the same")
    return {"note": f"{stage.upstream.job(tag)} completed"}


SCENARIOS = {
    "list": lists,
    "prompts": asks_for_more,
    "call": calls,
    "stop": stops,
    "stop a read": stops_a_read,
    "timeout": times_out,
    "close": closes,
    "end session": terminates,
    "kill -9": is_killed,
    "cut": is_cut,
    "resume": is_resumed,
}
