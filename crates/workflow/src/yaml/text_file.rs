//! Reads a text file that another author chose: a regular file, of bounded size, UTF-8.

use std::{
    fs::File,
    io::{self, Read},
};

/// More than any workflow or prompt needs; a longer file is refused.
pub(crate) const MAX_FILE_BYTES: usize = 1024 * 1024;

/// Reason for which a file was refused.
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

/// Reads the whole file, or refuses it before reading more than [`MAX_FILE_BYTES`].
pub(crate) fn read(file: File) -> Result<String, FileReadError> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(FileReadError::NotAFile);
    }
    let limit = MAX_FILE_BYTES as u64;
    if metadata.len() > limit {
        return Err(FileReadError::TooLarge);
    }
    let mut bytes = Vec::new();
    // The file may have grown since, or (in /proc) have no size in its metadata.
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(FileReadError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| FileReadError::NotUtf8)
}
