//! Latency of commands at scale: a thousand agents, a hundred thousand messages, one command.

use std::{fmt::Write as _, process::Stdio, time::Instant};

use agent_worker_protocol::{
    Priority,
    api::{SendReply, SendRequest},
};
use anyhow::ensure;
use tokio::task::JoinSet;

use crate::{
    bench_env::BenchEnv,
    bench_store::BODY,
    processor::wait_until_idle,
    sample::{Sample, millis},
    table::{Figure, Table, Unit},
};

const AGENTS: usize = 1000;
const MESSAGES: usize = 100_000;
const SENDERS: usize = 32;
const COMMANDS: usize = 21;
const MAX_MILLIS: f64 = 20.0;

/// Measures commands against a daemon with a large team and a long channel.
pub(crate) async fn figures(table: &mut Table) -> anyhow::Result<()> {
    let bench_env = BenchEnv::with_daemon()?;
    let mut yaml = String::from("name: team\nagents:\n");
    for number in 1..=AGENTS {
        writeln!(yaml, "  agent-{number}: {{ backend: mock, mock: [{{}}] }}")?;
    }
    bench_env.team(&yaml)?;
    fill(&bench_env).await?;
    let long = &["peek", "--find", "a text nobody ever wrote", "@team"];
    command(table, &bench_env, "peek --find a sentence, all just said", long)?;
    wait_until_idle(&bench_env).await?;
    for (name, words) in [
        ("ls", &["ls"][..]),
        ("ls agent-500@team", &["ls", "agent-500@team"]),
        ("send @team", &["send", "@team", "a word for everybody to read, not to act upon"]),
        ("peek @team", &["peek", "@team"]),
        ("peek --find a sentence", long),
        ("peek --find two letters", &["peek", "--find", "qj", "@team"]),
    ] {
        command(table, &bench_env, name, words)?;
    }
    Ok(())
}

fn command(
    table: &mut Table,
    bench_env: &BenchEnv,
    name: &str,
    words: &[&str],
) -> anyhow::Result<()> {
    let mut sample = Sample::default();
    for _ in 0..COMMANDS {
        let mut command = bench_env.command(words);
        let began = Instant::now();
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        sample.push(began.elapsed());
        ensure!(status.success(), "{words:?}: {status}");
    }
    let name = format!("{name}, {AGENTS} agents, {MESSAGES} messages");
    let figure = Figure::new(name, Unit::Millis, millis(sample.median()));
    table.add(&figure.at_most(MAX_MILLIS))?;
    Ok(())
}

async fn fill(bench_env: &BenchEnv) -> anyhow::Result<()> {
    let mut senders = JoinSet::new();
    for _ in 0..SENDERS {
        let daemon = bench_env.connect();
        senders.spawn(async move {
            let request = SendRequest {
                target: Some("@team".parse()?),
                project: None,
                message: BODY.replace('@', ""),
                to: Vec::new(),
                cc: Vec::new(),
                reply_to: None,
                alone: false,
                now: false,
                priority: Priority::Normal,
                attachments: Vec::new(),
            };
            for _ in 0..MESSAGES / SENDERS {
                let _: SendReply = daemon.post("/messages", &request).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    Ok(())
}
