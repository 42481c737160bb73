//! Health of the daemon and its store, and shutdown.

use std::{path::PathBuf, sync::Arc, time::Duration};

use agent_worker_host::{Process, run_blocking};
use agent_worker_kernel::{ActivityCounts, Principal};
use agent_worker_protocol::{
    Code, Permission, Problem,
    api::{Health, HealthDetail, HealthStatus, ShutdownMode, ShutdownRequest, StoreReport},
};
use agent_worker_store::StoreFault;
use axum::{Extension, Json, extract::State, http::StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    AppState,
    extractors::{OptionalJsonBody, Requester, UrlQuery},
    problem_response::{HandlerResult, ProblemResponse},
};
use crate::peer::Peer;

/// Time limit of a probe write.
const WRITE_PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Lengths of a nonce.
const NONCE_LENGTHS: std::ops::RangeInclusive<usize> = 16..=128;

/// Asks for a proof that the daemon answers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HealthQuery {
    /// Random text that the client has not used before.
    nonce: Option<String>,
    /// The name of the client's token.
    client: Option<String>,
}

/// Handles `GET /health`: a probe write verifies the status, which is at most one second old.
pub(super) async fn health(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    peer: Option<Extension<Peer>>,
    UrlQuery(query): UrlQuery<HealthQuery>,
) -> HandlerResult<Health> {
    let proof = proof(&app, peer.as_deref(), query).await?;
    let writes = probe_writes(&app).await;
    let status = match (&writes, app.kernel.is_draining()) {
        (WriteHealth::Refused(_), _) => HealthStatus::ReadOnly,
        (WriteHealth::Stored | WriteHealth::RefusedForTeams(_), true) => HealthStatus::Draining,
        (WriteHealth::RefusedForTeams(_), false) => HealthStatus::Degraded,
        (WriteHealth::Stored, false) if app.kernel.health().is_held() => HealthStatus::Held,
        (WriteHealth::Stored, false) => HealthStatus::Ok,
    };
    let detail = match who {
        Principal::User => Some(health_detail(&app, writes.into_refusal()).await),
        Principal::Agent(_) | Principal::Client(_) | Principal::Anonymous => None,
    };
    Ok(Json(Health { status, version: app.health.version.clone(), proof, detail }))
}

/// Returns the proof of the daemon for a client that asks for it at the port.
async fn proof(
    app: &AppState,
    peer: Option<&Peer>,
    query: HealthQuery,
) -> Result<Option<String>, ProblemResponse> {
    let HealthQuery { nonce: Some(nonce), client: Some(client) } = query else { return Ok(None) };
    if !NONCE_LENGTHS.contains(&nonce.len()) || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = "`nonce` must be 16 to 128 printable ASCII characters without blanks";
        return Err(Problem::new(Code::BadRequest, message).into());
    }
    match peer {
        Some(Peer::Network(peer)) => {
            Ok(app.kernel.tokens().daemon_proof(&client, &nonce, peer.local).await?)
        }
        Some(Peer::Socket(_)) | None => Ok(None),
    }
}

/// Handles `POST /shutdown`: the reply confirms only that the request was accepted.
pub(super) async fn shutdown(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    OptionalJsonBody(request): OptionalJsonBody<ShutdownRequest>,
) -> Result<StatusCode, ProblemResponse> {
    who.require(Permission::Shutdown)?;
    match request.mode {
        ShutdownMode::Drain | ShutdownMode::Now => hold_next_daemon(&app).await,
        ShutdownMode::Handover => {}
    }
    app.shutdown.request(request.mode);
    Ok(StatusCode::ACCEPTED)
}

/// Sets the mark that holds the next daemon. On a failure the daemon stops all the same.
async fn hold_next_daemon(app: &AppState) {
    let mark = app.hold_mark.clone();
    let set = run_blocking(move || mark.set()).await;
    if !matches!(set, Some(Ok(()))) {
        tracing::error!(?set, "could not set the mark `held`; the next daemon continues the runs");
    }
}

