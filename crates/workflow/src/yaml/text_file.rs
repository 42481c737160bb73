//! Reads a text file that somebody else named: a regular file, of bounded size, UTF-8.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// More than a workflow or a prompt ever needs; what is longer is not read.
pub(crate) const MAX_FILE_BYTES: usize = 1024 * 1024;

/// Why a file was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileReadError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is longer than {} KiB", MAX_FILE_BYTES / 1024)]
    TooLarge,
    #[error("it is not UTF-8 text")]
    NotUtf8,
}

/// Reads the whole of it, or refuses before reading more than [`MAX_BYTES`].
pub(crate) fn read(path: &Path) -> Result<String, FileReadError> {
    // Asked before it is opened: opening a pipe would wait for somebody to write.
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Err(FileReadError::NotAFile);
    }
    let limit = MAX_FILE_BYTES as u64;
    if metadata.len() > limit {
        return Err(FileReadError::TooLarge);
    }
    let mut bytes = Vec::new();
    // It may have grown since, or (in /proc) never have told its size.
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(FileReadError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| FileReadError::NotUtf8)
}
