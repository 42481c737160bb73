//! The Responses API of `OpenAI`, without storage at the provider.
//!
//! Reasoning items return to the API as it wrote them, with their encrypted content.

use agent_worker_protocol::Keyword as _;
use serde_json::{Map, Value, json};

use crate::{
    answer::{
        AnswerDelta, AnswerReader, ModelAnswer, StopReason, TokenCounts, cut_stream, malformed,
        token_count, unknown_stop,
    },
    conversation::{
        AnswerPart, CallResult, ConversationEntry, ImageData, ModelCall, ModelPrompt,
        ToolDefinition, UserPart,
    },
    failure::{ErrorReport, ModelFailure, RequestSecrets, failure_of_error},
    json_body::{merge, write_body},
    output_schema::json_schema_format,
    wires::{ModelWire, WireRequest},
};

/// The shape of the Responses API.
pub(crate) struct ResponsesWire;

impl ModelWire for ResponsesWire {
    fn write_request(&self, prompt: &ModelPrompt<'_>) -> WireRequest {
        let settings = prompt.settings;
        let mut body = Map::from_iter([
            ("model".to_owned(), prompt.model.into()),
            ("stream".to_owned(), true.into()),
            ("store".to_owned(), false.into()),
            ("include".to_owned(), json!(["reasoning.encrypted_content"])),
        ]);
        if !prompt.system.is_empty() {
            body.insert("instructions".to_owned(), prompt.system.into());
        }
        if !prompt.tools.is_empty() {
            body.insert("tools".to_owned(), prompt.tools.iter().map(write_tool).collect());
        }
        if let Some(max_tokens) = settings.max_tokens {
            body.insert("max_output_tokens".to_owned(), max_tokens.into());
        }
        if let Some(temperature) = settings.temperature {
            body.insert("temperature".to_owned(), temperature.into());
        }
        if let Some(effort) = settings.effort {
            body.insert("reasoning".to_owned(), json!({"effort": effort.word()}));
        }
        if let Some(schema) = &settings.output_schema {
            let mut format = json_schema_format(schema);
            format["type"] = "json_schema".into();
            body.insert("text".to_owned(), json!({"format": format}));
        }
        merge(&mut body, &settings.extra);
        let items: Vec<Value> = prompt.entries.iter().flat_map(write_entry).collect();
        WireRequest {
            path: "/responses".to_owned(),
            headers: &[],
            body: write_body(&body, "input", &items),
        }
    }

    fn reader(&self, secrets: &RequestSecrets) -> Box<dyn AnswerReader> {
        Box::new(ResponsesReader { secrets: secrets.clone(), ..ResponsesReader::default() })
    }
}

fn write_tool(tool: &ToolDefinition) -> Value {
    let ToolDefinition { name, description, schema } = tool;
    json!({"type": "function", "name": name, "description": description, "parameters": schema,
        "strict": false})
}

fn write_entry(entry: &ConversationEntry) -> Vec<Value> {
    match entry {
        ConversationEntry::User(parts) => {
            let results = parts.iter().filter_map(|part| match part {
                UserPart::Result(result) => Some(write_result(result)),
                UserPart::Text(_) | UserPart::Image(_) | UserPart::Summary(_) => None,
            });
            let contents = parts.iter().filter_map(|part| match part {
                UserPart::Text(text) | UserPart::Summary(text) => Some(write_text(text)),
                UserPart::Image(image) => Some(write_image(image)),
                UserPart::Result(_) => None,
            });
            let contents: Vec<_> = contents.collect();
            let message = json!({"type": "message", "role": "user", "content": contents});
            results.chain((!contents.is_empty()).then_some(message)).collect()
        }
        ConversationEntry::Model(parts) => parts.iter().map(write_answer_part).collect(),
    }
}

