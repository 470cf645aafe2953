"""Runs the official MCP server conformance suite against the gateway, once for each revision it serves over HTTP.

Run by `cargo xtask conformance`, which builds the binary first. expected-REVISION.yaml holds what fails, and why: a
failure outside it ends in an exit code of 1, and so does an entry that passes. Arguments: revisions, default all.
"""

import contextlib
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "foreign"))
import install  # noqa: E402
import parts  # noqa: E402

REVISIONS = ["2025-06-18", "2025-11-25", "2026-07-28"]


@contextlib.contextmanager
def fixtures():
    """The upstream of the fixtures, as a process of its own; its URL."""
    process = subprocess.Popen(
        [sys.executable, HERE / "upstream.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.stdin.close()
        process.wait(10)


def verdict(lines):
    """How many scenarios passed, from the suite's summary; what it prints about the baseline follows."""
    results = [line for line in lines if re.match(r"^[✓✗] \S+: \d+ passed", line)]
    whole = [line for line in results if line.startswith("✓")]
    checks = [tuple(map(int, re.findall(r"(\d+) (?:passed|failed)", line))) for line in results]
    passed, failed = (sum(column) for column in zip(*checks)) if checks else (0, 0)
    return f"{len(whole)} of {len(results)} scenarios, {passed} of {passed + failed} checks"


def run(revision, url, output):
    suite = install.npm(HERE / "package.json") / "node_modules" / "@modelcontextprotocol" / "conformance"
    command = [install.node(), suite / "dist" / "index.js", "server", "--url", url, "--suite", "all"]
    command += ["--spec-version", revision, "--expected-failures", HERE / f"expected-{revision}.yaml"]
    command += ["--output-dir", output]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    (output / "output.txt").write_text(done.stdout)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines()
    summary = next((at for at, line in enumerate(lines) if "SUMMARY" in line), 0)
    print("\n".join(lines[summary:]))
    return done.returncode, verdict(lines[summary:])


def main(revisions):
    verdicts = []
    for revision in revisions:
        output = install.TARGET / "conformance" / revision
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as directory, fixtures() as upstream:
            config = (HERE / "gateway.yaml").read_text().replace("http://127.0.0.1:9100", upstream)
            with parts.Gateway(pathlib.Path(directory), config) as gateway:
                print(f"\n{revision}: what the suite says in full is in {output.relative_to(install.ROOT)}")
                verdicts.append((revision, *run(revision, gateway.url, output)))
    print()
    for revision, code, counts in verdicts:
        held = "as expected" if code == 0 else "NOT as expected: see above"
        print(f"{revision}: {counts} pass; {held}")
    sys.exit(any(code for _, code, _ in verdicts))


if __name__ == "__main__":
    main(sys.argv[1:] or REVISIONS)
