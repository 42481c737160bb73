//! What a model is called: as the file has it, and as each vendor's agent wants it.

use agent_worker_protocol::Cli;

/// The providers of each vendor's models, as they are written before a model's name.
const PROVIDERS: [(Cli, &[&str]); 3] = [
    (Cli::Claude, &["anthropic", "claude"]),
    (Cli::Codex, &["openai", "codex"]),
    (Cli::Gemini, &["google", "gemini"]),
];

/// The name for a vendor's agent; nothing where it shall choose itself. What is not known passes as it is.
pub(super) fn model_for(cli: Cli, written: Option<&str>) -> Option<String> {
    let written = written.filter(|name| !["", "auto"].contains(name))?;
    let own = PROVIDERS.into_iter().find(|(of, _)| *of == cli).map(|(_, own)| own)?;
    let bare = written.split_once(['/', ':']).filter(|(provider, _)| own.contains(provider));
    let name = bare.map_or(written, |(_, name)| name);
    Some(name).filter(|name| *name != "auto").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_in_any_spelling_and_an_unknown_one_passes_untouched() {
        for (cli, written, expected) in [
            (Cli::Claude, "anthropic/claude-sonnet-4-5", Some("claude-sonnet-4-5")),
            (Cli::Claude, "anthropic:opus", Some("opus")),
            (Cli::Claude, "claude/sonnet", Some("sonnet")),
            (Cli::Claude, "haiku", Some("haiku")),
            (Cli::Claude, "auto", None),
            (Cli::Claude, "claude/auto", None),
            (Cli::Claude, "bedrock/some.model:0", Some("bedrock/some.model:0")),
            (Cli::Codex, "openai/gpt-5.1-codex", Some("gpt-5.1-codex")),
            (Cli::Codex, "anthropic/opus", Some("anthropic/opus")),
            (Cli::Gemini, "google/gemini-2.5-pro", Some("gemini-2.5-pro")),
        ] {
            assert_eq!(model_for(cli, Some(written)).as_deref(), expected, "{written}");
        }
        assert_eq!(model_for(Cli::Gemini, None), None);
    }
}
