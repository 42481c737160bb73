//! Providers of models: their environment variables and their own endpoints.

/// A provider of models, as a row of the registry.
#[derive(Debug)]
pub struct ProviderSpec {
    /// Its word in `provider/model`.
    pub name: &'static str,
    /// The variable with another endpoint.
    pub base_url_variable: &'static str,
    /// Variables that may hold a key, in order.
    pub key_variables: &'static [&'static str],
    /// Its own endpoint.
    pub base_url: &'static str,
    /// The path of the API version beneath an endpoint that names none.
    pub version_path: &'static str,
}

/// Providers whose variables do not follow the convention `NAME_BASE_URL` and `NAME_API_KEY`, or whose endpoint is known.
static PROVIDERS: [ProviderSpec; 3] = [
    ProviderSpec {
        name: "anthropic",
        base_url_variable: "ANTHROPIC_BASE_URL",
        key_variables: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
        base_url: "https://api.anthropic.com",
        version_path: "/v1",
    },
    ProviderSpec {
        name: "openai",
        base_url_variable: "OPENAI_BASE_URL",
        key_variables: &["CODEX_API_KEY", "OPENAI_API_KEY"],
        base_url: "https://api.openai.com/v1",
        version_path: "",
    },
    ProviderSpec {
        name: "google",
        base_url_variable: "GOOGLE_GEMINI_BASE_URL",
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
        base_url: "https://generativelanguage.googleapis.com",
        version_path: "/v1beta",
    },
];

/// The source of the endpoint and key of a backend's models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointSource {
    /// All models are of one provider.
    Provider(&'static str),
    /// The name of the model says its provider. Without a provider, any key of these counts.
    ProviderOfModel(&'static [&'static str]),
    /// Variables of its own.
    Variables {
        /// The variable with the endpoint.
        base_url: Option<&'static str>,
        /// Variables that may hold the key, in order.
        keys: &'static [&'static str],
    },
    /// The worker knows nothing of it.
    Unknown,
}

/// Variables that say where a model is and with which key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointVariables {
    /// The variable with the endpoint.
    pub base_url: Option<String>,
    /// Variables that may hold the key, in order.
    pub keys: Vec<String>,
}

/// Returns a provider by its name.
pub fn find_provider(name: &str) -> Option<&'static ProviderSpec> {
    PROVIDERS.iter().find(|provider| provider.name == name)
}

impl EndpointVariables {
    /// Returns the variables of a provider: those of its row, or those of the convention.
    pub fn of_provider(name: &str) -> Self {
        if let Some(provider) = find_provider(name) {
            return Self::named(Some(provider.base_url_variable), provider.key_variables);
        }
        let usual: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let usual = usual.to_ascii_uppercase();
        Self { base_url: Some(format!("{usual}_BASE_URL")), keys: vec![format!("{usual}_API_KEY")] }
    }

    fn named(base_url: Option<&str>, keys: &[&str]) -> Self {
        Self {
            base_url: base_url.map(str::to_owned),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        }
    }
}

impl EndpointSource {
    /// Returns the variables of a model with this name, in the form `provider/model` where the backend takes that.
    pub fn variables(self, model: Option<&str>) -> EndpointVariables {
        match self {
            Self::Provider(name) => EndpointVariables::of_provider(name),
            Self::ProviderOfModel(candidates) => {
                match model.and_then(|name| name.split_once('/')) {
                    Some((provider, _)) => EndpointVariables::of_provider(provider),
                    None => EndpointVariables {
                        base_url: None,
                        keys: candidates
                            .iter()
                            .flat_map(|name| EndpointVariables::of_provider(name).keys)
                            .collect(),
                    },
                }
            }
            Self::Variables { base_url, keys } => EndpointVariables::named(base_url, keys),
            Self::Unknown => EndpointVariables::default(),
        }
    }
}
