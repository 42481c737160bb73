//! Live events of the log: server-sent events, each with the id from which a client can resume.

use std::{future::poll_fn, pin::Pin, task::Poll};

use agent_worker_protocol::Event;
use futures_core::Stream as _;
use hyper::body::Incoming;
use sse_stream::{Error, SseStream};

use crate::{connection::ConnectionDriver, daemon_socket::DialError};

/// Stream of events.
pub struct EventStream {
    events: SseStream<Incoming>,
    driver: ConnectionDriver,
    last_id: String,
}

impl EventStream {
    pub(crate) fn new(body: Incoming, driver: ConnectionDriver, after: Option<String>) -> Self {
        Self { events: SseStream::new(body), driver, last_id: after.unwrap_or_default() }
    }

    /// Returns the id of the last event received, or of the position after which the stream starts.
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// Waits for the next event. `None` means that the daemon ended the stream.
    ///
    /// A client resumes after the returned id. A live-only event has no id of its own and comes with the last one.
    pub async fn next(&mut self) -> Result<Option<(String, Event)>, DialError> {
        let Some(data) = self.next_data().await? else { return Ok(None) };
        let event = serde_json::from_str(&data)
            .map_err(|error| DialError::Garbled { what: format!("an event: {error}") })?;
        Ok(Some((self.last_id.clone(), event)))
    }

    /// Waits for the next event of any kind and returns its data.
    pub async fn next_data(&mut self) -> Result<Option<String>, DialError> {
        loop {
            let Self { events, driver: connection, .. } = self;
            let next = poll_fn(|cx| {
                connection.poll_with(cx, |cx| -> Poll<_> { Pin::new(&mut *events).poll_next(cx) })
            });
            let entry = match next.await {
                None => return Ok(None),
                Some(Ok(entry)) => entry,
                Some(Err(Error::Body(source))) => return Err(DialError::Lost { source }),
                Some(Err(other)) => return Err(DialError::Garbled { what: other.to_string() }),
            };
            if let Some(id) = entry.id {
                self.last_id = id;
            }
            if let Some(data) = entry.data.filter(|data| !data.is_empty()) {
                return Ok(Some(data));
            }
        }
    }
}
