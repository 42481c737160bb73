#!/usr/bin/env python3
"""An agent in fifteen lines, for `backend: command`: it notes what it was asked in the team's document."""
import json, os, sys, urllib.request

turn = json.loads(sys.stdin.readline())
token = open(os.environ["AGENT_WORKER_MCP_TOKEN_FILE"]).read()

def call(tool, **arguments):
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + token}
    request = urllib.request.Request(os.environ["AGENT_WORKER_MCP_URL"], json.dumps(request).encode(), headers)
    result = json.load(urllib.request.urlopen(request))["result"]
    return json.loads(result["content"][0]["text"])

noted = call("document_append", content=f"- {turn['agent']} was asked: {turn['woken_by']}\n")
print(f"Noted in {noted['file']}.")
