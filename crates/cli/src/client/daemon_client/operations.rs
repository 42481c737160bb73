//! Endpoints for operating runs, agents, instances and dead letters, and for reading their logs.

use agent_worker_protocol::{
    AttemptId, RunId, Seq, Target,
    api::{
        AgentDetail, AgentInterrupted, AgentMocks, AgentStopped, AgentTools, AgentView, DeadLetter,
        DeadReply, DeadRequest, InstanceCleared, InstanceRemoved, InstanceRequest, InstanceView,
        ListPage, LogReply, MAX_PAGE_ITEMS, MessagesReply, MockRequest, ResumeRequest, RunStopped,
        RunView, StatsView, TurnDetail, TurnView,
    },
};
use serde_json::json;

use super::{
    ClientResult, CommandScope, DaemonClient, ListExtent, RunSelection, UrlBuilder,
    pages::{ALL_PAGES, PageLimits},
    percent_encode,
};

/// The grace period of processes before they are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopGrace {
    /// The daemon's grace period.
    Default,
    /// No grace period.
    Immediate,
}

impl StopGrace {
    /// Returns the value of the `now` parameter.
    fn now_param(self) -> Option<&'static str> {
        match self {
            Self::Default => None,
            Self::Immediate => Some("true"),
        }
    }
}

impl DaemonClient {
    /// Sends `GET /agents/{target}`.
    pub(crate) async fn agent(
        &self,
        who: &Target,
        scope: &CommandScope,
    ) -> ClientResult<AgentDetail> {
        self.daemon.get(&agent_url(who, "", scope)).await
    }

    /// Sends `GET /agents/{target}/tools`, for every page.
    pub(crate) async fn agent_tools(
        &self,
        who: &Target,
        scope: &CommandScope,
    ) -> ClientResult<Vec<AgentTools>> {
        self.get_list(agent_url_builder(who, "/tools", scope)).await
    }

    /// Sends `POST /agents/{target}/stop`.
    pub(crate) async fn agent_stop(
        &self,
        who: &Target,
        scope: &CommandScope,
        grace: StopGrace,
    ) -> ClientResult<AgentStopped> {
        let query = agent_url_builder(who, "/stop", scope).with_param("now", grace.now_param());
        self.daemon.post(&query.build(), &json!({})).await
    }

    /// Sends `POST /agents/{target}/interrupt`.
    pub(crate) async fn agent_interrupt(
        &self,
        who: &Target,
        scope: &CommandScope,
    ) -> ClientResult<AgentInterrupted> {
        self.daemon.post(&agent_url(who, "/interrupt", scope), &json!({})).await
    }

    /// Sends `POST /agents/{target}/resume`.
    pub(crate) async fn agent_resume(
        &self,
        who: &Target,
        scope: &CommandScope,
    ) -> ClientResult<AgentView> {
        self.daemon.post(&agent_url(who, "/resume", scope), &json!({})).await
    }

    /// Sends `POST /agents/{target}/mock`; a repetition with the same key changes nothing more.
    pub(crate) async fn agent_mock(
        &self,
        key: &str,
        who: &Target,
        request: &MockRequest,
        scope: &CommandScope,
    ) -> ClientResult<AgentMocks> {
        self.daemon.post_once(&agent_url(who, "/mock", scope), key, request).await
    }

    /// Sends `POST /runs/{id}/stop`.
    pub(crate) async fn run_stop(&self, run: RunId, grace: StopGrace) -> ClientResult<RunStopped> {
        let query =
            UrlBuilder::new(&format!("/runs/{run}/stop")).with_param("now", grace.now_param());
        self.daemon.post(&query.build(), &json!({})).await
    }

    /// Sends `POST /runs/{id}/pause`.
    pub(crate) async fn run_pause(&self, run: RunId) -> ClientResult<RunView> {
        self.daemon.post(&format!("/runs/{run}/pause"), &json!({})).await
    }

    /// Sends `POST /runs/{id}/resume`; a repetition with the same key resumes only once.
    pub(crate) async fn run_resume(
        &self,
        key: &str,
        run: RunId,
        request: &ResumeRequest,
    ) -> ClientResult<RunView> {
        self.daemon.post_once(&format!("/runs/{run}/resume"), key, request).await
    }

    /// Sends `GET /stats`.
    pub(crate) async fn stats(&self, scope: &CommandScope) -> ClientResult<Vec<StatsView>> {
        self.get_list(scope.list_url("/stats", ListExtent::LiveRuns)).await
    }

    /// Sends `GET /workflows`; instances with and without a live run.
    pub(crate) async fn instances(&self, scope: &CommandScope) -> ClientResult<Vec<InstanceView>> {
        self.get_list(scope.list_url("/workflows", ListExtent::AllRuns)).await
    }

