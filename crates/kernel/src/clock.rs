//! Time and chance, as parameters: the machine's own, or ones a test can replay from a seed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use agent_worker_protocol::{AttemptId, Hash, Millis, RunId, hash};
use tokio::time::Instant;
use uuid::Uuid;

/// Tells the time of day. Timers use tokio's clock, which is monotonic, and which a test can pause.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The machine's.
    System,
    /// Follows tokio's clock from `epoch` on, so that a test's paused clock moves both.
    Virtual {
        /// What time it was at `start`.
        epoch: Millis,
        /// When the test began.
        start: Instant,
    },
}

/// Makes ids and secrets.
#[derive(Clone, Debug)]
pub enum Dice {
    /// From the operating system.
    System,
    /// The same ones again for the same seed: for tests.
    Seeded(Arc<AtomicU64>),
}

/// The machine has no randomness to give.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gave no random bytes")]
pub struct NoDice(#[source] getrandom::Error);

impl Clock {
    /// A clock that begins at 2026-01-01 and follows tokio's.
    pub fn virtual_now() -> Self {
        Self::Virtual { epoch: Millis::new(1_767_225_600_000), start: Instant::now() }
    }

    /// What time it is.
    pub fn now(&self) -> Millis {
        match self {
            Self::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Millis::new(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
            }
            Self::Virtual { epoch, start } => epoch.plus(start.elapsed()),
        }
    }
}

impl Dice {
    /// Dice that fall the same way for the same `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(AtomicU64::new(seed)))
    }

    /// Thirty-two bytes nobody can guess.
    pub fn secret(&self) -> Result<Hash, NoDice> {
        match self {
            Self::System => {
                let mut bytes = Hash::default();
                getrandom::fill(&mut bytes).map_err(NoDice)?;
                Ok(bytes)
            }
            Self::Seeded(state) => {
                let n = state.fetch_add(1, Ordering::Relaxed);
                Ok(hash(&[b"dice", &n.to_le_bytes()]))
            }
        }
    }

    /// A run's id. Ids made later sort later.
    pub fn run(&self, now: Millis) -> Result<RunId, NoDice> {
        self.uuid(now).map(RunId::new)
    }

    /// An attempt's id.
    pub fn attempt(&self, now: Millis) -> Result<AttemptId, NoDice> {
        self.uuid(now).map(AttemptId::new)
    }

    fn uuid(&self, now: Millis) -> Result<Uuid, NoDice> {
        let secret = self.secret()?;
        let mut bytes = [0; 10];
        bytes.copy_from_slice(&secret[..10]);
        let millis = u64::try_from(now.get()).unwrap_or(0);
        Ok(uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid())
    }
}
