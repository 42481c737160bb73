//! What a model is called, by whom, and what it costs: read from `models.tsv`, the one table of both.
//!
//! A name that is not known passes as it is; a cost that is not known is none.

use std::{str::SplitWhitespace, sync::LazyLock};

use agent_worker_protocol::{Usage, VendorCli};

static MODEL_TABLE: LazyLock<ModelTable> =
    LazyLock::new(|| ModelTable::parse(include_str!("models.tsv")));

/// The name for a vendor's agent; nothing where it shall choose itself.
pub(crate) fn model_for(cli: VendorCli, written: Option<&str>) -> Option<String> {
    MODEL_TABLE.program_model_name(cli.word(), written)
}

/// What a program used of one model, where it does not say what that cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelTokenUsage {
    /// Which, if the program says so; else the one it was told to use.
    pub(crate) model: Option<String>,
    /// Everything read, with what follows.
    pub(crate) input: u64,
    pub(crate) from_cache: u64,
    pub(crate) into_cache: u64,
    pub(crate) output: u64,
}

/// What is known beforehand of what a program will use.
#[derive(Clone, Debug, Default)]
pub(crate) struct PricingContext {
    pub(crate) program: &'static str,
    /// The model it was told to use, as it was told.
    pub(crate) model: Option<String>,
    /// Whether it makes no larger requests than it does by itself: nobody's settings say otherwise.
    pub(crate) has_default_settings: bool,
}

impl PricingContext {
    /// What was used in all, and what that costs by the list: of each share, or not at all.
    pub(crate) fn usage(&self, shares: &[ModelTokenUsage]) -> Usage {
        let cost = shares.iter().map(|share| self.cost(share)).sum::<Option<u128>>();
        let cost_micros = cost.and_then(|cost| u64::try_from(cost.div_ceil(MILLION)).ok());
        let usage = Usage {
            input_tokens: shares.iter().map(|share| share.input).sum(),
            output_tokens: shares.iter().map(|share| share.output).sum(),
            cost_micros,
            cost_reckoned: cost_micros.is_some(),
        };
        if usage.has_tokens() { usage } else { Usage::default() }
    }

    /// In millionths of a micro-dollar.
    fn cost(&self, share: &ModelTokenUsage) -> Option<u128> {
        let ModelTokenUsage { input, from_cache, into_cache, output, .. } = *share;
        if input + output == 0 {
            return Some(0);
        }
        let model = share.model.as_deref().or(self.model.as_deref())?;
        let price = MODEL_TABLE.price(model)?;
        // Only the sum of its requests is told: none was larger than that.
        let window =
            MODEL_TABLE.window(self.program, price.model).filter(|_| self.has_default_settings);
        let largest = window.map_or(input, |window| window.min(input));
        if price.max_request_tokens.is_some_and(|most| largest > most) {
            return None;
        }
        let fresh = input.checked_sub(from_cache)?.checked_sub(into_cache)?;
        let parts = [
            (fresh, Some(price.input)),
            (from_cache, price.from_cache),
            (into_cache, price.into_cache),
            (output, Some(price.output)),
        ];
        let cost = |(tokens, micros): (u64, Option<u64>)| match tokens {
            0 => Some(0),
            tokens => micros.map(|micros| u128::from(tokens) * u128::from(micros)),
        };
        parts.into_iter().map(cost).sum()
    }
}

const MILLION: u128 = 1_000_000;

#[derive(Default)]
struct ModelTable {
    programs: Vec<ProgramNaming>,
    aliases: Vec<ModelAlias>,
    prices: Vec<ModelPrice>,
    windows: Vec<ContextWindow>,
    /// Lines that are none of these.
    invalid_lines: Vec<&'static str>,
}

/// How a program wants names.
struct ProgramNaming {
    name: &'static str,
    form: ModelNameForm,
    providers: Vec<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ModelNameForm {
    /// `model`
    Bare,
    /// `provider/model`
    Full,
}

struct ModelAlias {
    name: &'static str,
    model: &'static str,
    native_programs: Vec<&'static str>,
}

/// In micro-dollars for a million tokens.
struct ModelPrice {
    model: &'static str,
    input: u64,
    output: u64,
    from_cache: Option<u64>,
    into_cache: Option<u64>,
    max_request_tokens: Option<u64>,
    /// The day it was so. For whoever reads the table.
    #[cfg_attr(not(test), expect(dead_code, reason = "a price without a day is no price"))]
    as_of: &'static str,
}

struct ContextWindow {
    program: &'static str,
    model: &'static str,
    tokens: u64,
}

impl ModelTable {
    fn parse(text: &'static str) -> Self {
        let mut table = Self::default();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            let mut words = line.split_whitespace();
            let known = match words.next() {
                Some("program") => parse_program(&mut words).map(|row| table.programs.push(row)),
                Some("alias") => parse_alias(&mut words).map(|row| table.aliases.push(row)),
                Some("price") => parse_price(&mut words).map(|row| table.prices.push(row)),
                Some("window") => parse_window(&mut words).map(|row| table.windows.push(row)),
                _ => None,
            };
            if known.is_none() || words.next().is_some() {
                table.invalid_lines.push(line);
            }
        }
        table
    }

