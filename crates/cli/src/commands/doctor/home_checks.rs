//! Checks of the home and its disk that need no daemon.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use agent_worker_host::{MAX_SOCKET_PATH_BYTES, port_holder};
use rustix::fs::{Access, access, statvfs};

use super::DoctorFinding;
use crate::input::settings::CliSettings;

/// Free bytes below which messages will be refused sooner or later, and below which a note is printed.
const CRITICAL_FREE_BYTES: u64 = 4 << 20;
const LOW_FREE_BYTES: u64 = 1 << 30;
/// Paths that only the owner may open.
const PRIVATE_PATHS: [&str; 8] = [
    "agent-worker.db",
    "agent-worker.db-wal",
    "agent-worker.db-shm",
    "daemon.sock",
    "logs",
    "runs",
    "notify",
    "cli",
];

/// The port that a daemon uses if none is requested.
const DEFAULT_PORT: u16 = 5099;

/// Checks the port that the next daemon of this shell opens. Returns no finding if the port is free.
pub(super) fn check_port(settings: &CliSettings) -> Option<DoctorFinding> {
    let requested = settings.env.get("AGENT_WORKER_PORT").filter(|port| !port.is_empty());
    let port = requested.map_or(Some(DEFAULT_PORT), |port| port.parse().ok());
    let port = port.filter(|port| *port != 0)?;
    let message = format!("port {port} is held by {}", port_holder(port)?);
    Some(match requested {
        Some(_) => DoctorFinding::broken("port", message)
            .with_hint("end that program, or set AGENT_WORKER_PORT to another port"),
        None => DoctorFinding::note("port", format!("{message}; the daemon takes another one")),
    })
}

/// Checks the home: its owner, its permissions, and whether it can be written to.
pub(super) fn check_home(settings: &CliSettings) -> Vec<DoctorFinding> {
    let home = &settings.home;
    let shown = home.display();
    let socket = settings.socket();
    let length = socket.as_os_str().len();
    if length > MAX_SOCKET_PATH_BYTES {
        let over = length - MAX_SOCKET_PATH_BYTES;
        return vec![
            DoctorFinding::broken(
                "home",
                format!("{shown} is too long for a socket by {over} bytes"),
            )
            .with_hint("set AGENT_WORKER_HOME to a shorter path"),
        ];
    }
    let Ok(found) = fs::metadata(home) else {
        return vec![DoctorFinding::ok(
            "home",
            format!("{shown} does not exist yet; the first run creates it"),
        )];
    };
    let (owner, us) = (found.uid(), rustix::process::getuid().as_raw());
    if owner != us {
        let what = format!("{shown} belongs to another user (uid {owner}, you are {us})");
        return vec![
            DoctorFinding::broken("home", what)
                .with_hint("set AGENT_WORKER_HOME to a folder of your own"),
        ];
    }
    let mut findings = Vec::new();
    if found.mode() & 0o077 != 0 {
        let mode = found.mode() & 0o777;
        findings.push(
            DoctorFinding::broken(
                "home",
                format!("other users can access {shown} (mode {mode:o})"),
            )
            .with_hint(format!("chmod 700 {shown}")),
        );
    }
    if access(home, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        findings.push(
            DoctorFinding::broken("home", format!("{shown} cannot be written to")).with_hint(
                format!("chmod 700 {shown}, or set AGENT_WORKER_HOME to another folder"),
            ),
        );
    }
    if findings.is_empty() {
        findings.push(DoctorFinding::ok("home", format!("{shown}, accessible only to you")));
    }
    findings.extend(check_private_files(home));
    findings
}

/// Checks that the private files are closed to others, even if the home is opened to them one day.
fn check_private_files(home: &Path) -> Option<DoctorFinding> {
    let is_open = |name: &&str| {
        fs::symlink_metadata(home.join(name)).is_ok_and(|found| found.mode() & 0o077 != 0)
    };
    let open: Vec<&str> = PRIVATE_PATHS.into_iter().filter(is_open).collect();
    (!open.is_empty()).then(|| {
        let paths: Vec<String> =
            open.iter().map(|name| home.join(name).display().to_string()).collect();
        DoctorFinding::broken("files", format!("other users may open {}", open.join(", ")))
            .with_hint(format!("chmod go= {}", paths.join(" ")))
    })
}

/// Checks the free space on the disk of the home.
pub(super) fn check_disk(settings: &CliSettings) -> Option<DoctorFinding> {
    let there = settings.home.ancestors().find(|folder| folder.exists())?;
    let disk = statvfs(there).ok()?;
    // Root may use the blocks that are reserved for it.
    let is_root = rustix::process::geteuid().is_root();
    let blocks = if is_root { disk.f_bfree } else { disk.f_bavail };
    let files = if is_root { disk.f_ffree } else { disk.f_favail };
    let free = blocks.saturating_mul(disk.f_frsize);
    let summary = format!("{} free on the disk of the home", format_size(free));
    // A file system without a limit counts no files at all.
    if disk.f_files > 0 && files == 0 {
        let summary = format!("{summary}, but no file can be created");
        return Some(
            DoctorFinding::broken("disk", summary)
                .with_hint("delete files: the disk has no free inodes"),
        );
    }
    Some(match free {
        ..CRITICAL_FREE_BYTES => DoctorFinding::broken("disk", summary)
            .with_hint("free some space: the disk is full or almost full"),
        CRITICAL_FREE_BYTES..LOW_FREE_BYTES => DoctorFinding::note("disk", summary),
        LOW_FREE_BYTES.. => DoctorFinding::ok("disk", summary),
    })
}

/// Formats a size: `12.3 GiB`, `40 MiB`, `12 KiB`.
fn format_size(bytes: u64) -> String {
    let mib = bytes >> 20;
    match mib {
        0 => format!("{} KiB", bytes >> 10),
        1..1024 => format!("{mib} MiB"),
        1024.. => format!("{}.{} GiB", mib / 1024, mib % 1024 * 10 / 1024),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_a_readable_unit() {
        for (bytes, shown) in
            [(0, "0 KiB"), (12 << 10, "12 KiB"), (40 << 20, "40 MiB"), (3 << 29, "1.5 GiB")]
        {
            assert_eq!(format_size(bytes), shown);
        }
    }
}
