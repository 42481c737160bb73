//! Many concurrent callers, each with its own connection and one pending request at a time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::Barrier, task::JoinSet};

use crate::sample::Sample;

const WARM_UP: Duration = Duration::from_millis(300);
const MEASURE_TIME: Duration = Duration::from_secs(3);

/// A sender of messages: over MCP, or directly into the store.
pub(crate) trait LoadSender: Send + 'static {
    /// Sends one message; the message is on disk on return.
    fn send(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The result of a load run.
pub(crate) struct LoadResult {
    /// Messages per second.
    pub(crate) rate: f64,
    /// Number of messages, including the warm-up.
    pub(crate) total: f64,
    /// Duration of each send, without the warm-up.
    pub(crate) took: Sample,
}

/// Runs all senders concurrently for a fixed time.
pub(crate) async fn run_load<C: LoadSender>(callers: Vec<C>) -> anyhow::Result<LoadResult> {
    let line = Arc::new(Barrier::new(callers.len()));
    let mut at_work = JoinSet::new();
    for caller in callers {
        at_work.spawn(send_until_end(caller, Arc::clone(&line)));
    }
    let (mut took, mut all) = (Sample::default(), 0.0);
    while let Some(done) = at_work.join_next().await {
        let (sent, sample) = done??;
        all += f64::from(sent);
        took.extend(sample);
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let rate = took.len() as f64 / MEASURE_TIME.as_secs_f64();
    Ok(LoadResult { rate, total: all, took })
}

/// Returns the number of messages, and the durations after the warm-up.
async fn send_until_end<C: LoadSender>(
    mut caller: C,
    line: Arc<Barrier>,
) -> anyhow::Result<(u32, Sample)> {
    caller.send().await?;
    line.wait().await;
    let start = Instant::now() + WARM_UP;
    let end = start + MEASURE_TIME;
    let mut sample = Sample::default();
    for sent in 2.. {
        let began = Instant::now();
        caller.send().await?;
        let now = Instant::now();
        if now >= end {
            return Ok((sent, sample));
        }
        if now >= start {
            sample.push(now - began);
        }
    }
    Ok((u32::MAX, sample))
}
