//! The endpoint and key of a model, from the environment of its agent.

use std::collections::BTreeMap;

use agent_worker_backends::{EndpointVariables, find_provider};

/// An endpoint and a key of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelEndpoint {
    /// An endpoint other than the provider's own.
    pub(super) base_url: Option<String>,
    /// The key. Without one the program uses the login of the user.
    pub(super) key: Option<String>,
}

impl ModelEndpoint {
    /// Reads the endpoint, and the first key that is set. An empty variable counts as unset.
    pub(super) fn from_env(variables: &EndpointVariables, env: &BTreeMap<String, String>) -> Self {
        let value = |name: &String| env.get(name).filter(|value| !value.is_empty()).cloned();
        Self {
            base_url: variables.base_url.as_ref().and_then(value),
            key: variables.keys.iter().find_map(value),
        }
    }
}

/// Returns the provider's own endpoint.
pub(super) fn provider_url(name: &str) -> &'static str {
    find_provider(name).map_or("", |provider| provider.base_url)
}

#[cfg(test)]
mod tests {
    use agent_worker_backends::find_backend;

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
        let of = |name, model| {
            let spec = find_backend(name).unwrap();
            let model = spec.model_name(model);
            let variables = spec.endpoint.variables(model.as_deref());
            let ModelEndpoint { base_url, key } = ModelEndpoint::from_env(&variables, &env);
            (base_url.unwrap_or_default(), key.unwrap_or_default())
        };
        for (cli, model, base_url, key) in [
            ("claude", Some("z-ai/glm"), "", "a"),
            ("codex", None, "http://o", ""),
            ("cursor", None, "", ""),
            ("opencode", Some("anthropic/opus"), "", "a"),
            ("opencode", Some("openai/gpt-5"), "http://o", ""),
            ("opencode", Some("z-ai/glm"), "http://z", "z"),
            ("opencode", Some("github-copilot/gpt-5"), "", ""),
            ("opencode", None, "", "a"),
        ] {
            assert_eq!(of(cli, model), (base_url.to_owned(), key.to_owned()), "{cli} {model:?}");
        }
    }
}
