//! `permissions:` of an agent, as far as its backend keeps them.

use agent_worker_protocol::{OnAsk, PermissionAction, PermissionMode, Permissions, ToolPattern};
use agent_worker_workflow::{Error, Workflow};

fn of(backend: &str, rules: &str) -> Result<Workflow, Error> {
    crate::read(&format!("agents:\n  a: {{ backend: {backend}, permissions: {{ {rules} }} }}\n"))
}

#[test]
fn what_an_agent_may_do_is_taken_where_its_backend_keeps_it() {
    let rules =
        "default: deny, allow: [Read, 'Bash(git diff*)'], ask: [Task], deny: [Edit], on_ask: fail";
    let read = of("claude", rules).unwrap().agents.remove(0).permissions;
    let patterns = |texts: &[&str]| {
        texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<ToolPattern>>()
    };
    let expected = Permissions {
        default: Some(PermissionAction::Deny),
        allow: patterns(&["Read", "Bash(git diff*)"]),
        ask: patterns(&["Task"]),
        deny: patterns(&["Edit"]),
        on_ask: OnAsk::Fail,
        mode: None,
    };
    assert_eq!(read, expected);
    assert_eq!(
        of("codex", "default: allow").unwrap().agents[0].permissions.default,
        Some(PermissionAction::Allow)
    );
    assert!(of("opencode", "default: deny").is_ok() && of("cursor", "default: allow").is_ok());
    assert!(of("claude", "default: ask").is_ok() && of("codex", "default: ask").is_ok());
    let codex = of("codex", "allow: ['execute(git diff*)', edit], on_ask: deny").unwrap();
    assert_eq!(codex.agents[0].permissions.default, None);
    assert_eq!(codex.agents[0].permissions.allow, patterns(&["execute(git diff*)", "edit"]));
    let acp = of("acp, command: [mine, --acp]", "allow: [read, 'execute(git diff*)']").unwrap();
    assert_eq!(acp.agents[0].permissions.allow, patterns(&["read", "execute(git diff*)"]));
    for (backend, rules, why) in [
        ("codex", "deny: [Bash]", "kinds are edit, execute, other"),
        ("opencode", "allow: [bash]", "`opencode` does not ask for permission per call"),
        ("cursor", "on_ask: fail", "`cursor` does not ask for permission per call"),
        ("gemini", "default: allow", "`gemini` does not support `permissions`"),
        ("gemini", "default: ask", "to be asked, use `backend: acp, agent: gemini`"),
        ("cursor", "default: ask", "`cursor` cannot ask for approval during a turn"),
        ("opencode", "default: ask", "to be asked, use `backend: acp, agent: opencode`"),
        ("cursor", "default: ask", "set `default: allow` or `default: deny`"),
        ("mock", "default: ask", "`mock` does not support `permissions`"),
        ("command, command: [a]", "default: ask", "`command` does not support `permissions`"),
        (
            "acp, agent: gemini",
            "allow: ['Bash(ls)']",
            "with `acp` a rule must name a kind of call, and `Bash` is not one",
        ),
        ("mock", "default: allow", "`mock` does not support `permissions`"),
        ("claude", "allow: ['Bash(*)']", "`Bash(*)`: `*` is allowed only at the end"),
        ("claude", "default: maybe", "must be `allow` or `ask` or `deny`"),
        ("claude", "allowed: [Bash]", "unknown key `agents.a.permissions.allowed`"),
    ] {
        let told =
            of(backend, rules).unwrap_err().render(agent_worker_workflow::RenderStyle::Plain);
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn a_mode_is_taken_in_the_words_of_the_programs_where_its_backend_keeps_it() {
    let acp = "acp, command: [mine, --acp]";
    for (backend, word, mode) in [
        ("claude", "acceptEdits", Some(PermissionMode::AcceptEdits)),
        ("claude", "accept_edits", Some(PermissionMode::AcceptEdits)),
        ("codex", "auto_edit", Some(PermissionMode::AcceptEdits)),
        (acp, "acceptEdits", Some(PermissionMode::AcceptEdits)),
        ("claude", "plan", Some(PermissionMode::Plan)),
        ("codex", "plan", Some(PermissionMode::Plan)),
        ("claude", "default", None),
    ] {
        let read = of(backend, &format!("mode: {word}")).unwrap();
        assert_eq!(read.agents[0].permissions.mode, mode, "{backend} {word}");
    }
    for (backend, rules, why) in [
        (acp, "mode: plan", "with `acp` an agent may act without asking, so that `plan`"),
        ("opencode", "mode: plan", "`opencode` does not ask for permission per call"),
        ("cursor", "mode: acceptEdits", "`cursor` does not ask for permission per call"),
        ("gemini", "mode: plan", "`gemini` does not support `permissions`"),
        ("claude", "mode: bypassPermissions", "must be `acceptEdits` or `plan` or `default`"),
    ] {
        let told =
            of(backend, rules).unwrap_err().render(agent_worker_workflow::RenderStyle::Plain);
        assert!(told.contains(why), "{told}");
    }
}
