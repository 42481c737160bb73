//! Proposals: made, voted on, decided. A vote, the count, the decision and its binding effect are one transaction.
//!
//! Invariant: a proposal that is not active never changes again.

use agent_worker_protocol::{
    AgentName, BallotCastData, EventBody, Proposal, ProposalActiveData, ProposalEndedData,
    ProposalId, ProposalState, Sender, Seq, VoteOutcome, WorkflowId,
};

use super::{
    author::Author,
    binding,
    checksum::PROPOSAL,
    columns,
    effects::once,
    events::EventEntry,
    locked_instance::LockedInstance,
    notices::{self, SystemNotice, UnneededBy},
    proposal_rows::{self, StoredProposal, StoredState, find_proposal, select_proposals},
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

/// Makes a proposal in the live run and notifies its voters.
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
        resolved_by: None,
        hops: new.hop_context.hops,
        terms: new.terms.clone(),
        state: ProposalState::Active,
        ballots: Vec::new(),
    };
    let body = EventBody::ProposalActive(ProposalActiveData { proposal: id });
    let entry = EventEntry::new(body).by(&author.sender()).attempt(author.attempt());
    locked.append_event(&entry.next(proposal.deadline), now)?;
    let recipients = (new.recipients)(&proposal);
    let notice =
        SystemNotice { body: proposal.notice_text(), reply_to: None, recipients: &recipients };
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

/// Records a vote, or replaces an earlier one, and decides the proposal if the votes are sufficient.
pub(crate) fn cast_ballot(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    ballot: &NewBallot,
    deciding: &TallyRule,
    now: Now,
) -> Result<Once<ProposalState>> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let StoredProposal { mut proposal, due, announced } = find_active(locked, ballot.proposal)?;
        if now.store >= due {
            return Err(Error::ProposalClosed { id: proposal.id, how: "past its deadline".into() });
        }
        let voter = author.sender();
        if ballot.authority == ProposalAuthority::Own && !proposal.may_vote(&voter) {
            return Err(Error::NoVote(proposal.id));
        }
        if !proposal.terms.options.iter().any(|option| option.id == ballot.choice) {
            return Err(Error::NotFound("option"));
        }
        let data = BallotCastData { proposal: proposal.id, choice: ballot.choice.clone() };
        let mut entry = EventEntry::new(EventBody::BallotCast(data));
        entry = entry.by(&voter).attempt(author.attempt());
        if let Sender::Agent(name) = &voter {
            entry = entry.agent(name);
        }
        locked.append_event(&entry, now)?;
        let is_tied = |proposal: &Proposal| {
            let step = (deciding.tally)(proposal, deciding.tie_break_seed, DeadlineStatus::Ahead);
            step == ProposalStep::Tied
        };
        let was_tied = is_tied(&proposal);
        put_ballot(locked, &voter, ballot, now)?;
        if let Sender::Agent(name) = &voter {
            let why = format!("voted on proposal #{}", proposal.id);
            notices::drop_unneeded(locked, announced, UnneededBy::Only(name), &why, now)?;
        }
        proposal.ballots = proposal_rows::load_ballots(locked.tx, workflow, &[proposal.id])?
            .take_for(proposal.id)?;
        // The ballot that caused the tie has already woken the creator.
        if was_tied && is_tied(&proposal) {
            return Ok(ProposalState::Active);
        }
        let stored = StoredProposal { proposal, due, announced };
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

/// Cancels a proposal, as its creator or by a person's right.
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
        let wakes = (cancel.recipients)(&proposal, Some(&by), None);
        end_proposal(locked, proposal, state, &wakes, &cancel.hop_context, now)
    })
}

/// Decides every proposal whose deadline has passed; returns their numbers.
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

/// Cancels the active proposals when their run ends.
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
    // A damaged proposal is not in that list. It keeps its old checksum, so that it stays detectable, but does not
    // stay open.
    locked
        .tx
        .prepare_cached("UPDATE proposal SET active = 0 WHERE workflow = ?1 AND active = 1")?
        .execute([locked.workflow.get()])?;
    Ok(())
}