    /// A name as a program wants it. `auto` and nothing are its own choice.
    fn program_model_name(&self, program: &str, written: Option<&str>) -> Option<String> {
        let written = written.filter(|name| !["", "auto"].contains(name))?;
        let Some(program) = self.programs.iter().find(|row| row.name == program) else {
            return Some(written.to_owned());
        };
        let (provider, name) = match written.split_once(['/', ':']) {
            Some((provider, name)) if program.accepts_provider(self, provider) => {
                (Some(provider), name)
            }
            Some(_) | None => (None, written),
        };
        if name == "auto" {
            return None;
        }
        let fits = |row: &&ModelAlias| {
            let of = provider_of(row.model);
            row.name == name
                && program.accepts_provider(self, of)
                && provider.is_none_or(|given| given == of)
        };
        let alias = self.aliases.iter().find(fits);
        let alias = alias.filter(|row| !row.native_programs.contains(&program.name));
        let full = match (alias, provider) {
            (Some(alias), _) => alias.model.to_owned(),
            (None, Some(provider)) => format!("{provider}/{name}"),
            // A bare name is whole where its price is known.
            (None, None) => match self.price(name) {
                Some(price) if program.accepts_provider(self, provider_of(price.model)) => {
                    format!("{}/{name}", provider_of(price.model))
                }
                Some(_) | None => return Some(name.to_owned()),
            },
        };
        Some(match program.form {
            ModelNameForm::Full => full,
            ModelNameForm::Bare => bare_name(&full).to_owned(),
        })
    }

    /// The price of a model, by its name with or without a provider, and with or without the day of a snapshot.
    fn price(&self, model: &str) -> Option<&ModelPrice> {
        let find = |name: &str| {
            let is_it = |row: &&ModelPrice| row.model == name || bare_name(row.model) == name;
            self.prices.iter().find(is_it)
        };
        find(model).or_else(|| find(without_snapshot_date(model)?))
    }

    fn window(&self, program: &str, model: &str) -> Option<u64> {
        let is_it = |row: &&ContextWindow| row.program == program && row.model == model;
        self.windows.iter().find(is_it).map(|row| row.tokens)
    }
}

impl ProgramNaming {
    /// Whether it has models of a provider.
    fn accepts_provider(&self, table: &ModelTable, provider: &str) -> bool {
        match self.form {
            ModelNameForm::Bare => self.providers.contains(&provider),
            ModelNameForm::Full => {
                table.prices.iter().any(|row| provider_of(row.model) == provider)
            }
        }
    }
}

fn provider_of(model: &str) -> &str {
    model.split_once('/').map_or("", |(provider, _)| provider)
}

fn bare_name(model: &str) -> &str {
    model.split_once('/').map_or(model, |(_, name)| name)
}

/// The name without the day of a snapshot: `-20251001`, `-2025-11-13`.
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

type ModelTableFields = SplitWhitespace<'static>;

fn parse_program(words: &mut ModelTableFields) -> Option<ProgramNaming> {
    let (name, form) = (words.next()?, words.next()?);
    let form = match form {
        "bare" => ModelNameForm::Bare,
        "full" => ModelNameForm::Full,
        _ => return None,
    };
    Some(ProgramNaming { name, form, providers: parse_list(words.next()?) })
}

fn parse_alias(words: &mut ModelTableFields) -> Option<ModelAlias> {
    Some(ModelAlias {
        name: words.next()?,
        model: words.next()?,
        native_programs: parse_list(words.next()?),
    })
}

fn parse_price(words: &mut ModelTableFields) -> Option<ModelPrice> {
    Some(ModelPrice {
        model: words.next()?,
        input: parse_micros(words.next()?)?,
        output: parse_micros(words.next()?)?,
        from_cache: parse_optional(words.next()?, parse_micros)?,
        into_cache: parse_optional(words.next()?, parse_micros)?,
        max_request_tokens: parse_optional(words.next()?, |word| word.parse().ok())?,
        as_of: words.next()?,
    })
}

fn parse_window(words: &mut ModelTableFields) -> Option<ContextWindow> {
    let (program, model) = (words.next()?, words.next()?);
    Some(ContextWindow { program, model, tokens: words.next()?.parse().ok()? })
}

fn parse_list(word: &'static str) -> Vec<&'static str> {
    if word == "-" { Vec::new() } else { word.split(',').collect() }
}

#[expect(
    clippy::option_option,
    reason = "outside: whether it was understood; inside: whether there is one"
)]
fn parse_optional<T>(word: &str, read: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if word == "-" { Some(None) } else { read(word).map(Some) }
}

