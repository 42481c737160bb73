//! Tests of taking a home whose lock is held.

use std::process::Command;

use tempfile::TempDir;
use tokio::time::sleep;

use super::*;

/// Creates a home with a held lock whose file contains `signature`.
fn locked_home(signature: &str) -> (TempDir, DaemonHome, LockFile) {
    let folder = tempfile::tempdir().unwrap();
    let home = DaemonHome::open(folder.path()).unwrap();
    let lock = LockFile::acquire(&home.lock()).unwrap();
    std::fs::write(home.lock(), signature).unwrap();
    (folder, home, lock)
}

/// Returns the pid of a process that has ended.
fn dead_pid() -> String {
    let mut process = Command::new("true").spawn().unwrap();
    process.wait().unwrap();
    process.id().to_string()
}

#[tokio::test(start_paused = true)]
async fn the_lock_of_a_dead_daemon_is_waited_for_while_its_last_child_holds_it() {
    for signature in [dead_pid(), String::new()] {
        let (_folder, home, lock) = locked_home(&signature);
        let begun = Instant::now();
        let hold_time = Duration::from_millis(300);
        let last_child = async {
            sleep(hold_time).await;
            drop(lock);
        };
        let (taken, ()) = tokio::join!(lock_home(&home), last_child);
        let _lock = taken.unwrap();
        assert!(begun.elapsed() >= hold_time, "{signature:?}: {:?}", begun.elapsed());
        let owner = LockFile::holder(&home.lock()).unwrap();
        assert_eq!(owner, Some(std::process::id()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_held_for_good_by_no_daemon_is_refused_in_time_and_named() {
    let (_folder, home, _lock) = locked_home(&dead_pid());
    let begun = Instant::now();
    let refused = lock_home(&home).await.unwrap_err();
    let lock = home.lock().display().to_string();
    assert_eq!(
        refused.to_string(),
        format!(
            "{lock} is held by a process that is not a daemon; find that process with `fuser {lock}` and end it first"
        )
    );
    let waited = begun.elapsed();
    assert!(
        waited >= LOCK_RELEASE_TIMEOUT && waited <= LOCK_RELEASE_TIMEOUT + 2 * LOCK_POLL_INTERVAL,
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_home_of_a_living_daemon_is_refused_at_once() {
    let (_folder, home, _lock) = locked_home(&std::process::id().to_string());
    let begun = Instant::now();
    let refused = lock_home(&home).await.unwrap_err();
    assert!(matches!(refused, Error::AlreadyRunning { pid, .. } if pid == std::process::id()));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}
