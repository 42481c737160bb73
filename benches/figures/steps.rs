//! Agents with direct access to a model: our time in each step of many agents at once, the memory of their workers, and the
//! bytes that one request has in common with the next.
//!
//! The same requests are then sent by a bare client, which has no tools and stores nothing.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use tokio::time::sleep;

use crate::{
    bench_env::BenchEnv,
    sample::{median, millis},
    stepping_model::{StepRecord, SteppingModel},
    table::{Figure, Table, Unit},
};

const AGENTS: usize = 100;
const STEPS: usize = 20;
/// Time of the model for an answer. A real one needs longer.
const ANSWER_TIME: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_mins(5);
const MAX_WORKER_MEBIBYTES: f64 = 12.0;
const MIN_COMMON_SHARE: f64 = 0.95;
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Measures a team whose agents all work at once.
pub(crate) async fn figures(table: &mut Table) -> anyhow::Result<()> {
    let mock = mock_memory().await?;
    let model = SteppingModel::start(STEPS, ANSWER_TIME)?;
    let (ours, memory) = measure_agents(&model).await?;
    let bare = measure_bare_client(&model, &ours.requests)?;
    for (name, record) in [("an agent's time", &ours), ("a bare client's time", &bare)] {
        for percent in [50, 99] {
            let name = format!("{name} in a step, {AGENTS} at once, p{percent}");
            let value = millis(record.between.percentile(percent));
            table.add(&Figure::new(name, Unit::Millis, value))?;
        }
    }
    let name = format!("memory of each of {AGENTS} workers, PSS, `api`");
    table.add(&Figure::new(name, Unit::Mebibytes, memory).at_most(MAX_WORKER_MEBIBYTES))?;
    let name = format!("memory of each of {AGENTS} workers, PSS, `mock`");
    table.add(&Figure::new(name, Unit::Mebibytes, mock))?;
    let name = "share of a request that begins the next one, least";
    let share = least_common_share(&ours.requests)?;
    Ok(table.add(&Figure::new(name, Unit::Times, share).at_least(MIN_COMMON_SHARE))?)
}

/// Runs the team to its end. Returns the record of the model, and the median memory of a worker in the middle.
async fn measure_agents(model: &SteppingModel) -> anyhow::Result<(StepRecord, f64)> {
    let entry = "{ model: anthropic/claude-sonnet-5-5 }";
    let (bench_env, run) = start_team(entry, Some(model.address()))?;
    let steps = AGENTS * (STEPS + 1);
    wait_until("the middle of the turns", || Ok(model.request_count() >= steps / 2)).await?;
    let memory = worker_memory(&bench_env)?;
    let path = format!("/runs/{run}");
    let daemon = bench_env.connect();
    let began = Instant::now();
    loop {
        let view: serde_json::Value = daemon.get(&path).await?;
        if view.to_string().contains("\"ended\"") {
            break;
        }
        ensure!(began.elapsed() < TIMEOUT, "the team does not end: {view}");
        sleep(POLL_INTERVAL).await;
    }
    let record = model.take_record();
    let counts: Vec<usize> = record.requests.iter().map(Vec::len).collect();
    ensure!(counts == vec![STEPS + 1; AGENTS], "each agent has one connection: {counts:?}");
    Ok((record, memory))
}

/// Returns the median memory of a mock agent's worker.
async fn mock_memory() -> anyhow::Result<f64> {
    let (bench_env, _) = start_team("{ backend: mock, mock: [{ sleep: 1h }] }", None)?;
    wait_until("the workers", || Ok(workers(&bench_env)?.len() == AGENTS)).await?;
    // A worker that has started still loads its job.
    sleep(ANSWER_TIME).await;
    worker_memory(&bench_env)
}

fn start_team(entry: &str, model: Option<SocketAddr>) -> anyhow::Result<(BenchEnv, String)> {
    let mut bench_env = BenchEnv::new()?;
    bench_env.start_with(&["--workers", &AGENTS.to_string()])?;
    let mut yaml = format!("name: team\nlimits: {{ workers: {AGENTS} }}\nagents:\n");
    for number in 1..=AGENTS {
        writeln!(yaml, "  agent-{number}: {entry}")?;
    }
    yaml += "kickoff: \"@all list the documents\"\n";
    bench_env.file("team.yaml", &yaml)?;
    let mut command = bench_env.command(&["run", "team.yaml", "--detach", "--json"]);
    if let Some(address) = model {
        command.env("ANTHROPIC_BASE_URL", format!("http://{address}"));
        command.env("ANTHROPIC_API_KEY", "test-key");
    }
    let output = command.output()?;
    ensure!(output.status.success(), "no team: {output:?}");
    let started: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let run = started["run"].as_str().context("a run without an id")?.to_owned();
    Ok((bench_env, run))
}

async fn wait_until(
    what: &str,
    mut is_reached: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let began = Instant::now();
    while !is_reached()? {
        ensure!(began.elapsed() < TIMEOUT, "{what} did not come");
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Returns the worker processes of the daemon.
fn workers(bench_env: &BenchEnv) -> anyhow::Result<Vec<u32>> {
    let daemon = bench_env.pid()?;
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{daemon}/task"))? {
        let children = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        found.extend(children.split_whitespace().flat_map(str::parse::<u32>));
    }
    Ok(found)
}

/// Returns the median of the workers' proportional set sizes in MiB.
fn worker_memory(bench_env: &BenchEnv) -> anyhow::Result<f64> {
    let pss = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    let sizes: Vec<f64> = workers(bench_env)?.iter().filter_map(pss).collect();
    ensure!(sizes.len() == AGENTS, "{} workers run", sizes.len());
    Ok(median(sizes.into_iter().map(|kibibytes| kibibytes / 1024.0)))
}

/// Sends the same requests at the same pace, one connection for each agent.
fn measure_bare_client(
    model: &SteppingModel,
    requests: &[Vec<Vec<u8>>],
) -> anyhow::Result<StepRecord> {
    let address = model.address();
    thread::scope(|scope| {
        let clients: Vec<_> = requests
            .iter()
            .map(|of_agent| scope.spawn(move || send_all(address, of_agent)))
            .collect();
        clients.into_iter().try_for_each(|client| {
            client.join().map_err(|_| anyhow::anyhow!("a bare client panicked"))?
        })
    })?;
    Ok(model.take_record())
}

fn send_all(address: SocketAddr, requests: &[Vec<u8>]) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    for body in requests {
        let mut request =
            format!("POST /v1/messages HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
        request += std::str::from_utf8(body)?;
        stream.write_all(request.as_bytes())?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            ensure!(reader.read_line(&mut line)? > 0, "the model closed the connection");
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer)?;
    }
    Ok(())
}

/// Returns the smallest share of a request that is also the beginning of the next one.
fn least_common_share(requests: &[Vec<Vec<u8>>]) -> anyhow::Result<f64> {
    let mut least = 1.0_f64;
    for pair in requests.iter().flat_map(|of_agent| of_agent.windows(2)) {
        let same = pair[0].iter().zip(&pair[1]).take_while(|(one, other)| one == other);
        let (common, whole) = (u32::try_from(same.count())?, u32::try_from(pair[0].len())?);
        least = least.min(f64::from(common) / f64::from(whole));
    }
    Ok(least)
}
