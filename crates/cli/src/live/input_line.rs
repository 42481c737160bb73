//! The input line of a live view: sends the messages that a person types.
//!
//! Invariant: a message that the daemon has not confirmed stays with the person, in the line or in its history.

use std::{future::pending, pin::Pin};

use agent_worker_host::DialError;
use agent_worker_protocol::{
    Priority, RunId, Target,
    api::{RunView, SendReply, SendRequest},
};
use uuid::Uuid;

use super::{
    message_draft::{DraftEvent, DraftFocus, KeptText, MessageDraft},
    typed_key::TypedKey,
};
use crate::{
    client::{daemon_client::DaemonClient, discovery},
    error::CliError,
    input::settings::CliSettings,
    output::{
        styled_line::{StyledLine, Tone},
        text::one_line,
    },
};

/// The recipient of typed messages.
#[derive(Clone, Debug)]
pub(crate) struct MessageRecipient {
    /// The run, which names the project.
    pub(crate) run: RunId,
    /// An agent, or the whole instance.
    pub(crate) target: Target,
    /// True if the recipient gets a turn for each message alone.
    pub(crate) alone: bool,
    /// Text of an empty line.
    pub(crate) placeholder: String,
}

/// The line, and the message on its way.
pub(crate) struct InputLine {
    settings: CliSettings,
    recipient: MessageRecipient,
    draft: MessageDraft,
    in_flight: Option<SendTask>,
}

type SendTask = Pin<Box<dyn Future<Output = Result<SendReply, CliError>> + Send>>;

/// The result of a message.
pub(crate) enum SendOutcome {
    Sent(Box<SendReply>),
    /// The message was not confirmed, for the reason in these lines.
    Unsent(Vec<StyledLine>),
}

/// The effect of keys on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEffect {
    /// The person edits or sends.
    Continues,
    /// The person has ended the input with Ctrl-D.
    Ended,
}

impl InputLine {
    pub(crate) fn new(recipient: MessageRecipient, settings: CliSettings) -> Self {
        Self { settings, recipient, draft: MessageDraft::default(), in_flight: None }
    }

    /// Returns the typed text.
    pub(crate) fn draft(&mut self) -> &mut MessageDraft {
        &mut self.draft
    }

    /// Returns whether nothing is typed.
    pub(crate) fn is_blank(&self) -> bool {
        self.draft.is_blank()
    }

    /// Sets the text of an empty line.
    pub(crate) fn set_placeholder(&mut self, placeholder: &str) {
        placeholder.clone_into(&mut self.recipient.placeholder);
    }

    /// Applies keys, and sends a complete message.
    pub(crate) fn press(&mut self, keys: &[TypedKey], client: &DaemonClient) -> LineEffect {
        let mut effect = LineEffect::Continues;
        for key in keys {
            match self.draft.press(key) {
                Some(DraftEvent::Send(text)) => {
                    let sending = send_text(
                        client.clone(),
                        self.settings.clone(),
                        self.recipient.clone(),
                        text,
                    );
                    self.in_flight = Some(Box::pin(sending));
                }
                Some(DraftEvent::EndOfInput) => effect = LineEffect::Ended,
                None => {}
            }
        }
        effect
    }

    /// Draws the line in at most `columns` columns.
    pub(crate) fn draw(&self, focus: DraftFocus, columns: usize) -> StyledLine {
        self.draft.draw(focus, &self.recipient.placeholder, columns)
    }

    /// Waits for the result of the message on its way, forever if there is none. Cancel safe.
    pub(crate) async fn wait_in_flight(&mut self) -> SendOutcome {
        let sent = match &mut self.in_flight {
            Some(in_flight) => in_flight.await,
            None => pending().await,
        };
        self.in_flight = None;
        match sent {
            Ok(reply) => {
                self.draft.confirm_sent();
                SendOutcome::Sent(Box::new(reply))
            }
            Err(error) => {
                let kept = self.draft.restore_unsent();
                SendOutcome::Unsent(unsent_lines(&error, kept))
            }
        }
    }
}

/// Sends a text; repeats a lost request with the same key, which creates only one message.
async fn send_text(
    client: DaemonClient,
    settings: CliSettings,
    recipient: MessageRecipient,
    text: String,
) -> Result<SendReply, CliError> {
    let key = Uuid::now_v7().to_string();
    match send_once(&client, &recipient, &text, &key).await {
        Err(DialError::Lost { .. } | DialError::Absent { .. }) => {
            let client = discovery::connect_or_start(&settings).await?;
            Ok(send_once(&client, &recipient, &text, &key).await?)
        }
        other => Ok(other?),
    }
}

