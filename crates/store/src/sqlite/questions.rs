//! Questions to a person: asked in a turn that then ends, answered by a message that wakes whoever asked.

use agent_worker_protocol::{
    EventKind, MessageKind, PauseCause, Priority, QuestionId, RunState, Seq, WorkflowId,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::json;

use super::{
    author::Author,
    checksum::{self, QUESTION, RUN_ID},
    columns,
    effects::once,
    events::Entry,
    head::Head,
    runs,
    writer::Tx,
};
use crate::{
    damage,
    error::{Error, Result},
    model::{By, NewMessage, NewQuestion, Once, Question, QuestionQuery, Recipient, Wake},
    time::Now,
};

/// Asks, as a live attempt.
pub(super) fn ask(
    tx: &Tx<'_>,
    by: &By,
    workflow: WorkflowId,
    new: &NewQuestion,
    now: Now,
) -> Result<Once<QuestionId>> {
    once(Head::lock(tx, workflow)?, by, now, |head, author| {
        let Author::Attempt(live) = author else { return Err(Error::Fenced) };
        let run = head.live()?.number;
        let id = QuestionId::new(head.next_number("last_question")?);
        let entry = Entry::of(EventKind::QuestionOpen).agent(&live.agent).attempt(live.id);
        head.event(&entry.data(json!({ "question": id })), now)?;
        let options = match &new.options[..] {
            [] => String::new(),
            options => format!("\nOptions: {}", options.join(" | ")),
        };
        let body = format!("[QUESTION] #{id} {}{options}", new.question);
        let message = NewMessage { hops: new.said.hops, ..said(body) };
        let seq = head.message(author, &message, now)?;
        head.pause_if(new.said.pause.as_ref(), &author.sender(), now)?;
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

/// Answers a question of the live run and wakes whoever asked. A run that waited for a person goes on.
pub(super) fn answer(
    tx: &Tx<'_>,
    by: &By,
    workflow: WorkflowId,
    id: QuestionId,
    answer: &str,
    now: Now,
) -> Result<Once<Seq>> {
    once(Head::lock(tx, workflow)?, by, now, |head, author| {
        let found = find(head, id)?;
        if found.question.answer.is_some() {
            return Err(Error::Answered(id));
        }
        if head.live()?.id != found.question.run {
            return Err(Error::NoRun);
        }
        let agent = head.agent(&found.question.agent)?;
        let key = params![workflow.get(), id.get()];
        QUESTION.update(tx, "q.workflow = ?1 AND q.id = ?2", key, || {
            tx.prepare_cached(
                "UPDATE question SET answer = ?3, answered = ?4 WHERE workflow = ?1 AND id = ?2",
            )?
            .execute(params![workflow.get(), id.get(), answer, now.wall.get()])?;
            Ok(())
        })?;
        let entry = Entry::of(EventKind::QuestionAnswered).agent(&agent).by(&author.sender());
        head.event(&entry.data(json!({ "question": id })), now)?;
        let recipients = vec![Recipient { agent, wake: Wake::Batched }];
        let message =
            NewMessage { reply_to: Some(found.seq), recipients, ..said(answer.to_owned()) };
        let seq = head.message(author, &message, now)?;
        if head.live()?.state == (RunState::Paused { cause: PauseCause::Human }) {
            runs::go_on(head, &author.sender(), now)?;
        }
        Ok(seq)
    })
}

fn said(body: String) -> NewMessage {
    NewMessage {
        kind: MessageKind::Message,
        body,
        data: Vec::new(),
        reply_to: None,
        hops: 0,
        priority: Priority::Normal,
        resource: None,
        recipients: Vec::new(),
    }
}

/// A question and the message that asked it.
struct Found {
    question: Question,
    seq: Seq,
}

fn select(condition: &str) -> String {
    format!(
        "SELECT q.id, {RUN_ID}, q.agent, q.question, q.options, q.asked, q.answer, q.seq, {}
        FROM question q LEFT JOIN run r ON r.workflow = q.workflow AND r.id = q.run WHERE q.workflow = ?1 AND {condition}",
        QUESTION.check
    )
}

fn find(head: &Head<'_>, id: QuestionId) -> Result<Found> {
    head.tx
        .prepare_cached(&select("q.id = ?2"))?
        .query_row([head.workflow.get(), id.get()], |row| {
            Ok(Found { question: question(row)?, seq: columns::seq(row, 7)? })
        })
        .optional()?
        .ok_or(Error::NotFound("question"))
}

/// Oldest first. Open are those whose agent takes part in the live run and can be answered.
pub(super) fn list(
    db: &Connection,
    workflow: WorkflowId,
    which: QuestionQuery,
) -> Result<Vec<Question>> {
    let condition = match which {
        QuestionQuery::All => "true",
        QuestionQuery::Open => {
            "q.answer IS NULL AND r.ended IS NULL AND EXISTS (
              SELECT 1 FROM agent a WHERE a.workflow = ?1 AND a.name = q.agent AND a.run = q.run)"
        }
    };
    let mut statement = db.prepare_cached(&select(&format!("{condition} ORDER BY q.id")))?;
    damage::intact(statement.query_map([workflow.get()], question)?)
}

fn question(row: &Row<'_>) -> rusqlite::Result<Question> {
    QUESTION.verify(row, 8)?;
    Ok(Question {
        id: QuestionId::new(row.get(0)?),
        run: checksum::run_id(row, 1)?,
        agent: columns::parsed(row, 2)?,
        question: row.get(3)?,
        options: columns::json(row, 4)?,
        asked: columns::millis(row, 5)?,
        answer: row.get(6)?,
    })
}
