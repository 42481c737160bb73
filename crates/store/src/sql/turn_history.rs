//! The history of turns: writing the entries of a worker's events, and reading them again.
//!
//! Texts are compressed before the transaction ([`PreparedEvent`]); inside of it, a text that the run has already is only
//! named. Invariant: an entry is written in the transaction of its event, so that an acknowledged event has its history.
//! Invariant: a text that cannot be stored makes neither the event nor the turn fail; the attempt is marked `lost`.
//!
//! Not here: secrets, which the caller has replaced.

mod expiry;
#[cfg(test)]
mod tests;

use agent_worker_protocol::{
    AttemptId, EventBody, Hash, HistoryState, HistoryText, Keyword as _, MAX_HISTORY_RUN_BYTES,
    MAX_HISTORY_TEXT_BYTES, MAX_SHORT_TEXT_BYTES, NumberedEvent, TextState, WorkerEvent,
};
use miniz_oxide::{deflate::compress_to_vec_zlib, inflate::decompress_to_vec_zlib_with_limit};
use sha2::{Digest, Sha256};

pub(crate) use self::expiry::expire;
#[cfg(test)]
pub(crate) use self::expiry::{OLD_ATTEMPTS_SQL, OLD_TEXTS_SQL};
use super::{
    attempts,
    checksum::{EVENT, TURN_ENTRY, TURN_TEXT},
    columns,
    locked_instance::LockedInstance,
    transaction::Tx,
};
use crate::{
    damage,
    db::{self, Connection, Row, params},
    error::{Error, Result},
    model::{AttemptRow, HistoryContent, HistoryEntry, HistoryKey, HistoryPart, ListRange},
    time::Now,
};

/// Compression level of texts: the fastest, because it is on the way of a worker's report.
const COMPRESSION_LEVEL: u8 = 1;
/// Size of the texts of one part of a history from which no further entry is added.
const MAX_PART_BYTES: usize = 4 * 1024 * 1024;
/// Time for which the last use of a text may be outdated: equal texts do not write their row each time.
const USE_RESOLUTION_MILLIS: i64 = 60 * 60 * 1_000;

/// The kinds of entries, as stored.
const SYSTEM: &str = "system";
const PROMPT: &str = "prompt";
const WORDS: &str = "words";
const EVENT_KIND: &str = "event";

/// A worker's event whose texts are compressed.
pub(crate) struct PreparedEvent {
    pub(crate) event: NumberedEvent,
    texts: Vec<PreparedText>,
}

/// A text to be stored.
struct PreparedText {
    kind: &'static str,
    bytes: u64,
    state: TextState,
    stored: Option<StoredText>,
    /// The beginning, for a run whose texts have reached their limit; none if the event has it.
    short: Option<StoredText>,
}

struct StoredText {
    hash: Hash,
    bytes: usize,
    content: Vec<u8>,
}

impl StoredText {
    fn new(text: &str) -> Self {
        Self {
            hash: Sha256::digest(text.as_bytes()).into(),
            bytes: text.len(),
            content: compress_to_vec_zlib(text.as_bytes(), COMPRESSION_LEVEL),
        }
    }
}

impl PreparedText {
    /// Compresses a text. A worker sends none that is too long, but an agent could.
    fn new(kind: &'static str, text: &HistoryText) -> Self {
        let text = text.clone().cut_to(MAX_HISTORY_TEXT_BYTES, TextState::Cut);
        let short = || {
            let text = text.clone().cut_to(MAX_SHORT_TEXT_BYTES, TextState::Limit);
            text.text.as_deref().map(StoredText::new)
        };
        Self {
            kind,
            bytes: text.bytes,
            state: text.state,
            stored: text.text.as_deref().map(StoredText::new),
            short: if kind == EVENT_KIND { None } else { short() },
        }
    }
}

