//! Places for the connections of a TCP server, so that silent visitors cannot keep clients with a token out.
//!
//! A connection is silent until one of its requests had a valid token. Silent connections get at most half of the places
//! and a short time; a new one takes the place of the oldest. A connection with a token keeps its place, and each token
//! has a limited number of places.

use std::{
    collections::BTreeMap,
    future::pending,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use agent_worker_protocol::sync;
use tokio::{sync::Notify, time::sleep};

use crate::keyed_limit::{KeyedLimit, KeyedPlace};

/// Time that a connection has for a request with a valid token.
pub const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// The places of one server.
#[derive(Clone, Debug)]
pub struct ConnectionLimits(Arc<LimitsInner>);

#[derive(Debug)]
struct LimitsInner {
    maximum: usize,
    places: Mutex<Places>,
    /// The connections of each token.
    tokens: KeyedLimit,
    /// Wakes the accept loop when a place becomes free.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Places {
    next: u64,
    /// The silent connections, the oldest first; each is closed by its signal.
    silent: BTreeMap<u64, Arc<Notify>>,
    /// Number of connections with a token.
    known: usize,
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub struct ConnectionPlace {
    limits: ConnectionLimits,
    id: u64,
    evicted: Arc<Notify>,
    /// The place among the connections of its token, once a request had a valid one.
    known: Mutex<Option<KeyedPlace>>,
}

impl ConnectionLimits {
    /// Creates the places of a server: in total, and for each token.
    pub fn new(maximum: usize, per_token: usize) -> Self {
        let (places, tokens) = (Mutex::default(), KeyedLimit::new(per_token));
        let inner = LimitsInner { maximum, places, tokens, freed: Notify::new() };
        Self(Arc::new(inner))
    }

    /// Waits until a connection can be accepted: until connections with a token leave a place.
    pub async fn wait_for_room(&self) {
        loop {
            let freed = self.0.freed.notified();
            if self.places().known < self.0.maximum {
                return;
            }
            freed.await;
        }
    }

    /// Gives a place to a new connection, and closes the oldest silent connection if there is none left.
    pub fn admit(&self) -> Arc<ConnectionPlace> {
        let mut places = self.places();
        let is_full = places.silent.len() >= self.0.maximum.div_ceil(2)
            || places.silent.len() + places.known >= self.0.maximum;
        if is_full && let Some((_, oldest)) = places.silent.pop_first() {
            oldest.notify_one();
        }
        let (id, evicted) = (places.next, Arc::new(Notify::new()));
        places.next += 1;
        places.silent.insert(id, Arc::clone(&evicted));
        drop(places);
        let limits = self.clone();
        Arc::new(ConnectionPlace { limits, id, evicted, known: Mutex::default() })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        sync::lock(&self.0.places)
    }
}

impl ConnectionPlace {
    /// Records that a request of the connection had a valid token. Returns false, and records nothing, if all places of
    /// this token are taken.
    pub fn keep(&self, token: String) -> bool {
        let mut known = sync::lock(&self.known);
        if known.is_some() {
            return true;
        }
        let Some(place) = self.limits.0.tokens.acquire(token) else { return false };
        let mut places = self.limits.places();
        // A connection that lost its place is being closed.
        if places.silent.remove(&self.id).is_some() {
            places.known += 1;
            *known = Some(place);
        }
        true
    }

    /// Completes when the connection must be closed. Never completes for a connection with a token.
    pub async fn expired(&self) {
        tokio::select! {
            () = self.evicted.notified() => {}
            () = sleep(TOKEN_TIMEOUT) => {
                if sync::lock(&self.known).is_some() {
                    pending::<()>().await;
                }
            }
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let is_known = sync::lock(&self.known).is_some();
        let mut places = self.limits.places();
        if is_known {
            places.known -= 1;
        } else {
            places.silent.remove(&self.id);
        }
        drop(places);
        self.limits.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin, task::Poll};

    use tokio::time::{Instant, timeout};

    use super::*;

    fn keep(place: &Arc<ConnectionPlace>) {
        assert!(place.keep("token".to_owned()));
    }

    /// Returns true if the connection must be closed now.
    async fn is_expired(place: &ConnectionPlace) -> bool {
        let mut expired = pin!(place.expired());
        poll_fn(|cx| Poll::Ready(expired.as_mut().poll(cx).is_ready())).await
    }

    #[tokio::test]
    async fn silent_connections_get_half_of_the_places_and_the_oldest_goes_first() {
        let limits = ConnectionLimits::new(4, 4);
        let (first, second) = (limits.admit(), limits.admit());
        assert!(!is_expired(&first).await);
        let third = limits.admit();
        assert!(is_expired(&first).await);
        assert!(!is_expired(&second).await && !is_expired(&third).await);
    }

    #[tokio::test]
    async fn a_connection_with_a_token_keeps_its_place() {
        let limits = ConnectionLimits::new(4, 4);
        let known: Vec<_> = (0..3).map(|_| limits.admit()).inspect(keep).collect();
        let silent = limits.admit();
        // The last place goes from one silent connection to the next.
        let next = limits.admit();
        assert!(is_expired(&silent).await && !is_expired(&next).await);
        keep(&next);
        drop(silent);
        let room = limits.wait_for_room();
        assert!(timeout(Duration::from_millis(1), room).await.is_err(), "all places are kept");
        drop(known);
        limits.wait_for_room().await;
    }

    #[tokio::test(start_paused = true)]
    async fn one_token_cannot_take_the_places_of_the_others() {
        let limits = ConnectionLimits::new(4, 2);
        let places: Vec<_> = (0..4).map(|_| limits.admit()).collect();
        let kept = places.iter().map(|place| place.keep("greedy".to_owned()));
        // Two were closed for the last two, and keep nothing.
        assert_eq!(kept.collect::<Vec<_>>(), [true, true, true, true]);
        let (more, other) = (limits.admit(), limits.admit());
        assert!(!more.keep("greedy".to_owned()) && other.keep("modest".to_owned()));
        drop(places);
        assert!(more.keep("greedy".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_token_has_a_short_time() {
        let limits = ConnectionLimits::new(4, 4);
        let (silent, known) = (limits.admit(), limits.admit());
        keep(&known);
        let start = Instant::now();
        silent.expired().await;
        assert_eq!(start.elapsed(), TOKEN_TIMEOUT);
        assert!(timeout(TOKEN_TIMEOUT * 10, known.expired()).await.is_err());
    }
}
