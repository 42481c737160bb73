//! Google's Gemini.

use serde_json::{Value, json};

use super::{
    script::{Asked, Item, Plan, Tool, What},
    wire::{Wire, each, event, words},
};

pub(super) struct Gemini;

impl Wire for Gemini {
    fn read(&self, body: &Value) -> Asked {
        let mut items = Vec::new();
        for content in each(&body["contents"]) {
            for part in each(&content["parts"]) {
                if let Some(result) = part.get("functionResponse") {
                    items.push(Item::Result(result["response"].to_string()));
                } else if let (Some(text), true) =
                    (part["text"].as_str(), content["role"] != "model")
                {
                    items.push(Item::User(text.to_owned()));
                }
            }
        }
        let declared = each(&body["tools"]).flat_map(|tool| each(&tool["functionDeclarations"]));
        let name = |tool: &Value| tool["name"].as_str().map(str::to_owned);
        let tools = declared.filter_map(name).map(|name| Tool { namespace: None, name });
        Asked { items, tools: tools.collect() }
    }

    fn whole(&self, _: &Value, plan: &Plan) -> Value {
        match &plan.what {
            What::Call { tool, args } => chunk(
                plan,
                &json!({"functionCall": {"name": tool.name, "args": args}}),
                Some("STOP"),
            ),
            What::Say(text) => chunk(plan, &json!({"text": text}), Some("STOP")),
            What::Fail { status, .. } => self.refusal(*status),
        }
    }

    fn events(&self, body: &Value, plan: &Plan) -> Vec<String> {
        let What::Say(text) = &plan.what else { return vec![event(&self.whole(body, plan))] };
        let words = words(text);
        let last = words.len() - 1;
        let reason = |n| (n == last).then_some("STOP");
        let chunks = words.iter().enumerate();
        chunks.map(|(n, word)| event(&chunk(plan, &json!({"text": word}), reason(n)))).collect()
    }

    fn refusal(&self, status: u16) -> Value {
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

    fn counted(&self, tokens: usize) -> Value {
        json!({"totalTokens": tokens})
    }
}

fn chunk(plan: &Plan, part: &Value, reason: Option<&str>) -> Value {
    let (input, output) = (plan.usage.input, plan.usage.output);
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": [part]}});
    if let Some(reason) = reason {
        candidate["finishReason"] = json!(reason);
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output},
        // What agents in tests ask for.
        "modelVersion": "gemini-2.5-flash",
    })
}
