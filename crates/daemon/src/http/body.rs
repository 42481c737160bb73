//! Request bodies. A body is read only after the caller's permission was checked, up to the limit of its route, and
//! all bodies that are in memory at once share a budget.

use std::{sync::Arc, time::Duration};

use agent_worker_kernel::Principal;
use agent_worker_protocol::{Code, Permission, Problem, ProblemDetails};
use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, header::CONTENT_TYPE},
};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};

use crate::{shutdown::Shutdown, write_timeout::PEER_TIMEOUT};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Maximum size of any request body: the largest resource as JSON, plus a margin.
pub(crate) const BODY_LIMIT: usize = 96 * MIB;
/// Maximum size of all bodies of clients in memory.
const CLIENTS_BUDGET: usize = 128 * MIB;
/// Maximum size of all bodies of the user and of agents in memory. Clients cannot use it up.
const OWN_BUDGET: usize = 256 * MIB;
/// Maximum number of further bytes that are read and discarded, so that the client is still connected for the
/// response.
const DISCARD_LIMIT: usize = 1024 * MIB;
/// The slowest a body may arrive, in bytes per second, once [`PEER_TIMEOUT`] is used up.
const MIN_BODY_BYTES_PER_SECOND: u64 = 1024 * 1024;

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
    clients: Arc<Semaphore>,
    own: Arc<Semaphore>,
}

/// A body in memory, with its share of the budget.
pub(super) struct BufferedBody {
    pub(super) bytes: Bytes,
    pub(super) share: Option<OwnedSemaphorePermit>,
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
        let pool = |bytes: usize| Arc::new(Semaphore::new(bytes / KIB));
        Self { clients: pool(CLIENTS_BUDGET), own: pool(OWN_BUDGET) }
    }
}

impl BodyBudget {
    fn pool(&self, who: &Principal) -> Arc<Semaphore> {
        match who {
            Principal::User | Principal::Agent(_) => Arc::clone(&self.own),
            Principal::Client(_) | Principal::Anonymous => Arc::clone(&self.clients),
        }
    }

    /// Reads a body with the content type JSON, up to `limit` bytes.
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
        collect(body, limit, self.pool(who)).await
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
    pool: Arc<Semaphore>,
) -> Result<BufferedBody, Problem> {
    let mut kept = BytesMut::new();
    let mut share = Share { pool, permit: None };
    let mut refusal = None;
    let mut size = 0;
    let begun = Instant::now();
    let late = |_| Problem::new(Code::BadRequest, "timeout while reading the request body");
    while let Some(frame) =
        timeout_at(begun + time_allowed(size), body.frame()).await.map_err(late)?
    {
        let broken =
            |_| Problem::new(Code::BadRequest, "the request body could not be read to its end");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        size += data.len();
        if refusal.is_none() {
            refusal = if size > limit {
                Some(too_large(limit))
            } else if share.grow_to(size) {
                None
            } else {
                Some(Problem::new(
                    Code::Unavailable,
                    "the daemon is reading as many request bodies as it can hold; try again",
                ))
            };
        }
        match refusal {
            None => kept.extend_from_slice(&data),
            Some(_) if size <= DISCARD_LIMIT => {
                // The rest is only read, so that the client is still connected for the response.
                kept = BytesMut::new();
                share.permit = None;
            }
            Some(_) => break,
        }
    }
    match refusal {
        Some(problem) => Err(problem),
        None => Ok(BufferedBody { bytes: kept.freeze(), share: share.permit }),
    }
}

fn too_large(limit: usize) -> Problem {
    let message = format!("the request is longer than {limit} bytes");
    Problem::new(Code::TooLarge, message).with_details(ProblemDetails::BodyTooLarge { limit })
}

/// The part of a budget that one body has taken, one permit per KiB.
struct Share {
    pool: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// Takes as much as a body of `size` bytes needs; returns false if the budget is used up.
    fn grow_to(&mut self, size: usize) -> bool {
        let taken = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = size.div_ceil(KIB).saturating_sub(taken);
        let Ok(missing) = u32::try_from(missing) else { return false };
        match Arc::clone(&self.pool).try_acquire_many_owned(missing) {
            Err(_) => false,
            Ok(more) => {
                match &mut self.permit {
                    Some(permit) => permit.merge(more),
                    none @ None => *none = Some(more),
                }
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_takes_its_part_of_the_budget_until_it_is_dropped() {
        let pool = Arc::new(Semaphore::new(10));
        let read = |size: usize, limit: usize| {
            collect(Body::from(vec![b' '; size]), limit, Arc::clone(&pool))
        };
        let first = read(6 * KIB, 100 * KIB).await.unwrap_or_else(|_| panic!("there is room"));
        assert_eq!((first.bytes.len(), pool.available_permits()), (6 * KIB, 4));
        let second = read(5 * KIB, 100 * KIB).await.map(|_| ()).unwrap_err();
        assert_eq!((second.code, pool.available_permits()), (Code::Unavailable, 4));
        let third = read(3 * KIB, 2 * KIB).await.map(|_| ()).unwrap_err();
        assert_eq!((third.code, pool.available_permits()), (Code::TooLarge, 4));
        drop(first);
        assert!(read(10 * KIB, 100 * KIB).await.is_ok());
        assert_eq!(pool.available_permits(), 10);
    }
}
