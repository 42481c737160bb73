//! Accepted content of each section of the file, and the parsed result.

use std::collections::BTreeMap;

use agent_worker_protocol::{
    AgentSettings, Backend, MockCall, MockFailure, MockRule, Permissions, RetryPolicy, RunMode,
    SandboxSettings, Span,
};
use agent_worker_workflow::{
    DocumentOwner, Documents, Layout, Param, Provider, Workflow, WorkflowContext,
};

use crate::{read, read_with_agent};

/// Creates an optional text.
macro_rules! text {
    ($text:literal) => {
        Some($text.to_owned())
    };
}

#[test]
fn one_agent_is_a_workflow_and_the_rest_is_default() {
    let workflow = read("agents:\n  Coder: { backend: mock }\n").unwrap();
    assert_eq!(workflow.name.as_str(), "team");
    assert_eq!(workflow.context, WorkflowContext::default());
    assert_eq!((workflow.setup.len(), workflow.params.len()), (0, 0));
    assert_eq!((workflow.kickoff, workflow.env_names.len()), (None, 0));
    let expected = AgentSettings {
        name: "Coder".parse().unwrap(),
        backend: Backend::Mock { rules: vec![] },
        model: None,
        system_prompt: None,
        max_tokens: None,
        output_schema: None,
        effort: None,
        fallback: Vec::new(),
        max_steps: None,
        timeout: Span::from_secs(1800),
        silence: Span::from_secs(300),
        retry: RetryPolicy::default(),
        cwd: None,
        env: vec![],
        permissions: Permissions::default(),
        sandbox: SandboxSettings::default(),
        mock_tools: Vec::new(),
        requires: [].into(),
    };
    assert_eq!(workflow.agents, [expected]);
    assert_eq!(workflow.agents[0].name.as_str(), "Coder");
}

#[test]
fn everything_an_agent_may_say_is_taken() {
    let workflow = read(
        "agents:
  reviewer:
    backend: mock
    model: mock/large
    system_prompt: |
      You review.
    max_steps: 7
    timeout: 10m
    silence: 90s
    retry: { max_attempts: 5, backoff: 200ms, multiplier: 1.5 }
    cwd: sub/folder
    env: [GITHUB_TOKEN, CI]
",
    )
    .unwrap();
    let agent = &workflow.agents[0];
    assert_eq!(
        (&agent.model, &agent.system_prompt),
        (&text!("mock/large"), &text!("You review.\n"))
    );
    assert_eq!((agent.max_tokens, agent.max_steps), (None, Some(7)));
    assert_eq!((agent.timeout, agent.silence), (Span::from_secs(600), Span::from_secs(90)));
    let retry = RetryPolicy { max_attempts: 5, backoff: Span::from_millis(200), multiplier: 1.5 };
    assert_eq!(agent.retry, retry);
    assert_eq!(agent.cwd.as_deref(), Some("sub/folder".as_ref()));
    assert_eq!(agent.env, ["GITHUB_TOKEN", "CI"]);
    assert!(workflow.env_names.iter().eq(["CI", "GITHUB_TOKEN"]));
}

#[test]
fn a_mock_is_known_by_its_script_or_its_model() {
    for agent in
        ["{ mock: [] }", "{ model: mock }", "{ model: mock/x }", "{ backend: mock, model: m }"]
    {
        let workflow = read(&format!("agents: {{ a: {agent} }}\n")).unwrap();
        assert_eq!(workflow.agents[0].backend.word(), "mock", "{agent}");
    }
}

