//! Reads both outputs of a program: events on stdout, complaints and its log on stderr.

use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use agent_worker_protocol::sync;

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::Notify,
    time::{sleep, sleep_until},
};

use super::{
    ProgramAdapter, StderrLine,
    conversation::{ConversationInput, ProgramConversation},
    event_recorder::EventRecorder,
    line_reader::ProgramLineReader,
};
use crate::{child_env::OutputTail, turn::TurnFailure};

/// Time in which a program that has reported its result must exit. It may wait for commands that it left in the background.
const RESULT_EXIT_GRACE: Duration = Duration::from_secs(5);
/// Maximum length of a log line.
const MAX_STDERR_LINE_BYTES: usize = 64 * 1024;

/// Reads the output of one process.
pub(super) struct OutputReader<'a> {
    adapter: Mutex<&'a mut dyn ProgramAdapter>,
    /// Signals a new log line, which may have changed the wait limit.
    wait_limit_changed: Notify,
    /// Signals that the program has reported its result.
    result_reported: Notify,
    recorder: &'a EventRecorder<'a>,
}

impl<'a> OutputReader<'a> {
    pub(super) fn new(
        adapter: &'a mut dyn ProgramAdapter,
        recorder: &'a EventRecorder<'a>,
    ) -> Self {
        Self {
            adapter: Mutex::new(adapter),
            wait_limit_changed: Notify::new(),
            result_reported: Notify::new(),
            recorder,
        }
    }

    fn adapter(&self) -> MutexGuard<'_, &'a mut dyn ProgramAdapter> {
        sync::lock(&self.adapter)
    }

    /// Reads events to the end, or until the wait limit, and holds the conversation.
    pub(super) async fn read_events(
        &self,
        stdout: Option<impl AsyncRead + Unpin>,
        mut conversation: ProgramConversation<'_>,
    ) -> Result<(), TurnFailure> {
        let (cancelled, mut is_stopping) = (conversation.cancellation(), false);
        let mut lines = ProgramLineReader::new(stdout);
        loop {
            let waits = self.adapter().wait_limit();
            let enough = async {
                match waits {
                    Some((until, failure)) => {
                        sleep_until(until).await;
                        failure
                    }
                    None => std::future::pending().await,
                }
            };
            let steps = tokio::select! {
                line = lines.next_line() => {
                    let Some(line) = line else { return Ok(()) };
                    self.recorder.reporter.touch();
                    self.adapter().handle_line(&line)
                }
                input = conversation.next_input() => match input {
                    ConversationInput::Reply(question, reply) => {
                        self.adapter().handle_reply(&question, reply)
                    }
                    ConversationInput::Message(message) => self.adapter().handle_message(message),
                },
                () = cancelled.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    conversation.withdraw_questions().await;
                    let steps = self.adapter().cancel_steps();
                    if steps.is_empty() {
                        return Err(TurnFailure::cancelled());
                    }
                    steps
                }
                () = self.wait_limit_changed.notified() => continue,
                failure = enough => return Err(failure),
            };
            conversation.perform(steps)?;
            if self.adapter().has_result() {
                self.result_reported.notify_one();
            }
        }
    }

    /// Returns when the program has reported its result and has not exited for the grace period.
    pub(super) async fn wait_past_result(&self) {
        self.result_reported.notified().await;
        sleep(RESULT_EXIT_GRACE).await;
    }

    /// Reads stderr to the end, and keeps the lines that are no log lines.
    pub(super) async fn read_stderr(
        &self,
        stderr: Option<impl AsyncRead + Unpin>,
        kept: &mut OutputTail,
    ) -> Result<(), TurnFailure> {
        let Some(mut stderr) = stderr else { return Ok(()) };
        let mut chunk = vec![0; 8 * 1024];
        let mut rest = Vec::new();
        let by_line = self.adapter().has_routine_log();
        let keep = |text: &[u8], kept: &mut OutputTail| {
            if by_line {
                self.recorder.log.write_output(text);
            }
            kept.push(text);
        };
        // A read error counts as the end.
        while let Ok(n @ 1..) = stderr.read(&mut chunk).await {
            self.recorder.reporter.touch();
            if !by_line {
                self.recorder.log.write_output(&chunk[..n]);
            }
            rest.extend_from_slice(&chunk[..n]);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let text = String::from_utf8_lossy(&line).into_owned();
                let meaning = self.adapter().parse_stderr_line(text.trim_end());
                if by_line && !matches!(meaning, StderrLine::RoutineEntry(_)) {
                    self.recorder.log.write_output(&line);
                }
                match meaning {
                    StderrLine::Complaint => kept.push(&line),
                    StderrLine::LogEntry(events) | StderrLine::RoutineEntry(events) => {
                        self.wait_limit_changed.notify_one();
                        self.recorder.record_all(events)?;
                    }
                }
            }
            // Text without a line end is no log line.
            if rest.len() > MAX_STDERR_LINE_BYTES {
                keep(&std::mem::take(&mut rest), kept);
            }
        }
        keep(&rest, kept);
        Ok(())
    }
}
