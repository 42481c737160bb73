//! Failures of a provider: their class by status and structured code, and by listed phrases of error bodies where a provider
//! has no code.

use std::{fmt, time::Duration};

use agent_worker_backends::ProviderErrorPhrase;
use agent_worker_protocol::FailureClass;
use serde_json::Value;

/// Maximum length of the provider's own words in an error.
const MAX_WORDS: usize = 500;

/// A request without an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ModelFailure {
    /// Class of the failure.
    pub class: FailureClass,
    /// The cause, for people.
    pub why: String,
    /// Delay after which the provider permits a retry.
    pub retry_after: Option<Duration>,
}

impl ModelFailure {
    /// Returns a failure without a delay.
    pub fn new(class: FailureClass, why: impl Into<String>) -> Self {
        Self { class, why: why.into(), retry_after: None }
    }

    /// Returns the failure without the secrets of its request.
    #[must_use]
    pub(crate) fn without(self, secrets: &RequestSecrets) -> Self {
        Self { why: secrets.remove(&self.why), ..self }
    }
}

/// The secrets of a request, which no failure repeats. A provider may write them into an error.
#[derive(Clone, Default)]
pub struct RequestSecrets(Vec<String>);

impl RequestSecrets {
    /// Creates the set of these secrets.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<_> = secrets.into_iter().filter(|it| !it.is_empty()).collect();
        // One secret may contain another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// Returns the beginning of a text without the secrets. Removes them first: a cut within a secret leaves a part that
    /// nothing recognizes.
    pub(crate) fn remove_and_cut(&self, text: &str, most: usize) -> String {
        self.remove(text).chars().take(most).collect()
    }

    fn remove(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "[key]"))
    }
}

impl fmt::Debug for RequestSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("RequestSecrets").finish_non_exhaustive()
    }
}

/// An error as a provider reports it: the status of the response or of an event in its stream, and a body.
#[derive(Clone, Copy, Debug)]
pub struct ErrorReport<'a> {
    /// Status of the response; none for an error in a stream.
    pub status: Option<u16>,
    /// Body of the response, or data of the event.
    pub body: &'a str,
    /// Delay that the headers ask for.
    pub retry_after: Option<Duration>,
    /// Phrases of this provider.
    pub phrases: &'a [ProviderErrorPhrase],
    /// Secrets of the request.
    pub secrets: &'a RequestSecrets,
}

impl<'a> ErrorReport<'a> {
    /// Returns the report of an error in a stream.
    pub(crate) fn in_stream(body: &'a str, secrets: &'a RequestSecrets) -> Self {
        Self { status: None, body, retry_after: None, phrases: &[], secrets }
    }
}

/// Returns the failure that a provider reports.
pub fn failure_of_error(report: ErrorReport<'_>) -> ModelFailure {
    let fields = ErrorFields::parse(report.body);
    let status = report.status.or(fields.status());
    let class = class_of(status, &fields, report.phrases);
    let words = report.secrets.remove_and_cut(&fields.message, MAX_WORDS);
    let words = if words.trim().is_empty() { "no further explanation".to_owned() } else { words };
    let why = match status {
        Some(status) => format!("the provider answered {status}: {words}"),
        None => format!("the provider failed: {words}"),
    };
    let retry_after = report.retry_after.or_else(|| fields.retry_after());
    let is_delayed = [FailureClass::RateLimited, FailureClass::Transient].contains(&class);
    ModelFailure { class, why, retry_after: retry_after.filter(|_| is_delayed) }
}

fn class_of(
    status: Option<u16>,
    fields: &ErrorFields,
    phrases: &[ProviderErrorPhrase],
) -> FailureClass {
    if let Some(class) = fields.codes.iter().find_map(|code| class_of_code(code)) {
        return class;
    }
    let message = fields.message.to_lowercase();
    if let Some(phrase) = phrases.iter().find(|phrase| message.contains(phrase.words)) {
        return phrase.class;
    }
    match status {
        Some(401 | 403) => FailureClass::Auth,
        Some(402) => FailureClass::Billing,
        Some(413) => FailureClass::ContextOverflow,
        Some(429) => FailureClass::RateLimited,
        Some(_) if fields.codes.iter().any(|code| PASSING_CODES.contains(&code.as_str())) => {
            FailureClass::Transient
        }
        Some(408 | 409 | 425 | 500..=599) | None => FailureClass::Transient,
        Some(_) => FailureClass::Fatal,
    }
}

/// Codes of failures that pass. Providers also use them where the status says more.
const PASSING_CODES: [&str; 7] = [
    "overloaded_error",
    "api_error",
    "timeout_error",
    "server_error",
    "UNAVAILABLE",
    "INTERNAL",
    "DEADLINE_EXCEEDED",
];

/// Returns the class of a code that means the same at every provider.
fn class_of_code(code: &str) -> Option<FailureClass> {
    Some(match code {
        "context_length_exceeded" | "request_too_large" | "exceed_context_size_error" => {
            FailureClass::ContextOverflow
        }
        "insufficient_quota" | "billing_error" | "billing_hard_limit_reached" => {
            FailureClass::Billing
        }
        "authentication_error"
        | "permission_error"
        | "invalid_api_key"
        | "API_KEY_INVALID"
        | "PERMISSION_DENIED"
        | "UNAUTHENTICATED" => FailureClass::Auth,
        "rate_limit_error" | "rate_limit_exceeded" | "RESOURCE_EXHAUSTED" => {
            FailureClass::RateLimited
        }
        _ => return None,
    })
}

/// The fields of an error body that some provider has.
#[derive(Debug, Default)]
struct ErrorFields {
    codes: Vec<String>,
    number: Option<u64>,
    message: String,
    retry_delay: Option<String>,
}

impl ErrorFields {
    /// Parses a body. One that is no JSON is its own message.
    fn parse(body: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            return Self { message: body.to_owned(), ..Self::default() };
        };
        // Gemini wraps the errors of a stream in a list.
        let value = if value.is_array() { &value[0] } else { &value };
        let nested = [&value["error"], &value["response"]["error"]];
        let error = nested.into_iter().find(|error| !error.is_null()).unwrap_or(value);
        let details = || error["details"].as_array().into_iter().flatten();
        let reasons = details().map(|detail| &detail["reason"]);
        let codes = [&error["code"], &error["type"], &error["status"]].into_iter().chain(reasons);
        let codes = codes.filter_map(Value::as_str).map(str::to_owned);
        let message = [&error["message"], error, &value["message"]];
        let message = message.into_iter().find_map(Value::as_str);
        Self {
            codes: codes.collect(),
            number: error["code"].as_u64(),
            message: message.map_or_else(|| body.to_owned(), str::to_owned),
            retry_delay: details().find_map(|it| it["retryDelay"].as_str()).map(str::to_owned),
        }
    }

    /// Returns the status that an error in a stream names.
    fn status(&self) -> Option<u16> {
        self.number.and_then(|number| u16::try_from(number).ok())
    }

    /// Returns the delay of Gemini's `RetryInfo`: `34s`, `0.5s`.
    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.retry_delay.as_ref()?.strip_suffix('s')?.parse().ok()?;
        Duration::try_from_secs_f64(seconds).ok()
    }
}
