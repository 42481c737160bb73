//! `use:` of an agent: agent files of other programs, also hostile ones, in a real folder.

use std::{fs, os::unix::fs::symlink, path::Path};

use agent_worker_protocol::{AgentSettings, Backend, Effort, PermissionAction, Span};
use agent_worker_workflow::{Error, Workflow, load};

const REVIEWER: &str = "---\nname: reviewer\ndescription: Use it when: always\ntools: Read, Bash(git diff:*)\n\
                        model: opus\nmaxTurns: 9\neffort: high\n---\n\nYou review ${{ this }}.\n";
const PLANNER: &str = "---\nname: planner\ndescription: plans\nmodel: gemini-3-pro\nmax_turns: 4\n\
                       timeout_mins: 7\n---\nYou plan.\n";
const FIXER: &str = "name = \"fixer\"\ndescription = \"fixes\"\nmodel = \"gpt-6\"\nmodel_reasoning_effort = \"low\"\n\
                     sandbox_mode = \"read-only\"\ndeveloper_instructions = \"You fix.\"\n";
const CODER: &str = "---\ndescription: codes\nmode: all\nmodel: anthropic/claude-opus\nvariant: high\n\
                     permission: { edit: deny, bash: deny, webfetch: deny }\n---\nYou code.\n";

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Loads a workflow with an agent `a` that has these keys, from a folder with agent files.
fn load_agent(keys: &str) -> Result<Workflow, Error> {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("project");
    write(outer.path(), "secret.md", "---\nname: secret\n---\nsecret\n");
    write(&folder, ".claude/agents/reviewer.md", REVIEWER);
    write(
        &folder,
        ".claude/agents/windows.md",
        format!("\u{feff}{}", REVIEWER.replace('\n', "\r\n")),
    );
    write(&folder, ".claude/agents/rules.md", "---\ntools: Read(src/**)\nhooks: {}\n---\nx");
    write(&folder, ".gemini/agents/planner.md", PLANNER);
    write(
        &folder,
        ".gemini/agents/limited.md",
        PLANNER.replace("---\nYou", "tools: [replace]\n---\nYou"),
    );
    write(&folder, ".codex/agents/fixer.toml", FIXER);
    write(&folder, ".opencode/agent/coder.md", CODER);
    write(&folder, "agents/plain.md", "---\nname: plain\n---\nYou are plain.\n");
    write(&folder, "agents/typical.md", REVIEWER);
    write(&folder, "bad/none.md", "You review.\n");
    write(&folder, "bad/open.md", "---\nname: a\n");
    write(&folder, "bad/latin.md", b"---\nname: caf\xe9\n---\n");
    write(&folder, "bad/long.md", "x".repeat(2 << 20));
    write(&folder, "bad/list.md", "---\n- a\n---\n");
    let nested =
        |n: usize| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", "));
    let bomb = (1..9).map(nested).collect::<String>();
    write(&folder, ".claude/agents/bomb.md", format!("---\na0: &a0 x\n{bomb}---\n"));
    write(&folder, ".claude/agents/deep.md", format!("---\na: {}\n---\n", "[".repeat(100_000)));
    write(&folder, "bad/deep.toml", format!("a = {}", "[".repeat(100_000)));
    symlink("../secret.md", folder.join("out.md")).unwrap();
    symlink(".claude/agents/reviewer.md", folder.join("in.md")).unwrap();
    symlink("..", folder.join("up")).unwrap();
    symlink("/dev/zero", folder.join("zero.md")).unwrap();
    fs::create_dir(folder.join("folder.md")).unwrap();
    let file = folder.join("team.yaml");
    fs::write(&file, format!("agents:\n  a: {{ {keys} }}\n")).unwrap();
    load(&file)
}

fn agent(keys: &str) -> AgentSettings {
    load_agent(keys).unwrap_or_else(|error| panic!("{keys}: {error}")).agents.remove(0)
}

fn backend_of(agent: &AgentSettings) -> String {
    match &agent.backend {
        Backend::Native(native) => native.cli.word().to_owned(),
        Backend::Acp(acp) => format!("acp {}", acp.agent.as_ref().map_or("", |it| it.word())),
        Backend::Api(_) | Backend::Mock { .. } | Backend::Command { .. } => {
            agent.backend.word().to_owned()
        }
    }
}

fn patterns(patterns: &[agent_worker_protocol::ToolPattern]) -> Vec<String> {
    patterns.iter().map(ToString::to_string).collect()
}

