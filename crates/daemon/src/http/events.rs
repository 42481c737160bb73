//! The event log as a stream of server-sent events.
//!
//! The daemon keeps only the position and the current page of each client. A slow client delays only itself, a
//! client that does not read is disconnected, and a disconnected client resumes after the last id it received,
//! without a gap.

use std::{
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use agent_worker_kernel::{self as kernel, EventSubscription, InstanceSelector, WatchSubject};
use agent_worker_protocol::{Code, Event, Position, Problem, RunId, Target};
use axum::{
    Extension,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Sse, sse},
};
use futures_core::Stream;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::ReusableBoxFuture;

use super::{
    AppState,
    extractors::{Requester, UrlQuery},
    problem_response::ProblemResponse,
};
use crate::{backpressure::EndlessStream, shutdown::Shutdown};

const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const LAST_EVENT_ID: &str = "last-event-id";

/// Selects the events to watch and the start position.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventWatchQuery {
    /// A run, from its first to its last event.
    run: Option<RunId>,
    /// The condition that ends the stream of a run. Absent: `end`.
    #[serde(default)]
    until: EventStreamEnd,
    /// A person who can answer questions reads the stream: meanwhile, a run in which only questions are left does
    /// not pause.
    #[serde(default)]
    person: bool,
    /// An instance, from now on.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// Start after this event. A `Last-Event-ID` header takes precedence.
    after: Option<Position>,
}

/// The condition that ends the stream of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Until")]
enum EventStreamEnd {
    /// Ends when the run ends.
    #[default]
    End,
    /// Ends when the run has ended, or is paused with no running attempt.
    Rest,
}

/// Handles `GET /events`.
pub(super) async fn watch_events(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(watch): UrlQuery<EventWatchQuery>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ProblemResponse> {
    let after = last_event_id(&headers)?.or(watch.after);
    let watched = match (watch.run, watch.until) {
        (Some(run), EventStreamEnd::End) => WatchSubject::Run(run),
        (Some(run), EventStreamEnd::Rest) => WatchSubject::RunUntilIdle(run),
        (None, _) => WatchSubject::Instance(InstanceSelector {
            target: watch.target,
            project: watch.project,
        }),
    };
    let feed = app.kernel.runs().watch(&who, watched, after).await?;
    let feed = if watch.person { feed.with_presence_of(&who) } else { feed };
    Ok(stream_feed(feed, &app.shutdown))
}

/// Streams a subscription. The response header names the start position, so that a client that is disconnected
/// before its first event resumes without a gap.
pub(super) fn stream_feed(
    feed: EventSubscription,
    shutdown: &Shutdown,
) -> impl IntoResponse + use<> {
    let start = feed.position().to_string();
    let stream = FeedStream::new(feed, shutdown.clone());
    let events = Sse::new(stream).keep_alive(sse::KeepAlive::new().interval(KEEP_ALIVE_INTERVAL));
    (Extension(EndlessStream), [(LAST_EVENT_ID, start)], events)
}

/// Returns the id of the last event a client received. An empty id means that the client has received none.
fn last_event_id(headers: &HeaderMap) -> Result<Option<Position>, Problem> {
    let Some(id) = headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) else { return Ok(None) };
    let number = id.to_str().ok().and_then(|id| id.parse().ok());
    let bad = || Problem::new(Code::BadRequest, "`Last-Event-ID` is not the id of an event");
    number.map(Position::new).map(Some).ok_or_else(bad)
}

/// A subscription that is streamed to one client.
struct FeedStream {
    /// None at the end of the stream.
    next: Option<ReusableBoxFuture<'static, FeedOutput>>,
    shutdown: Shutdown,
}

type FeedOutput = (EventSubscription, Result<Option<Event>, kernel::Error>);

impl FeedStream {
    fn new(feed: EventSubscription, shutdown: Shutdown) -> Self {
        let next = ReusableBoxFuture::new(next_event(feed, shutdown.clone()));
        Self { next: Some(next), shutdown }
    }
}

async fn next_event(mut feed: EventSubscription, shutdown: Shutdown) -> FeedOutput {
    let next = tokio::select! {
        next = feed.next() => next,
        () = shutdown.streams_closed() => Ok(None),
    };
    (feed, next)
}

impl Stream for FeedStream {
    type Item = Result<sse::Event, axum::Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Some(future) = &mut this.next else { return Poll::Ready(None) };
        let (feed, next) = ready!(future.poll(cx));
        match next {
            Ok(Some(event)) => {
                future.set(next_event(feed, this.shutdown.clone()));
                return Poll::Ready(Some(to_sse_event(&event)));
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "an event stream failed"),
        }
        this.next = None;
        Poll::Ready(None)
    }
}

/// Converts an event to its wire form. An event that is not stored has no id: a client cannot resume after it.
fn to_sse_event(event: &Event) -> Result<sse::Event, axum::Error> {
    // A kind of another version is any text, and a line break in it would end the field.
    let kind = event.body.kind_word().split(['\r', '\n']).next().unwrap_or_default();
    let written = sse::Event::default().event(kind).json_data(event)?;
    Ok(match event.pos {
        Some(position) => written.id(position.to_string()),
        None => written,
    })
}
