//! Formats events and messages: one line for an event, one or more for a message.

use std::{borrow::Cow, path::Path, time::Duration};

use agent_worker_protocol::{
    AgentName, ApprovalOpenData, Attachment, BallotCastData, DocumentPath, DocumentWrittenData,
    Event, EventBody, MentionUnheardData, Message, MessageKind, NotificationFailedData,
    PermissionGrantData, PermissionUsedData, Problem, RunVerdictData, SHELL_TOOL, Seq,
    SetupRanData, TaskEndedData, TaskPath, TaskStartedData, TaskState, ToolCallData,
    ToolResultData, VerdictOutcome, size_text,
};

use super::{AgentStatusRow, TranscriptLine};
use crate::output::{
    call_text::call_text,
    styled_line::{StyledLine, Tone},
    text::{self, cut, escape_invisible, format_elapsed, one_line},
};

/// Maximum width of a tool's arguments, in columns.
const MAX_ARGUMENT_WIDTH: usize = 160;

/// Formats a new grant, with all that it allows.
pub(super) fn granted_notice(event: &Event, data: &PermissionGrantData) -> Vec<TranscriptLine> {
    let PermissionGrantData { grant, pattern } = data;
    let pattern = escape_invisible(&pattern.to_string());
    agent_notice(event, Tone::Plain, &format!("may for the run (grant #{grant}): {pattern}"))
}

/// Formats the end of a grant.
pub(super) fn revoked_notice(event: &Event, data: &PermissionGrantData) -> Vec<TranscriptLine> {
    let PermissionGrantData { grant, pattern } = data;
    let (pattern, by) = (escape_invisible(&pattern.to_string()), event.by.as_deref());
    let text = format!("grant #{grant} is revoked by {}: {pattern}", by.unwrap_or_default());
    agent_notice(event, Tone::Plain, &text)
}

/// Formats a call that a grant allows.
pub(super) fn grant_use_notice(event: &Event, data: &PermissionUsedData) -> Vec<TranscriptLine> {
    let (tool, args) = (one_line(&data.tool), one_line(&data.args));
    agent_notice(event, Tone::Dim, &format!("grant #{} allows {tool} {args}", data.grant))
}

/// Formats words of a model during its turn.
pub(super) fn spoken_line(row: &AgentStatusRow, words: &str) -> TranscriptLine {
    let line = StyledLine::new(row.tone(), row.name.as_str()).with(Tone::Dim, " │ ");
    TranscriptLine::Notice(line.with(Tone::Plain, words))
}

/// Formats the call that an agent asks about.
pub(super) fn wanted_text(data: &ApprovalOpenData, folder: &Path) -> String {
    // The arguments are cut if they are long, and then no JSON.
    match serde_json::from_str(&data.args) {
        Ok(args) => one_line(&call_text(&data.tool, &args, folder)),
        Err(_) => format!("{} {}", one_line(&data.tool), one_line(&data.args)),
    }
}

/// Formats a message for `peek`: one line, or a header with the text below.
pub(crate) fn message_lines(message: &Message) -> Vec<StyledLine> {
    message_lines_in_tone(message, None)
}

/// Formats a message with the tone of its sender's name.
pub(super) fn message_lines_in_tone(message: &Message, sender: Option<Tone>) -> Vec<StyledLine> {
    let to = message.to.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
    let to = if to.is_empty() { to } else { format!(" → {to}") };
    let cc = message.cc.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
    let cc = if cc.is_empty() { cc } else { format!(" (cc {cc})") };
    let tone = match message.kind {
        MessageKind::Message | MessageKind::Answer => sender.unwrap_or(Tone::Strong),
        MessageKind::System => Tone::Warn,
    };
    let head = StyledLine::new(Tone::Dim, format!("#{} ", message.seq))
        .with(tone, one_line(&message.from.to_string()))
        .with(Tone::Dim, format!("{to}{cc}{}", reply_suffix(message)));
    let body = text::sanitize_for_display(message.body.trim_end());
    let mut lines = if body.contains('\n') {
        let beneath = body.lines().map(|line| StyledLine::plain(format!("  {line}")));
        std::iter::once(head).chain(beneath).collect()
    } else {
        vec![head.with(Tone::Plain, format!(": {body}"))]
    };
    // No line of a text starts in this column, so that no sender can imitate an attachment.
    let files = message.attachments.iter().map(|file| {
        StyledLine::new(
            Tone::Dim,
            format!("attached to #{}: {}", message.seq, attachment_text(file)),
        )
    });
    lines.extend(files);
    lines
}

