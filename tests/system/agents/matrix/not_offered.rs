//! The cells that a program does not offer, each with its reason.

use super::{super::testbed::Cli, Situation};

/// Situations, the programs that do not offer them, and the reason.
pub(super) const NOT_OFFERED: &[(Situation, &[Cli], &str)] = &[
    (
        Situation::SecondTurn,
        &[Cli::AcpGemini],
        "Gemini CLI 0.61.0 loses a conversation that it loads over ACP, so each turn starts a new one",
    ),
    (
        Situation::LostConversation,
        &[Cli::AcpGemini],
        "each turn starts a new conversation, so that none can be lost",
    ),
    (
        Situation::Tokens,
        &[Cli::AcpZedCodex, Cli::AcpQwen],
        "the program reports no tokens over ACP",
    ),
    (
        Situation::Tokens,
        &[Cli::AcpOpencode],
        "the program reports only the tokens of the last step of a turn over ACP",
    ),
    (
        Situation::Cost,
        &[Cli::AcpCodex, Cli::AcpZedCodex, Cli::AcpGemini, Cli::AcpQwen, Cli::AcpCopilot],
        "the program reports no cost over ACP",
    ),
    (
        Situation::Cost,
        &[Cli::Opencode],
        "the program reports a cost only for models whose price it knows, which are not scripted",
    ),
    (
        Situation::Effort,
        &[Cli::Opencode],
        "the program has efforts only for models with variants, which are not scripted",
    ),
    (
        Situation::SessionShown,
        &[
            Cli::AcpClaude,
            Cli::AcpCodex,
            Cli::AcpZedCodex,
            Cli::AcpGemini,
            Cli::AcpOpencode,
            Cli::AcpQwen,
            Cli::AcpCopilot,
        ],
        "no command is known that opens a conversation of the protocol",
    ),
    (
        Situation::Isolation,
        &[Cli::AcpQwen, Cli::AcpCopilot],
        "the program reads the skills in `~/.agents/skills`, which no option excludes; it shows nothing else of the home",
    ),
    (
        Situation::SilentTool,
        &[Cli::Gemini],
        "the program runs no commands, because it cannot ask for them; use it over ACP",
    ),
    (
        Situation::Background,
        &[Cli::Gemini],
        "the program runs no commands, because it cannot ask for them; use it over ACP",
    ),
    (
        Situation::RefusedKey,
        &[Cli::AcpOpencode],
        "the program does not report the status of its provider over ACP: the turn fails (`fatal`)",
    ),
    (
        Situation::RateLimit,
        &[Cli::Opencode, Cli::AcpOpencode],
        "the program retries without an end and does not report the status: the turn ends as `transient`",
    ),
    (
        Situation::Approved,
        &[Cli::Gemini, Cli::Opencode],
        "the program does not ask; use it over ACP",
    ),
    (Situation::Denied, &[Cli::Gemini, Cli::Opencode], "the program does not ask; use it over ACP"),
    (
        Situation::Effort,
        &[
            Cli::AcpClaude,
            Cli::AcpCodex,
            Cli::AcpZedCodex,
            Cli::AcpGemini,
            Cli::AcpOpencode,
            Cli::AcpQwen,
            Cli::AcpCopilot,
        ],
        "the protocol has no field for it; `effort` is refused when the file is loaded",
    ),
];

/// Returns the reason if a program does not offer a situation.
pub(super) fn not_offered(situation: Situation, cli: Cli) -> Option<&'static str> {
    let is_it = |row: &&(Situation, &[Cli], &str)| row.0 == situation && row.1.contains(&cli);
    NOT_OFFERED.iter().find(is_it).map(|row| row.2)
}
