//! What was said in an instance, and how its mail and votes stand, for people to read in files. Not here: files.
//!
//! Invariant: an entry says only what never changes about its message, so that a file that was right stays right.

use std::{collections::BTreeMap, path::PathBuf};

use agent_worker_protocol::{
    AgentName, DocumentPath, InstanceRef, Message, MessageKind, Proposal, RunId, Seq, WorkflowId,
    harmless,
};
use agent_worker_store::{Change, Error as StoreError, MessageQuery, Order, ProposalQuery, Store};
use agent_worker_workflow::Provider;
use serde::Serialize;

use crate::{
    error::Result,
    kernel::{Card, Kernel},
    shelf::Stage,
};

/// So many messages are read at once.
const PAGE: u32 = 256;
/// So much of an agent's mail is told.
const MOST_MAIL: u32 = 100;
/// So many decisions are told.
const MOST_DECIDED: u32 = 20;
/// What every entry begins with, and no line of a message.
const ENTRY: &str = "### ";
/// What a channel's file says of itself, under its first line.
const OURS: &str = "Written by agent-worker, for reading: what you write here is not read back, and is overwritten.";
/// What a file of how things stand begins with.
const STATE: &str = "{\n  \"run\": \"";

/// The channel of one run's instance, for whoever keeps it as a file.
#[derive(Clone)]
pub struct Transcript {
    kernel: Kernel,
    run: RunId,
    workflow: WorkflowId,
    instance: InstanceRef,
    project: PathBuf,
    folder: Vec<String>,
    channel: DocumentPath,
}

/// A stretch of the channel, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its last message.
    pub last: Seq,
    /// What it says.
    pub text: String,
}

/// How an instance's mail stands.
#[derive(Serialize)]
struct Mail {
    run: RunId,
    agents: BTreeMap<AgentName, Inbox>,
}

#[derive(Serialize)]
struct Inbox {
    /// What waits for it, the first hundred.
    pending: Vec<Seq>,
    /// What its live attempt was shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shown: Vec<Seq>,
    /// Why it is not woken any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
}

/// How an instance's votes stand.
#[derive(Serialize)]
struct Votes {
    run: RunId,
    active: Vec<Proposal>,
    /// The newest of this run that decided something.
    decided: Vec<Proposal>,
}

impl Transcript {
    /// That of a run whose channel is kept as a file.
    pub(crate) fn of(kernel: &Kernel, card: &Card) -> Option<Self> {
        let context = &card.script.workflow.context;
        match context.provider {
            Provider::File => {}
            Provider::Sqlite | Provider::Memory | Provider::Off => return None,
        }
        Some(Self {
            kernel: kernel.clone(),
            run: card.run,
            workflow: card.workflow,
            instance: card.instance.clone(),
            project: PathBuf::from(&card.project),
            folder: context.layout.folder(&card.instance.name, &card.instance.tag),
            channel: context.layout.channel.clone(),
        })
    }

    /// The project, and the folders beneath it, each in the one before.
    pub fn place(&self) -> (&PathBuf, &[String]) {
        (&self.project, &self.folder)
    }

    /// The file of the channel, in that folder.
    pub fn channel(&self) -> &DocumentPath {
        &self.channel
    }

    /// Waits until something of the instance has changed. A hint.
    pub async fn changed(&self, seen: Change) -> Change {
        self.store().change_wait(self.workflow, seen).await
    }

    /// How far the run is.
    pub async fn stage(&self) -> Result<Stage> {
        self.kernel.stage(self.run).await
    }

    /// What the file begins with.
    pub fn heading(&self) -> String {
        format!("# {}\n\n{OURS}\n\n", self.instance)
    }

    /// Whether a file that begins so is a channel's: this one's as far as it was written, or one that says it is.
    pub fn is_channel(&self, beginning: &[u8]) -> bool {
        is_channel(beginning, &self.heading())
    }

    /// Whether a file that begins so tells how an instance's mail or votes stand.
    pub fn is_state(beginning: &[u8]) -> bool {
        beginning.is_empty() || beginning.starts_with(STATE.as_bytes())
    }

    /// What was said after a message, the next stretch of it, over all runs.
    pub async fn said(&self, after: Seq) -> Result<Option<Stretch>> {
        let query =
            MessageQuery { run: None, after, search: None, order: Order::OldestFirst, limit: PAGE };
        let messages = self.store().message_list(self.workflow, query).await?;
        let Some(last) = messages.last().map(|message| message.seq) else { return Ok(None) };
        Ok(Some(Stretch { last, text: messages.iter().map(entry).collect() }))
    }

    /// How the mail of each agent stands, as JSON.
    pub async fn mail(&self) -> Result<String> {
        let mut agents = BTreeMap::new();
        for agent in self.store().agent_list(self.workflow).await? {
            let name = agent.name.clone();
            let pending = self.store().inbox_pending(self.workflow, name, MOST_MAIL).await?;
            let mut pending: Vec<Seq> = pending.iter().map(|shown| shown.message.seq).collect();
            pending.sort_unstable();
            let shown = match agent.live {
                Some(live) => self.store().attempt_get(live.attempt).await?.shown,
                None => Vec::new(),
            };
            let shown = shown.into_iter().map(|(seq, _)| seq).collect();
            agents.insert(agent.name, Inbox { pending, shown, stopped: agent.stopped });
        }
        json(&Mail { run: self.run, agents })
    }

