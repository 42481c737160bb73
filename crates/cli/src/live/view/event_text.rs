//! How what happened is put into words: one line for an event, one or more for a message.

use agent_worker_protocol::{
    AgentName, Event, EventKind, Message, MessageKind, RunState, SHELL_TOOL,
};
use serde_json::Value;

use super::TranscriptLine;
use crate::output::{
    styled_line::{StyledLine, Tone},
    text::{self, cut, one_line},
};

/// The widest a tool's arguments are shown.
const MAX_ARGUMENT_WIDTH: usize = 160;

/// A message as `run` and `peek` show it: one line, or a header and its text beneath.
pub(crate) fn message_lines(message: &Message) -> Vec<StyledLine> {
    let to = message.to.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
    let to = if to.is_empty() { to } else { format!(" → {to}") };
    let cc = message.cc.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
    let cc = if cc.is_empty() { cc } else { format!(" (cc {cc})") };
    let (tone, kind) = match message.kind {
        MessageKind::Message => (Tone::Strong, ""),
        MessageKind::Answer => (Tone::Strong, " (answer)"),
        MessageKind::System => (Tone::Warn, ""),
    };
    let head = StyledLine::new(Tone::Dim, format!("#{} ", message.seq))
        .with(tone, one_line(&message.from.to_string()))
        .with(Tone::Dim, format!("{to}{cc}{kind}{}", reply_suffix(message)));
    let body = text::sanitize_for_display(message.body.trim_end());
    if !body.contains('\n') {
        return vec![head.with(Tone::Plain, format!(": {body}"))];
    }
    let beneath = body.lines().map(|line| StyledLine::plain(format!("  {line}")));
    std::iter::once(head).chain(beneath).collect()
}

/// What a message answers: ` (reply to #5)`.
pub(crate) fn reply_suffix(message: &Message) -> String {
    message.reply_to.map(|seq| format!(" (reply to #{seq})")).unwrap_or_default()
}

/// What a tool was called with.
pub(super) fn tool_call_text(event: &Event) -> String {
    let args = event.data.get("args").map(Value::to_string).unwrap_or_default();
    let args = cut(&one_line(&args), MAX_ARGUMENT_WIDTH);
    format!("calls {} {args}", one_line(text_field(event, "tool")))
}

/// What came of it.
pub(super) fn tool_result_text(event: &Event) -> String {
    let went = match event.data.get("ok").and_then(Value::as_bool) {
        Some(false) => "failed",
        Some(true) | None => "answered",
    };
    let summary = cut(&one_line(text_field(event, "summary")), MAX_ARGUMENT_WIDTH);
    format!("{} {went}: {summary}", one_line(text_field(event, "tool")))
}

/// Whether a tool call failed that was not a command: commands fail all day, and their agent sees to it.
pub(super) fn is_tool_failure(event: &Event) -> bool {
    event.data.get("ok") == Some(&Value::Bool(false)) && text_field(event, "tool") != SHELL_TOOL
}

/// What is told only to whoever wants every detail.
pub(super) fn verbose_text(event: &Event) -> String {
    match event.kind {
        EventKind::SetupRan => {
            let (line, status) = (&event.data["line"], &event.data["status"]);
            format!("setup of line {line} ended with status {status}")
        }
        EventKind::DocumentWritten => {
            let path = one_line(text_field(event, "path"));
            format!("wrote {path}, revision {}", event.data["revision"])
        }
        EventKind::Retry => format!("tries again: {}", cause_of(event)),
        EventKind::RowDamaged => cause_of(event),
        EventKind::ChannelCleared => "the channel was cleared".to_owned(),
        EventKind::BallotCast => vote_text(event),
        other => other.to_string(),
    }
}

/// How somebody voted.
fn vote_text(event: &Event) -> String {
    let by = match (&event.agent, &event.by) {
        (None, Some(by)) => format!("{} ", one_line(by)),
        (Some(_), _) | (None, None) => String::new(),
    };
    format!(
        "{by}votes {} on proposal #{}",
        one_line(text_field(event, "choice")),
        event.data["proposal"]
    )
}

/// A list of numbers in an event.
pub(super) fn number_list(event: &Event, name: &str) -> Vec<i64> {
    let list = event.data.get(name).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_i64).collect()
}

/// A message somebody will not act upon.
pub(super) fn undelivered_notice(event: &Event) -> Vec<TranscriptLine> {
    let seq = event.data.get("seq").and_then(Value::as_i64);
    let message = seq.map_or_else(|| "a message".to_owned(), |seq| format!("message #{seq}"));
    let (tone, fate) = match event.kind {
        EventKind::DeliveryDead => (Tone::Bad, "gave up on"),
        _ => (Tone::Warn, "will not get"),
    };
    agent_notice(event, tone, &format!("{fate} {message}: {}", cause_of(event)))
}

/// A line about an event, beginning with whose it is.
pub(super) fn agent_notice(event: &Event, tone: Tone, words: &str) -> Vec<TranscriptLine> {
    let who = event.agent.as_ref().map(|agent| format!("{agent}: ")).unwrap_or_default();
    vec![TranscriptLine::Notice(StyledLine::new(tone, format!("{who}{words}")))]
}

/// A text of a person that is not in its document.
pub(super) fn conflict_notice(event: &Event) -> Vec<TranscriptLine> {
    let path = one_line(text_field(event, "path"));
    let said = format!("what was written into {path} is set aside: {}", cause_of(event));
    vec![TranscriptLine::Notice(StyledLine::new(Tone::Warn, said))]
}

/// Why it happened: the event's own words, else those in its state.
pub(super) fn cause_of(event: &Event) -> String {
    let paused = || match serde_json::from_value(event.data.clone()) {
        Ok(RunState::Paused { cause }) => Some(cause.to_string()),
        _ => None,
    };
    let why = || Some(text_field(event, "why").to_owned()).filter(|why| !why.is_empty());
    let cause = event.cause.clone().or_else(paused).or_else(why);
    one_line(&cause.unwrap_or_else(|| "no reason given".to_owned()))
}

/// A text in an event.
pub(super) fn text_field<'a>(event: &'a Event, key: &str) -> &'a str {
    event.data.get(key).and_then(Value::as_str).unwrap_or_default()
}
