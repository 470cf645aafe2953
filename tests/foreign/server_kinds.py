"""Servers by others, pinned, each behind the same few tools.

`echo` answers at once; `slow` asks the upstream and lets go of it when its call is cancelled; `deaf` runs on, whatever it is
told; `ask` asks its client something. Prompts and resources beside them.
"""

import dataclasses
import json
import re
import shutil

import install
from install import HERE


@dataclasses.dataclass
class Server:
    """A server, and how the same things are done there."""

    name: str
    version: str
    command: list
    tools: set
    # By what is meant: the tool, and what it is given beside the tag.
    means: dict
    # Whether the upstream sees what it does.
    visible: bool = True
    # What its answers contain.
    resource: str = "note://one"
    answered: str = "You are Ada"

    def call(self, what, tag=None):
        tool, more = self.means.get(what, (what, {}))
        return {"tool": tool, "arguments": {**more, **({"tag": tag} if tag else {})}}


def everything(node):
    """It listens to no cancel, and has no upstream: what it was told is all that can be seen."""
    pins = HERE / "node" / "everything" / "package.json"
    version = next(iter(json.loads(pins.read_text())["dependencies"].values()))
    script = install.npm(pins) / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    long = "trigger-long-running-operation"
    means = {
        "slow": (long, {"duration": 600, "steps": 2400}),
        "deaf": (long, {"duration": 600, "steps": 60}),
        "short": (long, {"duration": 0.5, "steps": 2}),
        "ask": ("trigger-sampling-request", {"prompt": "Who are you?", "maxTokens": 10}),
    }
    return Server(
        "server-everything", version, [node, script], {"echo", "get-sum", "get-env", long}, means, visible=False,
        resource="demo://resource/static/document/architecture.md", answered="Ada",
    )


def typescript_v2(node):
    pins = HERE / "node" / "server-v2" / "package.json"
    version = json.loads(pins.read_text())["dependencies"]["@modelcontextprotocol/server"]
    program = shutil.copy(HERE / "servers" / "typescript_v2.mjs", install.npm(pins))
    return ours("TypeScript SDK v2", version, [node, program])


def python(name, package, line, program):
    pins = HERE / "python" / f"{line}.txt"
    version = re.search(rf"^{package}==(\S+)$", pins.read_text(), re.M)[1]
    return ours(name, version, [install.python(pins), HERE / "servers" / program])


def ours(name, version, command):
    return Server(name, version, command, {"echo", "slow", "deaf", "ask"}, {"short": ("slow", {})})


def all_of_them():
    node = install.node()
    return [
        everything(node),
        python("FastMCP", "fastmcp", "v2", "fastmcp_server.py"),
        python("Python SDK v1", "mcp", "v1", "python_v1.py"),
        typescript_v2(node),
    ]
