//! A cache of values that many requests read: the client of a token, the live run of an instance, the stopped agents,
//! the deadline of the next vote.
//!
//! Invariant: an entry is invalidated after the COMMIT that may have changed it, and before the reply to that write.
//! No other process writes to this database, so no other event can make an entry stale. A debug build loads the value
//! on every read and compares both.

use std::{
    collections::HashMap,
    fmt::Debug,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard},
};

use agent_worker_protocol::sync;

use crate::error::Result;

/// Bounds the memory that requests for missing keys can use.
const MAX_CACHED_ENTRIES: usize = 1024;

/// A handle to the cache. Clones share the entries.
pub(crate) struct ReadCache<K, V>(Arc<Mutex<ReadCacheEntries<K, V>>>);

struct ReadCacheEntries<K, V> {
    by_key: HashMap<K, V>,
    /// The number of invalidations: a value that was loaded meanwhile may be stale.
    generation: u64,
}

impl<K, V> ReadCache<K, V>
where
    K: Clone + Debug + Eq + Hash,
    V: Clone + Debug + PartialEq,
{
    /// Returns the cached value of this key, else loads it.
    pub(crate) async fn get_or_load<L>(&self, key: &K, load: impl Fn() -> L) -> Result<V>
    where
        L: Future<Output = Result<V>>,
    {
        let (known, before) = self.get(key);
        if let Some(known) = known {
            #[cfg(debug_assertions)]
            self.verify(key, &known, before, load).await;
            return Ok(known);
        }
        let found = load().await?;
        let mut kept = self.entries();
        if kept.generation == before {
            if kept.by_key.len() >= MAX_CACHED_ENTRIES {
                kept.by_key.clear();
            }
            kept.by_key.insert(key.clone(), found.clone());
        }
        Ok(found)
    }

    /// Removes all entries.
    pub(crate) fn invalidate(&self) {
        let mut kept = self.entries();
        kept.by_key.clear();
        kept.generation += 1;
    }

    fn get(&self, key: &K) -> (Option<V>, u64) {
        let kept = self.entries();
        (kept.by_key.get(key).cloned(), kept.generation)
    }

    fn entries(&self) -> MutexGuard<'_, ReadCacheEntries<K, V>> {
        sync::lock(&self.0)
    }

    /// Panics if a cached value is stale. Between a COMMIT and its invalidation both values may differ for a moment.
    #[cfg(debug_assertions)]
    async fn verify<L>(&self, key: &K, known: &V, before: u64, load: impl Fn() -> L)
    where
        L: Future<Output = Result<V>>,
    {
        let began = std::time::Instant::now();
        loop {
            let Ok(found) = load().await else { return };
            if found == *known || self.entries().generation != before {
                return;
            }
            let in_time = began.elapsed() < std::time::Duration::from_secs(5);
            assert!(in_time, "stale cache entry for {key:?}: cached {known:?}, stored {found:?}");
            tokio::task::yield_now().await;
        }
    }
}

impl<K, V> Clone for ReadCache<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, V> Default for ReadCache<K, V> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(ReadCacheEntries { by_key: HashMap::new(), generation: 0 })))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn what_is_known_is_true_until_it_is_forgotten() {
        let (known, truth, looks) = (ReadCache::default(), Cell::new("a"), Cell::new(0));
        let load = || {
            looks.set(looks.get() + 1);
            async { Ok(truth.get()) }
        };
        let find = async || known.get_or_load(&1, load).await.unwrap();
        assert_eq!((find().await, find().await), ("a", "a"));
        // A debug build loads the value on every read.
        assert_eq!(looks.get(), if cfg!(debug_assertions) { 2 } else { 1 });
        truth.set("b");
        known.invalidate();
        assert_eq!(find().await, "b");
    }

    #[tokio::test]
    async fn what_changed_while_it_was_looked_up_is_not_kept() {
        let known = ReadCache::default();
        let load = || async {
            known.invalidate();
            Ok("old")
        };
        known.get_or_load(&1, load).await.unwrap();
        assert_eq!(known.get_or_load(&1, || async { Ok("new") }).await.unwrap(), "new");
    }

    #[tokio::test]
    async fn unknown_keys_do_not_grow_the_cache_without_bound() {
        let known = ReadCache::default();
        for key in 0..3 * MAX_CACHED_ENTRIES {
            known.get_or_load(&key, || async { Ok(()) }).await.unwrap();
        }
        assert!(known.entries().by_key.len() <= MAX_CACHED_ENTRIES);
    }
}
