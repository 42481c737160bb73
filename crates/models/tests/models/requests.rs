//! The requests that each wire shape writes.

use agent_worker_backends::WireShape::{self, Chat, Gemini, Messages, Responses};
use agent_worker_models::{
    AnswerPart, CallResult, CallStatus, ConversationEntry, ImageData, ModelCall, ModelPrompt,
    RequestSettings, ToolDefinition, UserPart, wire_of,
};
use agent_worker_protocol::Effort;
use serde_json::{Value, json};

use crate::streams::SHAPES;

fn tools() -> Vec<ToolDefinition> {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let (name, description) = ("read_file".to_owned(), "Reads a file".to_owned());
    vec![ToolDefinition { name, description, schema }]
}

fn image() -> ImageData {
    ImageData { media_type: "image/png".to_owned(), base64: "iVBOR".to_owned() }
}

fn result(call: &str, status: CallStatus, text: &str, images: Vec<ImageData>) -> UserPart {
    let (call, tool, text) = (call.to_owned(), "read_file".to_owned(), text.to_owned());
    UserPart::Result(CallResult { call, tool, status, text, images })
}

/// Returns a conversation with an image, thinking, two calls, a result with an image, a failed one and a message between.
fn entries(thinking: Value) -> Vec<ConversationEntry> {
    let call = |id: &str, path: &str, signature: Option<&str>| {
        let args = json!({"path": path}).as_object().cloned().unwrap_or_default();
        let signature = signature.map(str::to_owned);
        AnswerPart::Call(ModelCall {
            id: id.to_owned(),
            tool: "read_file".to_owned(),
            args,
            signature,
        })
    };
    let text = |text: &str| UserPart::Text(text.to_owned());
    vec![
        ConversationEntry::User(vec![text("look"), UserPart::Image(image())]),
        ConversationEntry::Model(vec![
            AnswerPart::Thinking(thinking),
            AnswerPart::Text { text: "Both.".to_owned(), signature: None },
            call("c1", "a.png", Some("sig")),
            call("c2", "b.rs", None),
        ]),
        ConversationEntry::User(vec![
            result("c1", CallStatus::Done, "a picture", vec![image()]),
            result("c2", CallStatus::Failed, "no such file", vec![]),
            text("a new message"),
        ]),
    ]
}

fn thinking(shape: WireShape) -> Value {
    match shape {
        Messages => json!({"type": "thinking", "thinking": "t", "signature": "s"}),
        Responses => {
            json!({"type": "reasoning", "id": "rs", "encrypted_content": "e", "summary": []})
        }
        Chat => json!({"reasoning_content": "t"}),
        Gemini => json!({"text": "t", "thoughtSignature": "s"}),
    }
}

fn body(
    shape: WireShape,
    entries: &[ConversationEntry],
    settings: &RequestSettings,
) -> (String, String) {
    let tools = tools();
    let model = if shape == Messages { "claude-sonnet-5-5" } else { "m-1" };
    let prompt = ModelPrompt { model, system: "Be brief.", tools: &tools, entries, settings };
    let request = wire_of(shape).write_request(&prompt);
    (request.path, request.body)
}

fn settings() -> RequestSettings {
    RequestSettings {
        max_tokens: Some(500),
        temperature: Some(0.5),
        effort: Some(Effort::High),
        output_schema: None,
        extra: json!({"metadata": {"user": "u"}}).as_object().cloned().unwrap_or_default(),
    }
}

fn written(shape: WireShape) -> (String, Value) {
    let (path, body) = body(shape, &entries(thinking(shape)), &settings());
    (path, serde_json::from_str(&body).unwrap())
}

