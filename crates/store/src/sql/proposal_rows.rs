//! Reads proposals and their ballots. `proposals` changes them.

use std::collections::HashMap;

use agent_worker_protocol::{
    Ballot, Proposal, ProposalId, ProposalState, ResolvedBy, Seq, WorkflowId,
};
use serde::{Deserialize, Serialize};

use super::{
    checksum::{self, BALLOT, PROPOSAL, RUN_ID},
    columns,
};
use crate::{
    damage::{self, DamagedRow, ListPart},
    db::{self, Connection, OptionalExtension, Row, params},
    error::{Error, Result},
    model::{ListRange, ProposalQuery},
    time::{Now, StoreTime},
};

pub(crate) const NEXT_DUE_SQL: &str =
    "SELECT min(due) FROM proposal INDEXED BY proposal_active WHERE workflow = ?1 AND active = 1";

/// Returns the deadline of the next proposal.
pub(crate) fn next_due(db: &Connection, workflow: WorkflowId) -> Result<Option<StoreTime>> {
    Ok(db
        .prepare_cached(NEXT_DUE_SQL)?
        .query_row([workflow.get()], |row| columns::optional(row, 0, columns::store_time))?)
}

pub(crate) const COUNT_ENDED_SQL: &str = "SELECT w.last_proposal -
        (SELECT count(*) FROM proposal INDEXED BY proposal_active WHERE workflow = ?1 AND active = 1)
        FROM workflow w WHERE w.id = ?1";

/// Returns the number of proposals that have ever ended: those that were ever made, without the active ones.
pub(crate) fn count_ended(db: &Connection, workflow: WorkflowId) -> Result<u64> {
    let mut query = db.prepare_cached(COUNT_ENDED_SQL)?;
    let found = query.query_row([workflow.get()], |row| row.get::<i64>(0)).optional()?;
    Ok(found.and_then(|count| u64::try_from(count).ok()).unwrap_or_default())
}

fn proposal_columns() -> String {
    format!(
        "p.id, {RUN_ID}, p.creator, p.created, p.deadline, p.ended, p.hops, p.terms, p.state, {}, p.due, p.seq",
        PROPOSAL.check
    )
}
const RUN_JOIN_SQL: &str = "LEFT JOIN run r ON r.workflow = p.workflow AND r.id = p.run";

/// A proposal, its deadline in store time, and the message that announced it. Its `deadline` is the announced one.
pub(crate) struct StoredProposal {
    pub(crate) proposal: Proposal,
    pub(crate) due: StoreTime,
    pub(crate) announced: Seq,
}

/// The column `state`: a state, and the event that resolved the proposal.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredState {
    #[serde(flatten)]
    pub(crate) state: ProposalState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resolved_by: Option<ResolvedBy>,
}

impl StoredState {
    /// Returns the event that ended the proposal; none for one that an earlier version resolved.
    fn resolved_by(&self) -> Option<ResolvedBy> {
        self.resolved_by.or(match &self.state {
            ProposalState::Expired { .. } => Some(ResolvedBy::Deadline),
            ProposalState::Cancelled { .. } => Some(ResolvedBy::Cancelled),
            ProposalState::Active | ProposalState::Resolved { .. } => None,
        })
    }
}

impl StoredProposal {
    /// Returns the proposal; an active one with its deadline as the wall clock of `now` shows it.
    fn with_wall_deadline(self, now: Now) -> Proposal {
        let Self { mut proposal, due, .. } = self;
        if proposal.state == ProposalState::Active {
            proposal.deadline = now.wall_at(due);
        }
        proposal
    }
}

pub(crate) fn get(
    db: &Connection,
    workflow: WorkflowId,
    id: ProposalId,
    now: Now,
) -> Result<Option<Proposal>> {
    Ok(find_proposal(db, workflow, id)?.map(|stored| stored.with_wall_deadline(now)))
}

pub(crate) fn find_proposal(
    db: &Connection,
    workflow: WorkflowId,
    id: ProposalId,
) -> Result<Option<StoredProposal>> {
    let sql = format!(
        "SELECT {} FROM proposal p {RUN_JOIN_SQL} WHERE p.workflow = ?1 AND p.id = ?2",
        proposal_columns()
    );
    let found =
        db.prepare_cached(&sql)?.query_row([workflow.get(), id.get()], read_proposal).optional()?;
    let Some(mut found) = found else { return Ok(None) };
    found.proposal.ballots = load_ballots(db, workflow, &[id])?.take_for(id)?;
    Ok(Some(found))
}

/// Lists proposals, oldest first.
pub(crate) fn list(
    db: &Connection,
    workflow: WorkflowId,
    which: ProposalQuery,
    now: Now,
) -> Result<Vec<Proposal>> {
    let found = select_proposals(db, workflow, which)?;
    Ok(found.into_iter().map(|stored| stored.with_wall_deadline(now)).collect())
}

pub(crate) fn select_proposals(
    db: &Connection,
    workflow: WorkflowId,
    which: ProposalQuery,
) -> Result<Vec<StoredProposal>> {
    let (run, range) = match which {
        ProposalQuery::Active => (None, ListRange::all()),
        ProposalQuery::All(range) => (None, range),
        ProposalQuery::OfRun(run) => (Some(run), ListRange::all()),
        ProposalQuery::Decided(run, most) => (Some(run), ListRange::first(most)),
    };
    let after = range.after.unwrap_or(ProposalId::new(0));
    let values = params![workflow.get(), run.map(|run| *run.get().as_bytes()), after.get()];
    let mut statement = db.prepare_cached(&list_sql(which))?;
    let mut rows = statement.query_map(values, read_proposal)?;
    let mut found = damage::fill_list(range.limit, |missing| {
        let part = damage::take_intact(rows.by_ref(), missing)?;
        let is_last = part.len() < missing as usize;
        Ok(ListPart { items: with_ballots(db, workflow, part)?, is_last })
    })?;
    found.sort_by_key(|stored| stored.proposal.id);
    Ok(found)
}

