//! Requests for approval: asked by an attempt that waits, answered once, and delivered to one attempt once.
//!
//! A request belongs to its activation: when the attempt that asked is gone, the next attempt with exactly the same
//! request takes it over, answered or not. Invariant: an answer with `used` set was delivered to the attempt and the
//! call in the row, and is delivered to no other.

use agent_worker_protocol::{
    ApprovalAnsweredData, ApprovalId, ApprovalOpenData, Consent, EventBody, GrantId, Keyword as _,
    OnAsk, PauseCause, PermissionUsedData, RunState, Sender, WorkflowId,
};

use super::{
    author::{Author, FencedAttempt},
    checksum::{self, APPROVAL, ATTEMPT, RUN_ID},
    columns,
    delivery_states::delivery_sql,
    effects::once,
    events::EventEntry,
    grants,
    locked_instance::LockedInstance,
    runs,
    transaction::Tx,
};
use crate::{
    damage,
    db::{self, Connection, OptionalExtension, Row, params},
    error::{Error, Result},
    model::{
        Approval, ApprovalAnswer, ApprovalDecision, ApprovalQuery, Fence, NewApproval, NewGrant,
        Once, PermissionGrant, WriteContext,
    },
    time::Now,
};

/// Maximum length of the arguments in an event.
const MAX_EVENT_ARGS_CHARS: usize = 500;

/// Makes or repeats a request as a live attempt. A grant in force answers it. Returns an existing answer and marks it
/// as used.
pub(crate) fn request_approval(
    tx: &Tx<'_>,
    fence: &Fence,
    new: &NewApproval,
    now: Now,
) -> Result<Approval> {
    let mut locked = LockedInstance::lock(tx, fence.workflow)?;
    let live = FencedAttempt::check_fence(tx, fence)?;
    let grant = match new.grant {
        Some(id) => grants::find_in_force(tx, fence.workflow, id, &live.agent)?,
        None => None,
    };
    let asked = match find_same_call(&locked, &live, new)? {
        Some(asked) => asked,
        None => match find_unclaimed(&locked, &live, new)? {
            Some(asked) => {
                take_over_approval(&mut locked, &live, new, asked.id, now)?;
                asked
            }
            None => insert_approval(&mut locked, &live, new, grant.as_ref(), now)?,
        },
    };
    let mut approval = find_approval(tx, fence.workflow, asked.id)?;
    if let (None, Some(grant)) = (&approval.answer, &grant) {
        answer_by_grant(&mut locked, &approval, grant, now)?;
        approval = find_approval(tx, fence.workflow, asked.id)?;
    }
    let tells = approval.answer.is_some() && !asked.is_used;
    if tells {
        update_approval(tx, fence.workflow, asked.id, || {
            tx.prepare_cached("UPDATE approval SET used = ?3 WHERE workflow = ?1 AND id = ?2")?
                .execute(params![fence.workflow.get(), asked.id.get(), now.wall.get()])?;
            Ok(())
        })?;
    }
    // A repeated request without a new answer changes nothing, and wakes no task.
    if tells || asked.is_new {
        locked.save()?;
    }
    Ok(approval)
}

/// Runs a statement that changes a request.
fn update_approval(
    tx: &Tx<'_>,
    workflow: WorkflowId,
    id: ApprovalId,
    statement: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let key = params![workflow.get(), id.get()];
    APPROVAL.update(tx, "p.workflow = ?1 AND p.id = ?2", key, statement)
}

/// A request that is stored.
struct ApprovalLookup {
    id: ApprovalId,
    is_used: bool,
    /// True if this attempt had not made the request before.
    is_new: bool,
}

/// Finds the request of the same call.
fn find_same_call(
    locked: &LockedInstance<'_>,
    live: &FencedAttempt,
    new: &NewApproval,
) -> Result<Option<ApprovalLookup>> {
    let sql = "SELECT id, used IS NOT NULL, hash = ?5 FROM approval INDEXED BY approval_call
        WHERE workflow = ?1 AND agent = ?2 AND epoch = ?3 AND call = ?4";
    let (agent, epoch) = (live.agent.as_str(), live.epoch.get());
    let found = locked
        .tx
        .prepare_cached(sql)?
        .query_row(params![locked.workflow.get(), agent, epoch, new.call, new.hash()], |row| {
            let asked = ApprovalLookup {
                id: ApprovalId::new(row.get(0)?),
                is_used: row.get(1)?,
                is_new: false,
            };
            Ok((asked, row.get::<bool>(2)?))
        })
        .optional()?;
    match found {
        Some((_, false)) => Err(Error::KeyReused),
        Some((asked, true)) => Ok(Some(asked)),
        None => Ok(None),
    }
}

