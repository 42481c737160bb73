//! The schema and the reader agree: the same keys everywhere, and the same mistakes.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use agent_worker_backends::BACKENDS;
use agent_worker_workflow::{parse, schema};
use jsonschema::Validator;
use serde_json::Value;

use crate::read;

/// Path of each mapping in the schema, with a file that has an unknown key there.
const MAPPINGS: [(&str, &str); 24] = [
    ("", "agents: { a: { backend: mock } }\nxqzxqzxqz: 1"),
    ("/properties/params/items", "agents: { a: { backend: mock } }\nparams: [{ xqzxqzxqz: 1 }]"),
    ("/properties/agents/additionalProperties", "agents: { a: { xqzxqzxqz: 1 } }"),
    (
        "/properties/agents/additionalProperties/properties/provider/anyOf/1",
        "agents: { a: { model: opus, provider: { name: openai, xqzxqzxqz: 1 } } }",
    ),
    (
        "/properties/agents/additionalProperties/properties/retry",
        "agents: { a: { backend: mock, retry: { xqzxqzxqz: 1 } } }",
    ),
    (
        "/properties/agents/additionalProperties/properties/mock/items",
        "agents: { a: { mock: [{ xqzxqzxqz: 1 }] } }",
    ),
    (
        "/properties/agents/additionalProperties/properties/mock_tools/items",
        "agents: { a: { backend: mock, mock_tools: [{ xqzxqzxqz: 1 }] } }",
    ),
    (
        "/properties/agents/additionalProperties/properties/mock_tools/items/properties/results/items",
        "agents: { a: { backend: mock, mock_tools: [{ name: a, results: [{ xqzxqzxqz: 1 }] }] } }",
    ),
    (
        "/properties/agents/additionalProperties/properties/mock/items/properties/calls/items",
        "agents: { a: { mock: [{ calls: [{ xqzxqzxqz: 1 }] }] } }",
    ),
    (
        "/properties/agents/additionalProperties/properties/mock/items/properties/fail/anyOf/1",
        "agents: { a: { mock: [{ fail: { xqzxqzxqz: 1 } }] } }",
    ),
    (
        "/properties/agents/additionalProperties/properties/requires",
        "agents: { a: { backend: mock, requires: { xqzxqzxqz: gate } } }",
    ),
    (
        "/properties/agents/additionalProperties/properties/permissions",
        "agents: { a: { backend: claude, permissions: { xqzxqzxqz: ask } } }",
    ),
    (
        "/properties/agents/additionalProperties/properties/sandbox/anyOf/1",
        "agents: { a: { backend: claude, sandbox: { xqzxqzxqz: on } } }",
    ),
    ("/properties/context/anyOf/0", "agents: { a: { backend: mock } }\ncontext: { xqzxqzxqz: 1 }"),
    (
        "/properties/context/anyOf/0/properties/config",
        "agents: { a: { backend: mock } }\ncontext: { config: { xqzxqzxqz: 1 } }",
    ),
    (
        "/properties/context/anyOf/0/properties/channel/anyOf/0",
        "agents: { a: { backend: mock } }\ncontext: { channel: { xqzxqzxqz: 1 } }",
    ),
    (
        "/properties/context/anyOf/0/properties/document/anyOf/0",
        "agents: { a: { backend: mock } }\ncontext: { channel: , document: { xqzxqzxqz: 1 } }",
    ),
    ("/properties/setup/items", "agents: { a: { backend: mock } }\nsetup: [{ xqzxqzxqz: 1 }]"),
    (
        "/properties/gates/additionalProperties",
        "agents: { a: { backend: mock, requires: { vote: g } } }\ngates: { g: { xqzxqzxqz: 1 } }",
    ),
    ("/definitions/task", "tasks: [{ shell: a, xqzxqzxqz: 1 }]"),
    (
        "/definitions/task/properties/parallel/anyOf/1",
        "tasks: [{ parallel: { tasks: [{ shell: a }], xqzxqzxqz: 1 } }]",
    ),
    (
        "/definitions/task/properties/retry",
        "tasks: [{ shell: a, retry: { max_attempts: 2, xqzxqzxqz: 1 } }]",
    ),
    ("/properties/limits", "agents: { a: { backend: mock } }\nlimits: { xqzxqzxqz: 1 }"),
    ("/properties/notify/anyOf/0", "agents: { a: { backend: mock } }\nnotify: { xqzxqzxqz: 1 }"),
];

