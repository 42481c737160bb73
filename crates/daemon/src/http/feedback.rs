//! What is said about the program itself.

use std::sync::Arc;

use agent_worker_protocol::api::{FeedbackRequest, FeedbackView};
use axum::{Json, extract::State};

use super::{
    Doors,
    refusal::Answer,
    request::{Body, Who},
};

/// `POST /feedback`
pub(super) async fn say(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Body(request): Body<FeedbackRequest>,
) -> Answer<FeedbackView> {
    Ok(Json(doors.kernel.feedback(&who, None, request).await?))
}

/// `GET /feedback`
pub(super) async fn list(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
) -> Answer<Vec<FeedbackView>> {
    Ok(Json(doors.kernel.feedback_list(&who).await?))
}
