//! Keys of an agent with the backend `api`: its provider and the settings of its requests.

use std::collections::BTreeMap;

use agent_worker_backends::{PROVIDERS, ProviderSpec, api_model, find_provider, named_variable};
use agent_worker_protocol::{Api, Permissions, SandboxNetwork, SessionPolicy};
use serde_json::{Map, Value};

use crate::{
    agents::{
        backend::{self, BackendChoiceError},
        builtin_tools,
    },
    definition::notify::is_encrypted_or_local,
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        spelling::nearest,
    },
    template::reference::is_name,
    yaml::{
        Yaml,
        fields::{AllowedKeys, YamlField, YamlFields, YamlKey},
    },
};

/// Keys that only this backend has.
pub(crate) const API_KEYS: [&str; 4] = ["provider", "context_window", "temperature", "extra"];
const PROVIDER_KEYS: AllowedKeys =
    AllowedKeys { known: &["name", "base_url", "api_key", "headers"], planned: &[] };
/// The smallest window in which a conversation with tools fits, and one larger than that of any model.
const MIN_CONTEXT_WINDOW: u32 = 1_000;
const MAX_CONTEXT_WINDOW: u32 = 100_000_000;
/// Fields of a request that the worker writes itself.
const RESERVED_FIELDS: [&str; 11] = [
    "model",
    "messages",
    "input",
    "contents",
    "system",
    "instructions",
    "systemInstruction",
    "tools",
    "stream",
    "store",
    "max_tokens",
];
/// Headers that the worker writes itself.
const RESERVED_HEADERS: [&str; 4] = ["content-length", "content-type", "host", "accept"];
const MODEL_EXAMPLE: &str = "such as `model: anthropic/claude-sonnet-5-5`";

/// Settings of the key `provider`.
#[derive(Default)]
struct ProviderSettings {
    name: Option<String>,
    base_url: Option<String>,
    api_key: Option<String>,
    headers: BTreeMap<String, String>,
}

/// Reads the settings of an agent.
pub(crate) fn read(
    key: &YamlKey<'_>,
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Api {
    let provider = fields.get("provider").map(|field| read_provider(&field, diagnostics));
    let provider = provider.unwrap_or_default();
    let temperature =
        fields.read_with("temperature", diagnostics, |field| field.decimal(0.0..=2.0));
    let context_window = fields.read_with("context_window", diagnostics, |field| {
        field.integer(MIN_CONTEXT_WINDOW..=MAX_CONTEXT_WINDOW)
    });
    let session = backend::read_session(fields, diagnostics);
    let extra = fields.read_with("extra", diagnostics, read_extra);
    let found = match fields.get("model") {
        None if fields.has_unknown_keys => None,
        // The provider has a diagnostic of its own.
        Some(_) if fields.has("provider") && provider.name.is_none() => None,
        None => {
            let message = format!("`{}` needs a `model`", key.text);
            diagnostics.add(key.diagnostic(message).with_hint(MODEL_EXAMPLE));
            None
        }
        // The reader of `model` reports a value that is not text.
        Some(field) => field.text().ok().and_then(|written| {
            let found = api_model(provider.name.as_deref(), written);
            if found.is_none() {
                diagnostics.add(unknown_model(&field, written));
            }
            found
        }),
    };
    let (name, model) = found.map(|found| (found.provider, found.model)).unwrap_or_default();
    let ProviderSettings { base_url, api_key, headers, .. } = provider;
    let (extra, session) = (extra.unwrap_or_default(), session.unwrap_or_default());
    // `builtin_tools::complete` replaces them once the permissions and the sandbox are known.
    let tools = Vec::new();
    Api {
        provider: name,
        model,
        base_url,
        api_key,
        headers,
        session,
        context_window,
        temperature,
        extra,
        tools,
    }
}

/// Returns an agent without further settings.
pub(crate) fn with_defaults(model: Option<&str>) -> Result<Api, BackendChoiceError> {
    let written = model.ok_or_else(|| {
        (
            "backend `api` needs a model".to_owned(),
            "such as `anthropic/claude-sonnet-5-5`".to_owned(),
        )
    })?;
    let found = api_model(None, written).ok_or_else(|| unknown_provider(written))?;
    Ok(Api {
        provider: found.provider,
        model: found.model,
        base_url: None,
        api_key: None,
        headers: BTreeMap::new(),
        session: SessionPolicy::default(),
        context_window: None,
        temperature: None,
        extra: Map::new(),
        tools: builtin_tools::default_names(&Permissions::default(), &SandboxNetwork::Off),
    })
}

fn unknown_model(field: &YamlField<'_>, written: &str) -> Diagnostic {
    let (message, hint) = unknown_provider(written);
    field.diagnostic(message).with_hint(hint)
}

/// Returns the message about a model whose provider is not known.
fn unknown_provider(written: &str) -> BackendChoiceError {
    let word = written.split_once(['/', ':']).map(|(word, _)| word);
    let hint = match word.and_then(|word| nearest(word, provider_names())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("name it as `PROVIDER/MODEL`; known providers are {}", known_providers()),
    };
    (format!("the provider of the model `{written}` is not known"), hint)
}

fn provider_names() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|row| row.name)
}

