//! Ending processes: TERM, a grace, KILL, until nothing is found.

use std::{
    collections::BTreeSet, future::ready, io, panic::resume_unwind, sync::Arc, time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::Signal,
};
use tokio::{task::spawn_blocking, time::Instant};

use crate::{cgroup::Cgroup, process_tree::Process};

/// The longest [`end`] waits before it looks for processes that appeared meanwhile.
const MAX_SCAN_PAUSE: Duration = Duration::from_millis(200);
const MIN_SCAN_PAUSE: Duration = Duration::from_millis(10);
/// How often it asks after a process where the system does not tell.
const ALIVE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Lets what looks at all processes, or waits for some, run where it holds up nobody else.
pub async fn run_blocking<T: Send + 'static>(
    look: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    match spawn_blocking(look).await {
        Ok(found) => Some(found),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is going, and with it whoever wanted to know.
            Err(_) => None,
        },
    }
}

/// Ends whatever `find` finds, until it finds nothing: TERM at first sight, KILL when `grace` is over.
///
/// Returns how many processes it ended. What we may not signal (a setuid program) is left alone. Looks on the thread it
/// is awaited on, and so is for whoever has nothing else to do.
pub async fn end_processes(find: impl Fn() -> Vec<Process>, grace: Duration) -> usize {
    end_until_none_found(|| ready(find()), Vec::new(), grace).await
}

/// The same for an asynchronous caller: each scan of the processes has a thread of its own. The processes of `groups` are killed
/// at once when the grace is over, so that none escapes by forking.
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
            // One that forked and died while it was looked for hides its child: only a second look counts.
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
        // Over early when all are gone; else it is time to look for new ones.
        run_blocking(move || wait_all_gone(&found, wait)).await;
        pause = (pause * 2).min(MAX_SCAN_PAUSE);
    }
}

/// Waits until all are gone, or for so long. The system tells when each has ended; nothing is polled. Blocks.
fn wait_all_gone(processes: &[Process], wait: Duration) {
    let deadline = std::time::Instant::now() + wait;
    for process in processes {
        loop {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return;
            }
            match wait_ended(*process, left) {
                Ok(true) | Err(Errno::SRCH) => break,
                Ok(false) | Err(Errno::INTR) => {}
                // A system without such descriptors, or none left: asked now and then.
                Err(_) if process.is_alive() => std::thread::sleep(ALIVE_POLL_INTERVAL.min(left)),
                Err(_) => break,
            }
        }
    }
}

/// Whether a process ends within `wait`.
fn wait_ended(process: Process, wait: Duration) -> rustix::io::Result<bool> {
    let fd = process.open()?;
    let wait = Timespec::try_from(wait).map_err(|_| Errno::INVAL)?;
    Ok(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&wait))? > 0)
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
    async fn a_look_that_takes_long_holds_up_nobody_else() {
        let (go_on, wait) = std::sync::mpsc::channel();
        let wait = std::sync::Mutex::new(wait);
        // On the one thread of this runtime it would wait for what can only come after it.
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
