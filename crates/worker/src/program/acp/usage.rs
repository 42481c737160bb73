//! What a turn has used, from what an agent counts: some count the turn, some the whole conversation.

use agent_worker_backends::{AcpAgentSpec, AcpUsageScope};
use agent_worker_protocol::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::usd_to_micros;

/// What the next turn needs to go on.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct AcpSession {
    id: String,
    /// What all of it has cost, as far as it was said.
    #[serde(default)]
    cost_micros: u64,
}

/// The accounts of a turn.
pub(super) struct AcpUsageTracker {
    tokens: AcpUsageScope,
    cost: AcpUsageScope,
    last: Option<AcpSession>,
    /// What it says that things have cost.
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

    /// The conversation to go on with.
    pub(super) fn session_id(&self) -> Option<&str> {
        self.last.as_ref().map(|last| last.id.as_str())
    }

    /// There is none, or it is gone.
    pub(super) fn reset_session(&mut self) {
        self.last = None;
    }

    /// What things have cost so far. Other currencies are not turned into dollars.
    pub(super) fn record_cost(&mut self, cost: Option<&Value>) {
        let Some(cost) = cost.filter(|cost| cost["currency"] == "USD") else { return };
        self.reported_micros = cost["amount"].as_f64().map(usd_to_micros).or(self.reported_micros);
    }

    /// What the next turn has to know.
    pub(super) fn session_json(&self, id: &str) -> Value {
        let before = self.last.as_ref().map_or(0, |last| last.cost_micros);
        let cost_micros = self.reported_micros.unwrap_or(before);
        json!(AcpSession { id: id.to_owned(), cost_micros })
    }

    /// What this turn has used, once it is over.
    pub(super) fn turn_usage(&self, result: &Value) -> Option<Usage> {
        let (input_tokens, output_tokens) = match self.tokens {
            AcpUsageScope::Turn => token_counts(result).unwrap_or_default(),
            AcpUsageScope::Conversation | AcpUsageScope::Unknown => (0, 0),
        };
        let cost_micros = match (self.cost, &self.last, self.reported_micros) {
            // The first turn of a conversation is all of it.
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

/// In and out, wherever they stand. What was read from a cache went in too.
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
