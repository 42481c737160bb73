//! Proposals, votes, and questions to a person.

use std::{path::PathBuf, sync::Arc};

use agent_worker_kernel::{InstanceSelector, PageRequest, ProposalFilter};
use agent_worker_protocol::{
    ProposalId, QuestionId, Target,
    api::{
        AnswerRequest, CancelRequest, ListPage, ProposalOutcome, ProposalRequest, ProposalView,
        ProposalsReply, QuestionView, SendReply, VoteRequest,
    },
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    AppState,
    extractors::{JsonBody, ListQuery, Requester, ScopeQuery, UrlPath, UrlQuery},
    idempotency::IdempotencyKey,
    problem_response::HandlerResult,
};

/// Selects an instance and its proposals.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProposalListQuery {
    /// The instance to read from.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// Include ended proposals.
    #[serde(default)]
    all: bool,
    /// Maximum number of items, up to 1000. Absent: 100.
    limit: Option<u32>,
    /// Cursor: the `next` of the page before.
    after: Option<String>,
}

/// Handles `GET /proposals`.
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(which): UrlQuery<ProposalListQuery>,
) -> HandlerResult<ProposalsReply> {
    let ProposalListQuery { target, project, all, limit, after } = which;
    let which = if all { ProposalFilter::All } else { ProposalFilter::Open };
    let (place, page) = (InstanceSelector { target, project }, PageRequest::new(limit, after)?);
    Ok(Json(app.kernel.proposals().list(&who, &place, which, &page).await?))
}

/// Handles `GET /proposals/{id}`.
pub(super) async fn show(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(id): UrlPath<ProposalId>,
    UrlQuery(scope): UrlQuery<ScopeQuery>,
) -> HandlerResult<ProposalView> {
    Ok(Json(app.kernel.proposals().get(&who, &scope.into_target(), id).await?))
}

/// Handles `POST /proposals`.
pub(super) async fn create(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    JsonBody(request): JsonBody<ProposalRequest>,
) -> HandlerResult<ProposalOutcome> {
    let args = || serde_json::to_value(&request).unwrap_or_default();
    let key = key.effect("proposal_create", args)?;
    Ok(Json(app.kernel.proposals().create(&who, key, request).await?))
}

/// Handles `POST /proposals/{id}/vote`.
pub(super) async fn vote(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    UrlPath(id): UrlPath<ProposalId>,
    JsonBody(request): JsonBody<VoteRequest>,
) -> HandlerResult<ProposalOutcome> {
    let key = key.effect("vote", || json!({ "proposal": id, "request": request }))?;
    Ok(Json(app.kernel.proposals().vote(&who, key, id, request).await?))
}

/// Handles `POST /proposals/{id}/cancel`.
pub(super) async fn cancel(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    UrlPath(id): UrlPath<ProposalId>,
    JsonBody(request): JsonBody<CancelRequest>,
) -> HandlerResult<ProposalOutcome> {
    let key = key.effect("proposal_cancel", || json!({ "proposal": id, "request": request }))?;
    Ok(Json(app.kernel.proposals().cancel(&who, key, id, request).await?))
}

/// Handles `GET /questions`.
pub(super) async fn questions(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> HandlerResult<ListPage<QuestionView>> {
    let (selector, scope, page) = query.into_parts()?;
    Ok(Json(app.kernel.questions().list(&who, &selector, scope, &page).await?))
}

/// Handles `POST /questions/{id}/answer`.
pub(super) async fn answer_question(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    UrlPath(id): UrlPath<QuestionId>,
    JsonBody(request): JsonBody<AnswerRequest>,
) -> HandlerResult<SendReply> {
    let key = key.effect("answer", || json!({ "question": id, "request": request }))?;
    Ok(Json(app.kernel.questions().answer(&who, key, id, request).await?))
}
