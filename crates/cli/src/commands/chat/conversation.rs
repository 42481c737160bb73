//! A conversation with one agent: its messages, the open answers, and the effect of Ctrl-C. Pure.

use std::collections::BTreeSet;

use agent_worker_protocol::{
    AgentName, AttemptEndedData, Event, EventBody, InstanceRef, Message, MessageKind, Sender, Seq,
    Target, api::SendReply,
};

use crate::{
    error::{CliError, CliErrorKind},
    live::{message_draft::MessageDraft, view::attachment_text},
    output::{
        styled_line::{StyledLine, Tone},
        text::sanitize_for_display,
    },
};

/// Name of the person in the conversation.
const PERSON: &str = "you";
/// Colour of the agent's name.
const AGENT_TONE: Tone = Tone::Agent(0);

/// The state of a conversation.
#[derive(Debug)]
pub(super) struct Conversation {
    agent: Target,
    name: AgentName,
    /// Messages of the person to the agent.
    own: BTreeSet<Seq>,
    /// Newest message that was seen.
    newest: Seq,
    /// Messages sent here that the agent has not acted on.
    unanswered: BTreeSet<Seq>,
    /// Messages that the agent will not get.
    dropped: BTreeSet<Seq>,
    /// Messages to which nothing more will come.
    settled: BTreeSet<Seq>,
    wait: WaitState,
    /// True if the next Ctrl-C leaves.
    is_leaving: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitState {
    /// The person waits for the open answers.
    Waiting,
    /// The person has stopped waiting.
    Stopped,
}

/// The effect of Ctrl-C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InterruptEffect {
    /// The conversation continues, with a note for the person.
    Continues(String),
    /// The person leaves.
    Leaves,
}

impl Conversation {
    pub(super) fn new(name: AgentName, instance: &InstanceRef) -> Self {
        Self {
            agent: Target::agent(name.clone(), instance),
            name,
            own: BTreeSet::new(),
            newest: Seq::default(),
            unanswered: BTreeSet::new(),
            dropped: BTreeSet::new(),
            settled: BTreeSet::new(),
            wait: WaitState::Waiting,
            is_leaving: false,
        }
    }

    /// Returns the agent with its instance.
    pub(super) fn agent(&self) -> &Target {
        &self.agent
    }

    /// Returns the name of the agent.
    pub(super) fn name(&self) -> &AgentName {
        &self.name
    }

    /// Returns the newest `limit` messages of the conversation, each as lines; `messages` are in the order of the channel.
    pub(super) fn history(&mut self, messages: &[Message], limit: usize) -> Vec<Vec<StyledLine>> {
        let mut shown: Vec<_> =
            messages.iter().filter_map(|message| self.add_message(message)).collect();
        shown.drain(..shown.len().saturating_sub(limit));
        shown
    }

    /// Returns the lines of a message, unless it was seen before or belongs to another conversation.
    fn add_message(&mut self, message: &Message) -> Option<Vec<StyledLine>> {
        if message.seq <= self.newest {
            return None;
        }
        self.newest = message.seq;
        self.includes(message).then(|| self.lines(message))
    }

    /// Returns whether a message is one of the person to the agent, or of the agent to the person.
    fn includes(&mut self, message: &Message) -> bool {
        let is_to_agent = message.to.contains(&self.name) || message.cc.contains(&self.name);
        let answers_person = || {
            let mut answered = message.acts_on.iter().chain(&message.reply_to);
            answered.any(|seq| self.own.contains(seq))
        };
        match (&message.from, message.kind) {
            (Sender::User, _) if is_to_agent => {
                self.own.insert(message.seq);
                true
            }
            (Sender::Agent(name), MessageKind::Answer) if *name == self.name => answers_person(),
            // A message to no agent is for the people who read the channel.
            (Sender::Agent(name), MessageKind::Message | MessageKind::System)
                if *name == self.name =>
            {
                message.to.is_empty() || answers_person()
            }
            (Sender::User | Sender::System | Sender::Agent(_) | Sender::Client(_), _) => false,
        }
    }

    /// Formats a message; no line of a text starts in the first column.
    fn lines(&self, message: &Message) -> Vec<StyledLine> {
        let name = match message.from {
            Sender::User => StyledLine::new(Tone::Strong, PERSON),
            Sender::System | Sender::Agent(_) | Sender::Client(_) => {
                StyledLine::new(AGENT_TONE, self.name.as_str())
            }
        };
        let body = sanitize_for_display(message.body.trim_end());
        let mut lines = if body.contains('\n') {
            let beneath = body.lines().map(|line| StyledLine::plain(format!("  {line}")));
            std::iter::once(name.with(Tone::Plain, ":")).chain(beneath).collect()
        } else {
            vec![name.with(Tone::Plain, format!(": {body}"))]
        };
        let notes = message
            .attachments
            .iter()
            .map(|file| format!("attached to #{}: {}", message.seq, attachment_text(file)));
        let target = Target { agent: None, ..self.agent.clone() };
        let rest = message.resource.as_ref().map(|resource| {
            format!("#{} continues: agent-worker resource read {resource} {target}", message.seq)
        });
        lines.extend(notes.chain(rest).map(|note| StyledLine::new(Tone::Dim, note)));
        lines
    }

