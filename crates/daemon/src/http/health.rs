//! How the daemon and its store are, and how to stop it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use agent_worker_host::Process;
use agent_worker_kernel::{Principal, Tally};
use agent_worker_protocol::{
    Permission,
    api::{Health, HealthDetail, HealthStatus, ShutdownRequest, StoreReport},
};
use agent_worker_store::StoreFault;
use axum::{Json, extract::State, http::StatusCode};

use super::{
    Doors,
    refusal::{Answer, Refusal},
    request::{Body, Who},
};

/// How long the disk may take for a pulse.
const PULSE_PATIENCE: Duration = Duration::from_secs(5);

/// `GET /health`: what it says was true within the last second, because a write is tried.
pub(super) async fn health(State(doors): State<Arc<Doors>>, Who(who): Who) -> Json<Health> {
    let writes = writes(&doors).await;
    let status = match (&writes, doors.kernel.is_draining()) {
        (Writes::Refused(_), _) => HealthStatus::ReadOnly,
        (Writes::Stored | Writes::RefusedForTeams(_), true) => HealthStatus::Draining,
        (Writes::RefusedForTeams(_), false) => HealthStatus::Degraded,
        (Writes::Stored, false) => HealthStatus::Ok,
    };
    let detail = match who {
        Principal::User => Some(detail(&doors, writes.trouble()).await),
        Principal::Agent(_) | Principal::Client(_) | Principal::Nobody => None,
    };
    Json(Health { status, version: doors.health.version.clone(), detail })
}

/// `POST /shutdown`: the answer is that it was heard.
pub(super) async fn shutdown(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Body(request): Body<ShutdownRequest>,
) -> Result<StatusCode, Refusal> {
    who.require(Permission::Shutdown)?;
    doors.shutdown.ask(request.mode);
    Ok(StatusCode::ACCEPTED)
}

/// `GET /doctor`
pub(super) async fn doctor(State(doors): State<Arc<Doors>>, Who(who): Who) -> Answer<StoreReport> {
    Ok(Json(doors.kernel.store_check(&who).await?))
}

/// Whether the store takes writes at the moment.
enum Writes {
    Stored,
    /// For some teams.
    RefusedForTeams(Trouble),
    /// For all.
    Refused(Trouble),
}

/// The reason why writes are refused, and the copies of databases that were taken away.
#[derive(Default)]
struct Trouble {
    why: String,
    rescued: Vec<PathBuf>,
}

impl Writes {
    fn trouble(self) -> Option<Trouble> {
        match self {
            Self::Stored => None,
            Self::RefusedForTeams(trouble) | Self::Refused(trouble) => Some(trouble),
        }
    }
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self { why, rescued: Vec::new() }
    }
}

/// Tries a write.
async fn writes(doors: &Doors) -> Writes {
    if let Some(trouble) = &doors.health.trouble {
        return Writes::Refused(trouble.clone().into());
    }
    let failure = match tokio::time::timeout(PULSE_PATIENCE, doors.kernel.pulse()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("the disk did not take a write within {PULSE_PATIENCE:?}")),
    };
    let faults = doors.kernel.faults().await.unwrap_or_default();
    match (judged(&faults), failure) {
        (writes @ Writes::Refused(_), _) | (writes, None) => writes,
        (Writes::Stored | Writes::RefusedForTeams(_), Some(failure)) => {
            Writes::Refused(failure.into())
        }
    }
}

/// The meaning of the faults that a write has left: a full disk may take a small write and refuse a larger one.
fn judged(faults: &[StoreFault]) -> Writes {
    let rescued = faults.iter().filter_map(|fault| fault.copy.clone()).collect();
    if let Some(own) = faults.iter().find(|fault| fault.database.is_none()) {
        return Writes::Refused(Trouble { why: own.why.clone(), rescued });
    }
    let shown = |fault: &StoreFault| {
        let database = fault.database.as_ref().map(|path| path.display().to_string());
        format!("{}: {}", database.unwrap_or_default(), fault.why)
    };
    let teams: Vec<String> = faults.iter().map(shown).collect();
    if teams.is_empty() {
        return Writes::Stored;
    }
    Writes::RefusedForTeams(Trouble { why: teams.join("; "), rescued })
}

async fn detail(doors: &Doors, trouble: Option<Trouble>) -> HealthDetail {
    let (tally, trouble) = match doors.kernel.tally().await {
        Ok(tally) => (tally, trouble),
        // How it is must be told above all when nothing else can be read.
        Err(error) => {
            (Tally { runs: 0, attempts: 0 }, trouble.or_else(|| Some(error.to_string().into())))
        }
    };
    let (trouble, rescued) = trouble.map(|Trouble { why, rescued }| (why, rescued)).unzip();
    let facts = &doors.health;
    HealthDetail {
        pid: facts.pid,
        start_time: Process::of(facts.pid).map(|process| process.start_time),
        home: facts.home.clone(),
        address: facts.address.map(|address| address.to_string()),
        started: facts.started,
        live_runs: tally.runs,
        workers: tally.attempts,
        trouble,
        rescued: rescued.unwrap_or_default(),
        damaged: doors.kernel.damage().await,
        tracking: doors.kernel.process_tracking(),
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
        let shown = |faults: &[StoreFault]| match judged(faults) {
            Writes::Stored => "stored".to_owned(),
            Writes::RefusedForTeams(trouble) => format!("teams: {}", trouble.why),
            Writes::Refused(trouble) => format!("all: {}", trouble.why),
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
