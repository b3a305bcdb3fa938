"""Calls `callboard mcp` as an assistant does. Usage: client.py PROGRAM CALLS [FLAG...], where CALLS is a JSON list
of [method, arguments]. Prints the answer to each call on a line, and the progress that it brought."""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main() -> None:
    program, calls, *flags = sys.argv[1:]
    server = StdioServerParameters(command=program, args=["mcp", *flags], env=dict(os.environ))
    async with stdio_client(server) as (reads, writes), ClientSession(reads, writes) as session:
        told = await session.initialize()
        print(json.dumps({"instructions": told.instructions, "name": told.server_info.name}), flush=True)
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
