//! Ends processes: TERM, a grace period, KILL, until no process is found.

use std::{
    collections::BTreeSet, future::ready, io, panic::resume_unwind, sync::Arc, time::Duration,
};

use rustix::{io::Errno, process::Signal};
use tokio::{task::spawn_blocking, time::Instant};

use crate::{cgroup::Cgroup, process_tree::Process, system};

/// Longest wait of [`end_processes`] before it scans for processes that appeared meanwhile.
const MAX_SCAN_PAUSE: Duration = Duration::from_millis(200);
const MIN_SCAN_PAUSE: Duration = Duration::from_millis(10);
/// Poll interval for a process whose end the system does not signal.
const ALIVE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a scan of all processes, or a wait for some, on a thread where it blocks no other task.
pub async fn run_blocking<T: Send + 'static>(
    look: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    match spawn_blocking(look).await {
        Ok(found) => Some(found),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down, and so is the caller.
            Err(_) => None,
        },
    }
}

/// Ends the processes that `find` returns until it returns none: TERM when a process is first found, KILL after
/// `grace`.
///
/// Returns the number of ended processes. A process that we may not signal (a setuid program) is left alone. `find`
/// runs on the thread of the caller, so the function is for a caller without other work.
pub async fn end_processes(find: impl Fn() -> Vec<Process>, grace: Duration) -> usize {
    end_until_none_found(|| ready(find()), Vec::new(), grace).await
}

/// Does the same for an asynchronous caller: each scan of the processes has a thread of its own. The processes of
/// `groups` are killed at once after the grace period, so that none escapes by forking.
pub async fn end_processes_off_thread<F>(find: F, groups: Vec<Cgroup>, grace: Duration) -> usize
where
    F: Fn() -> Vec<Process> + Send + Sync + 'static,
{
    let find = Arc::new(find);
    let look = || {
        let find = Arc::clone(&find);
        async { run_blocking(move || find()).await.unwrap_or_default() }
    };
    end_until_none_found(look, groups, grace).await
}

async fn end_until_none_found<L: Future<Output = Vec<Process>>>(
    look: impl Fn() -> L,
    groups: Vec<Cgroup>,
    grace: Duration,
) -> usize {
    let deadline = Instant::now() + grace;
    let mut ended = BTreeSet::new();
    let mut out_of_reach = BTreeSet::new();
    let mut pause = MIN_SCAN_PAUSE;
    loop {
        let mut found = look().await;
        found.retain(|process| !out_of_reach.contains(process));
        if found.is_empty() {
            // A process that forked and died during the scan hides its child: only a second empty scan counts.
            found = look().await;
            found.retain(|process| !out_of_reach.contains(process));
        }
        if found.is_empty() {
            return ended.len();
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            groups.iter().for_each(Cgroup::kill);
        }
        for process in &found {
            let sent = match (left.is_zero(), ended.insert(*process)) {
                (true, _) => process.signal(Signal::KILL),
                (false, true) => process.signal(Signal::TERM),
                (false, false) => Ok(()),
            };
            if sent.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
                ended.remove(process);
                out_of_reach.insert(*process);
            }
        }
        let wait = if left.is_zero() { pause } else { pause.min(left) };
        // Returns early if all processes are gone; otherwise a new scan is due.
        run_blocking(move || wait_all_gone(&found, wait)).await;
        pause = (pause * 2).min(MAX_SCAN_PAUSE);
    }
}

/// Waits until all processes are gone, at most for `wait`. The system signals each end, so nothing is polled. Blocks.
fn wait_all_gone(processes: &[Process], wait: Duration) {
    let deadline = std::time::Instant::now() + wait;
    for process in processes {
        loop {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return;
            }
            match system::wait_ended(*process, left) {
                Ok(true) | Err(Errno::SRCH) => break,
                Ok(false) | Err(Errno::INTR) => {}
                // A system without such descriptors, or with none left: polled at an interval.
                Err(_) if process.is_alive() => std::thread::sleep(ALIVE_POLL_INTERVAL.min(left)),
                Err(_) => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_look_without_a_find_is_not_the_end() {
        let gone = |start_time| Process { pid: u32::MAX, start_time };
        let looks = [vec![gone(1)], vec![], vec![gone(2)], vec![], vec![], vec![gone(3)]];
        let looks = std::cell::RefCell::new(looks.into_iter());
        let find = || looks.borrow_mut().next().unwrap_or_default();
        assert_eq!(end_processes(find, Duration::ZERO).await, 2);
    }

    #[tokio::test]
    async fn a_slow_scan_delays_no_other_task() {
        let (go_on, wait) = std::sync::mpsc::channel();
        let wait = std::sync::Mutex::new(wait);
        // On the only thread of this runtime, the scan would wait for a signal that can only follow it.
        let slow = move || {
            wait.lock().unwrap().recv_timeout(Duration::from_secs(20)).unwrap();
            Vec::new()
        };
        let others = async {
            for _ in 0..2 {
                tokio::task::yield_now().await;
                go_on.send(()).unwrap();
            }
        };
        let (ended, ()) =
            tokio::join!(end_processes_off_thread(slow, Vec::new(), Duration::ZERO), others);
        assert_eq!(ended, 0);
    }
}
