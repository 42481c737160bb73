//! The Responses API of `OpenAI`.

use serde_json::{Value, json};

use super::{
    script::{AnswerContent, AnswerPlan, ConversationItem, ModelInput, OfferedTool},
    wire::{ModelApi, array_items, event, id, text_of, words},
};

pub(super) struct Responses;

impl ModelApi for Responses {
    fn parse_request(&self, body: &Value) -> ModelInput {
        let input = match &body["input"] {
            Value::String(text) => vec![ConversationItem::User(text.clone())],
            list => array_items(list).filter_map(item).collect(),
        };
        ModelInput { items: input, tools: tools(&body["tools"]) }
    }

    fn full_response(&self, body: &Value, plan: &AnswerPlan) -> Value {
        response(body, plan, &id("resp"), Some(output(plan)))
    }

    fn stream_events(&self, body: &Value, plan: &AnswerPlan) -> Vec<String> {
        let (name, item) = (id("resp"), output(plan));
        let created = response(body, plan, &name, None);
        let mut all = vec![json!({"type": "response.created", "response": created})];
        let place = |kind: &str| {
            let kind = format!("response.{kind}");
            json!({"type": kind, "item_id": item["id"], "output_index": 0, "content_index": 0})
        };
        let with = |mut event: Value, key: &str, value: Value| {
            event[key] = value;
            event
        };
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        let added =
            |item| json!({"type": "response.output_item.added", "output_index": 0, "item": item});
        match &plan.content {
            AnswerContent::Call { .. } => {
                let args = item["arguments"].clone();
                all.push(added(with(begun, "arguments", json!(""))));
                all.push(with(place("function_call_arguments.delta"), "delta", args.clone()));
                all.push(with(place("function_call_arguments.done"), "arguments", args));
            }
            AnswerContent::Say(text) => {
                all.push(added(with(begun, "content", json!([]))));
                all.push(with(place("content_part.added"), "part", part("")));
                let delta = |word: &&str| with(place("output_text.delta"), "delta", json!(word));
                all.extend(words(text).iter().map(delta));
                all.push(with(place("output_text.done"), "text", json!(text)));
                all.push(with(place("content_part.done"), "part", part(text)));
            }
            AnswerContent::Fail { .. } => {}
        }
        all.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
        let done = response(body, plan, &name, Some(item));
        all.push(json!({"type": "response.completed", "response": done}));
        for (n, event) in all.iter_mut().enumerate() {
            event["sequence_number"] = json!(n);
        }
        all.iter().map(event).collect()
    }

    fn error_body(&self, status: u16) -> Value {
        openai_refusal(status)
    }

    fn token_count_body(&self, tokens: usize) -> Value {
        json!({"input_tokens": tokens})
    }
}

/// Builds a refusal, the same for both APIs of `OpenAI`.
pub(super) fn openai_refusal(status: u16) -> Value {
    let (kind, code) = match status {
        400 => ("invalid_request_error", "invalid_value"),
        401 => ("invalid_request_error", "invalid_api_key"),
        404 => ("invalid_request_error", "model_not_found"),
        429 => ("requests", "rate_limit_exceeded"),
        _ => ("server_error", "server_error"),
    };
    let message = format!("scripted {status}");
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

fn item(item: &Value) -> Option<ConversationItem> {
    let kind = item["type"].as_str().unwrap_or("message");
    if kind.ends_with("_output") {
        return Some(ConversationItem::Result(text_of(&item["output"])));
    }
    (kind == "message" && item["role"] == "user")
        .then(|| ConversationItem::User(text_of(&item["content"])))
}

/// Returns the offered tools, including those in a namespace.
fn tools(list: &Value) -> Vec<OfferedTool> {
    let mut found = Vec::new();
    for tool in array_items(list) {
        let Some(name) = tool["name"].as_str() else { continue };
        if tool["type"] == "namespace" {
            let inside = tools(&tool["tools"]).into_iter();
            found.extend(
                inside.map(|tool| OfferedTool { namespace: Some(name.to_owned()), ..tool }),
            );
        } else {
            found.push(OfferedTool { namespace: None, name: name.to_owned() });
        }
    }
    found
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

fn output(plan: &AnswerPlan) -> Value {
    match &plan.content {
        AnswerContent::Call { tool, args } => {
            let mut call = json!({
                "type": "function_call", "id": id("fc"), "call_id": id("call"), "status": "completed",
                "name": tool.name, "arguments": args.to_string(),
            });
            if let Some(namespace) = &tool.namespace {
                call["namespace"] = json!(namespace);
            }
            call
        }
        AnswerContent::Say(text) => json!({
            "type": "message", "id": id("msg"), "role": "assistant", "status": "completed", "content": [part(text)],
        }),
        AnswerContent::Fail { .. } => Value::Null,
    }
}

/// Builds a response with this output, or one that has only begun.
fn response(body: &Value, plan: &AnswerPlan, name: &str, output: Option<Value>) -> Value {
    let (input, said) = (plan.usage.input, plan.usage.output);
    let (status, output, usage) = match output {
        None => ("in_progress", json!([]), Value::Null),
        Some(output) => {
            let usage = json!({
                "input_tokens": input, "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": said, "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": input + said,
            });
            ("completed", json!([output]), usage)
        }
    };
    json!({
        "id": name, "object": "response", "created_at": 0, "status": status, "model": body["model"], "error": null,
        "incomplete_details": null, "parallel_tool_calls": false, "output": output, "usage": usage,
    })
}
