//! The Chat Completions API, which most providers and local servers implement.
//!
//! Reasoning returns to the provider within the text of the same field in which it came.

use std::collections::BTreeMap;

use agent_worker_protocol::Keyword as _;
use serde_json::{Map, Value, json};

use crate::{
    answer::{
        AnswerDelta, AnswerReader, ModelAnswer, StopReason, TokenCounts, cut_stream, malformed,
        token_count, unknown_stop,
    },
    conversation::{
        AnswerPart, ConversationEntry, ImageData, ModelCall, ModelPrompt, ToolDefinition, UserPart,
    },
    failure::{ErrorReport, ModelFailure, RequestSecrets, failure_of_error},
    json_body::{merge, write_body},
    output_schema::json_schema_format,
    wires::{ModelWire, WireRequest},
};

/// Fields in which providers send reasoning.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// The shape of Chat Completions.
pub(crate) struct ChatWire;

impl ModelWire for ChatWire {
    fn write_request(&self, prompt: &ModelPrompt<'_>) -> WireRequest {
        let settings = prompt.settings;
        let mut body = Map::from_iter([
            ("model".to_owned(), prompt.model.into()),
            ("stream".to_owned(), true.into()),
            ("stream_options".to_owned(), json!({"include_usage": true})),
        ]);
        if !prompt.tools.is_empty() {
            body.insert("tools".to_owned(), prompt.tools.iter().map(write_tool).collect());
        }
        if let Some(max_tokens) = settings.max_tokens {
            body.insert("max_tokens".to_owned(), max_tokens.into());
        }
        if let Some(temperature) = settings.temperature {
            body.insert("temperature".to_owned(), temperature.into());
        }
        if let Some(effort) = settings.effort {
            body.insert("reasoning_effort".to_owned(), effort.word().into());
        }
        if let Some(schema) = &settings.output_schema {
            let format = json!({"type": "json_schema", "json_schema": json_schema_format(schema)});
            body.insert("response_format".to_owned(), format);
        }
        merge(&mut body, &settings.extra);
        let system = json!({"role": "system", "content": prompt.system});
        let system = (!prompt.system.is_empty()).then_some(system);
        let messages = system.into_iter().chain(prompt.entries.iter().flat_map(write_entry));
        WireRequest {
            path: "/chat/completions".to_owned(),
            headers: &[],
            body: write_body(&body, "messages", &messages.collect::<Vec<_>>()),
        }
    }

    fn reader(&self, secrets: &RequestSecrets) -> Box<dyn AnswerReader> {
        Box::new(ChatReader { secrets: secrets.clone(), ..ChatReader::default() })
    }
}

fn write_tool(tool: &ToolDefinition) -> Value {
    let ToolDefinition { name, description, schema } = tool;
    json!({"type": "function",
        "function": {"name": name, "description": description, "parameters": schema}})
}

fn write_entry(entry: &ConversationEntry) -> Vec<Value> {
    match entry {
        ConversationEntry::User(parts) => write_user(parts),
        ConversationEntry::Model(parts) => vec![write_answer(parts)],
    }
}

/// Writes the results, each as a message, and then one message with all texts and images: a result takes no image.
fn write_user(parts: &[UserPart]) -> Vec<Value> {
    let (mut messages, mut contents) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            UserPart::Text(text) | UserPart::Summary(text) => {
                contents.push(json!({"type": "text", "text": text}));
            }
            UserPart::Image(image) => contents.push(write_image(image)),
            UserPart::Result(result) => {
                messages.push(
                    json!({"role": "tool", "tool_call_id": result.call, "content": result.text}),
                );
                contents.extend(result.images.iter().map(write_image));
            }
        }
    }
    let plain = match contents.as_slice() {
        [] => return messages,
        [only] => only["text"].as_str().map(Value::from),
        _ => None,
    };
    // Some local servers take no list.
    let content = plain.unwrap_or(Value::Array(contents));
    messages.push(json!({"role": "user", "content": content}));
    messages
}

