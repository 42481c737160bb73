//! Tokens, feedback and the store itself: its clock, faults and damage.

use std::path::PathBuf;

use agent_worker_protocol::{
    Hash, Millis, Scopes, WorkflowId,
    api::{FeedbackView, TokenView},
};
use async_trait::async_trait;

use super::store_methods;
use crate::{
    damage::DamagedRow,
    database::Database,
    error::Result,
    model::{
        ChangeCursor, FeedbackKey, FeedbackRow, IntegrityReport, ListRange, Once, StoreFault,
        WriteContext,
    },
    multi_store::MultiStore,
    sql::{effects, feedback, team_databases, tokens},
    time::{Now, StoreTime},
};

/// Tokens, feedback and the store itself: its clock, faults, damage and changes.
#[async_trait]
pub trait AdminStore: Send + Sync {
    /// Waits until a change of this instance was committed after `seen`. Only a hint: it does not name the change.
    async fn change_wait(&self, workflow: WorkflowId, seen: ChangeCursor) -> ChangeCursor;
    /// Adds a client's token; each name can be used once.
    async fn token_put(&self, name: String, hash: Hash, scopes: Scopes, now: Millis) -> Result<()>;
    /// Finds the client of a token.
    async fn token_find(&self, hash: Hash) -> Result<Option<TokenView>>;
    /// Returns the hash of a client's token, by its name.
    async fn token_hash(&self, name: String) -> Result<Option<Hash>>;
    /// Lists the tokens, without their secrets.
    async fn token_list(&self) -> Result<Vec<TokenView>>;
    /// Revokes a client's token.
    async fn token_remove(&self, name: String) -> Result<()>;
    /// Stores feedback about the program itself.
    async fn feedback_put(&self, entry: FeedbackView) -> Result<()>;
    /// Stores feedback of an agent of an instance, once per key.
    async fn feedback_submit(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        entry: FeedbackView,
        now: Now,
    ) -> Result<Once<FeedbackView>>;
    /// Lists the feedback, newest first.
    async fn feedback_list(&self, range: ListRange<FeedbackKey>) -> Result<Vec<FeedbackRow>>;
    /// Returns the current time on the store's clock and on the wall clock.
    fn now(&self) -> Now;
    /// Returns both clocks as they were when the previous process last wrote; none in a new store.
    fn now_saved(&self) -> Option<Now>;
    /// Checks the whole database: its structure and every row that has a checksum.
    async fn integrity_check(&self) -> Result<IntegrityReport>;
    /// Returns the damaged rows that reads have met since the store was opened, or that the last check found.
    async fn damage_list(&self) -> Result<Vec<DamagedRow>>;
    /// Lists the databases that refuse writes at the moment, without trying a write.
    async fn fault_list(&self) -> Result<Vec<StoreFault>>;
    /// Writes the time to disk: proof that writes succeed, and for the next start the time at which this process was
    /// last alive.
    async fn heartbeat_put(&self, now: StoreTime) -> Result<()>;
    /// Returns the time of the last heartbeat.
    async fn heartbeat_last(&self) -> Result<Option<StoreTime>>;
    /// Returns true if the effect of a write with this key has happened in an instance with a live run.
    async fn effect_is_known(&self, by: WriteContext, workflow: WorkflowId) -> Result<bool>;
    /// Deletes the keys of users and clients from before `before`.
    async fn effect_expire(&self, before: StoreTime) -> Result<u32>;
}