/// Finds the same request of an earlier attempt of the activation whose answer was not delivered; an answered one
/// comes first.
fn find_unclaimed(
    locked: &LockedInstance<'_>,
    live: &FencedAttempt,
    new: &NewApproval,
) -> Result<Option<ApprovalLookup>> {
    let sql = "SELECT id FROM approval INDEXED BY approval_unused
        WHERE workflow = ?1 AND agent = ?2 AND oldest = ?3 AND used IS NULL AND epoch < ?4 AND hash = ?5
        ORDER BY answer IS NULL, id LIMIT 1";
    let of = params![
        locked.workflow.get(),
        live.agent.as_str(),
        live.oldest.get(),
        live.epoch.get(),
        new.hash()
    ];
    let found = locked.tx.prepare_cached(sql)?.query_row(of, |row| {
        Ok(ApprovalLookup { id: ApprovalId::new(row.get(0)?), is_used: false, is_new: true })
    });
    Ok(found.optional()?)
}

fn take_over_approval(
    locked: &mut LockedInstance<'_>,
    live: &FencedAttempt,
    new: &NewApproval,
    id: ApprovalId,
    now: Now,
) -> Result<()> {
    let holds = new.on_ask == OnAsk::Wait;
    update_approval(locked.tx, locked.workflow, id, || {
        locked.tx
            .prepare_cached(
                "UPDATE approval SET epoch = ?3, call = ?4, holds = ?5 WHERE workflow = ?1 AND id = ?2",
            )?
            .execute(params![locked.workflow.get(), id.get(), live.epoch.get(), new.call, holds])?;
        Ok(())
    })?;
    if find_approval(locked.tx, locked.workflow, id)?.answer.is_none() {
        append_open_event(locked, live, new, id, now)?;
    }
    Ok(())
}

/// Appends the event that an attempt waits for approval.
fn append_open_event(
    locked: &mut LockedInstance<'_>,
    live: &FencedAttempt,
    new: &NewApproval,
    id: ApprovalId,
    now: Now,
) -> Result<()> {
    let data = ApprovalOpenData { approval: id, tool: new.tool.clone(), args: shown_args(new) };
    let entry = EventEntry::new(EventBody::ApprovalOpen(data));
    locked.append_event(&entry.agent(&live.agent).attempt(live.id), now)
}

/// Appends the event that a grant allows a call that was never an open request.
fn append_used_event(
    locked: &mut LockedInstance<'_>,
    live: &FencedAttempt,
    new: &NewApproval,
    (id, grant): (ApprovalId, GrantId),
    now: Now,
) -> Result<()> {
    let (tool, args) = (new.tool.clone(), shown_args(new));
    let data = PermissionUsedData { grant, approval: id, tool, args };
    let entry = EventEntry::new(EventBody::PermissionUsed(data));
    locked.append_event(&entry.agent(&live.agent).attempt(live.id), now)
}

/// Returns the beginning of the arguments, for an event.
fn shown_args(new: &NewApproval) -> String {
    new.args.to_string().chars().take(MAX_EVENT_ARGS_CHARS).collect()
}

