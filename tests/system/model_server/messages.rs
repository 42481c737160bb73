//! The Messages API of Anthropic.

use serde_json::{Value, json};

use super::{
    script::{AnswerContent, AnswerPlan, ConversationItem, ModelInput, OfferedTool},
    wire::{ModelApi, array_items, event, id, text_of, words},
};

pub(super) struct Messages;

impl ModelApi for Messages {
    fn parse_request(&self, body: &Value) -> ModelInput {
        let mut items = Vec::new();
        for message in array_items(&body["messages"]) {
            let content = &message["content"];
            let results = array_items(content).filter(|block| block["type"] == "tool_result");
            items.extend(results.map(|block| ConversationItem::Result(text_of(&block["content"]))));
            let texts = array_items(content).filter(|block| block["type"] == "text");
            let text = match content.as_str() {
                Some(text) => text.to_owned(),
                None => texts.map(text_of).collect::<Vec<_>>().join("\n"),
            };
            if message["role"] == "user" {
                items.push(ConversationItem::User(text));
            }
        }
        let name = |tool: &Value| tool["name"].as_str().map(str::to_owned);
        let tools = array_items(&body["tools"]).filter_map(name);
        ModelInput {
            items,
            tools: tools.map(|name| OfferedTool { namespace: None, name }).collect(),
        }
    }

    fn full_response(&self, body: &Value, plan: &AnswerPlan) -> Value {
        let (block, reason) = match &plan.content {
            AnswerContent::Call { tool, args } => {
                let call = json!({"type": "tool_use", "id": id("toolu"), "name": tool.name, "input": args});
                (call, "tool_use")
            }
            AnswerContent::Say(text) => (json!({"type": "text", "text": text}), "end_turn"),
            AnswerContent::Fail { status, .. } => return self.error_body(*status),
        };
        json!({
            "id": id("msg"), "type": "message", "role": "assistant", "model": body["model"], "content": [block],
            "stop_reason": reason, "stop_sequence": null,
            "usage": {"input_tokens": plan.usage.input, "output_tokens": plan.usage.output},
        })
    }

    fn stream_events(&self, body: &Value, plan: &AnswerPlan) -> Vec<String> {
        let mut message = self.full_response(body, plan);
        let (mut block, reason) = (message["content"][0].take(), message["stop_reason"].take());
        message["content"] = json!([]);
        // The first event has the complete usage, except the output tokens.
        message["usage"]["output_tokens"] = json!(1);
        let mut all = vec![json!({"type": "message_start", "message": message})];
        let deltas: Vec<Value> = match &plan.content {
            AnswerContent::Call { args, .. } => {
                block["input"] = json!({});
                vec![json!({"type": "input_json_delta", "partial_json": args.to_string()})]
            }
            AnswerContent::Say(text) => {
                block["text"] = json!("");
                words(text).iter().map(|word| json!({"type": "text_delta", "text": word})).collect()
            }
            AnswerContent::Fail { .. } => Vec::new(),
        };
        all.push(json!({"type": "content_block_start", "index": 0, "content_block": block}));
        let delta = |delta| json!({"type": "content_block_delta", "index": 0, "delta": delta});
        all.extend(deltas.into_iter().map(delta));
        all.push(json!({"type": "content_block_stop", "index": 0}));
        let end = json!({"stop_reason": reason, "stop_sequence": null});
        let usage = json!({"output_tokens": plan.usage.output});
        all.push(json!({"type": "message_delta", "delta": end, "usage": usage}));
        all.push(json!({"type": "message_stop"}));
        all.iter().map(event).collect()
    }

    fn error_body(&self, status: u16) -> Value {
        let kind = match status {
            400 => "invalid_request_error",
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        };
        let error = json!({"type": kind, "message": format!("scripted {status}")});
        json!({"type": "error", "error": error, "request_id": id("req")})
    }

    fn token_count_body(&self, tokens: usize) -> Value {
        json!({"input_tokens": tokens})
    }
}
