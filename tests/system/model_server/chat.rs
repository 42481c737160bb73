//! The Chat Completions API of `OpenAI`, which many other providers implement.

use serde_json::{Value, json};

use super::{
    responses::openai_refusal,
    script::{AnswerContent, AnswerPlan, ConversationItem, ModelInput, OfferedTool},
    wire::{ModelApi, array_items, event, id, text_of, words},
};

pub(super) struct Chat;

impl ModelApi for Chat {
    fn parse_request(&self, body: &Value) -> ModelInput {
        let items = array_items(&body["messages"]).filter_map(|message| {
            let text = text_of(&message["content"]);
            match message["role"].as_str() {
                Some("user") => Some(ConversationItem::User(text)),
                Some("tool") => Some(ConversationItem::Result(text)),
                _ => None,
            }
        });
        let name = |tool: &Value| tool["function"]["name"].as_str().map(str::to_owned);
        let tools = array_items(&body["tools"]).filter_map(name);
        let tools = tools.map(|name| OfferedTool { namespace: None, name }).collect();
        ModelInput { items: items.collect(), tools }
    }

    fn full_response(&self, body: &Value, plan: &AnswerPlan) -> Value {
        let (message, reason) = match &plan.content {
            AnswerContent::Call { .. } => (
                json!({"role": "assistant", "content": null, "tool_calls": calls(plan)}),
                "tool_calls",
            ),
            AnswerContent::Say(text) => (json!({"role": "assistant", "content": text}), "stop"),
            AnswerContent::Fail { status, .. } => return openai_refusal(*status),
        };
        json!({
            "id": id("chatcmpl"), "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage(plan),
        })
    }

    fn stream_events(&self, body: &Value, plan: &AnswerPlan) -> Vec<String> {
        let name = id("chatcmpl");
        let chunk = |choices: Value, usage: Value| {
            json!({
                "id": name, "object": "chat.completion.chunk", "created": 0, "model": body["model"],
                "choices": choices, "usage": usage,
            })
        };
        let delta = |delta: Value, reason: Option<&str>| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
            event(&chunk(json!([choice]), Value::Null))
        };
        let mut all = vec![delta(json!({"role": "assistant", "content": ""}), None)];
        let reason = match &plan.content {
            AnswerContent::Call { .. } => {
                all.push(delta(json!({"tool_calls": calls(plan)}), None));
                "tool_calls"
            }
            AnswerContent::Say(text) => {
                all.extend(words(text).iter().map(|word| delta(json!({"content": word}), None)));
                "stop"
            }
            AnswerContent::Fail { .. } => "error",
        };
        all.push(delta(json!({}), Some(reason)));
        all.push(event(&chunk(json!([]), usage(plan))));
        all.push("data: [DONE]\n\n".to_owned());
        all
    }

    fn error_body(&self, status: u16) -> Value {
        openai_refusal(status)
    }

    fn token_count_body(&self, tokens: usize) -> Value {
        json!({"input_tokens": tokens})
    }
}

fn calls(plan: &AnswerPlan) -> Value {
    let AnswerContent::Call { tool, args } = &plan.content else { return json!([]) };
    let function = json!({"name": tool.name, "arguments": args.to_string()});
    json!([{"index": 0, "id": id("call"), "type": "function", "function": function}])
}

fn usage(plan: &AnswerPlan) -> Value {
    let (input, output) = (plan.usage.input, plan.usage.output);
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
}
