//! Checksums of rows: written with the row, verified by the function that turns the row into a struct.
//!
//! A checksum is the xxh3-128 of the table's name, the row's key and the columns listed below. It detects bytes that
//! changed on the disk or in memory; it is no protection against a forger, who can compute it as well.
//!
//! Columns that change after the row is written are treated in one of two ways:
//! - *Outside the checksum*: counters and states. `run`: `state`, `detail`, `ended`, `last_seq`, `since`,
//!   `forgotten`, turns, usage and the time that counts for the wall limit. `attempt`: `last_no`, `turn`, `history` and
//!   usage. `resource`: `run`. `turn_text`: `used`. `run`: also `history_bytes`. All of `spend_slot`.
//! - *Inside*: the updating statement runs in [`ChecksumTable::update`], which writes the checksum again. A row that
//!   was damaged before the update keeps its old checksum, so that an update never hides damage.
//!
//! `message` also has the SHA-256 of `hashed_message.rs`. A read verifies the xxh3, which is cheaper, and only rows
//! without one by their SHA-256. `instance_verify` recomputes every SHA-256.
//!
//! `run` has a second checksum over its id alone, because the id is read with every row of the run ([`RUN_ID`]).
//!
//! A row whose `checksum` is NULL was written by an earlier version: it is read as it is, and `doctor` counts it.

use std::cell::{Cell, RefCell};

use agent_worker_protocol::{AttemptId, RunId, WorkflowId, hash};
use xxhash_rust::xxh3::xxh3_128;

use super::{columns, transaction::Tx};
use crate::{
    damage::{self, DamagedRow},
    db::{self, Connection, FunctionArguments, OptionalExtension, Row, ToValue, ValueRef},
    error::Result,
};

/// The xxh3-128 of a row or a text.
pub(crate) type Checksum = [u8; 16];

/// A table whose rows have checksums. Statements use the alias in `source`.
pub(crate) struct ChecksumTable {
    pub(crate) name: &'static str,
    /// The table with its alias, for FROM and UPDATE.
    pub(crate) source: &'static str,
    /// An expression: NULL for a row that is intact, else its key.
    pub(crate) check: &'static str,
    /// An expression: true if the row has a checksum.
    pub(crate) is_hashed: &'static str,
    /// An expression: the checksum that the row should have.
    checksum: &'static str,
}

/// Defines a table: name, alias, key, the other columns in the order in which they are hashed, the key as text.
macro_rules! tables {
    ($($table:ident = $name:literal $alias:literal [$first:literal $(, $column:literal)*] key $key:literal;)*) => {
        $(pub(crate) const $table: ChecksumTable = ChecksumTable {
            name: $name,
            source: concat!($name, " AS ", $alias),
            check: concat!(
                "CASE WHEN ", $alias, ".checksum IS NULL OR ", $alias, ".checksum = ",
                tables!(@checksum $name $alias [$first $(, $column)*]),
                " THEN NULL ELSE coalesce(", $key, ", '?') END"
            ),
            is_hashed: concat!($alias, ".checksum IS NOT NULL"),
            checksum: tables!(@checksum $name $alias [$first $(, $column)*]),
        };)*
    };
    (@checksum $name:literal $alias:literal [$($column:literal),*]) => {
        concat!("row_checksum('", $name, "'", $(", ", $alias, ".", $column),*, ")")
    };
}

