//! The Gemini API of Google.
//!
//! Signatures return to the API with the parts on which they came. The API may give calls no id.

use agent_worker_protocol::Effort;
use serde_json::{Map, Value, json};

use crate::{
    answer::{
        AnswerDelta, AnswerReader, ModelAnswer, StopReason, TokenCounts, cut_stream, malformed,
        token_count, unknown_stop,
    },
    conversation::{
        AnswerPart, CallResult, CallStatus, ConversationEntry, ImageData, ModelCall, ModelPrompt,
        RequestSettings, ToolDefinition, UserPart,
    },
    failure::{ErrorReport, ModelFailure, RequestSecrets, failure_of_error},
    json_body::{merge, write_body},
    wires::{ModelWire, WireRequest},
};

/// The shape of the Gemini API.
pub(crate) struct GeminiWire;

impl ModelWire for GeminiWire {
    fn write_request(&self, prompt: &ModelPrompt<'_>) -> WireRequest {
        let mut body = Map::new();
        if !prompt.system.is_empty() {
            let system = json!({"parts": [{"text": prompt.system}]});
            body.insert("systemInstruction".to_owned(), system);
        }
        if !prompt.tools.is_empty() {
            let tools: Vec<Value> = prompt.tools.iter().map(write_tool).collect();
            body.insert("tools".to_owned(), json!([{"functionDeclarations": tools}]));
        }
        let mut generation = generation_settings(prompt.model, prompt.settings);
        // Models before version 3 take no schema together with tools.
        let takes_schema = prompt.tools.is_empty() || !has_thinking_budget(prompt.model);
        if let Some(schema) = prompt.settings.output_schema.as_ref().filter(|_| takes_schema) {
            generation.insert("responseMimeType".to_owned(), "application/json".into());
            generation.insert("responseJsonSchema".to_owned(), schema.clone());
        }
        if !generation.is_empty() {
            body.insert("generationConfig".to_owned(), generation.into());
        }
        merge(&mut body, &prompt.settings.extra);
        let contents: Vec<Value> = prompt.entries.iter().map(write_entry).collect();
        WireRequest {
            path: format!("/models/{}:streamGenerateContent?alt=sse", prompt.model),
            headers: &[],
            body: write_body(&body, "contents", &contents),
        }
    }

    fn reader(&self, secrets: &RequestSecrets) -> Box<dyn AnswerReader> {
        Box::new(GeminiReader { secrets: secrets.clone(), ..GeminiReader::default() })
    }
}

fn generation_settings(model: &str, settings: &RequestSettings) -> Map<String, Value> {
    let mut fields = Map::new();
    if let Some(max_tokens) = settings.max_tokens {
        fields.insert("maxOutputTokens".to_owned(), max_tokens.into());
    }
    if let Some(temperature) = settings.temperature {
        fields.insert("temperature".to_owned(), temperature.into());
    }
    if let Some(effort) = settings.effort {
        fields.insert("thinkingConfig".to_owned(), thinking(model, effort));
    }
    fields
}

/// Returns a budget in tokens for models of version 2.5, and a level for later ones.
fn thinking(model: &str, effort: Effort) -> Value {
    let (budget, level) = match effort {
        Effort::Low => (1024, "low"),
        Effort::Medium => (8192, "medium"),
        Effort::High | Effort::Xhigh | Effort::Max => (24_576, "high"),
    };
    if has_thinking_budget(model) {
        json!({"thinkingBudget": budget})
    } else {
        json!({"thinkingLevel": level})
    }
}

/// Returns true for a model of version 2.5 or an earlier one.
fn has_thinking_budget(model: &str) -> bool {
    ["2.5", "2.0", "1.5"].iter().any(|version| model.contains(version))
}

fn write_tool(tool: &ToolDefinition) -> Value {
    let ToolDefinition { name, description, schema } = tool;
    json!({"name": name, "description": description, "parametersJsonSchema": schema})
}

fn write_entry(entry: &ConversationEntry) -> Value {
    match entry {
        ConversationEntry::User(parts) => {
            let parts: Vec<Value> = parts.iter().flat_map(write_user_part).collect();
            json!({"role": "user", "parts": parts})
        }
        ConversationEntry::Model(parts) => {
            let parts: Vec<Value> = parts.iter().map(write_answer_part).collect();
            json!({"role": "model", "parts": parts})
        }
    }
}

fn write_user_part(part: &UserPart) -> Vec<Value> {
    match part {
        UserPart::Text(text) | UserPart::Summary(text) => vec![json!({"text": text})],
        UserPart::Image(image) => vec![write_image(image)],
        UserPart::Result(result) => std::iter::once(write_result(result))
            .chain(result.images.iter().map(write_image))
            .collect(),
    }
}

fn write_image(image: &ImageData) -> Value {
    json!({"inlineData": {"mimeType": image.media_type, "data": image.base64}})
}

fn write_result(result: &CallResult) -> Value {
    let field = match result.status {
        CallStatus::Done => "output",
        CallStatus::Failed => "error",
    };
    let response = json!({field: result.text});
    json!({"functionResponse": {"id": result.call, "name": result.tool, "response": response}})
}

