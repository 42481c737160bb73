//! Proposals: create, vote, cancel, read. `tally` counts the votes, and the store applies the effects.

use std::fmt::Write as _;

use agent_worker_protocol::{
    AgentName, EffectKey, Keyword as _, Millis, Permission, Proposal, ProposalId, Sender, ToolName,
    WorkflowId,
    api::{
        CancelRequest, ListPage, ProposalOutcome, ProposalRequest, ProposalView, ProposalsReply,
        VoteRequest,
    },
};
use agent_worker_store::{
    HopContext, Instance, ListRange, NewBallot, NewCancellation, NewProposal, Now,
    ProposalAuthority, ProposalQuery, StoreTime, TallyRule,
};

use crate::{
    access::instance_resolution::InstanceSelector,
    error::{Error, Result},
    kernel::{Kernel, Principal, RunContext},
    scheduling::limits,
    views::page::PageRequest,
    voting::{
        electorate::ProposalTeam,
        notices, tally,
        terms::{self, terms},
    },
};

/// Maximum number of decisions in a prompt.
const MAX_PROMPT_DECISIONS: u32 = 20;

/// Selects proposals of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalFilter {
    /// Proposals that are open for votes.
    Open,
    /// All proposals of the instance.
    All,
}

/// The decisions of an instance as a document. Invariant: the text is append-only.
pub(crate) struct DecisionsDocument {
    /// Number of ended proposals.
    pub(crate) count: i64,
    /// Text of the decisions, in the order of their ends.
    pub(crate) content: String,
    /// Time of the last end.
    pub(crate) last: Option<Millis>,
}

/// Creates proposals and casts votes.
#[derive(Clone, Copy)]
pub struct Proposals<'k>(pub(crate) &'k Kernel);

