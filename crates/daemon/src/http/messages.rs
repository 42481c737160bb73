//! Messages: send, read, and the receipts of their deliveries.

use std::{path::PathBuf, sync::Arc};

use agent_worker_kernel::{ChannelQuery, InstanceSelector};
use agent_worker_protocol::{
    Seq, Target,
    api::{MessagesReply, ReceiptsReply, SendReply, SendRequest},
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    AppState,
    extractors::{JsonBody, Requester, ScopeQuery, UrlPath, UrlQuery},
    idempotency::IdempotencyKey,
    problem_response::HandlerResult,
    since_filter::SinceFilter,
};

/// Selects a channel and the messages to read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MessagePageQuery {
    /// The instance to read from.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// Return only messages after this seq or time.
    #[schemars(with = "Option<String>")]
    since: Option<SinceFilter>,
    /// Maximum number of messages.
    limit: Option<u32>,
    /// Return only messages that contain this text.
    search: Option<String>,
    /// Seq of a message: return it and all replies to it, in any run, from the first on.
    thread: Option<Seq>,
    /// Include the receipts of your own messages; for the user, of all messages.
    #[serde(default)]
    receipts: bool,
    /// Include earlier runs.
    #[serde(default)]
    all_runs: bool,
    /// Accepted because every query may send it; a channel always belongs to one instance.
    #[serde(default, rename = "all")]
    #[schemars(skip)]
    _all: bool,
}

/// Handles `POST /messages`: replies after the message is on disk.
pub(super) async fn send(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    JsonBody(request): JsonBody<SendRequest>,
) -> HandlerResult<SendReply> {
    let args = || serde_json::to_value(&request).unwrap_or_default();
    let key = key.effect("channel_send", args)?;
    Ok(Json(app.kernel.messages().send(&who, key, request).await?))
}

/// Handles `GET /messages`.
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(page): UrlQuery<MessagePageQuery>,
) -> HandlerResult<MessagesReply> {
    let MessagePageQuery {
        target, project, since, limit, search, thread, receipts, all_runs, ..
    } = page;
    let since_seq = since.and_then(SinceFilter::seq);
    let reading = ChannelQuery { since: since_seq, limit, search, thread, all_runs, receipts };
    let mut reply =
        app.kernel.messages().list(&who, &InstanceSelector { target, project }, reading).await?;
    since.inspect(|since| since.retain_newer(&mut reply));
    Ok(Json(reply))
}

/// Handles `GET /messages/{seq}/receipts`.
pub(super) async fn receipts(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(seq): UrlPath<Seq>,
    UrlQuery(scope): UrlQuery<ScopeQuery>,
) -> HandlerResult<ReceiptsReply> {
    Ok(Json(app.kernel.messages().receipts(&who, &scope.into_target(), seq).await?))
}