store_methods! {
    impl AdminStore;
    both {
        write of_home() token_put(name: String, hash: Hash, scopes: Scopes, now: Millis) -> ()
            = move |tx| tokens::put_token(tx, &name, &hash, &scopes, now);
        read of_home() token_hash(name: String) -> Option<Hash> = move |db| tokens::hash_of(db, &name);
        read of_home() token_list() -> Vec<TokenView> = tokens::list;
        write of_home() token_remove(name: String) -> () = move |tx| tokens::remove(tx, &name);
        write of_home() feedback_put(entry: FeedbackView) -> () = move |tx| feedback::put_feedback(tx, &entry);
        write of_workflow(workflow) feedback_submit(by: WriteContext, workflow: WorkflowId, entry: FeedbackView, now: Now) -> Once<FeedbackView>
            = move |tx| feedback::submit(tx, &by, workflow, &entry, now);
        write of_workflow(workflow) effect_is_known(by: WriteContext, workflow: WorkflowId) -> bool
            = move |tx| effects::is_known(tx, &by, workflow);
        read of_home() heartbeat_last() -> Option<StoreTime> = tokens::last_heartbeat;
    }
    database {
        read feedback_list(range: ListRange<FeedbackKey>) -> Vec<FeedbackRow>
            = move |db| feedback::list(db, range);
        write heartbeat_put(now: StoreTime) -> () = move |tx| tokens::put_heartbeat(tx, now);
        write effect_expire(before: StoreTime) -> u32 = move |tx| effects::expire(tx, before);
    }
    multi_store {
        of_home() token_find(hash: Hash) -> Option<TokenView>;
    }
    impl Database {
        async fn change_wait(&self, workflow: WorkflowId, seen: ChangeCursor) -> ChangeCursor {
            self.changes.wait(workflow, seen).await
        }
        async fn token_find(&self, hash: Hash) -> Result<Option<TokenView>> {
            let load = || self.read_inline(move |db| tokens::find(db, &hash));
            self.changes.tokens.get_or_load(&hash, load).await
        }
        fn now(&self) -> Now {
            self.clock.now()
        }
        fn now_saved(&self) -> Option<Now> {
            self.clock.saved()
        }
        async fn integrity_check(&self) -> Result<IntegrityReport> {
            self.check_integrity().await
        }
        async fn damage_list(&self) -> Result<Vec<DamagedRow>> {
            Ok(self.damage.list())
        }
        async fn fault_list(&self) -> Result<Vec<StoreFault>> {
            // Another program may have removed the files since the last write; the result includes a fault that this
            // check finds.
            drop(self.check_files().await);
            Ok(self.fault(None).into_iter().collect())
        }
    }
    impl MultiStore {
        async fn change_wait(&self, workflow: WorkflowId, seen: ChangeCursor) -> ChangeCursor {
            match self.store_for(workflow) {
                Ok(store) => store.change_wait(workflow, seen).await,
                // A removed instance does not change any more; the waiting caller learns that from its next read.
                Err(_) => self.0.home.change_wait(workflow, seen).await,
            }
        }
        async fn feedback_list(&self, range: ListRange<FeedbackKey>) -> Result<Vec<FeedbackRow>> {
            let mut all = Vec::new();
            for (number, store) in self.numbered_stores() {
                let first = number << team_databases::DATABASE_NUMBER_SHIFT;
                // The entry before the range may be in another database: a bound below 0 excludes the entries of
                // the same time, and one above every id includes them.
                let after = range.after.map(|key| FeedbackKey { id: key.id.saturating_sub(first), ..key });
                let rows = store.feedback_list(ListRange { after, ..range }).await?;
                let numbered = |mut row: FeedbackRow| {
                    row.key.id += first;
                    row
                };
                all.extend(rows.into_iter().map(numbered));
            }
            all.sort_by_key(|row: &FeedbackRow| std::cmp::Reverse((row.key.ts, row.key.id)));
            all.truncate(usize::try_from(range.limit).unwrap_or(usize::MAX));
            Ok(all)
        }
        // A store has one clock: that of the home's database, which all others share.
        fn now(&self) -> Now {
            self.0.home.now()
        }
        fn now_saved(&self) -> Option<Now> {
            self.0.home.now_saved()
        }
        async fn integrity_check(&self) -> Result<IntegrityReport> {
            let mut all = IntegrityReport::default();
            for store in self.all_stores() {
                let one = store.integrity_check().await?;
                all.rows += one.rows;
                all.unhashed += one.unhashed;
                all.problems.extend(one.problems);
                all.damaged.extend(one.damaged);
            }
            let unavailable = self.0.unavailable.lock().await;
            let is_shut = |(path, why): (&PathBuf, &String)| format!("{} is not open: {why}", path.display());
            all.problems.extend(unavailable.iter().map(is_shut));
            Ok(all)
        }
        async fn damage_list(&self) -> Result<Vec<DamagedRow>> {
            let mut all = Vec::new();
            for store in self.all_stores() {
                all.extend(store.damage_list().await?);
            }
            Ok(all)
        }
        async fn fault_list(&self) -> Result<Vec<StoreFault>> {
            let mut all = self.0.home.fault_list().await?;
            let opened = self.open_databases().into_iter();
            all.extend(opened.filter_map(|database| database.store.fault(Some(database.path))));
            let unavailable = self.0.unavailable.lock().await;
            let unavailable = unavailable.iter().map(|(path, why)| StoreFault {
                database: Some(path.clone()),
                why: format!("it is not open: {why}"),
                copy: None,
            });
            all.extend(unavailable);
            Ok(all)
        }
        /// Writes to the daemon's own database. Of the teams' databases it only checks the files, unless the last
        /// write failed.
        async fn heartbeat_put(&self, now: StoreTime) -> Result<()> {
            let written = self.0.home.heartbeat_put(now).await;
            for database in self.open_databases() {
                let checked = match database.store.fault(None) {
                    Some(_) => database.store.heartbeat_put(now).await,
                    None => database.store.check_files().await,
                };
                if let Err(error) = checked {
                    tracing::debug!(database = %database.path.display(), %error, "a team database refuses writes");
                }
            }
            written
        }
        async fn effect_expire(&self, before: StoreTime) -> Result<u32> {
            let mut expired = 0;
            for store in self.all_stores() {
                expired += store.effect_expire(before).await?;
            }
            Ok(expired)
        }
    }
}