#[test]
fn a_mock_script_is_read_rule_by_rule() {
    let workflow = read(
        "agents:
  a:
    mock:
      - on: hello
        sleep: 200ms
        calls:
          - tool: channel_send
            args: { message: '@b hi', n: 3, deep: [1.5, true, null, { k: v }] }
          - { tool: inbox_check }
        run: echo hi
        say: done
      - { fail: rate_limited, times: 2 }
      - { exit: 3 }
      - { fail: { exit: 4 } }
      - say: ${{ not filled in }}
",
    )
    .unwrap();
    let Backend::Mock { rules } = &workflow.agents[0].backend else { panic!("{workflow:?}") };
    let args = [
        ("message", serde_json::json!("@b hi")),
        ("n", serde_json::json!(3)),
        ("deep", serde_json::json!([1.5, true, null, { "k": "v" }])),
    ];
    let args: BTreeMap<_, _> =
        args.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let first = MockRule {
        on: text!("hello"),
        sleep: Some(Span::from_millis(200)),
        calls: vec![
            MockCall { tool: "channel_send".into(), args },
            MockCall { tool: "inbox_check".into(), args: BTreeMap::new() },
        ],
        run: text!("echo hi"),
        say: text!("done"),
        ..MockRule::default()
    };
    let fails = |fail, times| MockRule { fail: Some(fail), times, ..MockRule::default() };
    let says = MockRule { say: text!("${{ not filled in }}"), ..MockRule::default() };
    let expected = [
        first,
        fails(MockFailure::RateLimited, Some(2)),
        fails(MockFailure::Exit(3), None),
        fails(MockFailure::Exit(4), None),
        says,
    ];
    assert_eq!(rules[..], expected);
}

#[test]
fn every_word_for_a_failure_is_known() {
    for (word, failure) in [
        ("transient", MockFailure::Transient),
        ("rate_limited", MockFailure::RateLimited),
        ("fatal", MockFailure::Fatal),
        ("crash", MockFailure::Crash),
        ("hang", MockFailure::Hang),
    ] {
        let workflow =
            read(&format!("agents: {{ a: {{ mock: [{{ fail: {word} }}] }} }}\n")).unwrap();
        let Backend::Mock { rules } = &workflow.agents[0].backend else { panic!("{workflow:?}") };
        assert_eq!(rules[0].fail, Some(failure));
    }
}

#[test]
fn context_is_on_unless_it_is_false() {
    use {Documents as D, Provider as P};
    for (section, provider, documents) in [
        ("", P::Sqlite, D::File),
        ("context:\n", P::Sqlite, D::File),
        ("context: null\n", P::Sqlite, D::File),
        ("context: {}\n", P::Sqlite, D::File),
        ("context: false\n", P::Off, D::Off),
        ("context: { provider: memory }\n", P::Memory, D::Store),
        ("context: { provider: sqlite, documents: store }\n", P::Sqlite, D::Store),
        ("context: { documents: sqlite }\n", P::Sqlite, D::Store),
        ("context: { documents: file }\n", P::Sqlite, D::File),
        ("context: { provider: file }\n", P::File, D::File),
        ("context: { provider: file, documents: store }\n", P::File, D::Store),
        ("context: { channel: , document: }\n", P::File, D::File),
        ("context: { channel: }\n", P::File, D::Off),
    ] {
        let context = read_with_agent(section).unwrap().context;
        let document_owner = DocumentOwner::Everybody;
        let layout = Layout::default();
        assert_eq!(
            context,
            WorkflowContext { provider, documents, document_owner, layout },
            "{section}"
        );
    }
}

#[test]
fn a_tool_that_changes_something_can_wait_for_a_gate_and_no_other() {
    let with = |requires: &str| {
        read(&format!("agents: {{ a: {{ backend: mock, requires: {{ {requires} }} }} }}\n"))
    };
    let agent = &with("document_write: release, vote: talk").unwrap().agents[0];
    let gates: Vec<_> =
        agent.requires.iter().map(|(tool, gate)| format!("{tool}={gate}")).collect();
    assert_eq!(gates, ["document_write=release", "vote=talk"]);
    for (requires, told) in [
        ("document_read: x", "`document_read` is not a tool that a gate can lock"),
        ("vote: [x]", "`agents.a.requires.vote` must be text"),
        ("votes: x", "`votes` is not a tool that a gate can lock"),
    ] {
        let error = with(requires).unwrap_err().summary();
        assert!(error.contains(told), "{requires}: {error}");
    }
}

