//! Messages that the daemon has for the running turn (`send --now`).
//!
//! The worker asks the daemon for them for as long as its program can take them, and returns the program's answers with the
//! next request. Invariant: the daemon keeps a message pending until the worker has recorded that the model got it
//! (`WorkerEvent::Joined`), so that a message that is lost on the way starts the next turn.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use agent_worker_host::{DaemonSocket, DialError};
use agent_worker_protocol::{
    AttemptId, MailNotice, Seq, ToolName, TurnMessage, TurnMessagesReply, TurnMessagesRequest,
};
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
    /// Mail that the model does not know of.
    mail: Vec<MailNotice>,
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
            mail: Vec::new(),
            poll: None,
            is_over: false,
        }
    }

    /// Also receives notices of mail that stays in the inbox.
    pub(crate) fn with_mail(mut self) -> Self {
        self.request.mail_after = Some(Seq::default());
        self
    }

    /// Takes the notices of mail that has arrived since the last call.
    pub(crate) fn take_mail(&mut self) -> Vec<MailNotice> {
        std::mem::take(&mut self.mail)
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
                Ok(TurnMessagesReply { messages, mail }) => {
                    if let Some(after) = &mut self.request.mail_after {
                        *after = mail.iter().map(|it| it.seq).fold(*after, Seq::max);
                    }
                    self.mail.extend(mail);
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

/// Returns the line that announces mail to the model; none without mail.
pub(crate) fn mail_announcement(mail: &[MailNotice]) -> Option<String> {
    let mut senders: Vec<(&str, usize)> = Vec::new();
    for MailNotice { from, .. } in mail {
        match senders.iter_mut().find(|(name, _)| name == from) {
            Some((_, count)) => *count += 1,
            None => senders.push((from, 1)),
        }
    }
    let count = match mail.len() {
        0 => return None,
        1 => "1 new message".to_owned(),
        many => format!("{many} new messages"),
    };
    let is_one = senders.len() == 1;
    let names = senders.into_iter().map(|(name, count)| match count {
        count if is_one || count == 1 => name.to_owned(),
        count => format!("{name} ({count})"),
    });
    let names: Vec<_> = names.collect();
    Some(format!("{count} from {}; {} reads them", names.join(", "), ToolName::InboxCheck))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_is_announced_in_one_line_with_its_senders() {
        for (senders, expected) in [
            (&[][..], None),
            (&["@lead"], Some("1 new message from @lead; inbox_check reads them")),
            (&["@lead", "@lead"], Some("2 new messages from @lead; inbox_check reads them")),
            (
                &["@lead", "user", "@lead"],
                Some("3 new messages from @lead (2), user; inbox_check reads them"),
            ),
        ] {
            let notice = |from: &&str| MailNotice { seq: Seq::new(1), from: (*from).to_owned() };
            let mail: Vec<_> = senders.iter().map(notice).collect();
            assert_eq!(mail_announcement(&mail).as_deref(), expected);
        }
    }
}
