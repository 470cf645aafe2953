"""The gateway and the upstream, as processes that a `with` starts and ends."""

import json
import re
import subprocess
import threading
import time
import urllib.request

import install

# What a test may wait for something that happens in milliseconds.
PATIENCE = 20


class Listening:
    """A countermand that listens over HTTP; its log."""

    def __init__(self, *arguments):
        self.command, self.log = [install.binary(), *arguments], []

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        self.url = None
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"http://\S+/mcp", line):
                self.url = found[0]
                break
        assert self.url, "the gateway did not start:\n" + "".join(self.log)
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True)
        self.reader.start()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        code = self.process.wait(30)
        self.reader.join()
        assert code == 0, f"the gateway ended with {code}:\n" + "".join(self.log)


class Gateway(Listening):
    """`countermand serve` over HTTP, with its ledger in `directory`."""

    def __init__(self, directory, config, *arguments):
        path = directory / "gateway.yaml"
        path.write_text(config)
        ledger = f"sqlite:{directory / 'gateway.db'}"
        super().__init__("serve", "-c", path, "--http", "127.0.0.1:0", "--ledger", ledger, *arguments)


class Upstream:
    """The demo's slow job API, and its record: the judge."""

    def __enter__(self):
        self.process = subprocess.Popen(
            [install.binary(), "demo-upstream"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.url = json.loads(self.process.stdout.readline())["listening"]
        self.events, self.reading = [], threading.Lock()
        self.align()
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(10)

    def align(self):
        """Its clock starts with it, and runs as ours does: each request of ours is recorded between two readings of our own."""
        lower, upper = float("-inf"), float("inf")
        for _ in range(20):
            before = now()
            at = self.record()[-1]["at"]
            lower, upper = max(lower, before - at), min(upper, now() - at)
        self.offset, self.slack = (lower + upper) / 2, (upper - lower) / 2

    def control(self, command, body=None):
        data = None if body is None else json.dumps(body).encode()
        if (code := self.process.poll()) is not None:
            raise SystemExit(f"the upstream's process has ended with {code}")
        with urllib.request.urlopen(f"{self.url}/_control/{command}", data=data) as response:
            return json.load(response)

    def record(self):
        """All events up to now. Only new ones are fetched: a long record would slow down what is measured."""
        with self.reading:
            self.events += self.control(f"record?since={len(self.events)}")["events"]
            return self.events

    def of(self, tag, kind):
        """Our time of the first event of this kind with this tag, or None."""
        for event in self.record():
            if event["kind"] == kind and event.get("tag") == tag:
                return event["at"] + self.offset
        return None

    def job(self, tag):
        return next(e["job"] for e in self.record() if e["kind"] == "job_created" and e.get("tag") == tag)

    def finish(self, tag):
        self.control("finish", {"job": self.job(tag)})

    def books(self):
        return self.control("books")


def until(what, fits, patience=PATIENCE, every=0.01):
    """Waits for what happens in another process; what `fits` returns when it is not None or False."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        found = fits()
        if found is not None and found is not False:
            return found
        time.sleep(every)
    raise Failure(f"{what} did not happen within {patience} s")


class Failure(Exception):
    """An expectation that did not hold."""


def operations(ledger):
    """What the ledger knows, newest first; with and without a running gateway."""
    command = [install.binary(), "ops", "list", "--json", "--ledger", ledger]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class Client:
    """One client program, and what it has said. Commands go in, events come out, each a line of JSON."""

    def __init__(self, command):
        self.command, self.events = command, []
        self.grown = threading.Condition()

    def __enter__(self):
        self.process = subprocess.Popen(
            list(map(str, self.command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        self.errors = []
        threading.Thread(target=self.read, daemon=True).start()
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()
        return self

    def __exit__(self, *_):
        try:
            self.process.stdin.close()
            self.process.wait(15)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()

    def read(self):
        for line in self.process.stdout:
            with self.grown:
                self.events.append(json.loads(line))
                self.grown.notify_all()
        with self.grown:
            self.events.append({"gone": True})
            self.grown.notify_all()

    def do(self, name, **more):
        self.process.stdin.write(json.dumps({"do": name, **more}) + "\n")
        self.process.stdin.flush()

    def wait(self, key, value=None, patience=PATIENCE, since=0):
        """The first event from `since` on that has `key`, and this value there."""
        def fits(event):
            return key in event and (value is None or event[key] == value)

        deadline = time.monotonic() + patience
        with self.grown:
            while True:
                for event in self.events[since:]:
                    if fits(event):
                        return event
                    if "failed" in event or "gone" in event:
                        raise Failure(f"the client has no {key}: {self.words()}")
                if not self.grown.wait(deadline - time.monotonic()):
                    raise Failure(f"the client said no {key} within {patience} s: {self.words()}")

    def ask(self, name, answer, **more):
        since = len(self.events)
        self.do(name, **more)
        return self.wait(answer, since=since)

    def words(self):
        return f"{self.events[-6:]} {''.join(self.errors[-8:])}"


def now():
    """Milliseconds of the clock that all processes of this machine share."""
    return time.monotonic() * 1000
