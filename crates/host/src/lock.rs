//! A lock file that its owner holds for as long as it lives.
//!
//! The kernel releases the lock when its owner dies in any way: a held lock proves a living owner. Invariant: the
//! descriptor is close-on-exec (std opens every file so); an inherited lock would outlive its owner.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::Path,
};

/// Lock that is held until this value is dropped.
#[derive(Debug)]
pub struct LockFile {
    /// Kept open and never read: closing it releases the lock.
    _file: File,
}

impl LockFile {
    /// Acquires the lock at `path`, unless another process holds it.
    pub fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        let file = open(path)?;
        loop {
            if taken(file.try_lock())? {
                return Self::write_pid(file).map(Some);
            }
            if !taken(file.try_lock_shared())? {
                return Ok(None);
            }
            // A shared lock succeeds, so the lock has no owner: a probe was in the way and ends soon.
            file.unlock()?;
            std::thread::yield_now();
        }
    }

    /// Acquires the lock at `path` and waits for its current owner. Blocks the thread.
    pub fn acquire(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        uninterrupted(|| file.lock())?;
        Self::write_pid(file)
    }

    /// Waits until the lock at `path` has no owner, without acquiring it or writing a pid. Blocks the thread.
    pub fn wait_until_free(path: &Path) -> io::Result<()> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        uninterrupted(|| file.lock_shared())
    }

    /// Calls `work` while no process holds the lock at `path`, and keeps every process from acquiring it meanwhile.
    /// Returns none, and does not call `work`, if a process holds the lock.
    pub fn while_free<T>(
        path: &Path,
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        let file = open(path)?;
        // A shared lock: a process that acquires the lock takes it for a probe and waits.
        if !taken(file.try_lock_shared())? {
            return Ok(None);
        }
        work().map(Some)
    }

    /// Returns true if a process holds the lock at `path`. The check never makes an acquisition fail.
    pub fn is_held(path: &Path) -> io::Result<bool> {
        Ok(open_if_held(path)?.is_some())
    }

    /// Returns the pid of the lock's owner, if the lock is held and its owner has written its pid.
    ///
    /// The pid is for people and logs, because the system may reuse it a moment later. Only the lock is proof.
    pub fn holder(path: &Path) -> io::Result<Option<u32>> {
        let Some(mut file) = open_if_held(path)? else { return Ok(None) };
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text.trim().parse().ok())
    }

    /// Writes our pid into the locked file. The pid is for people only, so a full disk is no reason to fail: the old
    /// text is overwritten before it is cut, which needs no disk space, and an empty file stays without a pid.
    fn write_pid(file: File) -> io::Result<Self> {
        let pid = format!("{}\n", std::process::id());
        match file.write_all_at(pid.as_bytes(), 0) {
            Ok(()) => file.set_len(pid.len() as u64)?,
            Err(error) if error.kind() == io::ErrorKind::StorageFull => file.set_len(0)?,
            Err(error) => return Err(error),
        }
        Ok(Self { _file: file })
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Opens the file of the lock, if a process holds the lock.
fn open_if_held(path: &Path) -> io::Result<Option<File>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // A shared lock, so that two probes do not mistake each other for an owner.
    Ok(if taken(file.try_lock_shared())? { None } else { Some(file) })
}

/// Applies a lock operation; returns false if it would block.
fn taken(locked: Result<(), TryLockError>) -> io::Result<bool> {
    match locked {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Waits for a lock again after a signal.
fn uninterrupted(mut wait: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match wait() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn work_on_a_free_lock_delays_its_next_owner_and_a_held_lock_refuses_the_work() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        let (started, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let lock = thread::scope(|scope| {
            let owner = scope.spawn(|| {
                while !started.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                let lock = LockFile::try_acquire(&path).unwrap().unwrap();
                assert!(done.load(Ordering::SeqCst), "the work is over");
                lock
            });
            let work = || {
                started.store(true, Ordering::SeqCst);
                (0..1_000).for_each(|_| thread::yield_now());
                done.store(true, Ordering::SeqCst);
                Ok(7)
            };
            assert_eq!(LockFile::while_free(&path, work).unwrap(), Some(7));
            owner.join().unwrap()
        });
        let refused = LockFile::while_free(&path, || -> io::Result<()> { panic!("it is held") });
        assert_eq!(refused.unwrap(), None);
        drop(lock);
    }

    #[test]
    fn a_lock_has_one_owner_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        assert!(!LockFile::is_held(&path).unwrap());
        let lock = LockFile::try_acquire(&path).unwrap().unwrap();
        assert!(LockFile::try_acquire(&path).unwrap().is_none());
        assert!(LockFile::is_held(&path).unwrap());
        drop(lock);
        assert!(!LockFile::is_held(&path).unwrap());
        assert!(LockFile::try_acquire(&path).unwrap().is_some());
    }

    #[test]
    fn the_pid_inside_counts_only_while_the_lock_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        std::fs::write(&path, "123456789 and more than a pid needs\n").unwrap();
        assert_eq!(LockFile::holder(&path).unwrap(), None);
        let lock = LockFile::acquire(&path).unwrap();
        assert_eq!(LockFile::holder(&path).unwrap(), Some(std::process::id()));
        drop(lock);
        assert_eq!(LockFile::holder(&path).unwrap(), None);
    }

    #[test]
    fn a_waiting_process_gets_the_lock_when_it_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        let first = LockFile::acquire(&path).unwrap();
        thread::scope(|scope| {
            let second = scope.spawn(|| LockFile::acquire(&path).unwrap());
            drop(first);
            let _second = second.join().unwrap();
            assert!(LockFile::is_held(&path).unwrap());
        });
    }

    #[test]
    fn waiting_for_a_lock_to_be_free_leaves_its_signature_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        LockFile::wait_until_free(&path).unwrap();
        assert!(!path.exists(), "nor does it make one");
        let lock = LockFile::acquire(&path).unwrap();
        // Another process than the waiting one wrote the pid, as outside of tests.
        std::fs::write(&path, "1\n").unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| LockFile::wait_until_free(&path).unwrap());
            drop(lock);
            waiting.join().unwrap();
        });
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n");
        assert!(!LockFile::is_held(&path).unwrap());
    }

    #[test]
    fn looking_never_makes_an_acquisition_fail() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    LockFile::is_held(&path).unwrap();
                }
            });
            let won = (0..500).all(|_| LockFile::try_acquire(&path).unwrap().is_some());
            over.store(true, Ordering::Relaxed);
            assert!(won);
        });
    }

    #[test]
    fn a_child_process_does_not_inherit_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        let lock = LockFile::acquire(&path).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        drop(lock);
        let held = LockFile::is_held(&path).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!held);
    }
}
