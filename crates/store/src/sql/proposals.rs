//! Proposals: made, voted on, decided. A vote, the count, the decision and what it binds are one step.
//!
//! Invariant: a proposal that is not active never changes again.

use agent_worker_protocol::{
    AgentName, EventKind, Proposal, ProposalId, ProposalState, Sender, Seq, VoteOutcome, WorkflowId,
};
use serde_json::json;

use super::{
    author::Author,
    binding,
    checksum::PROPOSAL,
    columns,
    effects::once,
    events::EventEntry,
    locked_instance::LockedInstance,
    notices::{self, SystemNotice},
    proposal_rows::{self, StoredProposal, find_proposal, select_proposals},
    runs,
    transaction::Tx,
};
use crate::{
    db::params,
    error::{Error, Result},
    model::{
        DeadlineStatus, HopContext, NewBallot, NewCancellation, NewProposal, Once,
        ProposalAuthority, ProposalQuery, ProposalStep, TallyRule, WriteContext,
    },
    time::Now,
};

pub(crate) fn create(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    new: &NewProposal,
    now: Now,
) -> Result<Once<ProposalId>> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        open_proposal(locked, author, new, now)
    })
}

/// Makes a proposal in the live run and tells those who vote.
pub(crate) fn open_proposal(
    locked: &mut LockedInstance<'_>,
    author: &Author,
    new: &NewProposal,
    now: Now,
) -> Result<ProposalId> {
    let live = locked.live_run()?.clone();
    let id = ProposalId::new(locked.next_number("last_proposal")?);
    let proposal = Proposal {
        id,
        run: live.id,
        created_by: author.sender(),
        created: now.wall,
        deadline: now.wall.plus(new.voting_period),
        ended: None,
        hops: new.hop_context.hops,
        terms: new.terms.clone(),
        state: ProposalState::Active,
        ballots: Vec::new(),
    };
    let entry =
        EventEntry::new(EventKind::ProposalActive).by(&author.sender()).attempt(author.attempt());
    locked.append_event(&entry.next(proposal.deadline).data(json!({ "proposal": id })), now)?;
    let voters: Vec<_> =
        proposal.voting_agents().filter(|name| !is_creator(&proposal, name)).collect();
    let notice = SystemNotice { body: proposal.notice_text(), reply_to: None, recipients: &voters };
    let seq = notices::post_notice(locked, &notice, &new.hop_context, now)?;
    locked.tx
        .prepare_cached(
            "INSERT INTO proposal (workflow, id, run, creator, created, deadline, hops, seq, terms, state, due, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
             row_checksum('proposal', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 1, NULL, 0))",
        )?
        .execute(params![
            locked.workflow.get(),
            id.get(),
            live.number.0,
            proposal.created_by.to_string(),
            now.wall.get(),
            proposal.deadline.get(),
            proposal.hops,
            seq.get(),
            serde_json::to_string(&proposal.terms)?,
            serde_json::to_string(&proposal.state)?,
            now.store.plus(new.voting_period).get()
        ])?;
    Ok(id)
}

fn is_creator(proposal: &Proposal, name: &AgentName) -> bool {
    matches!(&proposal.created_by, Sender::Agent(creator) if creator == name)
}

/// Takes a vote, or another one in its place, and decides the proposal if that is enough.
pub(crate) fn cast_ballot(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    ballot: &NewBallot,
    deciding: &TallyRule,
    now: Now,
) -> Result<Once<ProposalState>> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let StoredProposal { mut proposal, due } = find_active(locked, ballot.proposal)?;
        if now.store >= due {
            return Err(Error::ProposalClosed {
                id: proposal.id,
                how: "over: its time is up".into(),
            });
        }
        let voter = author.sender();
        if ballot.authority == ProposalAuthority::Own && !proposal.may_vote(&voter) {
            return Err(Error::NoVote(proposal.id));
        }
        if !proposal.terms.options.iter().any(|option| option.id == ballot.choice) {
            return Err(Error::NotFound("option"));
        }
        let mut entry = EventEntry::new(EventKind::BallotCast).by(&voter).attempt(author.attempt());
        if let Sender::Agent(name) = &voter {
            entry = entry.agent(name);
        }
        let data = json!({ "proposal": proposal.id, "choice": ballot.choice });
        locked.append_event(&entry.data(data), now)?;
        put_ballot(locked, &voter, ballot, now)?;
        proposal.ballots = proposal_rows::load_ballots(locked.tx, workflow, &[proposal.id])?
            .take_for(proposal.id)?;
        let stored = StoredProposal { proposal, due };
        tally_and_apply(locked, stored, deciding, Some(&voter), &ballot.hop_context, now)
    })
}

