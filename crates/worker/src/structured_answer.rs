//! Answers with a schema: JSON out of the text of a model, its check, and the words that ask for a corrected one. Pure.
//!
//! Invariant: the text of an attempt that ends ok is the JSON of a valid value, in one line with sorted keys.

use std::sync::Arc;

use agent_worker_protocol::FailureClass;
use jsonschema::{Validator, draft202012};
use serde_json::Value;

use crate::{
    truncation::truncate,
    turn::{TurnAnswer, TurnFailure},
};

/// Maximum number of mistakes that a failure lists.
const MAX_MISTAKES: usize = 10;
/// Maximum length of one mistake, which may repeat a part of the answer.
const MAX_MISTAKE_BYTES: usize = 300;
const FENCE: &str = "```";

/// The schema of an agent's answers.
#[derive(Debug)]
pub(crate) struct AnswerSchema {
    schema: Value,
    validator: Validator,
}

impl AnswerSchema {
    /// Prepares a schema, which the reader of the workflow file has checked.
    pub(crate) fn new(schema: &Value) -> Result<Arc<Self>, TurnFailure> {
        let validator = draft202012::new(schema).map_err(|error| {
            let why = format!("`output_schema` is not valid: {error}");
            TurnFailure::new(FailureClass::Fatal, why)
        })?;
        Ok(Arc::new(Self { schema: schema.clone(), validator }))
    }

    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns the value of an answer as JSON, or an explanation of its mistakes.
    pub(crate) fn read(&self, text: &str) -> Result<String, String> {
        let value = parse(text)?;
        let mistakes = self.validator.iter_errors(&value).take(MAX_MISTAKES).map(|error| {
            let at = error.instance_path().to_string();
            let mistake = truncate(&error.to_string(), MAX_MISTAKE_BYTES);
            if at.is_empty() { mistake } else { format!("at `{at}`: {mistake}") }
        });
        let mistakes: Vec<String> = mistakes.collect();
        if mistakes.is_empty() { Ok(value.to_string()) } else { Err(mistakes.join("; ")) }
    }

    /// Returns the answer with its JSON, or the failure of the attempt.
    pub(crate) fn accept(&self, answer: TurnAnswer) -> Result<TurnAnswer, TurnFailure> {
        match self.read(&answer.text) {
            Ok(text) => Ok(TurnAnswer { text, ..answer }),
            Err(why) => Err(TurnFailure::new(FailureClass::Output, rejection(&why))),
        }
    }
}

/// Returns the reason of a rejected answer, for people.
pub(crate) fn rejection(why: &str) -> String {
    format!("the answer is not valid against `output_schema`: {why}")
}

/// Returns the words that ask the model for a corrected answer.
pub(crate) fn repair_prompt(why: &str) -> String {
    format!(
        "Your last text is not the JSON that was demanded: {why}\n\
         Answer again with only the corrected JSON value that is valid against the JSON Schema of your instructions."
    )
}

fn parse(text: &str) -> Result<Value, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    let plain = serde_json::from_str(text);
    let found = plain.or_else(|error| match without_fence(text) {
        Some(inside) => serde_json::from_str(inside),
        None => Err(error),
    });
    found.map_err(|error| format!("it is not JSON: {error}"))
}

/// Returns the text inside of a fence of Markdown around the whole text.
fn without_fence(text: &str) -> Option<&str> {
    let inside = text.strip_prefix(FENCE)?.trim_end_matches('`');
    let (_language, inside) = inside.split_once('\n')?;
    Some(inside)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Arc<AnswerSchema> {
        let schema = json!({"type": "object", "required": ["score"],
            "properties": {"score": {"type": "integer", "maximum": 5}}});
        AnswerSchema::new(&schema).unwrap()
    }

    #[test]
    fn an_answer_is_the_json_in_its_text_with_or_without_a_fence() {
        let expected = r#"{"a":[1.5,null],"score":3}"#;
        for text in [
            r#"{"score": 3, "a": [1.5, null]}"#,
            " \n{\"score\":3,\n\"a\":[1.5,null]}\n",
            "```json\n{\"score\": 3, \"a\": [1.5, null]}\n```",
            "```\n{\"score\": 3, \"a\": [1.5, null]}\n```\n",
        ] {
            assert_eq!(schema().read(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_answer_that_is_no_json_or_not_valid_is_explained() {
        for (text, expected) in [
            ("", "it is empty"),
            ("Three.", "it is not JSON: expected value at line 1 column 1"),
            ("Here: {\"score\": 3}", "it is not JSON: expected value at line 1 column 1"),
            ("{}", "\"score\" is a required property"),
            ("{\"score\": \"x\"}", "at `/score`: \"x\" is not of type \"integer\""),
            ("{\"score\": 7}", "at `/score`: 7 is greater than the maximum of 5"),
            ("[]", "[] is not of type \"object\""),
        ] {
            assert_eq!(schema().read(text).unwrap_err(), expected, "{text}");
        }
        let long = format!("{{\"score\": \"{}\"}}", "x".repeat(5000));
        assert!(schema().read(&long).unwrap_err().len() < 400);
    }

    #[test]
    fn a_rejected_answer_fails_the_attempt_and_keeps_nothing() {
        let answer = |text: &str| TurnAnswer { text: text.to_owned(), session: Some(json!(1)) };
        let accepted = schema().accept(answer("{\"score\":\n1}")).unwrap();
        assert_eq!((accepted.text.as_str(), accepted.session), ("{\"score\":1}", Some(json!(1))));
        let failure = schema().accept(answer("no")).unwrap_err();
        assert_eq!(failure.class, FailureClass::Output);
        assert!(failure.why.starts_with("the answer is not valid against `output_schema`: it is"));
    }
}