fn insert_approval(
    locked: &mut LockedInstance<'_>,
    live: &FencedAttempt,
    new: &NewApproval,
    grant: Option<&PermissionGrant>,
    now: Now,
) -> Result<ApprovalLookup> {
    let run = locked.live_run()?.number;
    let id = ApprovalId::new(locked.next_number("last_approval")?);
    let args = serde_json::to_string(&new.args)?;
    match grant {
        None => append_open_event(locked, live, new, id, now)?,
        Some(grant) => append_used_event(locked, live, new, (id, grant.id), now)?,
    }
    locked.tx
        .prepare_cached(
            "INSERT INTO approval (workflow, id, run, agent, oldest, tool, args, hash, epoch, call, holds, asked, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, row_checksum(
             'approval', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, NULL, NULL, NULL, NULL, NULL))",
        )?
        .execute(params![
            locked.workflow.get(),
            id.get(),
            run.0,
            live.agent.as_str(),
            live.oldest.get(),
            new.tool,
            args,
            new.hash(),
            live.epoch.get(),
            new.call,
            new.on_ask == OnAsk::Wait,
            now.wall.get()
        ])?;
    if let Some(grant) = grant {
        let answer = ApprovalAnswer::by_grant(&grant.by);
        set_answer(locked, id, &answer, now)?;
    }
    Ok(ApprovalLookup { id, is_used: false, is_new: true })
}

/// Answers an open request; an agent never does. Continues a run that was paused for a person.
pub(crate) fn answer_approval(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    id: ApprovalId,
    (decision, reason): (&ApprovalDecision, Option<&str>),
    now: Now,
) -> Result<Once<()>> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let Author::Other(sender) = author else { return Err(Error::Fenced) };
        let found = find_approval(tx, workflow, id)?;
        if let Some(answer) = found.answer {
            return Err(Error::ApprovalAnswered(id, answer.consent));
        }
        if locked.live_run()?.id != found.run {
            return Err(Error::NoRun);
        }
        let mut open = list(tx, workflow, ApprovalQuery::Open)?;
        if !open.iter().any(|open| open.id == id) {
            return Err(Error::ApprovalWithdrawn(id));
        }
        let answer = ApprovalAnswer {
            consent: decision.consent(),
            reason: reason.map(str::to_owned),
            by: sender.clone(),
        };
        record_answer(locked, &found, &answer, AnswerBasis::Decision, now)?;
        if let ApprovalDecision::ApproveForRun(NewGrant { pattern, covers }) = decision {
            let grant = grants::insert_grant(locked, &found, pattern, sender, now)?;
            let is_covered = |it: &Approval| {
                it.id != id
                    && it.agent == found.agent
                    && it.run == found.run
                    && covers.contains(&it.id)
            };
            open.retain(is_covered);
            for covered in &open {
                let answer = ApprovalAnswer::by_grant(sender);
                record_answer(locked, covered, &answer, AnswerBasis::Grant(grant), now)?;
            }
        }
        continue_paused_run(locked, sender, now)
    })
}

/// Answers a request that was open before its agent had the grant.
fn answer_by_grant(
    locked: &mut LockedInstance<'_>,
    found: &Approval,
    grant: &PermissionGrant,
    now: Now,
) -> Result<()> {
    let answer = ApprovalAnswer::by_grant(&grant.by);
    record_answer(locked, found, &answer, AnswerBasis::Grant(grant.id), now)?;
    continue_paused_run(locked, &grant.by, now)
}

/// The basis of an answer.
#[derive(Clone, Copy)]
enum AnswerBasis {
    /// A decision about this request.
    Decision,
    Grant(GrantId),
}

impl ApprovalAnswer {
    /// Returns the answer that follows from a grant of this sender.
    fn by_grant(sender: &Sender) -> Self {
        Self { consent: Consent::Approved, reason: None, by: sender.clone() }
    }
}

/// Stores the answer to a request, and its event.
fn record_answer(
    locked: &mut LockedInstance<'_>,
    found: &Approval,
    answer: &ApprovalAnswer,
    basis: AnswerBasis,
    now: Now,
) -> Result<()> {
    set_answer(locked, found.id, answer, now)?;
    let body = EventBody::ApprovalAnswered(ApprovalAnsweredData {
        approval: found.id,
        tool: found.tool.clone(),
        answer: answer.consent,
        reason: answer.reason.clone(),
        grant: match basis {
            AnswerBasis::Decision => None,
            AnswerBasis::Grant(grant) => Some(grant),
        },
    });
    locked.append_event(&EventEntry::new(body).agent(&found.agent).by(&answer.by), now)
}

