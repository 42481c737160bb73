//! Where the daemon's own words go: its log, or the terminal of whoever watches it.

use std::{fs::OpenOptions, io, os::unix::fs::OpenOptionsExt as _, sync::Mutex};

use tracing_subscriber::EnvFilter;

use crate::{home::Home, lifecycle::StartedBy};

/// A log over this size is put aside at the next start; one old one is kept.
const LONGEST: u64 = 10 * 1024 * 1024;

/// Starts logging.
pub(crate) fn begin(home: &Home, started_by: StartedBy) -> io::Result<()> {
    let filter = EnvFilter::new("info,rmcp=warn");
    let format = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    let begun = match started_by {
        StartedBy::Person => format.with_writer(io::stderr).try_init(),
        StartedBy::Command => {
            let path = home.log();
            if std::fs::metadata(&path).is_ok_and(|log| log.len() > LONGEST) {
                std::fs::rename(&path, path.with_extension("log.old"))?;
            }
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
            format.with_ansi(false).with_writer(Mutex::new(file)).try_init()
        }
    };
    begun.map_err(io::Error::other)
}
