"""The first line of the official Python SDK behind the commands of ../parts.py."""

import asyncio
import contextlib
import datetime
import json
import os
import sys
import time

import anyio
import pydantic
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

calls = {}


def say(**event):
    print(json.dumps(event), flush=True)


def now():
    return time.monotonic() * 1000


async def sample(context, params):
    return types.CreateMessageResult(role="assistant", model="none", content=types.TextContent(type="text", text="Ada"))


async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"name": "Ada"} if "name" in str(params) else {"value": "Ada"})


@contextlib.asynccontextmanager
async def session(where):
    if url := where.get("url"):
        transport = streamablehttp_client(url)
    else:
        command, *arguments = where["command"]
        transport = stdio_client(StdioServerParameters(command=command, args=arguments))
    answers = {"sampling_callback": sample, "elicitation_callback": elicit} if where.get("answers") else {}
    async with transport as (read, write, *_), ClientSession(read, write, **answers) as made:
        await made.initialize()
        yield made


async def call(client, command):
    name = command["id"]

    async def progress(value, total, message):
        say(id=name, progress=value, message=message)

    timeout = command.get("timeout_ms")
    timeout = timeout and datetime.timedelta(milliseconds=timeout)
    with anyio.CancelScope() as calls[name]:
        try:
            options = {"read_timeout_seconds": timeout, "progress_callback": progress}
            result = await client.call_tool(command["tool"], command["arguments"], **options)
            say(ended=name, at=now(), result=result.model_dump(mode="json", by_alias=True))
        except Exception as error:
            say(ended=name, at=now(), error=f"{type(error).__name__}: {error}")
        return
    say(ended=name, at=now(), error="cancelled")


async def commands():
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        yield json.loads(line)


async def serve(rest):
    closing = None
    async with session(await anext(rest)) as client:
        say(connected=True)
        tasks = []
        async for command in rest:
            match command["do"]:
                case "list":
                    say(listed=[tool.name for tool in (await client.list_tools()).tools])
                case "prompts":
                    try:
                        await client.list_prompts()
                        say(asked="no error")
                    except Exception as error:
                        say(asked=f"{type(error).__name__}: {error}")
                case "offers":
                    prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
                    read = await client.read_resource(pydantic.AnyUrl(command["resource"]))
                    say(offered=prompts, text=read.contents[0].text)
                case "call":
                    tasks.append(asyncio.create_task(call(client, command)))
                    say(calling=command["id"], pid=os.getpid())
                case "stop":
                    at = now()
                    calls[command["id"]].cancel()
                    say(stopping=command["id"], at=at)
                case "close":
                    closing = now()
                    break
    if closing:
        say(closed=True, at=closing)
    for task in tasks:
        task.cancel()


async def main():
    try:
        await serve(commands())
    except Exception as error:
        say(failed="session", error=repr(error))


asyncio.run(main())
