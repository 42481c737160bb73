//! Limits the number of event streams that one token has open.

use agent_worker_host::KeyedLimit;
use agent_worker_kernel::Principal;
use agent_worker_protocol::{Code, Problem};
use axum::response::{IntoResponse as _, Response};

use super::{problem_response::ProblemResponse, token_use::token_key};
use crate::{backpressure::EndlessStream, guarded_body::guard_body};

/// Maximum number of open streams of one token.
const MAX_STREAMS_PER_TOKEN: usize = 32;

/// The number of open streams of each token.
#[derive(Clone, Debug)]
pub(crate) struct StreamCounts(KeyedLimit);

impl Default for StreamCounts {
    fn default() -> Self {
        Self(KeyedLimit::new(MAX_STREAMS_PER_TOKEN))
    }
}

impl StreamCounts {
    /// Counts a response that is a stream, until its end; refuses a stream beyond the limit. Other responses stay
    /// unchanged.
    pub(super) fn bind_stream(&self, answer: Response, who: &Principal) -> Response {
        let Some(token) = token_key(who) else { return answer };
        if answer.extensions().get::<EndlessStream>().is_none() {
            return answer;
        }
        if let Some(place) = self.0.acquire(token) {
            return answer.map(|body| guard_body(body, place));
        }
        let message =
            format!("this token has {MAX_STREAMS_PER_TOKEN} open streams; close one first");
        ProblemResponse::from(Problem::new(Code::Limit, message)).into_response()
    }
}
