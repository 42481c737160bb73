//! Suggestions: what others would change in documents that have an owner. Its number is that of the message that told the owner.

use agent_worker_protocol::{
    AgentName, Epoch, EventKind, Revision, Role, RunState, Sender, Seq, SuggestionState,
    WorkflowId, api::SuggestionView,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::json;

use super::{
    author::Author,
    checksum::{self, SUGGESTION},
    columns,
    documents::{self, At},
    effects::once,
    events::Entry,
    head::Head,
    roles,
    writer::Tx,
};
use crate::{
    damage,
    error::{Error, Result},
    model::{
        Base, By, DocumentWrite, Edit, NewMessage, NewSuggestion, Once, Recipient,
        SuggestionAnswer, SuggestionVerdict, Wake,
    },
    time::Now,
};

/// Keeps a suggestion and tells the owner, in one step.
pub(super) fn put(tx: &Tx<'_>, by: &By, new: &NewSuggestion, now: Now) -> Result<Once<Seq>> {
    once(Head::lock(tx, new.workflow)?, by, now, |head, author| {
        let owner = roles::holder(head, Role::DocumentOwner)?.ok_or(Error::MayWrite)?;
        if author.sender() == Sender::Agent(owner.clone()) {
            return Err(Error::MayWrite);
        }
        if let Some(edit) = &new.edit {
            let there = documents::get(tx, new.workflow, &new.path, At::Newest)?;
            let text = there.map(|document| document.content).unwrap_or_default();
            edit.apply(&text).map_err(Error::NoSuchPassage)?;
        }
        let wake = Recipient { agent: owner, wake: Wake::Batched };
        let told = NewMessage { recipients: vec![wake], ..new.message.clone() };
        let running = head.live()?.state == RunState::Running;
        let seq = head.message(author, &told, now)?;
        insert(head, author, new, seq, now)?;
        let data = json!({ "suggestion": seq, "path": new.path });
        head.event(&entry(EventKind::SuggestionOpen, author).data(data), now)?;
        if let Some(cause) = new.pause.clone().filter(|_| running) {
            head.pause(cause, &author.sender(), now)?;
        }
        Ok(seq)
    })
}

fn insert(head: &Head<'_>, author: &Author, new: &NewSuggestion, seq: Seq, now: Now) -> Result<()> {
    let (old, added) = match &new.edit {
        None => (None, None),
        Some(Edit::Append(text)) => (None, Some(text)),
        Some(Edit::Replace { old, new }) => (Some(old), Some(new)),
    };
    head.tx
        .prepare_cached(
            "INSERT INTO suggestion (workflow, seq, run, path, author, epoch, body, old, new, state, at, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
             row_checksum('suggestion', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, NULL, NULL, NULL))",
        )?
        .execute(params![
            head.workflow.get(),
            seq.get(),
            head.live()?.number.0,
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

/// Answers a suggestion for good: whoever may write documents accepts it, which carries it out, or rejects it.
pub(super) fn answer(
    tx: &Tx<'_>,
    by: &By,
    answer: &SuggestionAnswer,
    now: Now,
) -> Result<Once<Option<Revision>>> {
    once(Head::lock(tx, answer.workflow)?, by, now, |head, author| {
        roles::may_write(head, author)?;
        let found = get(tx, answer.workflow, answer.suggestion)?;
        let found = found.ok_or(Error::NotFound("suggestion"))?;
        if found.state != SuggestionState::Open {
            return Err(Error::SuggestionAnswered(found.state));
        }
        let (state, kind, reason, wake) = match &answer.verdict {
            SuggestionVerdict::Accept => {
                (SuggestionState::Accepted, EventKind::SuggestionAccepted, None, Wake::No)
            }
            SuggestionVerdict::Reject(why) => {
                (SuggestionState::Rejected, EventKind::SuggestionRejected, Some(why), Wake::Batched)
            }
        };
        let revision = match state {
            SuggestionState::Accepted => carry_out(head, author, answer, &found, now)?,
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
        let data =
            json!({ "suggestion": answer.suggestion, "path": found.file, "revision": revision });
        head.event(&entry(kind, author).cause(reason.cloned()).data(data), now)?;
        tell(head, author, answer, &found, wake, now)?;
        Ok(revision)
    })
}

/// Writes what an accepted suggestion says to the letter. One in words alone is agreed to, not carried out.
fn carry_out(
    head: &mut Head<'_>,
    author: &Author,
    answer: &SuggestionAnswer,
    found: &SuggestionView,
    now: Now,
) -> Result<Option<Revision>> {
    let edit = match (found.old.clone(), found.new.clone()) {
        (_, None) => return Ok(None),
        (None, Some(new)) => Edit::Append(new),
        (Some(old), Some(new)) => Edit::Replace { old, new },
    };
    let newest = documents::get(head.tx, answer.workflow, &found.file, At::Newest)?;
    let base = newest.as_ref().map_or(Base::Absent, |there| Base::Revision(there.info.revision));
    let text = newest.map(|document| document.content).unwrap_or_default();
    let write = DocumentWrite {
        workflow: answer.workflow,
        path: found.file.clone(),
        content: edit.apply(&text).map_err(Error::NoSuchPassage)?,
        base,
        most: answer.most,
    };
    documents::write_next(head, author, &write, now).map(Some)
}

/// Tells its author, if that is an agent who is still there.
fn tell(
    head: &mut Head<'_>,
    author: &Author,
    answer: &SuggestionAnswer,
    found: &SuggestionView,
    wake: Wake,
    now: Now,
) -> Result<()> {
    let theirs = found.author.parse::<AgentName>().ok().filter(|name| head.agent(name).is_ok());
    let own = |name: &AgentName| author.sender() == Sender::Agent(name.clone());
    let recipients = theirs.filter(|name| !own(name)).map(|agent| Recipient { agent, wake });
    let recipients: Vec<_> = recipients.into_iter().collect();
    let told = NewMessage { recipients, ..answer.message.clone() };
    let running = head.live()?.state == RunState::Running;
    head.message(author, &told, now)?;
    match answer.pause.clone().filter(|_| running) {
        Some(cause) => head.pause(cause, &author.sender(), now),
        None => Ok(()),
    }
}

fn entry(kind: EventKind, author: &Author) -> Entry<'_> {
    let entry = Entry::of(kind).by(&author.sender());
    match author {
        Author::Attempt(live) => entry.agent(&live.agent).attempt(live.id),
        Author::Other(_) => entry,
    }
}

fn select(condition: &str) -> String {
    format!(
        "SELECT s.seq, s.path, s.author, {}, s.body, s.old, s.new, s.state, s.answered_by, s.reason, s.revision, s.at, {}
        FROM suggestion s LEFT JOIN attempt t ON t.workflow = s.workflow AND t.agent = s.author AND t.epoch = s.epoch
        WHERE s.workflow = ?1 AND {condition}",
        checksum::attempt_id_sql(),
        SUGGESTION.check
    )
}

pub(super) fn get(
    db: &Connection,
    workflow: WorkflowId,
    seq: Seq,
) -> Result<Option<SuggestionView>> {
    let key = [workflow.get(), seq.get()];
    Ok(db.prepare_cached(&select("s.seq = ?2"))?.query_row(key, view).optional()?)
}

/// Newest first.
pub(super) fn list(
    db: &Connection,
    workflow: WorkflowId,
    limit: u32,
) -> Result<Vec<SuggestionView>> {
    let mut statement = db.prepare_cached(&select("true ORDER BY s.seq DESC LIMIT ?2"))?;
    damage::intact(statement.query_map(params![workflow.get(), limit], view)?)
}

fn view(row: &Row<'_>) -> rusqlite::Result<SuggestionView> {
    SUGGESTION.verify(row, 12)?;
    Ok(SuggestionView {
        suggestion: columns::seq(row, 0)?,
        file: columns::parsed(row, 1)?,
        author: row.get(2)?,
        attempt: checksum::attempt_id(row, 3)?,
        text: row.get(4)?,
        old: row.get(5)?,
        new: row.get(6)?,
        state: columns::word(row, 7, SuggestionState::from_word)?,
        by: row.get(8)?,
        reason: row.get(9)?,
        revision: row.get::<_, Option<i64>>(10)?.map(Revision::new),
        made: columns::millis(row, 11)?,
    })
}
