//! Instances: list, clear, remove; integrity of the store; feedback about the program.

use std::cmp::Reverse;

use crate::views::KernelHealth;
use agent_worker_protocol::{
    EffectKey, Millis, Permission, Target,
    api::{
        FeedbackRequest, FeedbackView, InstanceCleared, InstanceRemoved, InstanceView, ListPage,
        StoreReport,
    },
};
use agent_worker_store::{
    DamagedRow, Error as StoreError, FeedbackKey, FeedbackRow, Instance, InstanceQuery, RunQuery,
};

use crate::{
    access::{instance_resolution::InstanceSelector, target::InstanceChoice},
    error::{Error, Result},
    kernel::{Kernel, Principal},
    messaging::size_limits,
    scheduling::retry_policy::WorkerStopReason,
    scheduling::shutdown::WorkerSelector,
    views::{ListingScope, page::PageRequest},
};

/// Maximum size of a feedback entry.
const MAX_FEEDBACK_BYTES: usize = 64 * 1024;

/// Lists, clears and removes instances.
#[derive(Clone, Copy)]
pub struct Instances<'k>(pub(crate) &'k Kernel);

/// Stores and lists feedback.
#[derive(Clone, Copy)]
pub struct FeedbackEntries<'k>(pub(crate) &'k Kernel);

impl Instances<'_> {
    /// Lists the instances in scope.
    pub async fn list(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        scope: ListingScope,
        page: &PageRequest,
    ) -> Result<ListPage<InstanceView>> {
        let mut page = page.start("workflows")?;
        for instance in self.0.instances_in_scope(who, selector, scope).await? {
            let Instance { id, project, instance, live, last } = instance;
            page.push(id, InstanceView { instance, project: project.into(), live, last });
        }
        page.finish()
    }

    /// Hides the messages of a channel so far. Nothing is deleted, and pending deliveries stay pending.
    pub async fn clear(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        selector: &InstanceSelector,
    ) -> Result<InstanceCleared> {
        who.require_user("only the user may clear a channel")?;
        if let Some(Target { agent: Some(agent), .. }) = &selector.target {
            return Err(Error::BadRequest(format!(
                "{agent} shares its channel with other agents; name the instance, @workflow:tag or @global, to hide all messages"
            )));
        }
        let choice = InstanceChoice::Exact;
        let instance = self.0.resolve_instance_for_write(who, selector, choice).await?;
        let now = self.0.now();
        let until =
            self.0.store.instance_clear(who.author_with_key(key)?, instance.id, now).await?;
        Ok(InstanceCleared { instance: instance.instance, until })
    }

    /// Deletes an instance and its logs. Refused while the instance has a live run.
    pub async fn remove(
        self,
        who: &Principal,
        selector: &InstanceSelector,
    ) -> Result<InstanceRemoved> {
        who.require_user("only the user may remove an instance")?;
        let (kernel, who, selector) = (self.0.clone(), who.clone(), selector.clone());
        self.0
            .scheduler
            .run_to_completion(async move { kernel.remove_instance(&who, &selector).await })
            .await
    }
}

impl KernelHealth<'_> {
    /// Checks the integrity of the whole store.
    pub async fn check_store(self, who: &Principal) -> Result<StoreReport> {
        who.require_user("only the user may check the store")?;
        let found = self.0.store.integrity_check().await?;
        let instances = self.0.store.instance_list(InstanceQuery::All).await?;
        let mut problems = found.problems;
        problems.extend(found.damaged.iter().map(|row| describe_damaged_row(row, &instances)));
        let (rows, unhashed) = (found.rows, found.unhashed);
        let mut report = StoreReport { instances: 0, messages: 0, rows, unhashed, problems };
        for instance in instances {
            report.instances += 1;
            match self.0.store.instance_verify(instance.id).await {
                Ok(last) => report.messages += u64::try_from(last.get()).unwrap_or(0),
                // The instance was removed meanwhile.
                Err(StoreError::NotFound(_)) => report.instances -= 1,
                Err(error) => report.problems.push(format!("@{}: {error}", instance.instance)),
            }
        }
        Ok(report)
    }

    /// Returns the stored rows that are known to be damaged, one line each.
    pub async fn damaged_rows(self) -> Vec<String> {
        let damaged = self.0.store.damage_list().await.unwrap_or_default();
        if damaged.is_empty() {
            return Vec::new();
        }
        // Without names, the rows are reported with the numbers of their instances.
        let instances = self.0.store.instance_list(InstanceQuery::All).await.unwrap_or_default();
        damaged.iter().map(|row| describe_damaged_row(row, &instances)).collect()
    }
}

