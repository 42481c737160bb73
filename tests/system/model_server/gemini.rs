//! The Gemini API of Google.

use serde_json::{Value, json};

use super::{
    script::{AnswerContent, AnswerPlan, ConversationItem, ModelInput, OfferedTool},
    wire::{ModelApi, array_items, event, words},
};

pub(super) struct Gemini;

impl ModelApi for Gemini {
    fn parse_request(&self, body: &Value) -> ModelInput {
        let mut items = Vec::new();
        for content in array_items(&body["contents"]) {
            for part in array_items(&content["parts"]) {
                if let Some(result) = part.get("functionResponse") {
                    items.push(ConversationItem::Result(result["response"].to_string()));
                } else if let (Some(text), true) =
                    (part["text"].as_str(), content["role"] != "model")
                {
                    items.push(ConversationItem::User(text.to_owned()));
                }
            }
        }
        let declared =
            array_items(&body["tools"]).flat_map(|tool| array_items(&tool["functionDeclarations"]));
        let name = |tool: &Value| tool["name"].as_str().map(str::to_owned);
        let tools = declared.filter_map(name).map(|name| OfferedTool { namespace: None, name });
        ModelInput { items, tools: tools.collect() }
    }

    fn full_response(&self, _: &Value, plan: &AnswerPlan) -> Value {
        match &plan.content {
            AnswerContent::Call { tool, args } => chunk(
                plan,
                &json!({"functionCall": {"name": tool.name, "args": args}}),
                Some("STOP"),
            ),
            AnswerContent::Say(text) => chunk(plan, &json!({"text": text}), Some("STOP")),
            AnswerContent::Fail { status, .. } => self.error_body(*status),
        }
    }

    fn stream_events(&self, body: &Value, plan: &AnswerPlan) -> Vec<String> {
        let AnswerContent::Say(text) = &plan.content else {
            return vec![event(&self.full_response(body, plan))];
        };
        let words = words(text);
        let last = words.len() - 1;
        let reason = |n| (n == last).then_some("STOP");
        let chunks = words.iter().enumerate();
        chunks.map(|(n, word)| event(&chunk(plan, &json!({"text": word}), reason(n)))).collect()
    }

    fn error_body(&self, status: u16) -> Value {
        let name = match status {
            400 => "INVALID_ARGUMENT",
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            429 => "RESOURCE_EXHAUSTED",
            503 => "UNAVAILABLE",
            _ => "INTERNAL",
        };
        json!({"error": {"code": status, "message": format!("scripted {status}"), "status": name}})
    }

    fn token_count_body(&self, tokens: usize) -> Value {
        json!({"totalTokens": tokens})
    }
}

fn chunk(plan: &AnswerPlan, part: &Value, reason: Option<&str>) -> Value {
    let (input, output) = (plan.usage.input, plan.usage.output);
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": [part]}});
    if let Some(reason) = reason {
        candidate["finishReason"] = json!(reason);
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output},
        // The model that the agents in the tests use.
        "modelVersion": "gemini-2.5-flash",
    })
}
