//! Questions that a program's own tool puts to its user, as a question of the team to a person. Pure.
//!
//! No user sits in front of the program. Its question therefore becomes `ask_human`: the person answers it with the
//! interfaces of the team, and the answer wakes the agent in a later turn.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The tool of Claude Code that asks its user.
pub(crate) const QUESTION_TOOL: &str = "AskUserQuestion";

/// The reply to a program whose question was passed on.
pub(crate) const PASSED_ON: &str =
    "The question was passed on to a person. End your turn now: the answer will wake you.";

/// Arguments of the program's tool.
#[derive(Deserialize)]
struct UserQuestions {
    questions: Vec<UserQuestion>,
}

#[derive(Deserialize)]
struct UserQuestion {
    question: String,
    #[serde(default)]
    options: Vec<UserQuestionOption>,
    #[serde(default, rename = "multiSelect")]
    is_multiple: bool,
}

#[derive(Deserialize)]
struct UserQuestionOption {
    label: String,
    #[serde(default)]
    description: String,
}

/// Returns the arguments of `ask_human` for a call of the program's own tool; none if the call asks nothing.
///
/// The choices are part of the text: the tool's user may always answer with other words.
pub(crate) fn ask_human_arguments(args: &Value) -> Option<Map<String, Value>> {
    let UserQuestions { questions } = UserQuestions::deserialize(args).ok()?;
    let mut text = String::new();
    for (number, question) in questions.iter().enumerate() {
        if !text.is_empty() {
            text.push('\n');
        }
        if questions.len() > 1 {
            let _ = write!(text, "{}. ", number + 1);
        }
        text.push_str(question.question.trim());
        if !question.options.is_empty() {
            let how = if question.is_multiple { "one or more of" } else { "one of" };
            let _ = write!(text, "\n{how}:");
        }
        for UserQuestionOption { label, description } in &question.options {
            let _ = match description.trim() {
                "" => write!(text, "\n- {label}"),
                description => write!(text, "\n- {label}: {description}"),
            };
        }
    }
    let arguments = json!({ "question": text });
    match arguments {
        Value::Object(arguments) if !text.trim().is_empty() => Some(arguments),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_questions_of_a_program_become_one_question_with_their_choices() {
        let option =
            |label: &str, description: &str| json!({"label": label, "description": description});
        let colour = json!({"question": "Which colour?", "header": "Colour", "multiSelect": false,
            "options": [option("Red", "warm"), option("Blue", "")]});
        let sizes =
            json!({"question": "Which sizes?", "multiSelect": true, "options": [option("S", "")]});
        for (questions, expected) in [
            (json!([colour]), Some("Which colour?\none of:\n- Red: warm\n- Blue")),
            (
                json!([colour, sizes]),
                Some(
                    "1. Which colour?\none of:\n- Red: warm\n- Blue\n2. Which sizes?\none or more of:\n- S",
                ),
            ),
            (json!([{"question": "Why?"}]), Some("Why?")),
            (json!([]), None),
            (json!("no list"), None),
        ] {
            let arguments = ask_human_arguments(&json!({ "questions": questions }));
            let text = arguments.map(|it| it["question"].as_str().unwrap().to_owned());
            assert_eq!(text.as_deref(), expected);
        }
    }
}