fn write_text(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

fn write_image(image: &ImageData) -> Value {
    let url = format!("data:{};base64,{}", image.media_type, image.base64);
    json!({"type": "input_image", "image_url": url})
}

fn write_result(result: &CallResult) -> Value {
    let output: Value = if result.images.is_empty() {
        result.text.clone().into()
    } else {
        std::iter::once(write_text(&result.text))
            .chain(result.images.iter().map(write_image))
            .collect()
    };
    json!({"type": "function_call_output", "call_id": result.call, "output": output})
}

fn write_answer_part(part: &AnswerPart) -> Value {
    match part {
        AnswerPart::Text { text, .. } => {
            let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
            json!({"type": "message", "role": "assistant", "content": content})
        }
        AnswerPart::Thinking(item) => item.clone(),
        AnswerPart::Call(call) => {
            let args = Value::Object(call.args.clone()).to_string();
            json!({"type": "function_call", "call_id": call.id, "name": call.tool, "arguments": args})
        }
    }
}

/// The items of a response so far. Each is read when it is complete.
#[derive(Default)]
struct ResponsesReader {
    secrets: RequestSecrets,
    parts: Vec<AnswerPart>,
    has_refusal: bool,
    tokens: TokenCounts,
    stop: Option<StopReason>,
}

impl AnswerReader for ResponsesReader {
    fn read_event(&mut self, data: &str) -> Result<Option<AnswerDelta>, ModelFailure> {
        let event: Value =
            serde_json::from_str(data).map_err(|_| malformed(data, &self.secrets))?;
        let delta = || event["delta"].as_str().ok_or_else(|| malformed(data, &self.secrets));
        match event["type"].as_str() {
            Some("response.output_text.delta") => {
                return Ok(Some(AnswerDelta::Text(delta()?.to_owned())));
            }
            Some("response.reasoning_summary_text.delta" | "response.reasoning_text.delta") => {
                return Ok(Some(AnswerDelta::Thinking));
            }
            Some("response.output_item.done") => self.read_item(event["item"].clone())?,
            Some("response.completed") => {
                let stop = match event["response"]["status"].as_str() {
                    Some("completed") | None => StopReason::Complete,
                    Some("incomplete") => incomplete_reason(&event["response"], &self.secrets)?,
                    Some(status) => return Err(unknown_stop(status, &self.secrets)),
                };
                self.read_end(&event["response"], stop);
            }
            Some("response.incomplete") => {
                let stop = incomplete_reason(&event["response"], &self.secrets)?;
                self.read_end(&event["response"], stop);
            }
            Some("response.failed" | "error") => {
                let report = ErrorReport::in_stream(data, &self.secrets);
                return Err(failure_of_error(report));
            }
            // Beginnings and pieces of items, which follow as a whole, and events of later versions.
            Some(_) => {}
            None => return Err(malformed(data, &self.secrets)),
        }
        Ok(None)
    }

    fn finish(self: Box<Self>) -> Result<ModelAnswer, ModelFailure> {
        let stop = self.stop.ok_or_else(cut_stream)?;
        let stop = if self.has_refusal { StopReason::Refusal } else { stop };
        Ok(ModelAnswer { parts: self.parts, stop, tokens: self.tokens })
    }
}

/// Returns the reason of the end of an incomplete response.
fn incomplete_reason(
    response: &Value,
    secrets: &RequestSecrets,
) -> Result<StopReason, ModelFailure> {
    match response["incomplete_details"]["reason"].as_str() {
        Some("max_output_tokens") => Ok(StopReason::MaxTokens),
        Some("content_filter") => Ok(StopReason::Refusal),
        Some(reason) => Err(unknown_stop(reason, secrets)),
        None => Err(unknown_stop("incomplete", secrets)),
    }
}

impl ResponsesReader {
    fn read_item(&mut self, item: Value) -> Result<(), ModelFailure> {
        match item["type"].as_str() {
            Some("message") => {
                for content in item["content"].as_array().into_iter().flatten() {
                    self.has_refusal |= content["type"] == "refusal";
                    if let Some(text) = content["text"].as_str().filter(|text| !text.is_empty()) {
                        self.parts
                            .push(AnswerPart::Text { text: text.to_owned(), signature: None });
                    }
                }
            }
            Some("reasoning") => self.parts.push(AnswerPart::Thinking(sealed_reasoning(item))),
            Some("function_call") => {
                // A response that reached its limit ends in the middle of a call.
                if item["status"] == "incomplete" {
                    return Ok(());
                }
                let word = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
                let text = word("arguments");
                let text = if text.is_empty() { "{}" } else { &text };
                let args =
                    serde_json::from_str(text).map_err(|_| malformed(text, &self.secrets))?;
                let call =
                    ModelCall { id: word("call_id"), tool: word("name"), args, signature: None };
                self.parts.push(AnswerPart::Call(call));
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    fn read_end(&mut self, response: &Value, stop: StopReason) {
        let usage = &response["usage"];
        let count = |value: &Value| token_count(value).unwrap_or_default();
        self.tokens = TokenCounts {
            input: count(&usage["input_tokens"]),
            from_cache: count(&usage["input_tokens_details"]["cached_tokens"]),
            into_cache: 0,
            output: count(&usage["output_tokens"]),
        };
        self.stop = Some(stop);
    }
}

/// Returns a reasoning item with the fields that the API takes back from a caller without storage.
fn sealed_reasoning(mut item: Value) -> Value {
    if let Some(fields) = item.as_object_mut() {
        fields.remove("status");
    }
    item
}
