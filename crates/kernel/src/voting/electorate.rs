//! The voters of a proposal and the rule by which they decide. Pure.
//!
//! A binding proposal with a gate, a role or work changes the rights of the team. Invariant: no agent decides such a
//! proposal alone. An agent that creates one chooses neither the electorate nor any term that replaces votes, and its
//! own ballot does not count for a gate that its `requires` names. The workflow file may fix the voters and the rule
//! of a gate for everybody.

use std::collections::BTreeMap;

use agent_worker_protocol::{
    AgentName, AgentSettings, ProposalKind, Rule, Sender, api::ProposalRequest,
};
use agent_worker_store::ProposalAuthority;
use agent_worker_workflow::GateSettings;

use crate::voting::proposals::default_electorate;

/// The facts about a proposal's team and creator that decide who votes.
#[derive(Clone, Copy)]
pub(crate) struct ProposalTeam<'a> {
    /// All agents of the team.
    pub(crate) team: &'a [AgentName],
    /// Gates whose voters and rule the workflow file fixes.
    pub(crate) gates: &'a BTreeMap<String, GateSettings>,
    /// Agent that the workflow file names as the finisher, if it names one.
    pub(crate) finisher: Option<&'a AgentName>,
    /// The right by which the creator acts.
    pub(crate) authority: ProposalAuthority,
    /// The creator, if it is an agent.
    pub(crate) creator: Option<&'a AgentSettings>,
}

/// The voters of a proposal, and the rule that counts their votes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VotingTerms {
    pub(crate) electorate: Vec<Sender>,
    pub(crate) rule: Rule,
}

/// Returns the voters and the rule of a proposal, or a text about a term that its creator may not choose. `gate` is
/// the normalized name of the gate.
pub(crate) fn voting_terms(
    request: &ProposalRequest,
    kind: ProposalKind,
    gate: Option<&str>,
    context: ProposalTeam<'_>,
) -> Result<VotingTerms, String> {
    let changes_rights =
        request.binding && (gate.is_some() || request.role.is_some() || request.work.is_some());
    let asked = request.electorate.as_deref();
    let asked = asked.map(|named| named_voters(named, context.team)).transpose()?;
    if !changes_rights {
        let rule = request.rule.unwrap_or(default_rule(kind));
        let electorate = asked.unwrap_or_else(|| default_electorate(context.team));
        return Ok(VotingTerms { electorate, rule });
    }
    let fixed = gate.and_then(|gate| context.gates.get(gate));
    match (fixed, context.authority) {
        (Some(fixed), _) => refuse_other_terms(request, asked.as_deref(), fixed, context.team)?,
        (None, ProposalAuthority::Own) => refuse_own_terms(request)?,
        (None, ProposalAuthority::Person) => {}
    }
    let rule = match (fixed, context.authority) {
        (Some(fixed), _) => fixed.rule.unwrap_or(Rule::Majority),
        // With a plurality, the one vote of the creator could win against a divided team.
        (None, ProposalAuthority::Own) => request.rule.unwrap_or(Rule::Majority),
        (None, ProposalAuthority::Person) => request.rule.unwrap_or(default_rule(kind)),
    };
    let chosen = fixed.and_then(|fixed| fixed_voters(fixed, context.team)).or(asked);
    let is_default = chosen.is_none();
    let mut electorate = chosen.unwrap_or_else(|| default_electorate(context.team));
    if let (Some(creator), Some(gate)) = (context.creator, gate)
        && creator.requires.values().any(|required| required == gate)
    {
        electorate.retain(|voter| *voter != Sender::Agent(creator.name.clone()));
    }
    // A team of one, or a team without a voter: the user decides.
    if electorate.is_empty() || is_default && context.team.len() == 1 {
        electorate = vec![Sender::User];
    }
    Ok(VotingTerms { electorate, rule })
}

fn default_rule(kind: ProposalKind) -> Rule {
    match kind {
        ProposalKind::Approval => Rule::Majority,
        ProposalKind::Election | ProposalKind::Decision | ProposalKind::Assignment => {
            Rule::Plurality
        }
    }
}

/// Refuses the terms by which a creator without the right of a person could decide alone.
fn refuse_own_terms(request: &ProposalRequest) -> Result<(), String> {
    let refused = [
        ("electorate", request.electorate.is_some()),
        ("quorum", request.quorum.is_some()),
        ("fallback", request.fallback.is_some()),
        ("rule: plurality", request.rule == Some(Rule::Plurality)),
    ];
    match refused.into_iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((term, _)) => Err(format!(
            "only a person may choose `{term}` for a binding proposal with `gate`, `role` or `work`; omit it"
        )),
    }
}

/// Refuses terms that differ from those that the workflow file fixes for a gate.
fn refuse_other_terms(
    request: &ProposalRequest,
    asked: Option<&[Sender]>,
    fixed: &GateSettings,
    team: &[AgentName],
) -> Result<(), String> {
    let rule = fixed.rule.unwrap_or(Rule::Majority);
    let voters = fixed_voters(fixed, team).unwrap_or_else(|| default_electorate(team));
    let refused = [
        ("electorate", asked.is_some_and(|asked| asked != voters)),
        ("rule", request.rule.is_some_and(|asked| asked != rule)),
        ("quorum", request.quorum.is_some()),
        ("fallback", request.fallback.is_some()),
    ];
    match refused.into_iter().find(|(_, differs)| *differs) {
        None => Ok(()),
        Some((changed, _)) => {
            Err(format!("the workflow file fixes who decides about this gate; omit `{changed}`"))
        }
    }
}

/// Returns the voters that the file names and that are still in the team.
fn fixed_voters(fixed: &GateSettings, team: &[AgentName]) -> Option<Vec<Sender>> {
    let is_present = |voter: &&Sender| match voter {
        Sender::Agent(name) => team.contains(name),
        Sender::User | Sender::System | Sender::Client(_) => true,
    };
    Some(fixed.electorate.as_ref()?.iter().filter(is_present).cloned().collect())
}

/// Returns the voters that a request names, in the spelling of the team and each once.
fn named_voters(named: &[Sender], team: &[AgentName]) -> Result<Vec<Sender>, String> {
    let mut voters: Vec<Sender> = Vec::new();
    for voter in named {
        let known = match voter {
            Sender::User => Some(Sender::User),
            Sender::Agent(name) => {
                team.iter().find(|agent| *agent == name).cloned().map(Sender::Agent)
            }
            Sender::System | Sender::Client(_) => None,
        };
        let known = known
            .ok_or_else(|| format!("`{voter}` is not an agent of the team and cannot vote"))?;
        if !voters.contains(&known) {
            voters.push(known);
        }
    }
    if voters.is_empty() {
        return Err("the electorate is empty".into());
    }
    Ok(voters)
}

#[cfg(test)]
mod tests;
