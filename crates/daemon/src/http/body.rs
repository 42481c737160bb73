//! Request bodies. A body is read only after the caller's permission was checked, up to the limit of its route. The
//! bodies in memory have a budget for each kind of caller, and each agent and each client has a share of it.

use std::time::Duration;

use agent_worker_kernel::Principal;
use agent_worker_protocol::{Code, Permission, Problem, ProblemDetails};
use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, header::CONTENT_TYPE},
};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    body_pool::{BodyPool, BodyReservation},
    json_limit::check_value_count,
    token_use::token_key,
};
use crate::{shutdown::Shutdown, write_timeout::PEER_TIMEOUT};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Maximum size of any request body: the largest resource as JSON, plus a margin.
pub(crate) const BODY_LIMIT: usize = 96 * MIB;
/// Maximum size of all bodies of the user in memory. Agents and clients cannot use it up.
const USER_BUDGET: usize = 256 * MIB;
/// Maximum size of all bodies of agents in memory, and of all bodies of clients: more than two of the largest.
const AGENTS_BUDGET: usize = 256 * MIB;
const CLIENTS_BUDGET: usize = 256 * MIB;
/// Maximum size of the bodies of one attempt or one token in memory: one body of the maximum size.
const HOLDER_SHARE: usize = BODY_LIMIT;
/// Maximum number of further bytes that are read and discarded, so that the client is still connected for the
/// response.
const DISCARD_LIMIT: usize = 1024 * MIB;
/// The slowest a body may arrive, in bytes per second, once [`PEER_TIMEOUT`] is used up.
const MIN_BODY_BYTES_PER_SECOND: u64 = 1024 * 1024;
/// Maximum time between two parts of a body.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum size of a route's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLimit {
    /// Names and settings.
    Small,
    /// Documents, and the parameters of a run.
    Text,
    /// Resources, messages that become one, and the output of an attempt.
    Resource,
    /// Any tool call: as large as the tools that the caller may use need.
    Tools,
}

/// The memory for bodies that are being read or handled.
#[derive(Clone)]
pub(crate) struct BodyBudget {
    user: BodyPool,
    agents: BodyPool,
    clients: BodyPool,
}

/// A body in memory, with its share of the budget.
pub(super) struct BufferedBody {
    pub(super) bytes: Bytes,
    pub(super) share: BodyReservation,
}

impl BodyLimit {
    /// Returns the limit for a caller, in bytes.
    pub(super) fn bytes(self, who: &Principal) -> usize {
        let stores_texts = who.may(Permission::Send) || who.may(Permission::Documents);
        match self {
            Self::Resource => BODY_LIMIT,
            Self::Tools if stores_texts => BODY_LIMIT,
            Self::Text => 32 * MIB,
            Self::Small | Self::Tools => 4 * MIB,
        }
    }
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self {
            user: BodyPool::new(USER_BUDGET, USER_BUDGET),
            agents: BodyPool::new(AGENTS_BUDGET, HOLDER_SHARE),
            clients: BodyPool::new(CLIENTS_BUDGET, HOLDER_SHARE),
        }
    }
}

impl BodyBudget {
    fn reserve(&self, who: &Principal) -> BodyReservation {
        let pool = match who {
            Principal::User => &self.user,
            Principal::Agent(_) => &self.agents,
            Principal::Client(_) | Principal::Anonymous => &self.clients,
        };
        pool.reserve(token_key(who).unwrap_or_default())
    }

    /// Reads a body with the content type JSON, up to `limit` bytes. The body is not parsed, but has few enough values
    /// to be parsed into any type.
    pub(super) async fn read_json(
        &self,
        who: &Principal,
        headers: &HeaderMap,
        body: Body,
        limit: usize,
    ) -> Result<BufferedBody, Problem> {
        let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if !kind.eq_ignore_ascii_case(b"application/json") {
            let message = "the body's `Content-Type` must be application/json";
            return Err(Problem::new(Code::BadRequest, message));
        }
        let body = collect(body, limit, self.reserve(who)).await?;
        check_value_count(&body.bytes)?;
        Ok(body)
    }
}

/// Reads and discards the body of a refused request for a moment, so that the client can read the response.
pub(super) async fn discard(body: Body, shutdown: Shutdown) {
    let mut body = body;
    let mut size = 0;
    let drain = async {
        while let Some(Ok(frame)) = body.frame().await {
            size += frame.data_ref().map_or(0, Bytes::len);
            if size > DISCARD_LIMIT {
                break;
            }
        }
    };
    tokio::select! {
        _ = timeout(PEER_TIMEOUT, drain) => {}
        () = shutdown.streams_closed() => {}
    }
}

