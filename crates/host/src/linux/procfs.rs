//! Reads the facts about processes in `/proc`.
//!
//! The crate `procfs` is not used: it returns the environment as a map, which loses the second value of a variable that a process
//! has twice, and it parses all 52 fields of `stat`, where a walk over all processes needs four.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    thread,
    time::{Duration, Instant},
};

use crate::process_tree::{Process, Stat};

/// Longer than most files of `/proc`: the first read returns everything, the second the end.
const READ_BUFFER_BYTES: usize = 8 * 1024;

/// An exec takes about a millisecond.
const EXEC_PAUSE: Duration = Duration::from_millis(1);

/// The kernel's flag `PF_KTHREAD` in the field `flags` of `stat`.
const KERNEL_THREAD_FLAG: u64 = 0x0020_0000;

/// Returns every process of the system except the kernel's threads.
pub(crate) fn all_processes() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(stat).filter(|stat| !stat.is_kernel_thread).collect()
}

/// Returns one process, if it exists.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    parse_stat(pid, &read(&format!("/proc/{pid}/stat")).ok()?)
}

/// Returns the resident memory of a process in bytes.
pub(crate) fn resident_memory(pid: u32) -> Option<u64> {
    let sizes = read(&format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = std::str::from_utf8(&sizes).ok()?.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * u64::try_from(rustix::param::page_size()).ok()?)
}

/// Returns the memory of a process in bytes, with its part of each shared page; none if the process hides it.
pub(crate) fn proportional_memory(pid: u32) -> Option<u64> {
    let sizes = read(&format!("/proc/{pid}/smaps_rollup")).ok()?;
    let sizes = String::from_utf8_lossy(&sizes);
    let line = sizes.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the name of a process: the first 15 bytes of its program's name, or the name that it gave itself.
pub fn process_name(pid: u32) -> Option<String> {
    let name = read(&format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

/// Returns the initial values of the variable `name` in a process.
///
/// A process may have the variable twice; then both values are returned. The error `WouldBlock` means that the process is
/// replacing its program (exec) and that its environment is not readable until it has.
pub(crate) fn environment(pid: u32, name: &str) -> io::Result<Vec<String>> {
    let block = read(&format!("/proc/{pid}/environ"))?;
    if block.is_empty() && read(&format!("/proc/{pid}/cmdline"))?.is_empty() {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let values = block.split(|byte| *byte == 0).filter_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    });
    Ok(values.collect())
}

/// Returns every living process that has the variable `name`, with each of its values. Waits until `deadline` for processes
/// that are replacing their program.
pub(crate) fn environment_values(name: &str, deadline: Instant) -> Vec<(Process, String)> {
    let living = all_processes().into_iter().filter(|stat| !stat.is_zombie);
    let values_of = |stat: Stat| {
        let values = environment_after_exec(stat.pid, name, deadline).into_iter();
        values.map(move |value| (Process::from(stat), value))
    };
    living.flat_map(values_of).collect()
}

/// Returns the initial values of a variable and waits until `deadline` for a process that is replacing its program: a scan
/// that skipped it would miss its values. A process whose environment is not readable has none.
fn environment_after_exec(pid: u32, name: &str, deadline: Instant) -> Vec<String> {
    retry_during_exec(|| environment(pid, name), deadline).unwrap_or_default()
}

/// Calls `read` until its result is another than `WouldBlock` or the deadline has passed.
fn retry_during_exec<T>(
    mut read: impl FnMut() -> io::Result<T>,
    deadline: Instant,
) -> io::Result<T> {
    loop {
        match read() {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline =>
            {
                thread::sleep(EXEC_PAUSE);
            }
            done => return done,
        }
    }
}

/// Returns the path of a process's group in the version 2 hierarchy; none if the system has no such hierarchy.
pub(crate) fn cgroup_path(pid: u32) -> io::Result<Option<String>> {
    match read(&format!("/proc/{pid}/cgroup")) {
        Ok(text) => Ok(unified_path(&String::from_utf8_lossy(&text)).map(str::to_owned)),
        // Also for a process that is gone; the caller checks its existence.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the version 2 path in the text of `/proc/<pid>/cgroup`.
pub(super) fn unified_path(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

/// Reads a file to its end. No file of `/proc` has a length in its metadata, so this function does not query it: each
/// call costs time, and a scan of all processes would make thousands.
fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut content = vec![0; READ_BUFFER_BYTES];
    let mut length = 0;
    loop {
        if length == content.len() {
            content.resize(2 * length, 0);
        }
        match file.read(&mut content[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    content.truncate(length);
    Ok(content)
}

/// Parses a line of `/proc/<pid>/stat`. A command's name may contain spaces and parentheses: the last one ends it.
fn parse_stat(pid: u32, line: &[u8]) -> Option<Stat> {
    let after_name = line.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(&line[after_name..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let [state, parent, ..] = fields[..] else { return None };
    let flags: u64 = fields.get(6)?.parse().ok()?;
    let threads: u32 = fields.get(17)?.parse().ok()?;
    Some(Stat {
        pid,
        parent: parent.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
        // A thread leader that exited before its other threads has state Z and is not dead.
        is_zombie: matches!(state, "Z" | "X") && threads <= 1,
        is_kernel_thread: flags & KERNEL_THREAD_FLAG != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_its_command_is_called() {
        let program = "7 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0";
        let kernel = "7 7 7 0 -1 2129984 1 2 3 4 5 6 7 8 20 0";
        for (line, threads, is_zombie, is_kernel_thread) in [
            (format!("42 (sh) S {program}"), 1, false, false),
            (format!("42 (a) Z (b)) S {program}"), 1, false, false),
            (format!("42 (sh) Z {program}"), 1, true, false),
            (format!("42 (threads) Z {program}"), 3, false, false),
            (format!("42 (kworker/0:1) I {kernel}"), 1, false, true),
        ] {
            let line = format!("{line} {threads} 0 98765 1000 2000");
            let expected =
                Stat { pid: 42, parent: 7, start_time: 98765, is_zombie, is_kernel_thread };
            assert_eq!(parse_stat(42, line.as_bytes()), Some(expected), "{line}");
        }
        assert_eq!(parse_stat(42, b"42 (sh"), None);
    }

    #[test]
    fn a_file_is_read_whole_however_long_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for length in [
            0,
            1,
            READ_BUFFER_BYTES - 1,
            READ_BUFFER_BYTES,
            READ_BUFFER_BYTES + 1,
            2 * READ_BUFFER_BYTES,
            5 * READ_BUFFER_BYTES + 7,
        ] {
            let content: Vec<u8> = (0..=250).cycle().take(length).collect();
            fs::write(&path, &content).unwrap();
            assert!(read(path.to_str().unwrap()).unwrap() == content, "{length}");
        }
    }

    #[test]
    fn an_environment_is_read_again_while_its_process_replaces_its_program() {
        let during_exec = || io::Error::from(io::ErrorKind::WouldBlock);
        let mut reads =
            [Err(during_exec()), Err(during_exec()), Ok("value"), Ok("later")].into_iter();
        let later = Instant::now() + Duration::from_mins(1);
        let read = retry_during_exec(|| reads.next().unwrap(), later);
        assert_eq!(read.unwrap(), "value");
        let stuck = retry_during_exec(|| Err::<(), _>(during_exec()), Instant::now());
        assert_eq!(stuck.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn our_own_process_is_there_and_has_a_parent() {
        let own = stat(std::process::id()).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        assert!(all_processes().contains(&own));
    }
}
