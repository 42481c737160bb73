//! Requests to the daemon's MCP endpoint and their replies: one message, or a stream of several.

use std::str::FromStr as _;

use agent_worker_protocol::{
    Code, Problem,
    mcp_wire::{ACCEPTED_TYPES, EVENT_STREAM_TYPE, MCP_PATH},
};
use bytes::Bytes;
use hyper::{
    Method, Request,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};

use crate::{
    daemon_socket::{DaemonSocket, DialError, connection_lost},
    event_stream::EventStream,
};

/// Request to the MCP endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpAction {
    /// Posts one message.
    Message(String),
    /// Opens the stream of a session.
    Listen,
    /// Ends a session.
    EndSession,
}

/// Reply of the MCP endpoint.
pub struct McpReply {
    /// HTTP status of the reply.
    pub status: u16,
    headers: HeaderMap,
    /// Content of the reply.
    pub body: McpReplyBody,
}

/// Content of a reply.
pub enum McpReplyBody {
    /// A whole text, which is often empty.
    Text(String),
    /// A stream of messages.
    Stream(Box<EventStream>),
}

impl McpReply {
    /// Returns the value of one header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl DaemonSocket {
    /// Sends a request to the MCP endpoint with additional headers.
    pub async fn mcp_exchange(
        &self,
        action: &McpAction,
        headers: &[(&str, &str)],
    ) -> Result<McpReply, DialError> {
        let (method, accept, body) = match action {
            McpAction::Message(text) => (Method::POST, ACCEPTED_TYPES, Bytes::from(text.clone())),
            McpAction::Listen => (Method::GET, EVENT_STREAM_TYPE, Bytes::new()),
            McpAction::EndSession => (Method::DELETE, ACCEPTED_TYPES, Bytes::new()),
        };
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = MCP_PATH.parse().map_err(|_| invalid_header(MCP_PATH))?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            let header = HeaderName::from_str(name).map_err(|_| invalid_header(name))?;
            let value = HeaderValue::from_str(value).map_err(|_| invalid_header(value))?;
            request.headers_mut().insert(header, value);
        }
        let (mut connection, answer) = self.send(request).await?;
        let (head, body) = answer.into_parts();
        let (status, headers) = (head.status.as_u16(), head.headers);
        let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        if head.status.is_success() && kind.starts_with(EVENT_STREAM_TYPE.as_bytes()) {
            let stream = EventStream::new(body, connection.into_driver(), None);
            return Ok(McpReply { status, headers, body: McpReplyBody::Stream(Box::new(stream)) });
        }
        let body = connection.collect(body).await.map_err(connection_lost)?;
        self.keep_connection(connection);
        let text = String::from_utf8_lossy(&body).into_owned();
        Ok(McpReply { status, headers, body: McpReplyBody::Text(text) })
    }
}

fn invalid_header(text: &str) -> DialError {
    let message = format!("`{}` is not valid in a header", text.escape_debug());
    DialError::Refused(Problem::new(Code::BadRequest, message))
}
