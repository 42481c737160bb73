//! Control groups, version 2: one group per attempt, if this user may create groups.
//!
//! A process starts in the group of its parent and stays there independently of its environment, session and parents.
//! The group therefore proves the attempt to which a process belongs, also after a restart, and one write ends all of
//! its processes. Groups are named `<own group>/agent-worker-<hash of the home>/<mark>`; the mark is the attempt's
//! id, or the run's id for processes that a setup command left. No controller is enabled, so processes may stay in
//! the parent groups. A group is no security boundary: a process that may create groups may also leave one.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use agent_worker_protocol::hash;

use crate::{
    atomic_file::{Durability, write_atomically},
    process_tree::Process,
    system,
};

/// Prefix of the name of a folder with one group per mark.
const PREFIX: &str = "agent-worker-";
const HASH_DIGITS: usize = 16;
/// File in a home that lists the folders of its groups: a daemon that is started in another group has another folder.
const LIST_FILE: &str = "cgroups";
/// Maximum number of tries of an operation that conflicts with the end of another attempt.
const MAX_TRIES: usize = 50;
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Folder with the groups of one home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupRoot {
    path: PathBuf,
}

/// Control group of one mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    path: PathBuf,
}

impl CgroupRoot {
    /// Returns the folder for `home` below this process's own group. The error is the reason against groups.
    pub fn of(home: &Path) -> Result<Self, String> {
        let own = system::own_cgroup_folder()?;
        let root = Self { path: own.join(root_name(home)) };
        root.probe(&own).map_err(|error| format!("{}: {error}", own.display()))?;
        Ok(root)
    }

    /// Returns the folders that daemons of `home` have used, according to its list.
    pub fn load_list(home: &Path) -> Vec<Self> {
        let list = fs::read_to_string(home.join(LIST_FILE)).unwrap_or_default();
        list.lines().filter_map(|path| Self::existing(Path::new(path), home)).collect()
    }

    /// Writes the list of the folders that daemons of `home` use.
    pub fn save_list<'a>(home: &Path, roots: impl Iterator<Item = &'a Self>) -> io::Result<()> {
        let lines: Vec<String> = roots.map(|root| root.path.display().to_string()).collect();
        let content = lines.join("\n");
        write_atomically(&home.join(LIST_FILE), content.as_bytes(), Durability::Process)
    }

    /// Returns the folder at `path` that an earlier daemon of `home` used; none if the path is not such a folder.
    fn existing(path: &Path, home: &Path) -> Option<Self> {
        let is_ours = path.file_name().is_some_and(|last| *last == *root_name(home));
        (is_ours && path.is_dir()).then(|| Self { path: path.to_owned() })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the marks that have a group.
    pub fn marks(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        folders.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// Returns every living process in the groups of this folder.
    pub fn processes(&self) -> Vec<Process> {
        let groups = self.marks().into_iter().filter_map(|mark| self.find(&mark));
        groups.flat_map(|group| group.processes()).collect()
    }

    /// Returns the group of a mark, if it exists.
    pub fn find(&self, mark: &str) -> Option<Cgroup> {
        let path = self.path.join(mark);
        path.is_dir().then_some(Cgroup { path })
    }

    /// Moves a process, and every process that it starts later, into the group of a mark. Blocks for a moment.
    pub fn move_process(&self, mark: &str, pid: u32) -> io::Result<()> {
        let path = self.path.join(mark);
        retry_on(io::ErrorKind::NotFound, || {
            // The end of another attempt removes the folder when it is the last one.
            fs::create_dir_all(&path)?;
            fs::write(path.join("cgroup.procs"), pid.to_string())
        })
    }

    /// Removes the folder unless it has groups.
    pub fn remove_if_empty(&self) {
        let _ = fs::remove_dir(&self.path);
    }

    /// Checks that groups can be created and processes moved into them.
    fn probe(&self, own: &Path) -> io::Result<()> {
        fs::create_dir_all(&self.path)?;
        let kind = fs::read_to_string(self.path.join("cgroup.type"));
        // Moving a process needs permission on the group that source and destination have in common.
        let opened = fs::File::options().write(true).open(own.join("cgroup.procs"));
        self.remove_if_empty();
        opened?;
        match kind?.trim() {
            "domain" => Ok(()),
            other => Err(io::Error::other(format!("the cgroup has the type `{other}`"))),
        }
    }
}

impl Cgroup {
    /// Returns every living process in the group and the groups below it.
    pub fn processes(&self) -> Vec<Process> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        let own = text.lines().filter_map(|line| Process::of(line.parse().ok()?));
        own.chain(self.subgroups().iter().flat_map(Self::processes)).collect()
    }

    /// Kills every process in the group and the groups below it at once, if the system supports this.
    pub fn kill(&self) {
        // A kernel before 5.14 has no such file: the caller also kills the processes one by one.
        let file = fs::File::options().write(true).open(self.path.join("cgroup.kill"));
        let _ = file.and_then(|mut file| file.write_all(b"1"));
    }

    /// Removes the group and the groups below it, which must have no processes left. Blocks for a moment.
    pub fn remove(&self) -> io::Result<()> {
        for group in self.subgroups() {
            group.remove()?;
        }
        // A process that has ended keeps its group for a moment.
        retry_on(io::ErrorKind::ResourceBusy, || match fs::remove_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        })
    }

    fn subgroups(&self) -> Vec<Self> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        folders.map(|path| Self { path }).collect()
    }
}

