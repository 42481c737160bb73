//! A pool of memory for request bodies. One holder gets at most its share, so that it cannot keep the others out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use agent_worker_protocol::{Code, Problem, sync};

/// Limits the bytes that are taken at once, in total and by each holder.
#[derive(Clone, Debug)]
pub(super) struct BodyPool {
    size: usize,
    share: usize,
    taken: Arc<Mutex<TakenBytes>>,
}

#[derive(Debug, Default)]
struct TakenBytes {
    total: usize,
    holders: HashMap<String, usize>,
}

/// The bytes that one body has taken, until it is dropped.
#[derive(Debug)]
pub(super) struct BodyReservation {
    pool: BodyPool,
    holder: String,
    size: usize,
}

impl BodyPool {
    /// Creates a pool of `size` bytes, of which one holder gets at most `share`.
    pub(super) fn new(size: usize, share: usize) -> Self {
        Self { size, share, taken: Arc::default() }
    }

    /// Starts a reservation of `holder`, which is empty at first.
    pub(super) fn reserve(&self, holder: String) -> BodyReservation {
        BodyReservation { pool: self.clone(), holder, size: 0 }
    }
}

impl BodyReservation {
    /// Takes as much as a body of `size` bytes needs.
    pub(super) fn grow_to(&mut self, size: usize) -> Result<(), Problem> {
        let more = size.saturating_sub(self.size);
        let mut taken = sync::lock(&self.pool.taken);
        let held = taken.holders.get(&self.holder).copied().unwrap_or_default();
        if held + more > self.pool.share {
            return Err(unavailable(format!(
                "the request bodies of this caller are more than its share of {} MiB; try again",
                self.pool.share >> 20
            )));
        }
        if taken.total + more > self.pool.size {
            let message = "the daemon is reading as many request bodies as it can hold; try again";
            return Err(unavailable(message));
        }
        taken.total += more;
        taken.holders.insert(self.holder.clone(), held + more);
        self.size += more;
        Ok(())
    }

    /// Returns all bytes to the pool.
    pub(super) fn release(&mut self) {
        let mut taken = sync::lock(&self.pool.taken);
        taken.total -= self.size;
        if let Some(held) = taken.holders.get_mut(&self.holder) {
            *held -= self.size;
            if *held == 0 {
                taken.holders.remove(&self.holder);
            }
        }
        self.size = 0;
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        self.release();
    }
}

fn unavailable(message: impl Into<String>) -> Problem {
    Problem::new(Code::Unavailable, message)
}

#[cfg(test)]
impl BodyPool {
    /// Returns the bytes that are not taken.
    pub(super) fn available(&self) -> usize {
        self.size - sync::lock(&self.taken).total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_gets_its_share_and_all_holders_get_the_pool() {
        let pool = BodyPool::new(10, 6);
        let reserve = |holder: &str, size: usize| {
            let mut reservation = pool.reserve(holder.to_owned());
            reservation.grow_to(size).map(|()| reservation)
        };
        let refusal = |holder, size| reserve(holder, size).unwrap_err().message;
        let mut first = reserve("a", 2).unwrap();
        first.grow_to(4).unwrap();
        let second = reserve("a", 2).unwrap();
        assert!(refusal("a", 1).contains("of this caller"));
        assert!(first.grow_to(5).is_err(), "a body that grows has the same limit");
        let other = reserve("b", 4).unwrap();
        assert!(refusal("b", 1).contains("as it can hold"));
        drop(first);
        assert_eq!(pool.available(), 4);
        drop((reserve("a", 4).unwrap(), second, other));
        assert_eq!(pool.available(), 10);
        assert!(sync::lock(&pool.taken).holders.is_empty());
    }
}