fn known_providers() -> String {
    provider_names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Reads `provider`: its name, or a mapping.
fn read_provider(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> ProviderSettings {
    if let Yaml::Text(_) = &field.node.value {
        let name = diagnostics.ok_or_add(check_name(field, None));
        return ProviderSettings { name, ..ProviderSettings::default() };
    }
    let Some(fields) = field.fields(&PROVIDER_KEYS, diagnostics) else {
        return ProviderSettings::default();
    };
    let base_url = fields.read_with("base_url", diagnostics, read_url);
    let name = fields.require("name", diagnostics).and_then(|field| {
        let has_url = fields.has("base_url").then_some(field.clone());
        diagnostics.ok_or_add(check_name(&field, has_url.as_ref()))
    });
    let api_key = fields.read_with("api_key", diagnostics, read_key);
    let headers = fields.get("headers").map(|field| read_headers(&field, diagnostics));
    let headers = headers.unwrap_or_default();
    let settings = ProviderSettings { name, base_url, api_key, headers };
    if let Some(field) = fields.get("base_url").filter(|_| settings.sends_key_in_clear_text()) {
        let message = "`http` would send the key of the provider in clear text";
        diagnostics.add(field.diagnostic(message).with_hint(
            "write `https://…`; `http` is for this machine (127.0.0.1) and for servers without a key",
        ));
    }
    settings
}

impl ProviderSettings {
    /// Returns true if others could read a key on its way. A key that only the environment has is checked before the start.
    fn sends_key_in_clear_text(&self) -> bool {
        let row = self.name.as_deref().and_then(find_provider);
        let has_key = self.api_key.is_some()
            || row.is_some_and(ProviderSpec::needs_key)
            || self.headers.values().any(|value| named_variable(value).is_some());
        has_key && self.base_url.as_deref().is_some_and(|url| !is_encrypted_or_local(url))
    }
}

/// Checks the name of a provider, which needs an endpoint if it has no row.
fn check_name(
    field: &YamlField<'_>,
    endpoint: Option<&YamlField<'_>>,
) -> Result<String, Diagnostic> {
    let name = field.literal_text()?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(is_word) {
        return Err(field.must_be("the name of a provider"));
    }
    if find_provider(name).is_some() || endpoint.is_some() {
        return Ok(name.to_owned());
    }
    let diagnostic = field.diagnostic(format!("there is no known provider `{name}`"));
    Err(match nearest(name, provider_names()) {
        Some(near) => diagnostic.with_hint(format!("did you mean `{near}`?")),
        None => diagnostic.with_hint(format!(
            "known providers are {}; for another one write \
             `provider: {{ name: {name}, base_url: https://… }}`",
            known_providers()
        )),
    })
}

fn read_url(field: &YamlField<'_>) -> Result<String, Diagnostic> {
    let text = field.literal_text()?;
    let host = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let is_url = host.is_some_and(|host| !host.is_empty() && !host.starts_with('/'));
    if !is_url || text.contains(|c: char| c.is_whitespace() || c.is_control() || "?#@".contains(c))
    {
        return Err(field
            .must_be("an address such as `https://models.example/v1`")
            .with_hint("without a query and without a password; headers have a key of their own"));
    }
    Ok(text.to_owned())
}

/// Reads the name of the variable with a key. A key itself does not belong into a file.
fn read_key(field: &YamlField<'_>) -> Result<String, Diagnostic> {
    let text = field.literal_text()?;
    match named_variable(text) {
        Some(name) if is_name(name) => Ok(text.to_owned()),
        Some(_) | None => {
            Err(field.must_be("the name of a variable, such as `$MY_KEY`").with_hint(
                "the value comes from the environment of the caller and is not stored in a file",
            ))
        }
    }
}

fn read_headers(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    for (key, value) in diagnostics.ok_or_add(field.named_entries()).unwrap_or_default() {
        let name = diagnostics.ok_or_add(header_name(&key));
        let value = diagnostics.ok_or_add(header_value(&value));
        if let (Some(name), Some(value)) = (name, value) {
            headers.insert(name, value);
        }
    }
    headers
}

fn header_name(key: &YamlKey<'_>) -> Result<String, Diagnostic> {
    let name = key.text.to_ascii_lowercase();
    let is_token = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        return Err(key.diagnostic(format!("`{}` is not the name of a header", key.text)));
    }
    if RESERVED_HEADERS.contains(&name.as_str()) {
        return Err(key.diagnostic(format!("the header `{name}` is set by agent-worker")));
    }
    Ok(name)
}

fn header_value(field: &YamlField<'_>) -> Result<String, Diagnostic> {
    let text = field.literal_text()?;
    let is_variable = named_variable(text).is_none_or(is_name);
    if !is_variable || text.chars().any(|c| !c.is_ascii() || c.is_control()) {
        return Err(field.must_be("one line of text, or a variable as `$NAME`"));
    }
    Ok(text.to_owned())
}

/// Reads further fields of a request.
fn read_extra(field: &YamlField<'_>) -> Result<Map<String, Value>, Diagnostic> {
    let mut extra = Map::new();
    for (key, value) in field.named_entries()? {
        if RESERVED_FIELDS.contains(&key.text) {
            let what = format!("`{}` is set by agent-worker", key.text);
            return Err(key
                .diagnostic(what)
                .with_hint("use the key of the agent for it, or omit it"));
        }
        extra.insert(key.text.to_owned(), value.node.to_json());
    }
    Ok(extra)
}
