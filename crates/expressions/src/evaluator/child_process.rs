//! One child process, and one request and answer at a time.

use std::{
    io,
    path::Path,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{sleep_until, timeout},
};

use super::{
    ANSWER_TIMEOUT, EvaluatorHost, MAX_RESULT_BYTES, STARVED_POLL_INTERVAL, STARVED_PROCESSOR_TIME,
    STARVED_TIMEOUT,
};
use crate::{
    frame::{AnswerFrame, AnswerOutcome, MAX_ANSWER_LINE_BYTES, RequestFrame},
    value::NamedValue,
};

/// Hidden command of our own program.
const COMMAND: &str = "evaluate-expressions";
/// Time for which the end of a killed process is awaited; after it the process is reaped in the background.
const REAP_TIMEOUT: Duration = Duration::from_millis(30);
/// Unit of `/proc/PID/stat`, which Linux keeps the same for all programs.
const MS_PER_TICK: u64 = 10;

/// Reason for which a child gave no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ExchangeFailure {
    Ended,
    TimedOut,
    Nonsense,
}

/// Running child. It is killed when this value is dropped.
pub(super) struct ChildProcess {
    child: Child,
    pid: u32,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    host: Arc<dyn EvaluatorHost>,
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.host.release(self.pid);
    }
}

impl ChildProcess {
    /// Starts the child without an environment and without files.
    pub(super) fn start(program: &Path, host: &Arc<dyn EvaluatorHost>) -> io::Result<Self> {
        let mut command = Command::new(program);
        command
            .arg(COMMAND)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = host.spawn(&mut command)?;
        let ended = || io::Error::other("the process ended at once");
        let pid = child.id().ok_or_else(ended)?;
        let input = child.stdin.take().ok_or_else(ended)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(ended)?);
        Ok(Self { child, pid, input, output, host: host.clone() })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a request and returns the answer with the bytes of the value.
    pub(super) async fn exchange(
        &mut self,
        frame: &RequestFrame,
        values: &[NamedValue<'_>],
        start: Instant,
    ) -> Result<(AnswerFrame, Vec<u8>), ExchangeFailure> {
        let pid = self.pid;
        let used_before = processor_time(pid);
        let answer = self.converse(frame, values);
        tokio::pin!(answer);
        let mut deadline = start + ANSWER_TIMEOUT;
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = sleep_until(deadline.into()) => {}
            }
            let used = processor_time(pid)
                .zip(used_before)
                .map(|(now, before)| now.saturating_sub(before));
            let is_starved = used.is_some_and(|used| used < STARVED_PROCESSOR_TIME);
            if !is_starved || start.elapsed() > STARVED_TIMEOUT {
                return Err(ExchangeFailure::TimedOut);
            }
            deadline = Instant::now() + STARVED_POLL_INTERVAL;
        }
    }

    async fn converse(
        &mut self,
        frame: &RequestFrame,
        values: &[NamedValue<'_>],
    ) -> Result<(AnswerFrame, Vec<u8>), ExchangeFailure> {
        let ended = |_: io::Error| ExchangeFailure::Ended;
        let mut line = serde_json::to_vec(frame).map_err(|_| ExchangeFailure::Nonsense)?;
        line.push(b'\n');
        self.input.write_all(&line).await.map_err(ended)?;
        for value in values {
            self.input.write_all(value.content.text().as_bytes()).await.map_err(ended)?;
        }
        let mut line = Vec::new();
        let limit = u64::try_from(MAX_ANSWER_LINE_BYTES).unwrap_or(u64::MAX);
        (&mut self.output).take(limit).read_until(b'\n', &mut line).await.map_err(ended)?;
        if line.is_empty() {
            return Err(ExchangeFailure::Ended);
        }
        let answer: AnswerFrame =
            serde_json::from_slice(&line).map_err(|_| ExchangeFailure::Nonsense)?;
        let length = match answer.outcome {
            AnswerOutcome::Value { bytes, .. } if bytes > MAX_RESULT_BYTES => {
                return Err(ExchangeFailure::Nonsense);
            }
            AnswerOutcome::Value { bytes, .. } => bytes,
            AnswerOutcome::Checked | AnswerOutcome::Failed(_) => 0,
        };
        let mut content = vec![0; length];
        self.output.read_exact(&mut content).await.map_err(ended)?;
        Ok((answer, content))
    }

    /// Kills the child and waits a moment for its end.
    pub(super) async fn end(mut self) {
        // A child that has ended cannot be killed, which is the wanted state.
        self.child.start_kill().ok();
        timeout(REAP_TIMEOUT, self.child.wait()).await.ok();
    }
}

/// Returns the processor time that a process has used; none where the system does not tell.
fn processor_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in brackets and may contain anything. The state follows it.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let used = ticks(11)? + ticks(12)?;
    Some(Duration::from_millis(used.saturating_mul(MS_PER_TICK)))
}
