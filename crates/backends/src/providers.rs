//! Providers of models: their environment variables and their own endpoints.

use agent_worker_protocol::FailureClass;

/// A provider of models, as a row of the registry.
#[derive(Debug)]
pub struct ProviderSpec {
    /// Its word in `provider/model`.
    pub name: &'static str,
    /// The variable with another endpoint.
    pub base_url_variable: &'static str,
    /// Variables that may hold a key, in order.
    pub key_variables: &'static [&'static str],
    /// Its own endpoint; empty for a provider whose endpoint depends on the account.
    pub base_url: &'static str,
    /// The path of the API version beneath an endpoint that names none.
    pub version_path: &'static str,
    /// The shape of its API.
    pub shape: WireShape,
    /// The header with the key.
    pub key_header: KeyHeader,
    /// The need of a key.
    pub key_need: KeyNeed,
    /// The form in which a request demands a structured answer.
    pub answer_format: AnswerFormat,
    /// Phrases of its error bodies that say more than status and code.
    pub error_phrases: &'static [ProviderErrorPhrase],
}

/// The shape of an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireShape {
    /// The Messages API of Anthropic.
    Messages,
    /// The Responses API of `OpenAI`.
    Responses,
    /// Chat Completions, which most providers have.
    Chat,
    /// The Gemini API of Google.
    Gemini,
}

/// The header with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHeader {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// The key alone, in the header of this name.
    Named(&'static str),
}

/// The need of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyNeed {
    /// Every request needs a key.
    Required,
    /// A server of the user, which usually has no key.
    Optional,
}

/// The form in which a request demands a structured answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFormat {
    /// The request has the schema, and the model may call tools before its answer.
    Schema,
    /// Only the prompt has the schema: the API has no field for it, or the model could call no tool.
    PromptOnly,
}

/// A phrase of a provider's error bodies, for a failure that has no code of its own.
#[derive(Debug)]
pub struct ProviderErrorPhrase {
    /// A part of the message, in lower case.
    pub words: &'static str,
    /// The class of the failure.
    pub class: FailureClass,
    /// A message with the phrase, as recorded.
    pub recorded: &'static str,
}

/// The phrase of servers that report a long conversation as an invalid request.
const LONG_CONTEXT: ProviderErrorPhrase = ProviderErrorPhrase {
    words: "maximum context length",
    class: FailureClass::ContextOverflow,
    recorded: "This model's maximum context length is 8192 tokens. However, you requested 9001 tokens.",
};

/// Phrases of a provider without a row, which has Chat Completions.
pub static UNLISTED_PROVIDER_PHRASES: &[ProviderErrorPhrase] = &[LONG_CONTEXT];

/// A row of a provider with Chat Completions and a key.
const CHAT: ProviderSpec = ProviderSpec {
    name: "",
    base_url_variable: "",
    key_variables: &[],
    base_url: "",
    version_path: "",
    shape: WireShape::Chat,
    key_header: KeyHeader::Bearer,
    key_need: KeyNeed::Required,
    answer_format: AnswerFormat::PromptOnly,
    error_phrases: &[LONG_CONTEXT],
};

/// A row of a local server.
const LOCAL: ProviderSpec = ProviderSpec { key_need: KeyNeed::Optional, ..CHAT };

