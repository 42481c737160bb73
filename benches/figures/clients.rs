//! Many clients at once, and clients that do not read.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    time::Duration,
};

use agent_worker_host::DaemonSocket;
use anyhow::ensure;
use serde_json::{Value, json};

use crate::{
    bench_env::BenchEnv,
    processor::{ProcessorClock, wait_until_idle},
    sample::median,
    table::{Figure, Table, Unit},
};

const CLIENTS: usize = 1000;
const MAX_THREADS: f64 = 64.0;
const READERS: usize = 200;
const SENDS: u32 = 1000;
/// More sends than the system buffers for a reader.
const FIRST_SENDS: u32 = 50;
const ROUNDS: usize = 3;
const MAX_COST_RATIO: f64 = 1.1;
const TEAM: &str = "name: team\nagents:\n  reader: { backend: mock, mock: [{}] }\n";

/// Measures the threads for many clients, and the cost of a send while many readers have stalled.
pub(crate) async fn figures(table: &mut Table) -> anyhow::Result<()> {
    let bench_env = BenchEnv::with_daemon()?;
    bench_env.team(TEAM)?;
    let name = format!("daemon's threads after {CLIENTS} socket clients at once");
    let threads = Figure::new(name, Unit::Count, f64::from(threads(&bench_env)?));
    table.add(&threads.at_most(MAX_THREADS))?;
    let client = bench_env.connect();
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let alone = cost(&bench_env, &client, SENDS).await?;
        let readers = readers(&bench_env)?;
        cost(&bench_env, &client, FIRST_SENDS).await?;
        let watched = cost(&bench_env, &client, SENDS).await?;
        drop(readers);
        ratios.push(watched.as_secs_f64() / alone.as_secs_f64());
    }
    let name = format!("a send with {READERS} stalled event readers, by one without");
    table.add(&Figure::new(name, Unit::Times, median(ratios)).at_most(MAX_COST_RATIO))?;
    Ok(())
}

/// Returns the number of the daemon's threads after it has answered all clients. An idle thread lives for seconds.
fn threads(bench_env: &BenchEnv) -> anyhow::Result<u32> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = UnixStream::connect(bench_env.socket())?;
        client.write_all(b"GET /agents HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        clients.push(client);
    }
    for mut client in clients {
        read_status(&mut client)?;
    }
    Ok(u32::try_from(fs::read_dir(format!("/proc/{}/task", bench_env.pid()?))?.count())?)
}

/// Opens clients that subscribe to the team and read no event.
fn readers(bench_env: &BenchEnv) -> anyhow::Result<Vec<UnixStream>> {
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut reader = UnixStream::connect(bench_env.socket())?;
        reader.write_all(b"GET /events?target=@team HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        read_status(&mut reader)?;
        readers.push(reader);
    }
    Ok(readers)
}

fn read_status(client: &mut UnixStream) -> anyhow::Result<()> {
    let mut status = [0; 15];
    client.read_exact(&mut status)?;
    ensure!(&status == b"HTTP/1.1 200 OK", "{}", String::from_utf8_lossy(&status));
    Ok(())
}

/// Returns the daemon's processor time for one send.
async fn cost(bench_env: &BenchEnv, client: &DaemonSocket, sends: u32) -> anyhow::Result<Duration> {
    wait_until_idle(bench_env).await?;
    let clock = ProcessorClock::start(bench_env.pid()?)?;
    let body = json!({ "target": "@team", "message": "to nobody" });
    for _ in 0..sends {
        let _: Value = client.post("/messages", &body).await?;
    }
    Ok(clock.cpu_time()? / sends)
}
