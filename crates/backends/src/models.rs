//! Names and prices of models, read from `models.toml`.
//!
//! An unknown name passes as it is; an unknown price is none.

use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::providers::find_provider;

/// An empty table stands for a file that cannot be read. A test reads the file.
static MODEL_TABLE: LazyLock<ModelTable> =
    LazyLock::new(|| toml::from_str(include_str!("models.toml")).unwrap_or_default());

const MICROS_PER_DOLLAR: f64 = 1e6;

/// The form in which a program takes the name of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelNames {
    /// `model`, of these providers.
    Bare(&'static [&'static str]),
    /// `provider/model`, of any provider with a price.
    Full,
    /// As the workflow file writes it.
    AsWritten,
}

/// The price of a model, in micro-dollars for a million tokens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    /// The name as `provider/model`.
    pub model: String,
    /// Tokens that were not in the cache.
    #[serde(deserialize_with = "micros")]
    pub input: u64,
    /// Tokens that the model wrote.
    #[serde(deserialize_with = "micros")]
    pub output: u64,
    /// Tokens read from the cache.
    #[serde(default, deserialize_with = "optional_micros")]
    pub from_cache: Option<u64>,
    /// Tokens written into the cache.
    #[serde(default, deserialize_with = "optional_micros")]
    pub into_cache: Option<u64>,
    /// The largest request that this is the price of, in tokens of input.
    pub max_request_tokens: Option<u64>,
    /// The day of the price list.
    pub as_of: String,
    /// The origin of the figures.
    pub source: PriceSource,
}

/// The origin of a price.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum PriceSource {
    /// The list inside the vendor's own program.
    Catalogue,
    /// The vendor's price page, as a third party quotes it.
    Quoted,
}

impl PriceSource {
    /// Returns the source as a phrase.
    pub fn description(self) -> &'static str {
        match self {
            Self::Catalogue => "the vendor's program",
            Self::Quoted => "the vendor's price page, as quoted",
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    alias: Vec<ModelAlias>,
    price: Vec<ModelPrice>,
    window: Vec<RequestWindow>,
    #[serde(default)]
    context: Vec<ContextWindow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelAlias {
    name: String,
    model: String,
    #[serde(default)]
    known_by: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestWindow {
    backend: String,
    model: String,
    tokens: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContextWindow {
    model: String,
    tokens: u64,
}

/// Returns the name of a model as a program takes it. `auto` and no name are the program's own choice.
pub fn model_name(program: &str, names: ModelNames, written: Option<&str>) -> Option<String> {
    let written = written.filter(|name| !["", "auto"].contains(name))?;
    match names {
        ModelNames::AsWritten => Some(written.to_owned()),
        ModelNames::Bare(providers) => {
            let name = MODEL_TABLE.full_name(program, written, |it| providers.contains(&it))?;
            Some(match name {
                FullName::Known(full) => bare_name(&full).to_owned(),
                FullName::Unknown(name) => name,
            })
        }
        ModelNames::Full => {
            let is_known = |provider: &str| MODEL_TABLE.has_provider(provider);
            let (FullName::Known(name) | FullName::Unknown(name)) =
                MODEL_TABLE.full_name(program, written, is_known)?;
            without_backend(program, &name)
        }
    }
}

/// A model behind the API of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiModel {
    /// Name of the provider.
    pub provider: String,
    /// Name of the model, as the provider spells it.
    pub model: String,
}

/// Returns the provider and the name of a model. Without a provider, the name must say it: `provider/model`, or a name of the
/// table.
pub fn api_model(provider: Option<&str>, written: &str) -> Option<ApiModel> {
    let prefix = written.split_once(['/', ':']).map(|(word, _)| word);
    let named = provider.or(prefix.filter(|word| find_provider(word).is_some()));
    let accepts = |word: &str| named.map_or_else(|| find_provider(word).is_some(), |it| it == word);
    match (MODEL_TABLE.full_name("api", written, accepts)?, named) {
        (FullName::Known(full), _) => {
            let (provider, model) = full.split_once('/')?;
            Some(ApiModel { provider: provider.to_owned(), model: model.to_owned() })
        }
        (FullName::Unknown(model), Some(provider)) => {
            Some(ApiModel { provider: provider.to_owned(), model })
        }
        (FullName::Unknown(_), None) => None,
    }
}

/// Returns the price of a model, by its name with or without a provider, and with or without the date of a snapshot.
pub fn find_price(model: &str) -> Option<&'static ModelPrice> {
    MODEL_TABLE.price(model)
}

/// Returns the names of the table without their providers: short names, and models with a price.
pub fn model_names() -> impl Iterator<Item = &'static str> {
    let prices = MODEL_TABLE.price.iter().map(ModelPrice::bare_name);
    MODEL_TABLE.alias.iter().map(|row| row.name.as_str()).chain(prices)
}

/// Returns the prices of all models, grouped by provider.
pub fn model_prices() -> &'static [ModelPrice] {
    &MODEL_TABLE.price
}

