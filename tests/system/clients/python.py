"""The Python SDK's client: lists tools and resources and sends a message. `stdio COMMAND…` or `http URL TOKEN`."""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client


def server(how, first, *rest):
    if how == "http":
        http = create_mcp_http_client(headers={"Authorization": f"Bearer {rest[0]}"})
        return streamable_http_client(first, http_client=http)
    return StdioServerParameters(command=first, args=list(rest), env=dict(os.environ))


async def main():
    async with Client(server(*sys.argv[1:])) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        place = {} if "inbox_check" in tools else {"target": "@team"}
        sent = await client.call_tool("channel_send", {**place, "message": "said by a client"})
        refused = await client.call_tool("proposal_status", {**place, "proposal": 99})
        resources = (await client.list_resources()).resources
        read = await client.read_resource("aw://team/main/channel")
        prompts = (await client.list_prompts()).prompts
        print(
            json.dumps(
                {
                    "tools": tools,
                    "sent": sent.structured_content,
                    "refused": refused.is_error and refused.structured_content["code"],
                    "resources": [str(resource.uri) for resource in resources],
                    "read": "said by a client" in read.contents[0].text,
                    "prompts": [prompt.name for prompt in prompts],
                }
            )
        )


asyncio.run(main())
