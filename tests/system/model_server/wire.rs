//! A vendor's way to ask a model: what its requests say, and what answers look like.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::{
    chat::Chat,
    gemini::Gemini,
    messages::Messages,
    responses::Responses,
    script::{Asked, Plan},
};

/// One of them.
pub(super) trait Wire {
    fn read(&self, body: &Value) -> Asked;
    /// An answer in one piece.
    fn whole(&self, body: &Value, plan: &Plan) -> Value;
    /// The same as server-sent events.
    fn events(&self, body: &Value, plan: &Plan) -> Vec<String>;
    fn refusal(&self, status: u16) -> Value;
    /// What counts tokens answers with.
    fn counted(&self, tokens: usize) -> Value;
}

/// What a path asks for.
pub(super) enum Wanted {
    Answer,
    Stream,
    /// Whichever the body says.
    Either,
    Count,
}

/// Which wire a path belongs to, and what it asks for.
pub(super) fn wire(path: &str) -> Option<(&'static dyn Wire, Wanted)> {
    let end = path.rsplit('/').next()?;
    let method = end.split_once(':').map(|(_, method)| method);
    Some(match (end, method) {
        ("count_tokens", _) => (&Messages, Wanted::Count),
        ("messages", _) => (&Messages, Wanted::Either),
        ("responses", _) => (&Responses, Wanted::Either),
        ("completions", _) => (&Chat, Wanted::Either),
        (_, Some("generateContent")) => (&Gemini, Wanted::Answer),
        (_, Some("streamGenerateContent")) => (&Gemini, Wanted::Stream),
        (_, Some("countTokens")) => (&Gemini, Wanted::Count),
        _ => return None,
    })
}

/// An event of a stream.
pub(super) fn event(data: &Value) -> String {
    match data["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

/// An id nobody had before.
pub(super) fn id(before: &str) -> String {
    static LAST: AtomicU64 = AtomicU64::new(1);
    format!("{before}_{:016x}", LAST.fetch_add(1, Ordering::Relaxed))
}

/// A text as it comes: word by word.
pub(super) fn words(text: &str) -> Vec<&str> {
    if text.is_empty() { vec![""] } else { text.split_inclusive(' ').collect() }
}

/// The text of a content: a string, or blocks that have texts.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Null => String::new(),
        other => other["text"].as_str().map_or_else(|| other.to_string(), str::to_owned),
    }
}

/// What is in a list, if it is one.
pub(super) fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