fn validator() -> Validator {
    let schema = schema();
    jsonschema::meta::validate(&schema).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

fn as_json(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// Returns the keys that the reader lists for a mapping with an unknown key.
fn known_to_the_reader(text: &str) -> BTreeSet<String> {
    let error = read(text).unwrap_err();
    let mistakes = error.mistakes();
    let hint = mistakes.iter().find_map(|mistake| mistake.hint.as_deref()?.split_once(": "));
    let (_, keys) = hint.unwrap_or_else(|| panic!("{text}: {mistakes:?}"));
    keys.split(", ").map(str::to_owned).collect()
}

/// Collects every path of the schema that is a mapping with keys of its own.
fn mappings(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_some() {
        found.insert(at.to_owned());
    }
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                mappings(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                mappings(value, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_key_the_reader_knows_is_in_the_schema_and_the_other_way_round() {
    let schema = schema();
    let mut found = BTreeSet::new();
    mappings(&schema, "", &mut found);
    let looked_at: BTreeSet<String> = MAPPINGS.iter().map(|(at, _)| (*at).to_owned()).collect();
    assert_eq!(found, looked_at);
    for (at, text) in MAPPINGS {
        let properties = schema.pointer(at).unwrap()["properties"].as_object().unwrap();
        let in_the_schema: BTreeSet<String> = properties.keys().cloned().collect();
        assert_eq!(in_the_schema, known_to_the_reader(text), "{at}");
    }
}

#[test]
fn the_name_of_a_model_implies_the_same_backends_in_the_schema_and_for_the_reader() {
    let validator = validator();
    for spec in &BACKENDS {
        let text = format!("agents: {{ a: {{ model: {}/some-model }} }}", spec.name);
        let is_read = parse(&text, Path::new("team.yaml")).is_ok();
        assert_eq!(validator.is_valid(&as_json(&text)), is_read, "{}", spec.name);
    }
}

#[test]
fn the_examples_are_valid_and_a_misspelt_key_anywhere_is_not() {
    let validator = validator();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let examples = fs::read_dir(root.join("examples")).unwrap();
    let first = ["mock", "claude", "codex", "gemini"];
    let first = first.map(|name| root.join(format!("crates/cli/src/commands/init/{name}.yaml")));
    let mut seen = 0;
    let is_workflow = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml");
    for path in examples.map(|entry| entry.unwrap().path()).filter(is_workflow).chain(first) {
        let text = fs::read_to_string(&path).unwrap();
        if let Err(error) = validator.validate(&as_json(&text)) {
            panic!("{}: {} {error}", path.display(), error.instance_path());
        }
        seen += 1;
    }
    assert!(seen >= 3, "{seen} examples");
    for (at, text) in MAPPINGS {
        assert!(!validator.is_valid(&as_json(text)), "{at}");
    }
}

#[test]
fn what_is_a_mistake_to_the_reader_is_one_to_an_editor_and_what_is_fine_is_fine() {
    let validator = validator();
    let agent = |text: &str| format!("agents: {{ a: {{ {text} }} }}");
    let with_agent = |text: &str| format!("agents: {{ a: {{ backend: mock }} }}\n{text}");
    for text in [
        "agents: {}".to_owned(),
        "name: x".to_owned(),
        "agents: { 1a: { backend: mock } }".to_owned(),
        "agents: { All: { backend: mock } }".to_owned(),
        "agents: { a: null }".to_owned(),
        agent("backend: sdk"),
        agent("max_steps: 30"),
        agent("backend: codex, session: new"),
        agent("model: gpt"),
        agent("backend: mock, max_steps: 0"),
        agent("backend: mock, max_steps: 10001"),
        agent("backend: mock, max_tokens: '5'"),
        agent("backend: mock, timeout: 5"),
        agent("backend: mock, timeout: 5 minutes"),
        agent("backend: mock, env: [A=1]"),
        agent("backend: mock, retry: { max_attempts: 0 }"),
        agent("backend: mock, retry: { multiplier: 0.5 }"),
        agent("mock: { say: x }"),
        agent("mock: [{ fail: badly }]"),
        agent("mock: [{ fail: crash, exit: 1 }]"),
        agent("mock: [{ exit: 256 }]"),
        agent("mock: [{ times: 0 }]"),
        agent("mock: [{ calls: [{ args: {} }] }]"),
        agent("mock: [{ calls: [{ tool: chanel_send }] }]"),
        with_agent("name: 'a b'"),
        with_agent("params: [{ name: a b }]"),
        with_agent("params: [{ name: tag }]"),
        with_agent("params: [{ name: a, required: true, default: x }]"),
        with_agent("context: true"),
        with_agent("context: { documents: files }"),
        with_agent("setup: [{ as: x }]"),
        with_agent("setup: [{ shell: x, shell_program: sh -x }]"),
        with_agent("limits: { hops: 0 }"),
        with_agent("limits: { wall: long }"),
        with_agent("tasks: []"),
    ] {
        assert!(parse(&text, Path::new("team.yaml")).is_err(), "{text}");
        assert!(!validator.is_valid(&as_json(&text)), "{text}");
    }
    for text in [
        agent("backend: mock, model: any/name, retry: { multiplier: 2 }, env: [HOME]"),
        agent("model: claude:opus"),
        agent("model: claude/opus, mode: login, session: fresh, command: claude"),
        agent("backend: command, command: [./agent.py, --fast]"),
        agent("command: ./agent.py"),
        agent("mock: [{ fail: { exit: 3 } }, { exit: 0 }, { fail: hang, times: 1 }]"),
        with_agent("params: [{ name: a, required: false, default: x }]"),
        with_agent("context: null"),
        with_agent("context: false"),
        with_agent("context: { provider: memory, documents: sqlite }"),
        with_agent("setup: [{ shell: 'true', as: x, cwd: ., shell_program: /bin/sh }]"),
        with_agent("limits: { hops: 1, turns: 1000000, wall: 365d }"),
    ] {
        parse(&text, Path::new("team.yaml")).unwrap();
        assert!(validator.is_valid(&as_json(&text)), "{text}");
    }
}

#[test]
fn a_path_that_cannot_be_an_agent_file_is_a_mistake_to_an_editor_too() {
    let validator = validator();
    for path in ["/etc/agent.md", "~/.claude/agents/a.md", "agent.yaml"] {
        let text = format!("agents: {{ a: {{ use: {path} }} }}");
        assert!(parse(&text, Path::new("team.yaml")).is_err(), "{text}");
        assert!(!validator.is_valid(&as_json(&text)), "{text}");
    }
    assert!(validator.is_valid(&as_json("agents: { a: { use: .claude/agents/a.md } }")));
}

#[test]
fn an_agent_of_a_protocol_is_the_same_to_the_reader_and_to_an_editor() {
    let validator = validator();
    for (text, is_fine) in [
        ("agent: gemini, mode: isolated, model: any", true),
        ("command: [mine, --acp]", true),
        ("agent: gemni", false),
    ] {
        let text = format!("agents: {{ a: {{ backend: acp, {text} }} }}");
        assert_eq!(parse(&text, Path::new("team.yaml")).is_ok(), is_fine, "{text}");
        assert_eq!(validator.is_valid(&as_json(&text)), is_fine, "{text}");
    }
}

#[test]
fn where_files_lie_is_the_same_to_the_reader_and_to_an_editor() {
    let validator = validator();
    let with_agent = |text: &str| format!("agents: {{ a: {{ backend: mock }} }}\ncontext: {text}");
    for text in [
        "{ config: { db: /team.db } }",
        "{ document: { file: a.md } }",
        "{ channel: { file: /a.md } }",
        "{ provider: sqlite, channel: { file: a.md } }",
        "{ channel: { file: a.md }, documents: store }",
        "{ channel: , config: { document: a.md } }",
        "{ dir: a }",
        "{ provider: file, config: { dir: /tmp } }",
    ] {
        assert!(parse(&with_agent(text), Path::new("team.yaml")).is_err(), "{text}");
        assert!(!validator.is_valid(&as_json(&with_agent(text))), "{text}");
    }
    for text in [
        "{ provider: file, config: { dir: a/b/, channel: talk.md, document: a/b.md } }",
        "{ dir: ./my-context/, channel: { file: talk.md }, document: { file: a.md } }",
        "{ channel: null }",
    ] {
        parse(&with_agent(text), Path::new("team.yaml")).unwrap();
        assert!(validator.is_valid(&as_json(&with_agent(text))), "{text}");
    }
}

#[test]
fn tasks_are_the_same_to_the_reader_and_to_an_editor() {
    let validator = validator();
    let with_agent = |text: &str| format!("agents: {{ a: {{ backend: mock }} }}\n{text}");
    for text in [
        with_agent("output: x"),
        with_agent("tasks: [{ shell: a, send: b, to: a }]"),
        with_agent("tasks: [{ send: b }]"),
        with_agent("tasks: [{ shell: a, else: [{ shell: b }] }]"),
        with_agent("tasks: [{ parallel: { max: 0, tasks: [{ shell: a }] } }]"),
        with_agent("tasks: [{ shell: a, if: 3 }]"),
        with_agent("finally: [{ shell: b }]"),
        with_agent("tasks: [{ shell: a }]\nfinally: []"),
        with_agent("tasks: [{ ask: a }]"),
        with_agent("tasks: [{ shell: a, max: 2 }]"),
        with_agent("tasks: [{ shell: a, for_each: '[1]', max: 101 }]"),
        with_agent("tasks: [{ shell: a, retry: { backoff: 1s } }]"),
        with_agent("tasks: [{ shell: a, retry: { max_attempts: 0 } }]"),
    ] {
        assert!(parse(&text, Path::new("team.yaml")).is_err(), "{text}");
        assert!(!validator.is_valid(&as_json(&text)), "{text}");
    }
    for text in [
        "tasks: [{ shell: a }]".to_owned(),
        with_agent(
            "tasks: [{ send: b, to: a, until: idle }, { send: b, to: [a], if: true }]\noutput: x",
        ),
        with_agent("tasks: [{ shell: a, for_each: '[1]', max: 2 }]\nfinally: [{ shell: b }]"),
        with_agent("tasks: [{ send: b, to: a, retry: { max_attempts: 2, backoff: 5s } }]"),
        with_agent("tasks: [{ parallel: [{ then: [{ shell: a, name: x }] }], needs: [] }]"),
    ] {
        parse(&text, Path::new("team.yaml")).unwrap();
        assert!(validator.is_valid(&as_json(&text)), "{text}");
    }
}