/// Returns the largest request that a program makes of a model by itself, in tokens of input.
pub fn request_window(backend: &str, model: &str) -> Option<u64> {
    let is_it = |row: &&RequestWindow| row.backend == backend && row.model == model;
    MODEL_TABLE.window.iter().find(is_it).map(|row| row.tokens)
}

/// Returns the context window of a model, `provider/model`, with or without the date of a snapshot.
pub fn context_window(model: &str) -> Option<u64> {
    let find = |name: &str| MODEL_TABLE.context.iter().find(|row| row.model == name);
    find(model).or_else(|| find(without_snapshot_date(model)?)).map(|row| row.tokens)
}

/// A name with its provider, or one whose provider is not known.
enum FullName {
    Known(String),
    Unknown(String),
}

impl ModelPrice {
    /// Returns the provider of the model.
    pub fn provider(&self) -> &str {
        provider_of(&self.model)
    }

    /// Returns the name of the model without its provider.
    pub fn bare_name(&self) -> &str {
        bare_name(&self.model)
    }
}

impl ModelTable {
    /// Returns the full name of a model of an accepted provider. `None` if the program chooses.
    fn full_name(
        &self,
        program: &str,
        written: &str,
        accepts: impl Fn(&str) -> bool,
    ) -> Option<FullName> {
        let (provider, name) = match written.split_once(['/', ':']) {
            Some((provider, name)) if accepts(provider) => (Some(provider), name),
            Some(_) | None => (None, written),
        };
        if name == "auto" {
            return None;
        }
        let fits = |row: &&ModelAlias| {
            let of = provider_of(&row.model);
            row.name == name && accepts(of) && provider.is_none_or(|given| given == of)
        };
        let alias = self.alias.iter().find(fits);
        let alias = alias.filter(|row| !row.known_by.iter().any(|knows| knows == program));
        Some(match (alias, provider) {
            (Some(alias), _) => FullName::Known(alias.model.clone()),
            (None, Some(provider)) => FullName::Known(format!("{provider}/{name}")),
            // The price of a bare name says its provider.
            (None, None) => match self.price(name).map(|price| provider_of(&price.model)) {
                Some(provider) if accepts(provider) => {
                    FullName::Known(format!("{provider}/{name}"))
                }
                Some(_) | None => FullName::Unknown(name.to_owned()),
            },
        })
    }

    fn price(&self, model: &str) -> Option<&ModelPrice> {
        let find = |name: &str| {
            let is_it = |row: &&ModelPrice| row.model == name || bare_name(&row.model) == name;
            self.price.iter().find(is_it)
        };
        find(model).or_else(|| find(without_snapshot_date(model)?))
    }

    fn has_provider(&self, provider: &str) -> bool {
        self.price.iter().any(|row| provider_of(&row.model) == provider)
    }
}

