//! Text search in messages: from an index for the indexed ones, by a scan for the later ones.
//!
//! Both compare folded texts, so that the result does not depend on the way a message was found.

use agent_worker_protocol::WorkflowId;

use super::{columns, locked_instance::LockedInstance, team_databases, transaction::Tx};
use crate::{
    db::{self, Connection, params},
    error::{Error, Result},
    model::MessageOrder,
};

/// The length of a trigram; shorter texts are in no trigram.
const TRIGRAM_CHARS: usize = 3;
/// The bits of an index rowid that hold the seq of a message: the limit of messages per instance.
const SEQ_BITS: u32 = 40;
/// The number of index pages merged in one step: a few milliseconds, for which a writer may have to wait.
const MERGE_PAGES: u32 = 16;

/// The parameters of a search.
pub(crate) struct MessageSearch<'a> {
    pub(crate) workflow: WorkflowId,
    /// Range of messages: after the first seq, up to and including the second.
    pub(crate) seq_range: (i64, i64),
    pub(crate) text: &'a str,
    pub(crate) order: MessageOrder,
    pub(crate) limit: u32,
}

/// Finds the messages that contain the text, starting from the end that `order` selects.
pub(crate) fn find_messages(db: &Connection, wanted: &MessageSearch<'_>) -> Result<Vec<i64>> {
    let text = fold(wanted.text);
    let (after, last) = wanted.seq_range;
    let has_gram = text.chars().nth(TRIGRAM_CHARS - 1).is_some();
    let mark = if has_gram { indexed_up_to(db, wanted.workflow)? } else { 0 };
    let (old, new) = ((after, last.min(mark)), (after.max(mark), last));
    let remaining = |found: &[i64]| wanted.limit as usize - found.len();
    let mut found = Vec::new();
    match wanted.order {
        MessageOrder::NewestFirst => {
            found.extend(scan_messages(db, wanted, &text, new, remaining(&found))?);
            found.extend(search_index(db, wanted, &text, old, remaining(&found))?);
        }
        MessageOrder::OldestFirst => {
            found.extend(search_index(db, wanted, &text, old, remaining(&found))?);
            found.extend(scan_messages(db, wanted, &text, new, remaining(&found))?);
        }
    }
    Ok(found)
}

/// Adds the next messages of an instance to the index; returns the number of messages that are left.
pub(crate) fn index_messages(tx: &Tx<'_>, workflow: WorkflowId, most: u32) -> Result<u32> {
    let locked = LockedInstance::lock(tx, workflow)?;
    let (mark, last) = (indexed_up_to(tx, workflow)?, locked.last_seq().get());
    let until = last.min(mark.saturating_add(most.into()));
    let mut rows = tx.prepare_cached(
        "SELECT seq, body FROM message WHERE workflow = ?1 AND seq > ?2 AND seq <= ?3",
    )?;
    let mut rows = rows.query([workflow.get(), mark, until])?;
    let mut insert = tx.prepare_cached("INSERT INTO said (rowid, body) VALUES (?1, ?2)")?;
    while let Some(row) = rows.next()? {
        let body = fold(&row.get::<String>(1)?);
        insert.execute(params![index_rowid(workflow, row.get(0)?)?, body])?;
    }
    tx.prepare_cached("UPDATE workflow SET searched = ?2 WHERE id = ?1")?
        .execute([workflow.get(), until])?;
    Ok(u32::try_from(last - until).unwrap_or(u32::MAX))
}

/// Merges some segments of the index, if there are enough; returns true if it did. Each indexing step leaves one
/// segment.
pub(crate) fn merge_index(tx: &Tx<'_>) -> Result<bool> {
    let before = tx.total_changes();
    tx.prepare_cached("INSERT INTO said (said, rank) VALUES ('merge', ?1)")?
        .execute([MERGE_PAGES])?;
    // The merge command itself counts as one change.
    Ok(tx.total_changes() - before > 1)
}

/// Lists the instances with messages that are not in the index.
pub(crate) fn unindexed_workflows(db: &Connection) -> Result<Vec<WorkflowId>> {
    let instances = db
        .prepare_cached("SELECT id FROM workflow WHERE last_seq > searched")?
        .query_map((), |row| row.get(0).map(WorkflowId::new))?
        .collect::<db::Result<_>>()?;
    Ok(instances)
}