fn write_image(image: &ImageData) -> Value {
    let url = format!("data:{};base64,{}", image.media_type, image.base64);
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn write_answer(parts: &[AnswerPart]) -> Value {
    let mut message = json!({"role": "assistant", "content": null});
    let (mut text, mut calls) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            AnswerPart::Text { text: more, .. } => text.push(more.as_str()),
            AnswerPart::Thinking(Value::Object(fields)) => {
                for (name, value) in fields {
                    message[name] = value.clone();
                }
            }
            AnswerPart::Thinking(_) => {}
            AnswerPart::Call(call) => {
                let args = Value::Object(call.args.clone()).to_string();
                let function = json!({"name": call.tool, "arguments": args});
                calls.push(json!({"id": call.id, "type": "function", "function": function}));
            }
        }
    }
    if !text.is_empty() {
        message["content"] = text.join("\n\n").into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

/// The answer so far.
#[derive(Default)]
struct ChatReader {
    secrets: RequestSecrets,
    text: String,
    reasoning: BTreeMap<&'static str, String>,
    /// Calls by their position: id, name and arguments.
    calls: BTreeMap<u64, [String; 3]>,
    has_refusal: bool,
    tokens: TokenCounts,
    stop: Option<StopReason>,
}

impl AnswerReader for ChatReader {
    fn read_event(&mut self, data: &str) -> Result<Option<AnswerDelta>, ModelFailure> {
        if data.trim() == "[DONE]" {
            return Ok(None);
        }
        let chunk: Value =
            serde_json::from_str(data).map_err(|_| malformed(data, &self.secrets))?;
        if !chunk["error"].is_null() {
            let report = ErrorReport::in_stream(data, &self.secrets);
            return Err(failure_of_error(report));
        }
        if !chunk.is_object() {
            return Err(malformed(data, &self.secrets));
        }
        self.read_usage(&chunk["usage"]);
        let choice = &chunk["choices"][0];
        if !choice["error"].is_null() {
            let body = choice.to_string();
            let report = ErrorReport::in_stream(&body, &self.secrets);
            return Err(failure_of_error(report));
        }
        let delta = &choice["delta"];
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.read_call(call);
        }
        self.has_refusal |= delta["refusal"].as_str().is_some_and(|text| !text.is_empty());
        // Some servers write an empty reason before the last chunk.
        if let Some(reason) = choice["finish_reason"].as_str().filter(|word| !word.is_empty()) {
            self.stop = Some(stop_reason(reason, &self.secrets)?);
        }
        let text = delta["content"].as_str().filter(|text| !text.is_empty());
        self.text.push_str(text.unwrap_or_default());
        let has_reasoning = self.read_reasoning(delta);
        let thinking = has_reasoning.then_some(AnswerDelta::Thinking);
        Ok(text.map(|text| AnswerDelta::Text(text.to_owned())).or(thinking))
    }

    fn finish(self: Box<Self>) -> Result<ModelAnswer, ModelFailure> {
        let stop = self.stop.ok_or_else(cut_stream)?;
        let mut parts = Vec::new();
        if !self.reasoning.is_empty() {
            let fields =
                self.reasoning.into_iter().map(|(name, text)| (name.to_owned(), text.into()));
            parts.push(AnswerPart::Thinking(Value::Object(fields.collect())));
        }
        if !self.text.is_empty() {
            parts.push(AnswerPart::Text { text: self.text, signature: None });
        }
        for [id, tool, text] in self.calls.into_values() {
            let text = if text.trim().is_empty() { "{}" } else { &text };
            match serde_json::from_str(text) {
                Ok(args) => {
                    parts.push(AnswerPart::Call(ModelCall { id, tool, args, signature: None }));
                }
                // The answer was cut inside of the arguments.
                Err(_) if stop != StopReason::Complete => {}
                Err(_) => return Err(malformed(text, &self.secrets)),
            }
        }
        let stop = if self.has_refusal { StopReason::Refusal } else { stop };
        Ok(ModelAnswer { parts, stop, tokens: self.tokens })
    }
}

/// Returns the reason of the end. Servers write an error of their own, or a lack of resources, in the same field.
fn stop_reason(word: &str, secrets: &RequestSecrets) -> Result<StopReason, ModelFailure> {
    match word {
        "stop" | "tool_calls" | "function_call" | "eos" => Ok(StopReason::Complete),
        "length" | "model_length" => Ok(StopReason::MaxTokens),
        "content_filter" => Ok(StopReason::Refusal),
        _ => Err(unknown_stop(word, secrets)),
    }
}

impl ChatReader {
    fn read_usage(&mut self, usage: &Value) {
        if usage.is_null() {
            return;
        }
        let count = |value: &Value| token_count(value).unwrap_or_default();
        self.tokens = TokenCounts {
            input: count(&usage["prompt_tokens"]),
            from_cache: count(&usage["prompt_tokens_details"]["cached_tokens"]),
            into_cache: 0,
            output: count(&usage["completion_tokens"]),
        };
    }

    /// Reads the reasoning of a chunk. A provider that writes two fields writes the same text into both.
    fn read_reasoning(&mut self, delta: &Value) -> bool {
        for name in REASONING_FIELDS {
            if let Some(more) = delta[name].as_str().filter(|text| !text.is_empty()) {
                self.reasoning.entry(name).or_default().push_str(more);
                return true;
            }
        }
        false
    }

    /// Reads a piece of a call. Some servers number no calls and send each as a whole.
    fn read_call(&mut self, piece: &Value) {
        let next = self.calls.len() as u64;
        let entry = self.calls.entry(piece["index"].as_u64().unwrap_or(next)).or_default();
        let function = &piece["function"];
        for (field, value) in
            entry.iter_mut().zip([&piece["id"], &function["name"], &function["arguments"]])
        {
            field.push_str(value.as_str().unwrap_or_default());
        }
    }
}
