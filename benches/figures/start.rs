//! Startup times: the first output of a command, and the first reply of a daemon.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use agent_worker_protocol::api::Health;
use anyhow::ensure;

use crate::{
    bench_env::BenchEnv,
    sample::{Sample, millis},
    table::{Figure, Table, Unit},
};

const COMMANDS: usize = 41;
const STARTS: usize = 15;
/// Maximum time to print our version, as a multiple of git's.
const MAX_TIMES_GIT: f64 = 2.0;
const MAX_MILLIS: f64 = 30.0;

/// Measures the startup of commands and daemons.
pub(crate) async fn figures(table: &mut Table) -> anyhow::Result<()> {
    commands(table)?;
    daemons(table).await
}

/// Measures commands alternately, so that other load of the machine affects all of them equally.
fn commands(table: &mut Table) -> anyhow::Result<()> {
    let bench_env = BenchEnv::with_daemon()?;
    let (mut git, mut version, mut ls) = (Sample::default(), Sample::default(), Sample::default());
    for _ in 0..COMMANDS {
        git.push(time(Command::new("git").arg("--version"))?);
        version.push(time(&mut bench_env.command(&["--version"]))?);
        ls.push(time(&mut bench_env.command(&["ls"]))?);
    }
    let git = git.median();
    table.add(&Figure::new("git --version", Unit::Millis, millis(git)))?;
    for (name, sample) in [("--version", version), ("ls", ls)] {
        let median = sample.median();
        table.add(&Figure::new(format!("{name}, cold"), Unit::Millis, millis(median)))?;
        let times = median.as_secs_f64() / git.as_secs_f64();
        let name = format!("{name}, against git --version");
        table.add(&Figure::new(name, Unit::Times, times).at_most(MAX_TIMES_GIT))?;
    }
    Ok(())
}

fn time(command: &mut Command) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    let took = began.elapsed();
    ensure!(status.success(), "{command:?}: {status}");
    Ok(took)
}

async fn daemons(table: &mut Table) -> anyhow::Result<()> {
    let (mut new, mut ready, mut healthy) =
        (Sample::default(), Sample::default(), Sample::default());
    for _ in 0..STARTS {
        let mut bench_env = BenchEnv::new()?;
        let began = Instant::now();
        bench_env.start()?;
        new.push(began.elapsed());
        bench_env.stop()?;
        let began = Instant::now();
        bench_env.start()?;
        ready.push(began.elapsed());
        let _: Health = bench_env.connect().get("/health").await?;
        healthy.push(began.elapsed());
    }
    for (name, sample) in [
        ("daemon start to ready, in an empty home", new),
        ("daemon start to ready", ready),
        ("daemon start to its first /health", healthy),
    ] {
        let figure = Figure::new(name, Unit::Millis, millis(sample.median()));
        table.add(&figure.at_most(MAX_MILLIS))?;
    }
    Ok(())
}
