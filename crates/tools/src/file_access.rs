//! Files as the tools see them: paths, what the model has read, and writing as a whole.
//!
//! Invariant: a file that the model has not seen in its present state is not overwritten.

use std::{
    collections::HashMap,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Mutex,
};

use agent_worker_protocol::{Hash, hash, sync};
use rustix::fs::OFlags;

use crate::tool_output::{ToolError, ToolStep};

/// Maximum size of a file that is read or edited.
pub(crate) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Permissions of a new file, before the umask.
const NEW_FILE_MODE: u32 = 0o666;
/// Permissions of the successor of a file until it has those of the file, whose content may be secret.
const UNFINISHED_MODE: u32 = 0o600;
/// Maximum number of names that are tried for an unfinished file.
const MAX_NAMES: u32 = 100;
const NONBLOCK: i32 = OFlags::NONBLOCK.bits().cast_signed();

/// The working folder of an agent, and the states of the files that its model has seen.
pub(crate) struct WorkFiles {
    folder: PathBuf,
    seen: Mutex<HashMap<PathBuf, Hash>>,
}

impl WorkFiles {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, seen: Mutex::default() }
    }

    /// Returns the working folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the absolute path of an argument.
    pub(crate) fn resolve(&self, path: &str) -> ToolStep<PathBuf> {
        match path {
            "" => Err("`path` is empty".into()),
            path if path.contains('\0') => Err("`path` contains a NUL".into()),
            path if path == "~" || path.starts_with("~/") => {
                Err("`~` is not expanded: write an absolute path, or one relative to the working folder".into())
            }
            path => Ok(self.folder.join(path)),
        }
    }

    /// Reads a whole file, and notes that the model has seen it.
    pub(crate) fn read(&self, path: &Path) -> ToolStep<Vec<u8>> {
        let content = read_content(path)?;
        self.note(path, &content);
        Ok(content)
    }

    /// Reads a whole file that the model has seen in this state.
    pub(crate) fn read_seen(&self, path: &Path) -> ToolStep<Vec<u8>> {
        let content = read_content(path)?;
        let seen = sync::lock(&self.seen).get(&real_path(path)).copied();
        let shown = path.display();
        match seen {
            Some(seen) if seen == hash(&[&content]) => Ok(content),
            Some(_) => Err(format!("{shown} changed since it was read; read it again").into()),
            None => Err(format!("{shown} was not read in this turn; read it first").into()),
        }
    }

    /// Writes a whole file, keeps its permissions, and notes that the model knows it.
    pub(crate) fn write(&self, path: &Path, content: &[u8]) -> ToolStep<()> {
        let real = real_path(path);
        let failed = ToolError::at("write", path.display());
        write_whole(&real, content).map_err(failed)?;
        self.note(path, content);
        Ok(())
    }

    fn note(&self, path: &Path, content: &[u8]) {
        sync::lock(&self.seen).insert(real_path(path), hash(&[content]));
    }
}

/// Returns the path with all links resolved; for a missing file those of its folder.
fn real_path(path: &Path) -> PathBuf {
    let of_missing = || {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(of_missing).unwrap_or_else(|| path.to_owned())
}

/// Checks that an opened file is a regular one and small enough.
fn check_readable(path: &Path, found: &Metadata) -> ToolStep<()> {
    let shown = path.display();
    if found.is_dir() {
        return Err(format!("{shown} is a folder; use list_files").into());
    }
    if !found.is_file() {
        return Err(format!("{shown} is not a regular file").into());
    }
    if found.len() > MAX_FILE_BYTES {
        let why = format!(
            "{shown} has {} bytes, more than {MAX_FILE_BYTES}; read parts of it with bash, or use search_code",
            found.len()
        );
        return Err(why.into());
    }
    Ok(())
}

fn read_content(path: &Path) -> ToolStep<Vec<u8>> {
    let failed = ToolError::at("read", path.display());
    // To open a device may have effects, and another process may replace the file by a pipe: opening that does not wait.
    let before = fs::metadata(path).map_err(&failed)?;
    check_readable(path, &before)?;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(NONBLOCK);
    let file = options.open(path).map_err(&failed)?;
    check_readable(path, &file.metadata().map_err(&failed)?)?;
    read_whole(path, file, before.len())
}

/// Reads to the end. A file may be larger than its size says: it grows, or the kernel writes it.
fn read_whole(path: &Path, file: impl io::Read, size: u64) -> ToolStep<Vec<u8>> {
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content);
    let read = read.map_err(ToolError::at("read", path.display()))?;
    if u64::try_from(read).is_ok_and(|read| read <= MAX_FILE_BYTES) {
        return Ok(content);
    }
    let shown = path.display();
    Err(format!("{shown} has more than {MAX_FILE_BYTES} bytes; read parts of it with bash").into())
}

