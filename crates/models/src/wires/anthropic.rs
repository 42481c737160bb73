//! The Messages API of Anthropic.
//!
//! Thinking blocks return to the API as it wrote them, with their signatures. Cache markers: a fixed one after the tools and
//! the system prompt, and the automatic one of the whole request, which the API moves to the last block itself.

use std::collections::BTreeMap;

use agent_worker_protocol::{Effort, FailureClass, Keyword as _};
use serde_json::{Map, Value, json};

use crate::{
    answer::{
        AnswerDelta, AnswerReader, ModelAnswer, StopReason, TokenCounts, cut_stream, malformed,
        token_count, unknown_stop,
    },
    conversation::{
        AnswerPart, CallResult, CallStatus, ConversationEntry, ImageData, ModelCall, ModelPrompt,
        ToolDefinition, UserPart,
    },
    failure::{ErrorReport, ModelFailure, RequestSecrets, failure_of_error},
    json_body::{merge, write_body},
    output_schema::is_strict_schema,
    wires::{ModelWire, WireRequest},
};

/// Maximum number of tokens of an answer without `max_tokens`, which the API requires.
const DEFAULT_MAX_TOKENS: u32 = 16_000;
/// Models that know no `effort`.
const MODELS_WITHOUT_EFFORT: [&str; 6] = [
    "claude-3",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
    "claude-haiku-4-5",
];

/// Models that take no schema of their answer.
const MODELS_WITHOUT_OUTPUT_FORMAT: [&str; 3] =
    ["claude-3", "claude-opus-4-2", "claude-sonnet-4-2"];

/// The shape of the Messages API.
pub(crate) struct AnthropicWire;

impl ModelWire for AnthropicWire {
    fn write_request(&self, prompt: &ModelPrompt<'_>) -> WireRequest {
        let settings = prompt.settings;
        let max_tokens = settings.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
        let mut body = Map::from_iter([
            ("model".to_owned(), prompt.model.into()),
            ("max_tokens".to_owned(), max_tokens.into()),
            ("stream".to_owned(), true.into()),
            ("cache_control".to_owned(), cache_marker()),
        ]);
        if !prompt.system.is_empty() {
            let system =
                json!([{"type": "text", "text": prompt.system, "cache_control": cache_marker()}]);
            body.insert("system".to_owned(), system);
        }
        if !prompt.tools.is_empty() {
            body.insert("tools".to_owned(), prompt.tools.iter().map(write_tool).collect());
        }
        if let Some(temperature) = settings.temperature {
            body.insert("temperature".to_owned(), temperature.into());
        }
        if let Some(effort) = settings.effort.filter(|_| knows_effort(prompt.model)) {
            body.insert("thinking".to_owned(), json!({"type": "adaptive"}));
            body.insert("output_config".to_owned(), json!({"effort": effort_word(effort)}));
        }
        // The API takes only schemas that leave nothing open.
        let schema = settings.output_schema.as_ref().filter(|it| is_strict_schema(it));
        if let Some(schema) = schema.filter(|_| knows_output_format(prompt.model)) {
            let format = json!({"type": "json_schema", "schema": schema});
            let config = body.entry("output_config").or_insert_with(|| json!({}));
            config["format"] = format;
        }
        merge(&mut body, &settings.extra);
        let messages: Vec<Value> = prompt.entries.iter().map(write_entry).collect();
        WireRequest {
            path: "/messages".to_owned(),
            headers: &[("anthropic-version", "2023-06-01")],
            body: write_body(&body, "messages", &messages),
        }
    }

    fn reader(&self, secrets: &RequestSecrets) -> Box<dyn AnswerReader> {
        Box::new(MessagesReader { secrets: secrets.clone(), ..MessagesReader::default() })
    }
}

fn cache_marker() -> Value {
    json!({"type": "ephemeral"})
}

fn knows_effort(model: &str) -> bool {
    !MODELS_WITHOUT_EFFORT.iter().any(|older| model.starts_with(older))
}

