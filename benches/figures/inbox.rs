//! What a long history costs: reading an inbox behind it, and opening the file it lies in.

use std::time::Instant;

use agent_worker_store::{InstanceQuery, Sqlite, Store as _};
use anyhow::ensure;

use crate::{
    Length,
    archive::Archive,
    machine,
    sample::{Sample, micros, millis},
    table::{Figure, Table, Unit},
};

/// What one activation takes, so what an agent reads at most.
const SHOWN: u32 = 20;
const READS: usize = 201;
const OPENINGS: usize = 11;
/// A run's share of the history, so that ending it is one transaction of a bearable size.
const CHAPTER: usize = 10_000;
const MOST_INBOX: f64 = 1000.0;
const MOST_OPENING: f64 = 100.0;

/// Measures histories of growing length.
pub(crate) async fn figures(table: &mut Table, length: Length) -> anyhow::Result<()> {
    let sizes: &[usize] = match length {
        Length::Short => &[1_000, 100_000],
        Length::Long => &[1_000, 100_000, 1_000_000],
    };
    for size in sizes {
        history(table, *size).await?;
    }
    Ok(())
}

async fn history(table: &mut Table, messages: usize) -> anyhow::Result<()> {
    let folder = machine::folder()?;
    let mut archive = Archive::open(folder.path()).await?;
    let mut left = messages;
    while left > CHAPTER {
        archive.fill(CHAPTER).await?;
        archive.next_run().await?;
        left -= CHAPTER;
    }
    archive.fill(left).await?;
    let name = format!("inbox, {left} waiting, {messages} messages");
    table.add(&read(&archive, name).await?)?;
    archive.next_run().await?;
    archive.fill(SHOWN as usize).await?;
    let name = format!("inbox, {SHOWN} waiting, {messages} messages");
    table.add(&read(&archive, name).await?)?;
    archive.close().await;
    let mut sample = Sample::default();
    for _ in 0..OPENINGS {
        let began = Instant::now();
        let store = Sqlite::open(folder.path())?;
        store.instance_list(InstanceQuery::All).await?;
        sample.push(began.elapsed());
        store.close().await;
    }
    let name = format!("opening a database of {messages} messages");
    let figure = Figure::new(name, Unit::Millis, millis(sample.median()));
    table.add(&figure.at_most(MOST_OPENING))?;
    Ok(())
}

async fn read(archive: &Archive, name: String) -> anyhow::Result<Figure> {
    let mut sample = Sample::default();
    for _ in 0..READS {
        let began = Instant::now();
        let found = archive.inbox(SHOWN).await?;
        sample.push(began.elapsed());
        ensure!(found == SHOWN as usize, "{found} messages in an inbox of {SHOWN}");
    }
    Ok(Figure::new(name, Unit::Micros, micros(sample.median())).at_most(MOST_INBOX))
}