impl PreparedEvent {
    /// Compresses the texts of an event.
    pub(crate) fn new(mut event: NumberedEvent) -> Self {
        let texts = match &event.event {
            WorkerEvent::Prompt { system, prompt, .. } => {
                vec![PreparedText::new(SYSTEM, system), PreparedText::new(PROMPT, prompt)]
            }
            WorkerEvent::Words(text) => vec![PreparedText::new(WORDS, text)],
            WorkerEvent::ToolCall { whole: Some(text), .. }
            | WorkerEvent::ToolResult { whole: Some(text), .. } => {
                vec![PreparedText::new(EVENT_KIND, text)]
            }
            WorkerEvent::ToolCall { whole: None, .. }
            | WorkerEvent::ToolResult { whole: None, .. }
            | WorkerEvent::Started { .. }
            | WorkerEvent::Usage(_)
            | WorkerEvent::Joined { .. }
            | WorkerEvent::Retry { .. }
            | WorkerEvent::Note { .. }
            | WorkerEvent::Session { .. }
            | WorkerEvent::Finished(_) => Vec::new(),
        };
        for text in event.event.history_texts_mut() {
            text.text = None;
        }
        Self { event, texts }
    }
}

/// Writes the entries of an event; `position` is that of the event in the log, if it has one.
///
/// Fails only for a reason that also prevents the rest of the transaction.
pub(crate) fn record(
    locked: &LockedInstance<'_>,
    attempt: &AttemptRow,
    prepared: &PreparedEvent,
    position: Option<i64>,
    now: Now,
) -> Result<()> {
    if let WorkerEvent::Prompt { mode, .. } = &prepared.event.event {
        mark(locked.tx, attempt.id, HistoryState::from(*mode))?;
    }
    let entry = EntryWriter { locked, attempt, prepared, position, now };
    if prepared.texts.is_empty() && position.is_some() {
        return entry.tolerate(entry.insert(0, EVENT_KIND, None));
    }
    for (part, text) in (0..).zip(&prepared.texts) {
        entry.tolerate(entry.insert_text(part, text))?;
    }
    Ok(())
}

/// Sets the state of the history of an attempt.
fn mark(tx: &Tx<'_>, attempt: AttemptId, state: HistoryState) -> Result<()> {
    tx.prepare_cached("UPDATE attempt SET history = ?2 WHERE id = ?1")?
        .execute(params![attempt.get().as_bytes(), state.word()])?;
    Ok(())
}

/// The columns of an entry that describe its text.
struct EntryText<'a> {
    hash: Option<&'a Hash>,
    bytes: u64,
    state: TextState,
}

/// Writes the entries of one event.
struct EntryWriter<'a> {
    locked: &'a LockedInstance<'a>,
    attempt: &'a AttemptRow,
    prepared: &'a PreparedEvent,
    position: Option<i64>,
    now: Now,
}

