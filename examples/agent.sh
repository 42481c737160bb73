#!/bin/sh
# An agent in ten lines, for `backend: command`: it counts files and tells a colleague.
read -r turn
curl --silent --show-error --fail --config - "$AGENT_WORKER_MCP_URL" >&2 <<END
header = "Authorization: Bearer $(cat "$AGENT_WORKER_MCP_TOKEN_FILE")"
header = "Content-Type: application/json"
data = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"channel_send\",\"arguments\":{\"message\":\"@clerk there are $(ls | wc -l) files here\"}}}"
END
echo '{"kind":"finished","text":"Counted."}'
