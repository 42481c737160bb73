//! The rows of the full screen: agents, items that need attention, messages. Pure.

use std::path::PathBuf;

use agent_worker_protocol::{
    AgentName, InstanceRef, Message, Millis, RunId, Seq, Target,
    api::{ApprovalView, DeadLetter, QuestionView},
};

use crate::{
    live::{
        attention_panel::{ItemId, OpenItem},
        view::message_lines,
    },
    output::{
        request_text::request_summary,
        styled_line::{StyledLine, Tone},
        text::one_line,
    },
};

/// The identity of a row, which stays the same while the list changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntryKey {
    Agent(RunId, AgentName),
    Item(RunId, ItemId),
    DeadLetter(RunId, Seq, AgentName),
    Message(RunId, Seq),
}

/// An item that needs a person.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a screen has few of them, and most are open items")]
pub(super) enum AttentionEntry {
    /// A request or a question, which a key can answer.
    Open(OpenItem),
    /// A message that its agent could not handle.
    Dead(Box<DeadLetter>),
}

/// A message of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChannelEntry {
    pub(super) run: RunId,
    pub(super) instance: InstanceRef,
    pub(super) message: Message,
}

/// The place of an item: the address of its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ItemPlace {
    pub(crate) instance: InstanceRef,
    pub(crate) project: PathBuf,
}

impl AttentionEntry {
    pub(super) fn key(&self) -> EntryKey {
        match self {
            Self::Open(item) => EntryKey::Item(run_of(item), item.id()),
            Self::Dead(letter) => {
                EntryKey::DeadLetter(letter.run, letter.receipt.seq, letter.receipt.agent.clone())
            }
        }
    }

    /// Returns the place of a request or a question.
    pub(super) fn place(&self) -> ItemPlace {
        let (instance, project) = match self {
            Self::Open(
                OpenItem::Approval(ApprovalView { instance, project, .. })
                | OpenItem::Question(QuestionView { instance, project, .. }),
            ) => (instance, project),
            Self::Dead(letter) => (&letter.instance, &letter.project),
        };
        ItemPlace { instance: instance.clone(), project: project.clone() }
    }

    /// Formats the item on one line.
    pub(super) fn line(&self) -> StyledLine {
        match self {
            Self::Open(OpenItem::Approval(request)) => {
                let who = Target::agent(request.agent.clone(), &request.instance);
                let tool = one_line(&request.tool);
                StyledLine::new(Tone::Warn, format!("request #{} {who}", request.id)).with(
                    Tone::Plain,
                    format!(" wants {tool} {}", one_line(&request_summary(&request.args))),
                )
            }
            Self::Open(OpenItem::Question(question)) => {
                let who = Target::agent(question.agent.clone(), &question.instance);
                StyledLine::new(Tone::Warn, format!("question #{} {who}", question.id))
                    .with(Tone::Plain, format!(": {}", one_line(&question.question)))
            }
            Self::Dead(letter) => {
                let receipt = &letter.receipt;
                let who = Target::agent(receipt.agent.clone(), &letter.instance);
                let why = receipt.why.as_deref().unwrap_or("no reason given");
                StyledLine::new(Tone::Bad, format!("dead letter #{} {who}", receipt.seq))
                    .with(Tone::Plain, format!(": {}", one_line(why)))
            }
        }
    }

    /// Returns the time since which the item is open; dead letters have none.
    pub(super) fn asked(&self) -> Option<Millis> {
        match self {
            Self::Open(OpenItem::Approval(request)) => Some(request.asked),
            Self::Open(OpenItem::Question(question)) => Some(question.asked),
            Self::Dead(_) => None,
        }
    }
}

impl ChannelEntry {
    pub(super) fn key(&self) -> EntryKey {
        EntryKey::Message(self.run, self.message.seq)
    }

    /// Formats the message on one line, behind its instance if several are shown.
    pub(super) fn line(&self, is_one_of_several: InstanceLabel) -> StyledLine {
        let lines = message_lines(&self.message);
        let first = lines.first().cloned().unwrap_or_default();
        let body = match lines.get(1) {
            Some(_) => one_line(&self.message.body),
            None => String::new(),
        };
        let separator = if body.is_empty() { "" } else { ": " };
        let line = first.with(Tone::Plain, format!("{separator}{body}"));
        match is_one_of_several {
            InstanceLabel::Shown => line.with_prefix(Tone::Dim, format!("{} ", self.instance)),
            InstanceLabel::Omitted => line,
        }
    }
}

/// The instance in front of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstanceLabel {
    /// The screen shows several instances.
    Shown,
    /// The screen shows one instance.
    Omitted,
}

fn run_of(item: &OpenItem) -> RunId {
    match item {
        OpenItem::Approval(request) => request.run,
        OpenItem::Question(question) => question.run,
    }
}
