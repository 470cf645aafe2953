"""Stands between whoever starts a stdio server and that server, and writes down what it is told. Usage: LOG COMMAND…"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

# A line is one write, so that several taps can share a log.
log = open(sys.argv[1], "a", buffering=1)


def note(what, **more):
    log.write(json.dumps({"at": time.monotonic() * 1000, "what": what, **more}) + "\n")


def pass_on(number, _):
    note(signal.Signals(number).name)
    # A terminal's Ctrl-C reaches the server by itself: it is in the client's process group.
    if number == signal.SIGTERM:
        server.send_signal(number)


def from_client():
    while line := sys.stdin.buffer.readline():
        try:
            message = json.loads(line)
            params = message.get("params") or {}
            more = {"id": message.get("id"), "reason": params.get("reason"), "server": server.pid}
            note(message.get("method", "response"), params=params, **more)
        except ValueError:
            note("garbage")
        try:
            server.stdin.write(line)
        except OSError:
            break
    note("end of stdin", server=server.pid)
    try:
        server.stdin.close()
    except OSError:
        pass


def to_client():
    while chunk := os.read(server.stdout.fileno(), 65536):
        try:
            while chunk:
                chunk = chunk[os.write(sys.stdout.fileno(), chunk) :]
        except OSError:
            # The client is gone; the server shall find out by itself, through its stdin.
            pass


for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, pass_on)
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
note("started", server=server.pid)
threading.Thread(target=from_client, daemon=True).start()
threading.Thread(target=to_client, daemon=True).start()
code = server.wait()
note("the server ended", code=code, server=server.pid)
os._exit(code if code >= 0 else 1)
