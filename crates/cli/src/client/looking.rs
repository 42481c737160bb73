//! The endpoints of commands that look at runs and agents, and of those that end them or let them go on.

use agent_worker_protocol::{
    AttemptId, RunId, Seq, Target,
    api::{
        AgentDetail, AgentStopped, AgentView, Cleared, DeadLetter, DeadReply, DeadRequest,
        InstanceRequest, InstanceView, LogReply, MessagesReply, Removed, ResumeRequest, RunStopped,
        RunView, StatsView,
    },
};
use serde_json::json;

use super::{Answer, Client, Query, Runs, Scope, escaped};

/// How much time processes get to end by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grace {
    /// As much as the daemon gives.
    Usual,
    /// None at all.
    Nothing,
}

impl Grace {
    /// The value of `now`.
    fn now(self) -> Option<&'static str> {
        match self {
            Self::Usual => None,
            Self::Nothing => Some("true"),
        }
    }
}

impl Client {
    /// `GET /agents/{target}`
    pub(crate) async fn agent(&self, who: &Target, scope: &Scope) -> Answer<AgentDetail> {
        self.daemon.get(&agent_path(who, "", scope)).await
    }

    /// `POST /agents/{target}/stop`
    pub(crate) async fn agent_stop(
        &self,
        who: &Target,
        scope: &Scope,
        grace: Grace,
    ) -> Answer<AgentStopped> {
        let query = agent_query(who, "/stop", scope).with("now", grace.now());
        self.daemon.post(&query.done(), &json!({})).await
    }

    /// `POST /agents/{target}/resume`
    pub(crate) async fn agent_resume(&self, who: &Target, scope: &Scope) -> Answer<AgentView> {
        self.daemon.post(&agent_path(who, "/resume", scope), &json!({})).await
    }

    /// `POST /runs/{id}/stop`
    pub(crate) async fn run_stop(&self, run: RunId, grace: Grace) -> Answer<RunStopped> {
        let query = Query::new(&format!("/runs/{run}/stop")).with("now", grace.now());
        self.daemon.post(&query.done(), &json!({})).await
    }

    /// `POST /runs/{id}/pause`
    pub(crate) async fn run_pause(&self, run: RunId) -> Answer<RunView> {
        self.daemon.post(&format!("/runs/{run}/pause"), &json!({})).await
    }

    /// `POST /runs/{id}/resume`; asked again with the same key, it is still one resumption.
    pub(crate) async fn run_resume(
        &self,
        key: &str,
        run: RunId,
        request: &ResumeRequest,
    ) -> Answer<RunView> {
        self.daemon.post_once(&format!("/runs/{run}/resume"), key, request).await
    }

    /// `GET /stats`
    pub(crate) async fn stats(&self, scope: &Scope) -> Answer<Vec<StatsView>> {
        self.daemon.get(&scope.query("/stats").done()).await
    }

    /// `GET /workflows`
    pub(crate) async fn instances(&self, scope: &Scope) -> Answer<Vec<InstanceView>> {
        self.daemon.get(&scope.query("/workflows").done()).await
    }

    /// `POST /workflows/clear`; asked again with the same key, nothing more is hidden.
    pub(crate) async fn instance_clear(
        &self,
        key: &str,
        request: &InstanceRequest,
    ) -> Answer<Cleared> {
        self.daemon.post_once("/workflows/clear", key, request).await
    }

    /// `POST /workflows/remove`
    pub(crate) async fn instance_remove(&self, request: &InstanceRequest) -> Answer<Removed> {
        self.daemon.post("/workflows/remove", request).await
    }

    /// `GET /dead`
    pub(crate) async fn dead(&self, scope: &Scope) -> Answer<Vec<DeadLetter>> {
        self.daemon.get(&scope.query("/dead").done()).await
    }

    /// `POST /dead/redrive`; asked again with the same key, nothing is tried once more.
    pub(crate) async fn dead_redrive(&self, key: &str, request: &DeadRequest) -> Answer<DeadReply> {
        self.daemon.post_once("/dead/redrive", key, request).await
    }

    /// `POST /dead/drop`
    pub(crate) async fn dead_drop(&self, key: &str, request: &DeadRequest) -> Answer<DeadReply> {
        self.daemon.post_once("/dead/drop", key, request).await
    }

    /// `GET /logs`, from byte `after` on; without an attempt, of the last one
    pub(crate) async fn log(
        &self,
        scope: &Scope,
        attempt: Option<AttemptId>,
        after: u64,
    ) -> Answer<LogReply> {
        let attempt = attempt.map(|attempt| attempt.to_string());
        let query = scope
            .query("/logs")
            .with("attempt", attempt.as_deref())
            .with("after", Some(&after.to_string()));
        self.daemon.get(&query.done()).await
    }

    /// `GET /messages`: the first `limit` after `since`, oldest first
    pub(crate) async fn messages_after(
        &self,
        scope: &Scope,
        since: Seq,
        limit: u32,
        runs: Runs,
    ) -> Answer<MessagesReply> {
        let all_runs = match runs {
            Runs::Current => None,
            Runs::All => Some("true"),
        };
        let query = scope
            .query("/messages")
            .with("since", Some(&since.to_string()))
            .with("limit", Some(&limit.to_string()))
            .with("all_runs", all_runs);
        self.daemon.get(&query.done()).await
    }
}

fn agent_path(who: &Target, what: &str, scope: &Scope) -> String {
    agent_query(who, what, scope).done()
}

fn agent_query(who: &Target, what: &str, scope: &Scope) -> Query {
    let path = format!("/agents/{}{what}", escaped(&who.to_string()));
    Query::new(&path).with("project", scope.project.to_str())
}