impl EntryWriter<'_> {
    /// Marks the history as incomplete if an entry was not written for a reason of its own.
    fn tolerate(&self, written: Result<()>) -> Result<()> {
        match written {
            Err(error @ (Error::Database(_) | Error::InvalidValue(_))) => {
                tracing::warn!(attempt = %self.attempt.id, %error, "a part of a turn's history is not stored");
                mark(self.locked.tx, self.attempt.id, HistoryState::Lost)
            }
            other => other,
        }
    }

    /// Writes a text and its entry. A text that cannot be stored leaves an entry that says so.
    fn insert_text(&self, part: u32, text: &PreparedText) -> Result<()> {
        let state = if text.state == TextState::Lost {
            mark(self.locked.tx, self.attempt.id, HistoryState::Lost)?;
            TextState::Lost
        } else {
            text.state
        };
        let whole = EntryText { hash: None, bytes: text.bytes, state };
        let Some(stored) = &text.stored else { return self.insert(part, text.kind, Some(&whole)) };
        let (kept, state) = if self.fits(stored)? {
            (Some(stored), state)
        } else {
            mark(self.locked.tx, self.attempt.id, HistoryState::Limit)?;
            // A text that is short anyway is whole.
            let is_short = stored.bytes <= MAX_SHORT_TEXT_BYTES && text.short.is_some();
            (text.short.as_ref(), if is_short { state } else { TextState::Limit })
        };
        match kept.map(|kept| self.put(kept)).transpose() {
            Ok(_) => {
                let hash = kept.map(|kept| &kept.hash);
                self.insert(part, text.kind, Some(&EntryText { hash, state, ..whole }))
            }
            Err(error) => {
                let lost = EntryText { state: TextState::Lost, ..whole };
                self.insert(part, text.kind, Some(&lost))?;
                Err(error)
            }
        }
    }

    /// Returns true if the run may keep this text whole.
    fn fits(&self, text: &StoredText) -> Result<bool> {
        let sql = "SELECT r.history_bytes FROM run r JOIN attempt t ON t.workflow = r.workflow AND t.run = r.id
            WHERE t.id = ?1";
        let id = self.attempt.id.get();
        let mut query = self.locked.tx.prepare_cached(sql)?;
        let kept = query.query_row([id.as_bytes()], |row| columns::size(row, 0))?;
        Ok(kept + text.bytes as u64 <= MAX_HISTORY_RUN_BYTES || self.has(text)?)
    }

    fn has(&self, text: &StoredText) -> Result<bool> {
        let sql =
            "SELECT 1 FROM turn_text x JOIN attempt t ON t.workflow = x.workflow AND t.run = x.run
            WHERE t.id = ?1 AND x.workflow = ?2 AND x.hash = ?3";
        let (id, workflow) = (self.attempt.id.get(), self.locked.workflow.get());
        Ok(self.locked.tx.prepare_cached(sql)?.exists(params![
            id.as_bytes(),
            workflow,
            text.hash
        ])?)
    }

    /// Stores a text, unless the run has it.
    fn put(&self, text: &StoredText) -> Result<()> {
        let (tx, workflow) = (self.locked.tx, self.locked.workflow.get());
        let (id, now) = (self.attempt.id.get(), self.now.store.get());
        if self.has(text)? {
            let sql =
                "UPDATE turn_text SET used = ?4 WHERE workflow = ?2 AND hash = ?3 AND used < ?5
                AND run = (SELECT run FROM attempt WHERE id = ?1)";
            let outdated = now - USE_RESOLUTION_MILLIS;
            let values = params![id.as_bytes(), workflow, text.hash, now, outdated];
            tx.prepare_cached(sql)?.execute(values)?;
            return Ok(());
        }
        tx.prepare_cached(
            "INSERT INTO turn_text (workflow, run, hash, bytes, content, used, checksum)
             SELECT ?1, t.run, ?2, ?3, ?4, ?5, row_checksum('turn_text', ?1, t.run, ?2, ?3, ?4)
             FROM attempt t WHERE t.id = ?6",
        )?
        .execute(params![
            workflow,
            text.hash,
            columns::size_column(text.bytes),
            text.content,
            now,
            id.as_bytes()
        ])?;
        tx.prepare_cached(
            "UPDATE run SET history_bytes = history_bytes + ?3
             WHERE workflow = ?1 AND id = (SELECT run FROM attempt WHERE id = ?2)",
        )?
        .execute(params![workflow, id.as_bytes(), columns::size_column(text.bytes)])?;
        Ok(())
    }

    fn insert(&self, part: u32, kind: &str, text: Option<&EntryText<'_>>) -> Result<()> {
        let sql = "INSERT INTO turn_entry (workflow, attempt, no, part, run, kind, at, position, hash, bytes, state,
            checksum) SELECT ?1, ?2, ?3, ?4, t.run, ?5, ?6, ?7, ?8, ?9, ?10,
            row_checksum('turn_entry', ?1, ?2, ?3, ?4, t.run, ?5, ?6, ?7, ?8, ?9, ?10) FROM attempt t WHERE t.id = ?2";
        let event = &self.prepared.event;
        self.locked.tx.prepare_cached(sql)?.execute(params![
            self.locked.workflow.get(),
            self.attempt.id.get().as_bytes(),
            event.no,
            part,
            kind,
            event.ts.min(self.now.wall).get(),
            self.position,
            text.and_then(|text| text.hash),
            text.map(|text| columns::size_column(text.bytes)),
            text.map(|text| text.state.word())
        ])?;
        Ok(())
    }
}

pub(crate) fn list_sql() -> String {
    format!(
        "SELECT h.no, h.part, h.kind, h.at, h.hash, h.bytes, h.state, {}, x.content, {}, e.kind, e.data, {}
        FROM turn_entry h
        LEFT JOIN turn_text x ON x.workflow = h.workflow AND x.run = h.run AND x.hash = h.hash
        LEFT JOIN event e ON e.workflow = h.workflow AND e.position = h.position
        WHERE h.workflow = ?1 AND h.attempt = ?2 AND h.no >= ?3 AND (h.no > ?3 OR h.part > ?4)
        ORDER BY h.no, h.part",
        TURN_ENTRY.check, TURN_TEXT.check, EVENT.check
    )
}

