"""A server on the first line of the official Python SDK with the tools that ../server_kinds.py names. The argument is the upstream's URL."""

import sys
import urllib.parse
import urllib.request

import anyio
import httpx
import pydantic
from mcp.server.fastmcp import Context, FastMCP

UPSTREAM = sys.argv[1]
server = FastMCP("python-v1")


class Who(pydantic.BaseModel):
    name: str


@server.tool()
def echo(message: str) -> str:
    return f"Echo: {message}"


@server.tool()
async def slow(tag: str, ctx: Context) -> str:
    await ctx.report_progress(1, 3, f"asking for {tag}")
    async with httpx.AsyncClient(timeout=None) as client:
        return (await client.get(f"{UPSTREAM}/slow", params={"tag": tag})).text


@server.tool()
async def deaf(tag: str) -> str:
    """Runs in a thread, which nobody can cancel."""

    def wait():
        with urllib.request.urlopen(f"{UPSTREAM}/slow?{urllib.parse.urlencode({'tag': tag})}") as answer:
            return answer.read().decode()

    return await anyio.to_thread.run_sync(wait)


@server.tool()
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Who are you?", Who)
    return f"You are {answer.data.name}"


@server.prompt()
def greeting() -> str:
    return "Hello"


@server.resource("note://one")
def note() -> str:
    return "One note"


server.run()
