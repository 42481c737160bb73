//! Runs: start, read, stop, resume.

use std::sync::Arc;

use agent_worker_protocol::{
    RunId,
    api::{ListPage, ResumeRequest, RunRequest, RunStarted, RunStopped, RunView, StatsView},
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    AppState,
    extractors::{JsonBody, ListQuery, Requester, UrlPath, UrlQuery},
    hint::HTTP_CALLS,
    idempotency::IdempotencyKey,
    problem_response::HandlerResult,
};
use crate::next_step::run_hint;

/// The mode of a stop.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunStopQuery {
    /// True to kill the processes without a grace period.
    #[serde(default)]
    now: bool,
}

/// Handles `POST /runs`.
pub(super) async fn start(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    JsonBody(request): JsonBody<RunRequest>,
) -> HandlerResult<RunStarted> {
    Ok(Json(app.kernel.runs().create(&who, request).await?))
}

/// Handles `GET /runs`.
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> HandlerResult<ListPage<RunView>> {
    let (selector, scope, page) = query.into_parts()?;
    Ok(Json(app.kernel.runs().list(&who, &selector, scope, &page).await?))
}

/// Handles `GET /runs/{id}`.
pub(super) async fn show(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(run): UrlPath<RunId>,
) -> HandlerResult<RunView> {
    let view = app.kernel.runs().view(&who, run).await?;
    Ok(Json(RunView { hint: run_hint(&view, &HTTP_CALLS), ..view }))
}

/// Handles `POST /runs/{id}/stop`: replies after every process of the run has ended.
pub(super) async fn stop(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(run): UrlPath<RunId>,
    UrlQuery(stop): UrlQuery<RunStopQuery>,
) -> HandlerResult<RunStopped> {
    let stopped = if stop.now {
        app.kernel.runs().stop_now(&who, run).await?
    } else {
        app.kernel.runs().stop(&who, run).await?
    };
    Ok(Json(stopped))
}

/// Handles `POST /runs/{id}/pause`.
pub(super) async fn pause(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(run): UrlPath<RunId>,
) -> HandlerResult<RunView> {
    Ok(Json(app.kernel.runs().pause(&who, run).await?))
}

/// Handles `POST /runs/{id}/resume`.
pub(super) async fn resume(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    UrlPath(run): UrlPath<RunId>,
    JsonBody(request): JsonBody<ResumeRequest>,
) -> HandlerResult<RunView> {
    let key = key.effect("run_resume", || json!({ "run": run, "request": request }))?;
    Ok(Json(app.kernel.runs().resume(&who, key, run, request).await?))
}

/// Handles `GET /stats`.
pub(super) async fn stats(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> HandlerResult<ListPage<StatsView>> {
    let (selector, scope, page) = query.into_parts()?;
    Ok(Json(app.kernel.runs().stats(&who, &selector, scope, &page).await?))
}