    /// Sends `POST /workflows/clear`; a repetition with the same key hides nothing more.
    pub(crate) async fn instance_clear(
        &self,
        key: &str,
        request: &InstanceRequest,
    ) -> ClientResult<InstanceCleared> {
        self.daemon.post_once("/workflows/clear", key, request).await
    }

    /// Sends `POST /workflows/remove`.
    pub(crate) async fn instance_remove(
        &self,
        request: &InstanceRequest,
    ) -> ClientResult<InstanceRemoved> {
        self.daemon.post("/workflows/remove", request).await
    }

    /// Sends `GET /dead`.
    pub(crate) async fn dead_letters(&self, scope: &CommandScope) -> ClientResult<Vec<DeadLetter>> {
        self.get_list(scope.list_url("/dead", ListExtent::LiveRuns)).await
    }

    /// Sends `POST /dead/redrive`; a repetition with the same key redrives nothing again.
    pub(crate) async fn dead_redrive(
        &self,
        key: &str,
        request: &DeadRequest,
    ) -> ClientResult<DeadReply> {
        self.daemon.post_once("/dead/redrive", key, request).await
    }

    /// Sends `POST /dead/drop`.
    pub(crate) async fn dead_drop(
        &self,
        key: &str,
        request: &DeadRequest,
    ) -> ClientResult<DeadReply> {
        self.daemon.post_once("/dead/drop", key, request).await
    }

    /// Sends `GET /logs` from byte `after` on; without an attempt, for the last one.
    pub(crate) async fn log(
        &self,
        scope: &CommandScope,
        attempt: Option<AttemptId>,
        after: u64,
    ) -> ClientResult<LogReply> {
        let attempt = attempt.map(|attempt| attempt.to_string());
        let query = scope
            .url_for("/logs")
            .with_param("attempt", attempt.as_deref())
            .with_param("after", Some(&after.to_string()));
        self.daemon.get(&query.build()).await
    }

    /// Sends `GET /turns` for the newest `limit` turns, newest first.
    pub(crate) async fn turns(
        &self,
        scope: &CommandScope,
        limit: usize,
    ) -> ClientResult<ListPage<TurnView>> {
        let limits = PageLimits { total: limit, ..ALL_PAGES };
        self.get_pages(&scope.url_for("/turns"), limits).await
    }

    /// Sends `GET /turns` for one page of the list, newest first.
    pub(crate) async fn turns_page(
        &self,
        scope: &CommandScope,
        after: Option<&str>,
    ) -> ClientResult<ListPage<TurnView>> {
        let limit = MAX_PAGE_ITEMS.to_string();
        let url = scope.url_for("/turns").with_param("limit", Some(&limit));
        self.daemon.get(&url.with_param("after", after).build()).await
    }

    /// Sends `GET /turns/{id}` for one page of the history; `id` may be the beginning of an id.
    pub(crate) async fn turn_page(
        &self,
        id: &str,
        after: Option<&str>,
    ) -> ClientResult<TurnDetail> {
        let url = UrlBuilder::new(&format!("/turns/{id}")).with_param("after", after);
        self.daemon.get(&url.build()).await
    }

    /// Sends `GET /turns/{id}` for the whole history.
    pub(crate) async fn turn(&self, id: &str) -> ClientResult<TurnDetail> {
        let mut whole = self.turn_page(id, None).await?;
        let id = whole.view.turn.to_string();
        while let Some(after) = whole.next.take() {
            let more = self.turn_page(&id, Some(&after)).await?;
            whole.items.extend(more.items);
            whole.next = more.next;
        }
        Ok(whole)
    }

    /// Sends `GET /messages` for the first `limit` messages after `since`, oldest first.
    pub(crate) async fn messages_after(
        &self,
        scope: &CommandScope,
        since: Seq,
        limit: u32,
        runs: RunSelection,
    ) -> ClientResult<MessagesReply> {
        let all_runs = match runs {
            RunSelection::Current => None,
            RunSelection::All => Some("true"),
        };
        let query = scope
            .url_for("/messages")
            .with_param("since", Some(&since.to_string()))
            .with_param("limit", Some(&limit.to_string()))
            .with_param("all_runs", all_runs);
        self.daemon.get(&query.build()).await
    }
}

fn agent_url(who: &Target, what: &str, scope: &CommandScope) -> String {
    agent_url_builder(who, what, scope).build()
}

fn agent_url_builder(who: &Target, what: &str, scope: &CommandScope) -> UrlBuilder {
    let path = format!("/agents/{}{what}", percent_encode(&who.to_string()));
    UrlBuilder::new(&path).with_param("project", scope.project.to_str())
}
