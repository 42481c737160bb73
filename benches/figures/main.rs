//! The figures of docs/reference/benchmarks.md: measures the real binary and its store from outside and prints one
//! table.
//!
//! The thresholds are shown, not enforced; only an error makes the program fail. Run it with `scripts/bench`.

mod agent;
mod agents;
mod bench_env;
mod bench_store;
mod clients;
mod inbox;
mod load;
mod machine;
mod mcp;
mod processor;
mod sample;
mod scale;
mod scripted_model;
mod sends;
mod start;
mod stepping_model;
mod steps;
mod table;
mod turns;
mod weight;

use std::{
    env,
    io::{self, Write as _},
};

use anyhow::Context as _;

use table::Table;

/// The extent of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BenchLength {
    /// Measurements that take a few minutes.
    Short,
    /// Also measurements with a thousand agents or a million messages.
    Long,
}

/// A group of figures that can be measured separately.
#[derive(Clone, Copy, Debug)]
enum Group {
    Start,
    Turns,
    Sends,
    Weight,
    Agents,
    Inbox,
    Scale,
    Clients,
    Steps,
}

impl Group {
    /// All groups, in the order of the table.
    const ALL: [Self; 9] = [
        Self::Start,
        Self::Turns,
        Self::Sends,
        Self::Weight,
        Self::Agents,
        Self::Inbox,
        Self::Scale,
        Self::Clients,
        Self::Steps,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Turns => "turns",
            Self::Sends => "sends",
            Self::Weight => "weight",
            Self::Agents => "agents",
            Self::Inbox => "inbox",
            Self::Scale => "scale",
            Self::Clients => "clients",
            Self::Steps => "steps",
        }
    }

    async fn measure(self, table: &mut Table, length: BenchLength) -> anyhow::Result<()> {
        match self {
            Self::Start => start::figures(table).await,
            Self::Turns => turns::figures(table).await,
            Self::Sends => sends::figures(table).await,
            Self::Weight => weight::figures(table, length).await,
            Self::Agents => agents::figures(table).await,
            Self::Inbox => inbox::figures(table, length).await,
            Self::Scale => scale::figures(table).await,
            Self::Clients => clients::figures(table).await,
            Self::Steps => steps::figures(table).await,
        }
    }
}

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("no runtime")?;
    let (mut length, mut groups) = (BenchLength::Short, Vec::new());
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            // Argument that `cargo bench` adds.
            "--bench" => {}
            "--long" => length = BenchLength::Long,
            agent::COUNT_TOOLS_FLAG => {
                let socket = words.next().context("which socket?")?;
                return runtime.block_on(agent::count_tools(socket.into()));
            }
            word => groups.push(group_named(word)?),
        }
    }
    if groups.is_empty() {
        groups = Group::ALL.to_vec();
    }
    runtime.block_on(measure(&groups, length))
}

fn group_named(word: &str) -> anyhow::Result<Group> {
    let found = Group::ALL.into_iter().find(|group| group.word() == word);
    let words = Group::ALL.map(Group::word).join(", ");
    found.with_context(|| format!("`{word}` is not known here; there are --long, {words}"))
}

async fn measure(groups: &[Group], length: BenchLength) -> anyhow::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{}\n", machine::description()?)?;
    let mut table = Table::print_head(out)?;
    for group in groups {
        group.measure(&mut table, length).await?;
    }
    Ok(())
}