fn set_answer(
    locked: &LockedInstance<'_>,
    id: ApprovalId,
    answer: &ApprovalAnswer,
    now: Now,
) -> Result<()> {
    let (tx, workflow) = (locked.tx, locked.workflow);
    update_approval(tx, workflow, id, || {
        tx.prepare_cached(
            "UPDATE approval SET answer = ?3, reason = ?4, whose = ?5, answered = ?6 WHERE workflow = ?1 AND id = ?2",
        )?
        .execute(params![
            workflow.get(),
            id.get(),
            answer.consent.word(),
            answer.reason,
            answer.by.to_string(),
            now.wall.get()
        ])?;
        Ok(())
    })
}

/// Continues a run that was paused for a person.
fn continue_paused_run(locked: &mut LockedInstance<'_>, sender: &Sender, now: Now) -> Result<()> {
    if locked.live_run()?.state == (RunState::Paused { cause: PauseCause::Human }) {
        runs::continue_run(locked, sender, now)?;
    }
    Ok(())
}

const FROM_SQL: &str = "FROM approval p LEFT JOIN run r ON r.workflow = p.workflow AND r.id = p.run
    LEFT JOIN attempt t ON t.workflow = p.workflow AND t.agent = p.agent AND t.epoch = p.epoch WHERE p.workflow = ?1";

fn find_approval(db: &Connection, workflow: WorkflowId, id: ApprovalId) -> Result<Approval> {
    db.prepare_cached(&list_sql(ApprovalQuery::One(id)))?
        .query_row([workflow.get(), id.get()], read_approval)
        .optional()?
        .ok_or(Error::NotFound("approval"))
}

/// A request is open while its answer can still be used: while the delivery it was made for is open.
const OPEN_CONDITION_SQL: &str = delivery_sql!("p.used IS NULL AND p.answer IS NULL AND r.ended IS NULL AND EXISTS (
    SELECT 1 FROM delivery d WHERE d.workflow = p.workflow AND d.seq = p.oldest AND d.agent = p.agent
    AND d.state IN " UNFINISHED ")");

/// Lists requests, oldest first.
pub(crate) fn list(
    db: &Connection,
    workflow: WorkflowId,
    which: ApprovalQuery,
) -> Result<Vec<Approval>> {
    match which {
        ApprovalQuery::One(id) => match find_approval(db, workflow, id) {
            Ok(found) => Ok(vec![found]),
            Err(Error::NotFound(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        },
        ApprovalQuery::Open => {
            let mut statement = db.prepare_cached(&list_sql(which))?;
            damage::collect_intact(statement.query_map([workflow.get()], read_approval)?)
        }
    }
}

pub(crate) fn list_sql(which: ApprovalQuery) -> String {
    let columns = format!(
        "p.id, {RUN_ID}, p.agent, t.id, p.tool, p.args, p.asked, p.answer, p.reason, p.whose, {},
        CASE WHEN t.id IS NULL THEN p.workflow || ' ' || p.agent || ' ' || p.epoch ELSE {} END",
        APPROVAL.check, ATTEMPT.check
    );
    match which {
        ApprovalQuery::One(_) => format!("SELECT {columns} {FROM_SQL} AND p.id = ?2"),
        ApprovalQuery::Open => {
            let indexed = FROM_SQL.replace("approval p", "approval p INDEXED BY approval_unused");
            format!("SELECT {columns} {indexed} AND {OPEN_CONDITION_SQL} ORDER BY p.id")
        }
    }
}

fn read_approval(row: &Row<'_>) -> db::Result<Approval> {
    APPROVAL.verify(row, 10)?;
    ATTEMPT.verify(row, 11)?;
    let answer = match columns::optional(row, 7, columns::word)? {
        None => None,
        Some(consent) => Some(ApprovalAnswer {
            consent,
            reason: row.get(8)?,
            by: Sender::from(row.get::<String>(9)?),
        }),
    };
    Ok(Approval {
        id: ApprovalId::new(row.get(0)?),
        run: checksum::run_id(row, 1)?,
        agent: columns::parse(row, 2)?,
        attempt: columns::attempt_id(row, 3)?,
        tool: row.get(4)?,
        args: columns::json(row, 5)?,
        asked: columns::millis(row, 6)?,
        answer,
    })
}
