//! The cost of a long history: reading an inbox after it, and opening its file.

use std::time::Instant;

use agent_worker_store::{Database, InstanceQuery, RunStore as _};
use anyhow::ensure;

use crate::{
    BenchLength,
    bench_store::BenchStore,
    machine,
    sample::{Sample, micros, millis},
    table::{Figure, Table, Unit},
};

/// Maximum number of messages of one activation, which is the most that an agent reads.
const INBOX_LIMIT: u32 = 20;
const READS: usize = 201;
const OPENINGS: usize = 11;
/// Messages per run, so that ending a run is one transaction of moderate size.
const MESSAGES_PER_RUN: usize = 10_000;
const MAX_INBOX_MICROS: f64 = 1000.0;
const MAX_OPEN_MILLIS: f64 = 100.0;

/// Measures histories of increasing length.
pub(crate) async fn figures(table: &mut Table, length: BenchLength) -> anyhow::Result<()> {
    let sizes: &[usize] = match length {
        BenchLength::Short => &[1_000, 100_000],
        BenchLength::Long => &[1_000, 100_000, 1_000_000],
    };
    for size in sizes {
        history(table, *size).await?;
    }
    Ok(())
}

async fn history(table: &mut Table, messages: usize) -> anyhow::Result<()> {
    let folder = machine::folder()?;
    let mut bench_store = BenchStore::open(folder.path()).await?;
    let mut left = messages;
    while left > MESSAGES_PER_RUN {
        bench_store.fill(MESSAGES_PER_RUN).await?;
        bench_store.next_run().await?;
        left -= MESSAGES_PER_RUN;
    }
    bench_store.fill(left).await?;
    let name = format!("inbox, {left} waiting, {messages} messages");
    table.add(&read(&bench_store, name).await?)?;
    bench_store.next_run().await?;
    bench_store.fill(INBOX_LIMIT as usize).await?;
    let name = format!("inbox, {INBOX_LIMIT} waiting, {messages} messages");
    table.add(&read(&bench_store, name).await?)?;
    bench_store.close().await;
    let mut sample = Sample::default();
    for _ in 0..OPENINGS {
        let began = Instant::now();
        let store = Database::open(folder.path())?;
        store.instance_list(InstanceQuery::All).await?;
        sample.push(began.elapsed());
        store.close().await;
    }
    let name = format!("opening a database of {messages} messages");
    let figure = Figure::new(name, Unit::Millis, millis(sample.median()));
    table.add(&figure.at_most(MAX_OPEN_MILLIS))?;
    Ok(())
}

async fn read(bench_store: &BenchStore, name: String) -> anyhow::Result<Figure> {
    let mut sample = Sample::default();
    for _ in 0..READS {
        let began = Instant::now();
        let found = bench_store.inbox(INBOX_LIMIT).await?;
        sample.push(began.elapsed());
        ensure!(found == INBOX_LIMIT as usize, "{found} messages in an inbox of {INBOX_LIMIT}");
    }
    Ok(Figure::new(name, Unit::Micros, micros(sample.median())).at_most(MAX_INBOX_MICROS))
}
