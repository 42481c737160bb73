//! The memory of a daemon, and the tool list that it adds to every turn of an agent.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use agent_worker_protocol::api::Health;
use tokio::time::sleep;

use crate::{
    BenchLength, agent,
    bench_env::BenchEnv,
    table::{Figure, Table, Unit},
};

const MEBIBYTE: f64 = 1024.0 * 1024.0;
const MAX_IDLE_MEBIBYTES: f64 = 20.0;
const MAX_CROWDED_MEBIBYTES: f64 = 30.0;
const AGENTS: usize = 1000;
/// Time for the daemon's work after its start, so that it is really idle.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// Measures memory and the size of an agent's tool list.
pub(crate) async fn figures(table: &mut Table, length: BenchLength) -> anyhow::Result<()> {
    let bench_env = BenchEnv::with_daemon()?;
    let _: Health = bench_env.connect().get("/health").await?;
    sleep(SETTLE_TIME).await;
    let name = "daemon's resident memory, idle";
    table.add(&memory(name, &bench_env)?.at_most(MAX_IDLE_MEBIBYTES))?;
    if length == BenchLength::Long {
        measure_large_team(table).await?;
    }
    agent::figures(table).await
}

async fn measure_large_team(table: &mut Table) -> anyhow::Result<()> {
    let bench_env = BenchEnv::with_daemon()?;
    let mut yaml = String::from("name: team\nagents:\n");
    for number in 1..=AGENTS {
        writeln!(yaml, "  agent-{number}: {{ backend: mock, mock: [{{}}] }}")?;
    }
    let began = Instant::now();
    bench_env.team(&yaml)?;
    let took = began.elapsed();
    sleep(SETTLE_TIME).await;
    let name = format!("daemon's resident memory, {AGENTS} idle agents");
    table.add(&memory(&name, &bench_env)?.at_most(MAX_CROWDED_MEBIBYTES))?;
    let name = format!("start --background of a team of {AGENTS}");
    table.add(&Figure::new(name, Unit::Millis, crate::sample::millis(took)))?;
    Ok(())
}

/// Returns the daemon's current memory as a figure.
pub(crate) fn memory(name: &str, bench_env: &BenchEnv) -> anyhow::Result<Figure> {
    Ok(Figure::new(name, Unit::Mebibytes, bench_env.resident()? / MEBIBYTE))
}