/// Returns the marks in the path of a process's group, as the daemon with the pid `daemon` sees it. Groups above the
/// daemon's own count only for a process that is in none below it.
pub fn group_marks(pid: u32, daemon: u32) -> io::Result<Vec<String>> {
    let path = system::cgroup_path(pid)?.unwrap_or_default();
    let own = system::cgroup_path(daemon).ok().flatten();
    Ok(marks_for(&path, own.as_deref()))
}

fn marks_for(path: &str, daemon: Option<&str>) -> Vec<String> {
    let below = daemon.and_then(|own| path.strip_prefix(own.trim_end_matches('/')));
    let below = below.filter(|rest| rest.starts_with('/')).map(marks_in).unwrap_or_default();
    if below.is_empty() { marks_in(path) } else { below }
}

/// Returns the marks in the path of a group.
fn marks_in(path: &str) -> Vec<String> {
    let parts: Vec<&str> = path.split('/').collect();
    let pairs = parts.windows(2).filter(|pair| is_root_name(pair[0]));
    pairs.map(|pair| pair[1].to_owned()).collect()
}

fn is_root_name(part: &str) -> bool {
    let digits = part.strip_prefix(PREFIX).unwrap_or_default();
    digits.len() == HASH_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn root_name(home: &Path) -> String {
    let digest = hash(&[home.as_os_str().as_encoded_bytes()]);
    let digits: Vec<String> =
        digest.iter().take(HASH_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
    format!("{PREFIX}{}", digits.concat())
}

fn retry_on(passing: io::ErrorKind, work: impl Fn() -> io::Result<()>) -> io::Result<()> {
    for _ in 1..MAX_TRIES {
        match work() {
            Err(error) if error.kind() == passing => thread::sleep(RETRY_PAUSE),
            done => return done,
        }
    }
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_the_attempts_it_is_in() {
        let (one, two) = ("agent-worker-0123456789abcdef", "agent-worker-fedcba9876543210");
        let nested = format!("/user/{one}/a/{two}/b/sub");
        for (path, daemon, expected) in [
            ("/", Some("/"), &[][..]),
            ("/user", None, &[]),
            (&format!("/{one}/a"), Some("/"), &["a"]),
            (&format!("/{one}/a"), None, &["a"]),
            (&nested, Some("/user"), &["a", "b"]),
            // A daemon inside an attempt of another daemon sees only its own attempts.
            (&nested, Some(&format!("/user/{one}/a")), &["b"]),
            (&format!("/user/{one}/a"), Some(&format!("/user/{one}/a")), &["a"]),
            (&format!("/user/{one}/ab"), Some(&format!("/user/{one}/a")), &["ab"]),
            ("/agent-worker-xyz/a", Some("/"), &[]),
            (&format!("/{one}"), Some("/"), &[]),
        ] {
            assert_eq!(marks_for(path, daemon), expected, "{path} {daemon:?}");
        }
    }

    #[test]
    fn a_folder_of_another_home_or_that_is_gone_is_no_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let home = Path::new("/some/home");
        let path = folder.path().join(root_name(home));
        assert_eq!(CgroupRoot::existing(&path, home), None);
        fs::create_dir(&path).unwrap();
        assert!(CgroupRoot::existing(&path, home).is_some());
        assert_eq!(CgroupRoot::existing(&path, Path::new("/another")), None);
        assert_eq!(CgroupRoot::existing(folder.path(), home), None);
    }
}
