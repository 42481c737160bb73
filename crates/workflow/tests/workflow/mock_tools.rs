//! Tools with scripted results: `mock_tools`.

use agent_worker_protocol::{AgentSettings, Backend, MockTool, PermissionAction};
use agent_worker_workflow::{MockToolChange, RenderStyle, change_mock_tools, changed_mock_tools};
use serde_json::{Value, json};

use crate::read;

fn agent(keys: &str) -> AgentSettings {
    read(&format!("agents:\n  a: {{ {keys} }}\n")).unwrap().agents.remove(0)
}

#[test]
fn a_mock_tool_has_one_result_or_several_and_completes_itself_from_the_built_in_tool() {
    let tools = "[{ name: deploy, description: D, schema: { type: object }, results: \
                 [{ when: { to: 'p*', n: 2 }, error: closed }, { result: { ok: true } }] }, { name: Bash, result: ok }]";
    let found = agent(&format!("model: sonnet, backend: api, mock_tools: {tools}")).mock_tools;
    let deploy = json!({"name": "deploy", "description": "D", "schema": {"type": "object"}, "results": [
        {"when": {"to": "p*", "n": 2}, "error": "closed"}, {"result": {"ok": true}},
    ]});
    assert_eq!(serde_json::to_value(&found[0]).unwrap(), deploy);
    let bash = serde_json::to_value(&found[1]).unwrap();
    assert_eq!(bash["name"], "bash");
    assert!(bash["description"].as_str().unwrap().starts_with("Runs a shell command"), "{bash}");
    assert_eq!(bash["schema"]["required"], json!(["command"]));
    assert_eq!(bash["results"], json!([{"result": "ok"}]));
}

#[test]
fn a_script_can_call_the_mock_tools_of_its_agent() {
    let found = agent(
        "mock: [{ calls: [{ tool: deploy }, { tool: bash }] }], \
         mock_tools: [{ name: deploy, description: D, result: 5 }, { name: Bash, result: '' }]",
    );
    let Backend::Mock { rules } = &found.backend else { panic!("{found:?}") };
    assert_eq!(rules[0].calls.len(), 2);
    assert_eq!(found.mock_tools[0].results[0].result, Some(Value::from(5)));
}

#[test]
fn mock_tools_alone_need_no_approval_and_real_ones_without_a_sandbox_do() {
    let bash = "mock_tools: [{ name: bash, result: ok }]";
    for (keys, expected) in [
        (format!("tools: [], {bash}"), Some(PermissionAction::Allow)),
        (format!("tools: [bash], sandbox: off, {bash}"), Some(PermissionAction::Allow)),
        (format!("sandbox: off, {bash}"), None),
        (format!("tools: [], permissions: {{ ask: [bash] }}, {bash}"), None),
    ] {
        let found = agent(&format!("model: sonnet, backend: api, {keys}"));
        assert_eq!(found.permissions.default, expected, "{keys}");
    }
}

/// Mock tools of an agent, and the place and the beginning of the message about their mistake.
const MISTAKES: [(&str, &str, &str); 16] = [
    ("[{ name: a, result: x }]", "3:16", "`agents.a.mock_tools[0]` needs `description`"),
    ("[{ description: D, result: x }]", "3:16", "`agents.a.mock_tools[0]` needs `name`"),
    ("[{ name: a, description: D }]", "3:16", "a mock tool needs `result`, `error` or `results`"),
    (
        "[{ name: a, description: D, result: x, error: y }]",
        "3:16",
        "a mock tool has one of `result`, `error` or `results`",
    ),
    (
        "[{ name: a, description: D, result: x, results: [] }]",
        "3:16",
        "a mock tool has one of `result`, `error` or `results`",
    ),
    (
        "[{ name: a, description: D, results: [] }]",
        "3:52",
        "`agents.a.mock_tools[0].results` must be a list with at least one result",
    ),
    (
        "[{ name: a, description: D, results: [{ when: {} }] }]",
        "3:53",
        "a mock tool needs `result` or `error`",
    ),
    (
        "[{ name: a, description: D, results: [{ result: x, on: {} }] }]",
        "3:66",
        "unknown key `agents.a.mock_tools[0].results[0].on`",
    ),
    (
        "[{ name: a, descripton: D, result: x }]",
        "3:27",
        "unknown key `agents.a.mock_tools[0].descripton`",
    ),
    (
        "[{ name: a, description: D, schema: { type: nosuch }, result: x }]",
        "3:59",
        "the schema is not valid: ",
    ),
    (
        "[{ name: bash, result: x }, { name: Bash, result: y }]",
        "3:43",
        "two mock tools called `bash`",
    ),
    (
        "[{ name: channel_send, description: D, result: x }]",
        "3:24",
        "`channel_send` is a tool of the team",
    ),
    ("[{ name: shell, description: D, result: x }]", "3:24", "`shell` is a tool of the team"),
    ("[{ name: 'a b', description: D, result: x }]", "3:24", "`a b` is not the name of a tool"),
    (
        "[{ name: a, description: D, result: ~ }]",
        "3:16",
        "the `result` of a mock tool has no value",
    ),
    ("{}", "3:15", "`agents.a.mock_tools` must be a list"),
];