/// Removes the backend from `backend/provider/model`; `backend/model` is a model of the backend itself.
fn without_backend(program: &str, name: &str) -> Option<String> {
    let rest = name.strip_prefix(program).and_then(|rest| rest.strip_prefix('/'));
    if rest == Some("auto") {
        return None;
    }
    let name = rest.filter(|rest| rest.contains(['/', ':'])).unwrap_or(name);
    let provider_ends = name.find(['/', ':']);
    Some(match provider_ends {
        Some(at) if name[at..].starts_with(':') => name.replacen(':', "/", 1),
        Some(_) | None => name.to_owned(),
    })
}

fn provider_of(model: &str) -> &str {
    model.split_once('/').map_or("", |(provider, _)| provider)
}

fn bare_name(model: &str) -> &str {
    model.split_once('/').map_or(model, |(_, name)| name)
}

/// Returns the name without the date of a snapshot: `-20251001`, `-2025-11-13`.
fn without_snapshot_date(model: &str) -> Option<&str> {
    let is_number =
        |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    let (rest, last) = model.rsplit_once('-')?;
    if is_number(last, 8) {
        return Some(rest);
    }
    let (rest, month) = rest.rsplit_once('-').filter(|_| is_number(last, 2))?;
    let (rest, year) = rest.rsplit_once('-').filter(|_| is_number(month, 2))?;
    is_number(year, 4).then_some(rest)
}

/// Reads dollars as whole micro-dollars.
fn micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let dollars = f64::deserialize(deserializer)?;
    let micros = (dollars * MICROS_PER_DOLLAR).round();
    let is_exact = (dollars * MICROS_PER_DOLLAR - micros).abs() < 1e-3;
    if !is_exact || !(0.0..=1e15).contains(&micros) {
        return Err(D::Error::custom(format!(
            "{dollars} dollars is not a whole number of micro-dollars"
        )));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok(micros as u64)
}

