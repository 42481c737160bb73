//! Proposals, votes, and questions to a person.

use std::{path::PathBuf, sync::Arc};

use agent_worker_kernel::{Ballots, Place};
use agent_worker_protocol::{
    Proposal, ProposalId, QuestionId, Target,
    api::{
        AnswerRequest, CancelRequest, ProposalOutcome, ProposalRequest, ProposalsReply,
        QuestionView, SendReply, VoteRequest,
    },
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    Doors,
    once::IdempotencyKey,
    refusal::Answer,
    request::{Body, Path, Query, Scope, Who},
};

/// Whose proposals, and which of them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Which instance.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// Those that are over too.
    #[serde(default)]
    all: bool,
}

/// `GET /proposals`
pub(super) async fn list(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(which): Query<Which>,
) -> Answer<ProposalsReply> {
    let Which { target, project, all } = which;
    let which = if all { Ballots::All } else { Ballots::Open };
    Ok(Json(doors.kernel.proposals(&who, &Place { target, project }, which).await?))
}

/// `GET /proposals/{id}`
pub(super) async fn show(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Path(id): Path<ProposalId>,
    Query(scope): Query<Scope>,
) -> Answer<Proposal> {
    Ok(Json(doors.kernel.proposal(&who, &scope.place(), id).await?))
}

/// `POST /proposals`
pub(super) async fn create(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Body(request): Body<ProposalRequest>,
) -> Answer<ProposalOutcome> {
    let args = || serde_json::to_value(&request).unwrap_or_default();
    let key = key.effect("proposal_create", args)?;
    Ok(Json(doors.kernel.propose(&who, key, request).await?))
}

/// `POST /proposals/{id}/vote`
pub(super) async fn vote(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Path(id): Path<ProposalId>,
    Body(request): Body<VoteRequest>,
) -> Answer<ProposalOutcome> {
    let key = key.effect("vote", || json!({ "proposal": id, "request": request }))?;
    Ok(Json(doors.kernel.vote(&who, key, id, request).await?))
}

/// `POST /proposals/{id}/cancel`
pub(super) async fn cancel(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Path(id): Path<ProposalId>,
    Body(request): Body<CancelRequest>,
) -> Answer<ProposalOutcome> {
    let key = key.effect("proposal_cancel", || json!({ "proposal": id, "request": request }))?;
    Ok(Json(doors.kernel.proposal_cancel(&who, key, id, request).await?))
}

/// `GET /questions`
pub(super) async fn questions(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(scope): Query<Scope>,
) -> Answer<Vec<QuestionView>> {
    let breadth = scope.breadth();
    Ok(Json(doors.kernel.question_list(&who, &scope.place(), breadth).await?))
}

/// `POST /questions/{id}/answer`
pub(super) async fn answer(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Path(id): Path<QuestionId>,
    Body(request): Body<AnswerRequest>,
) -> Answer<SendReply> {
    let key = key.effect("answer", || json!({ "question": id, "request": request }))?;
    Ok(Json(doors.kernel.question_answer(&who, key, id, request).await?))
}
