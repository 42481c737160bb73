//! The endpoint and the key of a provider: from its row, the settings of the agent and the environment.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use agent_worker_backends::{
    AnswerFormat, EndpointVariables, KeyHeader, KeyNeed, ProviderErrorPhrase,
    UNLISTED_PROVIDER_PHRASES, WireShape, find_provider, named_variable,
};

use reqwest::Url;

use crate::failure::RequestSecrets;

/// Settings of an agent that replace those of the provider's row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderOverrides {
    /// Endpoint of the provider.
    pub base_url: Option<String>,
    /// Variable with the key, as `$NAME`.
    pub api_key: Option<String>,
    /// Further headers; a value may be `$NAME`.
    pub headers: BTreeMap<String, String>,
}

/// A provider as a client reaches it.
#[derive(Clone)]
pub struct ProviderEndpoint {
    /// Name of the provider.
    pub provider: String,
    /// Shape of its API.
    pub shape: WireShape,
    /// URL with the path of the version.
    pub base_url: String,
    /// Headers with the key and the further ones of the settings.
    pub(crate) headers: Vec<(String, String)>,
    /// The key, to remove it from error messages.
    pub(crate) key: Option<String>,
    /// The form in which a request demands a structured answer.
    pub answer_format: AnswerFormat,
    /// Phrases of the provider's error bodies.
    pub(crate) phrases: &'static [ProviderErrorPhrase],
}

/// An endpoint that is not complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// No variable with a key is set.
    #[error("no key for `{provider}`: set {} in the environment{}", variables.join(" or "), login_hint(provider))]
    MissingKey {
        /// Name of the provider.
        provider: String,
        /// Variables that may hold the key.
        variables: Vec<String>,
    },
    /// A variable that the settings name is not set.
    #[error("the variable `{variable}` of `{key}` is not set; export it and start the run again")]
    UnsetVariable {
        /// Key of the settings.
        key: String,
        /// Name of the variable.
        variable: String,
    },
    /// The provider has no endpoint of its own.
    #[error("the provider `{provider}` needs an endpoint; set `provider.base_url` or {variable}")]
    MissingUrl {
        /// Name of the provider.
        provider: String,
        /// Variable that may hold the endpoint.
        variable: String,
    },
    /// The endpoint would get the key without encryption.
    #[error(
        "`http` would send the key of `{provider}` in clear text; set `provider.base_url` or {variable} to an https URL, \
         or to an http URL of this machine (127.0.0.1)"
    )]
    UnencryptedKey {
        /// Name of the provider.
        provider: String,
        /// Variable that may hold the endpoint.
        variable: String,
    },
}

/// Returns the words about a login for a provider whose program has one.
fn login_hint(provider: &str) -> &'static str {
    match provider {
        "anthropic" => "; `backend: claude` uses a login instead",
        "openai" => "; `backend: codex` uses a login instead",
        "google" => "; `backend: gemini` uses a login instead",
        _ => "",
    }
}

impl fmt::Debug for ProviderEndpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("ProviderEndpoint");
        shown.field("provider", &self.provider).field("base_url", &self.base_url);
        shown.finish_non_exhaustive()
    }
}

impl ProviderEndpoint {
    /// Returns the URL of a provider with the path of the version.
    pub fn base_url(
        provider: &str,
        overrides: &ProviderOverrides,
        env: &BTreeMap<String, String>,
    ) -> Result<String, EndpointError> {
        let row = find_provider(provider);
        let variable = EndpointVariables::of_provider(provider).base_url.unwrap_or_default();
        let own = row.map(|row| row.base_url).filter(|url| !url.is_empty()).map(str::to_owned);
        let url = overrides.base_url.clone().or_else(|| set_value(env, &variable)).or(own);
        let url = url.ok_or_else(|| EndpointError::MissingUrl {
            provider: provider.to_owned(),
            variable: variable.clone(),
        })?;
        let url = url.trim_end_matches('/');
        let version = row.map_or("", |row| row.version_path);
        Ok(if version.is_empty() || names_version(url) {
            url.to_owned()
        } else {
            format!("{url}{version}")
        })
    }

