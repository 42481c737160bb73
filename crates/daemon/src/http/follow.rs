//! A run and what comes of it in one request: told as it goes (`/run`), or once it rests (`/serve`).
//!
//! A run rests when it is over, or paused and nobody works any more. It is the daemon's from the beginning: whoever hangs up leaves it as it is.

use std::sync::Arc;

use agent_worker_kernel::{Feed, Principal, Watched};
use agent_worker_protocol::{
    Code, Permission, Problem, RunId,
    api::{RunReport, RunRequest},
};
use axum::{Json, extract::State, response::IntoResponse};

use super::{
    Doors, events,
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
    Ok(events::tell(feed, &doors.shutdown))
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
        let view = doors.kernel.run_view(&who, run).await?;
        match RunReport::of(&view).filter(|_| view.is_at_rest()) {
            Some(report) => return Ok(Json(report)),
            // Whoever was quick has resumed it already.
            None => feed = watch(&doors, &who, run).await?,
        }
    }
}

async fn begin(
    doors: &Doors,
    who: &Principal,
    request: RunRequest,
) -> Result<(RunId, Feed), Refusal> {
    // Told before it exists: whoever may not look at it is not to start it and then be refused.
    who.require(Permission::Read)?;
    let run = doors.kernel.run_new(who, request).await?.run;
    Ok((run, watch(doors, who, run).await?))
}

async fn watch(doors: &Doors, who: &Principal, run: RunId) -> Result<Feed, Refusal> {
    let from_its_beginning = None;
    Ok(doors.kernel.watch(who, Watched::RunToRest(run), from_its_beginning).await?)
}

/// Waits until the run rests.
async fn rest(feed: &mut Feed) -> Result<(), Refusal> {
    while feed.next().await?.is_some() {}
    Ok(())
}

fn unfinished(run: RunId) -> Problem {
    let message =
        format!("the daemon stops before run {run} is over; its successor knows the rest");
    Problem::new(Code::Unavailable, message).hint(format!("ask again later: GET /runs/{run}"))
}
