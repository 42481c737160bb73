//! A message for the daemon's MCP door, and its answer as it comes: one message, or several over time.

use std::str::FromStr as _;

use agent_worker_protocol::{Code, Problem};
use bytes::Bytes;
use hyper::{
    Method, Request,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};

use crate::{
    dial::{Daemon, DialError, lost},
    event_stream::EventStream,
};

const PATH: &str = "/mcp";
const BOTH: &str = "application/json, text/event-stream";
const STREAM: &str = "text/event-stream";

/// What is done there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saying {
    /// A message is said.
    Message(String),
    /// A session's stream is opened.
    Listen,
    /// A session is ended.
    Farewell,
}

/// What came back.
pub struct Heard {
    /// The status.
    pub status: u16,
    headers: HeaderMap,
    /// The rest.
    pub what: What,
}

/// What an answer holds.
pub enum What {
    /// All of it at once; often nothing.
    Whole(String),
    /// Messages, one after the other.
    Stream(Box<EventStream>),
}

impl Heard {
    /// One of its headers.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl Daemon {
    /// Says something at the MCP door, with these headers besides.
    pub async fn talk(
        &self,
        saying: &Saying,
        headers: &[(&str, &str)],
    ) -> Result<Heard, DialError> {
        let (method, accept, body) = match saying {
            Saying::Message(text) => (Method::POST, BOTH, Bytes::from(text.clone())),
            Saying::Listen => (Method::GET, STREAM, Bytes::new()),
            Saying::Farewell => (Method::DELETE, BOTH, Bytes::new()),
        };
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = PATH.parse().map_err(|_| unfit(PATH))?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            let header = HeaderName::from_str(name).map_err(|_| unfit(name))?;
            let value = HeaderValue::from_str(value).map_err(|_| unfit(value))?;
            request.headers_mut().insert(header, value);
        }
        let (mut line, answer) = self.ask(request).await?;
        let (head, body) = answer.into_parts();
        let (status, headers) = (head.status.as_u16(), head.headers);
        let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        if head.status.is_success() && kind.starts_with(STREAM.as_bytes()) {
            let stream = EventStream::new(body, line.into_connection(), None);
            return Ok(Heard { status, headers, what: What::Stream(Box::new(stream)) });
        }
        let body = line.collect(body).await.map_err(lost)?;
        self.keep(line);
        let text = String::from_utf8_lossy(&body).into_owned();
        Ok(Heard { status, headers, what: What::Whole(text) })
    }
}

fn unfit(text: &str) -> DialError {
    let message = format!("`{}` fits no header", text.escape_debug());
    DialError::Refused(Problem::new(Code::BadRequest, message))
}
