//! The API of a vendor: the parsing of its requests and the format of its responses.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::{
    chat::Chat,
    gemini::Gemini,
    messages::Messages,
    responses::Responses,
    script::{AnswerPlan, ModelInput},
};

/// One model API.
pub(super) trait ModelApi {
    fn parse_request(&self, body: &Value) -> ModelInput;
    /// Builds a response in one piece.
    fn full_response(&self, body: &Value, plan: &AnswerPlan) -> Value;
    /// Builds the same response as server-sent events.
    fn stream_events(&self, body: &Value, plan: &AnswerPlan) -> Vec<String>;
    fn error_body(&self, status: u16) -> Value;
    /// Builds the response to a request that counts tokens.
    fn token_count_body(&self, tokens: usize) -> Value;
}

/// The response mode that a path selects.
pub(super) enum ResponseMode {
    Full,
    Stream,
    /// The body selects the mode.
    FromBody,
    Count,
}

/// Returns the API and the response mode of a path.
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

/// Formats one event of a stream.
pub(super) fn event(data: &Value) -> String {
    match data["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

/// Returns a unique id.
pub(super) fn id(before: &str) -> String {
    static LAST: AtomicU64 = AtomicU64::new(1);
    format!("{before}_{:016x}", LAST.fetch_add(1, Ordering::Relaxed))
}

/// Splits a text into words, as a model streams it.
pub(super) fn words(text: &str) -> Vec<&str> {
    if text.is_empty() { vec![""] } else { text.split_inclusive(' ').collect() }
}

/// Returns the text of a content value: a string, or blocks with texts.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Null => String::new(),
        other => other["text"].as_str().map_or_else(|| other.to_string(), str::to_owned),
    }
}

/// Returns the items of a value that may be a list.
pub(super) fn array_items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
