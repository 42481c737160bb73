//! The figures of docs/benchmarks.md: measures the real binary and its store from outside and prints one table.
//!
//! Bars are shown, not enforced; only something that breaks makes it fail. Run it by `scripts/bench`.

mod agent;
mod archive;
mod house;
mod inbox;
mod load;
mod machine;
mod mcp;
mod processor;
mod sample;
mod sends;
mod start;
mod table;
mod turns;
mod weight;

use std::{
    env,
    io::{self, Write as _},
};

use anyhow::{Context as _, bail};

use table::Table;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    /// What a minute or two are enough for.
    Short,
    /// Also what needs a thousand agents or a million messages.
    Long,
}

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("no runtime")?;
    let mut length = Length::Short;
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            // What `cargo bench` adds by itself.
            "--bench" => {}
            "--long" => length = Length::Long,
            agent::FLAG => {
                let socket = words.next().context("which socket?")?;
                return runtime.block_on(agent::count_tools(socket.into()));
            }
            other => bail!("`{other}` is not known here; there is --long"),
        }
    }
    runtime.block_on(measure(length))
}

async fn measure(length: Length) -> anyhow::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{}\n", machine::description()?)?;
    let mut table = Table::begin(out)?;
    start::figures(&mut table).await?;
    turns::figures(&mut table).await?;
    sends::figures(&mut table).await?;
    weight::figures(&mut table, length).await?;
    inbox::figures(&mut table, length).await
}