fn write_answer_part(part: &AnswerPart) -> Value {
    let (mut written, signature) = match part {
        AnswerPart::Text { text, signature } => (json!({"text": text}), signature.as_ref()),
        AnswerPart::Thinking(part) => (part.clone(), None),
        AnswerPart::Call(call) => {
            let function = json!({"id": call.id, "name": call.tool, "args": call.args});
            (json!({"functionCall": function}), call.signature.as_ref())
        }
    };
    if let Some(signature) = signature {
        written["thoughtSignature"] = signature.as_str().into();
    }
    written
}

/// The answer so far.
#[derive(Default)]
struct GeminiReader {
    secrets: RequestSecrets,
    parts: Vec<AnswerPart>,
    tokens: TokenCounts,
    stop: Option<StopReason>,
}

impl AnswerReader for GeminiReader {
    fn read_event(&mut self, data: &str) -> Result<Option<AnswerDelta>, ModelFailure> {
        let chunk: Value =
            serde_json::from_str(data).map_err(|_| malformed(data, &self.secrets))?;
        if !chunk["error"].is_null() {
            let report = ErrorReport::in_stream(data, &self.secrets);
            return Err(failure_of_error(report));
        }
        if !chunk.is_object() {
            return Err(malformed(data, &self.secrets));
        }
        self.read_usage(&chunk["usageMetadata"]);
        if chunk["promptFeedback"]["blockReason"].is_string() {
            self.stop = Some(StopReason::Refusal);
        }
        let candidate = &chunk["candidates"][0];
        let mut delta = None;
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            delta = joined(delta, self.read_part(part, data)?);
        }
        if let Some(reason) = candidate["finishReason"].as_str() {
            self.stop = Some(stop_reason(reason, &self.secrets)?);
        }
        Ok(delta)
    }

    fn finish(self: Box<Self>) -> Result<ModelAnswer, ModelFailure> {
        let stop = self.stop.ok_or_else(cut_stream)?;
        Ok(ModelAnswer { parts: self.parts, stop, tokens: self.tokens })
    }
}

/// Joins the texts of the parts of one event.
fn joined(earlier: Option<AnswerDelta>, later: Option<AnswerDelta>) -> Option<AnswerDelta> {
    match (earlier, later) {
        (Some(AnswerDelta::Text(first)), Some(AnswerDelta::Text(second))) => {
            Some(AnswerDelta::Text(first + &second))
        }
        (Some(AnswerDelta::Text(text)), Some(AnswerDelta::Thinking) | None) => {
            Some(AnswerDelta::Text(text))
        }
        (earlier, later) => later.or(earlier),
    }
}

/// Returns the reason of the end. A malformed call is likely to be well formed in another try.
fn stop_reason(word: &str, secrets: &RequestSecrets) -> Result<StopReason, ModelFailure> {
    match word {
        "STOP" => Ok(StopReason::Complete),
        "MAX_TOKENS" => Ok(StopReason::MaxTokens),
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Ok(StopReason::Refusal),
        _ => Err(unknown_stop(word, secrets)),
    }
}

impl GeminiReader {
    fn read_usage(&mut self, usage: &Value) {
        if usage.is_null() {
            return;
        }
        let count = |name: &str| token_count(&usage[name]).unwrap_or_default();
        self.tokens = TokenCounts {
            input: count("promptTokenCount") + count("toolUsePromptTokenCount"),
            from_cache: count("cachedContentTokenCount"),
            into_cache: 0,
            output: count("candidatesTokenCount") + count("thoughtsTokenCount"),
        };
    }

    fn read_part(&mut self, part: &Value, data: &str) -> Result<Option<AnswerDelta>, ModelFailure> {
        let signature = part["thoughtSignature"].as_str().map(str::to_owned);
        if let Some(call) = part.get("functionCall") {
            let word = |name: &str| call[name].as_str().unwrap_or_default().to_owned();
            let args = match &call["args"] {
                Value::Object(args) => args.clone(),
                Value::Null => Map::new(),
                _ => return Err(malformed(data, &self.secrets)),
            };
            let call = ModelCall { id: word("id"), tool: word("name"), args, signature };
            self.parts.push(AnswerPart::Call(call));
            return Ok(None);
        }
        let Some(text) = part["text"].as_str() else { return Ok(None) };
        // A summary of thoughts is for people; the signature of the next part stands for the thoughts.
        if part["thought"] == true {
            return Ok(Some(AnswerDelta::Thinking));
        }
        match self.parts.last_mut() {
            Some(AnswerPart::Text { text: earlier, signature: None }) if signature.is_none() => {
                earlier.push_str(text);
            }
            _ if text.is_empty() && signature.is_none() => return Ok(None),
            _ => self.parts.push(AnswerPart::Text { text: text.to_owned(), signature }),
        }
        Ok((!text.is_empty()).then(|| AnswerDelta::Text(text.to_owned())))
    }
}
