//! Attempts: leases, reports and ends.

use agent_worker_protocol::{AgentName, AttemptId, Hash, NumberedEvent, RunId, WorkflowId};
use async_trait::async_trait;

use super::store_methods;
use crate::{
    database::Database,
    error::{Error, Result},
    model::{
        AttemptKey, AttemptRow, Fence, FinishedAttempt, HistoryKey, HistoryPart, LeaseOutcome,
        LeaseRule, ListRange, NewAttempt, ReserveRule, ReserveStep, RunSpend, Settlement, TurnRow,
        UnreportedCall,
    },
    multi_store::MultiStore,
    sql::{
        attempts, spend,
        turn_history::{self, PreparedEvent},
    },
    time::{Now, StoreTime},
};

/// Size of texts that are compressed on the caller's thread: waking another one would take longer.
const MAX_INLINE_BYTES: usize = 16 * 1024;

/// Attempts: the lease that starts one, its reported events and its end.
#[async_trait]
pub trait AttemptStore: Send + Sync {
    /// Starts an attempt if the run runs, `rule` allows it, and the agent is free, due, not stopped and has waking
    /// mail.
    async fn attempt_lease(
        &self,
        workflow: WorkflowId,
        agent: AgentName,
        new: NewAttempt,
        rule: LeaseRule,
        now: Now,
    ) -> Result<LeaseOutcome>;
    /// Finds the live attempt of a token.
    async fn attempt_by_token(&self, token: Hash) -> Result<Option<AttemptRow>>;
    /// Reads an attempt, live or ended.
    async fn attempt_get(&self, attempt: AttemptId) -> Result<AttemptRow>;
    /// Lists an agent's attempts, newest first.
    async fn attempt_list(
        &self,
        workflow: WorkflowId,
        agent: AgentName,
        limit: u32,
    ) -> Result<Vec<AttemptRow>>;
    /// Lists the turns of a run, newest first.
    async fn turn_list(&self, run: RunId, limit: u32) -> Result<Vec<TurnRow>>;
    /// Lists every live attempt.
    async fn attempt_live(&self) -> Result<Vec<AttemptRow>>;
    /// Stores a live attempt's events, each number once; returns the highest number stored.
    async fn attempt_events(
        &self,
        attempt: AttemptId,
        events: Vec<NumberedEvent>,
        now: Now,
    ) -> Result<i64>;
    /// Decides about the next call of a live attempt's model, and reserves the most that it can use. A refused call pauses the run,
    /// or stops the standalone agent, in the same transaction.
    async fn attempt_reserve(
        &self,
        attempt: AttemptId,
        call: RunSpend,
        rule: ReserveRule,
        now: Now,
    ) -> Result<ReserveStep>;
    /// Ends the reservation of a call that reports no usage.
    async fn attempt_settle(
        &self,
        attempt: AttemptId,
        call: UnreportedCall,
        now: Now,
    ) -> Result<()>;
    /// Lists the attempts of an instance, or of one agent, newest first.
    async fn attempt_page(
        &self,
        workflow: WorkflowId,
        agent: Option<AgentName>,
        range: ListRange<AttemptKey>,
    ) -> Result<Vec<AttemptRow>>;
    /// Finds the attempts whose id begins with these hexadecimal digits, oldest first.
    async fn attempt_find(&self, prefix: String, limit: u32) -> Result<Vec<AttemptId>>;
    /// Reads a part of the history of an attempt.
    async fn history_list(
        &self,
        attempt: AttemptId,
        range: ListRange<HistoryKey>,
    ) -> Result<HistoryPart>;
    /// Deletes a part of the history of turns that ended before `before`; returns the number of deleted rows, 0 if none
    /// are left.
    async fn history_expire(&self, before: StoreTime) -> Result<u32>;
    /// Ends an attempt: fence, ack or count, answer, dead letters and their notes, in one transaction.
    async fn attempt_finish(
        &self,
        fence: Fence,
        settlement: Settlement,
        now: Now,
    ) -> Result<FinishedAttempt>;
}

