//! The overhead of an agent's work: from a mention to its worker, and from the last worker to the end of the run.

use std::{
    path::Path,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use agent_worker_host::{DaemonSocket, EventStream};
use agent_worker_protocol::{
    Event, EventKind, Priority,
    api::{SendReply, SendRequest},
};
use anyhow::Context as _;

use crate::{
    bench_env::BenchEnv,
    machine::Disk,
    sample::{Sample, median, millis},
    table::{Figure, Table, Unit},
};

const MENTIONS: usize = 31;
const RUNS: usize = 15;
const REVIEWS: usize = 3;
const TEAM: &str = "name: team\nagents:\n  reader:\n    backend: mock\n    mock: [{}]\n";
const ONE_TURN: &str =
    "name: once\nagents:\n  reader:\n    backend: mock\n    mock: [{}]\nkickoff: \"@reader go\"\n";
/// Maximum time of a mention in addition to two commits: that of the message, and that of the lease.
const MAX_MENTION_MILLIS: f64 = 5.0;
const MAX_END_MILLIS: f64 = 20.0;

/// Measures mentions, ends of runs, and the first example of the documentation.
pub(crate) async fn figures(table: &mut Table) -> anyhow::Result<()> {
    mentions(table).await?;
    ends(table).await?;
    reviews(table)
}

async fn mentions(table: &mut Table) -> anyhow::Result<()> {
    let bench_env = BenchEnv::with_daemon()?;
    let run = bench_env.team(TEAM)?;
    let daemon = bench_env.connect();
    let mut events = daemon.events(&format!("/events?run={run}&after=0"), None).await?;
    // Measured in between, because the disk's time is part of the threshold and changes with other load.
    let mut disk = Disk::open()?;
    let mut sample = Sample::default();
    for _ in 0..MENTIONS {
        disk.sync()?;
        let began = Instant::now();
        send(&daemon).await?;
        wait_for_event(&mut events, EventKind::AttemptRunning).await?;
        sample.push(began.elapsed());
        wait_for_event(&mut events, EventKind::AttemptEnded).await?;
    }
    let most = MAX_MENTION_MILLIS + 2.0 * millis(disk.fdatasync());
    let figure = Figure::new("mention to worker started", Unit::Millis, millis(sample.median()));
    table.add(&figure.at_most(most))?;
    Ok(())
}

pub(crate) async fn send(daemon: &DaemonSocket) -> anyhow::Result<()> {
    let request = SendRequest {
        target: Some("@team".parse()?),
        project: None,
        message: "@reader please look".to_owned(),
        to: Vec::new(),
        cc: Vec::new(),
        reply_to: None,
        alone: false,
        now: false,
        priority: Priority::Normal,
        attachments: Vec::new(),
    };
    let _: SendReply = daemon.post("/messages", &request).await?;
    Ok(())
}

pub(crate) async fn wait_for_event(
    events: &mut EventStream,
    kind: EventKind,
) -> anyhow::Result<Event> {
    loop {
        let (_, event) = events.next().await?.with_context(|| format!("no {kind} came"))?;
        if event.kind() == Some(kind) {
            return Ok(event);
        }
    }
}

/// Measures ends by the wall clock, which the daemon's events share; its resolution is a millisecond.
async fn ends(table: &mut Table) -> anyhow::Result<()> {
    let bench_env = BenchEnv::with_daemon()?;
    bench_env.file("once.yaml", ONE_TURN)?;
    let mut after = Vec::new();
    for _ in 0..RUNS {
        let envelope = bench_env.json(&["run", "once.yaml", "--json"])?;
        let gone = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let run = envelope["run"].as_str().context("a run without an id")?;
        let mut events =
            bench_env.connect().events(&format!("/events?run={run}&after=0"), None).await?;
        let ended = wait_for_event(&mut events, EventKind::AttemptEnded).await?.ts.get();
        after.push(millis(gone) - millis(std::time::Duration::from_millis(ended.try_into()?)));
    }
    let figure = Figure::new("last attempt ended to `run` gone", Unit::Millis, median(after));
    table.add(&figure.at_most(MAX_END_MILLIS))?;
    Ok(())
}

fn reviews(table: &mut Table) -> anyhow::Result<()> {
    let bench_env = BenchEnv::with_daemon()?;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/review.yaml");
    let file = file.to_string_lossy();
    let mut sample = Sample::default();
    for _ in 0..REVIEWS {
        let began = Instant::now();
        bench_env.json(&["run", &file, "--json"])?;
        sample.push(began.elapsed());
    }
    let name = "run examples/review.yaml, whole (scripted pauses in it)";
    table.add(&Figure::new(name, Unit::Millis, millis(sample.median())))?;
    Ok(())
}
