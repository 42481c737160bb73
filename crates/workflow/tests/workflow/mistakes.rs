//! One mistake at a time: its position, its message and its suggestion.

use agent_worker_workflow::RenderStyle;

use crate::{read, read_with_agent, section_mistakes::SECTION_MISTAKES};

/// Files with one mistake, its position, the message and the suggestion.
const MISTAKES: &[(&str, &str, &str, &str)] = &[
    // Mistakes in YAML itself.
    ("a: [1\nb: 2", "2:2", "not valid YAML", ""),
    (
        "agents: { a: { backend: mock } }\nagents: {}\n",
        "2:1",
        "the key `agents` is written twice",
        "keep one",
    ),
    (
        "agents: { a: { backend: mock }, a: {} }\n",
        "1:33",
        "the key `a` is written twice",
        "keep one",
    ),
    ("a: 1\n---\nb: 2\n", "3:1", "a second YAML document begins here", "remove `---`"),
    ("? [a]\n: b\n", "1:3", "a key must be plain text", ""),
    ("a: *b\n", "1:4", "not valid YAML", ""),
    ("a: &a [*a]\n", "1:8", "an alias cannot be inside its own anchor", ""),
    ("a: !custom x\n", "1:12", "not valid YAML: unsupported tag", ""),
    // Mistakes in the whole file.
    ("", "1:1", "the file must be a mapping, not nothing", "`agents:`"),
    ("- a\n", "1:1", "the file must be a mapping, not a list", "`agents:`"),
    ("name: x\n", "1:1", "`agents` is missing", ""),
    ("agents: {}\n", "1:9", "a workflow needs at least one agent", ""),
    ("agents: [a]\n", "1:9", "`agents` must be a mapping, not a list", ""),
    (
        "name: a b\nagents: { a: { backend: mock } }\n",
        "1:7",
        "`a b` cannot be a workflow's name",
        "",
    ),
    (
        "name: 5\nagents: { a: { backend: mock } }\n",
        "1:7",
        "`name` must be text, not a number",
        "put it in quotes",
    ),
    (
        "name: global\nagents: { a: { backend: mock } }\n",
        "1:7",
        "`global` is reserved for agents",
        "",
    ),
    (
        "schedule: 5m\nagents: { a: { backend: mock } }\n",
        "1:1",
        "`schedule` cannot be used yet",
        "remove it",
    ),
    (
        "Kickof: x\nagents: { a: { backend: mock } }\n",
        "1:1",
        "unknown key `Kickof`",
        "did you mean `kickoff`?",
    ),
    (
        "zebra: x\nagents: { a: { backend: mock } }\n",
        "1:1",
        "unknown key `zebra`",
        "the keys here are: name, params",
    ),
    // Mistakes in agents.
    ("agents:\n  2x: { backend: mock }\n", "2:3", "`2x` cannot be an agent's name", ""),
    ("agents:\n  all: { backend: mock }\n", "2:3", "`all` is reserved", ""),
    (
        "agents:\n  A: { backend: mock }\n  a: { backend: mock }\n",
        "3:3",
        "there are two agents called `a`",
        "case",
    ),
    ("agents:\n  a:\n", "2:3", "`a` needs a `backend`", "this version has `claude`"),
    ("agents:\n  a: {}\n", "2:3", "`a` needs a `backend`", "this version has `claude`"),
    (
        "agents:\n  a: { backend: sdk }\n",
        "2:3",
        "`a` needs a `model`",
        "such as `model: anthropic/claude-sonnet-5-5`",
    ),
    (
        "agents:\n  a: { backend: command }\n",
        "2:3",
        "`a` needs a `command`",
        "command: [./agent.py]",
    ),
    (
        "agents:\n  a: { backend: command, command: [] }\n",
        "2:35",
        "`agents.a.command` must be a program and its arguments, such as `[./agent.py, --fast]`",
        "",
    ),
    (
        "agents:\n  a: { backend: claude, mode: mine }\n",
        "2:31",
        "`agents.a.mode` must be `isolated` or `login`",
        "",
    ),
    (
        "agents:\n  a: { backend: codex, session: new }\n",
        "2:33",
        "`agents.a.session` must be `continue` or `fresh`",
        "",
    ),
    (
        "agents:\n  a: { backend: acp }\n",
        "2:3",
        "`a` needs an `agent` or a `command`",
        "known agents are `claude`, `codex`, `copilot`, `gemini`, `opencode`, `qwen`",
    ),
    (
        "agents:\n  a: { backend: acp, agent: gemni }\n",
        "2:29",
        "`agents.a.agent` must be `claude` or `codex` or `copilot` or `gemini` or `opencode` or `qwen`",
        "",
    ),
    (
        "agents:\n  a: { backend: acp, command: [x, --acp], model: y }\n",
        "2:50",
        "`model` is for an `agent` that is known",
        "",
    ),
    (
        "agents:\n  a: { backend: acp, command: [x, --acp], mode: login }\n",
        "2:49",
        "`mode` is for an `agent` whose settings are known",
        "",
    ),
    (
        "agents:\n  a: { backend: claude, agent: claude }\n",
        "2:32",
        "`agent` is for `backend: acp`",
        "",
    ),
    ("agents:\n  a: { backend: claude, mock: [] }\n", "2:31", "`mock` is for `backend: mock`", ""),
    ("agents:\n  a: { backend: mock, mode: login }\n", "2:29", "`mode` is for programs", ""),
    (
        "agents:\n  a: { backend: cladue }\n",
        "2:17",
        "there is no backend `cladue`",
        "did you mean `claude`?",
    ),
    (
        "agents:\n  a: { backend: api, model: antropic/x }\n",
        "2:29",
        "the provider of the model `antropic/x` is not known",
        "did you mean `anthropic`?",
    ),
    (
        "agents:\n  a: { model: large, provider: olama }\n",
        "2:32",
        "there is no known provider `olama`",
        "did you mean `ollama`?",
    ),
    (
        "agents:\n  a: { model: large, provider: { name: acme } }\n",
        "2:40",
        "there is no known provider `acme`",
        "`provider: { name: acme, base_url: https://… }`",
    ),
    (
        "agents:\n  a: { model: large, provider: { name: acme, base_url: acme.com } }\n",
        "2:56",
        "`agents.a.provider.base_url` must be an address such as `https://models.example/v1`",
        "",
    ),
    (
        "agents:\n  a: { model: m, provider: { name: acme, base_url: 'http://10.0.0.7/v1', api_key: $K } }\n",
        "2:52",
        "`http` would send the key of the provider in clear text",
        "write `https://…`; `http` is for this machine (127.0.0.1) and for servers without a key",
    ),
    (
        "agents:\n  a: { model: m, provider: { name: groq, base_url: 'http://localhost/v1' } }\n",
        "2:52",
        "`http` would send the key of the provider in clear text",
        "",
    ),
    (
        "agents:\n  a: { model: m, provider: { name: acme, base_url: 'http://acme', headers: { x: $X } } }\n",
        "2:52",
        "`http` would send the key of the provider in clear text",
        "",
    ),
    (
        "agents:\n  a: { model: opus, provider: { name: anthropic, api_key: sk-ant-1 } }\n",
        "2:59",
        "`agents.a.provider.api_key` must be the name of a variable, such as `$MY_KEY`",
        "comes from the environment",
    ),
    (
        "agents:\n  a: { model: opus, provider: { name: anthropic, headers: { Host: x } } }\n",
        "2:61",
        "the header `host` is set by agent-worker",
        "",
    ),
    (
        "agents:\n  a: { model: opus, provider: { name: anthropic, headers: { x-a: $1 } } }\n",
        "2:66",
        "`agents.a.provider.headers.x-a` must be one line of text, or a variable as `$NAME`",
        "",
    ),
    (
        "agents:\n  a: { model: opus, extra: { messages: [] } }\n",
        "2:30",
        "`messages` is set by agent-worker",
        "use the key of the agent for it",
    ),
    (
        "agents:\n  a: { backend: mock, temperature: 1 }\n",
        "2:36",
        "`temperature` is for `backend: api`",
        "",
    ),
    ("agents:\n  a: { backend: mock, tools: [] }\n", "2:30", "`tools` is for `backend: api`", ""),
    (
        "agents:\n  a: { backend: claude, tools: [bash] }\n",
        "2:32",
        "`tools` is for `backend: api`",
        "`claude` has tools of its own; restrict them with `permissions`",
    ),
    (
        "agents:\n  a: { model: opus, backend: api, tools: [read_*, read_fiel] }\n",
        "2:51",
        "there is no built-in tool `read_fiel`",
        "did you mean `read_file`?",
    ),
    (
        "agents:\n  a: { model: opus, backend: api, tools: [shel*] }\n",
        "2:43",
        "there is no built-in tool `shel*`",
        "the built-in tools are bash, ",
    ),
    (
        "agents:\n  a: { model: opus, backend: api, permissions: { bahs: ask } }\n",
        "2:50",
        "there is no built-in tool `bahs`",
        "did you mean `bash`?",
    ),
    (
        "agents:\n  a: { model: opus, backend: api, permissions: { deny: [Task] } }\n",
        "2:57",
        "there is no built-in tool `Task`",
        "the built-in tools are bash, ",
    ),
    (
        "agents:\n  a: { model: opus, backend: api, sandbox: { network: [http://crates.io] } }\n",
        "2:56",
        "`http://crates.io` names no host",
        "",
    ),
    (
        "agents:\n  a: { backend: mock, modle: x }\n",
        "2:23",
        "unknown key `agents.a.modle`",
        "did you mean `model`?",
    ),
    (
        "agents:\n  a: { backend: mock, timeout: 5 }\n",
        "2:32",
        "`agents.a.timeout` must be a length of time",
        "",
    ),
    ("agents:\n  a: { backend: mock, timeout: 5x }\n", "2:32", "`5x` is not a length of time", ""),
    (
        "agents:\n  a: { backend: mock, timeout: 0s }\n",
        "2:32",
        "`agents.a.timeout` must be between 1ms and 7d",
        "",
    ),
    (
        "agents:\n  a: { backend: mock, max_steps: -1 }\n",
        "2:34",
        "`agents.a.max_steps` must be between 1 and 10000",
        "",
    ),
    (
        "agents:\n  a: { backend: mock, max_steps: 1.5 }\n",
        "2:34",
        "must be a whole number, not a decimal number",
        "",
    ),
    (
        "agents:\n  a: { backend: mock, retry: { max_attempts: 0 } }\n",
        "2:46",
        "`agents.a.retry.max_attempts` must be between 1 and 100",
        "",
    ),
    (
        "agents:\n  a: { backend: mock, retry: { multiplier: 0.5 } }\n",
        "2:44",
        "must be between 1 and 100",
        "",
    ),
    (
        "agents:\n  a: { backend: mock, env: [A=b] }\n",
        "2:29",
        "`A=b` is not the name of an environment variable",
        "names alone",
    ),
    (
        "agents: { a: { backend: mock } }\ncontext: false\nanswers: deliver\n",
        "3:10",
        "with `context: false` no answer is delivered",
        "leave out `answers`",
    ),
    (
        "agents: { lead: { backend: mock } }\nfinisher: leed\n",
        "2:11",
        "there is no agent `leed`",
        "did you mean `lead`?",
    ),
    (
        "agents: { a: { backend: mock } }\nsetup: [{ shell: ls, env: { PATH: /x } }]\n",
        "2:29",
        "`PATH` changes how commands run and cannot be set with `env`",
        "set it in the script",
    ),
    (
        "agents: { a: { backend: mock } }\nsetup: [{ shell: ls, env: { A-B: x } }]\n",
        "2:29",
        "`A-B` is not the name of an environment variable",
        "letters",
    ),
    (
        "agents: { a: { backend: mock } }\nsetup: [{ shell: ls, env: { A: '${{ dif }}' } }]\n",
        "2:33",
        "unknown name `dif`",
        "",
    ),
    (
        "agents: { a: { backend: mock } }\nsetup: [{ shell: ls, env: [A] }]\n",
        "2:27",
        "`setup[0].env` must be a mapping, not a list",
        "",
    ),
    (
        "agents:\n  a: { backend: mock, cwd: '${{ x }}' }\n",
        "2:28",
        "`agents.a.cwd` cannot contain references in this version",
        "",
    ),
    (
        "agents:\n  a: { mock: [{ fail: crsh }] }\n",
        "2:23",
        "`agents.a.mock[0].fail` must be `transient` or",
        "did you mean `crash`?",
    ),
    (
        "agents:\n  a: { mock: [{ fail: crash, exit: 3 }] }\n",
        "2:36",
        "`fail` or `exit`, not both",
        "",
    ),
    (
        "agents:\n  a: { mock: [{ exit: 256 }] }\n",
        "2:23",
        "`agents.a.mock[0].exit` must be between 0 and 255",
        "",
    ),
    (
        "agents:\n  a: { mock: [{ calls: [{}] }] }\n",
        "2:25",
        "`agents.a.mock[0].calls[0]` needs `tool`",
        "",
    ),
    (
        "agents:\n  a: { mock: [{ calls: [{ tool: chanel_send }] }] }\n",
        "2:33",
        "there is no tool `chanel_send`",
        "did you mean `channel_send`?",
    ),
    (
        "agents:\n  a: { mock: [{ calls: [{ tool: git }] }] }\n",
        "2:33",
        "there is no tool `git`",
        "there are channel_send, channel_read,",
    ),
];

#[test]
fn every_mistake_is_reported_with_its_position_and_a_suggestion() {
    for (text, place, message, hint) in MISTAKES.iter().chain(SECTION_MISTAKES) {
        let error = match text.strip_prefix('+') {
            Some(sections) => read_with_agent(sections),
            None => read(text),
        };
        let error = error.expect_err(text);
        let summary = error.summary();
        assert!(summary.starts_with(&format!("team.yaml:{place}: ")), "{text}\n{summary}");
        assert!(summary.contains(message), "{text}\n{summary}");
        assert!(error.hint().unwrap_or_default().contains(hint), "{text}\n{:?}", error.hint());
        assert!(!summary.contains("more)"), "{text}\n{}", error.render(RenderStyle::Plain));
    }
}
