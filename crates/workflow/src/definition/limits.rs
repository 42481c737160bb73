//! `limits:` section: limits at which a run pauses by itself. The defaults depend on the mode of the run.

use agent_worker_protocol::{LimitDefaults, Limits, RunMode, Span, SpendLimits};
use serde::{Deserialize, Serialize};

use crate::{
    diagnostics::diagnostic::Diagnostics,
    yaml::fields::{AllowedKeys, YamlField, YamlFields},
};

const LIMIT_KEYS: AllowedKeys = AllowedKeys {
    known: &["hops", "turns", "wall", "wall_grace", "workers", "cost_usd", "tokens"],
    planned: &["repeats"],
};

/// The keys of the user's configuration file. The number of workers is a setting of the daemon.
const DEFAULT_KEYS: AllowedKeys = AllowedKeys {
    known: &["hops", "turns", "wall", "wall_grace", "cost_usd", "tokens"],
    planned: &[],
};

const MAX_COUNT: u32 = 1_000_000;
/// Maximum number of workers of one run; a machine has fewer.
const MAX_WORKERS: u32 = 1_000;
const MICROS_PER_DOLLAR: u64 = 1_000_000;
const MIN_COST_USD: f64 = 0.0001;
const MAX_COST_USD: f64 = 1e6;
const MIN_WALL: Span = Span::from_millis(1);
const MIN_WALL_GRACE: Span = Span::from_millis(0);
const MAX_WALL: Span = Span::from_secs(365 * 24 * 60 * 60);

/// Limits that the file sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitSettings {
    /// Maximum number of messages in the chain that leads to a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    /// Maximum number of turns of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Maximum time in which a run can work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<Span>,
    /// Time for which live turns may continue after the wall limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_grace: Option<Span>,
    /// Maximum number of workers at once; absent: the daemon's `--workers-per-instance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// Maximum cost of a run, in millionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Maximum number of tokens of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl LimitSettings {
    /// Returns the limits of a run: values of the file have precedence, and every run has limits by default.
    pub fn for_mode(&self, mode: RunMode) -> Limits {
        let default = match mode {
            RunMode::Run => Limits {
                hops: 50,
                turns: Some(200),
                wall: Some(Span::from_secs(2 * 60 * 60)),
                wall_grace: Limits::WALL_GRACE,
                spend: SpendLimits { cost_micros: Some(10 * MICROS_PER_DOLLAR), tokens: None },
            },
            RunMode::Start => Limits {
                hops: 50,
                turns: Some(500),
                wall: None,
                wall_grace: Limits::WALL_GRACE,
                spend: SpendLimits { cost_micros: Some(20 * MICROS_PER_DOLLAR), tokens: None },
            },
        };
        Limits {
            hops: self.hops.unwrap_or(default.hops),
            turns: self.turns.or(default.turns),
            wall: self.wall.or(default.wall),
            wall_grace: self.wall_grace.unwrap_or(default.wall_grace),
            spend: SpendLimits {
                cost_micros: self.cost_micros.or(default.spend.cost_micros),
                tokens: self.tokens.or(default.spend.tokens),
            },
        }
    }

    /// Fills the limits that the file does not set.
    pub(crate) fn or(self, lower: LimitDefaults) -> Self {
        Self {
            hops: self.hops.or(lower.hops),
            turns: self.turns.or(lower.turns),
            wall: self.wall.or(lower.wall),
            wall_grace: self.wall_grace.or(lower.wall_grace),
            workers: self.workers,
            cost_micros: self.cost_micros.or(lower.cost_micros),
            tokens: self.tokens.or(lower.tokens),
        }
    }
}

pub(crate) fn read(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> LimitSettings {
    let Some(fields) = field.fields(&LIMIT_KEYS, diagnostics) else {
        return LimitSettings::default();
    };
    let LimitDefaults { hops, turns, wall, wall_grace, cost_micros, tokens } =
        read_keys(&fields, diagnostics);
    let workers = fields.read_with("workers", diagnostics, |field| field.integer(1..=MAX_WORKERS));
    LimitSettings { hops, turns, wall, wall_grace, workers, cost_micros, tokens }
}

/// Reads the section of the user's configuration file.
pub(crate) fn read_defaults(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> LimitDefaults {
    match field.fields(&DEFAULT_KEYS, diagnostics) {
        Some(fields) => read_keys(&fields, diagnostics),
        None => LimitDefaults::default(),
    }
}

fn read_keys(fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) -> LimitDefaults {
    LimitDefaults {
        hops: fields.read_with("hops", diagnostics, |field| field.integer(1..=MAX_COUNT)),
        turns: fields.read_with("turns", diagnostics, |field| field.integer(1..=MAX_COUNT)),
        wall: fields.read_with("wall", diagnostics, |field| field.span(MIN_WALL..=MAX_WALL)),
        wall_grace: fields
            .read_with("wall_grace", diagnostics, |field| field.span(MIN_WALL_GRACE..=MAX_WALL)),
        cost_micros: fields.read_with("cost_usd", diagnostics, |field| {
            field.decimal(MIN_COST_USD..=MAX_COST_USD).map(usd_to_micros)
        }),
        tokens: fields
            .read_with("tokens", diagnostics, |field| field.integer(1..=u32::MAX).map(u64::from)),
    }
}

/// Converts dollars; a part of a micro-dollar is not allowed to be spent.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
fn usd_to_micros(dollars: f64) -> u64 {
    (dollars * 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_on_by_default_and_the_file_wins() {
        let hours = |n: u64| Some(Span::from_secs(n * 3600));
        let given = LimitSettings { hops: Some(3), wall: hours(5), ..LimitSettings::default() };
        let spending =
            LimitSettings { cost_micros: Some(5), tokens: Some(7), ..LimitSettings::default() };
        let (ten, twenty) = (Some(10_000_000), Some(20_000_000));
        for (settings, mode, hops, turns, wall, (cost_micros, tokens)) in [
            (LimitSettings::default(), RunMode::Run, 50, 200, hours(2), (ten, None)),
            (LimitSettings::default(), RunMode::Start, 50, 500, None, (twenty, None)),
            (given, RunMode::Run, 3, 200, hours(5), (ten, None)),
            (given, RunMode::Start, 3, 500, hours(5), (twenty, None)),
            (spending, RunMode::Run, 50, 200, hours(2), (Some(5), Some(7))),
            (spending, RunMode::Start, 50, 500, None, (Some(5), Some(7))),
        ] {
            let wall_grace = Span::from_secs(30);
            let spend = SpendLimits { cost_micros, tokens };
            assert_eq!(
                settings.for_mode(mode),
                Limits { hops, turns: Some(turns), wall, wall_grace, spend }
            );
        }
    }
}
