//! Time and randomness as parameters: those of the machine, or reproducible ones for a test.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use agent_worker_protocol::{AttemptId, Hash, Millis, RunId, hash};
use agent_worker_store::{Now, Store, StoreTime};
use tokio::time::Instant;
use uuid::Uuid;

/// A source of the current time. The kernel sleeps by tokio's clock, which is monotonic and which a test can pause.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The clock of the store.
    Store,
    /// The clock of a test.
    Virtual(VirtualClock),
}

/// A clock that follows tokio's, so that pausing tokio's clock pauses both; a test can set its wall clock.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    epoch: Now,
    start: Instant,
    /// Shift of the wall clock, in milliseconds.
    shift: Arc<AtomicI64>,
}

/// A source of ids and secrets.
#[derive(Clone, Debug)]
pub enum RandomSource {
    /// Randomness of the operating system.
    System,
    /// A reproducible sequence for a seed, for tests.
    Seeded(Arc<AtomicU64>),
}

/// The error for an operating system that returns no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system returned no random bytes")]
pub struct RandomnessUnavailable(#[source] getrandom::Error);

impl Clock {
    /// Returns the current time.
    pub(crate) fn now(&self, store: &dyn Store) -> Now {
        match self {
            Self::Store => store.now(),
            Self::Virtual(clock) => clock.now(),
        }
    }

    /// Returns both clocks as saved before this kernel started, if the store knows them.
    pub(crate) fn saved(&self, store: &dyn Store) -> Option<Now> {
        match self {
            Self::Store => store.now_saved(),
            Self::Virtual(_) => None,
        }
    }
}

impl VirtualClock {
    /// Starts at 2026-01-01 on the wall clock and at a different value in store time, so that the two cannot be
    /// confused.
    pub fn start() -> Self {
        let (store, wall) = (StoreTime::new(9_000_000_000), Millis::new(1_767_225_600_000));
        Self { epoch: Now { store, wall }, start: Instant::now(), shift: Arc::default() }
    }

    /// Returns the current time.
    pub fn now(&self) -> Now {
        let Now { store, wall } = self.epoch.plus(self.start.elapsed());
        let shift = self.shift.load(Ordering::Relaxed);
        Now { store, wall: Millis::new(wall.get() + shift) }
    }

    /// Sets the wall clock forward by `by` milliseconds, or back.
    pub fn shift_wall(&self, by: i64) {
        self.shift.fetch_add(by, Ordering::Relaxed);
    }
}

impl RandomSource {
    /// Creates a source with the same sequence for the same `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(AtomicU64::new(seed)))
    }

    /// Returns 32 unpredictable bytes.
    pub fn random_bytes(&self) -> Result<Hash, RandomnessUnavailable> {
        match self {
            Self::System => {
                let mut bytes = Hash::default();
                getrandom::fill(&mut bytes).map_err(RandomnessUnavailable)?;
                Ok(bytes)
            }
            Self::Seeded(state) => {
                let n = state.fetch_add(1, Ordering::Relaxed);
                Ok(hash(&[b"dice", &n.to_le_bytes()]))
            }
        }
    }

    /// Creates the id of a run. Later ids sort after earlier ones.
    pub fn new_run_id(&self, now: Millis) -> Result<RunId, RandomnessUnavailable> {
        self.new_uuid(now).map(RunId::new)
    }

    /// Creates the id of an attempt.
    pub fn new_attempt_id(&self, now: Millis) -> Result<AttemptId, RandomnessUnavailable> {
        self.new_uuid(now).map(AttemptId::new)
    }

    fn new_uuid(&self, now: Millis) -> Result<Uuid, RandomnessUnavailable> {
        let secret = self.random_bytes()?;
        let mut bytes = [0; 10];
        bytes.copy_from_slice(&secret[..10]);
        let millis = u64::try_from(now.get()).unwrap_or(0);
        Ok(uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid())
    }
}