/// Formats a file of a message: `shot.png (image/png, 34 KiB), resource 9f86…`.
pub(crate) fn attachment_text(file: &Attachment) -> String {
    let Attachment { name, media_type, size, resource } = file;
    let (name, media_type) = (one_line(name.as_str()), one_line(media_type));
    format!("{name} ({media_type}, {}), resource {resource}", size_text(*size))
}

/// Returns the reference to the answered messages: ` (reply to #5)`, ` (answer to #5, #6)`.
pub(crate) fn reply_suffix(message: &Message) -> String {
    let answered = match message.acts_on.as_slice() {
        [] => message.reply_to.as_slice(),
        acts_on => acts_on,
    };
    let answered: Vec<String> = answered.iter().map(|seq| format!("#{seq}")).collect();
    let word = match message.kind {
        MessageKind::Answer => "answer",
        MessageKind::Message | MessageKind::System => "reply",
    };
    match (message.kind, answered.is_empty()) {
        (_, false) => format!(" ({word} to {})", answered.join(", ")),
        (MessageKind::Answer, true) => format!(" ({word})"),
        (MessageKind::Message | MessageKind::System, true) => String::new(),
    }
}

/// Formats a tool call with its arguments.
pub(super) fn tool_call_text(data: &ToolCallData) -> String {
    let args = cut(&one_line(&data.args.to_string()), MAX_ARGUMENT_WIDTH);
    format!("calls {} {args}", one_line(&data.tool))
}

/// Formats the result of a tool call.
pub(super) fn tool_result_text(data: &ToolResultData) -> String {
    let went = if data.ok { "answered" } else { "failed" };
    let summary = cut(&one_line(&result_summary(data)), MAX_ARGUMENT_WIDTH);
    format!("{} {went}: {summary}", one_line(&data.tool))
}

/// Returns the message of a problem that the daemon reported; any other result as it is.
fn result_summary(data: &ToolResultData) -> Cow<'_, str> {
    match serde_json::from_str::<Problem>(&data.summary) {
        Ok(problem) if !data.ok => Cow::Owned(problem.message),
        Ok(_) | Err(_) => Cow::Borrowed(&data.summary),
    }
}

/// Returns whether a tool call failed that was not a command: commands fail often, and their agent handles that.
pub(super) fn is_tool_failure(data: &ToolResultData) -> bool {
    !data.ok && data.tool != SHELL_TOOL
}

/// Formats the end of a setup command.
pub(super) fn setup_text(data: &SetupRanData) -> String {
    let status = data.status.map_or_else(|| "null".to_owned(), |status| status.to_string());
    format!("setup command on line {} ended with status {status}", data.line)
}

/// Formats the start of a task.
pub(super) fn task_start_text(data: &TaskStartedData) -> String {
    let again = match data.attempt {
        ..=1 => String::new(),
        attempt => format!(" again (attempt {attempt})"),
    };
    format!("task `{}` starts{again}", task_text(&data.task, data.item))
}

/// Formats the end of a task.
pub(super) fn task_end_notice(event: &Event, data: &TaskEndedData) -> Vec<TranscriptLine> {
    let tone = match data.state {
        TaskState::Done => Tone::Good,
        TaskState::Failed => Tone::Bad,
        TaskState::Stopped => Tone::Warn,
        TaskState::Skipped | TaskState::Waiting | TaskState::Running => Tone::Dim,
    };
    let took = data
        .ms
        .map(|ms| format!(" ({})", format_elapsed(Duration::from_millis(ms))))
        .unwrap_or_default();
    let why = data.error.as_deref().map(|why| format!(": {}", one_line(why))).unwrap_or_default();
    let words = format!("task `{}` {}{took}{why}", task_text(&data.task, data.item), data.state);
    agent_notice(event, tone, &words)
}

fn task_text(task: &TaskPath, item: Option<u32>) -> String {
    let item = item.map(|item| format!("[{item}]")).unwrap_or_default();
    format!("{}{item}", one_line(task.as_str()))
}

