//! Watches the memory of all processes of a sandbox: the system's own limits hold for each process alone.
//!
//! Files in memory (`/dev/shm`, the home folder of level `full`) count only as far as a process maps them.

use std::{fmt, sync::Arc, time::Duration};

use agent_worker_host::{Process, run_blocking, tree_memory};
use agent_worker_protocol::{MemoryLimit, size_text};
use tokio::time::sleep;

/// Interval of the reads while much memory is used or its use grows.
const MIN_INTERVAL: Duration = Duration::from_millis(250);
/// Interval of the reads after a time in which little happened.
const MAX_INTERVAL: Duration = Duration::from_secs(2);

/// A use of memory above the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryExcess {
    used: u64,
    limit: MemoryLimit,
}

impl fmt::Display for MemoryExcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { used, limit } = self;
        write!(
            f,
            "the processes in the sandbox used {} of memory, more than the limit of {limit}, and were killed; use less at a \
             time, or raise the limit (`sandbox: {{memory: …}}`)",
            size_text(*used)
        )
    }
}

/// Waits until the processes that `find` returns use more memory than the limit.
pub(crate) async fn wait_for_memory_excess<F>(limit: MemoryLimit, find: F) -> MemoryExcess
where
    F: Fn() -> Vec<Process> + Send + Sync + 'static,
{
    let find = Arc::new(find);
    let (mut pause, mut before) = (MIN_INTERVAL, 0);
    loop {
        sleep(pause).await;
        let find = Arc::clone(&find);
        let read = move || tree_memory(&find(), limit.bytes());
        let used = run_blocking(read).await.unwrap_or_default();
        if used > limit.bytes() {
            return MemoryExcess { used, limit };
        }
        pause = next_interval(pause, used, before, limit);
        before = used;
    }
}

/// Returns the next interval: short near the limit and while the use grows, otherwise longer each time.
fn next_interval(last: Duration, used: u64, before: u64, limit: MemoryLimit) -> Duration {
    let is_near = used > limit.bytes() / 2;
    let grows = used > before + limit.bytes() / 32;
    if is_near || grows { MIN_INTERVAL } else { (last * 2).min(MAX_INTERVAL) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_short_near_the_limit_and_while_the_use_grows() {
        let limit: MemoryLimit = "1024MiB".parse().unwrap();
        let mib = |count: u64| count << 20;
        let secs = Duration::from_secs;
        for (last, used, before, expected) in [
            (MIN_INTERVAL, mib(10), mib(10), MIN_INTERVAL * 2),
            (secs(2), mib(10), mib(10), secs(2)),
            (secs(2), mib(50), mib(10), MIN_INTERVAL),
            (secs(2), mib(600), mib(600), MIN_INTERVAL),
            (secs(1), mib(10), mib(500), secs(2)),
        ] {
            assert_eq!(next_interval(last, used, before, limit), expected, "{used} {before}");
        }
    }

    #[tokio::test]
    async fn processes_that_use_more_than_the_limit_are_noticed() {
        let own = Process::of(std::process::id()).unwrap();
        // A page that processes share counts once, but here each process is the same one.
        let limit: MemoryLimit = "64MiB".parse().unwrap();
        let excess = wait_for_memory_excess(limit, move || vec![own; 10_000]).await;
        assert!(excess.used > limit.bytes());
        assert!(excess.to_string().contains("more than the limit of 64MiB"), "{excess}");
    }
}