/// Providers whose variables do not follow the convention `NAME_BASE_URL` and `NAME_API_KEY`, or whose endpoint is known.
pub static PROVIDERS: [ProviderSpec; 14] = [
    ProviderSpec {
        name: "anthropic",
        base_url_variable: "ANTHROPIC_BASE_URL",
        key_variables: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
        base_url: "https://api.anthropic.com",
        version_path: "/v1",
        shape: WireShape::Messages,
        key_header: KeyHeader::Named("x-api-key"),
        error_phrases: &[
            ProviderErrorPhrase {
                words: "prompt is too long",
                class: FailureClass::ContextOverflow,
                recorded: "prompt is too long: 203454 tokens > 200000 maximum",
            },
            ProviderErrorPhrase {
                words: "credit balance is too low",
                class: FailureClass::Billing,
                recorded: "Your credit balance is too low to access the Anthropic API.",
            },
        ],
        answer_format: AnswerFormat::Schema,
        ..CHAT
    },
    ProviderSpec {
        name: "openai",
        base_url_variable: "OPENAI_BASE_URL",
        key_variables: &["CODEX_API_KEY", "OPENAI_API_KEY"],
        base_url: "https://api.openai.com/v1",
        shape: WireShape::Responses,
        answer_format: AnswerFormat::Schema,
        ..CHAT
    },
    ProviderSpec {
        name: "google",
        base_url_variable: "GOOGLE_GEMINI_BASE_URL",
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
        base_url: "https://generativelanguage.googleapis.com",
        version_path: "/v1beta",
        shape: WireShape::Gemini,
        key_header: KeyHeader::Named("x-goog-api-key"),
        error_phrases: &[
            ProviderErrorPhrase {
                words: "exceeds the maximum number of tokens",
                class: FailureClass::ContextOverflow,
                recorded: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            },
            ProviderErrorPhrase {
                words: "api key not valid",
                class: FailureClass::Auth,
                recorded: "API key not valid. Please pass a valid API key.",
            },
        ],
        answer_format: AnswerFormat::Schema,
        ..CHAT
    },
    ProviderSpec {
        name: "azure",
        base_url_variable: "AZURE_OPENAI_BASE_URL",
        key_variables: &["AZURE_OPENAI_API_KEY", "AZURE_API_KEY"],
        shape: WireShape::Responses,
        key_header: KeyHeader::Named("api-key"),
        answer_format: AnswerFormat::Schema,
        ..CHAT
    },
    ProviderSpec {
        name: "openrouter",
        base_url_variable: "OPENROUTER_BASE_URL",
        key_variables: &["OPENROUTER_API_KEY"],
        base_url: "https://openrouter.ai/api/v1",
        ..CHAT
    },
    ProviderSpec {
        name: "deepseek",
        base_url_variable: "DEEPSEEK_BASE_URL",
        key_variables: &["DEEPSEEK_API_KEY"],
        base_url: "https://api.deepseek.com/v1",
        ..CHAT
    },
    ProviderSpec {
        name: "groq",
        base_url_variable: "GROQ_BASE_URL",
        key_variables: &["GROQ_API_KEY"],
        base_url: "https://api.groq.com/openai/v1",
        ..CHAT
    },
    ProviderSpec {
        name: "mistral",
        base_url_variable: "MISTRAL_BASE_URL",
        key_variables: &["MISTRAL_API_KEY"],
        base_url: "https://api.mistral.ai/v1",
        ..CHAT
    },
    ProviderSpec {
        name: "xai",
        base_url_variable: "XAI_BASE_URL",
        key_variables: &["XAI_API_KEY"],
        base_url: "https://api.x.ai/v1",
        answer_format: AnswerFormat::Schema,
        ..CHAT
    },
    ProviderSpec {
        name: "together",
        base_url_variable: "TOGETHER_BASE_URL",
        key_variables: &["TOGETHER_API_KEY"],
        base_url: "https://api.together.xyz/v1",
        ..CHAT
    },
    ProviderSpec {
        name: "ollama",
        base_url_variable: "OLLAMA_BASE_URL",
        key_variables: &["OLLAMA_API_KEY"],
        base_url: "http://127.0.0.1:11434/v1",
        ..LOCAL
    },
    ProviderSpec {
        name: "lmstudio",
        base_url_variable: "LMSTUDIO_BASE_URL",
        key_variables: &["LMSTUDIO_API_KEY"],
        base_url: "http://127.0.0.1:1234/v1",
        ..LOCAL
    },
    ProviderSpec {
        name: "vllm",
        base_url_variable: "VLLM_BASE_URL",
        key_variables: &["VLLM_API_KEY"],
        base_url: "http://127.0.0.1:8000/v1",
        ..LOCAL
    },
    ProviderSpec {
        name: "llamacpp",
        base_url_variable: "LLAMACPP_BASE_URL",
        key_variables: &["LLAMACPP_API_KEY"],
        base_url: "http://127.0.0.1:8080/v1",
        ..LOCAL
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

impl ProviderSpec {
    /// Returns true if every request needs a key.
    pub fn needs_key(&self) -> bool {
        self.key_need == KeyNeed::Required
    }
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
