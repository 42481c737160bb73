//! Limits the number of event streams that one token has open.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use agent_worker_kernel::Principal;
use agent_worker_protocol::{Code, Problem, sync};
use axum::{
    body::{Body, HttpBody},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use super::problem_response::ProblemResponse;
use crate::backpressure::EndlessStream;

/// Maximum number of open streams of one token.
const MAX_STREAMS_PER_TOKEN: usize = 32;

/// The number of open streams of each token.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamCounts(Arc<Mutex<HashMap<String, usize>>>);

/// The place of one stream, until it is dropped.
struct StreamPlace {
    counts: StreamCounts,
    token: String,
}

impl StreamCounts {
    /// Counts a response that is a stream, until its end; refuses a stream beyond the limit. Other responses stay
    /// unchanged.
    pub(super) fn bind_stream(&self, answer: Response, who: &Principal) -> Response {
        let token = match who {
            Principal::Client(token) => format!("client {}", token.name),
            Principal::Agent(agent) => format!("attempt {}", agent.attempt),
            Principal::User | Principal::Anonymous => return answer,
        };
        if answer.extensions().get::<EndlessStream>().is_none() {
            return answer;
        }
        if let Some(place) = self.acquire(token) {
            return answer.map(|body| Body::new(CountedBody { body, _place: place }));
        }
        let message =
            format!("this token has {MAX_STREAMS_PER_TOKEN} open streams; close one first");
        ProblemResponse::from(Problem::new(Code::Limit, message)).into_response()
    }

    fn acquire(&self, token: String) -> Option<StreamPlace> {
        let mut counts = sync::lock(&self.0);
        let count = counts.entry(token.clone()).or_default();
        if *count >= MAX_STREAMS_PER_TOKEN {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(StreamPlace { counts: self.clone(), token })
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut counts = sync::lock(&self.counts.0);
        if let Some(count) = counts.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.token);
            }
        }
    }
}

/// A response body that holds the place of its stream.
struct CountedBody {
    body: Body,
    _place: StreamPlace,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_has_its_own_places_and_a_stream_that_ends_gives_its_place_back() {
        let counts = StreamCounts::default();
        let acquire = |token: &str| counts.acquire(token.to_owned());
        let mut open: Vec<_> = (0..MAX_STREAMS_PER_TOKEN).map(|_| acquire("a").unwrap()).collect();
        assert!(acquire("a").is_none());
        assert!(acquire("b").is_some());
        open.pop();
        assert!(acquire("a").is_some());
        open.clear();
        assert!(sync::lock(&counts.0).is_empty());
    }
}
