//! What workers report.

use std::sync::Arc;

use agent_worker_protocol::{
    AttemptId, EventsReply, EventsRequest,
    api::{PermitReply, PermitRequest},
};
use axum::{Json, extract::State};

use super::{
    Doors,
    refusal::Answer,
    request::{Body, Holder, Path},
};

/// `POST /attempts/{id}/events`
pub(super) async fn report(
    State(doors): State<Arc<Doors>>,
    Holder(who): Holder,
    Path(attempt): Path<AttemptId>,
    Body(request): Body<EventsRequest>,
) -> Answer<EventsReply> {
    Ok(Json(doors.kernel.attempt_report(&who, attempt, request).await?))
}

/// `POST /attempts/{id}/approvals`
pub(super) async fn permit(
    State(doors): State<Arc<Doors>>,
    Holder(who): Holder,
    Path(attempt): Path<AttemptId>,
    Body(request): Body<PermitRequest>,
) -> Answer<PermitReply> {
    Ok(Json(doors.kernel.permit(&who, attempt, request).await?))
}
