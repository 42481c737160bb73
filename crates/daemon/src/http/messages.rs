//! Messages: send, read, and the receipts of their deliveries.

use std::{path::PathBuf, sync::Arc};

use agent_worker_kernel::{ChannelQuery, InstanceSelector, PageRequest};
use agent_worker_protocol::{
    Receipt, Seq, Target,
    api::{ListPage, MessagesReply, SendReply, SendRequest},
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    AppState,
    extractors::{InstanceListQuery, JsonBody, Requester, UrlPath, UrlQuery},
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
    /// Return the first messages after this seq or time, oldest first; without it the newest.
    #[schemars(with = "Option<String>")]
    since: Option<SinceFilter>,
    /// Maximum number of messages, up to 1000. Absent: 100.
    limit: Option<u32>,
    /// Cursor: the `next` of the page before.
    after: Option<String>,
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
}

/// Handles `POST /messages`: replies after the message is on disk.
pub(super) async fn send(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    JsonBody(mut request): JsonBody<SendRequest>,
) -> HandlerResult<SendReply> {
    let key = key.effect("channel_send", || request.to_arguments())?;
    Ok(Json(app.kernel.messages().send(&who, key, request).await?))
}

/// Handles `GET /messages`.
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(page): UrlQuery<MessagePageQuery>,
) -> HandlerResult<MessagesReply> {
    let MessagePageQuery {
        target,
        project,
        since,
        limit,
        after,
        search,
        thread,
        receipts,
        all_runs,
    } = page;
    let (since, page) = (since.map(SinceFilter::position), PageRequest::new(limit, after)?);
    let reading =
        ChannelQuery { since, page, search, thread, all_runs, receipts, mentions_only: false };
    let place = InstanceSelector { target, project };
    Ok(Json(app.kernel.messages().list(&who, &place, reading).await?))
}

/// Handles `GET /messages/{seq}/receipts`.
pub(super) async fn receipts(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(seq): UrlPath<Seq>,
    UrlQuery(query): UrlQuery<InstanceListQuery>,
) -> HandlerResult<ListPage<Receipt>> {
    let (selector, page) = query.into_parts()?;
    Ok(Json(app.kernel.messages().receipts(&who, &selector, seq, &page).await?))
}
