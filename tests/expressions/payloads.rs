//! Hostile texts as values: they come back byte for byte and nothing in them is code.

use agent_worker_expressions::{ExpressionValue, ValueContent};

use crate::{evaluate, evaluate_with, evaluator, text};

/// Parts that mean something to a shell, to YAML, to JavaScript, to a template or to a terminal.
const PARTS: [&str; 50] = [
    "",
    "'",
    "\"",
    "`",
    "\\",
    "\n",
    "\r\n",
    "\r",
    "\t",
    "\0",
    "$",
    "$(touch /tmp/x)",
    "`id`",
    "${HOME}",
    "${{ env.HOME }}",
    "$${{ x }}",
    "}}",
    "{{",
    "${",
    "*/",
    "//",
    "/*",
    "<!--",
    "-->",
    "</script>",
    ";",
    "&&",
    "|",
    ">",
    "<",
    "#",
    "!",
    "!!python/object",
    "- a: b",
    "? ",
    "%",
    "%s%n",
    "\u{1b}[2J",
    "\u{7f}",
    "\u{2028}",
    "\u{2029}",
    "\u{feff}",
    "\u{202e}",
    "\\ud800",
    "\\u0000",
    "\\x00",
    "😀",
    "e\u{301}",
    "__proto__",
    "EOF\n",
];

/// Texts that are used as they are.
const TEXTS: [&str; 10] = [
    "x'); while(true); ('",
    "\"}],\"source\":\"1\"}\n{\"source\":\"1\"",
    "') || globalThis.constructor.constructor('return this')() || ('",
    "\"\\ud800\"",
    "{\"__proto__\": {\"contains\": 1}, \"toJSON\": 1}",
    "#!/bin/sh\nrm -rf ~\n",
    "constructor",
    "null",
    "true",
    "NaN",
];

fn payloads() -> Vec<String> {
    let mut all: Vec<String> = TEXTS.iter().map(|text| (*text).to_owned()).collect();
    for (at, part) in PARTS.iter().enumerate() {
        let next = PARTS[(at * 7 + 3) % PARTS.len()];
        all.push((*part).to_owned());
        all.push(format!("{part}{next}{part}"));
        all.push(format!("a {part} b\n{next}"));
    }
    for part in PARTS.iter().filter(|part| !part.is_empty()).take(39) {
        all.push(part.repeat(300 * 1024 / part.len() + 1));
    }
    all.push(('\0'..='\u{7ff}').chain('\u{e000}'..='\u{ffff}').collect());
    all
}

#[tokio::test]
async fn a_text_comes_back_byte_for_byte_whatever_it_contains() {
    let mut evaluator = evaluator();
    let payloads = payloads();
    assert!(payloads.len() >= 200, "{}", payloads.len());
    for payload in &payloads {
        let begin: String = payload.chars().take(40).collect();
        for source in ["x", "x + ''", "json(JSON.stringify(x))", "[x][0]"] {
            let found = evaluate(&mut evaluator, source, &[("x", payload)]).await;
            assert!(found == Ok(text(payload)), "{source}: {begin:?}: {:?}", found.err());
        }
        let found = evaluate(&mut evaluator, "[x]", &[("x", payload)]).await.unwrap();
        assert!(found.items("x") == Ok(vec![text(payload)]), "{begin:?}");
        let member =
            evaluate(&mut evaluator, "tasks.a.output", &[("tasks.a.output", payload)]).await;
        assert!(member == Ok(text(payload)), "{begin:?}");
    }
}

#[tokio::test]
async fn json_comes_back_byte_for_byte_even_if_a_text_in_it_is_half_a_character() {
    let mut evaluator = evaluator();
    for json in [
        r#"["\ud800","a\udfff","\ud83d\ud83d"]"#,
        r#"{"z":1,"a":{"__proto__":1},"":[[],{}]}"#,
        "[\"\\u0000\",\"\u{2028}\",\"\\\"\\\\\"]",
    ] {
        for source in ["x", "json(JSON.stringify(x))"] {
            let found =
                evaluate_with(&mut evaluator, source, &[("x", ValueContent::Json(json))]).await;
            assert_eq!(found.map(ExpressionValue::into_text), Ok(json.to_owned()), "{source}");
        }
        let found = evaluate(&mut evaluator, "json(x)", &[("x", json)]).await;
        assert_eq!(found.map(ExpressionValue::into_text), Ok(json.to_owned()));
    }
}
