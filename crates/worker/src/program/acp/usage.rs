//! What a turn has used, from what an agent counts: some count the turn, some the whole conversation.

use agent_worker_protocol::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    super::micros,
    agents::{Counts, Preset},
};

/// What the next turn needs to go on.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Conversation {
    id: String,
    /// What all of it has cost, as far as it was said.
    #[serde(default)]
    cost_micros: u64,
}

/// The accounts of a turn.
pub(super) struct Ledger {
    tokens: Counts,
    cost: Counts,
    last: Option<Conversation>,
    /// What it says that things have cost.
    spent: Option<u64>,
}

impl Ledger {
    pub(super) fn new(preset: Option<&Preset>, session: Option<&Value>) -> Self {
        let of = |counts: fn(&Preset) -> Counts| preset.map_or(Counts::Unknown, counts);
        let last = session.and_then(|session| Conversation::deserialize(session).ok());
        let (tokens, cost) = (of(|preset| preset.tokens), of(|preset| preset.cost));
        Self { tokens, cost, last, spent: None }
    }

    /// The conversation to go on with.
    pub(super) fn conversation(&self) -> Option<&str> {
        self.last.as_ref().map(|last| last.id.as_str())
    }

    /// There is none, or it is gone.
    pub(super) fn begin_anew(&mut self) {
        self.last = None;
    }

    /// What things have cost so far. Other currencies are not turned into dollars.
    pub(super) fn cost(&mut self, cost: Option<&Value>) {
        let Some(cost) = cost.filter(|cost| cost["currency"] == "USD") else { return };
        self.spent = cost["amount"].as_f64().map(micros).or(self.spent);
    }

    /// What the next turn has to know.
    pub(super) fn conversation_is(&self, id: &str) -> Value {
        let before = self.last.as_ref().map_or(0, |last| last.cost_micros);
        let cost_micros = self.spent.unwrap_or(before);
        json!(Conversation { id: id.to_owned(), cost_micros })
    }

    /// What this turn has used, once it is over.
    pub(super) fn close(&self, result: &Value) -> Option<Usage> {
        let (input_tokens, output_tokens) = match self.tokens {
            Counts::Turn => tokens(result).unwrap_or_default(),
            Counts::Conversation | Counts::Unknown => (0, 0),
        };
        let cost_micros = match (self.cost, &self.last, self.spent) {
            // The first turn of a conversation is all of it.
            (Counts::Turn, _, spent) | (_, None, spent) => spent,
            (Counts::Conversation, Some(last), spent) => {
                spent.map(|spent| spent.saturating_sub(last.cost_micros))
            }
            (Counts::Unknown, Some(_), _) => None,
        };
        let usage = Usage { input_tokens, output_tokens, cost_micros, cost_reckoned: false };
        (input_tokens + output_tokens > 0 || cost_micros > Some(0)).then_some(usage)
    }
}

/// In and out, wherever they stand. What was read from a cache went in too.
fn tokens(result: &Value) -> Option<(u64, u64)> {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    if let Some(usage) = result.get("usage").filter(|usage| usage.is_object()) {
        let of = |names: &[&str]| names.iter().map(|name| number(&usage[*name])).sum();
        let input = of(&["inputTokens", "cachedReadTokens", "cachedWriteTokens"]);
        return Some((input, of(&["outputTokens"])));
    }
    let counted = result.pointer("/_meta/quota/token_count")?;
    Some((number(&counted["input_tokens"]), number(&counted["output_tokens"])))
}
