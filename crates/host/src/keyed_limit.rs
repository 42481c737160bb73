//! A limit for each key, such as the number of connections of each token.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use agent_worker_protocol::sync;

/// Limits the number of things that each key has at once.
#[derive(Clone, Debug)]
pub struct KeyedLimit {
    maximum: usize,
    counts: Arc<Mutex<HashMap<String, usize>>>,
}

/// One of the places of a key, until it is dropped.
#[derive(Debug)]
pub struct KeyedPlace {
    limit: KeyedLimit,
    key: String,
}

impl KeyedLimit {
    /// Creates a limit of `maximum` for each key.
    pub fn new(maximum: usize) -> Self {
        Self { maximum, counts: Arc::default() }
    }

    /// Takes a place of `key`. Returns none if all are taken.
    pub fn acquire(&self, key: String) -> Option<KeyedPlace> {
        let mut counts = sync::lock(&self.counts);
        let count = counts.entry(key.clone()).or_default();
        if *count >= self.maximum {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(KeyedPlace { limit: self.clone(), key })
    }
}

impl Drop for KeyedPlace {
    fn drop(&mut self) {
        let mut counts = sync::lock(&self.limit.counts);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_places_and_gets_a_dropped_place_back() {
        let limit = KeyedLimit::new(3);
        let acquire = |key: &str| limit.acquire(key.to_owned());
        let mut taken: Vec<_> = (0..3).map(|_| acquire("a").unwrap()).collect();
        assert!(acquire("a").is_none());
        assert!(acquire("b").is_some());
        taken.pop();
        assert!(acquire("a").is_some());
        taken.clear();
        assert!(sync::lock(&limit.counts).is_empty());
    }
}
