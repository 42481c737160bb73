//! Messages that the daemon has for the running turn (`send --now`).
//!
//! The worker asks the daemon for them for as long as its program can take them, and returns the program's answers with the
//! next request. Invariant: the daemon keeps a message pending until the worker has recorded that the model got it
//! (`WorkerEvent::Joined`), so that a message that is lost on the way starts the next turn.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use agent_worker_host::{DaemonSocket, DialError};
use agent_worker_protocol::{AttemptId, Seq, TurnMessage, TurnMessagesReply, TurnMessagesRequest};
use tokio::time::{sleep, timeout};

use crate::event_reporter::EventReporter;

const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout of one request; the daemon holds a request for less.
const POLL_TIMEOUT: Duration = Duration::from_mins(1);

type PollResult = Result<TurnMessagesReply, PollFailure>;
type Poll = Pin<Box<dyn Future<Output = PollResult> + Send>>;

/// The reason that a request returned no reply.
enum PollFailure {
    /// The daemon is away or busy.
    Temporary,
    /// The daemon is of an earlier version, or has ended the attempt.
    Final,
}

/// Receives the messages to one attempt.
pub(crate) struct TurnMessages {
    daemon: DaemonSocket,
    path: String,
    reporter: EventReporter,
    request: TurnMessagesRequest,
    received: VecDeque<TurnMessage>,
    /// The running request, which outlives a cancelled call of `next`.
    poll: Option<Poll>,
    is_over: bool,
}

impl TurnMessages {
    pub(crate) fn new(daemon: DaemonSocket, attempt: AttemptId, reporter: EventReporter) -> Self {
        Self {
            daemon,
            path: format!("/attempts/{attempt}/messages"),
            reporter,
            request: TurnMessagesRequest::default(),
            received: VecDeque::new(),
            poll: None,
            is_over: false,
        }
    }

    /// Waits for the next message. A call that is cancelled loses none.
    pub(crate) async fn next(&mut self) -> TurnMessage {
        loop {
            if let Some(message) = self.received.pop_front() {
                return message;
            }
            if self.is_over {
                std::future::pending::<()>().await;
            }
            let (daemon, path, request) = (&self.daemon, &self.path, &self.request);
            let poll = self.poll.get_or_insert_with(|| {
                Box::pin(poll(daemon.clone(), path.clone(), request.clone()))
            });
            let polled = poll.await;
            self.poll = None;
            match polled {
                Ok(TurnMessagesReply { messages }) => {
                    self.request.accepted.clear();
                    self.request.refused.clear();
                    self.request.after =
                        messages.iter().map(|it| it.seq).fold(self.request.after, Seq::max);
                    self.received.extend(messages);
                }
                Err(PollFailure::Temporary) => {}
                Err(PollFailure::Final) => self.is_over = true,
            }
        }
    }

    /// Tells the daemon that the program has a message and passes it to the model with the next step.
    pub(crate) fn accept(&mut self, seq: Seq) {
        self.request.accepted.push(seq);
        // The next request brings the answer at once.
        self.poll = None;
    }

    /// Tells the daemon that the program does not take a message.
    pub(crate) fn refuse(&mut self, seq: Seq) {
        self.request.refused.push(seq);
        self.poll = None;
    }

    /// Records that the model has got a message.
    pub(crate) fn record_joined(&self, seq: Seq) {
        self.reporter.record_joined(seq);
    }
}

async fn poll(daemon: DaemonSocket, path: String, request: TurnMessagesRequest) -> PollResult {
    let failure = match timeout(POLL_TIMEOUT, daemon.post(&path, &request)).await {
        Ok(Ok(reply)) => return Ok(reply),
        Ok(Err(DialError::Refused(problem))) if problem.code.status() < 500 => PollFailure::Final,
        Err(_)
        | Ok(Err(
            DialError::Refused(_)
            | DialError::Garbled { .. }
            | DialError::Absent { .. }
            | DialError::Impostor { .. }
            | DialError::Lost { .. }
            | DialError::PathTooLong { .. },
        )) => PollFailure::Temporary,
    };
    if let PollFailure::Temporary = failure {
        sleep(RETRY_INTERVAL).await;
    }
    Err(failure)
}