/// Calls the tally rule with the votes and applies its step.
fn tally_and_apply(
    locked: &mut LockedInstance<'_>,
    StoredProposal { mut proposal, due, .. }: StoredProposal,
    deciding: &TallyRule,
    voter: Option<&Sender>,
    hop_context: &HopContext,
    now: Now,
) -> Result<ProposalState> {
    let deadline = if now.store >= due { DeadlineStatus::Passed } else { DeadlineStatus::Ahead };
    let mut state = match (deciding.tally)(&proposal, deciding.tie_break_seed, deadline) {
        ProposalStep::Stay => return Ok(ProposalState::Active),
        ProposalStep::Tied => {
            if let Sender::Agent(creator) = &proposal.created_by {
                let notice = SystemNotice {
                    body: proposal.tie_notice_text(),
                    reply_to: None,
                    recipients: std::slice::from_ref(creator),
                };
                notices::post_notice(locked, &notice, hop_context, now)?;
            }
            return Ok(ProposalState::Active);
        }
        ProposalStep::Resolve(verdict, resolved_by) => {
            proposal.resolved_by = Some(resolved_by);
            ProposalState::Resolved { verdict, effect: None }
        }
        ProposalStep::Expire => {
            ProposalState::Expired { fallback: proposal.terms.fallback.clone(), effect: None }
        }
    };
    let enforced = binding::enforce_decision(locked, &proposal, &state, now)?;
    match &mut state {
        ProposalState::Resolved { verdict: VoteOutcome::Winner { .. }, effect }
        | ProposalState::Expired { effect, .. } => {
            *effect = enforced.effect.as_ref().map(deciding.effect_text);
        }
        ProposalState::Resolved { verdict: VoteOutcome::NoDecision, .. }
        | ProposalState::Active
        | ProposalState::Cancelled { .. } => {}
    }
    let wakes = (deciding.recipients)(&proposal, voter, enforced.assigned.as_ref());
    end_proposal(locked, proposal, state, &wakes, hop_context, now)
}

/// Ends a proposal: its row, the notice of its end, and the kickoff that waited for it.
fn end_proposal(
    locked: &mut LockedInstance<'_>,
    proposal: Proposal,
    state: ProposalState,
    wakes: &[AgentName],
    hop_context: &HopContext,
    now: Now,
) -> Result<ProposalState> {
    let (id, ended) = (proposal.id, state.clone());
    announce_end(locked, proposal, state, hop_context, wakes, now)?;
    runs::write_kickoff(locked, id, now)?;
    Ok(ended)
}

/// Writes the end of a proposal and announces it.
fn announce_end(
    locked: &mut LockedInstance<'_>,
    mut proposal: Proposal,
    state: ProposalState,
    hop_context: &HopContext,
    wakes: &[AgentName],
    now: Now,
) -> Result<()> {
    let data = ProposalEndedData { proposal: proposal.id, state: state.clone() };
    let body = match &state {
        ProposalState::Active => return Ok(()),
        ProposalState::Resolved { .. } => EventBody::ProposalResolved(data),
        ProposalState::Expired { .. } => EventBody::ProposalExpired(data),
        ProposalState::Cancelled { .. } => EventBody::ProposalCancelled(data),
    };
    proposal.state = state;
    let end_seq = write_end(locked, &proposal, now)?;
    locked.append_event(&EventEntry::new(body), now)?;
    // No agent is woken to vote on a proposal that is over.
    let over = format!("proposal #{} is {}", proposal.id, proposal.state.word());
    notices::drop_unneeded(locked, end_seq, UnneededBy::All, &over, now)?;
    let notice =
        SystemNotice { body: proposal.notice_text(), reply_to: Some(end_seq), recipients: wakes };
    notices::post_notice(locked, &notice, hop_context, now).map(drop)
}

/// Writes the end into the proposal's row; returns the message that announced the proposal.
fn write_end(locked: &LockedInstance<'_>, proposal: &Proposal, now: Now) -> Result<Seq> {
    let key = params![locked.workflow.get(), proposal.id.get()];
    let state = StoredState { state: proposal.state.clone(), resolved_by: proposal.resolved_by };
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
                    serde_json::to_string(&state)?,
                    now.wall.get(),
                    proposal.state.decided_option().is_some()
                ],
                |row| columns::seq(row, 0),
            )?;
        Ok(announced)
    })
}

/// Returns the proposal if it accepts votes.
fn find_active(locked: &LockedInstance<'_>, id: ProposalId) -> Result<StoredProposal> {
    let stored =
        find_proposal(locked.tx, locked.workflow, id)?.ok_or(Error::NotFound("proposal"))?;
    match &stored.proposal.state {
        ProposalState::Active => Ok(stored),
        over => Err(Error::ProposalClosed { id, how: over.to_string() }),
    }
}