/// Formats the new revision of a document.
pub(super) fn written_text(data: &DocumentWrittenData) -> String {
    format!("wrote {}, revision {}", one_line(data.path.as_str()), data.revision)
}

/// Formats a worker's retry and its cause.
pub(super) fn retry_text(event: &Event) -> String {
    format!("retrying: {}", cause_of(event))
}

/// Formats a ballot and its voter.
pub(super) fn vote_text(event: &Event, data: &BallotCastData) -> String {
    let by = match (&event.agent, &event.by) {
        (None, Some(by)) => format!("{} ", one_line(by)),
        (Some(_), _) | (None, None) => String::new(),
    };
    format!("{by}votes {} on proposal #{}", one_line(&data.choice), data.proposal)
}

/// Formats a delivery that became a dead letter.
pub(super) fn dead_notice(event: &Event, seq: Option<Seq>) -> Vec<TranscriptLine> {
    undelivered_notice(event, Tone::Bad, "gave up on", seq)
}

/// Formats a delivery that was dropped.
pub(super) fn dropped_notice(event: &Event, seq: Option<Seq>) -> Vec<TranscriptLine> {
    undelivered_notice(event, Tone::Warn, "will not get", seq)
}

/// Formats a notification that could not be delivered.
pub(super) fn unsent_notice(event: &Event, data: &NotificationFailedData) -> Vec<TranscriptLine> {
    let NotificationFailedData { occasion, channel, why } = data;
    let words = format!("the notification ({channel}, {occasion}) failed: {}", one_line(why));
    agent_notice(event, Tone::Warn, &words)
}

/// Formats a mention whose agent was not messaged.
pub(super) fn unheard_notice(event: &Event, data: &MentionUnheardData) -> Vec<TranscriptLine> {
    let cause = event.cause.as_ref().map(|_| format!(": {}", cause_of(event))).unwrap_or_default();
    let MentionUnheardData { seq, agent } = data;
    let words = format!("mentions {agent} in #{seq}; {agent} was not messaged{cause}");
    agent_notice(event, Tone::Warn, &words)
}

fn undelivered_notice(
    event: &Event,
    tone: Tone,
    fate: &str,
    seq: Option<Seq>,
) -> Vec<TranscriptLine> {
    let message = seq.map_or_else(|| "a message".to_owned(), |seq| format!("message #{seq}"));
    agent_notice(event, tone, &format!("{fate} {message}: {}", cause_of(event)))
}

/// Formats a line about an event, with its agent in front.
pub(super) fn agent_notice(event: &Event, tone: Tone, words: &str) -> Vec<TranscriptLine> {
    let who = event.agent.as_ref().map(|agent| format!("{agent}: ")).unwrap_or_default();
    vec![TranscriptLine::Notice(StyledLine::new(tone, format!("{who}{words}")))]
}

/// Formats the verdict of an agent about the run.
pub(super) fn verdict_notice(event: &Event, data: &RunVerdictData) -> Vec<TranscriptLine> {
    let tone = match data.outcome {
        VerdictOutcome::Done => Tone::Good,
        VerdictOutcome::Failed => Tone::Bad,
    };
    agent_notice(event, tone, &format!("verdict {}: {}", data.outcome, one_line(&data.summary)))
}

/// Formats the conflict of a person's edit that is not in its document.
pub(super) fn conflict_notice(event: &Event, path: &DocumentPath) -> Vec<TranscriptLine> {
    let path = one_line(path.as_str());
    let notice = format!("what was written into {path} is set aside: {}", cause_of(event));
    vec![TranscriptLine::Notice(StyledLine::new(Tone::Warn, notice))]
}

/// Returns the cause of an event: its own text, else the cause in its data.
pub(super) fn cause_of(event: &Event) -> String {
    let in_data = || match &event.body {
        EventBody::RunPaused(data) => Some(data.cause.to_string()),
        EventBody::Retry(data) => Some(data.why.clone()).filter(|why| !why.is_empty()),
        _ => None,
    };
    let cause = event.cause.clone().or_else(in_data);
    one_line(&cause.unwrap_or_else(|| "no reason given".to_owned()))
}
