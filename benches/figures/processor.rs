//! Processor time of a process, a measure that depends little on the other load of the machine.

use std::{fs, process, time::Duration};

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep};

use crate::bench_env::BenchEnv;

/// Resolution of processor times in `/proc`.
const TICK: Duration = Duration::from_millis(10);

/// A process is idle after this time without work.
const IDLE_TIME: Duration = Duration::from_millis(500);
/// Maximum time to wait for an idle process.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);

/// Measures the processor time of a process.
pub(crate) struct ProcessorClock {
    pid: u32,
    began: Duration,
}

impl ProcessorClock {
    /// Starts measuring this process.
    pub(crate) fn start(pid: u32) -> anyhow::Result<Self> {
        Ok(Self { pid, began: process_cpu_time(pid)? })
    }

    /// Starts measuring our own process.
    pub(crate) fn own() -> anyhow::Result<Self> {
        Self::start(process::id())
    }

    /// Returns user and system time since the start.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        Ok(process_cpu_time(self.pid)?.saturating_sub(self.began))
    }

    /// Waits until the process is idle, and returns the time including its deferred work.
    pub(crate) async fn cpu_time_when_idle(&self) -> anyhow::Result<Duration> {
        let deadline = Instant::now() + IDLE_TIMEOUT;
        let mut before = self.cpu_time()?;
        while Instant::now() < deadline {
            sleep(IDLE_TIME).await;
            let now = self.cpu_time()?;
            // A single tick may be noise.
            if now <= before + TICK {
                return Ok(now);
            }
            before = now;
        }
        bail!("process {} does not come to rest", self.pid)
    }
}

/// Waits until a daemon has completed its deferred work, so that the next measurement does not include it.
pub(crate) async fn wait_until_idle(bench_env: &BenchEnv) -> anyhow::Result<()> {
    ProcessorClock::start(bench_env.pid()?)?.cpu_time_when_idle().await.map(drop)
}

/// Reads the 14th and 15th field; the second is a name in brackets, which may contain anything.
fn process_cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("a process without a name")?;
    let fields = rest.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    let ticks: u32 = fields.sum::<Result<_, _>>()?;
    Ok(TICK * ticks)
}