/// Replaces a file as a whole: readers see the old content or the new one. A file with several names, or in a folder where no
/// file can be created, is written in place.
fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let old = match fs::metadata(path) {
        Ok(old) if !old.is_file() => {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // A file that its owner may not write is not replaced either.
    if old.is_some() {
        drop(OpenOptions::new().write(true).open(path)?);
    }
    if old.as_ref().is_none_or(|old| old.nlink() == 1) && replace(path, content, old.as_ref())? {
        return Ok(());
    }
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all(content)
}

/// Replaces a file by a new one. Returns false if the folder takes no new file.
fn replace(path: &Path, content: &[u8], old: Option<&Metadata>) -> io::Result<bool> {
    let mode = if old.is_some() { UNFINISHED_MODE } else { NEW_FILE_MODE };
    let Some((unfinished, mut file)) = create_beside(path, mode) else { return Ok(false) };
    let written = file.write_all(content).and_then(|()| match old {
        Some(old) => file.set_permissions(fs::Permissions::from_mode(old.permissions().mode())),
        None => Ok(()),
    });
    let replaced = written.and_then(|()| fs::rename(&unfinished, path));
    if replaced.is_err() {
        drop(fs::remove_file(&unfinished));
    }
    replaced.map(|()| true)
}

/// Creates a file beside another one. None if the folder takes no new file. Follows no link, and changes no existing file.
fn create_beside(path: &Path, mode: u32) -> Option<(PathBuf, File)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    for number in 0..MAX_NAMES {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}-{number}.new", std::process::id()));
        let unfinished = path.with_file_name(name);
        match options.open(&unfinished) {
            Ok(file) => return Some((unfinished, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_permissions_and_behind_its_links() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.sh");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        std::os::unix::fs::symlink("run.sh", folder.path().join("link")).unwrap();
        let files = WorkFiles::new(folder.path().to_owned());
        files.write(&folder.path().join("link"), b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);
        assert!(folder.path().join("link").is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert_eq!(files.read_seen(&path).unwrap(), b"new", "both names are the same file");
    }

    #[test]
    fn a_link_in_place_of_the_unfinished_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("x"), folder.path().join("other"));
        fs::write(&other, "mine").unwrap();
        let id = std::process::id();
        for name in [format!("x.{id}.new"), format!("x.{id}-0.new")] {
            std::os::unix::fs::symlink("other", folder.path().join(name)).unwrap();
        }
        let files = WorkFiles::new(folder.path().to_owned());
        files.write(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
        assert!(!path.is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn a_file_that_is_larger_than_it_says_is_refused_and_not_cut() {
        let ToolError(why) = read_whole(Path::new("x"), io::repeat(b'x'), 0).unwrap_err();
        assert!(why.contains("more than 16777216 bytes"), "{why}");
    }

    #[test]
    fn a_file_with_two_names_keeps_both() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&first, "old").unwrap();
        fs::hard_link(&first, &second).unwrap();
        WorkFiles::new(folder.path().to_owned()).write(&first, b"new").unwrap();
        assert_eq!(fs::read_to_string(second).unwrap(), "new");
    }

    #[test]
    fn a_path_that_cannot_be_meant_is_refused() {
        let files = WorkFiles::new("/work".into());
        assert_eq!(files.resolve("a/b"), Ok("/work/a/b".into()));
        assert_eq!(files.resolve("/a"), Ok("/a".into()));
        for path in ["", "~/x", "~", "a\0b"] {
            assert!(files.resolve(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn a_folder_a_device_and_a_missing_file_are_not_read() {
        let files = WorkFiles::new("/".into());
        for (path, part) in [
            ("/tmp", "is a folder; use list_files"),
            ("/dev/zero", "is not a regular file"),
            ("/nosuch", "could not read /nosuch: No such file"),
        ] {
            let ToolError(why) = files.read(Path::new(path)).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