impl Proposals<'_> {
    /// Creates a proposal and wakes its voters.
    pub async fn create(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        request: ProposalRequest,
    ) -> Result<ProposalOutcome> {
        who.require(Permission::Send)?;
        let by = who.author_with_key(key)?;
        self.0.pass_gate(who, ToolName::ProposalCreate).await?;
        let selector =
            InstanceSelector { target: request.target.clone(), project: request.project.clone() };
        let (instance, run) = self.0.live_instance(who, &selector).await?;
        let run_context = self.0.run_context(run).await?;
        run_context.require_votes()?;
        if let Some(work) = request.work {
            self.0.store.message_receipts(instance.id, work).await?;
        }
        let lasts = terms::voting_duration(request.deadline).map_err(Error::BadRequest)?;
        let creator = match who {
            Principal::Agent(attempt) => Some(run_context.agent(&attempt.fence.agent)?),
            Principal::User | Principal::Client(_) | Principal::Anonymous => None,
        };
        let context = ProposalTeam {
            team: &run_context.team,
            gates: &run_context.script.workflow.gates,
            finisher: run_context.script.workflow.finisher.as_ref(),
            authority: voting_right(who),
            creator,
        };
        let terms = terms(request, context).map_err(Error::BadRequest)?;
        let now = self.0.now();
        let new = NewProposal {
            terms,
            voting_period: lasts,
            recipients: notices::voters_to_wake,
            hop_context: proposal_hops(who, &run_context),
        };
        let once = self.0.store.proposal_create(by, instance.id, new, now).await?;
        self.0.end_hold(who).await;
        let deduplicated = once.is_deduplicated();
        let proposal = once.value();
        let state = self.0.proposal_of(&instance, proposal).await?.state;
        Ok(ProposalOutcome { proposal, state, deduplicated })
    }

    /// Casts a vote, or changes it.
    pub async fn vote(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        id: ProposalId,
        request: VoteRequest,
    ) -> Result<ProposalOutcome> {
        who.require(Permission::Approve)?;
        let by = who.author_with_key(key)?;
        self.0.pass_gate(who, ToolName::Vote).await?;
        let selector = InstanceSelector { target: request.target, project: request.project };
        let (instance, run) = self.0.live_instance(who, &selector).await?;
        let run_context = self.0.run_context(run).await?;
        let proposal = self.0.proposal_of(&instance, id).await?;
        let choice =
            terms::resolve_choice(&proposal, &request.choice).map_err(Error::BadRequest)?;
        let reason = request.reason.map(|why| terms::single_line(&why, "a reason")).transpose();
        let reason = reason.map_err(Error::BadRequest)?;
        let (right, said) = (voting_right(who), proposal_hops(who, &run_context));
        let ballot =
            NewBallot { proposal: id, choice, reason, authority: right, hop_context: said };
        let (deciding, now) = (self.0.new_deciding()?, self.0.now());
        let once = self.0.store.ballot_cast(by, instance.id, ballot, deciding, now).await?;
        self.0.end_hold(who).await;
        let deduplicated = once.is_deduplicated();
        Ok(ProposalOutcome { proposal: id, state: once.value(), deduplicated })
    }

    /// Cancels a proposal, as its author or as a person, whose objection is a veto.
    pub async fn cancel(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        id: ProposalId,
        request: CancelRequest,
    ) -> Result<ProposalOutcome> {
        who.require_either(Permission::Send, Permission::Approve)?;
        let by = who.author_with_key(key)?;
        self.0.pass_gate(who, ToolName::ProposalCancel).await?;
        let selector = InstanceSelector { target: request.target, project: request.project };
        let (instance, run) = self.0.live_instance(who, &selector).await?;
        let said = proposal_hops(who, &*self.0.run_context(run).await?);
        let why = request.why.map(|why| terms::single_line(&why, "a reason")).transpose();
        let why = why.map_err(Error::BadRequest)?;
        let cancel = NewCancellation {
            proposal: id,
            why,
            authority: voting_right(who),
            recipients: notices::agents_to_wake_at_end,
            hop_context: said,
        };
        let now = self.0.now();
        let once = self.0.store.proposal_cancel(by, instance.id, cancel, now).await?;
        let deduplicated = once.is_deduplicated();
        Ok(ProposalOutcome { proposal: id, state: once.value(), deduplicated })
    }

    /// Lists the open proposals, or all.
    pub async fn list(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        which: ProposalFilter,
        page: &PageRequest,
    ) -> Result<ProposalsReply> {
        who.require(Permission::Read)?;
        let mut page = page.start::<ProposalId, _>("proposals")?;
        let instance = self.0.resolve_instance(who, selector).await?;
        let which = match which {
            ProposalFilter::Open => ProposalQuery::Active,
            ProposalFilter::All => ProposalQuery::All(page.range(|id| Some(*id))),
        };
        for proposal in self.0.store.proposal_list(instance.id, which, self.0.now()).await? {
            page.push(proposal.id, ProposalView::from(proposal));
        }
        let ListPage { items, next } = page.finish()?;
        Ok(ProposalsReply { instance: instance.instance, items, next })
    }

    /// Returns one proposal with its votes.
    pub async fn get(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        id: ProposalId,
    ) -> Result<ProposalView> {
        who.require(Permission::Read)?;
        let instance = self.0.resolve_instance(who, selector).await?;
        self.0.proposal_of(&instance, id).await.map(ProposalView::from)
    }
}

impl Kernel {
    async fn proposal_of(&self, instance: &Instance, id: ProposalId) -> Result<Proposal> {
        let found = self.store.proposal_get(instance.id, id, self.now()).await?;
        found.ok_or_else(|| Error::missing(format!("proposal #{id}"), &instance.instance))
    }

    /// Settles due proposals, and returns the time of the next deadline.
    pub(crate) async fn settle_proposals(
        &self,
        run_context: &RunContext,
        now: Now,
    ) -> Result<Option<StoreTime>> {
        let due = self.store.proposal_due(run_context.workflow).await?;
        if due.is_none_or(|due| due > now.store) {
            return Ok(due);
        }
        self.store.proposal_settle(run_context.workflow, self.new_deciding()?, now).await?;
        Ok(self.store.proposal_due(run_context.workflow).await?)
    }

    /// Returns the last decisions of a run, one line each.
    pub(crate) async fn recent_decisions(&self, run_context: &RunContext) -> Result<Vec<String>> {
        let which = ProposalQuery::Decided(run_context.run, MAX_PROMPT_DECISIONS);
        let decided = self.store.proposal_list(run_context.workflow, which, self.now()).await?;
        Ok(decided.iter().filter_map(Proposal::decision_line).collect())
    }

