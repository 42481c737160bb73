//! Starts a run and returns its result in one request: as a stream of events (`/run`), or as a report once the run
//! rests (`/serve`).
//!
//! A run rests when it has ended, or is paused with no running attempt. The daemon owns the run from the start: a
//! client that disconnects does not affect it.

use std::sync::Arc;

use agent_worker_kernel::{EventSubscription, Principal, WatchSubject};
use agent_worker_protocol::{
    Code, Permission, Problem, ProblemDetails, RunId,
    api::{RunReport, RunRequest},
};
use axum::{Json, extract::State, response::IntoResponse};

use super::{
    AppState, events,
    extractors::{JsonBody, Requester},
    hint::HTTP_CALLS,
    problem_response::{HandlerResult, ProblemResponse},
};
use crate::next_step::run_hint;

/// Handles `POST /run`.
pub(super) async fn run(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    JsonBody(request): JsonBody<RunRequest>,
) -> Result<impl IntoResponse, ProblemResponse> {
    let (_, feed) = start_run(&app, &who, request).await?;
    Ok(events::stream_feed(feed, &app.shutdown))
}

/// Handles `POST /serve`.
pub(super) async fn serve(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    JsonBody(request): JsonBody<RunRequest>,
) -> HandlerResult<RunReport> {
    let (run, mut feed) = start_run(&app, &who, request).await?;
    loop {
        tokio::select! {
            rested = wait_until_rest(&mut feed) => rested?,
            () = app.shutdown.streams_closed() => return Err(interrupted_problem(run).into()),
        }
        let view = app.kernel.runs().view(&who, run).await?;
        match RunReport::of(&view).filter(|_| view.is_at_rest()) {
            Some(mut report) => {
                if let Some(error) = &mut report.error {
                    error.hint = run_hint(&view, &HTTP_CALLS);
                }
                return Ok(Json(report));
            }
            // Another client has already resumed the run.
            None => feed = watch_run(&app, &who, run).await?,
        }
    }
}

async fn start_run(
    app: &AppState,
    who: &Principal,
    request: RunRequest,
) -> Result<(RunId, EventSubscription), ProblemResponse> {
    // Check before the run exists: a caller that may not read it must not start it and then be refused.
    who.require(Permission::Read)?;
    let run = app.kernel.runs().create(who, request).await?.run;
    Ok((run, watch_run(app, who, run).await?))
}

async fn watch_run(
    app: &AppState,
    who: &Principal,
    run: RunId,
) -> Result<EventSubscription, ProblemResponse> {
    let from_its_beginning = None;
    Ok(app.kernel.runs().watch(who, WatchSubject::RunUntilIdle(run), from_its_beginning).await?)
}

/// Waits until the run rests.
async fn wait_until_rest(feed: &mut EventSubscription) -> Result<(), ProblemResponse> {
    while feed.next().await?.is_some() {}
    Ok(())
}

fn interrupted_problem(run: RunId) -> Problem {
    let message =
        format!("the daemon stops before run {run} ends; the next daemon continues the run");
    Problem::new(Code::Unavailable, message).with_details(ProblemDetails::RunContinues { run })
}
