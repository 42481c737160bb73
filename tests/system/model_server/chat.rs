//! Chat Completions, which `OpenAI` has and many others speak.

use serde_json::{Value, json};

use super::{
    responses::openai_refusal,
    script::{Asked, Item, Plan, Tool, What},
    wire::{Wire, each, event, id, text_of, words},
};

pub(super) struct Chat;

impl Wire for Chat {
    fn read(&self, body: &Value) -> Asked {
        let items = each(&body["messages"]).filter_map(|message| {
            let text = text_of(&message["content"]);
            match message["role"].as_str() {
                Some("user") => Some(Item::User(text)),
                Some("tool") => Some(Item::Result(text)),
                _ => None,
            }
        });
        let name = |tool: &Value| tool["function"]["name"].as_str().map(str::to_owned);
        let tools = each(&body["tools"]).filter_map(name);
        let tools = tools.map(|name| Tool { namespace: None, name }).collect();
        Asked { items: items.collect(), tools }
    }

    fn whole(&self, body: &Value, plan: &Plan) -> Value {
        let (message, reason) = match &plan.what {
            What::Call { .. } => (
                json!({"role": "assistant", "content": null, "tool_calls": calls(plan)}),
                "tool_calls",
            ),
            What::Say(text) => (json!({"role": "assistant", "content": text}), "stop"),
            What::Fail { status, .. } => return openai_refusal(*status),
        };
        json!({
            "id": id("chatcmpl"), "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage(plan),
        })
    }

    fn events(&self, body: &Value, plan: &Plan) -> Vec<String> {
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
        let reason = match &plan.what {
            What::Call { .. } => {
                all.push(delta(json!({"tool_calls": calls(plan)}), None));
                "tool_calls"
            }
            What::Say(text) => {
                all.extend(words(text).iter().map(|word| delta(json!({"content": word}), None)));
                "stop"
            }
            What::Fail { .. } => "error",
        };
        all.push(delta(json!({}), Some(reason)));
        all.push(event(&chunk(json!([]), usage(plan))));
        all.push("data: [DONE]\n\n".to_owned());
        all
    }

    fn refusal(&self, status: u16) -> Value {
        openai_refusal(status)
    }

    fn counted(&self, tokens: usize) -> Value {
        json!({"input_tokens": tokens})
    }
}

fn calls(plan: &Plan) -> Value {
    let What::Call { tool, args } = &plan.what else { return json!([]) };
    let function = json!({"name": tool.name, "arguments": args.to_string()});
    json!([{"index": 0, "id": id("call"), "type": "function", "function": function}])
}

fn usage(plan: &Plan) -> Value {
    let (input, output) = (plan.usage.input, plan.usage.output);
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
}
