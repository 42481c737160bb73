//! Each wire shape reads its recorded streams, whole, in pieces, cut, malformed, refused and too long.

use agent_worker_backends::WireShape::{self, Chat, Gemini, Messages, Responses};
use agent_worker_models::{
    AnswerDelta, AnswerPart, ModelAnswer, ModelCall, ModelFailure, RequestSecrets, SseDecoder,
    StopReason, TokenCounts, wire_of,
};
use agent_worker_protocol::FailureClass;
use serde_json::{Value, json};

pub(crate) const SHAPES: [WireShape; 4] = [Messages, Responses, Chat, Gemini];

pub(crate) fn recorded(shape: WireShape) -> &'static str {
    match shape {
        Messages => include_str!("../streams/messages-calls.sse"),
        Responses => include_str!("../streams/responses-calls.sse"),
        Chat => include_str!("../streams/chat-calls.sse"),
        Gemini => include_str!("../streams/gemini-calls.sse"),
    }
}

/// Reads a stream in pieces of this size. Returns the answer and the text that was shown meanwhile.
fn read(
    shape: WireShape,
    stream: &str,
    size: usize,
) -> Result<(ModelAnswer, String), ModelFailure> {
    read_without(&RequestSecrets::default(), shape, stream, size)
}

/// Reads a stream as `read`, with these secrets.
fn read_without(
    secrets: &RequestSecrets,
    shape: WireShape,
    stream: &str,
    size: usize,
) -> Result<(ModelAnswer, String), ModelFailure> {
    let mut reader = wire_of(shape).reader(secrets);
    let mut decoder = SseDecoder::default();
    let mut events = Vec::new();
    for piece in stream.as_bytes().chunks(size) {
        events.extend(decoder.push(piece));
    }
    events.extend(decoder.finish());
    let mut shown = String::new();
    for data in events {
        if let Some(AnswerDelta::Text(text)) = reader.read_event(&data)? {
            shown.push_str(&text);
        }
    }
    Ok((reader.finish()?, shown))
}

fn call(id: &str, tool: &str, args: &Value, signature: Option<&str>) -> AnswerPart {
    let args = args.as_object().cloned().unwrap_or_default();
    let signature = signature.map(str::to_owned);
    AnswerPart::Call(ModelCall { id: id.to_owned(), tool: tool.to_owned(), args, signature })
}

/// Returns the reasoning of the recorded stream as the shape sends it back, and the ids and the signature of its calls.
fn expected_parts(shape: WireShape) -> Vec<AnswerPart> {
    let thinking = match shape {
        Messages => Some(
            json!({"type": "thinking", "thinking": "Two files, both small.", "signature": "EqQBCgIYAhIM"}),
        ),
        Responses => {
            Some(json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAAAABo",
            "summary": [{"type": "summary_text", "text": "Two files"}]}))
        }
        Chat => Some(json!({"reasoning_content": "Two files, both small."})),
        Gemini => None,
    };
    let (ids, signature) = match shape {
        Messages => (["toolu_1", "toolu_2"], None),
        Responses | Chat => (["call_1", "call_2"], None),
        Gemini => (["", "fc-2"], Some("CpcBAVSoXO")),
    };
    let text = "I read beide Dateien – 二つ.".to_owned();
    let rest = [
        AnswerPart::Text { text, signature: None },
        call(ids[0], "read_file", &json!({"path": "a.rs"}), signature),
        call(ids[1], "team_members", &json!({}), None),
    ];
    thinking.map(AnswerPart::Thinking).into_iter().chain(rest).collect()
}

#[test]
fn thinking_text_and_parallel_calls_are_read_however_the_bytes_arrive() {
    for shape in SHAPES {
        for size in [1, 7, 100_000] {
            let (answer, shown) = read(shape, recorded(shape), size).unwrap();
            assert_eq!(answer.parts, expected_parts(shape), "{shape:?}");
            assert_eq!(answer.stop, StopReason::Complete, "{shape:?}");
            let into_cache = if shape == Messages { 30 } else { 0 };
            let tokens = TokenCounts { input: 2042, from_cache: 2000, into_cache, output: 89 };
            assert_eq!(answer.tokens, tokens, "{shape:?}");
            assert_eq!(shown, answer.text(), "{shape:?}");
            assert_eq!(answer.calls().count(), 2, "{shape:?}");
        }
    }
}

#[test]
fn a_chunk_with_reasoning_and_text_adds_both() {
    let stream = recorded(Chat).replace(
        r#"{"reasoning_content":"both small."}"#,
        r#"{"reasoning_content":"both small.","content":"Yes. "}"#,
    );
    assert_ne!(stream, recorded(Chat));
    let (answer, shown) = read(Chat, &stream, 1000).unwrap();
    assert_eq!(answer.text(), "Yes. I read beide Dateien – 二つ.");
    assert_eq!(shown, answer.text());
    let reasoning = json!({"reasoning_content": "Two files, both small."});
    assert_eq!(answer.parts[0], AnswerPart::Thinking(reasoning));
}

