//! Suggestions: changes to documents that an agent other than the owner proposes. The number of a suggestion is the
//! seq of the message that notified the owner.

use agent_worker_protocol::{
    AgentName, Epoch, EventBody, Keyword as _, Revision, Role, RunState, Sender, Seq,
    SuggestionAnsweredData, SuggestionOpenData, SuggestionState, WorkflowId, api::SuggestionView,
};

use super::{
    author::Author,
    checksum::{self, SUGGESTION},
    columns,
    documents::{self, RevisionSelector},
    effects::once,
    events::EventEntry,
    locked_instance::LockedInstance,
    roles,
    transaction::Tx,
};
use crate::{
    damage,
    db::{self, Connection, OptionalExtension, Row, params},
    error::{Error, Result},
    model::{
        DocumentBase, DocumentEdit, DocumentWrite, ListRange, NewMessage, NewSuggestion, Once,
        Recipient, SuggestionAnswer, SuggestionVerdict, Wake, WriteContext,
    },
    time::Now,
};

/// Stores a suggestion and notifies the owner, in one transaction.
pub(crate) fn put_suggestion(
    tx: &Tx<'_>,
    by: &WriteContext,
    new: &NewSuggestion,
    now: Now,
) -> Result<Once<Seq>> {
    once(LockedInstance::lock(tx, new.workflow)?, by, now, |locked, author| {
        let owner =
            roles::holder(locked, Role::DocumentOwner)?.ok_or(Error::SuggestionNotNeeded)?;
        if author.sender() == Sender::Agent(owner.clone()) {
            return Err(Error::SuggestionNotNeeded);
        }
        if let Some(edit) = &new.edit {
            let there = documents::get(tx, new.workflow, &new.path, RevisionSelector::Newest)?;
            let text = there.map(|document| document.content).unwrap_or_default();
            edit.apply(&text).map_err(Error::PassageNotUnique)?;
        }
        let wake = Recipient { agent: owner, wake: Wake::Batched };
        let notice = NewMessage { recipients: vec![wake], ..new.message.clone() };
        let running = locked.live_run()?.state == RunState::Running;
        let seq = locked.append_message(author, &notice, now)?;
        insert_suggestion(locked, author, new, seq, now)?;
        let data = SuggestionOpenData { suggestion: seq, path: new.path.clone() };
        let body = EventBody::SuggestionOpen(data);
        locked.append_event(&suggestion_event(body, author), now)?;
        if let Some(cause) = new.pause.clone().filter(|_| running) {
            locked.pause_run(cause, &author.sender(), now)?;
        }
        Ok(seq)
    })
}

fn insert_suggestion(
    locked: &LockedInstance<'_>,
    author: &Author,
    new: &NewSuggestion,
    seq: Seq,
    now: Now,
) -> Result<()> {
    let (old, added) = match &new.edit {
        None => (None, None),
        Some(DocumentEdit::Append(text)) => (None, Some(text)),
        Some(DocumentEdit::Replace { old, new }) => (Some(old), Some(new)),
    };
    locked.tx
        .prepare_cached(
            "INSERT INTO suggestion (workflow, seq, run, path, author, epoch, body, old, new, state, at, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
             row_checksum('suggestion', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, NULL, NULL, NULL))",
        )?
        .execute(params![
            locked.workflow.get(),
            seq.get(),
            locked.live_run()?.number.0,
            new.path.as_str(),
            author.sender().to_string(),
            author.epoch().map(Epoch::get),
            new.text,
            old,
            added,
            SuggestionState::Open.word(),
            now.wall.get()
        ])?;
    Ok(())
}

/// Answers a suggestion for good: an author that may write documents accepts it, which applies it, or rejects it.
pub(crate) fn answer_suggestion(
    tx: &Tx<'_>,
    by: &WriteContext,
    answer: &SuggestionAnswer,
    now: Now,
) -> Result<Once<Option<Revision>>> {
    once(LockedInstance::lock(tx, answer.workflow)?, by, now, |locked, author| {
        roles::require_document_writer(locked, author)?;
        let found = get(tx, answer.workflow, answer.suggestion)?;
        let found = found.ok_or(Error::NotFound("suggestion"))?;
        if found.state != SuggestionState::Open {
            return Err(Error::SuggestionAnswered(found.state));
        }
        let (state, reason, wake) = match &answer.verdict {
            SuggestionVerdict::Accept => (SuggestionState::Accepted, None, Wake::No),
            SuggestionVerdict::Reject(why) => (SuggestionState::Rejected, Some(why), Wake::Batched),
        };
        let revision = match state {
            SuggestionState::Accepted => apply_edit(locked, author, answer, &found, now)?,
            SuggestionState::Open | SuggestionState::Rejected => None,
        };
        let key = params![answer.workflow.get(), answer.suggestion.get()];
        SUGGESTION.update(tx, "s.workflow = ?1 AND s.seq = ?2", key, || {
            tx.prepare_cached(
                "UPDATE suggestion SET state = ?3, answered_by = ?4, reason = ?5, revision = ?6 WHERE workflow = ?1 AND seq = ?2",
            )?
            .execute(params![
                answer.workflow.get(),
                answer.suggestion.get(),
                state.word(),
                author.sender().to_string(),
                reason,
                revision.map(Revision::get)
            ])?;
            Ok(())
        })?;
        let data = SuggestionAnsweredData {
            suggestion: answer.suggestion,
            path: found.file.clone(),
            revision,
        };
        let body = match &answer.verdict {
            SuggestionVerdict::Accept => EventBody::SuggestionAccepted(data),
            SuggestionVerdict::Reject(_) => EventBody::SuggestionRejected(data),
        };
        locked.append_event(&suggestion_event(body, author).cause(reason.cloned()), now)?;
        notify_author(locked, author, answer, &found, wake, now)?;
        Ok(revision)
    })
}

