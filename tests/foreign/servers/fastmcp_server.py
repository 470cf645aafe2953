"""A FastMCP server with the tools that ../server_kinds.py names. The argument is the upstream's URL."""

import sys
import urllib.parse
import urllib.request

import httpx2
import mcp_types
from fastmcp import Context, FastMCP

UPSTREAM = sys.argv[1]
server = FastMCP("fastmcp")


@server.tool
def echo(message: str) -> str:
    return f"Echo: {message}"


@server.tool
async def slow(tag: str, ctx: Context) -> str:
    await ctx.report_progress(1, 3, f"asking for {tag}")
    async with httpx2.AsyncClient(timeout=None) as client:
        return (await client.get(f"{UPSTREAM}/slow", params={"tag": tag})).text


@server.tool
def deaf(tag: str) -> str:
    """Runs in a thread, which nobody can cancel."""
    query = urllib.parse.urlencode({"tag": tag})
    with urllib.request.urlopen(f"{UPSTREAM}/slow?{query}") as answer:
        return answer.read().decode()


@server.tool
async def ask(ctx: Context):
    """In the middle of the call where the revision has that, else by the call's result."""
    if ctx.input_responses:
        return f"You are {ctx.input_responses['who'].content['name']}"
    question, schema = "Who are you?", {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    if ctx.session.protocol_version >= "2026":
        params = mcp_types.ElicitRequestFormParams(message=question, requested_schema=schema)
        return mcp_types.InputRequiredResult(input_requests={"who": mcp_types.ElicitRequest(params=params)})
    answer = await ctx.elicit(question, response_type=str)
    return f"You are {answer.data}"


@server.prompt
def greeting() -> str:
    return "Hello"


@server.resource("note://one")
def note() -> str:
    return "One note"


server.run(show_banner=False)