/// Handles `POST /release`.
pub(super) async fn release(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
) -> Result<StatusCode, ProblemResponse> {
    app.kernel.health().release_hold(&who).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Handles `GET /doctor`.
pub(super) async fn doctor(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
) -> HandlerResult<StoreReport> {
    Ok(Json(app.kernel.health().check_store(&who).await?))
}

/// The result of a probe write.
enum WriteHealth {
    Stored,
    /// The store refuses writes for some teams.
    RefusedForTeams(WriteRefusal),
    /// The store refuses writes for all teams.
    Refused(WriteRefusal),
}

/// The reason why writes are refused, and the rescued copies of lost databases.
#[derive(Default)]
struct WriteRefusal {
    why: String,
    rescued: Vec<PathBuf>,
}

impl WriteHealth {
    fn into_refusal(self) -> Option<WriteRefusal> {
        match self {
            Self::Stored => None,
            Self::RefusedForTeams(refusal) | Self::Refused(refusal) => Some(refusal),
        }
    }
}

impl From<String> for WriteRefusal {
    fn from(why: String) -> Self {
        Self { why, rescued: Vec::new() }
    }
}

/// Probes the store with a write.
async fn probe_writes(app: &AppState) -> WriteHealth {
    let failure =
        match tokio::time::timeout(WRITE_PROBE_TIMEOUT, app.kernel.health().check_writes()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => {
                Some(format!("the disk did not complete a write within {WRITE_PROBE_TIMEOUT:?}"))
            }
        };
    let faults = app.kernel.health().faults().await.unwrap_or_default();
    match (writes_from_faults(&faults), failure) {
        (writes @ WriteHealth::Refused(_), _) | (writes, None) => writes,
        (WriteHealth::Stored | WriteHealth::RefusedForTeams(_), Some(failure)) => {
            WriteHealth::Refused(failure.into())
        }
    }
}

/// Interprets the faults that remain after a write: a full disk may accept a small write and refuse a larger one.
fn writes_from_faults(faults: &[StoreFault]) -> WriteHealth {
    let rescued = faults.iter().filter_map(|fault| fault.copy.clone()).collect();
    if let Some(own) = faults.iter().find(|fault| fault.database.is_none()) {
        return WriteHealth::Refused(WriteRefusal { why: own.why.clone(), rescued });
    }
    let shown = |fault: &StoreFault| {
        let database = fault.database.as_ref().map(|path| path.display().to_string());
        format!("{}: {}", database.unwrap_or_default(), fault.why)
    };
    let teams: Vec<String> = faults.iter().map(shown).collect();
    if teams.is_empty() {
        return WriteHealth::Stored;
    }
    WriteHealth::RefusedForTeams(WriteRefusal { why: teams.join("; "), rescued })
}

async fn health_detail(app: &AppState, refusal: Option<WriteRefusal>) -> HealthDetail {
    let (counts, refusal) = match app.kernel.health().activity_counts().await {
        Ok(counts) => (counts, refusal),
        // Health is most important if nothing else can be read.
        Err(error) => (
            ActivityCounts { runs: 0, agents: 0, attempts: 0 },
            refusal.or_else(|| Some(error.to_string().into())),
        ),
    };
    let (trouble, rescued) = refusal.map(|WriteRefusal { why, rescued }| (why, rescued)).unzip();
    let facts = &app.health;
    HealthDetail {
        pid: facts.pid,
        start_time: Process::of(facts.pid).map(|process| process.start_time),
        home: facts.home.clone(),
        address: facts.address.map(|address| address.to_string()),
        port_conflict: facts.port_conflict.clone(),
        started: facts.started,
        live_runs: counts.runs,
        agents: counts.agents,
        workers: counts.attempts,
        trouble,
        rescued: rescued.unwrap_or_default(),
        damaged: app.kernel.health().damaged_rows().await,
        tracking: app.kernel.health().process_tracking(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_the_daemons_own_database_counts_for_all_and_one_of_a_team_for_that_team() {
        let fault = |database: Option<&str>| StoreFault {
            database: database.map(Into::into),
            why: "full".to_owned(),
            copy: None,
        };
        let shown = |faults: &[StoreFault]| match writes_from_faults(faults) {
            WriteHealth::Stored => "stored".to_owned(),
            WriteHealth::RefusedForTeams(refusal) => format!("teams: {}", refusal.why),
            WriteHealth::Refused(refusal) => format!("all: {}", refusal.why),
        };
        for (faults, expected) in [
            (vec![], "stored"),
            (vec![fault(Some("/p/a.db"))], "teams: /p/a.db: full"),
            (
                vec![fault(Some("/p/a.db")), fault(Some("/b.db"))],
                "teams: /p/a.db: full; /b.db: full",
            ),
            (vec![fault(Some("/p/a.db")), fault(None)], "all: full"),
        ] {
            assert_eq!(shown(&faults), expected);
        }
    }
}
