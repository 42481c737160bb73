//! Points between the steps of the file protocol at which a test stops, as a killed daemon would.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

/// Names the point before the first step and the point after each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CrashPoint {
    TakeBegins,
    Taken,
    AsideRenamed,
    StageBegins,
    StageWritten,
    StageSynced,
    StageRenamed,
    IntentRecorded,
    Exchanged,
    FolderSynced,
    Confirmed,
}

/// Makes every step from a chosen point on fail. Outside of tests no point is chosen.
#[derive(Debug, Default)]
pub(super) struct CrashSwitch {
    at: Option<CrashPoint>,
    has_crashed: AtomicBool,
}

impl CrashSwitch {
    /// Continues, unless a test stops at this point.
    pub(super) fn reach(&self, point: CrashPoint) -> io::Result<()> {
        if self.at.is_none() {
            return Ok(());
        }
        if self.at == Some(point) {
            self.has_crashed.store(true, Ordering::Relaxed);
        }
        if self.has_crashed() {
            return Err(io::Error::other(format!("stopped at {point:?}")));
        }
        Ok(())
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.has_crashed.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn at(point: CrashPoint) -> Self {
        Self { at: Some(point), has_crashed: AtomicBool::new(false) }
    }
}