#[test]
fn a_request_to_anthropic_has_signed_thinking_images_in_results_and_cache_markers() {
    let (path, body) = written(Messages);
    assert_eq!(path, "/messages");
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR"}});
    let marker = json!({"type": "ephemeral"});
    let expected = json!({
        "model": "claude-sonnet-5-5", "max_tokens": 500, "stream": true, "temperature": 0.5,
        "cache_control": marker, "metadata": {"user": "u"},
        "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"},
        "system": [{"type": "text", "text": "Be brief.", "cache_control": marker}],
        "tools": [{"name": "read_file", "description": "Reads a file", "input_schema": tools()[0].schema}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "text", "text": "Both."},
                {"type": "tool_use", "id": "c1", "name": "read_file", "input": {"path": "a.png"}},
                {"type": "tool_use", "id": "c2", "name": "read_file", "input": {"path": "b.rs"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "is_error": false,
                    "content": [{"type": "text", "text": "a picture"}, image]},
                {"type": "tool_result", "tool_use_id": "c2", "is_error": true,
                    "content": [{"type": "text", "text": "no such file"}]},
                {"type": "text", "text": "a new message"},
            ]},
        ],
    });
    assert_eq!(body, expected);
}

#[test]
fn a_request_to_openai_is_not_stored_and_returns_encrypted_reasoning() {
    let (path, body) = written(Responses);
    assert_eq!(path, "/responses");
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,iVBOR"});
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let call = |id: &str, args: &str| json!({"type": "function_call", "call_id": id, "name": "read_file", "arguments": args});
    let expected = json!({
        "model": "m-1", "stream": true, "store": false, "include": ["reasoning.encrypted_content"],
        "instructions": "Be brief.", "max_output_tokens": 500, "temperature": 0.5,
        "reasoning": {"effort": "high"}, "metadata": {"user": "u"},
        "tools": [{"type": "function", "name": "read_file", "description": "Reads a file",
            "parameters": tools()[0].schema, "strict": false}],
        "input": [
            {"type": "message", "role": "user", "content": [text("look"), image]},
            {"type": "reasoning", "id": "rs", "encrypted_content": "e", "summary": []},
            {"type": "message", "role": "assistant",
                "content": [{"type": "output_text", "text": "Both.", "annotations": []}]},
            call("c1", r#"{"path":"a.png"}"#),
            call("c2", r#"{"path":"b.rs"}"#),
            {"type": "function_call_output", "call_id": "c1", "output": [text("a picture"), image]},
            {"type": "function_call_output", "call_id": "c2", "output": "no such file"},
            {"type": "message", "role": "user", "content": [text("a new message")]},
        ],
    });
    assert_eq!(body, expected);
}

#[test]
fn a_chat_request_has_the_images_of_results_in_the_message_after_them() {
    let (path, body) = written(Chat);
    assert_eq!(path, "/chat/completions");
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBOR"}});
    let call = |id: &str, args: &str| json!({"id": id, "type": "function", "function": {"name": "read_file", "arguments": args}});
    let tool = json!({"name": "read_file", "description": "Reads a file", "parameters": tools()[0].schema});
    let expected = json!({
        "model": "m-1", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 500,
        "temperature": 0.5, "reasoning_effort": "high", "metadata": {"user": "u"},
        "tools": [{"type": "function", "function": tool}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
            {"role": "assistant", "content": "Both.", "reasoning_content": "t",
                "tool_calls": [call("c1", r#"{"path":"a.png"}"#), call("c2", r#"{"path":"b.rs"}"#)]},
            {"role": "tool", "tool_call_id": "c1", "content": "a picture"},
            {"role": "tool", "tool_call_id": "c2", "content": "no such file"},
            {"role": "user", "content": [image, {"type": "text", "text": "a new message"}]},
        ],
    });
    assert_eq!(body, expected);
}

#[test]
fn a_request_to_gemini_returns_signatures_with_their_parts() {
    let (path, body) = written(Gemini);
    assert_eq!(path, "/models/m-1:streamGenerateContent?alt=sse");
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "iVBOR"}});
    let call =
        |id: &str, path: &str| json!({"id": id, "name": "read_file", "args": {"path": path}});
    let result = |id: &str, response: Value| json!({"functionResponse": {"id": id, "name": "read_file", "response": response}});
    let expected = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}]}, "metadata": {"user": "u"},
        "generationConfig": {"maxOutputTokens": 500, "temperature": 0.5, "thinkingConfig": {"thinkingLevel": "high"}},
        "tools": [{"functionDeclarations": [
            {"name": "read_file", "description": "Reads a file", "parametersJsonSchema": tools()[0].schema},
        ]}],
        "contents": [
            {"role": "user", "parts": [{"text": "look"}, image]},
            {"role": "model", "parts": [
                {"text": "t", "thoughtSignature": "s"}, {"text": "Both."},
                {"functionCall": call("c1", "a.png"), "thoughtSignature": "sig"},
                {"functionCall": call("c2", "b.rs")},
            ]},
            {"role": "user", "parts": [
                result("c1", json!({"output": "a picture"})), image,
                result("c2", json!({"error": "no such file"})), {"text": "a new message"},
            ]},
        ],
    });
    assert_eq!(body, expected);
}

