//! Tables for each format: the text of an agent file, and the settings, mistakes and warnings that it gives.

use agent_worker_protocol::PermissionAction;

use super::{
    tools::{ClaudeTools, ProgramAccess, ToolsTranslation},
    *,
};

/// Result of reading an agent file.
struct Reading {
    settings: FileSettings,
    /// Mistakes and warnings, each with its line.
    mistakes: Vec<String>,
    warnings: Vec<String>,
}

fn read_as(format: AgentFileFormat, text: &str) -> Reading {
    let context = FileContext { expected: None, tool_rules: ToolRules::OfAgentFile };
    let mut found = Diagnostics::default();
    let read = parse(text, FilePlace::Format(format), context, &mut found);
    let lines = LineIndex::of(text);
    let with_line = |one: Diagnostic| format!("{}: {}", lines.number(one.at.start), one.message);
    let (mistakes, warnings) = found.into_parts();
    Reading {
        settings: read.map(|(_, settings)| settings).unwrap_or_default(),
        mistakes: mistakes.into_iter().map(with_line).collect(),
        warnings: warnings.into_iter().map(with_line).collect(),
    }
}

/// Reads an agent file of Claude Code with these keys.
fn claude(keys: &str) -> Reading {
    read_as(AgentFileFormat::Claude, &format!("---\nname: a\n{keys}\n---\nYou review.\n"))
}

