//! A client of the daemon's `/mcp`, as small as the protocol allows: what is measured is the other side.

use agent_worker_host::Daemon;
use anyhow::{Context as _, ensure};
use bytes::Bytes;
use hyper::{
    Request,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde_json::{Value, json};

const REVISION: &str = "2026-07-28";

/// One request, written down once and asked as often as wanted over one connection.
#[derive(Clone)]
pub(crate) struct McpRequest {
    method: &'static str,
    name: &'static str,
    body: Bytes,
}

impl McpRequest {
    /// `tools/list`
    pub(crate) fn list() -> Self {
        Self::new("tools/list", "", json!({}))
    }

    /// `tools/call` of this tool.
    pub(crate) fn call(tool: &'static str, args: &Value) -> Self {
        Self::new("tools/call", tool, json!({ "name": tool, "arguments": args }))
    }

    fn new(method: &'static str, name: &'static str, mut params: Value) -> Self {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        Self { method, name, body: body.to_string().into() }
    }

    /// Asks, and answers with the result; anything but a success is an error.
    pub(crate) async fn ask(&self, daemon: &Daemon) -> anyhow::Result<Value> {
        let request = Request::post("/mcp")
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("MCP-Protocol-Version", REVISION)
            .header("Mcp-Method", self.method)
            .header("Mcp-Name", self.name)
            .body(self.body.clone())?;
        let answer = daemon.exchange(request).await?;
        let body = || String::from_utf8_lossy(answer.body()).into_owned();
        let mut reply: Value = serde_json::from_slice(answer.body()).with_context(body)?;
        let result = reply["result"].take();
        ensure!(result.is_object() && result["isError"] != json!(true), "{}", body());
        Ok(result)
    }
}