#[test]
fn documents_have_the_owner_the_file_names_unless_there_is_only_one_agent() {
    let owner = |text: &str| read(text).unwrap().context.document_owner;
    let team = "agents: { Scribe: { backend: mock }, b: { backend: mock } }\ncontext: ";
    let scribe = || DocumentOwner::Agent("Scribe".parse().unwrap());
    let named = owner(&format!("{team}{{ documentOwner: scribe }}\n"));
    assert_eq!(named, scribe());
    let DocumentOwner::Agent(name) = named else { panic!("nobody") };
    assert_eq!(name.as_str(), "Scribe", "as the agents spell it");
    assert_eq!(owner(&format!("{team}{{ documentOwner: null }}\n")), DocumentOwner::Everybody);
    assert_eq!(owner(&format!("{team}{{ documentOwner: elect }}\n")), DocumentOwner::Elect);
    for alone in ["a", "A", "elect"] {
        let text = format!(
            "agents: {{ a: {{ backend: mock }} }}\ncontext: {{ documentOwner: {alone} }}\n"
        );
        assert_eq!(owner(&text), DocumentOwner::Everybody, "{alone}");
    }
}

#[test]
fn setup_steps_keep_their_order_and_their_lines() {
    let workflow = read_with_agent(
        "setup:
  - shell: git diff
    as: diff
    cwd: sub
  - { shell: 'wc -l <${{ diff.file }}', as: lines, shell_program: sh }
  - shell: |
      echo ${{ lines }}
",
    )
    .unwrap();
    let steps: Vec<_> = workflow
        .setup
        .iter()
        .map(|step| {
            let cwd = step.cwd.as_ref().map(|path| path.display().to_string());
            (step.line, step.name.as_deref(), cwd, step.program.as_deref())
        })
        .collect();
    let sub = text!("sub");
    let expected =
        [(4, Some("diff"), sub, None), (7, Some("lines"), None, Some("sh")), (8, None, None, None)];
    assert_eq!(steps, expected);
}

#[test]
fn parameters_and_limits_are_taken_as_written() {
    let workflow = read_with_agent(
        "params:
  - { name: target, required: true, description: What to look at. }
  - { name: depth, default: '3' }
  - { name: note }
limits: { hops: 9, turns: 12, wall: 30m }
",
    )
    .unwrap();
    let note = Param { name: "note".into(), ..Param::default() };
    let description = text!("What to look at.");
    let expected = [
        Param { name: "target".into(), description, required: true, ..note.clone() },
        Param { name: "depth".into(), default: text!("3"), ..note.clone() },
        note,
    ];
    assert_eq!(workflow.params, expected);
    let limits = workflow.limits.for_mode(RunMode::Start);
    assert_eq!(
        (limits.hops, limits.turns, limits.wall),
        (9, Some(12), Some(Span::from_secs(1800)))
    );
}

#[test]
fn anchors_and_merge_keys_work() {
    let workflow = read(
        "agents:
  a: &base { backend: mock, max_steps: 5 }
  b: { <<: *base, max_steps: 6 }
  c: *base
",
    )
    .unwrap();
    let steps: Vec<u32> = workflow.agents.iter().filter_map(|agent| agent.max_steps).collect();
    assert_eq!(steps, [5, 6, 5]);
}

