//! Where a vendor's agent reaches its model, and with which key: the one place both pass through.

use std::collections::BTreeMap;

use agent_worker_protocol::Cli;

/// Where, and with what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Not the vendor's own, if it is there.
    pub(super) base_url: Option<String>,
    /// The key, if one was given: without one the person's login is used.
    pub(super) key: Option<String>,
}

/// What the environment of an agent says.
pub(super) fn endpoint(cli: Cli, env: &BTreeMap<String, String>) -> Endpoint {
    let (url, keys): (_, &[_]) = match cli {
        Cli::Claude => ("ANTHROPIC_BASE_URL", &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]),
        Cli::Codex => ("OPENAI_BASE_URL", &["CODEX_API_KEY", "OPENAI_API_KEY"]),
        Cli::Gemini => ("GOOGLE_GEMINI_BASE_URL", &["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
    };
    let given = |name: &&str| env.get(*name).filter(|value| !value.is_empty()).cloned();
    Endpoint { base_url: given(&url), key: keys.iter().find_map(given) }
}
