//! Agents: their state and its explanation; joining, stopping and leaving.

use std::{path::PathBuf, sync::Arc};

use agent_worker_kernel::{InstanceSelector, PageRequest};
use agent_worker_protocol::{
    AttemptId, Target,
    api::{
        AgentDetail, AgentInterrupted, AgentMocks, AgentRequest, AgentStopped, AgentTools,
        AgentView, ListPage, LogReply, MockRequest,
    },
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    AppState,
    extractors::{AgentStopQuery, JsonBody, ListQuery, ProjectQuery, Requester, UrlPath, UrlQuery},
    idempotency::IdempotencyKey,
    problem_response::HandlerResult,
    terminal_text::wakes_when,
};

/// Selects an agent's log and a position in it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogPageQuery {
    /// The agent to read.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// The attempt to read. Absent: the last one.
    attempt: Option<AttemptId>,
    /// Byte offset to start at.
    #[serde(default)]
    after: u64,
}

/// Selects a page of the agents whose tools are listed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolPageQuery {
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// Maximum number of agents, up to 1000. Absent: 100.
    limit: Option<u32>,
    /// Cursor: the `next` of the page before.
    after: Option<String>,
}

/// Handles `GET /agents`.
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> HandlerResult<ListPage<AgentView>> {
    let (selector, scope, page) = query.into_parts()?;
    Ok(Json(app.kernel.agents().list(&who, &selector, scope, &page).await?))
}

/// Handles `POST /agents`.
pub(super) async fn join(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    JsonBody(request): JsonBody<AgentRequest>,
) -> HandlerResult<AgentView> {
    let args = || serde_json::to_value(&request).unwrap_or_default();
    let key = key.effect("agent_new", args)?;
    Ok(Json(app.kernel.agents().create(&who, key, request).await?))
}

/// Handles `GET /agents/{target}`.
pub(super) async fn show(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(target): UrlPath<Target>,
    UrlQuery(near): UrlQuery<ProjectQuery>,
) -> HandlerResult<AgentDetail> {
    let agent = app.kernel.agents().detail(&who, &near.with_target(target)).await?;
    Ok(Json(agent.into_detail(wakes_when)))
}

/// Handles `GET /agents/{target}/tools`.
pub(super) async fn tools(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(target): UrlPath<Target>,
    UrlQuery(query): UrlQuery<ToolPageQuery>,
) -> HandlerResult<ListPage<AgentTools>> {
    let ToolPageQuery { project, limit, after } = query;
    let place = InstanceSelector { target: Some(target), project };
    let page = PageRequest::new(limit, after)?;
    Ok(Json(app.kernel.agents().tools(&who, &place, &page).await?))
}

/// Handles `DELETE /agents/{target}`.
pub(super) async fn remove(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(target): UrlPath<Target>,
    UrlQuery(near): UrlQuery<ProjectQuery>,
) -> HandlerResult<AgentStopped> {
    Ok(Json(app.kernel.agents().remove(&who, &near.with_target(target)).await?))
}

/// Handles `POST /agents/{target}/stop`: replies after every process of the agent has ended.
pub(super) async fn stop(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(target): UrlPath<Target>,
    UrlQuery(near): UrlQuery<AgentStopQuery>,
) -> HandlerResult<AgentStopped> {
    let stopped = if near.now {
        app.kernel.agents().stop_now(&who, &near.with_target(target)).await?
    } else {
        app.kernel.agents().stop(&who, &near.with_target(target)).await?
    };
    Ok(Json(stopped))
}

/// Handles `POST /agents/{target}/interrupt`: replies after the turn has ended.
pub(super) async fn interrupt(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(target): UrlPath<Target>,
    UrlQuery(near): UrlQuery<ProjectQuery>,
) -> HandlerResult<AgentInterrupted> {
    Ok(Json(app.kernel.agents().interrupt(&who, &near.with_target(target)).await?))
}

/// Handles `POST /agents/{target}/resume`.
pub(super) async fn resume(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(target): UrlPath<Target>,
    UrlQuery(near): UrlQuery<ProjectQuery>,
) -> HandlerResult<AgentView> {
    Ok(Json(app.kernel.agents().resume(&who, &near.with_target(target)).await?))
}

/// Handles `POST /agents/{target}/mock`.
pub(super) async fn mock(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(target): UrlPath<Target>,
    UrlQuery(near): UrlQuery<ProjectQuery>,
    key: IdempotencyKey,
    JsonBody(request): JsonBody<MockRequest>,
) -> HandlerResult<AgentMocks> {
    let near = near.with_target(target);
    let key = key.effect(
        "agent_mock",
        || json!({ "target": near.target, "project": near.project, "request": request }),
    )?;
    Ok(Json(app.kernel.agents().set_mock(&who, key, &near, request).await?))
}

/// Handles `GET /logs`.
pub(super) async fn log(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(page): UrlQuery<LogPageQuery>,
) -> HandlerResult<LogReply> {
    let LogPageQuery { target, project, attempt, after } = page;
    let place = InstanceSelector { target, project };
    Ok(Json(app.kernel.agents().read_log(&who, &place, attempt, after).await?))
}