/// Applies the exact edit of an accepted suggestion. One without an exact edit is accepted and changes nothing.
fn apply_edit(
    locked: &mut LockedInstance<'_>,
    author: &Author,
    answer: &SuggestionAnswer,
    found: &SuggestionView,
    now: Now,
) -> Result<Option<Revision>> {
    let edit = match (found.old.clone(), found.new.clone()) {
        (_, None) => return Ok(None),
        (None, Some(new)) => DocumentEdit::Append(new),
        (Some(old), Some(new)) => DocumentEdit::Replace { old, new },
    };
    let newest = documents::get(locked.tx, answer.workflow, &found.file, RevisionSelector::Newest)?;
    let base = newest
        .as_ref()
        .map_or(DocumentBase::Absent, |there| DocumentBase::Revision(there.info.revision));
    let text = newest.map(|document| document.content).unwrap_or_default();
    let write = DocumentWrite {
        workflow: answer.workflow,
        path: found.file.clone(),
        content: edit.apply(&text).map_err(Error::PassageNotUnique)?,
        base,
        max_bytes: answer.max_bytes,
    };
    documents::write_next_revision(locked, author, &write, now).map(Some)
}

/// Notifies the suggestion's author, if that is an agent that still takes part.
fn notify_author(
    locked: &mut LockedInstance<'_>,
    author: &Author,
    answer: &SuggestionAnswer,
    found: &SuggestionView,
    wake: Wake,
    now: Now,
) -> Result<()> {
    let theirs =
        found.author.parse::<AgentName>().ok().filter(|name| locked.find_agent(name).is_ok());
    let own = |name: &AgentName| author.sender() == Sender::Agent(name.clone());
    let recipients = theirs.filter(|name| !own(name)).map(|agent| Recipient { agent, wake });
    let recipients: Vec<_> = recipients.into_iter().collect();
    let notice = NewMessage { recipients, ..answer.message.clone() };
    let running = locked.live_run()?.state == RunState::Running;
    locked.append_message(author, &notice, now)?;
    match answer.pause.clone().filter(|_| running) {
        Some(cause) => locked.pause_run(cause, &author.sender(), now),
        None => Ok(()),
    }
}

fn suggestion_event(body: EventBody, author: &Author) -> EventEntry<'_> {
    let entry = EventEntry::new(body).by(&author.sender());
    match author {
        Author::Attempt(live) => entry.agent(&live.agent).attempt(live.id),
        Author::Other(_) => entry,
    }
}

fn select_sql(condition: &str) -> String {
    format!(
        "SELECT s.seq, s.path, s.author, {}, s.body, s.old, s.new, s.state, s.answered_by, s.reason, s.revision, s.at, {}
        FROM suggestion s LEFT JOIN attempt t ON t.workflow = s.workflow AND t.agent = s.author AND t.epoch = s.epoch
        WHERE s.workflow = ?1 AND {condition}",
        checksum::attempt_id_sql(),
        SUGGESTION.check
    )
}

pub(crate) fn get(
    db: &Connection,
    workflow: WorkflowId,
    seq: Seq,
) -> Result<Option<SuggestionView>> {
    let key = [workflow.get(), seq.get()];
    Ok(db.prepare_cached(&select_sql("s.seq = ?2"))?.query_row(key, read_suggestion).optional()?)
}

pub(crate) fn list_sql() -> String {
    select_sql("s.seq < ?2 ORDER BY s.seq DESC")
}

/// Lists suggestions, newest first.
pub(crate) fn list(
    db: &Connection,
    workflow: WorkflowId,
    range: ListRange<Seq>,
) -> Result<Vec<SuggestionView>> {
    let mut statement = db.prepare_cached(&list_sql())?;
    let before = range.after.map_or(i64::MAX, Seq::get);
    let rows = statement.query_map(params![workflow.get(), before], read_suggestion)?;
    damage::take_intact(rows, range.limit)
}

fn read_suggestion(row: &Row<'_>) -> db::Result<SuggestionView> {
    SUGGESTION.verify(row, 12)?;
    Ok(SuggestionView {
        suggestion: columns::seq(row, 0)?,
        file: columns::parse(row, 1)?,
        author: row.get(2)?,
        attempt: checksum::attempt_id(row, 3)?,
        text: row.get(4)?,
        old: row.get(5)?,
        new: row.get(6)?,
        state: columns::word(row, 7)?,
        by: row.get(8)?,
        reason: row.get(9)?,
        revision: row.get::<Option<i64>>(10)?.map(Revision::new),
        made: columns::millis(row, 11)?,
    })
}
