"""The command line of MCP Inspector behind the commands of ../parts.py: a process a request, whose user presses Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

NODE, SCRIPT, HOME = sys.argv[1:4]
processes = {}
lock = threading.Lock()


def say(**event):
    with lock:
        print(json.dumps(event), flush=True)


def now():
    return time.monotonic() * 1000


def start(*arguments):
    era = "modern" if where["revision"] >= "2026" else "legacy"
    command = [NODE, SCRIPT, "--cli", "--protocol-era", era, "--format", "json", "--quiet"]
    options = ["--method", *arguments]
    if where.get("url"):
        command += ["--server-url", where["url"], "--transport", "http", *options]
    else:
        command += [*options, "--", *where["command"]]
    # A group of its own, as a shell gives to what it starts: Ctrl-C reaches all of it.
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0,
        stdin=subprocess.DEVNULL, env={**os.environ, "HOME": HOME},
    )


def wait(name, process):
    out, err = process.communicate()
    if process.returncode == 0:
        answer = json.loads(out)
        say(ended=name, at=now(), result=answer.get("result", answer))
    else:
        say(ended=name, at=now(), error=f"exit code {process.returncode}: {err.strip()[-200:]}")


# The end of the commands ends what they have started.
for line in sys.stdin:
    command = json.loads(line)
    match command["do"]:
        case "connect":
            where = command
            say(connected=True)
        case "list":
            out, err = start("tools/list").communicate()
            try:
                answer = json.loads(out)
                say(listed=[tool["name"] for tool in answer.get("result", answer)["tools"]])
            except (ValueError, KeyError):
                say(failed="list", error=f"{out} {err}")
        case "call":
            arguments = json.dumps(command["arguments"])
            process = start("tools/call", "--tool-name", command["tool"], "--tool-args-json", arguments)
            processes[command["id"]] = process
            say(calling=command["id"], pid=process.pid)
            threading.Thread(target=wait, args=(command["id"], process), daemon=True).start()
        case "stop":
            at = now()
            os.killpg(processes[command["id"]].pid, signal.SIGINT)
            say(stopping=command["id"], at=at)

for process in processes.values():
    if process.poll() is None:
        process.terminate()
