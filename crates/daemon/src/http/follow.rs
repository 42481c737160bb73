//! A run and what comes of it in one request: told as it goes (`/run`), or once it rests (`/serve`).
//!
//! A run rests when it is over or paused. It is the daemon's from the beginning: whoever hangs up leaves it as it is.

use std::sync::Arc;

use agent_worker_kernel::{Clock, Feed, Principal, Watched};
use agent_worker_protocol::{
    Code, EventKind, Problem, RunId,
    api::{RunReport, RunRequest},
};
use axum::{Json, extract::State, response::IntoResponse};

use super::{
    Doors,
    events::{self, Until},
    refusal::{Answer, Refusal},
    request::{Body, Who},
};

/// `POST /run`
pub(super) async fn run(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Body(request): Body<RunRequest>,
) -> Result<impl IntoResponse, Refusal> {
    let (_, feed) = begin(&doors, &who, request).await?;
    Ok(events::tell(feed, &doors.shutdown, Until::Rest))
}

/// `POST /serve`
pub(super) async fn serve(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Body(request): Body<RunRequest>,
) -> Answer<RunReport> {
    let (run, mut feed) = begin(&doors, &who, request).await?;
    loop {
        tokio::select! {
            rested = rest(&mut feed) => rested?,
            () = doors.shutdown.streams_closed() => return Err(unfinished(run).into()),
        }
        // Whoever was quick has resumed it already.
        let view = doors.kernel.run_view(&who, run).await?;
        if let Some(report) = RunReport::of(&view, Clock::System.now()) {
            return Ok(Json(report));
        }
    }
}

async fn begin(
    doors: &Doors,
    who: &Principal,
    request: RunRequest,
) -> Result<(RunId, Feed), Refusal> {
    let run = doors.kernel.run_new(who, request).await?.run;
    Ok((run, doors.kernel.watch(who, Watched::Run(run), None).await?))
}

/// Waits until the run rests.
async fn rest(feed: &mut Feed) -> Result<(), Refusal> {
    while let Some(event) = feed.next().await? {
        if matches!(event.kind, EventKind::RunEnded | EventKind::RunPaused) {
            break;
        }
    }
    Ok(())
}

fn unfinished(run: RunId) -> Problem {
    let message =
        format!("the daemon stops before run {run} is over; its successor knows the rest");
    Problem::new(Code::Unavailable, message).hint(format!("ask again later: GET /runs/{run}"))
}
