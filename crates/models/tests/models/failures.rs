//! The classes of the failures that providers report.

use std::time::Duration;

use agent_worker_backends::{PROVIDERS, find_provider};
use agent_worker_models::{ErrorReport, RequestSecrets, failure_of_error};
use agent_worker_protocol::FailureClass::{
    self, Auth, Billing, ContextOverflow, Fatal, RateLimited, Transient,
};

fn class(provider: &str, status: u16, body: &str) -> FailureClass {
    let phrases = find_provider(provider).unwrap().error_phrases;
    let secrets = &RequestSecrets::default();
    let report = ErrorReport { status: Some(status), body, retry_after: None, phrases, secrets };
    failure_of_error(report).class
}

/// Provider, status, body, and the class of the failure.
const REPORTS: [(&str, u16, &str, FailureClass); 24] = [
    (
        "anthropic",
        401,
        r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
        Auth,
    ),
    (
        "anthropic",
        402,
        r#"{"type":"error","error":{"type":"billing_error","message":"no credit"}}"#,
        Billing,
    ),
    (
        "anthropic",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
        Billing,
    ),
    (
        "anthropic",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 203454 tokens > 200000 maximum"}}"#,
        ContextOverflow,
    ),
    (
        "anthropic",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"temperature: range"}}"#,
        Fatal,
    ),
    (
        "anthropic",
        404,
        r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}"#,
        Fatal,
    ),
    (
        "anthropic",
        413,
        r#"{"type":"error","error":{"type":"request_too_large","message":"too large"}}"#,
        ContextOverflow,
    ),
    (
        "anthropic",
        429,
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#,
        RateLimited,
    ),
    (
        "anthropic",
        529,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        Transient,
    ),
    (
        "openai",
        401,
        r#"{"error":{"message":"Incorrect API key","type":"invalid_request_error","code":"invalid_api_key"}}"#,
        Auth,
    ),
    (
        "openai",
        429,
        r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        Billing,
    ),
    (
        "openai",
        429,
        r#"{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}"#,
        RateLimited,
    ),
    (
        "openai",
        400,
        r#"{"error":{"message":"Your input exceeds the context window","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        ContextOverflow,
    ),
    ("openai", 500, r#"{"error":{"message":"oops","type":"server_error"}}"#, Transient),
    ("openrouter", 402, r#"{"error":{"code":402,"message":"Insufficient credits"}}"#, Billing),
    (
        "openrouter",
        400,
        r#"{"error":{"code":400,"message":"This endpoint's maximum context length is 8192 tokens."}}"#,
        ContextOverflow,
    ),
    (
        "llamacpp",
        400,
        r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"the request exceeds the available context size"}}"#,
        ContextOverflow,
    ),
    ("ollama", 404, r#"{"error":"model 'x' not found"}"#, Fatal),
    (
        "google",
        400,
        r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
        Auth,
    ),
    (
        "google",
        400,
        r#"[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]"#,
        ContextOverflow,
    ),
    (
        "google",
        503,
        r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
        Transient,
    ),
    ("groq", 502, "<html>Bad gateway</html>", Transient),
    ("groq", 418, "", Fatal),
    ("groq", 403, "{}", Auth),
];

#[test]
fn the_status_and_the_code_decide() {
    for (provider, status, body, expected) in REPORTS {
        assert_eq!(class(provider, status, body), expected, "{provider} {status} {body}");
    }
}

#[test]
fn a_phrase_counts_in_the_message_of_an_error_and_every_recorded_message_has_its_own() {
    for row in &PROVIDERS {
        for phrase in row.error_phrases {
            let body = serde_json::json!({"error": {"message": phrase.recorded}}).to_string();
            assert_eq!(class(row.name, 400, &body), phrase.class, "{}: {}", row.name, phrase.words);
        }
    }
    let elsewhere = r#"{"error":{"message":"no","param":"prompt is too long"}}"#;
    assert_eq!(class("anthropic", 400, elsewhere), Fatal);
}

#[test]
fn a_delay_belongs_to_failures_that_pass_and_a_body_may_name_it() {
    let quota = r#"{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[
        {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}"#;
    let delay = |status, body, retry_after| {
        let secrets = &RequestSecrets::default();
        let report = ErrorReport { status: Some(status), body, retry_after, phrases: &[], secrets };
        failure_of_error(report).retry_after
    };
    let minute = Some(Duration::from_mins(1));
    assert_eq!(delay(429, quota, None), Some(Duration::from_millis(34_500)));
    assert_eq!(delay(429, quota, minute), minute);
    assert_eq!(delay(503, "", minute), minute);
    assert_eq!(delay(401, "", minute), None);
}

#[test]
fn the_message_has_the_words_of_the_provider_and_no_more_than_500_characters() {
    let why = |body: &str| {
        let secrets = &RequestSecrets::default();
        let report =
            ErrorReport { status: Some(400), body, retry_after: None, phrases: &[], secrets };
        failure_of_error(report).why
    };
    assert_eq!(
        why(r#"{"error":{"message":"max_tokens: too large"}}"#),
        "the provider answered 400: max_tokens: too large"
    );
    assert_eq!(why(r#"{"detail":"x"}"#), r#"the provider answered 400: {"detail":"x"}"#);
    assert_eq!(why(""), "the provider answered 400: no further explanation");
    assert_eq!(why(&"é".repeat(1000)).chars().filter(|c| *c == 'é').count(), 500);
}

#[test]
fn a_message_that_is_cut_within_a_secret_contains_no_part_of_it() {
    let key = "sk-0123456789abcdef";
    let secrets = &RequestSecrets::new(["sk-012".to_owned(), String::new(), key.to_owned()]);
    for before in 480..=500 {
        let body = format!("{}{key} is wrong", "x".repeat(before));
        let report = ErrorReport {
            status: Some(401),
            body: &body,
            retry_after: None,
            phrases: &[],
            secrets,
        };
        let why = failure_of_error(report).why;
        assert!(!why.contains("sk-") && !why.contains("xs"), "{before}: {why}");
    }
}
