//! Questions to a person: asked in a turn that then ends, answered by a message that wakes the agent that asked.

use agent_worker_protocol::{
    EventBody, MessageKind, PauseCause, Priority, QuestionData, QuestionId, RunState, Seq,
    WorkflowId,
};

use super::{
    author::Author,
    checksum::{self, QUESTION, RUN_ID},
    columns,
    effects::once,
    events::EventEntry,
    locked_instance::LockedInstance,
    runs,
    transaction::Tx,
};
use crate::{
    damage,
    db::{self, Connection, OptionalExtension, Row, params},
    error::{Error, Result},
    model::{
        NewMessage, NewQuestion, Once, QuestionQuery, QuestionRow, Recipient, Wake, WriteContext,
    },
    time::Now,
};

/// Asks a question as a live attempt.
pub(crate) fn ask_question(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    new: &NewQuestion,
    now: Now,
) -> Result<Once<QuestionId>> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let Author::Attempt(live) = author else { return Err(Error::Fenced) };
        let run = locked.live_run()?.number;
        let id = QuestionId::new(locked.next_number("last_question")?);
        let body = EventBody::QuestionOpen(QuestionData { question: id });
        let entry = EventEntry::new(body).agent(&live.agent).attempt(live.id);
        locked.append_event(&entry, now)?;
        let message =
            NewMessage { hops: new.hop_context.hops, ..plain_message((new.text)(id, new)) };
        let seq = locked.append_message(author, &message, now)?;
        locked.pause_run_if(new.hop_context.pause.as_ref(), &author.sender(), now)?;
        tx.prepare_cached(
            "INSERT INTO question (workflow, id, run, agent, question, options, seq, asked, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,
             row_checksum('question', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL, NULL))",
        )?
        .execute(params![
            workflow.get(),
            id.get(),
            run.0,
            live.agent.as_str(),
            new.question,
            serde_json::to_string(&new.options)?,
            seq.get(),
            now.wall.get()
        ])?;
        Ok(id)
    })
}

/// Answers a question of the live run and wakes the agent that asked. Continues a run that was paused for a person.
pub(crate) fn answer_question(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    id: QuestionId,
    answer: &str,
    now: Now,
) -> Result<Once<Seq>> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let found = find_question(locked, id)?;
        if found.question.answer.is_some() {
            return Err(Error::QuestionAnswered(id));
        }
        if locked.live_run()?.id != found.question.run {
            return Err(Error::NoRun);
        }
        let agent = locked.find_agent(&found.question.agent)?;
        let key = params![workflow.get(), id.get()];
        QUESTION.update(tx, "q.workflow = ?1 AND q.id = ?2", key, || {
            tx.prepare_cached(
                "UPDATE question SET answer = ?3, answered = ?4 WHERE workflow = ?1 AND id = ?2",
            )?
            .execute(params![workflow.get(), id.get(), answer, now.wall.get()])?;
            Ok(())
        })?;
        let body = EventBody::QuestionAnswered(QuestionData { question: id });
        let entry = EventEntry::new(body).agent(&agent).by(&author.sender());
        locked.append_event(&entry, now)?;
        let recipients = vec![Recipient { agent, wake: Wake::Batched }];
        let message = NewMessage {
            reply_to: Some(found.seq),
            recipients,
            ..plain_message(answer.to_owned())
        };
        let seq = locked.append_message(author, &message, now)?;
        if locked.live_run()?.state == (RunState::Paused { cause: PauseCause::Human }) {
            runs::continue_run(locked, &author.sender(), now)?;
        }
        Ok(seq)
    })
}

fn plain_message(body: String) -> NewMessage {
    NewMessage {
        kind: MessageKind::Message,
        body,
        data: Vec::new(),
        reply_to: None,
        hops: 0,
        priority: Priority::Normal,
        resource: None,
        recipients: Vec::new(),
        attachments: Vec::new(),
    }
}

/// A question and the message that asked it.
struct StoredQuestion {
    question: QuestionRow,
    seq: Seq,
}

fn select_sql(condition: &str) -> String {
    format!(
        "SELECT q.id, {RUN_ID}, q.agent, q.question, q.options, q.asked, q.answer, q.seq, {}
        FROM question q LEFT JOIN run r ON r.workflow = q.workflow AND r.id = q.run WHERE q.workflow = ?1 AND {condition}",
        QUESTION.check
    )
}

fn find_question(locked: &LockedInstance<'_>, id: QuestionId) -> Result<StoredQuestion> {
    locked
        .tx
        .prepare_cached(&select_sql("q.id = ?2"))?
        .query_row([locked.workflow.get(), id.get()], |row| {
            Ok(StoredQuestion { question: read_question(row)?, seq: columns::seq(row, 7)? })
        })
        .optional()?
        .ok_or(Error::NotFound("question"))
}

/// Lists questions, oldest first. A question is open if its agent takes part in the live run and can be answered.
pub(crate) fn list(
    db: &Connection,
    workflow: WorkflowId,
    which: QuestionQuery,
) -> Result<Vec<QuestionRow>> {
    let condition = match which {
        QuestionQuery::All => "true",
        QuestionQuery::Open => {
            "q.answer IS NULL AND r.ended IS NULL AND EXISTS (
              SELECT 1 FROM agent a WHERE a.workflow = ?1 AND a.name = q.agent AND a.run = q.run)"
        }
    };
    let mut statement = db.prepare_cached(&select_sql(&format!("{condition} ORDER BY q.id")))?;
    damage::collect_intact(statement.query_map([workflow.get()], read_question)?)
}

fn read_question(row: &Row<'_>) -> db::Result<QuestionRow> {
    QUESTION.verify(row, 8)?;
    Ok(QuestionRow {
        id: QuestionId::new(row.get(0)?),
        run: checksum::run_id(row, 1)?,
        agent: columns::parse(row, 2)?,
        question: row.get(3)?,
        options: columns::json(row, 4)?,
        asked: columns::millis(row, 5)?,
        answer: row.get(6)?,
    })
}
