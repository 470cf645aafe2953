"""Drives the gateway with the official Python SDK: list, call, cancel; judged by the upstream's own record.

Run by `cargo xtask foreign`, which builds the binary first. Installs the pinned SDK into a virtual environment
under target/.
"""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BINARY = TARGET / os.environ.get("COUNTERMAND_PROFILE", "debug") / "countermand"
HERE = pathlib.Path(__file__).resolve().parent


def in_venv():
    home = TARGET / "foreign-python"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", HERE / "requirements.txt"],
        check=True,
    )
    return python


class Upstream:
    """The demo's slow job API, as a process of its own."""

    def __init__(self):
        self.process = subprocess.Popen(
            [BINARY, "demo-upstream"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.url = json.loads(self.process.stdout.readline())["listening"]

    def record(self):
        with urllib.request.urlopen(self.url + "/_control/record") as response:
            body = json.load(response)
        return body["events"] if isinstance(body, dict) else body

    def wait(self, kind, count=1):
        url = f"{self.url}/_control/wait?kind={kind}&count={count}&timeout_ms=10000"
        with urllib.request.urlopen(url) as response:
            return json.load(response)

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


def main():
    python = in_venv()
    upstream = Upstream()
    try:
        for door in ("stdio", "http"):
            code = subprocess.run([python, HERE / "client.py", str(BINARY), upstream.url, door]).returncode
            if code != 0:
                sys.exit(f"the client over {door} failed with {code}")
    finally:
        upstream.close()
    print("the official Python SDK lists, calls and cancels over stdio and HTTP, and the upstream's record agrees")


if __name__ == "__main__":
    main()
