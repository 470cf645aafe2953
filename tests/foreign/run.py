"""Drives the gateway with clients written by others, and `wrap` between those and servers written by others; judged by the
upstream's own record, and by what servers are told.

Run by `cargo xtask foreign`, which builds the binary first. Arguments: parts of the names of runs (CLIENT/TRANSPORT/REVISION,
wrap/SERVER/CLIENT/TRANSPORT/REVISION) or scenarios, such as `typescript` or `http/2026` or `wrap` or `stop`; default all. Ends
with 1 if an expectation fails.
"""

import concurrent.futures
import dataclasses
import functools
import json
import pathlib
import re
import shutil
import sys
import tempfile

import install
import parts
import scenarios
import server_kinds
import wrapped

NODE_PINS = install.HERE / "node"
EVERYWHERE = ["list", "prompts", "call", "stop", "stop a read", "timeout", "close", "kill -9"]


@dataclasses.dataclass
class Kind:
    """A client, what it speaks, and what can be asked of it."""

    name: str
    version: str
    command: list
    revisions: dict
    can: list
    # Whether it asks for progress, and shows it.
    progress: bool = True
    # Whether it keeps it to itself when its user presses stop, or its timeout is over.
    silent: bool = False
    # Whether it takes up a call's stream again by itself.
    resumes: bool = True

    def scenarios(self, transport, revision):
        names = list(self.can)
        if transport == "stdio":
            return [name for name in names if name not in ("end session", "cut", "resume")]
        if revision >= "2026":
            return [name for name in names if name not in ("end session", "resume")]
        return names


def pinned(pins):
    return next(iter(json.loads(pins.read_text())["dependencies"].values()))


def typescript(name, folder, revisions, node):
    pins = NODE_PINS / folder / "package.json"
    home = install.npm(pins)
    # Modules are found beside the program, not where it is started.
    program = shutil.copy(install.HERE / "clients" / "typescript.mjs", home)
    can = [*EVERYWHERE, "end session", "cut", "resume"]
    return Kind(name, pinned(pins), [node, program, folder], revisions, can, resumes=folder != "v1-2025-06")


def python(name, package, revisions, line="v2"):
    pins = install.HERE / "python" / f"{line}.txt"
    version = re.search(rf"^{package}==(\S+)$", pins.read_text(), re.M)[1]
    command = [install.python(pins), install.HERE / "clients" / f"python_{line}.py", package]
    return Kind(name, version, command, revisions, [*EVERYWHERE, "cut"], silent=line == "v1")


def inspector(node, home):
    pins = NODE_PINS / "inspector" / "package.json"
    script = install.npm(pins) / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    command = ["python3", install.HERE / "clients" / "inspector.py", node, script, home]
    can = ["list", "call", "stop", "stop a read", "kill -9", "cut"]
    both = ["2025-11-25", "2026-07-28"]
    return Kind("MCP Inspector CLI", pinned(pins), command, {"stdio": both, "http": both}, can, progress=False)


def kinds(home):
    node = install.node()
    both = ["2025-11-25", "2026-07-28"]
    three = ["2025-06-18", *both]
    return [
        typescript("TypeScript SDK v1", "v1-2025-06", {"stdio": three[:1], "http": three[:1]}, node),
        typescript("TypeScript SDK v1", "v1", {"stdio": both[:1], "http": both[:1]}, node),
        typescript("TypeScript SDK v2", "v2", {"stdio": three, "http": three}, node),
        python("Python SDK v1", "mcp", {"stdio": both[:1], "http": both[:1]}, "v1"),
        python("Python SDK v2", "mcp", {"stdio": both, "http": both}),
        python("FastMCP", "fastmcp", {"stdio": both, "http": both}),
        inspector(node, home),
    ]


