//! Listening to a program on both of its outputs: events on the one, complaints and its log on the other.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::Notify,
    time::sleep_until,
};

use super::{Vendor, lines::Lines, pass_on};
use crate::{log::Log, model::Failure, models::Bill, report::Report, surroundings::Tail};

/// The longest line of a log.
const LONGEST: usize = 64 * 1024;

/// What listens.
pub(super) struct Ear<'a> {
    vendor: Mutex<&'a mut dyn Vendor>,
    /// Its log has told something: how long it is waited for may be another time now.
    moved: Notify,
    bill: &'a Bill,
    report: &'a Report,
    log: &'a Log,
}

impl<'a> Ear<'a> {
    pub(super) fn new(
        vendor: &'a mut dyn Vendor,
        bill: &'a Bill,
        report: &'a Report,
        log: &'a Log,
    ) -> Self {
        Self { vendor: Mutex::new(vendor), moved: Notify::new(), bill, report, log }
    }

    fn vendor(&self) -> MutexGuard<'_, &'a mut dyn Vendor> {
        self.vendor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears its events to the end, or for as long as it may be waited for.
    pub(super) async fn events(
        &self,
        stdout: Option<impl AsyncRead + Unpin>,
    ) -> Result<(), Failure> {
        let mut lines = Lines::new(stdout);
        loop {
            let waits = self.vendor().waits();
            let enough = async {
                match waits {
                    Some((until, failure)) => {
                        sleep_until(until).await;
                        failure
                    }
                    None => std::future::pending().await,
                }
            };
            let line = tokio::select! {
                line = lines.next() => line,
                () = self.moved.notified() => continue,
                failure = enough => return Err(failure),
            };
            let Some(line) = line else { return Ok(()) };
            self.report.touch();
            let heard = self.vendor().hear(&line);
            pass_on(heard, self.bill, self.report, self.log)?;
        }
    }

    /// Reads what it complains of to the end, and keeps what is no line of its log.
    pub(super) async fn complaints(
        &self,
        stderr: Option<impl AsyncRead + Unpin>,
        kept: &mut Tail,
    ) -> Result<(), Failure> {
        let Some(mut stderr) = stderr else { return Ok(()) };
        let mut chunk = vec![0; 8 * 1024];
        let mut rest = Vec::new();
        // One that cannot be read any more has ended.
        while let Ok(n @ 1..) = stderr.read(&mut chunk).await {
            self.report.touch();
            self.log.printed(&chunk[..n]);
            rest.extend_from_slice(&chunk[..n]);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                self.complaint(&line, kept)?;
            }
            // What has no end is no line of a log.
            if rest.len() > LONGEST {
                kept.push(&std::mem::take(&mut rest));
            }
        }
        kept.push(&rest);
        Ok(())
    }

    fn complaint(&self, line: &[u8], kept: &mut Tail) -> Result<(), Failure> {
        let heard = self.vendor().logs(String::from_utf8_lossy(line).trim_end());
        let Some(heard) = heard else {
            kept.push(line);
            return Ok(());
        };
        self.moved.notify_one();
        pass_on(heard, self.bill, self.report, self.log)
    }
}