    /// Notes that the daemon has a message of the person.
    pub(super) fn add_sent(&mut self, reply: &SendReply) {
        if reply.woken.contains(&self.name) && !self.settled.contains(&reply.seq) {
            self.unanswered.insert(reply.seq);
        }
        self.wait = WaitState::Waiting;
        self.is_leaving = false;
    }

    /// Notes a key of the person, after which Ctrl-C does not leave at once.
    pub(super) fn note_key(&mut self) {
        self.is_leaving = false;
    }

    /// Applies an event and returns the lines of the conversation that it adds.
    pub(super) fn apply(&mut self, event: &Event) -> Vec<StyledLine> {
        let is_of_agent = event.agent.as_ref() == Some(&self.name);
        match &event.body {
            EventBody::Message(message) => {
                let lines = self.add_message(message).unwrap_or_default();
                if message.kind == MessageKind::Answer && !lines.is_empty() {
                    self.settle(&message.acts_on);
                }
                lines
            }
            EventBody::AttemptEnded(data) if is_of_agent => self.end_attempt(data),
            EventBody::DeliveryDead(data) if is_of_agent => {
                self.settle(&[data.seq]);
                Vec::new()
            }
            EventBody::DeliveryDropped(data) if is_of_agent => {
                if self.unanswered.contains(&data.seq) {
                    self.dropped.insert(data.seq);
                }
                self.settle(&[data.seq]);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Settles the messages of an attempt; says so if the agent has acted on one of them without a word.
    fn end_attempt(&mut self, data: &AttemptEndedData) -> Vec<StyledLine> {
        let Some(deliveries) = &data.deliveries else { return Vec::new() };
        let silent: Vec<String> = deliveries
            .acted
            .iter()
            .filter(|seq| deliveries.answer.is_none() && self.unanswered.contains(seq))
            .map(|seq| format!("#{seq}"))
            .collect();
        self.settle(&deliveries.acted);
        self.settle(&deliveries.dead);
        if silent.is_empty() {
            return Vec::new();
        }
        let text = format!("{} has acted on {} without an answer", self.name, silent.join(", "));
        vec![StyledLine::new(Tone::Dim, text)]
    }

    fn settle(&mut self, seqs: &[Seq]) {
        for seq in seqs {
            self.unanswered.remove(seq);
            self.settled.insert(*seq);
        }
    }

    /// Returns the text of the empty line.
    pub(super) fn placeholder(&self) -> String {
        match (self.unanswered.is_empty(), self.wait) {
            (false, WaitState::Waiting) => {
                format!("{} has your message · Ctrl-C stops waiting", self.name)
            }
            (true, _) | (false, WaitState::Stopped) => {
                format!("message {} · Ctrl-D leaves", self.name)
            }
        }
    }

    /// Applies Ctrl-C: it ends the wait, else removes the typed text, and leaves if it is pressed again.
    pub(super) fn interrupt(&mut self, draft: &mut MessageDraft) -> InterruptEffect {
        if self.is_leaving {
            return InterruptEffect::Leaves;
        }
        self.is_leaving = true;
        let note = match (self.unanswered.is_empty(), self.wait) {
            (false, WaitState::Waiting) => {
                self.wait = WaitState::Stopped;
                let name = &self.name;
                Some(format!(
                    "no longer waiting; {name} continues, and its answer appears here. Ctrl-C again leaves"
                ))
            }
            (true, _) | (false, WaitState::Stopped) if !draft.is_blank() => {
                draft.clear();
                None
            }
            (true, _) | (false, WaitState::Stopped) => None,
        };
        let note = note.unwrap_or_else(|| "press Ctrl-C again or Ctrl-D to leave".to_owned());
        InterruptEffect::Continues(note)
    }

    /// Returns the error of a person who leaves before the agent has acted on a message.
    pub(super) fn left_error(&self) -> Option<CliError> {
        self.not_acted_error(CliErrorKind::Detached, "you left", &self.unanswered)
    }

    /// Returns the error of a run that ended before the agent has acted on a message.
    pub(super) fn run_ended_error(&self) -> Option<CliError> {
        let lost = self.unanswered.union(&self.dropped).copied().collect();
        self.not_acted_error(CliErrorKind::Failed, "the run ended", &lost)
    }

    /// Returns an error about messages; `reason` is the start of its sentence.
    fn not_acted_error(
        &self,
        kind: CliErrorKind,
        reason: &str,
        seqs: &BTreeSet<Seq>,
    ) -> Option<CliError> {
        let first = seqs.first()?;
        let numbers: Vec<String> = seqs.iter().map(|seq| format!("#{seq}")).collect();
        let verb = if numbers.len() == 1 { "was" } else { "were" };
        let what = format!("{reason} before {} {verb} acted on", numbers.join(", "));
        let instance = Target { agent: None, ..self.agent.clone() };
        let hint = format!("check the receipts: agent-worker receipts {first} {instance}");
        Some(CliError::new(kind, what).with_hint(hint))
    }
}

#[cfg(test)]
mod tests;
