//! Checks that an isolated agent tells its model nothing of the user's home: no memory, skill, command or setting.

use super::{
    leftovers::write_all,
    matrix::{Cells, Situation, matrix_tests},
    testbed::{AgentEntry, AgentTestbed, Cli},
};

/// Begins the word that each planted file contains.
const CANARY: &str = "CANARY";

/// Files of a user's home that some program reads, with `{}` in place of the canary.
const PLANTED: [(&str, &str); 24] = [
    (".claude/CLAUDE.md", "{}\n"),
    (".claude/skills/planted/SKILL.md", "---\nname: planted\ndescription: {}\n---\n{}\n"),
    (".claude/commands/planted.md", "---\ndescription: {}\n---\n{}\n"),
    (".claude/agents/planted.md", "---\nname: planted\ndescription: {}\n---\n{}\n"),
    (".claude/rules/planted.md", "{}\n"),
    (".claude/settings.json", "{\"language\": \"{}\"}\n"),
    (".codex/AGENTS.md", "{}\n"),
    (".codex/config.toml", "developer_instructions = \"{}\"\n"),
    (".codex/skills/planted/SKILL.md", "---\nname: planted\ndescription: {}\n---\n{}\n"),
    (".codex/prompts/planted.md", "{}\n"),
    (".gemini/GEMINI.md", "{}\n"),
    (".gemini/skills/planted/SKILL.md", "---\nname: planted\ndescription: {}\n---\n{}\n"),
    (".gemini/agents/planted.md", "---\nname: planted\ndescription: {}\n---\n{}\n"),
    (".gemini/commands/planted.toml", "description = \"{}\"\nprompt = \"{}\"\n"),
    (".agents/AGENTS.md", "{}\n"),
    (".agents/skills/planted/SKILL.md", "---\nname: planted\ndescription: {}\n---\n{}\n"),
    (".config/opencode/AGENTS.md", "{}\n"),
    (".config/opencode/agent/planted.md", "---\ndescription: {}\n---\n{}\n"),
    (".config/opencode/skill/planted/SKILL.md", "---\nname: planted\ndescription: {}\n---\n{}\n"),
    (".qwen/QWEN.md", "{}\n"),
    (".qwen/skills/planted/SKILL.md", "---\nname: planted\ndescription: {}\n---\n{}\n"),
    (".qwen/agents/planted.md", "---\nname: planted\ndescription: {}\n---\n{}\n"),
    (".copilot/copilot-instructions.md", "{}\n"),
    (".copilot/skills/planted/SKILL.md", "---\nname: planted\ndescription: {}\n---\n{}\n"),
];

/// Returns the planted files whose canaries the requests of one turn contain.
fn seen_canaries(cli: Cli, mode: &str) -> Option<Vec<&'static str>> {
    let testbed = AgentTestbed::open(&[cli], "the isolation of a real agent")?;
    let project = testbed.world.project();
    let canary = |number: usize| format!("{CANARY}{number}X");
    for (number, (name, text)) in PLANTED.iter().enumerate() {
        let text = text.replace("{}", &canary(number));
        write_all(project.parent().unwrap(), &[(name, &text)]);
    }
    let settings = format!("mode: {mode}");
    testbed.start(&[AgentEntry { name: "me", cli, settings: &settings }], "");
    assert_eq!(testbed.ask("me", "SAY Done."), "Done.");
    let requests: Vec<_> =
        testbed.models.requests().into_iter().map(|one| one.body.to_string()).collect();
    assert!(!requests.is_empty());
    let is_seen = |number: &usize| requests.iter().any(|body| body.contains(&canary(*number)));
    let seen = (0..PLANTED.len()).filter(is_seen);
    Some(seen.map(|number| PLANTED[number].0).collect())
}

/// Files of the home that a program reads and that no option of it excludes; `docs/reference/limits.md` names them.
fn known_leaks(cli: Cli) -> &'static [&'static str] {
    match cli {
        Cli::AcpCopilot | Cli::AcpQwen => &[".agents/skills/planted/SKILL.md"],
        _ => &[],
    }
}

fn check_isolation(cli: Cli, cells: &mut Cells) {
    let Some(seen) = seen_canaries(cli, "isolated") else { return };
    assert_eq!(seen, known_leaks(cli), "{} reads the home", cli.name());
    cells.passed(Situation::Isolation);
}

matrix_tests! {
    check_isolation proves [Isolation] {
        an_isolated_claude_code_shows_its_model_nothing_of_the_users_home: Claude,
        an_isolated_codex_shows_its_model_nothing_of_the_users_home: Codex,
        an_isolated_gemini_cli_shows_its_model_nothing_of_the_users_home: Gemini,
        an_isolated_opencode_shows_its_model_nothing_of_the_users_home: Opencode,
        an_isolated_claude_code_over_acp_shows_its_model_nothing_of_the_users_home: AcpClaude,
        an_isolated_codex_over_acp_shows_its_model_nothing_of_the_users_home: AcpCodex,
        an_isolated_zeds_codex_shows_its_model_nothing_of_the_users_home: AcpZedCodex,
        an_isolated_gemini_cli_over_acp_shows_its_model_nothing_of_the_users_home: AcpGemini,
        an_isolated_opencode_over_acp_shows_its_model_nothing_of_the_users_home: AcpOpencode,
        an_isolated_qwen_code_shows_its_model_nothing_else_of_the_users_home: AcpQwen,
        an_isolated_copilot_shows_its_model_nothing_else_of_the_users_home: AcpCopilot,
    }
}

/// Shows that the canaries would be seen.
#[test]
fn claude_code_with_the_users_login_knows_the_users_memory() {
    let Some(seen) = seen_canaries(Cli::Claude, "login") else { return };
    assert!(seen.contains(&".claude/CLAUDE.md"), "{seen:?}");
}
