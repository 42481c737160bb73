//! The folder of this process's own control group.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::procfs;

/// Returns the folder. The error is the reason why there is none.
pub(crate) fn own_cgroup_folder() -> Result<PathBuf, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    own_folder(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)
}

/// Returns the folder of the group in `/proc/self/cgroup`, within the mounts of `/proc/self/mountinfo`.
fn own_folder(mountinfo: &str, cgroup: &str) -> Result<PathBuf, String> {
    let path = procfs::unified_path(cgroup).ok_or("this system has no cgroups v2")?;
    if path.ends_with(" (deleted)") {
        return Err("this process's own cgroup was removed".into());
    }
    let mut mounted = false;
    for line in mountinfo.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        if !after.starts_with("cgroup2 ") {
            continue;
        }
        mounted = true;
        let fields: Vec<&str> = before.split(' ').collect();
        let (Some(root), Some(point)) = (fields.get(3), fields.get(4)) else { continue };
        let (root, point) = (unescape(root), unescape(point));
        // A container may see only a part of the hierarchy.
        if let Ok(rest) = Path::new(path).strip_prefix(&root) {
            return Ok(Path::new(&point).join(rest));
        }
    }
    Err(if mounted {
        "this process's own cgroup is not mounted".into()
    } else {
        "no cgroup v2 file system is mounted".into()
    })
}

/// Decodes blanks and backslashes, which that file writes as octal numbers.
fn unescape(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn our_own_group_is_found_by_the_mounts_and_its_path() {
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        let part = "30 23 0:26 /docker/abc /my\\040groups rw - cgroup2 cgroup rw\n";
        for (mounts, cgroup, expected) in [
            (HYBRID, "4:memory:/x\n0::/\n", Ok("/sys/fs/cgroup/unified/")),
            (unified, "0::/user.slice/a b.scope\n", Ok("/sys/fs/cgroup/user.slice/a b.scope")),
            (part, "0::/docker/abc/d\n", Ok("/my groups/d")),
            (part, "0::/docker/other\n", Err("own cgroup is not mounted")),
            (unified, "4:memory:/x\n", Err("has no cgroups v2")),
            ("", "0::/\n", Err("no cgroup v2 file system")),
            (unified, "0::/gone (deleted)\n", Err("was removed")),
        ] {
            match (own_folder(mounts, cgroup), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, Path::new(expected)),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
                (found, expected) => panic!("{cgroup}: {found:?}, not {expected:?}"),
            }
        }
    }
}
