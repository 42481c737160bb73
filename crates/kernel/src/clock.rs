//! Time and chance, as parameters: the machine's own, or ones a test can replay from a seed.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use agent_worker_protocol::{AttemptId, Hash, Millis, RunId, hash};
use agent_worker_store::{Now, Store, StoreTime};
use tokio::time::Instant;
use uuid::Uuid;

/// Tells the current time. The kernel sleeps by tokio's clock, which is monotonic, and which a test can pause.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The store's clock.
    Store,
    /// A test's clock.
    Virtual(VirtualClock),
}

/// A clock that follows tokio's, so that a test's paused clock moves both, and whose wall clock a test can set.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    epoch: Now,
    start: Instant,
    /// How far the wall clock was set, in milliseconds.
    shift: Arc<AtomicI64>,
}

/// Makes ids and secrets.
#[derive(Clone, Debug)]
pub enum RandomSource {
    /// From the operating system.
    System,
    /// The same ones again for the same seed: for tests.
    Seeded(Arc<AtomicU64>),
}

/// The machine has no randomness to give.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gave no random bytes")]
pub struct RandomnessUnavailable(#[source] getrandom::Error);

impl Clock {
    /// The current time.
    pub(crate) fn now(&self, store: &dyn Store) -> Now {
        match self {
            Self::Store => store.now(),
            Self::Virtual(clock) => clock.now(),
        }
    }

    /// Both clocks as they were before this kernel started, as far as the store knows.
    pub(crate) fn saved(&self, store: &dyn Store) -> Option<Now> {
        match self {
            Self::Store => store.now_saved(),
            Self::Virtual(_) => None,
        }
    }
}

impl VirtualClock {
    /// Starts at 2026-01-01 on the wall clock and elsewhere in store time, so that the two cannot be confused.
    pub fn start() -> Self {
        let (store, wall) = (StoreTime::new(9_000_000_000), Millis::new(1_767_225_600_000));
        Self { epoch: Now { store, wall }, start: Instant::now(), shift: Arc::default() }
    }

    /// The current time.
    pub fn now(&self) -> Now {
        let Now { store, wall } = self.epoch.plus(self.start.elapsed());
        let shift = self.shift.load(Ordering::Relaxed);
        Now { store, wall: Millis::new(wall.get() + shift) }
    }

    /// Sets the wall clock forward by so many milliseconds, or back.
    pub fn shift_wall(&self, by: i64) {
        self.shift.fetch_add(by, Ordering::Relaxed);
    }
}

impl RandomSource {
    /// Dice that fall the same way for the same `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(AtomicU64::new(seed)))
    }

    /// Thirty-two bytes nobody can guess.
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

    /// A run's id. Ids made later sort later.
    pub fn new_run_id(&self, now: Millis) -> Result<RunId, RandomnessUnavailable> {
        self.new_uuid(now).map(RunId::new)
    }

    /// An attempt's id.
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
