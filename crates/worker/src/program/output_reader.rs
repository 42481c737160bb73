//! Listening to a program on both of its outputs: events on the one, complaints and its log on the other.

use std::sync::{Mutex, MutexGuard};

use agent_worker_protocol::sync;

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::Notify,
    time::sleep_until,
};

use super::{VendorAdapter, line_reader::ProgramLineReader, report_events};
use crate::{
    child_env::OutputTail, event_reporter::EventReporter, model::TurnFailure,
    model_table::PricingContext, worker_log::WorkerLog,
};

/// The longest line of a log.
const MAX_STDERR_LINE_BYTES: usize = 64 * 1024;

/// What listens.
pub(super) struct OutputReader<'a> {
    vendor: Mutex<&'a mut dyn VendorAdapter>,
    /// Its log has told something: how long it is waited for may be another time now.
    wait_limit_changed: Notify,
    pricing: &'a PricingContext,
    report: &'a EventReporter,
    log: &'a WorkerLog,
}

impl<'a> OutputReader<'a> {
    pub(super) fn new(
        vendor: &'a mut dyn VendorAdapter,
        pricing: &'a PricingContext,
        report: &'a EventReporter,
        log: &'a WorkerLog,
    ) -> Self {
        Self { vendor: Mutex::new(vendor), wait_limit_changed: Notify::new(), pricing, report, log }
    }

    fn vendor(&self) -> MutexGuard<'_, &'a mut dyn VendorAdapter> {
        sync::lock(&self.vendor)
    }

    /// Hears its events to the end, or for as long as it may be waited for.
    pub(super) async fn read_events(
        &self,
        stdout: Option<impl AsyncRead + Unpin>,
    ) -> Result<(), TurnFailure> {
        let mut lines = ProgramLineReader::new(stdout);
        loop {
            let waits = self.vendor().wait_limit();
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
                line = lines.next_line() => line,
                () = self.wait_limit_changed.notified() => continue,
                failure = enough => return Err(failure),
            };
            let Some(line) = line else { return Ok(()) };
            self.report.touch();
            let heard = self.vendor().parse_line(&line);
            report_events(heard, self.pricing, self.report, self.log)?;
        }
    }

    /// Reads what it complains of to the end, and keeps what is no line of its log.
    pub(super) async fn read_stderr(
        &self,
        stderr: Option<impl AsyncRead + Unpin>,
        kept: &mut OutputTail,
    ) -> Result<(), TurnFailure> {
        let Some(mut stderr) = stderr else { return Ok(()) };
        let mut chunk = vec![0; 8 * 1024];
        let mut rest = Vec::new();
        // One that cannot be read any more has ended.
        while let Ok(n @ 1..) = stderr.read(&mut chunk).await {
            self.report.touch();
            self.log.write_output(&chunk[..n]);
            rest.extend_from_slice(&chunk[..n]);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                self.handle_stderr_line(&line, kept)?;
            }
            // What has no end is no line of a log.
            if rest.len() > MAX_STDERR_LINE_BYTES {
                kept.push(&std::mem::take(&mut rest));
            }
        }
        kept.push(&rest);
        Ok(())
    }

    fn handle_stderr_line(&self, line: &[u8], kept: &mut OutputTail) -> Result<(), TurnFailure> {
        let heard = self.vendor().parse_log_line(String::from_utf8_lossy(line).trim_end());
        let Some(heard) = heard else {
            kept.push(line);
            return Ok(());
        };
        self.wait_limit_changed.notify_one();
        report_events(heard, self.pricing, self.report, self.log)
    }
}
