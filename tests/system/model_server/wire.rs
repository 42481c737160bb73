//! A vendor's way to ask a model: what its requests say, and what answers look like.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::{
    chat::Chat,
    gemini::Gemini,
    messages::Messages,
    responses::Responses,
    script::{AnswerPlan, ModelInput},
};

/// One of them.
pub(super) trait ModelApi {
    fn parse_request(&self, body: &Value) -> ModelInput;
    /// An answer in one piece.
    fn full_response(&self, body: &Value, plan: &AnswerPlan) -> Value;
    /// The same as server-sent events.
    fn stream_events(&self, body: &Value, plan: &AnswerPlan) -> Vec<String>;
    fn error_body(&self, status: u16) -> Value;
    /// What counts tokens answers with.
    fn token_count_body(&self, tokens: usize) -> Value;
}

/// What a path asks for.
pub(super) enum ResponseMode {
    Full,
    Stream,
    /// Whichever the body says.
    FromBody,
    Count,
}

/// Which wire a path belongs to, and what it asks for.
pub(super) fn route(path: &str) -> Option<(&'static dyn ModelApi, ResponseMode)> {
    let end = path.rsplit('/').next()?;
    let method = end.split_once(':').map(|(_, method)| method);
    Some(match (end, method) {
        ("count_tokens", _) => (&Messages, ResponseMode::Count),
        ("messages", _) => (&Messages, ResponseMode::FromBody),
        ("responses", _) => (&Responses, ResponseMode::FromBody),
        ("completions", _) => (&Chat, ResponseMode::FromBody),
        (_, Some("generateContent")) => (&Gemini, ResponseMode::Full),
        (_, Some("streamGenerateContent")) => (&Gemini, ResponseMode::Stream),
        (_, Some("countTokens")) => (&Gemini, ResponseMode::Count),
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
pub(super) fn array_items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
