//! The usage of a turn, from the counts of an agent: some agents count the turn, some the whole conversation.

use agent_worker_backends::{AcpAgentSpec, AcpUsageScope};
use agent_worker_protocol::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::usd_to_micros;

/// The data that the next turn needs to continue.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct AcpSession {
    id: String,
    /// Cost of the whole conversation, as far as the agent reported it.
    #[serde(default)]
    cost_micros: u64,
}

/// Tracks the usage of a turn.
pub(super) struct AcpUsageTracker {
    tokens: AcpUsageScope,
    cost: AcpUsageScope,
    last: Option<AcpSession>,
    /// The cost that the agent reported last.
    reported_micros: Option<u64>,
}

impl AcpUsageTracker {
    pub(super) fn new(spec: Option<&AcpAgentSpec>, session: Option<&Value>) -> Self {
        let of = |counts: fn(&AcpAgentSpec) -> AcpUsageScope| {
            spec.map_or(AcpUsageScope::Unknown, counts)
        };
        let last = session.and_then(|session| AcpSession::deserialize(session).ok());
        let (tokens, cost) = (of(|spec| spec.tokens), of(|spec| spec.cost));
        Self { tokens, cost, last, reported_micros: None }
    }

    /// Returns the conversation to continue.
    pub(super) fn session_id(&self) -> Option<&str> {
        self.last.as_ref().map(|last| last.id.as_str())
    }

    /// Forgets the earlier conversation, which does not exist or is gone.
    pub(super) fn reset_session(&mut self) {
        self.last = None;
    }

    /// Records the reported cost. Ignores currencies other than dollars.
    pub(super) fn record_cost(&mut self, cost: Option<&Value>) {
        let Some(cost) = cost.filter(|cost| cost["currency"] == "USD") else { return };
        self.reported_micros = cost["amount"].as_f64().map(usd_to_micros).or(self.reported_micros);
    }

    /// Returns the data that the next turn needs.
    pub(super) fn session_json(&self, id: &str) -> Value {
        let before = self.last.as_ref().map_or(0, |last| last.cost_micros);
        let cost_micros = self.reported_micros.unwrap_or(before);
        json!(AcpSession { id: id.to_owned(), cost_micros })
    }

    /// Returns the usage of this turn after its end.
    pub(super) fn turn_usage(&self, result: &Value) -> Option<Usage> {
        let (input_tokens, output_tokens) = match self.tokens {
            AcpUsageScope::Turn => token_counts(result).unwrap_or_default(),
            AcpUsageScope::Conversation | AcpUsageScope::Unknown => (0, 0),
        };
        let cost_micros = match (self.cost, &self.last, self.reported_micros) {
            // The first turn of a conversation used all of its total.
            (AcpUsageScope::Turn, _, spent) | (_, None, spent) => spent,
            (AcpUsageScope::Conversation, Some(last), spent) => {
                spent.map(|spent| spent.saturating_sub(last.cost_micros))
            }
            (AcpUsageScope::Unknown, Some(_), _) => None,
        };
        let usage = Usage { input_tokens, output_tokens, cost_micros, cost_reckoned: false };
        (input_tokens + output_tokens > 0 || cost_micros > Some(0)).then_some(usage)
    }
}

/// Returns input and output tokens from either place in the result. Tokens read from a cache count as input.
fn token_counts(result: &Value) -> Option<(u64, u64)> {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    if let Some(usage) = result.get("usage").filter(|usage| usage.is_object()) {
        let of = |names: &[&str]| names.iter().map(|name| number(&usage[*name])).sum();
        let input = of(&["inputTokens", "cachedReadTokens", "cachedWriteTokens"]);
        return Some((input, of(&["outputTokens"])));
    }
    let counted = result.pointer("/_meta/quota/token_count")?;
    Some((number(&counted["input_tokens"]), number(&counted["output_tokens"])))
}