store_methods! {
    impl AttemptStore;
    both {
        write of_workflow(workflow) attempt_lease(workflow: WorkflowId, agent: AgentName, new: NewAttempt, rule: LeaseRule, now: Now) -> LeaseOutcome
            = move |tx| attempts::lease::lease_attempt(tx, workflow, &agent, &new, rule, now);
        write of_attempt(attempt) attempt_reserve(attempt: AttemptId, call: RunSpend, rule: ReserveRule, now: Now) -> ReserveStep
            = move |tx| spend::reserve(tx, attempt, call, rule, now);
        write of_attempt(attempt) attempt_settle(attempt: AttemptId, call: UnreportedCall, now: Now) -> ()
            = move |tx| spend::settle_unreported(tx, attempt, call, now);
        read_inline of_attempt(attempt) attempt_get(attempt: AttemptId) -> AttemptRow
            = move |db| attempts::get(db, attempt);
        read of_workflow(workflow) attempt_list(workflow: WorkflowId, agent: AgentName, limit: u32) -> Vec<AttemptRow>
            = move |db| attempts::list(db, workflow, &agent, limit);
        read of_run(run) turn_list(run: RunId, limit: u32) -> Vec<TurnRow>
            = move |db| attempts::turns(db, run, limit);
        read of_attempt(attempt) history_list(attempt: AttemptId, range: ListRange<HistoryKey>) -> HistoryPart
            = move |db| turn_history::list(db, attempt, range);
        read of_workflow(workflow) attempt_page(workflow: WorkflowId, agent: Option<AgentName>, range: ListRange<AttemptKey>) -> Vec<AttemptRow>
            = move |db| attempts::page(db, workflow, agent.as_ref(), range);
        write of_workflow(fence.workflow) attempt_finish(fence: Fence, settlement: Settlement, now: Now) -> FinishedAttempt
            = move |tx| attempts::finish::finish_attempt(tx, &fence, &settlement, now);
    }
    database {
        read_inline attempt_by_token(token: Hash) -> Option<AttemptRow> = move |db| attempts::by_token(db, &token);
        read attempt_live() -> Vec<AttemptRow> = attempts::list_live;
        read attempt_find(prefix: String, limit: u32) -> Vec<AttemptId> = move |db| attempts::find(db, &prefix, limit);
        write history_expire(before: StoreTime) -> u32 = move |tx| turn_history::expire(tx, before);
    }
    multi_store {
        of_attempt(attempt) attempt_events(attempt: AttemptId, events: Vec<NumberedEvent>, now: Now) -> i64;
    }
    impl Database {
        async fn attempt_events(&self, attempt: AttemptId, events: Vec<NumberedEvent>, now: Now) -> Result<i64> {
            let bytes: usize = events.iter().map(|event| event.event.history_bytes()).sum();
            let prepare = move || events.into_iter().map(PreparedEvent::new).collect::<Vec<_>>();
            // Compressing takes a while if the texts are long.
            let prepared = if bytes < MAX_INLINE_BYTES {
                prepare()
            } else {
                tokio::task::spawn_blocking(prepare).await.map_err(|_| Error::Closed)?
            };
            self.write(move |tx| attempts::events::store_events(tx, attempt, &prepared, now)).await
        }
    }
    impl MultiStore {
        async fn attempt_find(&self, prefix: String, limit: u32) -> Result<Vec<AttemptId>> {
            let mut all = Vec::new();
            for store in self.all_stores() {
                all.extend(store.attempt_find(prefix.clone(), limit).await?);
            }
            all.truncate(limit as usize);
            Ok(all)
        }
        async fn history_expire(&self, before: StoreTime) -> Result<u32> {
            let mut expired = 0;
            for store in self.all_stores() {
                expired += store.history_expire(before).await?;
            }
            Ok(expired)
        }
        async fn attempt_by_token(&self, token: Hash) -> Result<Option<AttemptRow>> {
            for store in self.all_stores() {
                if let Some(attempt) = store.attempt_by_token(token).await? {
                    return Ok(Some(attempt));
                }
            }
            Ok(None)
        }
        async fn attempt_live(&self) -> Result<Vec<AttemptRow>> {
            let mut all = Vec::new();
            for store in self.all_stores() {
                all.extend(store.attempt_live().await?);
            }
            Ok(all)
        }
    }
}