tables! {
    RUN = "run" "r" ["workflow", "id", "uuid", "uuid_checksum", "mode", "keep", "started", "after_seq", "script", "limits", "error", "kickoff"]
        key "r.workflow || ' ' || r.id";
    EFFECT = "effect" "e" ["workflow", "scope", "oldest", "key", "args", "tool", "result", "epoch", "run", "position", "at",
        "summary"]
        key "e.workflow || ' ' || e.scope || ' ' || e.oldest || ' ' || e.key";
    EVENT = "event" "e" ["workflow", "position", "run", "kind", "agent", "attempt", "seq", "cause", "whose", "next", "data", "at"]
        key "e.workflow || ' ' || e.position";
    DOCUMENT = "document" "d" ["workflow", "path", "revision", "run", "author", "epoch", "bytes", "at", "whole", "content_hash"]
        key "d.workflow || ' ' || d.path || ' ' || d.revision";
    PROPOSAL = "proposal" "p" ["workflow", "id", "run", "creator", "created", "deadline", "hops", "seq", "terms", "state",
        "active", "ended", "decided"]
        key "p.workflow || ' ' || p.id";
    BALLOT = "ballot" "b" ["workflow", "proposal", "voter", "choice", "reason", "at", "position"]
        key "b.workflow || ' ' || b.proposal || ' ' || b.voter";
    QUESTION = "question" "q" ["workflow", "id", "run", "agent", "question", "options", "seq", "asked", "answer", "answered"]
        key "q.workflow || ' ' || q.id";
    APPROVAL = "approval" "p" ["workflow", "id", "run", "agent", "oldest", "tool", "args", "hash", "epoch", "call", "holds",
        "asked", "answer", "reason", "whose", "answered", "used"]
        key "p.workflow || ' ' || p.id";
    GRANT = "permission_grant" "g" ["workflow", "id", "run", "agent", "pattern", "approval", "whose", "granted", "revoked"]
        key "g.workflow || ' ' || g.id";
    SUGGESTION = "suggestion" "s" ["workflow", "seq", "run", "path", "author", "epoch", "body", "old", "new", "state", "at",
        "answered_by", "reason", "revision"]
        key "s.workflow || ' ' || s.seq";
    TURN_TEXT = "turn_text" "x" ["workflow", "run", "hash", "bytes", "content"]
        key "x.workflow || ' ' || x.run || ' ' || lower(hex(x.hash))";
    TURN_ENTRY = "turn_entry" "h" ["workflow", "attempt", "no", "part", "run", "kind", "at", "position", "hash", "bytes",
        "state"]
        key "h.workflow || ' ' || lower(hex(h.attempt)) || ' ' || h.no || ' ' || h.part";
    TASK = "task" "k" ["workflow", "run", "path", "item", "state", "attempts", "condition", "items", "message", "format",
        "output", "resource", "exit_code", "error", "stderr", "started", "ended"]
        key "k.workflow || ' ' || k.run || ' ' || k.path || ' ' || k.item";
    VERDICT = "verdict" "v" ["workflow", "run", "outcome", "summary", "agent", "at"]
        key "v.workflow || ' ' || v.run";
}

/// An expression: a function of the columns of a message. It gets the attachments only if there are any, because a
/// message of an earlier version has none.
macro_rules! message_function {
    ($start:literal) => {
        message_function!(@columns $start "m.workflow, m.seq, m.run, m.sender, m.kind, m.body, m.data, m.reply_to, \
            m.hops, m.priority, m.resource, m.ts")
    };
    (@columns $start:literal $columns:literal) => {
        concat!(
            "CASE WHEN m.attachments IS NULL THEN ", $start, $columns, ") ELSE ", $start, $columns, ", m.attachments) END"
        )
    };
}

/// The checksum covers every column of a message; a row without a checksum is verified by its SHA-256.
pub(crate) const MESSAGE: ChecksumTable = ChecksumTable {
    name: "message",
    source: "message AS m",
    check: concat!(
        "CASE WHEN m.checksum = ",
        message_function!("row_checksum('message', "),
        " THEN NULL WHEN m.checksum IS NULL AND m.row_hash = ",
        message_function!("message_hash("),
        " THEN NULL ELSE coalesce(m.workflow || ' ' || m.seq, '?') END"
    ),
    // The SHA-256 of an older row counts as a checksum.
    is_hashed: "true",
    checksum: message_function!("row_checksum('message', "),
};

/// An expression: the checksum of an attempt. An attempt that an earlier version leased has no position in the channel,
/// and its checksum does not cover one.
macro_rules! attempt_checksum {
    () => {
        attempt_checksum!(
            "row_checksum('attempt', t.workflow, t.agent, t.epoch, t.id, t.run, t.oldest, t.number, t.setbacks, \
             t.shown, t.token_hash, t.started, t.finished, t.ended, t.how, t.answer"
        )
    };
    ($start:literal) => {
        concat!("CASE WHEN t.after_seq IS NULL THEN ", $start, ") ELSE ", $start, ", t.after_seq) END")
    };
}

pub(crate) const ATTEMPT: ChecksumTable = ChecksumTable {
    name: "attempt",
    source: "attempt AS t",
    check: concat!(
        "CASE WHEN t.checksum IS NULL OR t.checksum = ",
        attempt_checksum!(),
        " THEN NULL ELSE coalesce(t.workflow || ' ' || t.agent || ' ' || t.epoch, '?') END"
    ),
    is_hashed: "t.checksum IS NOT NULL",
    checksum: attempt_checksum!(),
};

