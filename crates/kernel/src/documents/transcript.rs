//! The channel of an instance as text, and the state of its mail and votes as JSON, for people. Not here: file
//! access.
//!
//! Invariant: an entry contains only immutable facts of its message, so that a correct file stays correct.

use std::{collections::BTreeMap, path::PathBuf};

use agent_worker_protocol::{
    AgentName, DocumentPath, InstanceRef, Message, MessageKind, Proposal, RunId, Seq, WorkflowId,
    api::ProposalView, attachments_line, sanitize_for_display,
};
use agent_worker_store::{
    ChangeCursor, Error as StoreError, ListRange, MessageOrder, MessageQuery, ProposalQuery, Store,
};
use agent_worker_workflow::Provider;
use serde::Serialize;

use crate::{
    documents::document_files::RunStage,
    error::Result,
    kernel::{Kernel, RunContext},
};

/// Number of messages per read.
const MESSAGE_PAGE_SIZE: u32 = 256;
/// Maximum number of pending messages of an agent in the state file.
const MAX_PENDING_MESSAGES: u32 = 100;
/// Maximum number of decisions in the state file.
const MAX_DECIDED_PROPOSALS: u32 = 20;
/// Prefix of every entry; no line of a message starts with it.
const ENTRY_PREFIX: &str = "### ";
/// Notice in a channel's file, below its first line.
const GENERATED_NOTICE: &str =
    "agent-worker writes this file. It ignores and overwrites your changes.";
/// Notice of earlier versions, whose files are recognized and overwritten.
const EARLIER_NOTICE: &str = "Written by agent-worker, for reading: what you write here is not read back, and is overwritten.";
/// First bytes of a state file.
const STATE_FILE_PREFIX: &str = "{\n  \"run\": \"";

/// The channel of one run's instance, for the file sync.
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

/// A part of the channel as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptChunk {
    /// Last message of the part.
    pub last: Seq,
    /// Text of the part.
    pub text: String,
}

/// The state of an instance's mail.
#[derive(Serialize)]
struct MailStatus {
    run: RunId,
    agents: BTreeMap<AgentName, AgentMailStatus>,
}

#[derive(Serialize)]
struct AgentMailStatus {
    /// Pending messages, the first hundred.
    pending: Vec<Seq>,
    /// Messages that were shown to the live attempt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shown: Vec<Seq>,
    /// The reason why the agent is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
}

/// The state of an instance's votes.
#[derive(Serialize)]
struct VoteStatus {
    run: RunId,
    active: Vec<ProposalView>,
    /// The newest proposals of this run with a decision.
    decided: Vec<ProposalView>,
}

impl Transcript {
    /// Returns the transcript of a run whose channel is kept as a file.
    pub(crate) fn of(kernel: &Kernel, run_context: &RunContext) -> Option<Self> {
        let context = &run_context.script.workflow.context;
        match context.provider {
            Provider::File => {}
            Provider::Sqlite | Provider::Memory | Provider::Off => return None,
        }
        Some(Self {
            kernel: kernel.clone(),
            run: run_context.run,
            workflow: run_context.workflow,
            instance: run_context.instance.clone(),
            project: PathBuf::from(&run_context.project),
            folder: context.layout.folder(&run_context.instance.name, &run_context.instance.tag),
            channel: context.layout.channel.clone(),
        })
    }

    /// Returns the project, and the nested folder names beneath it.
    pub fn location(&self) -> (&PathBuf, &[String]) {
        (&self.project, &self.folder)
    }

    /// Returns the path of the channel file in that folder.
    pub fn channel(&self) -> &DocumentPath {
        &self.channel
    }

    /// Waits until the instance has changed. A hint: the caller reads the store.
    pub async fn wait_for_change(&self, seen: ChangeCursor) -> ChangeCursor {
        self.store().change_wait(self.workflow, seen).await
    }

    /// Returns the stage of the run.
    pub async fn run_stage(&self) -> Result<RunStage> {
        self.kernel.run_stage(self.run).await
    }

    /// Returns the start of the file.
    pub fn heading(&self) -> String {
        format!("# {}\n\n{GENERATED_NOTICE}\n\n", self.instance)
    }

    /// Returns true if a file with this beginning is a channel file: a possibly incomplete one of ours, or one with
    /// our notice.
    pub fn is_channel(&self, beginning: &[u8]) -> bool {
        begins_as_channel(beginning, &self.heading())
    }

    /// Returns true if a file with this beginning is a state file.
    pub fn is_state(beginning: &[u8]) -> bool {
        beginning.is_empty() || beginning.starts_with(STATE_FILE_PREFIX.as_bytes())
    }

    /// Returns the next part of the channel after a message, over all runs.
    pub async fn next_chunk(&self, after: Seq) -> Result<Option<TranscriptChunk>> {
        let query = MessageQuery {
            run: None,
            after,
            before: None,
            search: None,
            to: None,
            order: MessageOrder::OldestFirst,
            limit: MESSAGE_PAGE_SIZE,
        };
        let messages = self.store().message_list(self.workflow, query).await?;
        let Some(last) = messages.last().map(|message| message.seq) else { return Ok(None) };
        Ok(Some(TranscriptChunk { last, text: messages.iter().map(format_entry).collect() }))
    }