#[test]
fn each_request_begins_with_the_bytes_of_the_previous_one() {
    for shape in SHAPES {
        let all = entries(thinking(shape));
        let (_, first) = body(shape, &all[..1], &settings());
        let (_, second) = body(shape, &all, &settings());
        let same = first.bytes().zip(second.bytes()).take_while(|(a, b)| a == b).count();
        assert_eq!(
            same,
            first.len() - 2,
            "{shape:?}: all but the closing `]}}`\n{first}\n{second}"
        );
    }
}

#[test]
fn effort_is_written_for_models_that_know_it() {
    let effort = |shape: WireShape, model: &str, effort: Effort| {
        let settings = RequestSettings { effort: Some(effort), ..RequestSettings::default() };
        let prompt =
            ModelPrompt { model, system: "", tools: &[], entries: &[], settings: &settings };
        serde_json::from_str::<Value>(&wire_of(shape).write_request(&prompt).body).unwrap()
    };
    let older = effort(Messages, "claude-haiku-4-5-20251001", Effort::High);
    assert_eq!(older["output_config"], Value::Null);
    let newer = effort(Messages, "claude-opus-5-5", Effort::Max);
    assert_eq!(newer["output_config"], json!({"effort": "max"}));
    let budget = effort(Gemini, "gemini-2.5-pro", Effort::Low);
    assert_eq!(budget["generationConfig"]["thinkingConfig"], json!({"thinkingBudget": 1024}));
    let level = effort(Gemini, "gemini-3.5-flash", Effort::Max);
    assert_eq!(level["generationConfig"]["thinkingConfig"], json!({"thinkingLevel": "high"}));
}

#[test]
fn a_schema_is_in_the_field_of_its_api() {
    let written = |shape: WireShape, model: &str, schema: &Value| {
        let output_schema = Some(schema.clone());
        let settings = RequestSettings { output_schema, ..settings() };
        let tools = tools();
        let prompt =
            ModelPrompt { model, system: "", tools: &tools, entries: &[], settings: &settings };
        serde_json::from_str::<Value>(&wire_of(shape).write_request(&prompt).body).unwrap()
    };
    let strict = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
        "additionalProperties": false});
    let open = json!({"type": "object"});
    let format = json!({"type": "json_schema", "schema": strict});
    let newer = written(Messages, "claude-opus-5-5", &strict);
    assert_eq!(newer["output_config"], json!({"effort": "high", "format": format}));
    assert_eq!(written(Messages, "claude-opus-5-5", &open)["output_config"]["format"], Value::Null);
    assert_eq!(written(Messages, "claude-3-haiku", &strict)["output_config"], Value::Null);
    for (schema, is_strict) in [(&strict, true), (&open, false)] {
        let body = written(Responses, "m-1", schema);
        let expected =
            json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": is_strict});
        assert_eq!(body["text"], json!({ "format": expected }));
        let body = written(Chat, "m-1", schema);
        let expected = json!({"name": "answer", "schema": schema, "strict": is_strict});
        let expected = json!({"type": "json_schema", "json_schema": expected});
        assert_eq!(body["response_format"], expected);
    }
    let newer = written(Gemini, "gemini-3.5-flash", &open);
    assert_eq!(newer["generationConfig"]["responseJsonSchema"], open);
    assert_eq!(newer["generationConfig"]["responseMimeType"], "application/json");
    let older = written(Gemini, "gemini-2.5-flash", &open);
    assert_eq!(older["generationConfig"]["responseMimeType"], Value::Null);
}
