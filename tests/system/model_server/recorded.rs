//! Responses that the server sends as they are: recorded streams and error bodies of providers.

use std::{io, net::TcpStream};

use super::http;

/// A response with its status and its fields.
#[derive(Clone, Debug)]
pub(crate) struct RecordedResponse {
    status: u16,
    fields: Vec<(&'static str, String)>,
    content: RecordedContent,
}

#[derive(Clone, Debug)]
enum RecordedContent {
    /// A body of known length.
    Body(String),
    /// A stream with its end.
    Stream(String),
    /// A stream whose connection breaks after these bytes.
    CutStream(String),
}

impl RecordedResponse {
    /// Returns an error with this body.
    pub(crate) fn error(status: u16, body: &str) -> Self {
        Self { status, fields: Vec::new(), content: RecordedContent::Body(body.to_owned()) }
    }

    /// Returns a stream of events.
    pub(crate) fn stream(events: &str) -> Self {
        let content = RecordedContent::Stream(events.to_owned());
        Self { status: 200, fields: Vec::new(), content }
    }

    /// Returns a stream whose connection breaks after these events.
    pub(crate) fn cut_stream(events: &str) -> Self {
        let content = RecordedContent::CutStream(events.to_owned());
        Self { status: 200, fields: Vec::new(), content }
    }

    /// Returns the response with a retry delay.
    pub(crate) fn with_retry_after(mut self, delay: &str) -> Self {
        self.fields.push(("retry-after", delay.to_owned()));
        self
    }

    /// Writes the response. A piece of a stream may end inside of an event.
    pub(super) fn write(&self, visitor: &TcpStream) -> io::Result<()> {
        let (events, is_whole) = match &self.content {
            RecordedContent::Body(body) => {
                let fields = self.fields.iter().map(|(name, value)| (*name, value.as_str()));
                let fields: Vec<_> = fields.collect();
                return http::write_response(visitor, self.status, &fields, body);
            }
            RecordedContent::Stream(events) => (events, true),
            RecordedContent::CutStream(events) => (events, false),
        };
        http::begin_stream(visitor)?;
        let mut rest = events.as_str();
        while !rest.is_empty() {
            let end = rest.ceil_char_boundary(rest.len().min(97));
            http::chunk(visitor, &rest[..end])?;
            rest = &rest[end..];
        }
        if is_whole { http::chunk(visitor, "") } else { Ok(()) }
    }
}
