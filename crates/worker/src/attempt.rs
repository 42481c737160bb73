//! One attempt, from the job on stdin to the final event.
//!
//! Lock, report `started`, work, end the process tree, report `finished`. Every early end (a time limit, TERM, the
//! daemon's order) takes the same path. Invariant: no backend starts before `started` is acknowledged, and
//! `finished` is written after the last process of the attempt has ended.

use std::{
    io::{self, BufRead},
    path::PathBuf,
    pin::pin,
    time::Duration,
};

use agent_worker_host::{DaemonSocket, LockFile, adopt_orphans, end_processes, own_descendants};
use agent_worker_protocol::{
    Finished, JobLine, Problem, Span, SuspensionDetector, WorkerEvent, WorkerJob, WorkerOutcome,
};
use agent_worker_sandbox::SandboxError;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    attachments::fetch_attachments,
    attempt_sandbox::{AttemptSandbox, sandbox_failure},
    backend::backend_for,
    clocks::{AttemptClockReadings, Expiry, next_expiry},
    event_reporter::EventReporter,
    structured_answer::AnswerSchema,
    task_command::run_command,
    turn::{TurnAnswer, TurnContext, TurnFailure},
    turn_history::TurnHistory,
};

/// Grace period for a backend to end after its turn was cancelled.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// Failure of the worker itself. The outcome of an attempt is no error: the worker reports it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The worker read no job from stdin.
    #[error("could not read the job from stdin")]
    Job(#[source] io::Error),
    /// The worker could not use the folder of the attempt or the command.
    #[error("could not {doing} in {}", folder.display())]
    Folder {
        /// The operation that failed, as a verb phrase.
        doing: &'static str,
        /// The folder of the attempt or the command.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The system did not let the worker become a subreaper or catch signals.
    #[error("could not become a subreaper or catch signals")]
    Process(#[source] io::Error),
    /// The daemon does not know the attempt, or has ended it. The worker has ended the processes of the attempt.
    #[error("the daemon rejected this attempt")]
    Rejected(#[source] Problem),
}

/// Carries out the job on the first line of `stdin`.
///
/// Reads that line with a blocking call, before any other work starts, and nothing after it. Needs a runtime of its
/// own.
pub async fn run_worker(stdin: impl BufRead) -> Result<(), Error> {
    let began = Instant::now();
    match read_job(stdin).map_err(Error::Job)? {
        JobLine::Turn(job) => run_attempt(job.into_owned(), began).await,
        JobLine::Command(job) => run_command(&job).await,
    }
}

async fn run_attempt(job: WorkerJob, began: Instant) -> Result<(), Error> {
    let folder = |doing| {
        let folder = job.folder.clone();
        move |source| Error::Folder { doing, folder, source }
    };
    let lock = LockFile::acquire(&job.folder.join("worker.lock")).map_err(folder("lock"))?;
    // A descendant that loses its parent becomes a child of this process, so none leaves the tree.
    adopt_orphans().map_err(Error::Process)?;
    let signals = WorkerSignals::catch().map_err(Error::Process)?;
    let daemon = DaemonSocket::at(job.socket.clone()).with_token(job.token.clone());
    let report = EventReporter::open(
        &job.folder,
        job.attempt,
        daemon.clone(),
        job.limits.orphan_grace.duration(),
        TurnHistory::of(&job),
    )
    .map_err(folder("create events.jsonl"))?;
    let cancelled = CancellationToken::new();
    let attempt = Attempt { job, daemon, report: report.clone(), began, cancelled };
    let ended = tokio::select! {
        ended = attempt.run(signals) => ended,
        never = report.post_forever() => match never {},
    };
    drop(lock);
    ended
}

fn read_job(mut stdin: impl BufRead) -> io::Result<JobLine<'static>> {
    let mut line = String::new();
    stdin.read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// TERM, which stops an attempt, and the signals that the worker discards.
pub(crate) struct WorkerSignals {
    pub(crate) term: Signal,
    /// Signals of a terminal are meant for its user. The worker catches them because children would inherit an
    /// ignored signal.
    _terminal: [Signal; 2],
}

impl WorkerSignals {
    pub(crate) fn catch() -> io::Result<Self> {
        let terminal = [signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?];
        Ok(Self { term: signal(SignalKind::terminate())?, _terminal: terminal })
    }
}

struct Attempt {
    job: WorkerJob,
    daemon: DaemonSocket,
    report: EventReporter,
    began: Instant,
    /// Cancels the turn when it fires.
    cancelled: CancellationToken,
}

/// The reason that the work ended.
enum WorkerEnding {
    Completed(Result<TurnAnswer, TurnFailure>),
    Expired(Expiry),
    Stopped,
    Rejected(Problem),
}

impl Attempt {
    async fn run(&self, mut signals: WorkerSignals) -> Result<(), Error> {
        let sandbox = AttemptSandbox::choose(&self.job);
        let in_force = sandbox.as_ref().ok().and_then(Option::as_ref).map(AttemptSandbox::in_force);
        let pid = std::process::id();
        let started = self.report.record(WorkerEvent::Started { pid, sandbox: in_force });
        let ending = {
            let mut turn = pin!(self.run_turn(started, sandbox));
            let ending = tokio::select! {
                ended = &mut turn => WorkerEnding::Completed(ended),
                expiry = self.wait_for_expiry() => WorkerEnding::Expired(expiry),
                problem = self.report.wait_rejected() => WorkerEnding::Rejected(problem),
                () = self.report.wait_stop_order() => WorkerEnding::Stopped,
                _ = signals.term.recv() => WorkerEnding::Stopped,
            };
            self.cancelled.cancel();
            if let WorkerEnding::Expired(_) | WorkerEnding::Stopped = &ending {
                // The backend may still report usage. The worker discards its result.
                let _ = timeout(CANCEL_GRACE, turn).await;
            }
            ending
        };
        end_processes(own_descendants, self.job.limits.kill_grace.duration()).await;
        let finished = match ending {
            WorkerEnding::Completed(Ok(TurnAnswer { text, session })) => {
                Finished { text, outcome: WorkerOutcome::Ok, session }
            }
            WorkerEnding::Completed(Err(failure)) => finished_without_text(failure.outcome()),
            WorkerEnding::Expired(expiry) => {
                finished_without_text(expiry.outcome(&self.job.limits))
            }
            WorkerEnding::Stopped => {
                finished_without_text(WorkerOutcome::Interrupted { why: "stopped".to_owned() })
            }
            WorkerEnding::Rejected(problem) => return Err(Error::Rejected(problem)),
        };
        self.report_finished(finished).await
    }

    /// Runs the turn in the backend, once the daemon has acknowledged `started`.
    async fn run_turn(
        &self,
        started: i64,
        sandbox: Result<Option<AttemptSandbox>, SandboxError>,
    ) -> Result<TurnAnswer, TurnFailure> {
        let acknowledged = self.report.wait_acknowledged(started);
        if self.cancelled.run_until_cancelled(acknowledged).await.is_none() {
            return Err(TurnFailure::cancelled());
        }
        // Not earlier: the start of the turn does not wait for its history.
        self.report.record_prompt(&self.job);
        let mut turn =
            TurnContext::new(&self.job, &self.daemon, &self.report, self.cancelled.clone());
        let fetched = Box::pin(fetch_attachments(&self.job, &self.daemon));
        turn.sandbox = sandbox.map_err(sandbox_failure)?;
        turn.request.attachments = turn.until_cancelled(fetched).await?;
        let schema = self.job.output_schema.as_ref().map(AnswerSchema::new).transpose()?;
        turn.answer_schema.clone_from(&schema);
        let unserved = turn.tools.unserved();
        let done = match backend_for(&self.job) {
            Ok(mut backend) => backend.turn(turn).await,
            Err(failure) => Err(failure),
        };
        let done = done.and_then(|answer| match &schema {
            Some(schema) => schema.accept(answer),
            None => Ok(answer),
        });
        unserved.override_outcome(done)
    }

    /// Waits until a time limit has expired. Time in which this process did not run does not count.
    async fn wait_for_expiry(&self) -> Expiry {
        let limits = &self.job.limits;
        let limits = [limits.wall, limits.silence, limits.orphan_grace].map(Span::duration);
        let shortest = limits.into_iter().min().unwrap_or_default();
        let mut suspension = SuspensionDetector::new(shortest);
        let started = Instant::now();
        loop {
            if let Some(gap) = suspension.observe(started.elapsed()) {
                self.report.record_suspension(gap);
            }
            let answered = self.report.last_reply();
            let (held, waiting) = self.report.paused_time();
            let times = AttemptClockReadings {
                began: self.began + held,
                last_activity: self.report.last_activity(),
                last_reply: answered,
                approval_wait: waiting,
            };
            let (at, expiry) = next_expiry(times, &self.job.limits);
            if Instant::now() >= at {
                return expiry;
            }
            tokio::select! {
                () = sleep_until(at.min(Instant::now() + suspension.tick())) => {}
                () = self.report.wait_clocks_resumed() => {}
            }
        }
    }

    /// Reports `finished` and waits for its acknowledgement, at most for the time that a daemon may be away.
    ///
    /// The event is on disk by then, and a later daemon reads it from there. If the write failed, this process has
    /// the only copy and waits for as long as a daemon answers.
    async fn report_finished(&self, finished: Finished) -> Result<(), Error> {
        let answered = self.report.last_reply();
        let last = self.report.record(WorkerEvent::Finished(finished));
        let outcome = async {
            tokio::select! {
                () = self.report.wait_acknowledged(last) => Ok(()),
                problem = self.report.wait_rejected() => Err(Error::Rejected(problem)),
            }
        };
        let mut outcome = pin!(outcome);
        let mut answered = answered;
        let outcome = loop {
            let deadline = answered + self.job.limits.orphan_grace.duration();
            let outcome = timeout_at(deadline, &mut outcome).await;
            let latest = self.report.last_reply();
            if outcome.is_ok() || latest <= answered || !self.report.has_write_error() {
                break outcome;
            }
            answered = latest;
        };
        if let Some(source) = self.report.take_write_error() {
            let folder = self.job.folder.clone();
            return Err(Error::Folder { doing: "write events.jsonl", folder, source });
        }
        outcome.unwrap_or(Ok(()))
    }
}

/// Makes a `finished` event without a text.
fn finished_without_text(outcome: WorkerOutcome) -> Finished {
    Finished { text: String::new(), outcome, session: None }
}