#[test]
fn the_format_of_an_agent_file_implies_the_backend() {
    for (keys, backend, prompt, model) in [
        ("use: .claude/agents/reviewer.md", "claude", "You review ${{ this }}.", Some("opus")),
        ("use: .claude/agents/windows.md", "claude", "You review ${{ this }}.", Some("opus")),
        ("use: ./agents/../agents/typical.md", "claude", "You review ${{ this }}.", Some("opus")),
        ("use: in.md", "claude", "You review ${{ this }}.", Some("opus")),
        ("use: .gemini/agents/planner.md", "gemini", "You plan.", Some("gemini-3-pro")),
        ("use: .codex/agents/fixer.toml", "codex", "You fix.", Some("gpt-6")),
        ("use: .opencode/agent/coder.md", "opencode", "You code.", Some("anthropic/claude-opus")),
        ("use: agents/plain.md, backend: gemini", "gemini", "You are plain.", None),
        ("use: agents/plain.md, backend: acp, agent: claude", "acp claude", "You are plain.", None),
        (
            "use: .gemini/agents/planner.md, model: claude/opus",
            "claude",
            "You plan.",
            Some("claude/opus"),
        ),
        (
            "use: .claude/agents/reviewer.md, command: ./claude",
            "claude",
            "You review ${{ this }}.",
            Some("opus"),
        ),
        ("use: .gemini/agents/planner.md, mock: []", "mock", "You plan.", None),
    ] {
        let agent = agent(keys);
        assert_eq!(backend_of(&agent), backend, "{keys}");
        assert_eq!(agent.system_prompt.as_deref(), Some(prompt), "{keys}");
        assert_eq!(agent.model.as_deref(), model, "{keys}");
    }
}

#[test]
fn an_agent_file_fills_what_the_workflow_file_leaves_open() {
    let filled = agent("use: .claude/agents/reviewer.md");
    assert_eq!((filled.max_steps, filled.effort), (Some(9), Some(Effort::High)));
    let rules = &filled.permissions;
    assert_eq!(rules.default, Some(PermissionAction::Deny));
    assert_eq!(patterns(&rules.allow), ["Read", "Bash(git diff*)"]);
    let keys = "use: .claude/agents/reviewer.md, system_prompt: Be kind., model: haiku, max_steps: 3, effort: low, \
                permissions: { ask: [Bash] }";
    let own = agent(keys);
    assert_eq!(
        (own.system_prompt.as_deref(), own.model.as_deref()),
        (Some("Be kind."), Some("haiku"))
    );
    assert_eq!((own.max_steps, own.effort), (Some(3), Some(Effort::Low)));
    assert_eq!((own.permissions.default, own.permissions.allow.len()), (None, 0));
    assert_eq!(patterns(&own.permissions.ask), ["Bash"]);
    let planner = agent("use: .gemini/agents/planner.md");
    assert_eq!((planner.max_steps, planner.timeout), (Some(4), Span::from_secs(420)));
    let quick = agent("use: .gemini/agents/planner.md, timeout: 5s");
    assert_eq!(quick.timeout, Span::from_secs(5));
    for (keys, default, effort) in [
        ("use: .codex/agents/fixer.toml", Some(PermissionAction::Deny), Some(Effort::Low)),
        ("use: .opencode/agent/coder.md", Some(PermissionAction::Deny), Some(Effort::High)),
    ] {
        let agent = agent(keys);
        assert_eq!((agent.permissions.default, agent.effort), (default, effort), "{keys}");
    }
    let over_acp = agent("use: .claude/agents/reviewer.md, backend: acp, agent: claude");
    assert_eq!(patterns(&over_acp.permissions.allow), ["read", "execute(git diff*)"]);
}

#[test]
fn a_restriction_that_a_backend_cannot_keep_is_a_mistake_at_the_key() {
    for (keys, message, hint) in [
        (
            "use: .claude/agents/reviewer.md, backend: codex",
            ".claude/agents/reviewer.md:4: backend `codex` cannot keep `tools`",
            "use `backend: claude`, or write `permissions:` in the workflow file, which replaces it",
        ),
        (
            "use: .gemini/agents/limited.md",
            ".gemini/agents/limited.md:7: backend `gemini` cannot keep `tools`",
            "use `backend: acp, agent: gemini`, or remove `tools` from the agent file",
        ),
        (
            "use: .claude/agents/reviewer.md, mock: []",
            ".claude/agents/reviewer.md:4: backend `mock` cannot keep `tools`",
            "use `backend: claude`, or remove `tools` from the agent file",
        ),
        (
            "use: .codex/agents/fixer.toml, backend: claude",
            ".codex/agents/fixer.toml:5: backend `claude` cannot keep `sandbox_mode`",
            "use `backend: codex`, or write `permissions:`",
        ),
        (
            "use: .claude/agents/rules.md",
            ".claude/agents/rules.md:2: cannot translate the tool `Read(src/**)`",
            "write `permissions:` in the workflow file",
        ),
    ] {
        let error = load_agent(keys).unwrap_err();
        let mistakes = error.mistakes();
        assert_eq!(mistakes.len(), 1, "{keys}: {error}");
        assert!(mistakes[0].message.starts_with(message), "{keys}: {error}");
        assert!(mistakes[0].hint.as_deref().unwrap().starts_with(hint), "{keys}: {mistakes:?}");
        assert_eq!((mistakes[0].line, mistakes[0].column), (2, 13), "{keys}: {error}");
    }
    // Rules of the workflow file replace those of the agent file as a whole.
    let agent = agent("use: .claude/agents/rules.md, permissions: { default: deny }");
    assert_eq!(agent.permissions.default, Some(PermissionAction::Deny));
    let codex = "use: .claude/agents/reviewer.md, backend: codex, permissions: { default: deny }";
    let warnings = load_agent(codex).unwrap().warnings;
    let messages: Vec<_> = warnings.iter().map(|one| one.message.as_str()).collect();
    let named = [("model", 5), ("maxTurns", 6)];
    let expected = named.map(|(key, line)| {
        format!(".claude/agents/reviewer.md:{line}: `{key}` has no effect with backend `codex`")
    });
    assert_eq!(messages, expected);
}

