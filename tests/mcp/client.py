"""Calls Callboard as an assistant does. Usage: client.py PROGRAM CALLS [FLAG...] calls `PROGRAM mcp FLAG...`, and
client.py URL CALLS HEADERS a server, where CALLS is a JSON list of [method, arguments]. Prints the answer to each call on
a line, and the progress that it brought."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator

import httpx2
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


@asynccontextmanager
async def connected(target: str, rest: list[str]) -> AsyncIterator[tuple[Any, dict[str, Any]]]:
    """The assistant, and the greeting of the server."""
    if target.startswith("http"):
        async with (
            httpx2.AsyncClient(headers=json.loads(rest[0]), timeout=60) as http,
            Client(streamable_http_client(target, http_client=http)) as client,
        ):
            info = client.server_info
            name = info.name if info else None
            yield client, {"name": name, "instructions": client.instructions, "version": client.protocol_version}
        return
    server = StdioServerParameters(command=target, args=["mcp", *rest], env=dict(os.environ))
    async with stdio_client(server) as (reads, writes), ClientSession(reads, writes) as session:
        told = await session.initialize()
        version = told.protocol_version
        yield session, {"name": told.server_info.name, "instructions": told.instructions, "version": version}


async def main() -> None:
    target, calls, *rest = sys.argv[1:]
    async with connected(target, rest) as (session, greeting):
        print(json.dumps(greeting), flush=True)
        for method, given in json.loads(calls):
            progress: list[str | None] = []

            async def seen(at: float, total: float | None, message: str | None) -> None:
                progress.append(message)

            try:
                if method == "call_tool":
                    answer = await session.call_tool(given["name"], given["arguments"], progress_callback=seen)
                elif method == "read_resource":
                    answer = await session.read_resource(given)
                else:
                    answer = await getattr(session, method)()
                shown = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
            except Exception as error:
                shown = {"raised": str(error)}
            print(json.dumps({"answer": shown, "progress": progress}), flush=True)


asyncio.run(main())
