//! Proposals: made, voted on, decided. A vote, the count, the decision and what it binds are one step.
//!
//! Invariant: a proposal that is not active never changes again.

use agent_worker_protocol::{
    AgentName, EventKind, Proposal, ProposalId, ProposalState, Sender, Seq, Verdict, WorkflowId,
};
use rusqlite::params;
use serde_json::json;

use super::{
    author::Author,
    binding,
    checksum::PROPOSAL,
    columns,
    effects::once,
    events::Entry,
    head::Head,
    notices::{self, Notice},
    proposal_rows::{self, Stored, find, select},
    runs,
    writer::Tx,
};
use crate::{
    error::{Error, Result},
    model::{
        By, Deadline, Deciding, NewBallot, NewCancel, NewProposal, Once, ProposalQuery,
        ProposalStep, Right, Said,
    },
    time::Now,
};

pub(super) fn create(
    tx: &Tx<'_>,
    by: &By,
    workflow: WorkflowId,
    new: &NewProposal,
    now: Now,
) -> Result<Once<ProposalId>> {
    once(Head::lock(tx, workflow)?, by, now, |head, author| open(head, author, new, now))
}

/// Makes a proposal in the live run and tells those who vote.
pub(super) fn open(
    head: &mut Head<'_>,
    author: &Author,
    new: &NewProposal,
    now: Now,
) -> Result<ProposalId> {
    let live = head.live()?.clone();
    let id = ProposalId::new(head.next_number("last_proposal")?);
    let proposal = Proposal {
        id,
        run: live.id,
        created_by: author.sender(),
        created: now.wall,
        deadline: now.wall.plus(new.lasts),
        ended: None,
        hops: new.said.hops,
        terms: new.terms.clone(),
        state: ProposalState::Active,
        ballots: Vec::new(),
    };
    let entry = Entry::of(EventKind::ProposalActive).by(&author.sender()).attempt(author.attempt());
    head.event(&entry.next(proposal.deadline).data(json!({ "proposal": id })), now)?;
    let voters: Vec<_> = proposal.agents().filter(|name| !is_creator(&proposal, name)).collect();
    let notice = Notice { body: proposal.notice(), reply_to: None, wakes: &voters };
    let seq = notices::say(head, &notice, &new.said, now)?;
    head.tx
        .prepare_cached(
            "INSERT INTO proposal (workflow, id, run, creator, created, deadline, hops, seq, terms, state, due, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
             row_checksum('proposal', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 1, NULL, 0))",
        )?
        .execute(params![
            head.workflow.get(),
            id.get(),
            live.number.0,
            proposal.created_by.to_string(),
            now.wall.get(),
            proposal.deadline.get(),
            proposal.hops,
            seq.get(),
            serde_json::to_string(&proposal.terms)?,
            serde_json::to_string(&proposal.state)?,
            now.store.plus(new.lasts).get()
        ])?;
    Ok(id)
}

fn is_creator(proposal: &Proposal, name: &AgentName) -> bool {
    matches!(&proposal.created_by, Sender::Agent(creator) if creator == name)
}

/// Takes a vote, or another one in its place, and decides the proposal if that is enough.
pub(super) fn cast(
    tx: &Tx<'_>,
    by: &By,
    workflow: WorkflowId,
    ballot: &NewBallot,
    deciding: &Deciding,
    now: Now,
) -> Result<Once<ProposalState>> {
    once(Head::lock(tx, workflow)?, by, now, |head, author| {
        let Stored { mut proposal, due } = active(head, ballot.proposal)?;
        if now.store >= due {
            return Err(Error::ProposalOver {
                id: proposal.id,
                how: "over: its time is up".into(),
            });
        }
        let voter = author.sender();
        if ballot.right == Right::Own && !proposal.may_vote(&voter) {
            return Err(Error::NoVote(proposal.id));
        }
        if !proposal.terms.options.iter().any(|option| option.id == ballot.choice) {
            return Err(Error::NotFound("option"));
        }
        let mut entry = Entry::of(EventKind::BallotCast).by(&voter).attempt(author.attempt());
        if let Sender::Agent(name) = &voter {
            entry = entry.agent(name);
        }
        let data = json!({ "proposal": proposal.id, "choice": ballot.choice });
        head.event(&entry.data(data), now)?;
        put(head, &voter, ballot, now)?;
        proposal.ballots =
            proposal_rows::ballots(head.tx, workflow, &[proposal.id])?.of(proposal.id)?;
        let stored = Stored { proposal, due };
        step(head, stored, deciding, Some(&voter), &ballot.said, now)
    })
}

