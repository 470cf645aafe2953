"""What `wrap` costs: an echo call straight to a server and through `wrap`, over stdio, one call after the other.

Run by `cargo xtask foreign overhead [SERVER…]`; COUNTERMAND_PROFILE=release for figures that mean something. Both ways are open side
by side and take turns, so that what else the machine does falls on both. The calls are written and read as bytes: a client
library would take its time, too, and hide ours.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import install
import server_kinds

ROUNDS, CALLS = 20, 100
WARM_UP = 200


class Line:
    """A server at the end of two pipes."""

    def __init__(self, command):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0
        )
        self.output, self.id = open(self.process.stdout.fileno(), "rb", closefd=False), 0
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "overhead", "version": "1"}}
        self.ask("initialize", client)
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method, params):
        self.id += 1
        self.send({"id": self.id, "method": method, "params": params})
        while line := self.output.readline():
            answer = json.loads(line)
            if answer.get("id") == self.id and "method" not in answer:
                return answer["result"]
        sys.exit(f"{self.process.args} has ended")

    def echo(self):
        """Microseconds that one call takes."""
        before = time.perf_counter_ns()
        result = self.ask("tools/call", {"name": "echo", "arguments": {"message": "hello"}})
        taken = time.perf_counter_ns() - before
        assert "Echo: hello" in result["content"][0]["text"], result
        return taken / 1000

    def cpu(self):
        """Seconds of CPU that this process has used, without its children."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)


def measure(server, directory):
    # The upstream is not asked.
    command = [*server.command, *(["http://127.0.0.1:9"] if server.visible else [])]
    wrap = [install.binary(), "wrap", "--ledger", f"sqlite:{directory}/wrap.db", "--log", "warn", "--"]
    direct, wrapped = Line(command), Line([*wrap, *command])
    try:
        for line in (direct, wrapped):
            for _ in range(WARM_UP):
                line.echo()
        before, times = wrapped.cpu(), {direct: [], wrapped: []}
        for turn in range(ROUNDS):
            for line in (direct, wrapped) if turn % 2 else (wrapped, direct):
                times[line] += [line.echo() for _ in range(CALLS)]
        cpu = (wrapped.cpu() - before) / (ROUNDS * CALLS) * 1e6
    finally:
        direct.close()
        wrapped.close()
    return times[direct], times[wrapped], cpu


def row(name, direct, wrapped, cpu):
    one, other = statistics.median(direct), statistics.median(wrapped)
    late = [statistics.quantiles(times, n=100)[98] for times in (direct, wrapped)]
    cells = [f"{one:8.0f}", f"{other:8.0f}", f"{other / one:8.2f}", f"{late[0]:8.0f}", f"{late[1]:8.0f}", f"{cpu:8.0f}"]
    return f"{name:26}" + "".join(cells)


def main(wanted):
    profile = os.environ.get("COUNTERMAND_PROFILE", "debug")
    print(f"{ROUNDS * CALLS} echo calls each way, {ROUNDS} turns; microseconds; {profile} build\n")
    heads = ["direct", "wrapped", "ratio", "p99", "p99", "CPU"]
    print(f"{'server':26}" + "".join(f"{head:>8}" for head in heads))
    for server in server_kinds.all_of_them():
        name = f"{server.name} {server.version}"
        if wanted and not any(word.lower() in name.lower() for word in wanted):
            continue
        with tempfile.TemporaryDirectory() as directory:
            print(row(name, *measure(server, directory)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