fn knows_output_format(model: &str) -> bool {
    !MODELS_WITHOUT_OUTPUT_FORMAT.iter().any(|older| model.starts_with(older))
}

fn effort_word(effort: Effort) -> &'static str {
    effort.word()
}

fn write_tool(tool: &ToolDefinition) -> Value {
    json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema})
}

fn write_entry(entry: &ConversationEntry) -> Value {
    match entry {
        ConversationEntry::User(parts) => {
            let blocks: Vec<Value> = parts.iter().map(write_user_part).collect();
            json!({"role": "user", "content": blocks})
        }
        ConversationEntry::Model(parts) => {
            let blocks: Vec<Value> = parts.iter().map(write_answer_part).collect();
            json!({"role": "assistant", "content": blocks})
        }
    }
}

fn write_user_part(part: &UserPart) -> Value {
    match part {
        UserPart::Text(text) | UserPart::Summary(text) => json!({"type": "text", "text": text}),
        UserPart::Image(image) => write_image(image),
        UserPart::Result(result) => write_result(result),
    }
}

fn write_image(image: &ImageData) -> Value {
    let source = json!({"type": "base64", "media_type": image.media_type, "data": image.base64});
    json!({"type": "image", "source": source})
}

fn write_result(result: &CallResult) -> Value {
    // The API refuses an empty text block.
    let text = if result.text.is_empty() { "(empty)" } else { &result.text };
    let text = json!({"type": "text", "text": text});
    let content: Vec<Value> =
        std::iter::once(text).chain(result.images.iter().map(write_image)).collect();
    let is_error = result.status == CallStatus::Failed;
    json!({"type": "tool_result", "tool_use_id": result.call, "is_error": is_error, "content": content})
}

fn write_answer_part(part: &AnswerPart) -> Value {
    match part {
        AnswerPart::Text { text, .. } => json!({"type": "text", "text": text}),
        AnswerPart::Thinking(block) => block.clone(),
        AnswerPart::Call(call) => {
            json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": call.args})
        }
    }
}

/// The blocks of a response so far.
#[derive(Default)]
struct MessagesReader {
    secrets: RequestSecrets,
    blocks: BTreeMap<u64, MessageBlock>,
    tokens: TokenCounts,
    stop: Option<StopReason>,
    is_over: bool,
}

/// A block with the pieces of its fields.
struct MessageBlock {
    start: Value,
    text: String,
    signature: String,
}

impl AnswerReader for MessagesReader {
    fn read_event(&mut self, data: &str) -> Result<Option<AnswerDelta>, ModelFailure> {
        let event: Value =
            serde_json::from_str(data).map_err(|_| malformed(data, &self.secrets))?;
        let index = event["index"].as_u64();
        match event["type"].as_str() {
            Some("message_start") => self.read_usage(&event["message"]["usage"]),
            Some("content_block_start") => {
                let index = index.ok_or_else(|| malformed(data, &self.secrets))?;
                let start = event["content_block"].clone();
                let text = start["text"].as_str().unwrap_or_default().to_owned();
                self.blocks.insert(index, MessageBlock { start, text, signature: String::new() });
            }
            Some("content_block_delta") => {
                let block = index.and_then(|index| self.blocks.get_mut(&index));
                return block
                    .ok_or_else(|| malformed(data, &self.secrets))?
                    .read_delta(&event["delta"], &self.secrets);
            }
            Some("message_delta") => {
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.stop = Some(stop_reason(reason, &self.secrets)?);
                }
                self.read_usage(&event["usage"]);
            }
            Some("message_stop") => self.is_over = true,
            Some("error") => {
                let report = ErrorReport::in_stream(data, &self.secrets);
                return Err(failure_of_error(report));
            }
            // `ping`, the ends of blocks, and events that the API adds without a new version.
            Some(_) => {}
            None => return Err(malformed(data, &self.secrets)),
        }
        Ok(None)
    }

    fn finish(self: Box<Self>) -> Result<ModelAnswer, ModelFailure> {
        let stop = self.stop.filter(|_| self.is_over).ok_or_else(cut_stream)?;
        let parts =
            self.blocks.into_values().filter_map(|block| block.into_part(stop, &self.secrets));
        Ok(ModelAnswer { parts: parts.collect::<Result<_, _>>()?, stop, tokens: self.tokens })
    }
}