fn put(head: &Head<'_>, voter: &Sender, ballot: &NewBallot, now: Now) -> Result<()> {
    head.tx
        .prepare_cached(
            "INSERT INTO ballot (workflow, proposal, voter, choice, reason, at, position, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, row_checksum('ballot', ?1, ?2, ?3, ?4, ?5, ?6, ?7))
             ON CONFLICT (workflow, proposal, voter) DO UPDATE SET
             voter = excluded.voter, choice = excluded.choice, reason = excluded.reason, at = excluded.at,
             position = excluded.position, checksum = excluded.checksum",
        )?
        .execute(params![
            head.workflow.get(),
            ballot.proposal.get(),
            voter.to_string(),
            ballot.choice,
            ballot.reason,
            now.wall.get(),
            head.position()
        ])?;
    Ok(())
}

/// Takes a proposal back, as its creator, or by a person's right.
pub(super) fn cancel(
    tx: &Tx<'_>,
    by: &By,
    workflow: WorkflowId,
    cancel: &NewCancel,
    now: Now,
) -> Result<Once<ProposalState>> {
    once(Head::lock(tx, workflow)?, by, now, |head, author| {
        let Stored { proposal, .. } = active(head, cancel.proposal)?;
        let by = author.sender();
        let is_own = by == Sender::User || by == proposal.created_by;
        if cancel.right == Right::Own && !is_own {
            return Err(Error::NotCreator(proposal.created_by));
        }
        let state = ProposalState::Cancelled { by: by.clone(), why: cancel.why.clone() };
        end(head, proposal, state, Some(&by), &cancel.said, now)
    })
}

/// Decides every proposal whose time is up; answers with which those were.
pub(super) fn settle(
    tx: &Tx<'_>,
    workflow: WorkflowId,
    deciding: &Deciding,
    now: Now,
) -> Result<Vec<ProposalId>> {
    let mut head = Head::lock(tx, workflow)?;
    let mut decided = Vec::new();
    for stored in select(tx, workflow, ProposalQuery::Active)? {
        if stored.due > now.store {
            continue;
        }
        let (id, hops) = (stored.proposal.id, stored.proposal.hops.saturating_add(1));
        let said = Said { hops, pause: None };
        if step(&mut head, stored, deciding, None, &said, now)? != ProposalState::Active {
            decided.push(id);
        }
    }
    if !decided.is_empty() {
        head.save()?;
    }
    Ok(decided)
}

/// Takes back what is still voted on when its run ends.
pub(super) fn close(head: &mut Head<'_>, why: &str, now: Now) -> Result<()> {
    for Stored { proposal, .. } in select(head.tx, head.workflow, ProposalQuery::Active)? {
        let why = Some(format!("the run ended: {why}"));
        let state = ProposalState::Cancelled { by: Sender::System, why };
        let said = Said { hops: proposal.hops, pause: None };
        finish(head, proposal, state, &said, &[], now)?;
    }
    // A damaged proposal is not in that list. It keeps its old checksum, so that it stays detectable, but does not stay open.
    head.tx
        .prepare_cached("UPDATE proposal SET active = 0 WHERE workflow = ?1 AND active = 1")?
        .execute([head.workflow.get()])?;
    Ok(())
}

