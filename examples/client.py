#!/usr/bin/env python3
"""Runs a team over HTTP and prints the answers of its agents. Needs only Python.

    export AGENT_WORKER_TOKEN=$(agent-worker token create app --allow read,run)
    python3 examples/client.py http://127.0.0.1:5099 examples/hello.yaml who=Ada

`agent-worker daemon status` prints the address. docs/reference/api.md describes every route.
"""
import json, os, sys, urllib.error, urllib.request
from pathlib import Path

address, file, *params = sys.argv[1:]


def call(route, body):
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["AGENT_WORKER_TOKEN"]}
    request = urllib.request.Request(address + route, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        problem = json.load(error)
        sys.exit(f"{problem['message']}\n{problem.get('hint', '')}".strip())


# The reply comes when the run has ended. The run continues if this program is stopped before.
path = Path(file).resolve()
values = dict(param.split("=", 1) for param in params)
report = call("/serve", {"file": str(path), "cwd": os.getcwd(), "params": values})
for agent, answer in report["answers"].items():
    print(f"{agent}: {answer['text']}")
print(report["outcome"])
sys.exit(0 if report["outcome"] == "done" else 1)