#[test]
fn a_stream_that_was_cut_anywhere_is_a_transient_failure() {
    for shape in SHAPES {
        let stream = recorded(shape);
        let last_events = match shape {
            Messages => "event: message_stop",
            Responses => "event: response.completed",
            Chat => {
                r#"data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"#
            }
            Gemini => r#"data: {"candidates":[{"content":{"parts":[{"text":""}]"#,
        };
        let end = stream.find(last_events).unwrap();
        for at in (0..end).filter(|at| stream.is_char_boundary(*at)).step_by(13).chain([end]) {
            let failure = read(shape, &stream[..at], 1000).unwrap_err();
            assert_eq!(failure.class, FailureClass::Transient, "{shape:?} {at}: {failure}");
        }
        let failure = read(shape, &stream[..end], 1000).unwrap_err();
        assert_eq!(failure.why, "the response ended early", "{shape:?}");
    }
}

#[test]
fn a_malformed_event_or_call_is_a_transient_failure_that_shows_its_beginning() {
    for shape in SHAPES {
        for broken in ["{\"type\":", "[1]", "7", "<html>"] {
            let stream = format!("data: {broken}\n\n{}", recorded(shape));
            let failure = read(shape, &stream, 1000).unwrap_err();
            assert_eq!(failure.class, FailureClass::Transient, "{shape:?} {broken}");
            assert_eq!(
                failure.why,
                format!("the response is malformed at `{broken}`"),
                "{shape:?}"
            );
        }
    }
    for (shape, from, to) in [
        (Messages, r#"\"a."#, "a."),
        (Responses, r#"{\"path\":\"a.rs\"}"#, r#"{\"path\":a}"#),
        (Chat, r#"\"a.rs\"}"#, "a}"),
        (Gemini, r#"{"path":"a.rs"}"#, r#""a.rs""#),
    ] {
        let stream = recorded(shape).replace(from, to);
        assert_ne!(stream, recorded(shape));
        let failure = read(shape, &stream, 1000).unwrap_err();
        assert_eq!(failure.class, FailureClass::Transient, "{shape:?}: {failure}");
    }
}

#[test]
fn a_failure_of_a_stream_that_is_cut_within_a_secret_contains_no_part_of_it() {
    let key = "sk-0123456789abcdef";
    let secrets = RequestSecrets::new([key.to_owned()]);
    for shape in SHAPES {
        for before in 180..=200 {
            let stream = format!("data: {}{key} is wrong\n\n", "x".repeat(before));
            let failure = read_without(&secrets, shape, &stream, 1000).unwrap_err();
            assert!(failure.why.starts_with("the response is malformed at `xxx"), "{failure}");
            assert!(!failure.why.contains("xs"), "{shape:?} {before}: {failure}");
        }
    }
}

#[test]
fn a_refusal_and_a_full_answer_are_reasons_to_stop() {
    for (shape, from, refusal, full) in [
        (
            Messages,
            r#""stop_reason":"tool_use""#,
            r#""stop_reason":"refusal""#,
            r#""stop_reason":"max_tokens""#,
        ),
        (
            Responses,
            r#"{"type":"response.completed","response":{"#,
            r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"},"#,
            r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"},"#,
        ),
        (
            Chat,
            r#""finish_reason":"tool_calls""#,
            r#""finish_reason":"content_filter""#,
            r#""finish_reason":"length""#,
        ),
        (
            Gemini,
            r#""finishReason":"STOP""#,
            r#""finishReason":"SAFETY""#,
            r#""finishReason":"MAX_TOKENS""#,
        ),
    ] {
        for (to, expected) in [(refusal, StopReason::Refusal), (full, StopReason::MaxTokens)] {
            let stream = recorded(shape).replace(from, to);
            let (answer, _) = read(shape, &stream, 1000).unwrap();
            assert_eq!(answer.stop, expected, "{shape:?}");
        }
    }
    let blocked = r#"data: {"promptFeedback":{"blockReason":"SAFETY"}}"#;
    assert_eq!(read(Gemini, blocked, 1000).unwrap().0.stop, StopReason::Refusal);
    let refused = recorded(Responses).replace(
        r#"{"type":"output_text","text":"I read beide Dateien – 二つ.","annotations":[]}"#,
        r#"{"type":"refusal","refusal":"I can't help with that."}"#,
    );
    assert_eq!(read(Responses, &refused, 1000).unwrap().0.stop, StopReason::Refusal);
}

#[test]
fn an_end_for_another_reason_is_a_failure_that_names_it_and_never_an_answer() {
    const COMPLETED: &str = r#"{"type":"response.completed","response":{"#;
    const STATUS: &str = r#""id":"resp_1","status":"completed""#;
    let incomplete = |reason: &str| {
        format!(
            r#"{{"type":"response.incomplete","response":{{"incomplete_details":{{"reason":"{reason}"}},"#
        )
    };
    let field = |name: &str, word: &str| format!(r#""{name}":"{word}""#);
    let (messages, chat, gemini) = (
        r#""stop_reason":"tool_use""#,
        r#""finish_reason":"tool_calls""#,
        r#""finishReason":"STOP""#,
    );
    for (shape, from, to, reason) in [
        (Messages, messages, field("stop_reason", "pause_turn"), "pause_turn"),
        (Messages, messages, field("stop_reason", "later"), "later"),
        (Responses, COMPLETED, incomplete("later"), "later"),
        (Responses, STATUS, field("status", "cancelled"), "cancelled"),
        (Chat, chat, field("finish_reason", "error"), "error"),
        (
            Chat,
            chat,
            field("finish_reason", "insufficient_system_resource"),
            "insufficient_system_resource",
        ),
        (Chat, chat, field("finish_reason", "later"), "later"),
        (
            Gemini,
            gemini,
            field("finishReason", "MALFORMED_FUNCTION_CALL"),
            "MALFORMED_FUNCTION_CALL",
        ),
        (Gemini, gemini, field("finishReason", "LATER"), "LATER"),
    ] {
        let stream = recorded(shape).replace(from, &to);
        assert_ne!(stream, recorded(shape), "{shape:?}");
        let failure = read(shape, &stream, 1000).unwrap_err();
        assert_eq!(failure.class, FailureClass::Transient, "{shape:?} {reason}");
        let why = format!("the provider ended the answer with `{reason}`");
        assert_eq!(failure.why, why, "{shape:?}");
    }
    let full = field("stop_reason", "model_context_window_exceeded");
    let stream = recorded(Messages).replace(messages, &full);
    let failure = read(Messages, &stream, 1000).unwrap_err();
    assert_eq!(failure.class, FailureClass::ContextOverflow, "{failure}");
    let stream = recorded(Responses).replace(COMPLETED, &incomplete("max_output_tokens"));
    let (answer, _) = read(Responses, &stream, 1000).unwrap();
    assert_eq!(answer.stop, StopReason::MaxTokens);
    for word in ["stop", "function_call", "eos"] {
        let stream = recorded(Chat).replace(chat, &field("finish_reason", word));
        assert_eq!(read(Chat, &stream, 1000).unwrap().0.stop, StopReason::Complete, "{word}");
    }
    let failed = r#""finish_reason":"stop","error":{"code":502,"message":"upstream is down"}"#;
    let failure = read(Chat, &recorded(Chat).replace(chat, failed), 1000).unwrap_err();
    assert_eq!(failure.class, FailureClass::Transient);
    assert_eq!(failure.why, "the provider answered 502: upstream is down");
}

#[test]
fn an_answer_that_is_full_within_the_arguments_of_a_call_has_no_such_call() {
    let piece = |shape: WireShape, from: &str, to: &str| recorded(shape).replace(from, to);
    let messages =
        piece(Messages, r#"rs\"}"#, "").replace("tool_use\",\"stop_seq", "max_tokens\",\"stop_seq");
    let chat = piece(Chat, r#"\"a.rs\"}"#, "").replace("\"tool_calls\"}]}", "\"length\"}]}");
    for (shape, stream) in [(Messages, messages), (Chat, chat)] {
        let (answer, _) = read(shape, &stream, 1000).unwrap();
        assert_eq!(answer.stop, StopReason::MaxTokens, "{shape:?}");
        let calls: Vec<_> = answer.calls().map(|call| call.tool.as_str()).collect();
        assert_eq!(calls, ["team_members"], "{shape:?}");
    }
}

#[test]
fn an_error_inside_of_a_stream_has_its_class() {
    for (shape, data, expected) in [
        (
            Messages,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            FailureClass::Transient,
        ),
        (
            Messages,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#,
            FailureClass::RateLimited,
        ),
        (
            Responses,
            r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"oops"}}}"#,
            FailureClass::Transient,
        ),
        (
            Responses,
            r#"{"type":"error","code":"rate_limit_exceeded","message":"slow down"}"#,
            FailureClass::RateLimited,
        ),
        (
            Responses,
            r#"{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"too long"}}}"#,
            FailureClass::ContextOverflow,
        ),
        (Chat, r#"{"error":{"code":402,"message":"Insufficient credits"}}"#, FailureClass::Billing),
        (
            Chat,
            r#"{"error":{"code":502,"message":"Provider error"},"choices":[]}"#,
            FailureClass::Transient,
        ),
        (
            Gemini,
            r#"{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}"#,
            FailureClass::RateLimited,
        ),
    ] {
        let stream =
            format!("{}data: {data}\n\n", recorded(shape).split_inclusive("\n\n").next().unwrap());
        let failure = read(shape, &stream, 1000).unwrap_err();
        assert_eq!(failure.class, expected, "{shape:?}: {failure}");
    }
}
