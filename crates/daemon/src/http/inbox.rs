//! Inboxes, for agents without MCP and for people who inspect one.

use std::sync::Arc;

use agent_worker_kernel::ChannelPosition;
use agent_worker_protocol::api::{AckReply, AckRequest, InboxReply};
use axum::{Json, extract::State};

use super::{
    AppState,
    extractors::{InstanceListQuery, JsonBody, Requester, UrlQuery},
    problem_response::HandlerResult,
};

/// Handles `GET /inbox`.
pub(super) async fn show(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<InstanceListQuery>,
) -> HandlerResult<InboxReply> {
    let (selector, page) = query.into_parts()?;
    Ok(Json(app.kernel.inbox().peek(&who, &selector, &page).await?))
}

/// Handles `POST /inbox/ack`.
pub(super) async fn ack(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    JsonBody(AckRequest { until }): JsonBody<AckRequest>,
) -> HandlerResult<AckReply> {
    let until = ChannelPosition::Seq(until);
    let with_this_turn = app.kernel.inbox().ack(&who, until).await?.with_this_turn;
    Ok(Json(AckReply { with_this_turn }))
}