/// Reads a part of the history of an attempt, oldest entries first.
pub(crate) fn list(
    db: &Connection,
    attempt: AttemptId,
    range: ListRange<HistoryKey>,
) -> Result<HistoryPart> {
    let workflow = attempts::get(db, attempt)?.fence.workflow;
    let after = range.after.unwrap_or(HistoryKey { no: 0, part: 0 });
    // The first number is 1, so that no part of an entry 0 is left out.
    let mut statement = db.prepare_cached(&list_sql())?;
    let id = attempt.get();
    let values = params![workflow.get(), id.as_bytes(), after.no, after.part];
    let mut rows = statement.query_map(values, read_entry)?;
    let mut part = HistoryPart { entries: Vec::new(), is_cut: false };
    let mut bytes = 0;
    while part.entries.len() < range.limit as usize {
        if bytes >= MAX_PART_BYTES {
            part.is_cut = true;
            break;
        }
        let Some(row) = rows.next() else { break };
        let entry = row?;
        bytes += entry_bytes(&entry.content);
        part.entries.push(entry);
    }
    Ok(part)
}

fn entry_bytes(content: &HistoryContent) -> usize {
    match content {
        HistoryContent::System(text)
        | HistoryContent::Prompt(text)
        | HistoryContent::Words(text)
        | HistoryContent::Event(_, Some(text)) => text.present_bytes(),
        HistoryContent::Event(_, None) | HistoryContent::Damaged => 0,
    }
}

fn read_entry(row: &Row<'_>) -> db::Result<HistoryEntry> {
    let key = HistoryKey { no: row.get(0)?, part: row.get(1)? };
    let ts = columns::millis(row, 3)?;
    let content = match (TURN_ENTRY.verify(row, 7), EVENT.verify(row, 12)) {
        (Ok(()), Ok(())) => read_content(row)?,
        (Err(error), _) | (Ok(()), Err(error)) => {
            report(error);
            HistoryContent::Damaged
        }
    };
    Ok(HistoryEntry { key, ts, content })
}

fn read_content(row: &Row<'_>) -> db::Result<HistoryContent> {
    let kind: String = row.get(2)?;
    let text = read_text(row)?;
    Ok(match (kind.as_str(), text) {
        (SYSTEM, Some(text)) => HistoryContent::System(text),
        (PROMPT, Some(text)) => HistoryContent::Prompt(text),
        (WORDS, Some(text)) => HistoryContent::Words(text),
        (EVENT_KIND, text) => match read_event(row)? {
            Some(body) => HistoryContent::Event(body, text),
            None => HistoryContent::Damaged,
        },
        _ => HistoryContent::Damaged,
    })
}

/// Reads the event of an entry, if its row still exists.
fn read_event(row: &Row<'_>) -> db::Result<Option<EventBody>> {
    let Some(kind) = row.get::<Option<String>>(10)? else { return Ok(None) };
    let data = columns::optional(row, 11, columns::json)?.unwrap_or_default();
    Ok(Some(EventBody::parse(&kind, data).0))
}

/// Reads the text of an entry. A damaged one is reported and left out.
fn read_text(row: &Row<'_>) -> db::Result<Option<HistoryText>> {
    let Some(state) = columns::optional(row, 6, columns::word::<TextState>)? else {
        return Ok(None);
    };
    let bytes = columns::size(row, 5)?;
    let absent = |state| HistoryText { text: None, bytes, state };
    let Some(hash) = row.get::<Option<Hash>>(4)? else { return Ok(Some(absent(state))) };
    if let Err(error) = TURN_TEXT.verify(row, 9) {
        report(error);
        return Ok(Some(absent(TextState::Damaged)));
    }
    let Some(content) = row.get::<Option<Vec<u8>>>(8)? else {
        return Ok(Some(absent(TextState::Expired)));
    };
    let text = decompress_to_vec_zlib_with_limit(&content, MAX_HISTORY_TEXT_BYTES).ok();
    let text = text.filter(|text| Hash::from(Sha256::digest(text)) == hash);
    Ok(Some(match text.and_then(|text| String::from_utf8(text).ok()) {
        Some(text) => HistoryText { text: Some(text), bytes, state },
        None => absent(TextState::Damaged),
    }))
}

/// Reports the damaged row that an error names.
fn report(error: db::Error) {
    if let Error::Damaged(row) = Error::from(error) {
        damage::report_skipped(row);
    }
}
