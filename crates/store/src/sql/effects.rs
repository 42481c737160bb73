//! Effects that happen once per key: claim, effect and stored result are one transaction.

use agent_worker_protocol::{AgentName, EffectKey, Hash, WorkflowId};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    author::Author,
    checksum::{ATTEMPT, EFFECT},
    delivery_states::delivery_sql,
    locked_instance::LockedInstance,
    transaction::Tx,
};
use crate::{
    db::{self, OptionalExtension, params},
    error::{Error, Result},
    model::{Fence, JournalEntry, Once, WriteContext},
    time::{Now, StoreTime},
};

/// Runs `effect` unless its key was used before, stores its result and saves the instance's row.
///
/// The keys of an attempt belong to its activation, so that the next attempt finds them; every other author has its
/// own.
pub(crate) fn once<T: Serialize + DeserializeOwned>(
    mut locked: LockedInstance<'_>,
    by: &WriteContext,
    now: Now,
    effect: impl FnOnce(&mut LockedInstance<'_>, &Author) -> Result<T>,
) -> Result<Once<T>> {
    let author = Author::authorize(&locked, &by.actor)?;
    let slot = by.key.as_ref().map(|key| EffectSlot::of(&author, key));
    if let Some(slot) = &slot
        && let Some(result) = slot.find_result(&locked)?
    {
        return Ok(Once::Deduplicated(serde_json::from_str(&result)?));
    }
    let value = effect(&mut locked, &author)?;
    if let Some(slot) = &slot {
        slot.store_result(&locked, &serde_json::to_string(&value)?, now)?;
    }
    locked.save()?;
    Ok(Once::New(value))
}

/// Returns true if the effect of a write with this key has happened. The caller then needs no decision for it.
pub(crate) fn is_known(tx: &Tx<'_>, by: &WriteContext, workflow: WorkflowId) -> Result<bool> {
    let locked = LockedInstance::lock(tx, workflow)?;
    let author = Author::authorize(&locked, &by.actor)?;
    let slot = by.key.as_ref().map(|key| EffectSlot::of(&author, key));
    let result = slot.map(|slot| slot.find_result(&locked)).transpose()?;
    Ok(result.flatten().is_some())
}

/// The key of a stored result.
struct EffectSlot<'a> {
    scope: String,
    oldest: i64,
    epoch: Option<i64>,
    key: &'a EffectKey,
}

impl<'a> EffectSlot<'a> {
    fn of(author: &Author, key: &'a EffectKey) -> Self {
        match author {
            Author::Attempt(live) => {
                let epoch = Some(live.epoch.get());
                Self { scope: live.agent.folded(), oldest: live.oldest.get(), epoch, key }
            }
            Author::Other(sender) => {
                Self { scope: sender.to_string(), oldest: 0, epoch: None, key }
            }
        }
    }

    fn find_result(&self, locked: &LockedInstance<'_>) -> Result<Option<String>> {
        let sql = format!(
            "SELECT e.tool, e.args, e.result, {} FROM effect e
            WHERE e.workflow = ?1 AND e.scope = ?2 AND e.oldest = ?3 AND e.key = ?4",
            EFFECT.check
        );
        let found = locked
            .tx
            .prepare_cached(&sql)?
            .query_row(
                params![locked.workflow.get(), self.scope, self.oldest, self.key.key],
                |row| {
                    EFFECT.verify(row, 3)?;
                    Ok((row.get::<String>(0)?, row.get::<Hash>(1)?, row.get(2)?))
                },
            )
            .optional()?;
        match found {
            Some((tool, args, result)) if tool == self.key.tool && self.key.args == args => {
                Ok(Some(result))
            }
            Some(_) => Err(Error::KeyReused),
            None => Ok(None),
        }
    }

    fn store_result(&self, locked: &LockedInstance<'_>, result: &str, now: Now) -> Result<()> {
        locked.tx
            .prepare_cached(
                "INSERT INTO effect (workflow, scope, oldest, key, args, tool, result, epoch, run, position, at, summary, checksum)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
                 row_checksum('effect', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12))",
            )?
            .execute(params![
                locked.workflow.get(),
                self.scope,
                self.oldest,
                self.key.key,
                self.key.args,
                self.key.tool,
                result,
                self.epoch,
                locked.live_run_if_any().map(|live| live.number.0),
                locked.last_event(),
                now.store.get(),
                self.key.summary
            ])?;
        Ok(())
    }
}

/// Returns the statement of [`journal`]. The effects come first in the join: they are few, while the attempts are all
/// that ever were.
pub(crate) fn journal_sql() -> String {
    format!(
        "SELECT e.tool, e.result, {}, {}, e.summary FROM effect e
        CROSS JOIN attempt t ON t.workflow = e.workflow AND t.agent = e.scope AND t.epoch = e.epoch
        WHERE e.workflow = ?1 AND e.scope = ?2 AND e.epoch < ?3 AND EXISTS (
          SELECT 1 FROM json_each(t.shown) AS theirs JOIN json_each(?4) AS mine
          ON json_extract(theirs.value, '$[0]') = mine.value)
        ORDER BY e.position",
        EFFECT.check, ATTEMPT.check
    )
}

/// Returns the effects of the agent's earlier attempts that were shown one of `seqs` (a JSON list), oldest first.
pub(crate) fn journal(tx: &Tx<'_>, fence: &Fence, seqs: &str) -> Result<Vec<JournalEntry>> {
    let entries = tx
        .prepare_cached(&journal_sql())?
        .query_map(
            params![fence.workflow.get(), fence.agent.folded(), fence.epoch.get(), seqs],
            |row| {
                EFFECT.verify(row, 2)?;
                ATTEMPT.verify(row, 3)?;
                Ok(JournalEntry { tool: row.get(0)?, arguments: row.get(4)?, result: row.get(1)? })
            },
        )?
        .collect::<db::Result<_>>()?;
    Ok(entries)
}

pub(crate) const CLEAR_SQL: &str = delivery_sql!("DELETE FROM effect WHERE workflow = ?1 AND scope = ?2 AND epoch IS NOT NULL AND NOT EXISTS (
          SELECT 1 FROM delivery INDEXED BY delivery_shown
          WHERE workflow = ?1 AND agent = ?3 AND state <= " LAST_OPEN " AND first_epoch IS NOT NULL)");

/// Deletes an agent's effects once no delivery that was shown to an attempt is open: no retry can repeat them.
pub(crate) fn clear_if_settled(tx: &Tx<'_>, workflow: WorkflowId, agent: &AgentName) -> Result<()> {
    tx.prepare_cached(CLEAR_SQL)?.execute(params![
        workflow.get(),
        agent.folded(),
        agent.as_str()
    ])?;
    Ok(())
}

/// Deletes the keys of users and clients from before `before`.
pub(crate) fn expire(tx: &Tx<'_>, before: StoreTime) -> Result<u32> {
    let forgotten = tx
        .prepare_cached(
            "DELETE FROM effect INDEXED BY effect_expiring WHERE epoch IS NULL AND at < ?1",
        )?
        .execute_counted([before.get()])?;
    Ok(u32::try_from(forgotten).unwrap_or(u32::MAX))
}