pub(crate) const COUNT_ACTIVE_SQL: &str = "SELECT count(*) FROM proposal p INDEXED BY proposal_active WHERE p.workflow = ?1 AND p.active = 1";

pub(crate) fn count_active(db: &Connection, workflow: WorkflowId) -> Result<u32> {
    Ok(db.prepare_cached(COUNT_ACTIVE_SQL)?.query_row([workflow.get()], |row| row.get(0))?)
}

pub(crate) fn list_sql(which: ProposalQuery) -> String {
    let (index, condition) = match which {
        ProposalQuery::Active => (
            "INDEXED BY proposal_active",
            "p.active = 1 AND CAST(?2 AS BIGINT) IS NULL ORDER BY p.due",
        ),
        ProposalQuery::OfRun(_) => ("", "r.uuid = ?2 ORDER BY p.id"),
        ProposalQuery::All(_) => ("", "CAST(?2 AS BIGINT) IS NULL ORDER BY p.id"),
        ProposalQuery::Decided(..) => (
            "INDEXED BY proposal_decided",
            "p.decided = 1 AND p.run = (SELECT id FROM run WHERE uuid = ?2) ORDER BY p.ended DESC, p.id DESC",
        ),
    };
    format!(
        "SELECT {} FROM proposal p {index} {RUN_JOIN_SQL} WHERE p.workflow = ?1 AND p.id > ?3 AND {condition}",
        proposal_columns()
    )
}

fn read_proposal(row: &Row<'_>) -> db::Result<StoredProposal> {
    PROPOSAL.verify(row, 9)?;
    let stored: StoredState = columns::json(row, 8)?;
    let proposal = Proposal {
        id: ProposalId::new(row.get(0)?),
        run: checksum::run_id(row, 1)?,
        created_by: row.get::<String>(2)?.into(),
        created: columns::millis(row, 3)?,
        deadline: columns::millis(row, 4)?,
        ended: columns::optional(row, 5, columns::millis)?,
        resolved_by: stored.resolved_by(),
        hops: row.get(6)?,
        terms: columns::json(row, 7)?,
        state: stored.state,
        ballots: Vec::new(),
    };
    Ok(StoredProposal {
        proposal,
        due: columns::store_time(row, 10)?,
        announced: columns::seq(row, 11)?,
    })
}

/// Fills in the ballots. A proposal with a damaged ballot is left out: its count would be wrong.
fn with_ballots(
    db: &Connection,
    workflow: WorkflowId,
    proposals: Vec<StoredProposal>,
) -> Result<Vec<StoredProposal>> {
    let ids: Vec<_> = proposals.iter().map(|stored| stored.proposal.id).collect();
    let mut cast = load_ballots(db, workflow, &ids)?;
    let mut complete = Vec::new();
    for mut stored in proposals {
        match cast.take_for(stored.proposal.id) {
            Ok(ballots) => {
                stored.proposal.ballots = ballots;
                complete.push(stored);
            }
            Err(Error::Damaged(ballot)) => damage::report_skipped(ballot),
            Err(error) => return Err(error),
        }
    }
    Ok(complete)
}

/// The ballots of some proposals, oldest first.
#[derive(Default)]
pub(crate) struct BallotsByProposal {
    intact: HashMap<ProposalId, Vec<Ballot>>,
    damaged: HashMap<ProposalId, DamagedRow>,
}

impl BallotsByProposal {
    /// Takes all ballots of one proposal.
    pub(crate) fn take_for(&mut self, id: ProposalId) -> Result<Vec<Ballot>> {
        match self.damaged.remove(&id) {
            Some(ballot) => Err(Error::Damaged(ballot)),
            None => Ok(self.intact.remove(&id).unwrap_or_default()),
        }
    }
}

pub(crate) fn load_ballots(
    db: &Connection,
    workflow: WorkflowId,
    ids: &[ProposalId],
) -> Result<BallotsByProposal> {
    let sql = format!(
        "SELECT b.proposal, b.voter, b.choice, b.reason, b.at, {} FROM ballot b
        WHERE b.workflow = ?1 AND b.proposal IN (SELECT CAST(value AS BIGINT) FROM json_each(?2)) ORDER BY b.proposal, b.position",
        BALLOT.check
    );
    let mut query = db.prepare_cached(&sql)?;
    let mut rows = query.query(params![workflow.get(), serde_json::to_string(ids)?])?;
    let mut cast = BallotsByProposal::default();
    while let Some(row) = rows.next()? {
        let id = ProposalId::new(row.get(0)?);
        match read_ballot(&row).map_err(Error::from) {
            Ok(ballot) => cast.intact.entry(id).or_default().push(ballot),
            Err(Error::Damaged(ballot)) => drop(cast.damaged.insert(id, ballot)),
            Err(error) => return Err(error),
        }
    }
    Ok(cast)
}

fn read_ballot(row: &Row<'_>) -> db::Result<Ballot> {
    BALLOT.verify(row, 5)?;
    Ok(Ballot {
        voter: row.get::<String>(1)?.into(),
        choice: row.get(2)?,
        reason: row.get(3)?,
        at: columns::millis(row, 4)?,
    })
}