    /// Returns the endpoint of a provider. One without a row is a Chat Completions server with variables by the convention.
    pub fn resolve(
        provider: &str,
        overrides: &ProviderOverrides,
        env: &BTreeMap<String, String>,
    ) -> Result<Self, EndpointError> {
        let row = find_provider(provider);
        let variables = EndpointVariables::of_provider(provider);
        let base_url = Self::base_url(provider, overrides, env)?;
        let header = row.map_or(KeyHeader::Bearer, |row| row.key_header);
        let (key, header) = if let Some(written) = &overrides.api_key {
            (Some(expand("provider.api_key", written, env)?), header)
        } else {
            let mut keys = variables.keys.iter();
            let found = keys.find_map(|name| Some((name, set_value(env, name)?)));
            let is_token = found.as_ref().is_some_and(|(name, _)| name.ends_with("_AUTH_TOKEN"));
            (found.map(|(_, key)| key), if is_token { KeyHeader::Bearer } else { header })
        };
        let need = row.map_or(KeyNeed::Optional, |row| row.key_need);
        if key.is_none() && need == KeyNeed::Required {
            let provider = provider.to_owned();
            return Err(EndpointError::MissingKey { provider, variables: variables.keys });
        }
        let has_secret = key.is_some() || overrides.headers.values().any(|it| it.starts_with('$'));
        if has_secret && !is_encrypted_or_local(&base_url) {
            let provider = provider.to_owned();
            let variable = variables.base_url.unwrap_or_default();
            return Err(EndpointError::UnencryptedKey { provider, variable });
        }
        let mut headers: Vec<_> = key.iter().map(|key| header_with_key(header, key)).collect();
        for (name, value) in &overrides.headers {
            let value = match value.strip_prefix('$') {
                Some(_) => expand(&format!("provider.headers.{name}"), value, env)?,
                None => value.clone(),
            };
            headers.push((name.clone(), value));
        }
        Ok(Self {
            provider: provider.to_owned(),
            shape: row.map_or(WireShape::Chat, |row| row.shape),
            base_url,
            headers,
            key,
            answer_format: row.map_or(AnswerFormat::PromptOnly, |row| row.answer_format),
            phrases: row.map_or(UNLISTED_PROVIDER_PHRASES, |row| row.error_phrases),
        })
    }
}

impl ProviderEndpoint {
    /// Returns the key and the values of the headers.
    pub(crate) fn secrets(&self) -> RequestSecrets {
        let values = self.headers.iter().map(|(_, value)| value);
        RequestSecrets::new(values.chain(&self.key).cloned())
    }
}

/// Returns true if nothing between this machine and the server can read a request. A name is not an address of this machine,
/// even `localhost`, which the machine may resolve otherwise.
fn is_encrypted_or_local(url: &str) -> bool {
    let is_local = |host: &str| {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        address.is_ok_and(|address| address.is_loopback())
    };
    Url::parse(url).is_ok_and(|url| match url.scheme() {
        "https" => true,
        _ => url.host_str().is_some_and(is_local),
    })
}

