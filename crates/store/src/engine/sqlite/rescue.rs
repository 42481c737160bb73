//! Copies a database whose file was removed or replaced, from the connection that still has it open.
//!
//! A copy has its final name only when it is complete and on disk.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use agent_worker_protocol::Millis;

use crate::{db::Connection, error::Result, sql::integrity};

const PREFIX: &str = "rescued-";
const SUFFIX: &str = ".db";

/// A finished copy of a lost database.
#[derive(Clone, Debug)]
pub(super) struct RescueCopy {
    pub(super) path: PathBuf,
    /// Damage that the copy has inherited; a copy without any is complete.
    pub(super) problems: Vec<String>,
}

/// Copies the whole content of `db` into `rescued-<time>.db` in `folder`.
pub(super) fn copy_database(db: &Connection, folder: &Path) -> Result<RescueCopy> {
    // The folder may have been removed together with the database.
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let copy = free_name(folder)?;
    let partial = copy.with_extension("partial");
    let problems = copy_into(db, &partial).inspect_err(|_| {
        // A partial copy is of no use, and may be what fills the disk.
        drop(fs::remove_file(&partial));
    })?;
    fs::rename(&partial, &copy)?;
    File::open(folder)?.sync_all()?;
    Ok(RescueCopy { path: copy, problems })
}

/// Returns the newest copy in `folder`.
pub(crate) fn newest_copy(folder: &Path) -> io::Result<Option<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut newest = None;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            newest = newest.max(Some(entry.path()));
        }
    }
    Ok(newest)
}

fn free_name(folder: &Path) -> Result<PathBuf> {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut now = Millis::new(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX));
    loop {
        let time = now.to_string().replace(':', "-");
        let path = folder.join(format!("{PREFIX}{time}{SUFFIX}"));
        let partial = path.with_extension("partial");
        if !path.try_exists()? && !partial.try_exists()? {
            return Ok(path);
        }
        now = now.plus(Duration::from_millis(1));
    }
}

/// Copies the database to `path` and returns the damage found in the copy.
fn copy_into(db: &Connection, path: &Path) -> Result<Vec<String>> {
    let options = OpenOptions::new().write(true).create_new(true).mode(0o600).clone();
    drop(options.open(path)?);
    let copy = db.back_up_into(path)?;
    // One file without a log of its own, so that the user can move it as it is.
    copy.set_pragma_word("journal_mode", "DELETE")?;
    let problems = integrity::structure_problems(&copy)?;
    copy.close()?;
    File::open(path)?.sync_all()?;
    Ok(problems)
}
