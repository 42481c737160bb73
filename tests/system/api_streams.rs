//! Recorded streams and error bodies of each wire shape, answered to a real agent in a real run.

use std::fs;

use serde_json::{Value, json};

use crate::{
    api_agents::{ApiWorld, MODELS},
    model_server::RecordedResponse as Recorded,
};

/// A PNG of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The recorded streams and errors of one wire shape.
struct ShapeRecords {
    name: &'static str,
    /// Thinking, a text and two parallel calls. The first call is of `read_file`.
    calls: &'static str,
    /// The reasoning as the next request returns it; none if the shape has no field for it.
    thinking: Value,
    /// The place in the stream at which an edit makes a refusal of it.
    refusal: [&'static str; 2],
    /// The bodies for 402, 429, 529 and for a conversation that is too long, and the status of the last.
    billing: &'static str,
    rate_limit: &'static str,
    overload: &'static str,
    overflow: (u16, &'static str),
    unauthorized: &'static str,
}

fn shapes() -> [ShapeRecords; 4] {
    [messages(), responses(), gemini(), chat()]
}

fn messages() -> ShapeRecords {
    ShapeRecords {
        name: "messages",
        calls: include_str!("../../crates/models/tests/streams/messages-calls.sse"),
        thinking: json!({"type": "thinking", "thinking": "Two files, both small.", "signature": "EqQBCgIYAhIM"}),
        refusal: [r#""stop_reason":"tool_use""#, r#""stop_reason":"refusal""#],
        unauthorized: r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
        billing: r#"{"type":"error","error":{"type":"billing_error","message":"There is an issue with your billing."}}"#,
        rate_limit: r#"{"type":"error","error":{"type":"rate_limit_error","message":"Number of request tokens has exceeded your per-minute rate limit"}}"#,
        overload: r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        overflow: (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 203454 tokens > 200000 maximum"}}"#,
        ),
    }
}

fn responses() -> ShapeRecords {
    ShapeRecords {
        name: "responses",
        calls: include_str!("../../crates/models/tests/streams/responses-calls.sse"),
        thinking: json!({"id": "rs_1", "type": "reasoning", "encrypted_content": "gAAAAABo",
                "summary": [{"type": "summary_text", "text": "Two files"}]}),
        refusal: [
            r#"{"type":"output_text","text":"I read beide Dateien – 二つ.","annotations":[]}"#,
            r#"{"type":"refusal","refusal":"I can't help with that."}"#,
        ],
        unauthorized: r#"{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
        billing: r#"{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
        rate_limit: r#"{"error":{"message":"Rate limit reached for gpt-6-sol.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
        overload: r#"{"error":{"message":"The server is overloaded.","type":"server_error","param":null,"code":null}}"#,
        overflow: (
            400,
            r#"{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
        ),
    }
}

fn gemini() -> ShapeRecords {
    ShapeRecords {
        name: "gemini",
        calls: include_str!("../../crates/models/tests/streams/gemini-calls.sse"),
        thinking: Value::Null,
        refusal: [r#""finishReason":"STOP""#, r#""finishReason":"SAFETY""#],
        unauthorized: r#"{"error":{"code":401,"message":"Request had invalid authentication credentials.","status":"UNAUTHENTICATED"}}"#,
        billing: r#"{"error":{"code":402,"message":"Your prepaid credits are depleted.","status":"FAILED_PRECONDITION"}}"#,
        rate_limit: r#"{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED"}}"#,
        overload: r#"{"error":{"code":529,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
        overflow: (
            400,
            r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
        ),
    }
}

fn chat() -> ShapeRecords {
    ShapeRecords {
        name: "chat",
        calls: include_str!("../../crates/models/tests/streams/chat-calls.sse"),
        thinking: json!("Two files, both small."),
        refusal: [r#""finish_reason":"tool_calls""#, r#""finish_reason":"content_filter""#],
        unauthorized: r#"{"error":{"message":"User not found.","code":401}}"#,
        billing: r#"{"error":{"message":"Insufficient credits.","code":402}}"#,
        rate_limit: r#"{"error":{"message":"Rate limit exceeded: free-models-per-min.","code":429}}"#,
        overload: r#"{"error":{"message":"Provider returned error","code":529}}"#,
        overflow: (
            400,
            r#"{"error":{"message":"This endpoint's maximum context length is 8192 tokens. However, you requested 9001 tokens.","code":400}}"#,
        ),
    }
}

impl ShapeRecords {
    fn keys(&self) -> &'static str {
        MODELS.iter().find(|(name, _)| *name == self.name).unwrap().1
    }

    /// Returns the recorded stream with calls of two tools that the team has.
    fn calls(&self) -> String {
        self.calls.replace("read_file", "document_list").replace("a.rs", "notes")
    }

    /// Returns the stream up to its middle, which is the end of an event.
    fn first_half(&self) -> &str {
        let middle = self.calls.len() / 2;
        let end = self.calls[self.calls.ceil_char_boundary(middle)..].find("\n\n").unwrap();
        &self.calls[..self.calls.ceil_char_boundary(middle) + end + 2]
    }

    /// Returns the stream with a chunk in its middle that no one understands.
    fn malformed(&self) -> String {
        self.first_half().to_owned() + "data: {\"type\":\n\n"
    }

    fn refused(&self) -> String {
        let [from, to] = self.refusal;
        let stream = self.calls.replace(from, to);
        assert_ne!(stream, self.calls, "{}", self.name);
        stream
    }

    /// Returns the entries of the model's first answer in a request.
    fn reasoning(&self, body: &Value) -> Vec<Value> {
        let list = |name: &str| body[name].as_array().cloned().unwrap_or_default();
        let found: Vec<Value> = match self.name {
            "messages" => {
                let blocks = list("messages").into_iter();
                let blocks = blocks.flat_map(|it| it["content"].as_array().cloned().unwrap());
                blocks.filter(|block| block["type"] == "thinking").collect()
            }
            "responses" => {
                list("input").into_iter().filter(|item| item["type"] == "reasoning").collect()
            }
            "chat" => {
                list("messages").into_iter().map(|it| it["reasoning_content"].clone()).collect()
            }
            _ => Vec::new(),
        };
        found.into_iter().filter(|it| !it.is_null()).collect()
    }
}

/// Returns the parts of a request that repeat the calls and their results, as (tool, id) and ids.
fn calls_and_results(body: &Value) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let lists = ["messages", "input", "contents"].into_iter();
    let entries = lists.flat_map(|name| body[name].as_array().cloned().unwrap_or_default());
    for entry in entries {
        let mut parts = vec![entry.clone()];
        for name in ["content", "parts", "tool_calls"] {
            parts.extend(entry[name].as_array().cloned().unwrap_or_default());
        }
        for part in parts {
            if part["type"] == "tool_use" {
                calls.push(text(&part["id"]));
            } else if part["type"] == "function_call" {
                calls.push(text(&part["call_id"]));
            } else if part["type"] == "function" {
                calls.push(text(&part["id"]));
            } else if !part["functionCall"].is_null() {
                calls.push(text(&part["functionCall"]["id"]));
            } else if part["type"] == "tool_result" {
                results.push(text(&part["tool_use_id"]));
            } else if part["type"] == "function_call_output" {
                results.push(text(&part["call_id"]));
            } else if part["role"] == "tool" {
                results.push(text(&part["tool_call_id"]));
            } else if !part["functionResponse"].is_null() {
                results.push(text(&part["functionResponse"]["id"]));
            }
        }
    }
    (calls, results)
}

#[test]
fn parallel_calls_signed_thinking_and_an_image_stay_in_the_conversation_over_steps_and_turns() {
    for shape in shapes() {
        let name = shape.name;
        let test = ApiWorld::new();
        let bytes = agent_worker_protocol::Base64Bytes::try_from(PIXEL.to_owned()).unwrap().0;
        fs::write(test.world.project().join("pixel.png"), bytes).unwrap();
        test.start(shape.keys());
        test.models.replay([Recorded::stream(&shape.calls())]);
        let words = ["send", "me@team", "SAY All seen.", "--attach", "pixel.png", "--wait"];
        let said = test.world.run(&words);
        assert_eq!((said.code, said.stdout.trim()), (0, "All seen."), "{name}: {said:?}");
        let tools = |kind| {
            let events = test.events(kind);
            events.iter().map(|it| it["data"]["tool"].as_str().unwrap().to_owned()).collect()
        };
        let (called, done): (Vec<String>, Vec<String>) = (tools("tool_call"), tools("tool_result"));
        assert_eq!(called, ["document_list", "team_members"], "{name}");
        assert_eq!(done.len(), 2, "{name}");
        assert_eq!(test.ask("SAY Next."), "Next.", "{name}");
        let requests = test.models.requests();
        assert_eq!(requests.len(), 3, "{name}: two steps and the next turn");
        assert_eq!(requests[0].body.to_string().matches(PIXEL).count(), 1, "{name}");
        for later in &requests[1..] {
            let sent = later.body.to_string();
            assert_eq!(sent.matches(PIXEL).count(), 1, "{name}");
            let thinking: Vec<Value> = match &shape.thinking {
                Value::Null => Vec::new(),
                thinking => vec![thinking.clone()],
            };
            assert_eq!(shape.reasoning(&later.body), thinking, "{name}: {sent}");
            let signatures = usize::from(name == "gemini");
            assert_eq!(sent.matches(r#""thoughtSignature":"CpcBAVSoXO""#).count(), signatures);
            let (calls, results) = calls_and_results(&later.body);
            assert_eq!(calls.len(), 2, "{name}: {sent}");
            assert_eq!(calls, results, "{name}: {sent}");
            assert!(sent.contains("I read beide Dateien – 二つ."), "{name}: {sent}");
        }
        let usage = test.world.list(&["stats", "@team", "--json"])[0]["total"]["usage"].clone();
        let tokens = json!([usage["input_tokens"], usage["output_tokens"]]);
        assert_eq!(tokens, json!([2042 + 200, 89 + 20]), "{name}: {usage}");
    }
}

/// A failure of a provider, and the facts that the user sees.
struct FailureCase {
    what: &'static str,
    /// The responses to the first attempt, each with a part of its explanation.
    responses: Vec<(Recorded, &'static str)>,
    class: &'static str,
    /// State of the agent afterwards.
    state: &'static str,
    /// Outcome and exit code of a run whose agent has one attempt; none for a failure that no attempt uses up.
    run: Option<(&'static str, i32)>,
}

fn failure_cases(shape: &ShapeRecords) -> Vec<FailureCase> {
    let case =
        |what, responses, class, state, run| FailureCase { what, responses, class, state, run };
    let at_once = |status, body| Recorded::error(status, body).with_retry_after("0.01");
    let later = |status, body| Recorded::error(status, body).with_retry_after("3600");
    let says = |status: u16| match status {
        401 => "the provider answered 401: ",
        402 => "the provider answered 402: ",
        429 => "the provider answered 429: ",
        529 => "the provider answered 529: ",
        _ => "the provider answered 400: ",
    };
    let error = |status, body| (Recorded::error(status, body), says(status));
    let rate_limit = || (at_once(429, shape.rate_limit), says(429));
    let overload = || (at_once(529, shape.overload), says(529));
    let cut = Recorded::cut_stream(shape.first_half());
    let malformed = Recorded::stream(&shape.malformed());
    let unfinished = Recorded::stream(shape.first_half());
    let broken = vec![
        (cut, "the connection to the provider broke: "),
        (malformed, "the response is malformed at `{\"type\":`"),
        (unfinished, "the response ended early"),
    ];
    let refusal = vec![(Recorded::stream(&shape.refused()), "the model refused to answer")];
    let long_limit = vec![(later(429, shape.rate_limit), says(429))];
    let limits = vec![rate_limit(), rate_limit(), rate_limit()];
    let overloads = vec![overload(), overload(), overload()];
    let (status, overflow) = shape.overflow;
    let overflow = vec![error(status, overflow)];
    let unauthorized = vec![error(401, shape.unauthorized)];
    let billing = vec![error(402, shape.billing)];
    let failed = Some(("failed", 1));
    vec![
        case("streams that break", broken, "transient", "backing_off", None),
        case("401", unauthorized, "auth", "stopped", failed),
        case("402", billing, "billing", "stopped", failed),
        case("429 three times", limits, "rate_limited", "parked", None),
        case("429 for an hour", long_limit, "rate_limited", "parked", None),
        case("529 three times", overloads, "transient", "backing_off", None),
        case("a refusal", refusal, "fatal", "backing_off", failed),
        case("an overflow", overflow, "context_overflow", "backing_off", failed),
    ]
}

/// Returns the minute of the day of a time.
fn minutes(time: &Value) -> u32 {
    let (_, time) = time.as_str().unwrap().split_once('T').unwrap();
    let mut parts = time.split(':').map(str::parse::<u32>);
    parts.next().unwrap().unwrap() * 60 + parts.next().unwrap().unwrap()
}

/// Checks the events and the states after each failure of a shape, and the outcome of a run.
fn check_failures(name: &str) {
    let shape = shapes().into_iter().find(|shape| shape.name == name).unwrap();
    for case in failure_cases(&shape) {
        let what = format!("{name}, {}", case.what);
        let test = ApiWorld::new();
        test.start(&format!("{}, retry: {{ backoff: 1h }}", shape.keys()));
        let (responses, reasons): (Vec<_>, Vec<_>) = case.responses.into_iter().unzip();
        test.models.replay(responses.clone());
        let ended = test.end_of("SAY x");
        assert_eq!(ended["class"], case.class, "{what}: {ended}");
        let (last, earlier) = reasons.split_last().unwrap();
        let why = ended["why"].as_str().unwrap();
        assert!(why.contains(last), "{what}: {why}");
        let retries = test.events("retry");
        assert_eq!(retries.len(), earlier.len(), "{what}: {retries:?}");
        for (retry, reason) in retries.iter().zip(earlier) {
            assert!(retry["data"]["why"].as_str().unwrap().contains(reason), "{what}: {retry}");
        }
        assert_eq!(test.models.requests().len(), reasons.len(), "{what}");
        let status = test.world.json(&["status", "me@team", "--json"]);
        assert_eq!(status["state"], case.state, "{what}: {status}");
        assert_eq!(status["last_failure"]["class"], case.class, "{what}: {status}");
        if case.what == "429 for an hour" {
            let wait = minutes(&status["until"]) + 24 * 60 - minutes(&status["state_since"]);
            assert!([59, 60].contains(&(wait % (24 * 60))), "{what}: {wait}: {status}");
        }
        let Some((outcome, code)) = case.run else { continue };
        let test = ApiWorld::new();
        let keys = format!("{}, retry: {{ max_attempts: 1 }}", shape.keys());
        test.write(&[("me", &keys)], "kickoff: \"@me SAY x\"\n");
        test.models.replay(responses);
        let (got, envelope) = test.world.envelope(&["run", "team.yaml", "--json"]);
        assert_eq!((&envelope["outcome"], got), (&json!(outcome), code), "{what}: {envelope}");
        assert!(envelope.to_string().contains(last), "{what}: {envelope}");
    }
}

#[test]
fn every_failure_of_the_messages_api_has_its_class_its_retries_and_its_state() {
    check_failures("messages");
}

#[test]
fn every_failure_of_the_responses_api_has_its_class_its_retries_and_its_state() {
    check_failures("responses");
}

#[test]
fn every_failure_of_the_chat_api_has_its_class_its_retries_and_its_state() {
    check_failures("chat");
}

#[test]
fn every_failure_of_the_gemini_api_has_its_class_its_retries_and_its_state() {
    check_failures("gemini");
}

#[test]
fn a_disturbance_that_passes_is_asked_again_in_place_and_leaves_no_trace_in_the_answer() {
    for shape in shapes() {
        let disturbances = [
            Recorded::cut_stream(shape.first_half()),
            Recorded::stream(&shape.malformed()),
            Recorded::error(429, shape.rate_limit).with_retry_after("0.01"),
            Recorded::error(529, shape.overload).with_retry_after("0.01"),
        ];
        for disturbance in disturbances {
            let what = format!("{}: {disturbance:?}", shape.name);
            let test = ApiWorld::new();
            test.start(shape.keys());
            test.models.replay([disturbance]);
            assert_eq!(test.ask("SAY At last."), "At last.", "{what}");
            assert_eq!(test.events("retry").len(), 1, "{what}");
            let ended = test.events("attempt.ended");
            assert_eq!(ended.len(), 1, "{what}");
            assert_eq!(ended[0]["data"]["end"], "ok", "{what}: {ended:?}");
            let [first, second] = &test.models.requests()[..] else { panic!("{what}") };
            assert_eq!(first.body, second.body, "{what}");
        }
    }
}