#[test]
fn a_warning_does_not_make_the_workflow_invalid_and_has_its_place() {
    let workflow =
        load_agent("use: .claude/agents/rules.md, permissions: { default: deny }").unwrap();
    assert_eq!(workflow.warnings.len(), 1);
    let warning = &workflow.warnings[0];
    assert_eq!(warning.message, ".claude/agents/rules.md:3: `hooks` has no effect in a team");
    assert_eq!((warning.line, warning.column), (2, 13));
    let limited =
        load_agent("use: .gemini/agents/limited.md, backend: acp, agent: gemini").unwrap();
    let messages: Vec<_> = limited.warnings.iter().map(|one| one.message.as_str()).collect();
    let [kinds, steps] = messages[..] else { panic!("{messages:?}") };
    assert!(kinds.contains("`max_turns` has no effect with backend `acp`"), "{kinds}");
    assert!(steps.contains("over ACP `tools` becomes rules for kinds of calls"), "{steps}");
    // A run stores the settings, and no warnings.
    let stored = serde_json::to_value(&limited).unwrap();
    assert_eq!(stored.get("warnings"), None);
}

#[test]
fn an_agent_file_never_leaves_the_folder() {
    for (path, part) in [
        ("../secret.md", "is outside the workflow's folder"),
        (".claude/../../secret.md", "is outside"),
        ("out.md", "is outside"),
        ("up/secret.md", "is outside"),
        ("/etc/agents/a.md", "is outside"),
        ("~/.claude/agents/a.md", "is outside"),
        ("zero.md", "is outside"),
        ("'../secret.md'", "is outside"),
    ] {
        let error = load_agent(&format!("use: {path}")).unwrap_err();
        let mistakes = error.mistakes();
        assert!(mistakes.len() == 1 && error.summary().contains(part), "{path}: {error}");
        assert!(!error.summary().contains("secret\n"), "{path}: {error}");
    }
    let hint = load_agent("use: ~/.claude/agents/a.md").unwrap_err().hint().unwrap();
    assert!(hint.starts_with("`~` is not expanded: copy the file beneath /"), "{hint}");
}

#[test]
fn a_file_that_is_no_agent_file_is_one_mistake_with_its_line() {
    for (keys, part) in [
        ("use: nowhere.md", "cannot read the agent file `nowhere.md`: No such file"),
        ("use: folder.md", "cannot read the agent file `folder.md`: it is not a regular file"),
        ("use: team.yaml", "team.yaml: an agent file ends in `.md` or `.toml`"),
        ("use: .claude/agents", "an agent file of Claude Code ends in `.md`"),
        ("use: bad/none.md", "bad/none.md:1: the file has no front matter"),
        ("use: bad/open.md", "bad/open.md:1: the front matter has no end"),
        ("use: bad/latin.md", "bad/latin.md`: it is not UTF-8 text"),
        ("use: bad/long.md", "bad/long.md`: it is longer than 1024 KiB"),
        ("use: bad/list.md", "bad/list.md:2: the file must be a mapping, not a list"),
        ("use: bad/deep.toml", "bad/deep.toml:1: not valid TOML"),
        ("use: .claude/agents/bomb.md", "the file exceeds the limits"),
        ("use: .claude/agents/deep.md", ".claude/agents/deep.md:2: "),
        ("use: agents/plain.md", "agents/plain.md:2: no key of the file shows which program"),
        ("use: agents/plain.md, backend: mock", "no key of the file shows which program"),
        ("use: 'a${{ b }}.md'", "`agents.a.use` cannot contain references"),
        ("use: [a.md]", "`agents.a.use` must be text, not a list"),
    ] {
        let error = load_agent(keys).unwrap_err();
        assert_eq!(error.mistakes().len(), 1, "{keys}: {error:?}");
        assert!(error.summary().contains(part), "{keys}: {error}");
        assert!(error.summary().contains("team.yaml:2:13: "), "{keys}: {error}");
    }
}
