//! A minimal client of the daemon's `/mcp`, because the server is the subject of the measurement.
//!
//! Each request is serialized once, including its head; each response is read completely and its relevant fields
//! are checked.

use std::{ops::Range, path::Path, sync::Arc};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

const REVISION: &str = "2026-07-28";

/// One serialized request, which can be sent repeatedly.
#[derive(Clone)]
pub(crate) struct McpRequest(Arc<[u8]>);

impl McpRequest {
    /// Builds a `tools/list` request.
    pub(crate) fn list() -> Self {
        Self::new("tools/list", "", "", json!({}))
    }

    /// Builds a `tools/call` request; the connection identifies the caller.
    pub(crate) fn call(tool: &str, args: &Value) -> Self {
        Self::new("tools/call", tool, "", json!({ "name": tool, "arguments": args }))
    }

    /// Builds a `tools/call` request of the client with this token.
    pub(crate) fn call_as(token: &str, tool: &str, args: &Value) -> Self {
        let token = format!("Authorization: Bearer {token}\r\n");
        Self::new("tools/call", tool, &token, json!({ "name": tool, "arguments": args }))
    }

    fn new(method: &str, name: &str, token: &str, mut params: Value) -> Self {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let body = body.to_string();
        let request = format!(
            "POST /mcp HTTP/1.1\r\n\
             Host: localhost\r\n\
             Content-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: {REVISION}\r\n\
             Mcp-Method: {method}\r\n\
             Mcp-Name: {name}\r\n\
             {token}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Self(request.into_bytes().into())
    }
}

/// One persistent connection with one pending request at a time.
pub(crate) struct McpClient {
    stream: UnixStream,
    heard: Vec<u8>,
}

#[derive(Deserialize)]
struct Reply<T> {
    result: T,
}

impl McpClient {
    /// Connects to the daemon's socket.
    pub(crate) async fn connect(socket: &Path) -> anyhow::Result<Self> {
        Ok(Self { stream: UnixStream::connect(socket).await?, heard: Vec::new() })
    }

    /// Sends a request and returns its result; any status except success is an error.
    pub(crate) async fn request<T: DeserializeOwned>(
        &mut self,
        request: &McpRequest,
    ) -> anyhow::Result<T> {
        self.stream.write_all(&request.0).await?;
        self.heard.clear();
        let body = loop {
            let read = self.stream.read_buf(&mut self.heard).await?;
            ensure!(read > 0, "the daemon hung up");
            if let Some(body) = body(&self.heard)? {
                break &self.heard[body];
            }
        };
        let reply: Reply<T> = serde_json::from_slice(body)
            .with_context(|| String::from_utf8_lossy(body).into_owned())?;
        Ok(reply.result)
    }
}

/// Returns the range of a successful response's body, once the body is complete.
fn body(heard: &[u8]) -> anyhow::Result<Option<Range<usize>>> {
    let blank = heard.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(blank) = blank else { return Ok(None) };
    let text = str::from_utf8(&heard[..blank])?;
    ensure!(text.starts_with("HTTP/1.1 200 "), "{}", String::from_utf8_lossy(heard));
    let mut fields = text.lines().filter_map(|line| line.split_once(": "));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.context("an answer without a length")?.1.parse()?;
    let start = blank + 4;
    Ok((heard.len() >= start + length).then_some(start..start + length))
}
