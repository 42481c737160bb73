//! Damaged rows: their names, the register of known ones, and the rows that a caller's reads left out.
//!
//! A read of one row returns [`Error::Damaged`]. A list leaves the damaged row out and reports it: to the caller
//! through [`observe_damage`], to all callers through the register behind `AdminStore::damage_list`, and to the log.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
};

use agent_worker_protocol::{WorkflowId, sync};

use crate::{
    db,
    error::{Error, Result},
};

/// A row that does not match its checksum.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{table} `{key}` of instance {} is damaged: it does not match its checksum", shown(*.workflow))]
pub struct DamagedRow {
    /// The instance, as far as the key can be read.
    pub workflow: Option<WorkflowId>,
    /// The name of the table.
    pub table: &'static str,
    /// The rest of the key, its parts separated by spaces.
    pub key: String,
}

fn shown(workflow: Option<WorkflowId>) -> String {
    workflow.map_or_else(|| "?".to_owned(), |workflow| workflow.to_string())
}

thread_local! {
    /// The damaged rows that the running work on this thread has left out.
    static SKIPPED_ROWS: RefCell<Vec<DamagedRow>> = const { RefCell::new(Vec::new()) };
}

tokio::task_local! {
    static OBSERVED_DAMAGE: RefCell<Vec<DamagedRow>>;
}

/// Runs `work` and returns with its output the damaged rows that its reads met.
pub async fn observe_damage<F: Future>(work: F) -> (F::Output, Vec<DamagedRow>) {
    OBSERVED_DAMAGE
        .scope(RefCell::default(), async {
            let output = work.await;
            let mut rows = OBSERVED_DAMAGE.with(RefCell::take);
            rows.sort();
            rows.dedup();
            (output, rows)
        })
        .await
}

/// Collects rows and leaves out those that are damaged.
pub(crate) fn collect_intact<T>(rows: impl Iterator<Item = db::Result<T>>) -> Result<Vec<T>> {
    let mut kept = Vec::new();
    for row in rows {
        kept.extend(intact_or_skip(row)?);
    }
    Ok(kept)
}

/// Returns the first `limit` intact rows; reports the damaged ones before them. A damaged row uses no part of the
/// limit: only fewer rows than `limit` mean that there are no more.
pub(crate) fn take_intact<T>(
    mut rows: impl Iterator<Item = db::Result<T>>,
    limit: u32,
) -> Result<Vec<T>> {
    let mut kept = Vec::new();
    while kept.len() < limit as usize
        && let Some(row) = rows.next()
    {
        kept.extend(intact_or_skip(row)?);
    }
    Ok(kept)
}

/// The rows of a list that one read returned.
pub(crate) struct ListPart<T> {
    /// The rows that the list contains.
    pub(crate) items: Vec<T>,
    /// True if no row follows the part.
    pub(crate) is_last: bool,
}

/// Reads parts of a list until it has `limit` items or the list ends. `read` gets the number of missing items and may
/// leave out rows that it read: they use no part of the limit.
pub(crate) fn fill_list<T>(
    limit: u32,
    mut read: impl FnMut(u32) -> Result<ListPart<T>>,
) -> Result<Vec<T>> {
    let mut items = Vec::new();
    loop {
        let missing = limit.saturating_sub(u32::try_from(items.len()).unwrap_or(u32::MAX));
        if missing == 0 {
            return Ok(items);
        }
        let part = read(missing)?;
        items.extend(part.items);
        if part.is_last {
            return Ok(items);
        }
    }
}

/// Returns the row, or reports that it is damaged.
pub(crate) fn intact_or_skip<T>(row: db::Result<T>) -> Result<Option<T>> {
    match row.map_err(Error::from) {
        Ok(row) => Ok(Some(row)),
        Err(Error::Damaged(damaged)) => {
            report_skipped(damaged);
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

/// Reports a row that is left out of a list.
pub(crate) fn report_skipped(damaged: DamagedRow) {
    SKIPPED_ROWS.with_borrow_mut(|rows| rows.push(damaged));
}

/// Runs `work` on this thread; returns with its result the rows that it left out.
pub(crate) fn collect_skipped<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Vec<DamagedRow>)> {
    SKIPPED_ROWS.take();
    work().map(|result| (result, SKIPPED_ROWS.take()))
}

/// The damaged rows that reads have met so far. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct DamageRegister(Arc<Mutex<BTreeSet<DamagedRow>>>);

impl DamageRegister {
    /// Records the damage in the outcome of [`collect_skipped`].
    pub(crate) fn record<T>(&self, watched: Result<(T, Vec<DamagedRow>)>) -> Result<T> {
        match watched {
            Ok((result, left_out)) => {
                for row in &left_out {
                    self.add(row);
                }
                Ok(result)
            }
            Err(Error::Damaged(row)) => {
                self.add(&row);
                Err(Error::Damaged(row))
            }
            Err(other) => Err(other),
        }
    }

    fn add(&self, row: &DamagedRow) {
        // Outside of `observe_damage`, no caller collects the rows.
        let _ = OBSERVED_DAMAGE.try_with(|observed| observed.borrow_mut().push(row.clone()));
        if self.rows().insert(row.clone()) {
            tracing::error!(table = row.table, key = row.key, workflow = ?row.workflow, "a stored row is damaged");
        }
    }

    /// Replaces the known damage by the rows that a scan of the whole database has found.
    pub(crate) fn replace(&self, found: &[DamagedRow]) {
        *self.rows() = found.iter().cloned().collect();
    }

    /// Removes the rows of an instance whose rows were deleted.
    pub(crate) fn remove_workflow(&self, workflow: WorkflowId) {
        self.rows().retain(|row| row.workflow != Some(workflow));
    }

    /// Returns the damaged rows, in order.
    pub(crate) fn list(&self) -> Vec<DamagedRow> {
        self.rows().iter().cloned().collect()
    }

    fn rows(&self) -> MutexGuard<'_, BTreeSet<DamagedRow>> {
        sync::lock(&self.0)
    }
}