#[test]
fn a_mistake_in_a_mock_tool_has_its_place() {
    for (tools, at, message) in MISTAKES {
        let text = format!("agents:\n a: {{ backend: mock,\n  mock_tools: {tools} }}\n");
        let error = read(&text).unwrap_err().render(RenderStyle::Plain);
        assert!(error.contains(&format!(":{at}")) && error.contains(message), "{tools}: {error}");
    }
    let foreign = read("agents: { a: { backend: claude, mock_tools: [] } }").unwrap_err();
    let foreign = foreign.render(RenderStyle::Plain);
    assert!(
        foreign.contains("`mock_tools` is for `backend: api` and `backend: mock`"),
        "{foreign}"
    );
}

fn mock(name: &str, result: &str) -> MockTool {
    serde_json::from_value(json!({"name": name, "results": [{"result": result}]})).unwrap()
}

fn set(agent: &AgentSettings, file: &[MockTool], tool: MockTool) -> Vec<MockTool> {
    let change = MockToolChange { set: vec![tool], clear: Vec::new() };
    change_mock_tools(agent, file, change).unwrap()
}

#[test]
fn a_changed_mock_tool_keeps_its_description_and_its_schema() {
    let tool =
        "{ name: deploy, description: D, schema: { type: object, properties: {} }, result: a }";
    let found = agent(&format!("model: sonnet, backend: api, mock_tools: [{tool}]"));
    let file = &found.mock_tools;
    let changed = set(&found, file, mock("deploy", "b"));
    assert_eq!(changed.len(), 1);
    assert_eq!(
        (&changed[0].description, &changed[0].schema),
        (&file[0].description, &file[0].schema)
    );
    assert_eq!(changed_mock_tools(&changed, file), ["deploy"]);
    assert!(changed_mock_tools(&set(&found, file, mock("deploy", "a")), file).is_empty());
    let described = MockTool { description: "New.".to_owned(), ..mock("deploy", "b") };
    let changed = set(&found, file, described);
    assert_eq!((changed[0].description.as_str(), &changed[0].schema), ("New.", &file[0].schema));
    let bash = set(&found, file, mock("Bash", "b")).remove(1);
    assert_eq!(bash.name, "bash");
    assert!(bash.description.starts_with("Runs a shell command") && bash.schema.is_some());
}

#[test]
fn no_change_lets_a_built_in_tool_act_that_the_file_mocks() {
    let keys = "model: sonnet, backend: api, sandbox: off, tools: [bash], mock_tools: [{ name: bash, result: a }]";
    let mut found = agent(keys);
    assert_eq!(found.permissions.default, Some(PermissionAction::Allow));
    let file = found.mock_tools.clone();
    let clear = || MockToolChange { set: Vec::new(), clear: vec!["Bash".to_owned()] };
    let refused = change_mock_tools(&found, &file, clear()).unwrap_err();
    assert_eq!(refused.message, "the mock tool `bash` of `a` is that of the workflow file");
    found.mock_tools = set(&found, &file, mock("bash", "b"));
    assert_eq!(change_mock_tools(&found, &file, clear()).unwrap(), file);
}