/// A resource that an earlier version stored has no creator, and its checksum does not cover one.
pub(crate) const RESOURCE: ChecksumTable = ChecksumTable {
    name: "resource",
    source: "resource AS s",
    check: "CASE WHEN s.checksum IS NULL THEN NULL WHEN s.checksum = CASE WHEN s.created_by IS NULL \
            THEN row_checksum('resource', s.workflow, s.sha256, s.kind, s.bytes, s.at, s.blocks) \
            ELSE row_checksum('resource', s.workflow, s.sha256, s.kind, s.bytes, s.at, s.blocks, s.created_by) END \
            THEN NULL ELSE coalesce(s.workflow || ' ' || lower(hex(s.sha256)), '?') END",
    is_hashed: "s.checksum IS NOT NULL",
    checksum: "row_checksum('resource', s.workflow, s.sha256, s.kind, s.bytes, s.at, s.blocks, s.created_by)",
};

/// An expression: the id of a run `r`, for [`run_id`]; if the id is damaged, the key of the run.
pub(crate) const RUN_ID: &str = "CASE WHEN r.uuid_checksum IS NULL AND r.uuid IS NOT NULL \
    OR r.uuid_checksum = row_checksum('run', r.workflow, r.id, r.uuid) THEN r.uuid \
    ELSE coalesce(r.workflow || ' ' || r.id, '?') END";

/// Reads the column [`RUN_ID`].
pub(crate) fn run_id(row: &Row<'_>, column: usize) -> db::Result<RunId> {
    match row.get_ref(column)? {
        ValueRef::Text(key) => Err(RUN.error(key)),
        _ => columns::run_id(row, column),
    }
}

/// Finds the ids of runs by their numbers. It caches the last one, because the rows of a list are mostly of one run.
pub(crate) struct RunIdCache<'a> {
    db: &'a Connection,
    last: Cell<Option<(i64, i64, RunId)>>,
}

impl<'a> RunIdCache<'a> {
    pub(crate) fn of(db: &'a Connection) -> Self {
        Self { db, last: Cell::new(None) }
    }

    pub(crate) fn get(&self, workflow: i64, number: i64) -> db::Result<RunId> {
        match self.last.get() {
            Some((in_workflow, last, id)) if (in_workflow, last) == (workflow, number) => Ok(id),
            Some(_) | None => self.find(workflow, number),
        }
    }

    fn find(&self, workflow: i64, number: i64) -> db::Result<RunId> {
        let sql = format!("SELECT {RUN_ID} FROM run r WHERE r.workflow = ?1 AND r.id = ?2");
        let found =
            self.db.prepare_cached(&sql)?.query_row([workflow, number], |row| run_id(row, 0));
        let missing = || RUN.error(format!("{workflow} {number}").as_bytes());
        let id = found.optional()?.ok_or_else(missing)?;
        self.last.set(Some((workflow, number, id)));
        Ok(id)
    }
}

/// Returns an expression: the id of an attempt `t`, or NULL without one; if the attempt is damaged, its key.
pub(crate) fn attempt_id_sql() -> String {
    format!("CASE WHEN t.id IS NOT NULL THEN coalesce({}, t.id) END", ATTEMPT.check)
}

/// Reads the column of [`attempt_id_sql`]. A damaged attempt is reported, and the row that it wrote stays readable.
pub(crate) fn attempt_id(row: &Row<'_>, column: usize) -> db::Result<Option<AttemptId>> {
    match row.get_ref(column)? {
        ValueRef::Text(key) => {
            damage::report_skipped(ATTEMPT.damaged_row(&String::from_utf8_lossy(key)));
            Ok(None)
        }
        _ => columns::optional(row, column, columns::attempt_id),
    }
}

/// Every table whose rows have checksums.
pub(crate) const TABLES: [&ChecksumTable; 17] = [
    &RUN,
    &MESSAGE,
    &ATTEMPT,
    &EFFECT,
    &EVENT,
    &DOCUMENT,
    &RESOURCE,
    &PROPOSAL,
    &BALLOT,
    &QUESTION,
    &APPROVAL,
    &GRANT,
    &SUGGESTION,
    &VERDICT,
    &TASK,
    &TURN_TEXT,
    &TURN_ENTRY,
];

impl ChecksumTable {
    /// Returns an error for a damaged row; `column` is the table's `check`. Must be called before any other column is
    /// read.
    pub(crate) fn verify(&self, row: &Row<'_>, column: usize) -> db::Result<()> {
        match row.get_ref(column)? {
            ValueRef::Null => Ok(()),
            key => Err(self.error(key.as_bytes().unwrap_or(b"?"))),
        }
    }

    /// Returns the error for the damaged row with this key.
    pub(crate) fn error(&self, key: &[u8]) -> db::Error {
        let damaged = self.damaged_row(&String::from_utf8_lossy(key));
        db::Error::invalid_value(damaged)
    }