/// Returns true if the last segment of a URL is a version: `v1`, `v1beta`.
fn names_version(url: &str) -> bool {
    let last = url.rsplit('/').next().unwrap_or_default();
    last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn set_value(env: &BTreeMap<String, String>, name: &str) -> Option<String> {
    env.get(name).filter(|value| !value.is_empty()).cloned()
}

/// Returns the value of `$NAME`, `${NAME}` or `NAME`.
fn expand(
    key: &str,
    written: &str,
    env: &BTreeMap<String, String>,
) -> Result<String, EndpointError> {
    let name = named_variable(written).unwrap_or(written);
    set_value(env, name).ok_or_else(|| EndpointError::UnsetVariable {
        key: key.to_owned(),
        variable: name.to_owned(),
    })
}

fn header_with_key(header: KeyHeader, key: &str) -> (String, String) {
    match header {
        KeyHeader::Bearer => ("authorization".to_owned(), format!("Bearer {key}")),
        KeyHeader::Named(name) => (name.to_owned(), key.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_provider_is_where_its_settings_its_variable_or_its_row_say() {
        let set = env(&[
            ("ANTHROPIC_API_KEY", "a"),
            ("OPENAI_API_KEY", "o"),
            ("OPENAI_BASE_URL", "https://o/v1/"),
            ("GEMINI_API_KEY", "g"),
            ("GOOGLE_GEMINI_BASE_URL", "https://g"),
            ("ACME_BASE_URL", "http://acme/api"),
        ]);
        let own = |url: &str| ProviderOverrides {
            base_url: Some(url.to_owned()),
            ..ProviderOverrides::default()
        };
        let none = ProviderOverrides::default();
        for (provider, overrides, expected) in [
            ("anthropic", &none, "https://api.anthropic.com/v1"),
            ("anthropic", &own("http://127.0.0.1:8080"), "http://127.0.0.1:8080/v1"),
            ("anthropic", &own("https://me/v1"), "https://me/v1"),
            ("openai", &none, "https://o/v1"),
            ("google", &none, "https://g/v1beta"),
            ("ollama", &none, "http://127.0.0.1:11434/v1"),
            ("acme", &none, "http://acme/api"),
        ] {
            let found = ProviderEndpoint::resolve(provider, overrides, &set).unwrap();
            assert_eq!(found.base_url, expected, "{provider}");
        }
    }

    #[test]
    fn a_key_reaches_the_header_of_its_provider_and_no_debug_output() {
        let set = env(&[("ANTHROPIC_API_KEY", "s3cret"), ("MINE", "m1ne"), ("TEAM", "t")]);
        let none = ProviderOverrides::default();
        let found = ProviderEndpoint::resolve("anthropic", &none, &set).unwrap();
        assert_eq!(found.headers, [("x-api-key".to_owned(), "s3cret".to_owned())]);
        assert!(!format!("{found:?}").contains("s3cret"));
        let mine = ProviderOverrides {
            base_url: Some("https://acme".to_owned()),
            api_key: Some("$MINE".to_owned()),
            headers: env(&[("x-team", "$TEAM"), ("x-plain", "p")]),
        };
        let found = ProviderEndpoint::resolve("acme", &mine, &set).unwrap();
        let expected = [("authorization", "Bearer m1ne"), ("x-plain", "p"), ("x-team", "t")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found.headers, expected);
    }

    #[test]
    fn a_key_goes_only_to_this_machine_or_over_https() {
        let with_key = env(&[("ANTHROPIC_API_KEY", "a"), ("OLLAMA_API_KEY", "o"), ("TEAM", "t")]);
        let without = env(&[("TEAM", "t")]);
        let secret = env(&[("x-team", "${TEAM}")]);
        let plain = env(&[("x-team", "t")]);
        let refused =
            |provider: &str, url: &str, headers: &BTreeMap<_, _>, env: &BTreeMap<_, _>| {
                let base_url = Some(url.to_owned());
                let overrides =
                    ProviderOverrides { base_url, api_key: None, headers: headers.clone() };
                ProviderEndpoint::resolve(provider, &overrides, env).err()
            };
        for (url, is_allowed) in [
            ("https://models.example", true),
            ("http://127.0.0.1:8080", true),
            ("http://[::1]:8080/v1", true),
            ("http://0x7f000001", true),
            ("http://models.example", false),
            ("http://localhost:8080", false),
            ("http://127.0.0.1.example.org", false),
            ("http://192.168.0.7", false),
            ("HTTP://models.example", false),
            ("models.example", false),
        ] {
            for provider in ["anthropic", "ollama"] {
                let error = refused(provider, url, &plain, &with_key);
                assert_eq!(error.is_none(), is_allowed, "{provider} {url}: {error:?}");
            }
            assert_eq!(refused("ollama", url, &secret, &without).is_none(), is_allowed, "{url}");
            assert_eq!(refused("ollama", url, &plain, &without), None, "{url}: nothing is secret");
        }
        let error = refused("anthropic", "http://models.example", &plain, &with_key).unwrap();
        assert_eq!(
            error.to_string(),
            "`http` would send the key of `anthropic` in clear text; set `provider.base_url` or ANTHROPIC_BASE_URL to an \
             https URL, or to an http URL of this machine (127.0.0.1)"
        );
    }

    #[test]
    fn a_missing_key_or_endpoint_names_its_variable() {
        let none = ProviderOverrides::default();
        let error = |provider: &str, overrides: &ProviderOverrides| {
            ProviderEndpoint::resolve(provider, overrides, &BTreeMap::new())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("anthropic", &none),
            "no key for `anthropic`: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN in the environment; \
             `backend: claude` uses a login instead"
        );
        assert_eq!(
            error("acme", &none),
            "the provider `acme` needs an endpoint; set `provider.base_url` or ACME_BASE_URL"
        );
        let mine = ProviderOverrides { api_key: Some("$MINE".to_owned()), ..none };
        assert_eq!(
            error("openai", &mine),
            "the variable `MINE` of `provider.api_key` is not set; export it and start the run again"
        );
    }
}