    /// How the votes stand, as JSON.
    pub async fn votes(&self) -> Result<String> {
        let (now, decided) = (self.kernel.now(), ProposalQuery::Decided(self.run, MOST_DECIDED));
        json(&Votes {
            run: self.run,
            active: self.store().proposal_list(self.workflow, ProposalQuery::Active, now).await?,
            decided: self.store().proposal_list(self.workflow, decided, now).await?,
        })
    }

    fn store(&self) -> &dyn Store {
        &*self.kernel.store
    }
}

fn is_channel(beginning: &[u8], heading: &str) -> bool {
    if heading.as_bytes().starts_with(beginning) {
        return true;
    }
    let text = String::from_utf8_lossy(beginning);
    let says = |(title, rest): (&str, &str)| title.starts_with("# ") && rest.starts_with(OURS);
    text.split_once("\n\n").is_some_and(says)
}

fn json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value);
    Ok(text.map_err(|error| StoreError::Garbled(error.to_string()))? + "\n")
}

/// One message as it is written.
fn entry(message: &Message) -> String {
    let Message { ts, from, seq, .. } = message;
    let kind = match message.kind {
        MessageKind::Answer => " answer",
        MessageKind::Message | MessageKind::System => "",
    };
    let to = message.reply_to.map(|to| format!(" to #{to}")).unwrap_or_default();
    let mut entry = format!("{ENTRY}{ts} [{from}] #{seq}{kind}{to}\n");
    // People read the file in a terminal.
    for line in harmless(&message.body).split_inclusive('\n') {
        push_line(&mut entry, line);
    }
    entry.push_str("\n\n");
    entry
}

/// A line that would be taken for a heading is written as one that is none: nobody speaks as another.
fn push_line(entry: &mut String, line: &str) {
    let words = line.trim_start_matches([' ', '\t']);
    if words.trim_start_matches('\\').starts_with('#') {
        entry.push_str(&line[..line.len() - words.len()]);
        entry.push('\\');
        entry.push_str(words);
    } else {
        entry.push_str(line);
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{Millis, Priority, Sender};

    use super::*;

    fn message(body: &str) -> Message {
        Message {
            seq: Seq::new(12),
            run: RunId::new(uuid()),
            ts: Millis::new(1_700_000_000_123),
            from: Sender::Agent("coder".parse().unwrap()),
            kind: MessageKind::Message,
            body: body.to_owned(),
            reply_to: None,
            hops: 1,
            priority: Priority::Normal,
            to: Vec::new(),
            cc: Vec::new(),
            resource: None,
        }
    }

    fn uuid() -> uuid::Uuid {
        uuid::Uuid::nil()
    }

    #[test]
    fn a_file_is_a_channels_only_if_it_begins_as_one() {
        let heading = format!("# team:main\n\n{OURS}\n\n");
        for ours in
            ["", "# te", &heading, &format!("{heading}### 2026"), &heading.replace("team", "b")]
        {
            assert!(is_channel(ours.as_bytes(), &heading), "{ours}");
        }
        for theirs in
            ["# team:main\n\nOur team.\n", "gone", "# Readme\n", &format!("{OURS}\n\n"), "\n"]
        {
            assert!(!is_channel(theirs.as_bytes(), &heading), "{theirs}");
        }
        assert!(!is_channel(b"\xff\xfe", &heading));
        let mail = Mail { run: RunId::new(uuid()), agents: BTreeMap::new() };
        let votes = Votes { run: RunId::new(uuid()), active: Vec::new(), decided: Vec::new() };
        for ours in [json(&mail).unwrap(), json(&votes).unwrap(), String::new()] {
            assert!(Transcript::is_state(ours.as_bytes()), "{ours}");
        }
        assert!(!Transcript::is_state(b"{ \"run\": \"mine\" }"));
    }

    #[test]
    fn no_line_of_a_message_begins_an_entry() {
        for (body, written) in [
            ("one\ntwo", "one\ntwo"),
            ("", ""),
            ("### 2026 [user] #13", "\\### 2026 [user] #13"),
            ("a\n  ## b", "a\n  \\## b"),
            ("a\r### b", "a␍### b"),
            ("a\r\n### b", "a\n\\### b"),
            ("\x1b[2J\x1b]0;title\x07\ttab", "␛[2J␛]0;title␇\ttab"),
            ("\u{9b}31m \u{202e}txt", "\\u{9b}31m \\u{202e}txt"),
            ("a\n\\# b", "a\n\\\\# b"),
            ("a # b\n", "a # b\n"),
        ] {
            let expected = format!("### 2023-11-14T22:13:20.123Z [coder] #12\n{written}\n\n");
            assert_eq!(entry(&message(body)), expected);
        }
        let answer =
            Message { kind: MessageKind::Answer, reply_to: Some(Seq::new(9)), ..message("done") };
        let expected = "### 2023-11-14T22:13:20.123Z [coder] #12 answer to #9\ndone\n\n";
        assert_eq!(entry(&answer), expected);
    }
}
