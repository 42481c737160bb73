"""Talks to a running team over MCP, as any MCP client can: lists the tools, sends a message, reads the channel.

    pip install mcp
    agent-worker start examples/hello.yaml --background
    python3 examples/mcp_client.py @hello "@greeter please greet Ada"

The client starts `agent-worker mcp`, which connects to your daemon; it needs no port and no token. docs/how-to/mcp.md shows how to add
agent-worker to Claude Code, Codex and other programs.
"""
import asyncio, os, sys

from mcp import Client, StdioServerParameters

program = os.environ.get("AGENT_WORKER", "agent-worker")


async def main(target, message):
    server = StdioServerParameters(command=program, args=["mcp"], env=dict(os.environ))
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        print("tools:", ", ".join(tool.name for tool in tools))
        sent = await client.call_tool("channel_send", {"target": target, "message": message})
        if sent.is_error:
            sys.exit(sent.content[0].text)
        print("sent as message", sent.structured_content["seq"])
        workflow, _, tag = target.removeprefix("@").partition(":")
        channel = await client.read_resource(f"aw://{workflow}/{tag or 'main'}/channel")
        print(channel.contents[0].text)


asyncio.run(main(*sys.argv[1:]))
