//! The cost of a turn by the vendors' price lists, for programs that report only tokens. An unknown cost is `None`.

use agent_worker_backends::{find_price, request_window};
use agent_worker_protocol::Usage;

/// Tokens that a program used of one model, without their cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelTokenUsage {
    /// The model that the program reports; else the configured one applies.
    pub(crate) model: Option<String>,
    /// All input tokens, including the cached ones below.
    pub(crate) input: u64,
    pub(crate) from_cache: u64,
    pub(crate) into_cache: u64,
    pub(crate) output: u64,
}

/// The facts about a program that are known before its turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct PricingContext {
    pub(crate) backend: &'static str,
    /// The configured model, in the form that the program received.
    pub(crate) model: Option<String>,
    /// True if no user settings can make the program's requests larger than by default.
    pub(crate) has_default_settings: bool,
}

impl PricingContext {
    /// Returns the total usage and its list price, which is `None` unless the price of each share is known.
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

    /// Returns the most that a request with this many tokens can cost, whatever the cache does.
    pub(crate) fn maximum_cost(&self, input: u64, output: u64) -> Option<u64> {
        let price = find_price(self.model.as_deref()?)?;
        if price.max_request_tokens.is_some_and(|most| input > most) {
            return None;
        }
        let dearest = price.input.max(price.into_cache.unwrap_or_default());
        let cost =
            u128::from(input) * u128::from(dearest) + u128::from(output) * u128::from(price.output);
        u64::try_from(cost.div_ceil(MILLION)).ok()
    }

    /// Returns the list price in millionths of a micro-dollar.
    fn cost(&self, share: &ModelTokenUsage) -> Option<u128> {
        let ModelTokenUsage { input, from_cache, into_cache, output, .. } = *share;
        if input + output == 0 {
            return Some(0);
        }
        let model = share.model.as_deref().or(self.model.as_deref())?;
        let price = find_price(model)?;
        // Programs report only the sum of their requests, which bounds the largest one.
        let window =
            request_window(self.backend, &price.model).filter(|_| self.has_default_settings);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_that_a_request_can_cost_is_without_a_cached_read_and_with_a_cached_write() {
        let of = |model: &str| PricingContext {
            backend: "api",
            model: Some(model.to_owned()),
            has_default_settings: false,
        };
        // $2.50 into the cache and $10 for a million tokens.
        assert_eq!(of("anthropic/claude-sonnet-5-5").maximum_cost(1_000, 100), Some(3_500));
        assert_eq!(of("anthropic/claude-haiku-5-5").maximum_cost(100_001, 1), None);
        assert_eq!(of("acme/large").maximum_cost(1, 1), None);
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
            backend: "codex",
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
}
