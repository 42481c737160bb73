//! What a daemon weighs, and what it puts on every turn of an agent.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use agent_worker_protocol::api::Health;
use tokio::time::sleep;

use crate::{
    Length, agent,
    house::House,
    table::{Figure, Table, Unit},
};

const MEBIBYTE: f64 = 1024.0 * 1024.0;
const MOST_IDLE: f64 = 20.0;
const MOST_CROWDED: f64 = 30.0;
const CROWD: usize = 1000;
/// How long a daemon has for what it does after its start, so that idle means idle.
const SETTLING: Duration = Duration::from_secs(1);

/// Measures memory and words.
pub(crate) async fn figures(table: &mut Table, length: Length) -> anyhow::Result<()> {
    let house = House::with_daemon()?;
    let _: Health = house.dial().get("/health").await?;
    sleep(SETTLING).await;
    let name = "daemon's resident memory, idle";
    table.add(&memory(name, &house)?.at_most(MOST_IDLE))?;
    if length == Length::Long {
        crowd(table).await?;
    }
    agent::figures(table).await
}

async fn crowd(table: &mut Table) -> anyhow::Result<()> {
    let house = House::with_daemon()?;
    let mut yaml = String::from("name: team\nagents:\n");
    for number in 1..=CROWD {
        writeln!(yaml, "  agent-{number}: {{ backend: mock, mock: [{{}}] }}")?;
    }
    let began = Instant::now();
    house.team(&yaml)?;
    let took = began.elapsed();
    sleep(SETTLING).await;
    let name = format!("daemon's resident memory, {CROWD} idle agents");
    table.add(&memory(&name, &house)?.at_most(MOST_CROWDED))?;
    let name = format!("start --background of a team of {CROWD}");
    table.add(&Figure::new(name, Unit::Millis, crate::sample::millis(took)))?;
    Ok(())
}

/// What the daemon has in memory now.
pub(crate) fn memory(name: &str, house: &House) -> anyhow::Result<Figure> {
    Ok(Figure::new(name, Unit::Mebibytes, house.resident()? / MEBIBYTE))
}