/// `1.25` dollars as micro-dollars.
fn parse_micros(word: &str) -> Option<u64> {
    let (whole, part) = word.split_once('.').unwrap_or((word, ""));
    if part.len() > 6 {
        return None;
    }
    format!("{whole}{part:0<6}").parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_line_of_the_table_is_understood_and_says_a_thing_once() {
        let table = &*MODEL_TABLE;
        assert_eq!(table.invalid_lines, <[&str; 0]>::default());
        for cli in VendorCli::ALL {
            assert!(table.programs.iter().any(|row| row.name == cli.word()), "{cli:?}");
        }
        let mut names = HashSet::new();
        let once = |name: &'static str, names: &mut HashSet<_>| {
            assert!(names.insert(name), "{name} is there twice");
        };
        for row in &table.prices {
            once(bare_name(row.model), &mut names);
            assert_ne!(provider_of(row.model), "", "{}", row.model);
            let day: Vec<_> = row.as_of.split('-').map(str::len).collect();
            assert!(day == [4, 2, 2] && row.as_of > "2026", "{}: {}", row.model, row.as_of);
            assert!(0 < row.input && row.input < row.output, "{}", row.model);
            assert!(row.from_cache.is_none_or(|price| price < row.input), "{}", row.model);
        }
        for row in &table.aliases {
            once(row.name, &mut names);
            assert_ne!(provider_of(row.model), "", "{}", row.name);
        }
        for row in &table.windows {
            assert!(table.price(row.model).is_some(), "{}", row.model);
        }
    }

    #[test]
    fn a_line_that_is_wrong_is_noticed() {
        for line in [
            "price a/b 1 2 - - -",
            "price a/b 1 2 - - - 2026-01-01 more",
            "price a/b 0.1234567 2 - - - 2026-01-01",
            "program x odd -",
            "cost a/b 1",
        ] {
            assert_eq!(ModelTable::parse(line).invalid_lines, [line]);
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
            ("somebody", "claude/opus", Some("claude/opus")),
        ] {
            let spelt = MODEL_TABLE.program_model_name(program, Some(written));
            assert_eq!(spelt.as_deref(), expected, "{program}: {written}");
        }
        assert_eq!(model_for(VendorCli::Gemini, None), None);
    }

    #[test]
    fn what_is_known_is_reckoned_to_the_micro_dollar_and_nothing_else_is() {
        let share = |model: &str, input, from_cache, into_cache, output| ModelTokenUsage {
            model: Some(model.to_owned()).filter(|model| !model.is_empty()),
            input,
            from_cache,
            into_cache,
            output,
        };
        let bill = |model: Option<&str>, is_as_usual| PricingContext {
            program: "codex",
            model: model.map(str::to_owned),
            has_default_settings: is_as_usual,
        };
        let usual = bill(Some("gpt-5.1-codex"), true);
        for (what, bill, shares, expected) in [
            // 1.25 × 300 + 10 × 30
            ("the model it was told", &usual, vec![share("", 300, 0, 0, 30)], Some(675)),
            ("100 of them from the cache", &usual, vec![share("", 300, 100, 0, 0)], Some(263)),
            ("its own choice", &bill(None, true), vec![share("", 300, 0, 0, 30)], None),
            ("nobody's", &bill(Some("gpt-7"), true), vec![share("", 1, 0, 0, 0)], None),
            ("said by the program", &usual, vec![share("gpt-6-sol", 10, 0, 0, 1)], Some(30)),
            ("of a snapshot", &usual, vec![share("gpt-5.1-codex-2025-11-13", 4, 0, 0, 0)], Some(5)),
            ("less than a micro-dollar", &usual, vec![share("gpt-6-luna", 1, 0, 0, 0)], Some(1)),
            ("no price into the cache", &usual, vec![share("", 300, 0, 1, 0)], None),
            ("more from the cache than there is", &usual, vec![share("", 1, 2, 0, 0)], None),
            (
                "dearer if in one request",
                &bill(Some("gpt-6.1-sol"), false),
                vec![share("", 272_001, 0, 0, 0)],
                None,
            ),
            (
                "which it never is",
                &bill(Some("gpt-6.1-sol"), true),
                vec![share("", 272_001, 0, 0, 0)],
                Some(544_002),
            ),
            (
                "one of two unknown",
                &usual,
                vec![share("", 1, 0, 0, 0), share("x", 1, 0, 0, 0)],
                None,
            ),
            ("one unused", &usual, vec![share("", 4, 0, 0, 0), share("x", 0, 0, 0, 0)], Some(5)),
            ("nothing at all", &usual, vec![share("", 0, 0, 0, 0)], None),
        ] {
            let usage = bill.usage(&shares);
            assert_eq!(usage.cost_micros, expected, "{what}");
            assert_eq!(usage.cost_reckoned, expected.is_some(), "{what}");
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