#[test]
fn a_workflow_is_stored_and_read_back_whole() {
    let workflow = read(
        "name: review
params: [{ name: target, default: main }]
agents:
  a: { backend: mock, env: [CI], mock: [{ on: x, exit: 3 }] }
setup:
  - { shell: git diff, as: diff }
  - { shell: \"echo '${{ diff }}' ${{ env.LANG }} ${{ params.target.file }}\", shell_program: dash }
kickoff: '@a ${{ diff }} $${{ x }} ${{ workflow.name }} ${{ instance }}'
context: { provider: memory }
limits: { wall: 1h }
",
    )
    .unwrap();
    assert!(workflow.env_names.iter().eq(["CI", "LANG"]));
    let stored = serde_json::to_string(&workflow).unwrap();
    assert_eq!(serde_json::from_str::<Workflow>(&stored).unwrap(), workflow);
}

#[test]
fn the_file_fixes_the_voters_and_the_rule_of_a_gate() {
    let with = |gates: &str| {
        read(&format!(
            "agents: {{ a: {{ backend: mock, requires: {{ vote: release }} }} }}\ngates: {gates}\n"
        ))
    };
    let gates = with("{ release: { electorate: [user, A, a], rule: unanimous } }").unwrap().gates;
    let found = serde_json::to_value(&gates).unwrap();
    let expected =
        serde_json::json!({"release": {"electorate": ["user", "a"], "rule": "unanimous"}});
    assert_eq!(found, expected);
    for (gates, told) in [
        ("{ relase: { rule: majority } }", "no agent requires the gate `relase`"),
        ("{ release: { electorate: [] } }", "at least one entry"),
        ("{ release: { electorate: [usr] } }", "`usr` is neither an agent nor `user`"),
        ("{ release: { rule: plurality } }", "`majority` or `unanimous`"),
        ("{ release: user }", "must be a mapping"),
        ("[release]", "must be a mapping"),
    ] {
        let error = with(gates).unwrap_err().summary();
        assert!(error.contains(told), "{gates}: {error}");
    }
}

#[test]
fn a_finisher_is_an_agent_of_the_team_as_the_file_spells_it() {
    let workflow = read_with_agent("finisher: A\n").unwrap();
    assert_eq!(workflow.finisher.unwrap().as_str(), "a");
    assert_eq!(read_with_agent("").unwrap().finisher, None);
}

#[test]
fn an_agent_with_a_model_of_a_provider_calls_its_api() {
    let text = "agents:
  a: { model: anthropic/claude-sonnet-5-5, temperature: 1, max_tokens: 500, effort: max }
  b: { backend: default, model: sonnet }
  c: { model: large, provider: ollama }
  d:
    model: acme/large
    provider:
      name: acme
      base_url: https://models.acme.example/v1
      api_key: $ACME_TOKEN
      headers: { X-Team: '${TEAM}', x-plain: yes please }
    extra: { top_p: 0.5, reasoning: { summary: auto } }
";
    let workflow = read(text).unwrap();
    let api = |at: usize| match &workflow.agents[at].backend {
        Backend::Api(api) => api,
        other => panic!("{other:?}"),
    };
    let names = |at| (api(at).provider.as_str(), api(at).model.as_str());
    assert_eq!(names(0), ("anthropic", "claude-sonnet-5-5"));
    assert_eq!(api(0).temperature, Some(1.0));
    assert_eq!(names(1), ("anthropic", "claude-sonnet-5-5"));
    assert_eq!(names(2), ("ollama", "large"));
    assert_eq!(names(3), ("acme", "large"));
    assert_eq!(api(3).base_url.as_deref(), Some("https://models.acme.example/v1"));
    assert_eq!(api(3).api_key.as_deref(), Some("$ACME_TOKEN"));
    let headers = [("x-plain", "yes please"), ("x-team", "${TEAM}")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(api(3).headers, headers.into());
    let extra = serde_json::json!({"top_p": 0.5, "reasoning": {"summary": "auto"}});
    assert_eq!(serde_json::Value::Object(api(3).extra.clone()), extra);
}

#[test]
fn a_server_without_a_key_or_on_this_machine_may_have_http() {
    for provider in [
        "{ name: ollama, base_url: 'http://10.0.0.7:11434' }",
        "{ name: acme, base_url: 'http://acme/v1', headers: { x-team: red } }",
        "{ name: acme, base_url: 'http://127.0.0.1:8080/v1', api_key: $K }",
        "{ name: anthropic, base_url: 'http://[::1]:8080' }",
    ] {
        let text = format!("agents:\n  a: {{ model: m, provider: {provider} }}\n");
        assert!(read(&text).is_ok(), "{provider}");
    }
}

#[test]
fn a_limit_is_refused_where_the_backend_cannot_enforce_it() {
    for (backend, steps, tokens) in [
        ("mock", true, false),
        ("api, model: opus", true, true),
        ("claude", true, true),
        ("codex", false, false),
        ("gemini", true, true),
        ("opencode", false, false),
        ("cursor", false, false),
        ("acp, command: [agent]", false, false),
        ("command, command: [agent]", false, false),
    ] {
        for (limit, supported) in [("max_steps", steps), ("max_tokens", tokens)] {
            let file = format!("agents:\n  a: {{ backend: {backend}, {limit}: 5 }}\n");
            let Err(error) = read(&file) else {
                assert!(supported, "{backend} {limit}");
                continue;
            };
            assert!(!supported, "{backend} {limit}: {error}");
            let word = backend.split(',').next().unwrap();
            let said = format!("`{limit}` is not supported by backend `{word}`");
            assert!(error.to_string().contains(&said), "{error}");
            assert_eq!(error.mistakes()[0].line, 2);
        }
    }
}

#[test]
fn efforts_fallbacks_and_arguments_are_taken_where_the_backend_has_them() {
    for (agent, mistake) in [
        ("backend: claude, effort: max", ""),
        ("backend: codex, effort: xhigh", ""),
        ("backend: gemini, effort: high", ""),
        ("backend: gemini, effort: max", "backend `gemini` has no effort `max`"),
        ("backend: claude, effort: hihg", "backend `claude` has no effort `hihg`"),
        ("backend: mock, effort: low", "`effort` is not supported by backend `mock`"),
        ("backend: claude, model: opus, fallback: [sonnet, haiku]", ""),
        ("backend: mock, fallback: [sonnet]", "`fallback` is not supported by backend `mock`"),
        ("backend: claude, args: [--add-dir, /tmp]", ""),
        ("backend: codex, args: [-c, 'model_verbosity=low']", ""),
        (
            "backend: claude, args: [--permission-mode=plan]",
            "`--permission-mode` is set by agent-worker",
        ),
        ("backend: codex, args: [--yolo]", "`--yolo` is set by agent-worker"),
        (
            "backend: codex, args: [--add-dir, x]",
            "`--add-dir` is set by agent-worker, or has no effect",
        ),
        ("backend: command, command: [x], args: [y]", "`args` is for a vendor's program"),
    ] {
        let read = read(&format!("agents:\n  a: {{ {agent} }}\n"));
        let error = read.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(
            error.contains(mistake) && error.is_empty() == mistake.is_empty(),
            "{agent}: {error}"
        );
    }
}

#[test]
fn an_unknown_backend_is_the_only_mistake_of_its_limits_and_permissions() {
    for (agent, expected) in [
        (
            "model: antropic/claude-x, max_tokens: 4096",
            &["the model `antropic/claude-x` does not imply a backend"][..],
        ),
        (
            "model: antropic/claude-x, tools: [read_file], max_tokens: 4096",
            &["the model `antropic/claude-x` does not imply a backend"],
        ),
        (
            "backnd: claude, max_tokens: 4096, permissions: { default: ask }, mode: login",
            &["unknown key `agents.a.backnd`"],
        ),
        ("backend: clade, max_tokens: 4096", &["there is no backend `clade`"]),
    ] {
        let error = read(&format!("agents:\n  a: {{ {agent} }}\n")).unwrap_err();
        let mut told: Vec<_> = error.mistakes().into_iter().map(|one| one.message).collect();
        told.sort();
        assert_eq!(told, expected, "{agent}");
    }
}

#[test]
fn a_word_that_must_be_one_of_a_few_is_not_asked_to_be_quoted() {
    let error = read_with_agent("context: { documents: false }\n").unwrap_err();
    let mistake = &error.mistakes()[0];
    let expected = "`context.documents` must be `file` or `store` or `sqlite`, not `false`";
    assert_eq!((mistake.message.as_str(), &mistake.hint), (expected, &None));
}
