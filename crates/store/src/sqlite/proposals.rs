//! Proposals: made, voted on, decided. A vote, the count, the decision and what it binds are one step.
//!
//! Invariant: a proposal that is not active never changes again.

use std::collections::HashMap;

use agent_worker_protocol::{
    AgentName, Ballot, EventKind, Proposal, ProposalId, ProposalState, Sender, Seq, Verdict,
    WorkflowId,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::json;

use super::{
    author::Author,
    binding,
    checksum::{self, BALLOT, PROPOSAL, RUN_ID},
    columns,
    effects::once,
    events::Entry,
    head::Head,
    notices::{self, Notice},
    runs,
    writer::Tx,
};
use crate::{
    damage::{self, DamagedRow},
    error::{Error, Result},
    model::{
        By, Deadline, Deciding, NewBallot, NewCancel, NewProposal, Once, ProposalQuery,
        ProposalStep, Right, Said,
    },
    time::{Now, StoreTime},
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
        proposal.ballots = ballots(head.tx, workflow, &[proposal.id])?.of(proposal.id)?;
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

pub(super) const DUE: &str =
    "SELECT min(due) FROM proposal INDEXED BY proposal_active WHERE workflow = ?1 AND active = 1";

/// When the time of the next proposal is up.
pub(super) fn due(db: &Connection, workflow: WorkflowId) -> Result<Option<StoreTime>> {
    Ok(db
        .prepare_cached(DUE)?
        .query_row([workflow.get()], |row| columns::if_any(row, 0, columns::store_time))?)
}

pub(super) const ENDED: &str = "SELECT w.last_proposal -
        (SELECT count(*) FROM proposal INDEXED BY proposal_active WHERE workflow = ?1 AND active = 1)
        FROM workflow w WHERE w.id = ?1";

/// How many were ever over: those that were ever made, without those votes are taken on.
pub(super) fn ended(db: &Connection, workflow: WorkflowId) -> Result<u64> {
    let mut query = db.prepare_cached(ENDED)?;
    let found = query.query_row([workflow.get()], |row| row.get::<_, i64>(0)).optional()?;
    Ok(found.and_then(|count| u64::try_from(count).ok()).unwrap_or_default())
}

fn columns_read() -> String {
    format!(
        "p.id, {RUN_ID}, p.creator, p.created, p.deadline, p.ended, p.hops, p.terms, p.state, {}, p.due",
        PROPOSAL.check
    )
}
const ITS_RUN: &str = "LEFT JOIN run r ON r.workflow = p.workflow AND r.id = p.run";

/// A proposal and when its time is up. Its `deadline` is what was announced.
struct Stored {
    proposal: Proposal,
    due: StoreTime,
}

impl Stored {
    /// The proposal with its deadline as the wall clock shows it, as long as that can change.
    fn shown(self, now: Now) -> Proposal {
        let Self { mut proposal, due } = self;
        if proposal.state == ProposalState::Active {
            proposal.deadline = now.wall_at(due);
        }
        proposal
    }
}

pub(super) fn get(
    db: &Connection,
    workflow: WorkflowId,
    id: ProposalId,
    now: Now,
) -> Result<Option<Proposal>> {
    Ok(find(db, workflow, id)?.map(|stored| stored.shown(now)))
}

fn find(db: &Connection, workflow: WorkflowId, id: ProposalId) -> Result<Option<Stored>> {
    let sql = format!(
        "SELECT {} FROM proposal p {ITS_RUN} WHERE p.workflow = ?1 AND p.id = ?2",
        columns_read()
    );
    let found =
        db.prepare_cached(&sql)?.query_row([workflow.get(), id.get()], stored).optional()?;
    let Some(mut found) = found else { return Ok(None) };
    found.proposal.ballots = ballots(db, workflow, &[id])?.of(id)?;
    Ok(Some(found))
}

/// Oldest first.
pub(super) fn list(
    db: &Connection,
    workflow: WorkflowId,
    which: ProposalQuery,
    now: Now,
) -> Result<Vec<Proposal>> {
    let found = select(db, workflow, which)?;
    Ok(found.into_iter().map(|stored| stored.shown(now)).collect())
}

fn select(db: &Connection, workflow: WorkflowId, which: ProposalQuery) -> Result<Vec<Stored>> {
    let (run, limit) = match which {
        ProposalQuery::Active | ProposalQuery::All => (None, u32::MAX),
        ProposalQuery::Of(run) => (Some(run), u32::MAX),
        ProposalQuery::Decided(run, most) => (Some(run), most),
    };
    let values = params![workflow.get(), run.map(|run| *run.get().as_bytes()), limit];
    let mut statement = db.prepare_cached(&list_sql(which))?;
    let mut found = damage::intact(statement.query_map(values, stored)?)?;
    found.sort_by_key(|stored| stored.proposal.id);
    with_ballots(db, workflow, found)
}

pub(super) const COUNT_ACTIVE: &str = "SELECT count(*) FROM proposal p INDEXED BY proposal_active WHERE p.workflow = ?1 AND p.active = 1";

pub(super) fn count_active(db: &Connection, workflow: WorkflowId) -> Result<u32> {
    Ok(db.prepare_cached(COUNT_ACTIVE)?.query_row([workflow.get()], |row| row.get(0))?)
}

pub(super) fn list_sql(which: ProposalQuery) -> String {
    let (index, condition) = match which {
        ProposalQuery::Active => {
            ("INDEXED BY proposal_active", "p.active = 1 AND ?2 IS NULL ORDER BY p.due")
        }
        ProposalQuery::Of(_) => ("", "r.uuid = ?2 ORDER BY p.id"),
        ProposalQuery::All => ("", "?2 IS NULL ORDER BY p.id"),
        ProposalQuery::Decided(..) => (
            "INDEXED BY proposal_decided",
            "p.decided = 1 AND p.run = (SELECT id FROM run WHERE uuid = ?2) ORDER BY p.ended DESC, p.id DESC",
        ),
    };
    format!(
        "SELECT {} FROM proposal p {index} {ITS_RUN} WHERE p.workflow = ?1 AND {condition} LIMIT ?3",
        columns_read()
    )
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    PROPOSAL.verify(row, 9)?;
    let proposal = Proposal {
        id: ProposalId::new(row.get(0)?),
        run: checksum::run_id(row, 1)?,
        created_by: row.get::<_, String>(2)?.into(),
        created: columns::millis(row, 3)?,
        deadline: columns::millis(row, 4)?,
        ended: columns::if_any(row, 5, columns::millis)?,
        hops: row.get(6)?,
        terms: columns::json(row, 7)?,
        state: columns::json(row, 8)?,
        ballots: Vec::new(),
    };
    Ok(Stored { proposal, due: columns::store_time(row, 10)? })
}

/// Fills in the ballots. A proposal with a damaged ballot is left out: its count would be wrong.
fn with_ballots(
    db: &Connection,
    workflow: WorkflowId,
    proposals: Vec<Stored>,
) -> Result<Vec<Stored>> {
    let ids: Vec<_> = proposals.iter().map(|stored| stored.proposal.id).collect();
    let mut cast = ballots(db, workflow, &ids)?;
    let mut complete = Vec::new();
    for mut stored in proposals {
        match cast.of(stored.proposal.id) {
            Ok(ballots) => {
                stored.proposal.ballots = ballots;
                complete.push(stored);
            }
            Err(Error::Damaged(ballot)) => damage::leave_out(ballot),
            Err(error) => return Err(error),
        }
    }
    Ok(complete)
}

/// The ballots of some proposals, oldest first.
#[derive(Default)]
struct Ballots {
    intact: HashMap<ProposalId, Vec<Ballot>>,
    damaged: HashMap<ProposalId, DamagedRow>,
}

impl Ballots {
    /// Takes all ballots of one proposal.
    fn of(&mut self, id: ProposalId) -> Result<Vec<Ballot>> {
        match self.damaged.remove(&id) {
            Some(ballot) => Err(Error::Damaged(ballot)),
            None => Ok(self.intact.remove(&id).unwrap_or_default()),
        }
    }
}

fn ballots(db: &Connection, workflow: WorkflowId, ids: &[ProposalId]) -> Result<Ballots> {
    let sql = format!(
        "SELECT b.proposal, b.voter, b.choice, b.reason, b.at, {} FROM ballot b
        WHERE b.workflow = ?1 AND b.proposal IN (SELECT value FROM json_each(?2)) ORDER BY b.proposal, b.position",
        BALLOT.check
    );
    let mut query = db.prepare_cached(&sql)?;
    let mut rows = query.query(params![workflow.get(), serde_json::to_string(ids)?])?;
    let mut cast = Ballots::default();
    while let Some(row) = rows.next()? {
        let id = ProposalId::new(row.get(0)?);
        match ballot(row).map_err(Error::from) {
            Ok(ballot) => cast.intact.entry(id).or_default().push(ballot),
            Err(Error::Damaged(ballot)) => drop(cast.damaged.insert(id, ballot)),
            Err(error) => return Err(error),
        }
    }
    Ok(cast)
}

fn ballot(row: &Row<'_>) -> rusqlite::Result<Ballot> {
    BALLOT.verify(row, 5)?;
    Ok(Ballot {
        voter: row.get::<_, String>(1)?.into(),
        choice: row.get(2)?,
        reason: row.get(3)?,
        at: columns::millis(row, 4)?,
    })
}