/// Removes messages from the index: after the first seq, up to and including the second.
pub(crate) fn remove_from_index(
    tx: &Tx<'_>,
    workflow: WorkflowId,
    (after, last): (i64, i64),
) -> Result<()> {
    tx.prepare_cached(
        "DELETE FROM said WHERE rowid IN (SELECT ?4 + seq FROM message
         WHERE workflow = ?1 AND seq > ?2 AND seq <= min(?3, (SELECT searched FROM workflow WHERE id = ?1)))",
    )?
    .execute([workflow.get(), after, last, index_rowid(workflow, 0)?])?;
    Ok(())
}

fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    fold_into(&mut folded, text);
    folded
}

/// Folds case by one rule for every text: letter by letter, independent of the machine's locale. NUL is replaced,
/// because SQLite would end a text there.
fn fold_into(folded: &mut String, text: &str) {
    folded.clear();
    // The same result, faster for ASCII.
    if text.is_ascii() && !text.as_bytes().contains(&0) {
        folded.push_str(text);
        folded.make_ascii_lowercase();
        return;
    }
    let shown = |letter| if letter == '\0' { '␀' } else { letter };
    folded.extend(text.chars().map(shown).flat_map(char::to_lowercase));
}

/// Returns the rowid of a message in the index: instance by instance, each in the order of its messages.
fn index_rowid(workflow: WorkflowId, seq: i64) -> Result<i64> {
    // The ids of all instances begin with the number of this database.
    let among = workflow.get() & ((1 << team_databases::DATABASE_NUMBER_SHIFT) - 1);
    let base = among.checked_mul(1 << SEQ_BITS);
    let number = base.filter(|_| seq < 1 << SEQ_BITS).map(|base| base + seq);
    number.ok_or_else(|| Error::InvalidValue(format!("instance {workflow}, message {seq}")))
}

fn indexed_up_to(db: &Connection, workflow: WorkflowId) -> Result<i64> {
    let sql = "SELECT searched FROM workflow WHERE id = ?1";
    Ok(db.prepare_cached(sql)?.query_row([workflow.get()], |row| row.get(0))?)
}

fn search_index(
    db: &Connection,
    wanted: &MessageSearch<'_>,
    text: &str,
    (after, last): (i64, i64),
    limit: usize,
) -> Result<Vec<i64>> {
    if limit == 0 || last <= after {
        return Ok(Vec::new());
    }
    let phrase = format!("\"{}\"", text.replace('"', "\"\""));
    let (first, base) =
        (index_rowid(wanted.workflow, after + 1)?, index_rowid(wanted.workflow, 0)?);
    let sql = format!(
        "SELECT rowid - ?4 FROM said WHERE said MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid {} LIMIT ?5",
        sort_direction_sql(wanted.order)
    );
    let seqs = db
        .prepare_cached(&sql)?
        .query_map(params![phrase, first, base + last, base, columns::size_column(limit)], |row| {
            row.get(0)
        })?
        .collect::<db::Result<_>>()?;
    Ok(seqs)
}

fn scan_messages(
    db: &Connection,
    wanted: &MessageSearch<'_>,
    text: &str,
    (after, last): (i64, i64),
    limit: usize,
) -> Result<Vec<i64>> {
    let sql = format!(
        "SELECT seq, body FROM message WHERE workflow = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq {}",
        sort_direction_sql(wanted.order)
    );
    let mut query = db.prepare_cached(&sql)?;
    let mut rows = query.query([wanted.workflow.get(), after, last])?;
    let (mut found, mut folded) = (Vec::new(), String::new());
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        fold_into(&mut folded, row.get_ref(1)?.as_str().map_err(db::Error::from)?);
        if folded.contains(text) {
            found.push(row.get(0)?);
        }
    }
    Ok(found)
}

fn sort_direction_sql(order: MessageOrder) -> &'static str {
    match order {
        MessageOrder::OldestFirst => "ASC",
        MessageOrder::NewestFirst => "DESC",
    }
}