fn put_ballot(
    locked: &LockedInstance<'_>,
    voter: &Sender,
    ballot: &NewBallot,
    now: Now,
) -> Result<()> {
    locked.tx
        .prepare_cached(
            "INSERT INTO ballot (workflow, proposal, voter, choice, reason, at, position, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, row_checksum('ballot', ?1, ?2, ?3, ?4, ?5, ?6, ?7))
             ON CONFLICT (workflow, proposal, voter) DO UPDATE SET
             voter = excluded.voter, choice = excluded.choice, reason = excluded.reason, at = excluded.at,
             position = excluded.position, checksum = excluded.checksum",
        )?
        .execute(params![
            locked.workflow.get(),
            ballot.proposal.get(),
            voter.to_string(),
            ballot.choice,
            ballot.reason,
            now.wall.get(),
            locked.last_event()
        ])?;
    Ok(())
}

/// Takes a proposal back, as its creator, or by a person's right.
pub(crate) fn cancel(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    cancel: &NewCancellation,
    now: Now,
) -> Result<Once<ProposalState>> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let StoredProposal { proposal, .. } = find_active(locked, cancel.proposal)?;
        let by = author.sender();
        let is_own = by == Sender::User || by == proposal.created_by;
        if cancel.authority == ProposalAuthority::Own && !is_own {
            return Err(Error::NotCreator(proposal.created_by));
        }
        let state = ProposalState::Cancelled { by: by.clone(), why: cancel.why.clone() };
        end_proposal(locked, proposal, state, Some(&by), &cancel.hop_context, now)
    })
}

/// Decides every proposal whose time is up; answers with which those were.
pub(crate) fn settle_due_proposals(
    tx: &Tx<'_>,
    workflow: WorkflowId,
    deciding: &TallyRule,
    now: Now,
) -> Result<Vec<ProposalId>> {
    let mut locked = LockedInstance::lock(tx, workflow)?;
    let mut decided = Vec::new();
    for stored in select_proposals(tx, workflow, ProposalQuery::Active)? {
        if stored.due > now.store {
            continue;
        }
        let (id, hops) = (stored.proposal.id, stored.proposal.hops.saturating_add(1));
        let hop_context = HopContext { hops, pause: None };
        if tally_and_apply(&mut locked, stored, deciding, None, &hop_context, now)?
            != ProposalState::Active
        {
            decided.push(id);
        }
    }
    if !decided.is_empty() {
        locked.save()?;
    }
    Ok(decided)
}

/// Takes back what is still voted on when its run ends.
pub(crate) fn cancel_active_proposals(
    locked: &mut LockedInstance<'_>,
    why: &str,
    now: Now,
) -> Result<()> {
    for StoredProposal { proposal, .. } in
        select_proposals(locked.tx, locked.workflow, ProposalQuery::Active)?
    {
        let why = Some(format!("the run ended: {why}"));
        let state = ProposalState::Cancelled { by: Sender::System, why };
        let hop_context = HopContext { hops: proposal.hops, pause: None };
        announce_end(locked, proposal, state, &hop_context, &[], now)?;
    }
    // A damaged proposal is not in that list. It keeps its old checksum, so that it stays detectable, but does not stay open.
    locked
        .tx
        .prepare_cached("UPDATE proposal SET active = 0 WHERE workflow = ?1 AND active = 1")?
        .execute([locked.workflow.get()])?;
    Ok(())
}

/// Asks what follows from the votes, and carries it out.
fn tally_and_apply(
    locked: &mut LockedInstance<'_>,
    StoredProposal { proposal, due }: StoredProposal,
    deciding: &TallyRule,
    voter: Option<&Sender>,
    hop_context: &HopContext,
    now: Now,
) -> Result<ProposalState> {
    let deadline = if now.store >= due { DeadlineStatus::Passed } else { DeadlineStatus::Ahead };
    let state = match (deciding.tally)(&proposal, deciding.tie_break_seed, deadline) {
        ProposalStep::Stay => return Ok(ProposalState::Active),
        ProposalStep::Tied => {
            if let Sender::Agent(creator) = &proposal.created_by {
                let notice = SystemNotice {
                    body: proposal.tie_notice_text(),
                    reply_to: None,
                    recipients: &[creator],
                };
                notices::post_notice(locked, &notice, hop_context, now)?;
            }
            return Ok(ProposalState::Active);
        }
        ProposalStep::Resolve(verdict) => ProposalState::Resolved { verdict, effect: None },
        ProposalStep::Expire => {
            ProposalState::Expired { fallback: proposal.terms.fallback.clone(), effect: None }
        }
    };
    end_proposal(locked, proposal, state, voter, hop_context, now)
}

