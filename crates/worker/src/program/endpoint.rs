//! Where a vendor's agent reaches its model, and with which key: the one place both pass through.

use std::collections::BTreeMap;

use agent_worker_protocol::VendorCli;

use super::opencode;

/// Where, and with what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelEndpoint {
    /// Not the vendor's own, if it is there.
    pub(super) base_url: Option<String>,
    /// The key, if one was given: without one the person's login is used.
    pub(super) key: Option<String>,
}

/// What the environment of an agent says of where this model is.
pub(super) fn cli_endpoint(
    cli: VendorCli,
    model: Option<&str>,
    env: &BTreeMap<String, String>,
) -> ModelEndpoint {
    let provider = match cli {
        VendorCli::Claude => "anthropic".to_owned(),
        VendorCli::Codex => "openai".to_owned(),
        VendorCli::Gemini => "google".to_owned(),
        VendorCli::Cursor => "cursor".to_owned(),
        VendorCli::Opencode => {
            let Some(provider) = opencode::provider_of_model(model) else {
                // It chooses a provider itself where none is named: then what it could use is a key.
                let of = |provider: &&str| provider_endpoint(provider, env).key;
                let key = ["opencode", "anthropic", "openai", "google"].iter().find_map(of);
                return ModelEndpoint { base_url: None, key };
            };
            provider
        }
    };
    provider_endpoint(&provider, env)
}

fn provider_endpoint(provider: &str, env: &BTreeMap<String, String>) -> ModelEndpoint {
    let usual: String =
        provider.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let usual = usual.to_ascii_uppercase();
    let (usual_url, usual_key) = (format!("{usual}_BASE_URL"), format!("{usual}_API_KEY"));
    let usual_keys = [&*usual_key];
    let (url, keys): (_, &[_]) = match provider {
        "anthropic" => ("ANTHROPIC_BASE_URL", &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]),
        "openai" => ("OPENAI_BASE_URL", &["CODEX_API_KEY", "OPENAI_API_KEY"]),
        "google" => (
            "GOOGLE_GEMINI_BASE_URL",
            &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
        ),
        _ => (&*usual_url, &usual_keys),
    };
    endpoint_from_env(url, keys, env)
}

/// What these variables say: one has an address, the first of the others that is there a key.
pub(super) fn endpoint_from_env(
    url: &str,
    keys: &[&str],
    env: &BTreeMap<String, String>,
) -> ModelEndpoint {
    let given = |name: &&str| env.get(*name).filter(|value| !value.is_empty()).cloned();
    ModelEndpoint { base_url: given(&url), key: keys.iter().find_map(given) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_where_the_variables_of_its_provider_say() {
        let env = [
            ("ANTHROPIC_API_KEY", "a"),
            ("OPENAI_BASE_URL", "http://o"),
            ("Z_AI_API_KEY", "z"),
            ("Z_AI_BASE_URL", "http://z"),
            ("CURSOR_API_KEY", ""),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let of = |cli, model| {
            let ModelEndpoint { base_url, key } = cli_endpoint(cli, model, &env);
            (base_url.unwrap_or_default(), key.unwrap_or_default())
        };
        for (cli, model, base_url, key) in [
            (VendorCli::Claude, Some("z-ai/glm"), "", "a"),
            (VendorCli::Codex, None, "http://o", ""),
            (VendorCli::Cursor, None, "", ""),
            (VendorCli::Opencode, Some("anthropic/opus"), "", "a"),
            (VendorCli::Opencode, Some("openai/gpt-5"), "http://o", ""),
            (VendorCli::Opencode, Some("z-ai/glm"), "http://z", "z"),
            (VendorCli::Opencode, Some("github-copilot/gpt-5"), "", ""),
            (VendorCli::Opencode, None, "", "a"),
        ] {
            assert_eq!(of(cli, model), (base_url.to_owned(), key.to_owned()), "{cli} {model:?}");
        }
    }
}