/// Returns the time limit for the first `size` bytes of a body, from its start; sending single bytes gains no time.
fn time_allowed(size: usize) -> Duration {
    PEER_TIMEOUT + Duration::from_millis(size as u64 * 1000 / MIN_BODY_BYTES_PER_SECOND)
}

async fn collect(
    mut body: Body,
    limit: usize,
    mut share: BodyReservation,
) -> Result<BufferedBody, Problem> {
    let mut kept = BytesMut::new();
    let mut refusal = None;
    let mut size = 0;
    let begun = Instant::now();
    let late = |_| Problem::new(Code::BadRequest, "timeout while reading the request body");
    while let Some(frame) = {
        let deadline = (begun + time_allowed(size)).min(Instant::now() + STALL_TIMEOUT);
        timeout_at(deadline, body.frame()).await.map_err(late)?
    } {
        let broken =
            |_| Problem::new(Code::BadRequest, "the request body could not be read to its end");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        size += data.len();
        if refusal.is_none() {
            refusal = if size > limit { Some(too_large(limit)) } else { share.grow_to(size).err() };
        }
        match refusal {
            None => kept.extend_from_slice(&data),
            Some(_) if size <= DISCARD_LIMIT => {
                // The rest is only read, so that the client is still connected for the response.
                kept = BytesMut::new();
                share.release();
            }
            Some(_) => break,
        }
    }
    match refusal {
        Some(problem) => Err(problem),
        None => Ok(BufferedBody { bytes: kept.freeze(), share }),
    }
}

fn too_large(limit: usize) -> Problem {
    let message = format!("the request is longer than {limit} bytes");
    Problem::new(Code::TooLarge, message).with_details(ProblemDetails::BodyTooLarge { limit })
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        pin::Pin,
        task::{Context, Poll},
    };

    use axum::body::HttpBody;
    use hyper::body::Frame;

    use super::*;

    #[tokio::test]
    async fn a_body_takes_its_part_of_the_budget_until_it_is_dropped() {
        let pool = BodyPool::new(10, 10);
        let read = |size: usize, limit: usize| {
            collect(Body::from(vec![b' '; size]), limit, pool.reserve(String::new()))
        };
        let first = read(6, 100).await.unwrap_or_else(|_| panic!("there is room"));
        assert_eq!((first.bytes.len(), pool.available()), (6, 4));
        let second = read(5, 100).await.map(|_| ()).unwrap_err();
        assert_eq!((second.code, pool.available()), (Code::Unavailable, 4));
        let third = read(3, 2).await.map(|_| ()).unwrap_err();
        assert_eq!((third.code, pool.available()), (Code::TooLarge, 4));
        drop(first);
        assert!(read(10, 100).await.is_ok());
        assert_eq!(pool.available(), 10);
    }

    /// A body of 4 MiB, followed by single bytes.
    struct TrickleBody {
        start: Option<Bytes>,
        interval: tokio::time::Interval,
    }

    impl HttpBody for TrickleBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if let Some(start) = self.start.take() {
                return Poll::Ready(Some(Ok(Frame::data(start))));
            }
            let tick = self.interval.poll_tick(cx);
            tick.map(|_| Some(Ok(Frame::data(Bytes::from_static(b" ")))))
        }
    }

    /// Returns the time after which a body is refused that continues with one byte every `interval`.
    async fn time_until_refusal(interval: Duration) -> Duration {
        let (begun, pool) = (Instant::now(), BodyPool::new(BODY_LIMIT, BODY_LIMIT));
        let interval = tokio::time::interval_at(begun + interval, interval);
        let body = TrickleBody { start: Some(vec![b' '; 4 * MIB].into()), interval };
        let read = collect(Body::new(body), BODY_LIMIT, pool.reserve(String::new())).await;
        assert_eq!(read.map(|_| ()).unwrap_err().code, Code::BadRequest);
        assert_eq!(pool.available(), BODY_LIMIT);
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_body_is_refused_early_and_a_slow_one_after_the_time_for_its_size() {
        assert_eq!(time_until_refusal(Duration::from_mins(1)).await, STALL_TIMEOUT);
        let slow = time_until_refusal(Duration::from_secs(4)).await;
        assert_eq!(slow, PEER_TIMEOUT + Duration::from_secs(4));
    }
}
