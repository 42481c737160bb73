"""The Python client that openapi-python-client generates: writes, then reads by every GET route, as the user on the socket.
Arguments: FOLDER (of the generated package `aw_client`), SOCKET, DOCUMENT, PROJECT. Prints the routes that it called."""

import importlib
import inspect
import json
import re
import sys
from datetime import datetime

import httpx

folder, socket, document, project = sys.argv[1:]
sys.path.insert(0, folder)
from aw_client import Client, models  # noqa: E402

client = Client(base_url="http://localhost", httpx_args={"transport": httpx.HTTPTransport(uds=socket)})
paths = json.load(open(document))["paths"]
called = []


def plain(value):
    """Returns a model or a reply as plain values. Times are compared as times: the model writes them in another form."""
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value):
        return datetime.fromisoformat(value)
    return value


def call(method, path, /, **values):
    """Calls the generated function of a route. Its model of the reply must contain the reply, whole."""
    operation = paths[path][method]
    module = importlib.import_module(f"aw_client.api.{operation['tags'][0]}.{operation['operationId']}")
    accepted = inspect.signature(module.sync_detailed).parameters
    values = {name: value for name, value in values.items() if name in accepted}
    response = module.sync_detailed(client=client, **values)
    called.append(f"{method.upper()} {path}")
    assert response.status_code == 200, (method, path, response)
    content = operation["responses"]["200"].get("content", {})
    if "application/json" in content:
        assert plain(response.parsed) == plain(json.loads(response.content)), (method, path, response)
    return response.parsed


def body(name, /, **fields):
    return getattr(models, name).from_dict(fields)


team = {"target": "@team", "project": project}
request = {"file": f"{project}/team.yaml", "cwd": project}
served = call("post", "/serve", body=body("RunRequest", **request))
assert served.outcome == models.Verdict.DONE and served.error is None, served
run = call("post", "/runs", body=body("RunRequest", **request, mode="start")).run
sent = call("post", "/messages", body=body("SendRequest", **team, message="@coder hello"))
assert [str(agent) for agent in sent.woken] == ["coder"], sent
call("post", "/documents/{path}", path="plans/first.md", body=body("DocumentRequest", **team, mode="create", content="One."))
call("post", "/documents/{path}", path="notes.md", body=body("DocumentRequest", **team, mode="create", content="Notes."))
resource = call("post", "/resources", body=body("ResourceRequest", **team, content="A log."))
made = call("post", "/proposals", body=body("ProposalRequest", **team, title="Ship?", electorate=["user"]))
voted = call("post", "/proposals/{id}/vote", id=made.proposal, body=body("VoteRequest", **team, choice="approve"))
assert voted.state == "resolved" and voted.winner == "approve", voted
call("post", "/feedback", body=body("FeedbackRequest", message="clear"))
call("post", "/tokens", body=body("TokenRequest", name="other"))
call("post", "/agents", body=body("AgentRequest", name="helper", backend="mock"))
call("post", "/agents/{target}/stop", target="helper", now=True)
call("post", "/agents/{target}/resume", target="helper")
assert call("post", "/runs/{id}/pause", id=run).state == "paused"
assert call("post", "/runs/{id}/resume", id=run, body=body("ResumeRequest")).state == "running"

turns = call("get", "/turns", **team)
values = {
    "/turns/{id}": {"id": turns.items[0].turn},
    "/agents/{target}": {"target": "coder@team"},
    "/agents/{target}/tools": {"target": "coder@team"},
    "/proposals/{id}": {**team, "id": made.proposal},
    "/runs/{id}": {"id": run},
    "/messages/{seq}/receipts": {**team, "seq": sent.seq},
    "/resources/{id}": {**team, "id": resource.id},
    "/logs": {"target": "coder@team"},
    "/inbox": {"target": "coder@team"},
    "/events": {"run": served.run},
}
for path, operations in paths.items():
    # The stream of an MCP session needs a session of that protocol.
    if "get" in operations and path != "/mcp":
        call("get", path, **values.get(path, {**team, "path": "plans/first.md"}))
call("post", "/runs/{id}/stop", id=run, now=True)
print(json.dumps(called))