def play(make, scenario):
    """One scenario on a stage of its own; what it saw."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            stage = make(pathlib.Path(directory))
            with stage:
                return {"ok": True, **scenario(stage)}
        except (parts.Failure, AssertionError) as failure:
            wire = scenarios.said(stage.wire()) if hasattr(stage, "where") else []
            return {"ok": False, "note": str(failure), "wire": wire}


def words(seen):
    pieces = ["ok" if seen["ok"] else "FAILED"]
    if seen.get("wire"):
        pieces.append("wire: " + ", ".join(seen["wire"]))
    if "upstream" in seen:
        pieces.append(f"server after {seen['ms']:.1f} ms, upstream after {seen['upstream']:.1f} ms")
    elif "ms" in seen:
        pieces.append(f"after {seen['ms']:.1f} ms")
    if "cause" in seen:
        pieces.append(seen["cause"])
    if seen.get("note"):
        pieces.append(seen["note"])
    return "; ".join(pieces)


def cell(seen):
    if not seen["ok"]:
        return "FAILED"
    return seen.get("cell") or (f"{seen['ms']:.1f} ms" if "ms" in seen else "ok")


def table(head, names, results):
    rows = [[*head, *names]]
    for run, seen in results.items():
        rows.append([*run, *("-" if name not in seen else cell(seen[name]) for name in names)])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


@dataclasses.dataclass
class Part:
    """Runs of one sort, each with its scenarios: what makes a stage for them, and what heads their table."""

    head: list
    scenarios: dict
    runs: list
    # How many scenarios may run side by side: where most of their time is waiting.
    beside: int = 1


def before_tools(home, upstream):
    """Clients before a gateway with tools of its own."""
    runs = []
    for kind, transport, revision in clients(home):
        stage = functools.partial(scenarios.Stage, kind, transport, revision, upstream)
        runs.append(((f"{kind.name} {kind.version}", transport, revision), kind.scenarios(transport, revision), stage))
    return Part(["client", "transport", "revision"], scenarios.SCENARIOS, runs)


def before_servers(home, upstream):
    """The same clients before servers that others wrote."""
    runs = []
    for server in server_kinds.all_of_them():
        for kind, transport, revision in clients(home):
            stage = functools.partial(wrapped.Stage, kind, transport, revision, server, upstream)
            run = ("wrap", f"{server.name} {server.version}", f"{kind.name} {kind.version}", transport, revision)
            runs.append((run, wrapped.scenarios(kind, transport, server.name == "FastMCP"), stage))
    head = ["", "server", "client", "transport", "revision"]
    return Part(head, wrapped.SCENARIOS, runs, beside=6)


def clients(home):
    for kind in kinds(home):
        for transport, revisions in kind.revisions.items():
            for revision in revisions:
                yield kind, transport, revision


def chosen(part, wanted):
    """The runs that are wanted, with the scenarios that are."""
    names = [w for w in wanted if w in part.scenarios]
    of_run = [w.lower().split("/") for w in wanted if w not in part.scenarios]
    for run, can, stage in part.runs:
        name = "/".join(run).lower()
        can = [name for name in can if not names or name in names]
        if can and (not of_run or any(all(piece in name for piece in pieces) for pieces in of_run)):
            yield run, can, stage


def play_all(part, wanted):
    results = {}
    with concurrent.futures.ThreadPoolExecutor(part.beside) as pool:
        started = [
            (run, {name: pool.submit(play, stage, part.scenarios[name]) for name in names})
            for run, names, stage in chosen(part, wanted)
        ]
        for run, playing in started:
            print("\n" + ", ".join(run), flush=True)
            seen = results.setdefault(run, {})
            for name, future in playing.items():
                seen[name] = future.result()
                print(f"  {name:12} {words(seen[name])}", flush=True)
    return results


def main(wanted):
    with tempfile.TemporaryDirectory() as home, parts.Upstream() as upstream:
        played = []
        for make in (before_tools, before_servers):
            part = make(home, upstream)
            played.append((part, play_all(part, wanted)))
        books = upstream.books()
    flat = []
    for part, results in played:
        if results:
            print("\n" + table(part.head, list(part.scenarios), results))
        flat += [{"run": run, "scenario": name, **one} for run, seen in results.items() for name, one in seen.items()]
    if not flat:
        sys.exit(f"nothing is called {wanted}")
    (install.TARGET / "foreign.json").write_text(json.dumps(flat, indent=1))
    print("\nThe upstream's books: " + ", ".join(f"{count} {what}" for what, count in books.items()))
    failed = [one for one in flat if not one["ok"]]
    if books["live"] and not failed:
        sys.exit("jobs run on upstream")
    if failed:
        sys.exit(f"\n{len(failed)} of {len(flat)} did not hold")
    print(f"all {len(flat)} held")


if __name__ == "__main__":
    main(sys.argv[1:])