    /// Returns the state of each agent's mail as JSON.
    pub async fn mail_json(&self) -> Result<String> {
        let mut agents = BTreeMap::new();
        for agent in self.store().agent_list(self.workflow).await? {
            let name = agent.name.clone();
            let pending = self
                .store()
                .inbox_pending(self.workflow, name, ListRange::first(MAX_PENDING_MESSAGES))
                .await?;
            let mut pending: Vec<Seq> = pending.iter().map(|shown| shown.message.seq).collect();
            pending.sort_unstable();
            let shown = match agent.live {
                Some(live) => self.store().attempt_get(live.attempt).await?.shown,
                None => Vec::new(),
            };
            let shown = shown.into_iter().map(|(seq, _)| seq).collect();
            agents.insert(agent.name, AgentMailStatus { pending, shown, stopped: agent.stopped });
        }
        to_json(&MailStatus { run: self.run, agents })
    }

    /// Returns the state of the votes as JSON.
    pub async fn votes_json(&self) -> Result<String> {
        let (now, decided) =
            (self.kernel.now(), ProposalQuery::Decided(self.run, MAX_DECIDED_PROPOSALS));
        let active = self.store().proposal_list(self.workflow, ProposalQuery::Active, now).await?;
        let decided = self.store().proposal_list(self.workflow, decided, now).await?;
        let views = |list: Vec<Proposal>| list.into_iter().map(ProposalView::from).collect();
        to_json(&VoteStatus { run: self.run, active: views(active), decided: views(decided) })
    }

    fn store(&self) -> &dyn Store {
        &*self.kernel.store
    }
}

fn begins_as_channel(beginning: &[u8], heading: &str) -> bool {
    if heading.as_bytes().starts_with(beginning) {
        return true;
    }
    let text = String::from_utf8_lossy(beginning);
    let notices = [GENERATED_NOTICE, EARLIER_NOTICE];
    let says = |(title, rest): (&str, &str)| {
        title.starts_with("# ") && notices.iter().any(|notice| rest.starts_with(notice))
    };
    text.split_once("\n\n").is_some_and(says)
}

fn to_json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value);
    Ok(text.map_err(|error| StoreError::InvalidValue(error.to_string()))? + "\n")
}

/// Formats one message as an entry.
fn format_entry(message: &Message) -> String {
    let Message { ts, from, seq, .. } = message;
    let kind = match message.kind {
        MessageKind::Answer => " answer",
        MessageKind::Message | MessageKind::System => "",
    };
    let answered = match message.acts_on.as_slice() {
        [] => message.reply_to.as_slice(),
        acts_on => acts_on,
    };
    let answered: Vec<String> = answered.iter().map(|seq| format!("#{seq}")).collect();
    let to =
        if answered.is_empty() { String::new() } else { format!(" to {}", answered.join(", ")) };
    // On the line of the heading, which no author can imitate.
    let files = attachments_line(&message.attachments);
    let files = files.map(|files| format!(" {}", sanitize_for_display(&files)));
    let files = files.unwrap_or_default();
    let mut entry = format!("{ENTRY_PREFIX}{ts} [{from}] #{seq}{kind}{to}{files}\n");
    // People read the file in a terminal.
    for line in sanitize_for_display(&message.body).split_inclusive('\n') {
        push_line(&mut entry, line);
    }
    entry.push_str("\n\n");
    entry
}

/// Appends a line, escaped if it could be read as a heading, so that no author can imitate another.
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
            acts_on: Vec::new(),
            resource: None,
            attachments: Vec::new(),
        }
    }

    fn uuid() -> uuid::Uuid {
        uuid::Uuid::nil()
    }

    #[test]
    fn a_file_is_a_channels_only_if_it_begins_as_one() {
        let heading = format!("# team:main\n\n{GENERATED_NOTICE}\n\n");
        for ours in [
            "",
            "# te",
            &heading,
            &format!("{heading}### 2026"),
            &heading.replace("team", "b"),
            &format!("# team:main\n\n{EARLIER_NOTICE}\n\n"),
        ] {
            assert!(begins_as_channel(ours.as_bytes(), &heading), "{ours}");
        }
        for theirs in [
            "# team:main\n\nOur team.\n",
            "gone",
            "# Readme\n",
            &format!("{GENERATED_NOTICE}\n\n"),
            "\n",
        ] {
            assert!(!begins_as_channel(theirs.as_bytes(), &heading), "{theirs}");
        }
        assert!(!begins_as_channel(b"\xff\xfe", &heading));
        let mail = MailStatus { run: RunId::new(uuid()), agents: BTreeMap::new() };
        let votes = VoteStatus { run: RunId::new(uuid()), active: Vec::new(), decided: Vec::new() };
        for ours in [to_json(&mail).unwrap(), to_json(&votes).unwrap(), String::new()] {
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
            assert_eq!(format_entry(&message(body)), expected);
        }
        let answer =
            Message { kind: MessageKind::Answer, reply_to: Some(Seq::new(9)), ..message("done") };
        let expected = "### 2023-11-14T22:13:20.123Z [coder] #12 answer to #9\ndone\n\n";
        assert_eq!(format_entry(&answer), expected);
        let answer = Message { acts_on: vec![Seq::new(9), Seq::new(11)], ..answer };
        let expected = "### 2023-11-14T22:13:20.123Z [coder] #12 answer to #9, #11\ndone\n\n";
        assert_eq!(format_entry(&answer), expected);
        let file = agent_worker_protocol::Attachment {
            name: "a\u{202e}b.txt".parse().unwrap(),
            media_type: "text/plain".into(),
            size: 7,
            resource: agent_worker_protocol::ResourceId::new([0; 32]),
        };
        let sent = Message { attachments: vec![file], ..message("see") };
        let expected = "### 2023-11-14T22:13:20.123Z [coder] #12 [attached: a\\u{202e}b.txt, text/plain, 7 B]\nsee\n\n";
        assert_eq!(format_entry(&sent), expected);
    }
}
