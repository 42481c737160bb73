//! Results of a run: the newest answer of each agent, and the verdict of the team.
//!
//! An answer is a message; its row here only finds the message without a search.
//!
//! Invariant: a damaged row of a run never keeps the run from being listed, stopped or ended.

use agent_worker_protocol::{
    AgentName, EventBody, Keyword as _, Role, RunId, RunVerdictData, Seq, VerdictOutcome,
    WorkflowId, api::TeamVerdict,
};

use super::{
    author::Author,
    checksum::VERDICT,
    columns::{self, RunNo},
    effects::once,
    events::EventEntry,
    locked_instance::LockedInstance,
    roles,
    transaction::Tx,
};
use crate::{
    damage::{self, DamagedRow},
    db::{self, Connection, OptionalExtension, Row, params},
    error::{Error, Result},
    model::{NewVerdict, Once, StoredVerdict, WriteContext},
    time::Now,
};

/// Makes a message the newest answer of an agent in the live run.
pub(crate) fn record_answer(
    locked: &LockedInstance<'_>,
    agent: &AgentName,
    seq: Seq,
) -> Result<()> {
    locked
        .tx
        .prepare_cached(
            "INSERT INTO answer (workflow, run, agent, seq) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (workflow, run, agent) DO UPDATE SET seq = excluded.seq",
        )?
        .execute(params![
            locked.workflow.get(),
            locked.live_run()?.number.0,
            agent.as_str(),
            seq.get()
        ])?;
    Ok(())
}

pub(crate) const ANSWERS_SQL: &str = "SELECT a.agent, a.seq, a.workflow, a.run FROM run r
        JOIN workflow w ON w.id = r.workflow
        CROSS JOIN answer a ON a.workflow = r.workflow AND a.run = r.id
        WHERE r.uuid = ?1 AND a.seq > w.cleared ORDER BY a.agent";

/// Lists the newest answer of each agent in a run, without those that were cleared.
pub(crate) fn answers(db: &Connection, run: RunId) -> Result<Vec<(AgentName, Seq)>> {
    let mut statement = db.prepare_cached(ANSWERS_SQL)?;
    damage::collect_intact(statement.query_map([run.get().as_bytes()], read_answer)?)
}

/// Reads an answer. The row has no checksum; a name that is no name of an agent is damage.
fn read_answer(row: &Row<'_>) -> db::Result<(AgentName, Seq)> {
    let damaged = |_| {
        let (workflow, run): (i64, i64) = (row.get(2)?, row.get(3)?);
        let name = row.get_ref(0)?.as_bytes().unwrap_or(b"?");
        let key = format!("{run} {}", String::from_utf8_lossy(name));
        let workflow = Some(WorkflowId::new(workflow));
        Err(db::Error::invalid_value(DamagedRow { workflow, table: "answer", key }))
    };
    Ok((columns::parse(row, 0).or_else(damaged)?, columns::seq(row, 1)?))
}

/// Sets the verdict of the live run. Only its coordinator and its finisher may do it, and a verdict never becomes
/// better.
pub(crate) fn set_verdict(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    new: &NewVerdict,
    now: Now,
) -> Result<Once<TeamVerdict>> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let agent = require_finisher(locked, author)?;
        let run = locked.live_run()?.number;
        // A damaged verdict may be `failed`: only `failed` may replace it.
        if new.outcome == VerdictOutcome::Done
            && let Some(TeamVerdict { outcome: VerdictOutcome::Failed, by, .. }) =
                verdict_of(tx, workflow, run)?
        {
            return Err(Error::VerdictFixed(by));
        }
        let verdict = TeamVerdict { outcome: new.outcome, summary: new.summary.clone(), by: agent };
        write_verdict(tx, (workflow, run), &verdict, now)?;
        let body = EventBody::RunVerdict(RunVerdictData {
            outcome: verdict.outcome,
            summary: verdict.summary.clone(),
        });
        let entry = EventEntry::new(body).agent(&verdict.by).attempt(author.attempt());
        locked.append_event(&entry.by(&author.sender()), now)?;
        Ok(verdict)
    })
}

/// Returns the author's name if the author may set the verdict.
fn require_finisher(locked: &LockedInstance<'_>, author: &Author) -> Result<AgentName> {
    let mut allowed = Vec::new();
    for role in [Role::Finisher, Role::Coordinator] {
        allowed.extend(roles::holder(locked, role)?);
    }
    match author {
        Author::Attempt(live) if allowed.contains(&live.agent) => Ok(live.agent.clone()),
        Author::Attempt(_) | Author::Other(_) => Err(Error::NotFinisher(allowed)),
    }
}

fn write_verdict(
    tx: &Tx<'_>,
    (workflow, run): (WorkflowId, RunNo),
    verdict: &TeamVerdict,
    now: Now,
) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO verdict (workflow, run, outcome, summary, agent, at, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, row_checksum('verdict', ?1, ?2, ?3, ?4, ?5, ?6))
         ON CONFLICT (workflow, run) DO UPDATE SET outcome = excluded.outcome, summary = excluded.summary,
         agent = excluded.agent, at = excluded.at, checksum = excluded.checksum",
    )?
    .execute(params![
        workflow.get(),
        run.0,
        verdict.outcome.word(),
        verdict.summary,
        verdict.by.as_str(),
        now.wall.get()
    ])?;
    Ok(())
}

/// Returns the verdict about a run of an instance, or an error if it is damaged.
fn verdict_of(db: &Connection, workflow: WorkflowId, run: RunNo) -> Result<Option<TeamVerdict>> {
    let sql = format!(
        "SELECT v.outcome, v.summary, v.agent, {} FROM verdict v WHERE v.workflow = ?1 AND v.run = ?2",
        VERDICT.check
    );
    let verdict = db
        .prepare_cached(&sql)?
        .query_row([workflow.get(), run.0], |row| {
            VERDICT.verify(row, 3)?;
            let unreadable = |_| VERDICT.error(format!("{workflow} {}", run.0).as_bytes());
            Ok(TeamVerdict {
                outcome: columns::word(row, 0).map_err(unreadable)?,
                summary: row.get(1).map_err(unreadable)?,
                by: columns::parse(row, 2).map_err(unreadable)?,
            })
        })
        .optional()?;
    Ok(verdict)
}

/// Returns the verdict about a run for its settlement, and reports a damaged one.
pub(crate) fn stored_verdict(
    db: &Connection,
    workflow: WorkflowId,
    run: RunNo,
) -> Result<Option<StoredVerdict>> {
    match verdict_of(db, workflow, run) {
        Ok(verdict) => Ok(verdict.map(StoredVerdict::Intact)),
        Err(Error::Damaged(damaged)) => {
            damage::report_skipped(damaged);
            Ok(Some(StoredVerdict::Damaged))
        }
        Err(other) => Err(other),
    }
}

/// Returns the verdict about a run; a damaged one is reported and left out.
pub(crate) fn verdict(db: &Connection, run: RunId) -> Result<Option<TeamVerdict>> {
    let found = db
        .prepare_cached("SELECT workflow, id FROM run WHERE uuid = ?1")?
        .query_row([run.get().as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((workflow, number)) = found else { return Ok(None) };
    match stored_verdict(db, WorkflowId::new(workflow), RunNo(number))? {
        Some(StoredVerdict::Intact(verdict)) => Ok(Some(verdict)),
        Some(StoredVerdict::Damaged) | None => Ok(None),
    }
}
