//! The files and folders in which agents keep settings, logins and conversations of the user.

/// A path after the variable that locates it, as `VARIABLE/path`, or the variable alone.
type LocatedPath = &'static str;

/// The paths of each agent, by its name in `backend:` or `agent:`. In a sandbox an agent with `mode: login` can change
/// them.
const SETTINGS_PATHS: [(&str, &[LocatedPath]); 6] = [
    ("claude", &["CLAUDE_CONFIG_DIR", "HOME/.claude", "HOME/.claude.json"]),
    ("codex", &["CODEX_HOME", "HOME/.codex"]),
    ("copilot", &["HOME/.copilot"]),
    ("gemini", &["GEMINI_CLI_HOME/.gemini", "HOME/.gemini"]),
    (
        "opencode",
        &[
            "XDG_CONFIG_HOME/opencode",
            "XDG_DATA_HOME/opencode",
            "XDG_STATE_HOME/opencode",
            "HOME/.config/opencode",
            "HOME/.local/share/opencode",
            "HOME/.local/state/opencode",
        ],
    ),
    ("qwen", &["HOME/.qwen"]),
];

/// Returns the paths of an agent's settings, each as `VARIABLE/path`; none for an unknown agent.
pub fn settings_paths(agent: &str) -> &'static [&'static str] {
    SETTINGS_PATHS.iter().find(|(name, _)| *name == agent).map_or(&[], |(_, paths)| paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{find_acp_agent, find_backend};

    #[test]
    fn the_names_are_those_of_backends_and_agents() {
        for (name, paths) in SETTINGS_PATHS {
            assert!(find_backend(name).is_some() || find_acp_agent(name).is_some(), "{name}");
            assert!(!paths.is_empty() && settings_paths(name) == paths, "{name}");
        }
    }
}