async fn send_once(
    client: &DaemonClient,
    recipient: &MessageRecipient,
    text: &str,
    key: &str,
) -> Result<SendReply, DialError> {
    // The folder of the caller may have another instance of the same name.
    let RunView { project, .. } = client.run(recipient.run).await?;
    let request = SendRequest {
        target: Some(recipient.target.clone()),
        project: Some(project),
        message: text.to_owned(),
        to: Vec::new(),
        cc: Vec::new(),
        reply_to: None,
        alone: recipient.alone,
        now: false,
        priority: Priority::Normal,
        attachments: Vec::new(),
    };
    client.send(key, &request).await
}

/// Returns the lines about a message that was not confirmed.
fn unsent_lines(error: &CliError, kept: KeptText) -> Vec<StyledLine> {
    let body = error.to_report_error();
    let place = match kept {
        KeptText::InLine => "",
        KeptText::InHistory => " (the key Up brings the text back)",
    };
    let what = format!("could not send the message: {}{place}", one_line(&body.message));
    let hint =
        body.hint.map(|hint| StyledLine::new(Tone::Dim, format!("hint: {}", one_line(&hint))));
    std::iter::once(StyledLine::new(Tone::Bad, what)).chain(hint).collect()
}

/// Returns the lines about a message that has less effect than its author may expect.
pub(crate) fn reply_notices(reply: &SendReply) -> Vec<StyledLine> {
    let warn = |text: String| StyledLine::new(Tone::Warn, text);
    let seq = reply.seq;
    let mut lines: Vec<StyledLine> = reply
        .unknown
        .iter()
        .map(|unknown| {
            let meant = unknown.suggestion.as_ref().map(|name| format!("; did you mean @{name}?"));
            let name = one_line(&unknown.name);
            warn(format!("#{seq}: @{name} is not an agent here{}", meant.unwrap_or_default()))
        })
        .collect();
    if reply.woken.is_empty() {
        lines.push(warn(format!("#{seq} wakes no agent; mention one with @name")));
    }
    if let Some(why) = &reply.paused {
        lines.push(warn(format!(
            "#{seq}: the run is paused, so no agent acts on the message: {}",
            one_line(why)
        )));
    }
    lines.extend(reply.stopped.iter().map(|agent| {
        let who = Target::agent(agent.clone(), &reply.instance);
        warn(format!("#{seq}: {agent} is stopped; resume the agent: agent-worker resume {who}"))
    }));
    lines
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{Code, Seq, api::UnknownMention};

    use super::*;
    use crate::{
        error::CliErrorKind,
        output::{samples::agent_name, styled_line::Colour},
    };

    fn painted(lines: &[StyledLine]) -> String {
        lines.iter().map(|line| line.paint(Colour::Off) + "\n").collect()
    }

    #[test]
    fn an_author_reads_what_their_message_does_not_do() {
        let reply = SendReply {
            seq: Seq::new(12),
            instance: "review:pr-1".parse().unwrap(),
            woken: vec![agent_name("coder")],
            cc: Vec::new(),
            paused: None,
            stopped: Vec::new(),
            unknown: Vec::new(),
            now: Vec::new(),
            deduplicated: false,
        };
        assert_eq!(reply_notices(&reply), []);
        let suggestion = Some(agent_name("coder"));
        let odd = SendReply {
            woken: Vec::new(),
            paused: Some("hop limit\n(51 of 50)".into()),
            stopped: vec![agent_name("tester")],
            unknown: vec![UnknownMention { name: "codr\u{1b}[2J".into(), suggestion }],
            ..reply
        };
        insta::assert_snapshot!(painted(&reply_notices(&odd)), @r"
        #12: @codr␛[2J is not an agent here; did you mean @coder?
        #12 wakes no agent; mention one with @name
        #12: the run is paused, so no agent acts on the message: hop limit (51 of 50)
        #12: tester is stopped; resume the agent: agent-worker resume tester@review:pr-1
        ");
    }

    #[test]
    fn a_message_that_was_not_sent_is_reported_with_its_cause_on_one_line_each() {
        let error = CliError::new(CliErrorKind::Refused(Code::RunEnded), "the run\nhas ended")
            .with_hint("start it again");
        insta::assert_snapshot!(painted(&unsent_lines(&error, KeptText::InLine)), @r"
        could not send the message: the run has ended
        hint: start it again
        ");
        insta::assert_snapshot!(painted(&unsent_lines(&error, KeptText::InHistory)), @r"
        could not send the message: the run has ended (the key Up brings the text back)
        hint: start it again
        ");
    }
}
