"""The gateway and the upstream, as processes that a `with` starts and ends."""

import json
import re
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import install

# What a test may wait for something that happens in milliseconds.
PATIENCE = 20


class Gateway:
    """`countermand serve` over HTTP, with its ledger and its log in `directory`."""

    def __init__(self, directory, config, *arguments):
        self.directory, self.config, self.arguments = directory, config, arguments
        self.log = []

    def __enter__(self):
        path = self.directory / "gateway.yaml"
        path.write_text(self.config)
        command = [install.binary(), "serve", "-c", path, "--http", "127.0.0.1:0"]
        command += ["--ledger", f"sqlite:{self.directory / 'gateway.db'}", *self.arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
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
