//! How long a process had a processor: the measure that hardly cares what else the machine does.

use std::{fs, process, time::Duration};

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep};

use crate::bench_env::BenchEnv;

/// What Linux counts in, as it tells user space.
const TICK: Duration = Duration::from_millis(10);

/// A process rests when it did nothing for so long.
const IDLE_TIME: Duration = Duration::from_millis(500);
/// It has so long to come to rest.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);

/// A clock that runs while a process does.
pub(crate) struct ProcessorClock {
    pid: u32,
    began: Duration,
}

impl ProcessorClock {
    /// Starts to count the time of this process.
    pub(crate) fn start(pid: u32) -> anyhow::Result<Self> {
        Ok(Self { pid, began: process_cpu_time(pid)? })
    }

    /// Starts to count our own time.
    pub(crate) fn own() -> anyhow::Result<Self> {
        Self::start(process::id())
    }

    /// User and system time since then.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        Ok(process_cpu_time(self.pid)?.saturating_sub(self.began))
    }

    /// The same, with what it had left for later: waits until the process rests.
    pub(crate) async fn cpu_time_when_idle(&self) -> anyhow::Result<Duration> {
        let deadline = Instant::now() + IDLE_TIMEOUT;
        let mut before = self.cpu_time()?;
        while Instant::now() < deadline {
            sleep(IDLE_TIME).await;
            let now = self.cpu_time()?;
            // A tick may be that of a moment's work.
            if now <= before + TICK {
                return Ok(now);
            }
            before = now;
        }
        bail!("process {} does not come to rest", self.pid)
    }
}

/// Waits until a daemon has done what it had left for later, so that it is not measured with what comes next.
pub(crate) async fn wait_until_idle(house: &BenchEnv) -> anyhow::Result<()> {
    ProcessorClock::start(house.pid()?)?.cpu_time_when_idle().await.map(drop)
}

/// The 14th and 15th field; the second is a name in brackets, which may contain anything.
fn process_cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("a process without a name")?;
    let fields = rest.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    let ticks: u32 = fields.sum::<Result<_, _>>()?;
    Ok(TICK * ticks)
}