    /// Returns all decisions of an instance as a document.
    pub(crate) async fn decisions_document(
        &self,
        workflow: WorkflowId,
    ) -> Result<DecisionsDocument> {
        let proposals = self
            .store
            .proposal_list(workflow, ProposalQuery::All(ListRange::all()), self.now())
            .await?;
        let mut over: Vec<_> = proposals.iter().filter(|one| one.ended.is_some()).collect();
        over.sort_by_key(|one| (one.ended, one.id));
        Ok(DecisionsDocument {
            count: i64::try_from(over.len()).unwrap_or(i64::MAX),
            content: decisions_text(&over),
            last: over.last().and_then(|one| one.ended),
        })
    }

    /// Lets an agent call a tool unless its file names a gate for the tool that no vote has opened. An open gate
    /// stays open.
    pub(crate) async fn pass_gate(&self, who: &Principal, tool: ToolName) -> Result<()> {
        let Principal::Agent(attempt) = who else { return Ok(()) };
        let run_context = self.run_context(attempt.run).await?;
        match self.closed_gate(&run_context, &attempt.fence.agent, tool).await? {
            Some(gate) => Err(Error::GateClosed { tool: tool.word(), gate }),
            None => Ok(()),
        }
    }

    /// Returns the closed gate that keeps an agent from calling a tool, if there is one.
    pub(crate) async fn closed_gate(
        &self,
        run_context: &RunContext,
        agent: &AgentName,
        tool: ToolName,
    ) -> Result<Option<String>> {
        let Some(gate) = run_context.agent(agent)?.requires.get(tool.word()) else {
            return Ok(None);
        };
        let is_open = self.store.run_gates(run_context.run).await?.contains(gate);
        Ok(if is_open { None } else { Some(gate.clone()) })
    }

    fn new_deciding(&self) -> Result<TallyRule> {
        let secret = self.random.random_bytes()?;
        let dice = secret.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Ok(TallyRule {
            tally: tally::tally,
            tie_break_seed: dice,
            recipients: notices::agents_to_wake_at_end,
            effect_text: notices::effect_text,
        })
    }
}

/// Returns the authority of a caller over proposals; an agent has only its own, whatever its permissions.
fn voting_right(who: &Principal) -> ProposalAuthority {
    match who {
        Principal::User => ProposalAuthority::Person,
        Principal::Client(_) if who.may(Permission::Approve) => ProposalAuthority::Person,
        Principal::Client(_) | Principal::Agent(_) | Principal::Anonymous => ProposalAuthority::Own,
    }
}

/// Returns the hops of a proposal: effects of an attempt carry its hops, whatever the sender is.
pub(crate) fn proposal_hops(who: &Principal, run_context: &RunContext) -> HopContext {
    let hops = match who {
        Principal::Agent(attempt) => limits::hop_count(&attempt.shown, None),
        Principal::User | Principal::Client(_) | Principal::Anonymous => 0,
    };
    HopContext { hops, pause: limits::hop_limit_cause(hops, &run_context.limits) }
}

fn decisions_text(over: &[&Proposal]) -> String {
    let mut text = String::from("# Decisions\n");
    if over.is_empty() {
        text.push_str("\nNo decisions yet.\n");
    }
    for proposal in over {
        let title = proposal.terms.title.replace('\n', " ");
        let when = proposal.ended.map(|at| at.to_string()).unwrap_or_default();
        let binding = if proposal.terms.binding { "binding" } else { "advisory" };
        let _ = writeln!(
            text,
            "\n## #{} {title}\n\n{} ({}, {binding})",
            proposal.id, proposal.state, proposal.terms.kind
        );
        if let Some(effect) = proposal.state.effect() {
            let _ = writeln!(text, "{effect}");
        }
        let _ = writeln!(text, "made by {}, ended {when}", proposal.created_by);
        for ballot in &proposal.ballots {
            let why = ballot.reason.as_ref().map(|why| format!(": {}", why.replace('\n', " ")));
            let _ =
                writeln!(text, "- {} {}{}", ballot.voter, ballot.choice, why.unwrap_or_default());
        }
    }
    text
}

/// Returns the default electorate: all agents of the team.
pub(crate) fn default_electorate(team: &[AgentName]) -> Vec<Sender> {
    team.iter().cloned().map(Sender::Agent).collect()
}