    /// Returns an error unless the checksum `written` is that of these values, in their order. A list that is read
    /// often uses this instead of [`ChecksumTable::check`]: SQLite then returns every column once instead of twice.
    pub(crate) fn verify_values(
        &self,
        values: &[ValueRef<'_>],
        written: ValueRef<'_>,
    ) -> db::Result<()> {
        let checksum = ENCODE_BUFFER.with_borrow_mut(|encoded| {
            encoded.clear();
            encode(encoded, ValueRef::Text(self.name.as_bytes()));
            for value in values {
                encode(encoded, *value);
            }
            hash_encoded(encoded)
        });
        if matches!(written.as_bytes(), Ok(bytes) if bytes == checksum) {
            return Ok(());
        }
        let part =
            |index: usize| values.get(index).map_or(0, |value| value.as_i64().unwrap_or_default());
        Err(self.error(format!("{} {}", part(0), part(1)).as_bytes()))
    }

    /// Names a damaged row by its key, which begins with the instance.
    pub(crate) fn damaged_row(&self, key: &str) -> DamagedRow {
        let (first, rest) = key.split_once(' ').unwrap_or((key, ""));
        let workflow = first.parse().ok().map(WorkflowId::new);
        let key = if workflow.is_some() { rest } else { key };
        DamagedRow { table: self.name, workflow, key: key.to_owned() }
    }

    /// Runs a statement that changes columns of the row `which`, then writes the row's checksum again. Earlier damage
    /// stays detectable.
    pub(crate) fn update<T>(
        &self,
        tx: &Tx<'_>,
        which: &str,
        key: &[&dyn ToValue],
        update: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Self { source, check, checksum, .. } = self;
        let is_damaged = tx
            .prepare_cached(&format!("SELECT {check} IS NOT NULL FROM {source} WHERE {which}"))?
            .query_row(key, |row| row.get(0))
            .optional()?;
        let updated = update()?;
        if is_damaged != Some(true) {
            tx.prepare_cached(&format!("UPDATE {source} SET checksum = {checksum} WHERE {which}"))?
                .execute(key)?;
        }
        Ok(updated)
    }
}

/// Returns the checksum of a text or of a block.
pub(crate) fn of(content: &[u8]) -> Checksum {
    xxh3_128(content).to_le_bytes()
}

/// Defines the functions of this file on a connection.
pub(crate) fn install_functions(db: &Connection) -> db::Result<()> {
    db.create_function(c"row_checksum", -1, row_checksum)?;
    db.create_function(c"message_hash", -1, message_hash)
}

thread_local! {
    /// The encoded values in one piece: hashing it is several times faster than hashing the pieces.
    static ENCODE_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
/// The largest buffer capacity that is kept.
const MAX_KEPT_CAPACITY: usize = 64 * 1024;

fn row_checksum(values: &FunctionArguments<'_>) -> Checksum {
    ENCODE_BUFFER.with_borrow_mut(|encoded| {
        encoded.clear();
        for index in 0..values.len() {
            encode(encoded, values.value(index));
        }
        hash_encoded(encoded)
    })
}

/// Hashes the encoded values.
fn hash_encoded(encoded: &mut Vec<u8>) -> Checksum {
    let checksum = of(encoded);
    if encoded.capacity() > MAX_KEPT_CAPACITY {
        *encoded = Vec::new();
    }
    checksum
}

/// Adds a value so that no two rows have the same encoding: its type, then its length if that varies.
fn encode(encoded: &mut Vec<u8>, value: ValueRef<'_>) {
    let (tag, bytes) = match value {
        ValueRef::Null => return encoded.push(0),
        ValueRef::Integer(number) => {
            encoded.push(1);
            return encoded.extend_from_slice(&number.to_le_bytes());
        }
        ValueRef::Real(number) => {
            encoded.push(2);
            return encoded.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        ValueRef::Text(text) => (3, text),
        ValueRef::Blob(blob) => (4, blob),
    };
    encoded.push(tag);
    encoded.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    encoded.extend_from_slice(bytes);
}

/// The position of the column `hops`, which has four bytes, among those of a message.
const HOPS_COLUMN: usize = 8;

/// Computes the SHA-256 of a message's columns; `HashedMessage::hash` computes the same when the message is written.
fn message_hash(values: &FunctionArguments<'_>) -> [u8; 32] {
    let bytes = |index| match values.value(index) {
        ValueRef::Null | ValueRef::Real(_) => Vec::new(),
        ValueRef::Integer(value) if index == HOPS_COLUMN => value.to_le_bytes()[..4].to_vec(),
        ValueRef::Integer(value) => value.to_le_bytes().to_vec(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
    };
    let fields: Vec<Vec<u8>> = (0..values.len()).map(bytes).collect();
    let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
    hash(&fields)
}