/// Ends a proposal: what it binds, its row, what is told and who is woken by that.
fn end_proposal(
    locked: &mut LockedInstance<'_>,
    proposal: Proposal,
    mut state: ProposalState,
    actor: Option<&Sender>,
    hop_context: &HopContext,
    now: Now,
) -> Result<ProposalState> {
    let bound = binding::enforce_decision(locked, &proposal, &state, now)?;
    match &mut state {
        ProposalState::Resolved { verdict: VoteOutcome::Winner { .. }, effect }
        | ProposalState::Expired { effect, .. } => *effect = bound.effect,
        ProposalState::Resolved { verdict: VoteOutcome::NoDecision, .. }
        | ProposalState::Active
        | ProposalState::Cancelled { .. } => {}
    }
    let mut wakes: Vec<AgentName> = bound.wakes.into_iter().collect();
    match &proposal.created_by {
        // Whoever ends its own proposal knows.
        Sender::Agent(creator) if actor != Some(&proposal.created_by) => {
            wakes.push(creator.clone());
        }
        Sender::Agent(_) | Sender::User | Sender::System | Sender::Client(_) => {}
    }
    let (id, ended) = (proposal.id, state.clone());
    announce_end(locked, proposal, state, hop_context, &wakes, now)?;
    runs::write_kickoff(locked, id, now)?;
    Ok(ended)
}

/// Writes the end down and tells it.
fn announce_end(
    locked: &mut LockedInstance<'_>,
    mut proposal: Proposal,
    state: ProposalState,
    hop_context: &HopContext,
    wakes: &[AgentName],
    now: Now,
) -> Result<()> {
    let kind = match &state {
        ProposalState::Active => return Ok(()),
        ProposalState::Resolved { .. } => EventKind::ProposalResolved,
        ProposalState::Expired { .. } => EventKind::ProposalExpired,
        ProposalState::Cancelled { .. } => EventKind::ProposalCancelled,
    };
    proposal.state = state;
    let told = write_end(locked, &proposal, now)?;
    let mut data = serde_json::to_value(&proposal.state)?;
    data["proposal"] = json!(proposal.id);
    locked.append_event(&EventEntry::new(kind).data(data), now)?;
    // Nobody is woken to vote on what is over.
    let over = format!("proposal #{} is {}", proposal.id, proposal.state.word());
    notices::drop_unneeded(locked, told, None, &over, now)?;
    let wakes: Vec<_> = wakes.iter().collect();
    let notice =
        SystemNotice { body: proposal.notice_text(), reply_to: Some(told), recipients: &wakes };
    notices::post_notice(locked, &notice, hop_context, now).map(drop)
}

/// Writes the end into the proposal's row; returns the message that announced the proposal.
fn write_end(locked: &LockedInstance<'_>, proposal: &Proposal, now: Now) -> Result<Seq> {
    let key = params![locked.workflow.get(), proposal.id.get()];
    PROPOSAL.update(locked.tx, "p.workflow = ?1 AND p.id = ?2", key, || {
        let announced = locked
            .tx
            .prepare_cached(
                "UPDATE proposal SET active = 0, state = ?3, ended = ?4, decided = ?5
                 WHERE workflow = ?1 AND id = ?2 AND active = 1 RETURNING seq",
            )?
            .query_row(
                params![
                    locked.workflow.get(),
                    proposal.id.get(),
                    serde_json::to_string(&proposal.state)?,
                    now.wall.get(),
                    proposal.state.decided_option().is_some()
                ],
                |row| columns::seq(row, 0),
            )?;
        Ok(announced)
    })
}

/// The proposal, if votes are taken on it.
fn find_active(locked: &LockedInstance<'_>, id: ProposalId) -> Result<StoredProposal> {
    let stored =
        find_proposal(locked.tx, locked.workflow, id)?.ok_or(Error::NotFound("proposal"))?;
    match &stored.proposal.state {
        ProposalState::Active => Ok(stored),
        over => Err(Error::ProposalClosed { id, how: over.to_string() }),
    }
}