impl MessagesReader {
    /// Reads counts; a later event repeats or completes the earlier ones. The API counts cached tokens separately.
    fn read_usage(&mut self, usage: &Value) {
        let count = |name: &str| token_count(&usage[name]);
        let from_cache = count("cache_read_input_tokens").unwrap_or(self.tokens.from_cache);
        let into_cache = count("cache_creation_input_tokens").unwrap_or(self.tokens.into_cache);
        let earlier = self.tokens.input - self.tokens.from_cache - self.tokens.into_cache;
        let plain = count("input_tokens").unwrap_or(earlier);
        let output = count("output_tokens").unwrap_or(self.tokens.output);
        let input = plain + from_cache + into_cache;
        self.tokens = TokenCounts { input, from_cache, into_cache, output };
    }
}

/// Returns the reason of the end. A turn that the API paused is no answer.
fn stop_reason(word: &str, secrets: &RequestSecrets) -> Result<StopReason, ModelFailure> {
    match word {
        "end_turn" | "stop_sequence" | "tool_use" => Ok(StopReason::Complete),
        "max_tokens" => Ok(StopReason::MaxTokens),
        "refusal" => Ok(StopReason::Refusal),
        "model_context_window_exceeded" => {
            let why = "the conversation and the answer exceed the context window of the model";
            Err(ModelFailure::new(FailureClass::ContextOverflow, why))
        }
        _ => Err(unknown_stop(word, secrets)),
    }
}

impl MessageBlock {
    fn read_delta(
        &mut self,
        delta: &Value,
        secrets: &RequestSecrets,
    ) -> Result<Option<AnswerDelta>, ModelFailure> {
        let piece =
            |name: &str| delta[name].as_str().ok_or_else(|| malformed(&delta.to_string(), secrets));
        Ok(match delta["type"].as_str() {
            Some("text_delta") => {
                self.text.push_str(piece("text")?);
                Some(AnswerDelta::Text(piece("text")?.to_owned()))
            }
            Some("input_json_delta") => {
                self.text.push_str(piece("partial_json")?);
                None
            }
            Some("thinking_delta") => {
                self.text.push_str(piece("thinking")?);
                Some(AnswerDelta::Thinking)
            }
            Some("signature_delta") => {
                self.signature.push_str(piece("signature")?);
                None
            }
            Some(_) | None => None,
        })
    }

    /// Returns the part of a block; none for one that the worker does not use.
    fn into_part(
        self,
        stop: StopReason,
        secrets: &RequestSecrets,
    ) -> Option<Result<AnswerPart, ModelFailure>> {
        let Self { mut start, text, signature } = self;
        match start["type"].as_str() {
            Some("text") if text.is_empty() => None,
            Some("text") => Some(Ok(AnswerPart::Text { text, signature: None })),
            Some("thinking") => {
                start["thinking"] = text.into();
                start["signature"] = signature.into();
                Some(Ok(AnswerPart::Thinking(start)))
            }
            Some("redacted_thinking") => Some(Ok(AnswerPart::Thinking(start))),
            Some("tool_use") => {
                let word = |name: &str| start[name].as_str().unwrap_or_default().to_owned();
                let (id, tool) = (word("id"), word("name"));
                let text = if text.is_empty() { "{}" } else { &text };
                match serde_json::from_str(text) {
                    Ok(args) => {
                        Some(Ok(AnswerPart::Call(ModelCall { id, tool, args, signature: None })))
                    }
                    // The answer was cut inside of the arguments.
                    Err(_) if stop != StopReason::Complete => None,
                    Err(_) => Some(Err(malformed(text, secrets))),
                }
            }
            Some(_) | None => None,
        }
    }
}