impl FeedbackEntries<'_> {
    /// Stores feedback about the program itself; feedback of an agent once per key.
    pub async fn submit(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        request: FeedbackRequest,
    ) -> Result<FeedbackView> {
        who.require(Permission::Send)?;
        let by = who.sender()?.to_string();
        if request.message.trim().is_empty() {
            return Err(Error::BadRequest("the feedback is empty".into()));
        }
        size_limits::check("this feedback", request.message.len(), MAX_FEEDBACK_BYTES)?;
        let (now, message) = (self.0.now(), request.message);
        let ts = now.wall;
        match who {
            Principal::Agent(attempt) => {
                let run_context = self.0.run_context(attempt.run).await?;
                let instance = Some(run_context.instance.clone());
                let entry = FeedbackView { ts, by, instance, message };
                let once = self
                    .0
                    .store
                    .feedback_submit(who.author_with_key(key)?, run_context.workflow, entry, now)
                    .await?;
                Ok(once.value())
            }
            Principal::User | Principal::Client(_) | Principal::Anonymous if key.is_some() => Err(
                Error::BadRequest("only an agent may send feedback with an idempotency key".into()),
            ),
            Principal::User | Principal::Client(_) | Principal::Anonymous => {
                let entry = FeedbackView { ts, by, instance: None, message };
                self.0.store.feedback_put(entry.clone()).await?;
                Ok(entry)
            }
        }
    }

    /// Lists the feedback, newest first.
    pub async fn list(self, who: &Principal, page: &PageRequest) -> Result<ListPage<FeedbackView>> {
        who.require_user("only the user may read feedback")?;
        let mut page = page.start::<(Reverse<Millis>, Reverse<i64>), _>("feedback")?;
        let range = page.range(|&(Reverse(ts), Reverse(id))| Some(FeedbackKey { ts, id }));
        for FeedbackRow { key, entry } in self.0.store.feedback_list(range).await? {
            page.push((Reverse(key.ts), Reverse(key.id)), entry);
        }
        page.finish()
    }
}

impl Kernel {
    async fn remove_instance(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
    ) -> Result<InstanceRemoved> {
        let choice = InstanceChoice::Exact;
        let instance = self.resolve_instance_for_write(who, selector, choice).await?;
        if instance.instance.is_global() {
            return Err(Error::PermanentRun);
        }
        let runs = self.store.run_list(RunQuery::OfInstance(instance.id, u32::MAX)).await?;
        match self.store.instance_remove(instance.id).await {
            Ok(()) => {}
            Err(StoreError::RunLive(_)) => {
                return Err(self.already_running_error(instance.id, instance.instance).await?);
            }
            Err(error) => return Err(error.into()),
        }
        // Workers of a stopped run may still be exiting and recording their end.
        self.end_workers(&WorkerSelector::Instance(instance.id), WorkerStopReason::Stopped).await;
        for run in runs {
            if let Err(error) = self.runner.run_log_erase(run.id).await {
                tracing::error!(run = %run.id, %error, "could not delete the logs of a removed run");
            }
        }
        Ok(InstanceRemoved { instance: instance.instance, project: instance.project.into() })
    }
}

/// Names a damaged row by its table, its key and the name of its instance.
fn describe_damaged_row(row: &DamagedRow, instances: &[Instance]) -> String {
    match instances.iter().find(|instance| Some(instance.id) == row.workflow) {
        Some(instance) => {
            let (table, key, instance) = (row.table, &row.key, &instance.instance);
            format!("{table} `{key}` of @{instance} is damaged: it does not match its checksum")
        }
        None => row.to_string(),
    }
}
