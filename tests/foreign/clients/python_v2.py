"""The official Python SDK and FastMCP's client behind the commands of ../parts.py. The argument says which."""

import asyncio
import json
import os
import sys
import time

import anyio

WHICH = sys.argv[1]
calls = {}


def say(**event):
    print(json.dumps(event), flush=True)


def now():
    return time.monotonic() * 1000


def mcp_client(target, mode, answers):
    import mcp_types as types
    from mcp import Client, StdioServerParameters

    async def sample(context, params):
        text = types.TextContent(type="text", text="Ada")
        return types.CreateMessageResult(role="assistant", model="none", content=text)

    async def elicit(context, params):
        return types.ElicitResult(action="accept", content=form(params))

    if isinstance(target, list):
        target = StdioServerParameters(command=target[0], args=target[1:])
    handlers = {"sampling_callback": sample, "elicitation_callback": elicit} if answers else {}
    return Client(target, mode=mode, **handlers)


def fastmcp_client(target, mode, answers):
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    async def sample(messages, params, context):
        return "Ada"

    async def elicit(message, response_type, params, context):
        return form(params)

    if isinstance(target, list):
        target = StdioTransport(command=target[0], args=target[1:])
    handlers = {"sampling_handler": sample, "elicitation_handler": elicit} if answers else {}
    return Client(target, mode=mode, **handlers)


def form(params):
    """What its user fills in."""
    return {"name": "Ada"} if "name" in params.requested_schema["properties"] else {"value": "Ada"}


async def run_call(client, command):
    name = command["id"]

    async def progress(value, total, message):
        say(id=name, progress=value, message=message)

    timeout = command.get("timeout_ms")
    timeout = timeout and timeout / 1000
    arguments = command["arguments"]
    if WHICH == "mcp":
        options = {"progress_callback": progress, "read_timeout_seconds": timeout}
        result = await client.call_tool(command["tool"], arguments, **options)
    else:
        options = {"progress_handler": progress, "timeout": timeout, "raise_on_error": False}
        result = await client.call_tool(command["tool"], arguments, **options)
    content = [block.model_dump(mode="json") for block in result.content]
    return {"content": content, "isError": result.is_error, "_meta": result.meta}


async def call(client, command):
    name = command["id"]
    with anyio.CancelScope() as calls[name]:
        try:
            result = await run_call(client, command)
            say(ended=name, at=now(), result=result)
        except Exception as error:
            say(ended=name, at=now(), error=f"{type(error).__name__}: {error}")
        return
    say(ended=name, at=now(), error="cancelled")


async def commands():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        yield json.loads(line)


async def serve(client, rest):
    """Until its user is done with it; then it is closed, the calls in it first or last as its library has it."""
    async with anyio.create_task_group() as tasks:
        try:
            async with client:
                say(connected=True)
                async for command in rest:
                    match command["do"]:
                        case "list":
                            tools = await client.list_tools()
                            say(listed=[tool.name for tool in getattr(tools, "tools", tools)])
                        case "prompts":
                            try:
                                await client.list_prompts()
                                say(asked="no error")
                            except Exception as error:
                                say(asked=f"{type(error).__name__}: {error}")
                        case "offers":
                            prompts = await client.list_prompts()
                            read = await client.read_resource(command["resource"])
                            names = [prompt.name for prompt in getattr(prompts, "prompts", prompts)]
                            say(offered=names, text=getattr(read, "contents", read)[0].text)
                        case "call":
                            tasks.start_soon(call, client, command)
                            say(calling=command["id"], pid=os.getpid())
                        case "stop":
                            at = now()
                            calls[command["id"]].cancel()
                            say(stopping=command["id"], at=at)
                        case "close":
                            closing = now()
                            break
                else:
                    return
        finally:
            tasks.cancel_scope.deadline = anyio.current_time() + 5
    say(closed=True, at=closing)


async def main():
    rest = commands()
    command = await anext(rest)
    mode = command["revision"] if command["revision"] >= "2026" else "legacy"
    make = mcp_client if WHICH == "mcp" else fastmcp_client
    try:
        target = command.get("url") or command["command"]
        await serve(make(target, mode, command.get("answers")), rest)
    except Exception as error:
        say(failed="session", error=repr(error))


asyncio.run(main())
