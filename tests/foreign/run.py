"""Drives the gateway with clients written by others; judged by the upstream's own record.

Run by `cargo xtask foreign`, which builds the binary first. Arguments: parts of the names of runs (CLIENT/TRANSPORT/REVISION)
or scenarios, such as `typescript` or `http/2026` or `stop`; default all. Ends with 1 if an expectation fails.
"""

import dataclasses
import json
import pathlib
import re
import shutil
import sys
import tempfile

import install
import parts
import scenarios

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


def play(kind, transport, revision, name, upstream):
    """One scenario on a stage of its own; what it saw."""
    with tempfile.TemporaryDirectory() as directory:
        stage = scenarios.Stage(kind, transport, revision, upstream, pathlib.Path(directory))
        try:
            with stage:
                return {"ok": True, **scenarios.SCENARIOS[name](stage)}
        except (parts.Failure, AssertionError) as failure:
            wire = scenarios.said(stage.wire()) if hasattr(stage, "where") else []
            return {"ok": False, "note": str(failure), "wire": wire}


def words(seen):
    pieces = ["ok" if seen["ok"] else "FAILED"]
    if seen.get("wire"):
        pieces.append("wire: " + ", ".join(seen["wire"]))
    if "ms" in seen:
        pieces.append(f"upstream after {seen['ms']:.1f} ms")
    if "cause" in seen:
        pieces.append(seen["cause"])
    if seen.get("note"):
        pieces.append(seen["note"])
    return "; ".join(pieces)


def cell(seen):
    if not seen["ok"]:
        return "FAILED"
    return seen.get("cell") or (f"{seen['ms']:.1f} ms" if "ms" in seen else "ok")


def table(results):
    names = list(scenarios.SCENARIOS)
    rows = [["client", "transport", "revision", *names]]
    for (client, transport, revision), seen in results.items():
        cells = []
        for name in names:
            one = seen.get(name)
            cells.append("-" if one is None else cell(one))
        rows.append([client, transport, revision, *cells])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def main(wanted):
    results = {}
    of_names = [w for w in wanted if w in scenarios.SCENARIOS]
    of_run = [w for w in wanted if w not in scenarios.SCENARIOS]
    with tempfile.TemporaryDirectory() as home, parts.Upstream() as upstream:
        for kind in kinds(home):
            for transport, revisions in kind.revisions.items():
                for revision in revisions:
                    run = f"{kind.name} {kind.version}/{transport}/{revision}".lower()
                    names = kind.scenarios(transport, revision)
                    if of_run and not any(all(part in run for part in w.lower().split("/")) for w in of_run):
                        continue
                    names = [name for name in names if not of_names or name in of_names]
                    if not names:
                        continue
                    print(f"\n{kind.name} {kind.version}, {transport}, {revision}", flush=True)
                    seen = results.setdefault((f"{kind.name} {kind.version}", transport, revision), {})
                    for name in names:
                        seen[name] = play(kind, transport, revision, name, upstream)
                        print(f"  {name:12} {words(seen[name])}", flush=True)
        books = upstream.books()
    if not results:
        sys.exit(f"nothing is called {wanted}")
    flat = [{"run": run, "scenario": name, **one} for run, seen in results.items() for name, one in seen.items()]
    (install.TARGET / "foreign.json").write_text(json.dumps(flat, indent=1))
    print("\n" + table(results))
    print("\nThe upstream's books: " + ", ".join(f"{count} {what}" for what, count in books.items()))
    failed = [one for one in flat if not one["ok"]]
    if books["live"] and not failed:
        sys.exit("jobs run on upstream")
    if failed:
        sys.exit(f"\n{len(failed)} of {len(flat)} did not hold")
    print(f"all {len(flat)} held")


if __name__ == "__main__":
    main(sys.argv[1:])
