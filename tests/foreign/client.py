"""One client session with the official Python SDK over stdio or HTTP. Usage: client.py BINARY UPSTREAM stdio|http"""

import asyncio
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

import anyio
from mcp import Client, StdioServerParameters

BINARY, UPSTREAM, DOOR = sys.argv[1:4]
CONFIG = (pathlib.Path(__file__).resolve().parents[2] / "examples" / "reports.yaml").read_text()


def record():
    with urllib.request.urlopen(UPSTREAM + "/_control/record") as response:
        return json.load(response)["events"]


async def until(what, fits):
    """Reads the upstream's record until it fits; it has no events for other processes."""
    with anyio.fail_after(10):
        while not fits(record()):
            await anyio.sleep(0.02)
    print(f"  upstream: {what}")


async def session(server):
    tag = f"python-{DOOR}"
    mine = lambda kind: lambda events: any(e["kind"] == kind and e.get("tag") == tag for e in events)
    async with Client(server) as client:
        tools = await client.list_tools()
        print("  tools:", ", ".join(tool.name for tool in tools.tools))

        seen = []

        async def progress(value, total, message):
            seen.append((value, message))

        result = await client.call_tool(
            "run_report", {"tag": f"{tag}-done", "secs": 0.5}, progress_callback=progress
        )
        assert not result.is_error, result
        operation = result.meta["dev.countermand/operations"][0]
        assert seen and operation["upstream_id"] in seen[0][1], seen
        print(f"  called: {operation['upstream_id']} is {operation['outcome']}; first progress: {seen[0][1]}")

        async with anyio.create_task_group() as tasks:

            async def call():
                await client.call_tool("run_report", {"tag": tag})

            tasks.start_soon(call)
            await until("a job runs", mine("job_polled"))
            print("  cancelled by the client")
            tasks.cancel_scope.cancel()
        await until("the job was cancelled", mine("job_cancelled"))

        with anyio.fail_after(10):
            while True:
                status = await client.call_tool("cancellation_status", {})
                newest = status.structured_content["operations"][0]
                if newest["settled"]:
                    break
                await anyio.sleep(0.05)
        assert newest["status"] == "undone", newest
        print(f"  cancellation_status: {newest['sentence']} (cause {newest['cause']})")


async def main():
    print(f"{DOOR}:")
    with tempfile.TemporaryDirectory() as directory:
        config = pathlib.Path(directory) / "reports.yaml"
        text = re.sub(r"http://127\.0\.0\.1:9100", UPSTREAM, CONFIG)
        config.write_text(text)
        ledger = f"sqlite:{directory}/countermand.db"
        arguments = ["serve", "-c", str(config), "--ledger", ledger]
        environment = {"REPORTS_TOKEN": "secret", "COUNTERMAND_LOG": "warn,countermand_cli=info"}
        arguments += ["--http", "127.0.0.1:0"]
        if DOOR == "stdio":
            await session(StdioServerParameters(command=BINARY, args=[*arguments, "--stdio"], env=environment))
            return
        process = subprocess.Popen(
            [BINARY, *arguments], stderr=subprocess.PIPE, text=True, env=environment
        )
        try:
            for line in process.stderr:
                if found := re.search(r"http://\S+/mcp", line):
                    break
            await session(found[0])
        finally:
            process.terminate()
            assert process.wait(20) == 0, "the gateway did not end well"


asyncio.run(main())