/// Asks what follows from the votes, and carries it out.
fn step(
    head: &mut Head<'_>,
    Stored { proposal, due }: Stored,
    deciding: &Deciding,
    voter: Option<&Sender>,
    said: &Said,
    now: Now,
) -> Result<ProposalState> {
    let deadline = if now.store >= due { Deadline::Passed } else { Deadline::Ahead };
    let state = match (deciding.tally)(&proposal, deciding.dice, deadline) {
        ProposalStep::Stay => return Ok(ProposalState::Active),
        ProposalStep::Tied => {
            if let Sender::Agent(creator) = &proposal.created_by {
                let notice = Notice { body: proposal.tied(), reply_to: None, wakes: &[creator] };
                notices::say(head, &notice, said, now)?;
            }
            return Ok(ProposalState::Active);
        }
        ProposalStep::Resolve(verdict) => ProposalState::Resolved { verdict, effect: None },
        ProposalStep::Expire => {
            ProposalState::Expired { fallback: proposal.terms.fallback.clone(), effect: None }
        }
    };
    end(head, proposal, state, voter, said, now)
}

/// Ends a proposal: what it binds, its row, what is told and who is woken by that.
fn end(
    head: &mut Head<'_>,
    proposal: Proposal,
    mut state: ProposalState,
    actor: Option<&Sender>,
    said: &Said,
    now: Now,
) -> Result<ProposalState> {
    let bound = binding::enforce(head, &proposal, &state, now)?;
    match &mut state {
        ProposalState::Resolved { verdict: Verdict::Winner { .. }, effect }
        | ProposalState::Expired { effect, .. } => *effect = bound.effect,
        ProposalState::Resolved { verdict: Verdict::NoDecision, .. }
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
    finish(head, proposal, state, said, &wakes, now)?;
    runs::kick_off(head, id, now)?;
    Ok(ended)
}

/// Writes the end down and tells it.
fn finish(
    head: &mut Head<'_>,
    mut proposal: Proposal,
    state: ProposalState,
    said: &Said,
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
    let told = write_end(head, &proposal, now)?;
    let mut data = serde_json::to_value(&proposal.state)?;
    data["proposal"] = json!(proposal.id);
    head.event(&Entry::of(kind).data(data), now)?;
    // Nobody is woken to vote on what is over.
    let over = format!("proposal #{} is {}", proposal.id, proposal.state.word());
    notices::spare(head, told, None, &over, now)?;
    let wakes: Vec<_> = wakes.iter().collect();
    let notice = Notice { body: proposal.notice(), reply_to: Some(told), wakes: &wakes };
    notices::say(head, &notice, said, now).map(drop)
}

/// Writes the end into the proposal's row; returns the message that announced the proposal.
fn write_end(head: &Head<'_>, proposal: &Proposal, now: Now) -> Result<Seq> {
    let key = params![head.workflow.get(), proposal.id.get()];
    PROPOSAL.update(head.tx, "p.workflow = ?1 AND p.id = ?2", key, || {
        let announced = head
            .tx
            .prepare_cached(
                "UPDATE proposal SET active = 0, state = ?3, ended = ?4, decided = ?5
                 WHERE workflow = ?1 AND id = ?2 AND active = 1 RETURNING seq",
            )?
            .query_row(
                params![
                    head.workflow.get(),
                    proposal.id.get(),
                    serde_json::to_string(&proposal.state)?,
                    now.wall.get(),
                    proposal.state.decided().is_some()
                ],
                |row| columns::seq(row, 0),
            )?;
        Ok(announced)
    })
}

/// The proposal, if votes are taken on it.
fn active(head: &Head<'_>, id: ProposalId) -> Result<Stored> {
    let stored = find(head.tx, head.workflow, id)?.ok_or(Error::NotFound("proposal"))?;
    match &stored.proposal.state {
        ProposalState::Active => Ok(stored),
        over => Err(Error::ProposalOver { id, how: over.to_string() }),
    }
}