fn optional_micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    micros(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::registry::find_backend;

    #[test]
    fn every_row_of_the_table_is_understood_and_says_a_thing_once() {
        let table: ModelTable = toml::from_str(include_str!("models.toml")).unwrap();
        assert!(!table.alias.is_empty() && !table.price.is_empty() && !table.window.is_empty());
        let mut names = HashSet::new();
        let mut once = |name: &str| {
            assert!(names.insert(name.to_owned()), "{name} is there twice");
        };
        for row in &table.price {
            once(bare_name(&row.model));
            assert_ne!(provider_of(&row.model), "", "{}", row.model);
            let day: Vec<_> = row.as_of.split('-').map(str::len).collect();
            assert!(day == [4, 2, 2] && *row.as_of > *"2026", "{}: {}", row.model, row.as_of);
            assert!(0 < row.input && row.input < row.output, "{}", row.model);
            assert!(row.from_cache.is_none_or(|price| price < row.input), "{}", row.model);
        }
        for row in &table.alias {
            once(&row.name);
            assert_ne!(provider_of(&row.model), "", "{}", row.name);
            assert!(row.known_by.iter().all(|name| find_backend(name).is_some()), "{}", row.name);
        }
        for row in &table.window {
            assert!(find_price(&row.model).is_some(), "{}", row.model);
            assert!(find_backend(&row.backend).is_some(), "{}", row.backend);
        }
        let mut windows = HashSet::new();
        for row in &table.context {
            assert_ne!(provider_of(&row.model), "", "{}", row.model);
            assert!(windows.insert(&row.model), "{} has two windows", row.model);
            assert!((8_000..=10_000_000).contains(&row.tokens), "{}", row.model);
        }
    }

    #[test]
    fn a_context_window_is_that_of_one_provider_with_or_without_a_date() {
        for (model, expected) in [
            ("anthropic/claude-opus-4-8", Some(1_000_000)),
            ("anthropic/claude-haiku-4-5-20251001", Some(200_000)),
            ("acme/claude-haiku-4-5", None),
            ("claude-haiku-4-5", None),
            ("anthropic/claude-x", None),
        ] {
            assert_eq!(context_window(model), expected, "{model}");
        }
    }

    /// Returns the names after `model:` in a text, without placeholders.
    fn named_models(text: &str) -> Vec<&str> {
        let ends = |c: char| c.is_whitespace() || ",}`\"'…".contains(c);
        // In prose, a word precedes `model:`.
        let is_key = |at: usize| {
            let line = text[..at].rsplit('\n').next().unwrap().trim_end();
            line.is_empty() || line.ends_with(['{', ',', '`'])
        };
        let keys = text.match_indices("model: ").filter(|(at, _)| is_key(*at));
        let names = keys.map(|(at, key)| text[at + key.len()..].split(ends).next().unwrap());
        names.filter(|name| !["", "any/name", "auto"].contains(name)).collect()
    }

    #[test]
    fn every_model_of_an_example_has_a_price() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = vec![root.join("README.md")];
        for folder in ["examples", "docs/how-to", "docs/reference"] {
            let entries = std::fs::read_dir(root.join(folder)).unwrap();
            files.extend(entries.map(|entry| entry.unwrap().path()));
        }
        let mut models = 0;
        for file in files.iter().filter(|file| file.extension().is_some_and(|it| it != "json")) {
            let text = std::fs::read_to_string(file).unwrap();
            for written in named_models(&text) {
                models += 1;
                let bare = written.rsplit('/').next().unwrap();
                let name = model_name("", ModelNames::Full, Some(bare)).unwrap();
                assert!(find_price(&name).is_some(), "{}: {written}", file.display());
            }
        }
        assert!(models > 2, "only {models} models found");
    }

    #[test]
    fn a_model_of_an_api_has_a_provider() {
        for (provider, written, expected) in [
            (None, "anthropic/claude-opus-4-8", Some("anthropic claude-opus-4-8")),
            (None, "anthropic:opus", Some("anthropic claude-opus-5-5")),
            (None, "sonnet", Some("anthropic claude-sonnet-5-5")),
            (None, "gpt-6-sol", Some("openai gpt-6-sol")),
            (None, "openrouter/anthropic/claude-x", Some("openrouter anthropic/claude-x")),
            (None, "ollama/llama3:8b", Some("ollama llama3:8b")),
            (None, "acme/large", None),
            (None, "large", None),
            (None, "auto", None),
            (None, "anthropic/auto", None),
            (Some("acme"), "large", Some("acme large")),
            (Some("acme"), "acme/large", Some("acme large")),
            (Some("acme"), "org/large", Some("acme org/large")),
            (Some("anthropic"), "opus", Some("anthropic claude-opus-5-5")),
            (
                Some("openrouter"),
                "anthropic/claude-opus-4-8",
                Some("openrouter anthropic/claude-opus-4-8"),
            ),
        ] {
            let found = api_model(provider, written);
            let found = found.map(|it| format!("{} {}", it.provider, it.model));
            assert_eq!(found.as_deref(), expected, "{provider:?} {written}");
        }
    }

    #[test]
    fn a_row_that_is_wrong_is_noticed() {
        let price = |row: &str| {
            toml::from_str::<ModelTable>(&format!("alias = []\nwindow = []\nprice = [{row}]"))
        };
        let right = r#"{ model = "a/b", input = 0.5, output = 2, as_of = "2026-01-01", source = "quoted" }"#;
        assert_eq!(price(right).unwrap().price[0].input, 500_000);
        for (from, to) in [
            (r#", as_of = "2026-01-01""#, ""),
            (r#", source = "quoted""#, ""),
            ("quoted", "a friend"),
            ("as_of", "more = 1, as_of"),
            ("0.5", "0.1234567"),
            ("0.5", "-1"),
            ("output", "cost"),
        ] {
            let wrong = right.replace(from, to);
            assert!(price(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_model_is_named_in_any_spelling_and_an_unknown_one_passes_untouched() {
        for (program, written, expected) in [
            ("claude", "anthropic/claude-sonnet-4-5", Some("claude-sonnet-4-5")),
            ("claude", "anthropic:opus", Some("opus")),
            ("claude", "claude/sonnet", Some("sonnet")),
            ("claude", "haiku", Some("haiku")),
            ("claude", "opus-4.8", Some("claude-opus-4-8")),
            ("claude", "anthropic/opus-4.8", Some("claude-opus-4-8")),
            ("claude", "claude-sonnet-4-5-20250514", Some("claude-sonnet-4-5")),
            ("claude", "anthropic/claude-opus-4", Some("claude-opus-4-20250514")),
            ("claude", "claude-opus-4-20250514", Some("claude-opus-4-20250514")),
            ("claude", "anthropic/claude-haiku-3-5", Some("claude-3-5-haiku-20241022")),
            ("claude", "claude-haiku-3-5-20250514", Some("claude-3-5-haiku-20241022")),
            ("claude", "auto", None),
            ("claude", "claude/auto", None),
            ("claude", "bedrock/some.model:0", Some("bedrock/some.model:0")),
            ("claude", "sol", Some("sol")),
            ("codex", "openai/gpt-5.1-codex", Some("gpt-5.1-codex")),
            ("codex", "sol", Some("gpt-6.1-sol")),
            ("codex", "codex:gpt-7", Some("gpt-7")),
            ("codex", "anthropic/opus", Some("anthropic/opus")),
            ("gemini", "google/gemini-2.5-pro", Some("gemini-2.5-pro")),
            ("gemini", "flash", Some("flash")),
            ("opencode", "opus", Some("anthropic/claude-opus-5-5")),
            ("opencode", "anthropic:opus", Some("anthropic/claude-opus-5-5")),
            ("opencode", "gpt-6-sol", Some("openai/gpt-6-sol")),
            ("opencode", "openrouter/x/y", Some("openrouter/x/y")),
            ("opencode", "big-pickle", Some("big-pickle")),
            ("command", "claude/opus", Some("claude/opus")),
        ] {
            let named = find_backend(program).unwrap().model_name(Some(written));
            assert_eq!(named.as_deref(), expected, "{program}: {written}");
        }
        assert_eq!(find_backend("gemini").unwrap().model_name(None), None);
    }

    #[test]
    fn a_model_is_named_with_its_provider_in_any_spelling() {
        for (written, expected) in [
            ("anthropic/claude-sonnet-4-5", Some("anthropic/claude-sonnet-4-5")),
            ("anthropic:claude-sonnet-4-5", Some("anthropic/claude-sonnet-4-5")),
            ("opencode/openai/gpt-5", Some("openai/gpt-5")),
            ("opencode/big-pickle", Some("opencode/big-pickle")),
            ("openrouter/z-ai/glm:free", Some("openrouter/z-ai/glm:free")),
            ("opencode/auto", None),
            ("auto", None),
            ("sonnet", Some("anthropic/claude-sonnet-5-5")),
            ("large", Some("large")),
        ] {
            let named = find_backend("opencode").unwrap().model_name(Some(written));
            assert_eq!(named.as_deref(), expected, "{written}");
        }
    }

    #[test]
    fn the_day_of_a_snapshot_is_no_part_of_a_name() {
        for (model, expected) in [
            ("claude-haiku-4-5-20251001", Some("claude-haiku-4-5")),
            ("gpt-5.1-codex-2025-11-13", Some("gpt-5.1-codex")),
            ("claude-haiku-4-5", None),
            ("gemini-2.5-flash", None),
            ("4-5", None),
        ] {
            assert_eq!(without_snapshot_date(model), expected);
        }
    }
}
