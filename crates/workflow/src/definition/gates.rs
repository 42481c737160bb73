//! `gates:` section: the voters and the rule of the votes that open a gate. A proposal cannot change them.

use std::collections::BTreeMap;

use agent_worker_protocol::{AgentName, AgentSettings, Rule, Sender};
use serde::{Deserialize, Serialize};

use crate::{
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        spelling::nearest,
    },
    yaml::fields::{AllowedKeys, YamlField, YamlKey},
};

const GATE_KEYS: AllowedKeys = AllowedKeys { known: &["electorate", "rule"], planned: &[] };
const RULES: [(&str, Rule); 2] = [("majority", Rule::Majority), ("unanimous", Rule::Unanimous)];
/// The word for the user in an electorate.
const USER: &str = "user";

/// Settings of one gate, as the file fixes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateSettings {
    /// Voters that decide; absent: every agent of the team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub electorate: Option<Vec<Sender>>,
    /// Rule of the vote; absent: majority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
}

/// Reads every gate. A gate that no agent requires is a mistake: a misspelt name would leave the intended gate open to
/// other rules.
pub(crate) fn read(
    field: &YamlField<'_>,
    agents: &[AgentSettings],
    diagnostics: &mut Diagnostics,
) -> BTreeMap<String, GateSettings> {
    let mut gates = BTreeMap::new();
    for (key, field) in diagnostics.ok_or_add(field.named_entries()).unwrap_or_default() {
        if diagnostics.is_full() {
            break;
        }
        diagnostics.ok_or_add(check_required(&key, agents));
        let Some(fields) = field.fields(&GATE_KEYS, diagnostics) else { continue };
        let electorate = fields.get("electorate");
        let electorate = electorate.map(|field| read_electorate(&field, agents, diagnostics));
        let rule = fields.read_with("rule", diagnostics, |field| field.one_of(&RULES, &[]));
        gates.insert(key.text.to_owned(), GateSettings { electorate, rule });
    }
    gates
}

fn check_required(key: &YamlKey<'_>, agents: &[AgentSettings]) -> Result<(), Diagnostic> {
    let required = || agents.iter().flat_map(|agent| agent.requires.values().map(String::as_str));
    if required().any(|gate| gate == key.text) {
        return Ok(());
    }
    let diagnostic = key.diagnostic(format!("no agent requires the gate `{}`", key.text));
    Err(match nearest(key.text, required()) {
        Some(near) => diagnostic.with_hint(format!("did you mean `{near}`?")),
        None => diagnostic.with_hint("an agent requires a gate with `requires: { TOOL: GATE }`"),
    })
}

fn read_electorate(
    field: &YamlField<'_>,
    agents: &[AgentSettings],
    diagnostics: &mut Diagnostics,
) -> Vec<Sender> {
    let mut voters: Vec<Sender> = Vec::new();
    let items = diagnostics.ok_or_add(field.list()).unwrap_or_default();
    if items.is_empty() {
        diagnostics.add(field.must_be("a list of agents and `user`, with at least one entry"));
    }
    for item in items {
        if diagnostics.is_full() {
            break;
        }
        let voter = diagnostics.ok_or_add(read_voter(&item, agents));
        voters.extend(voter.filter(|voter| !voters.contains(voter)));
    }
    voters
}

fn read_voter(field: &YamlField<'_>, agents: &[AgentSettings]) -> Result<Sender, Diagnostic> {
    let text = field.text()?;
    if text == USER {
        return Ok(Sender::User);
    }
    let name = text.parse::<AgentName>().ok();
    let known = agents.iter().find(|agent| Some(&agent.name) == name.as_ref());
    known.map(|agent| Sender::Agent(agent.name.clone())).ok_or_else(|| {
        let diagnostic = field.diagnostic(format!("`{text}` is neither an agent nor `{USER}`"));
        let names = agents.iter().map(|agent| agent.name.as_str()).chain([USER]);
        match nearest(text, names) {
            Some(near) => diagnostic.with_hint(format!("did you mean `{near}`?")),
            None => diagnostic,
        }
    })
}