/// Returns the allowed and the denied tools of a file of Claude Code; `*` for every tool.
fn claude_tools(keys: &str) -> (String, String) {
    let reading = claude(keys);
    assert_eq!(reading.mistakes, [""; 0], "{keys}");
    let words = |patterns: &[agent_worker_protocol::ToolPattern]| {
        patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    match reading.settings.tools.map(|tools| tools.value) {
        None => ("*".to_owned(), String::new()),
        Some(FileTools::Claude(ClaudeTools { allow, deny })) => {
            (allow.map_or("*".to_owned(), |allow| words(&allow)), words(&deny))
        }
        Some(other) => panic!("{other:?}"),
    }
}

/// Returns the rules of a translation as one line: default, allow, ask, deny.
fn shown(translation: &ToolsTranslation) -> String {
    let (rules, mark) = match translation {
        ToolsTranslation::Rules(rules) => (rules, ""),
        ToolsTranslation::KindRules(rules) => (rules, " (kinds)"),
        ToolsTranslation::NoEffect => return "no effect".to_owned(),
        ToolsTranslation::Lost => return "lost".to_owned(),
    };
    let default = rules.default.map_or("-".to_owned(), |it: PermissionAction| it.to_string());
    let lists = [("allow", &rules.allow), ("ask", &rules.ask), ("deny", &rules.deny)];
    let lists = lists.into_iter().filter(|(_, patterns)| !patterns.is_empty());
    let lists = lists.map(|(name, patterns)| {
        let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
        format!(" {name} {}", patterns.join(", "))
    });
    format!("{default}{}{mark}", lists.collect::<String>())
}

/// Returns the translation of the tools for each access: native, over ACP, another program.
fn translations(format: AgentFileFormat, text: &str) -> [String; 3] {
    let reading = read_as(format, text);
    assert_eq!(reading.mistakes, [""; 0], "{text}");
    let tools = reading.settings.tools.map(|tools| tools.value);
    [ProgramAccess::Native, ProgramAccess::Acp, ProgramAccess::Other].map(|access| {
        tools.as_ref().map_or("every tool".to_owned(), |it| shown(&it.translate(access)))
    })
}

#[test]
fn the_tools_of_claude_code_are_rules() {
    for (keys, allow, deny) in [
        ("tools: Read, Grep,Glob", "Read, Grep, Glob", ""),
        ("tools: [Read, 'Grep, Glob']", "Read, Grep, Glob", ""),
        ("tools: Read Grep", "Read, Grep", ""),
        ("tools:", "", ""),
        ("tools: []", "", ""),
        ("tools: '*'", "*", ""),
        ("tools: [Read, '*']\ndisallowedTools: Edit", "*", "Edit"),
        ("disallowedTools: [Edit, Write]", "*", "Edit, Write"),
        ("disallowedTools:", "*", ""),
        ("model: opus", "*", ""),
        ("tools: Task, Bash(*)", "Agent, Bash", ""),
        ("tools: Bash(git diff:*), Bash(ls -la)", "Bash(git diff*), Bash(ls -la)", ""),
        ("tools: Bash(git *), Bash(./run-:*)", "Bash(git *), Bash(./run- *)", ""),
        ("disallowedTools: Bash(git push:*), Bash(rm *)", "*", "Bash(git push*), Bash(rm*)"),
        ("tools: Read, mcp__team__channel_send, mcp__github__issue", "Read", ""),
        ("disallowedTools: mcp__team__vote, mcp__github", "*", "mcp__team__vote"),
    ] {
        let expected = (allow.to_owned(), deny.to_owned());
        assert_eq!(claude_tools(keys), expected, "{keys}");
    }
}

#[test]
fn a_tool_of_claude_code_that_no_rule_expresses_is_a_mistake() {
    for (keys, why) in [
        ("tools: Read(src/**)", "cannot translate the tool `Read(src/**)`: a team has rules with"),
        ("tools: WebFetch(domain:docs.rs)", "cannot translate the tool `WebFetch(domain:docs.rs)`"),
        (
            "tools: Agent(worker, researcher)",
            "cannot translate the tool `Agent(worker, researcher)`",
        ),
        ("tools: Bash(git * main)", "`*` is translated only at its end"),
        ("tools: Bash(git * m:*)", "`*` is translated only at its end"),
        ("tools: Bash(ls", "its bracket is not closed"),
        ("tools: Bash(a\\(b:*)", "escapes are not translated"),
        ("tools: Bash(~/x)", "`~` is not expanded"),
        ("disallowedTools: Bash(rm*)", "write `:*` at its end"),
        ("disallowedTools: '*'", "no tool would be left"),
        ("disallowedTools: mcp__team", "name the tools of the team"),
        ("disallowedTools: mcp__team__*", "name the tools of the team"),
        ("tools: 7", "`tools` must be a list, not a number"),
        ("tools: [7]", "`tools[0]` must be text"),
        ("tools: { Read: true }", "`tools` must be a list"),
        ("tool: Read", "Claude Code has no key `tool`"),
        ("disallowed_tools: Read", "Claude Code has no key `disallowed_tools`"),
        ("maxTurns: many", "`maxTurns` must be a whole number"),
        ("maxTurns: 0", "`maxTurns` must be between 1 and 10000"),
        ("model: [opus]", "`model` must be text"),
    ] {
        let mistakes = claude(keys).mistakes;
        assert_eq!(mistakes.len(), 1, "{keys}: {mistakes:?}");
        assert!(
            mistakes[0].starts_with("3: ") && mistakes[0].contains(why),
            "{keys}: {mistakes:?}"
        );
    }
}

#[test]
fn the_other_settings_of_claude_code_are_ours() {
    let keys =
        "description: Use it when: always\nmodel: opus\nmaxTurns: 7\neffort: MED\ncolor: red";
    let Reading { settings, mistakes, warnings } = claude(keys);
    assert_eq!((mistakes.len(), warnings.len()), (0, 0), "{mistakes:?} {warnings:?}");
    assert_eq!(settings.prompt.as_deref(), Some("You review."));
    assert_eq!(settings.model.map(|it| it.value).as_deref(), Some("opus"));
    assert_eq!(settings.max_steps.map(|it| it.value), Some(7));
    assert_eq!(settings.effort.map(|it| it.value).as_deref(), Some("medium"));
    for keys in ["model: inherit", "model: Inherit", "model: ''", "model:", "color: red"] {
        assert_eq!(claude(keys).settings.model, None, "{keys}");
    }
    assert_eq!(claude("effort: 3").settings.effort.map(|it| it.value).as_deref(), Some("3"));
}

#[test]
fn a_key_without_an_effect_is_a_warning_that_names_it() {
    let keys = "hooks: { Stop: [] }\npermissionMode: plan\nskills: [pdf]\nanything: 1";
    let reading = claude(keys);
    assert_eq!(reading.mistakes, [""; 0]);
    let named = ["hooks", "permissionMode", "skills", "anything"].into_iter().zip(3..);
    let expected = named.map(|(key, line)| format!("{line}: `{key}` has no effect in a team"));
    assert_eq!(reading.warnings, expected.collect::<Vec<_>>());
    let foreign = claude("tools: Read, mcp__github__issue, mcp__team__vote").warnings;
    assert_eq!(foreign, ["3: `mcp__github__issue` has no effect in a team"]);
}

#[test]
fn the_settings_of_gemini_are_ours() {
    let file = |keys: &str| {
        let text = format!("---\nname: a\ndescription: b\n{keys}\n---\nYou plan.\n");
        read_as(AgentFileFormat::Gemini, &text)
    };
    let keys = "kind: local\ndisplay_name: A\nmodel: gemini-3-pro\nmax_turns: 9\ntimeout_mins: 5";
    let Reading { settings, mistakes, warnings } = file(keys);
    assert_eq!((mistakes.len(), warnings.len()), (0, 0), "{mistakes:?} {warnings:?}");
    assert_eq!(settings.prompt.as_deref(), Some("You plan."));
    assert_eq!(settings.model.map(|it| it.value).as_deref(), Some("gemini-3-pro"));
    assert_eq!(settings.max_steps.map(|it| it.value), Some(9));
    assert_eq!(settings.timeout.map(|it| it.value), Some(Span::from_secs(300)));
    let warnings = file("temperature: 0.5\nmcp_servers: {}\ntools: [mcp_github_x]").warnings;
    let expected = ["temperature", "mcp_servers", "mcp_github_x"].into_iter().zip(4..);
    let expected = expected.map(|(key, line)| format!("{line}: `{key}` has no effect in a team"));
    assert_eq!(warnings, expected.collect::<Vec<_>>());
    for (keys, why) in [
        ("kind: remote", "4: an agent of the kind `remote` cannot be in a team"),
        ("timeout_mins: 0", "4: `timeout_mins` must be between 1 and 10080"),
        ("timeout_min: 5", "4: Gemini CLI has no key `timeout_min`"),
        ("tools: read_file", "4: `tools` must be a list, not text"),
    ] {
        let mistakes = file(keys).mistakes;
        assert!(mistakes.len() == 1 && mistakes[0].starts_with(why), "{keys}: {mistakes:?}");
    }
}

#[test]
fn the_settings_of_opencode_are_ours() {
    let file = |keys: &str| {
        read_as(AgentFileFormat::Opencode, &format!("---\nmode: all\n{keys}\n---\nYou code.\n"))
    };
    let keys = "description: a\nmodel: anthropic/claude-opus\nvariant: high\nmaxSteps: 4\nsteps: 5";
    let Reading { settings, mistakes, warnings } = file(keys);
    assert_eq!((mistakes.len(), warnings.len()), (0, 0), "{mistakes:?} {warnings:?}");
    assert_eq!(settings.prompt.as_deref(), Some("You code."));
    assert_eq!(settings.model.map(|it| it.value).as_deref(), Some("anthropic/claude-opus"));
    assert_eq!(settings.max_steps.map(|it| it.value), Some(5));
    assert_eq!(settings.effort.map(|it| it.value).as_deref(), Some("high"));
    let warnings = file("temperature: 1\ntop_p: 1\ndisable: true").warnings;
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    for (keys, why) in [
        ("tools: { write: no }", "3: `tools.write` must be `true` or `false`"),
        ("permission: { bash: { 'git *': allow } }", "3: patterns of a permission are not"),
        ("permission: { bash: { '*': ask, ls: allow } }", "3: patterns of a permission are not"),
        ("permission: { bash: maybe }", "3: `permission.bash` must be"),
        ("permissions: { bash: deny }", "3: opencode has no key `permissions`"),
    ] {
        let mistakes = file(keys).mistakes;
        assert!(mistakes.len() == 1 && mistakes[0].starts_with(why), "{keys}: {mistakes:?}");
    }
}

#[test]
fn the_settings_of_codex_are_ours() {
    let file = |keys: &str| read_as(AgentFileFormat::Codex, &format!("name = \"a\"\n{keys}\n"));
    let keys = "developer_instructions = \"\"\"\nYou fix.\n\"\"\"\nmodel = \"gpt-6\"\n\
                model_reasoning_effort = \"high\"\ndescription = \"b\"\nnickname_candidates = [\"c\"]";
    let Reading { settings, mistakes, warnings } = file(keys);
    assert_eq!((mistakes.len(), warnings.len()), (0, 0), "{mistakes:?} {warnings:?}");
    assert_eq!(settings.prompt.as_deref(), Some("You fix."));
    assert_eq!(settings.model.map(|it| it.value).as_deref(), Some("gpt-6"));
    assert_eq!(settings.effort.map(|it| it.value).as_deref(), Some("high"));
    let more =
        "developer_instructions = \"x\"\napproval_policy = \"never\"\n[mcp_servers.x]\na = 1";
    let named = [(3, "approval_policy"), (4, "mcp_servers")];
    let expected = named.map(|(line, key)| format!("{line}: `{key}` has no effect in a team"));
    assert_eq!(file(more).warnings, expected);
    for (keys, why) in [
        ("", "1: `developer_instructions` is missing"),
        ("developer_instructions = ' '", "1: `developer_instructions` is missing"),
        ("developer_instructions = 7", "2: `developer_instructions` must be text"),
        ("developer_instructions = 'x'\nsandbox_mod = 'read-only'", "3: Codex CLI has no key"),
        ("developer_instructions = 'x'\nsandbox_mode = 'ro'", "3: `sandbox_mode` must be"),
        ("developer_instructions = ", "2: not valid TOML"),
    ] {
        let mistakes = file(keys).mistakes;
        assert!(mistakes.len() == 1 && mistakes[0].starts_with(why), "{keys}: {mistakes:?}");
    }
}

#[test]
fn tools_become_rules_that_the_backend_keeps_or_are_lost() {
    use AgentFileFormat::{Claude, Codex, Gemini, Opencode};
    let codex = |mode: &str| format!("developer_instructions = 'x'\nsandbox_mode = '{mode}'\n");
    let markdown = |keys: &str| format!("---\n{keys}\n---\n");
    for (format, text, expected) in [
        (
            Claude,
            markdown("tools: Read, Bash(git diff:*), Edit, Write, NotebookEdit"),
            [
                "deny allow Read, Bash(git diff*), Edit, Write, NotebookEdit",
                "deny allow read, execute(git diff*), edit (kinds)",
                "lost",
            ],
        ),
        (
            Claude,
            markdown("disallowedTools: Bash(git push:*)"),
            ["- deny Bash(git push*)", "- deny execute(git push*) (kinds)", "lost"],
        ),
        (Claude, markdown("disallowedTools: Skill"), ["- deny Skill", "lost", "lost"]),
        (Claude, markdown("tools: '*'"), ["every tool"; 3]),
        (
            Gemini,
            markdown("tools: [read_file, replace, write_file, save_memory]"),
            ["lost", "deny allow read, edit (kinds)", "lost"],
        ),
        (Gemini, markdown("tools: []"), ["lost", "deny (kinds)", "lost"]),
        (Gemini, markdown("tools: ['*']"), ["every tool"; 3]),
        (
            Opencode,
            markdown("permission: { edit: deny, bash: ask }"),
            ["lost", "- ask execute deny edit", "lost"],
        ),
        (
            Opencode,
            markdown("permission: { edit: deny, bash: { '*': deny }, webfetch: deny }"),
            ["deny", "- deny execute, edit, fetch", "lost"],
        ),
        (
            Opencode,
            markdown("tools: { '*': false, read: true, grep: true, glob: true, list: true }"),
            ["deny", "deny allow search, search, read", "lost"],
        ),
        (Opencode, markdown("permission: deny"), ["lost", "deny", "lost"]),
        (
            Opencode,
            markdown("permission: { '*': deny, '*': allow }").replace(", '*'", ", bash"),
            ["lost", "deny allow execute", "lost"],
        ),
        (
            Opencode,
            markdown("tools: { write: false }\npermission: { edit: allow }"),
            ["every tool"; 3],
        ),
        (Opencode, markdown("permission: { skill: deny }"), ["lost"; 3]),
        (Codex, codex("read-only"), ["deny", "deny", "lost"]),
        (Codex, codex("workspace-write"), ["allow", "no effect", "no effect"]),
        (Codex, codex("danger-full-access"), ["no effect"; 3]),
    ] {
        assert_eq!(translations(format, &text), expected.map(str::to_owned), "{text}");
    }
}
