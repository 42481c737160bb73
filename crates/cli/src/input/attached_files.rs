//! The files of `--attach`: checked and read before anything is sent.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use agent_worker_protocol::{
    AttachmentName, Base64Bytes, MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS, MAX_ATTACHMENTS_BYTES,
    api::AttachmentRequest, size_text,
};

use crate::{
    error::{CliError, CliErrorKind},
    output::text::one_line,
};

/// The way to give an agent more than a message may have.
const PATH_HINT: &str =
    "an agent on this machine can read the file itself: write its path into the message";

/// Reads the files, or names the first one that cannot be attached.
pub(crate) fn read_attachments(paths: &[PathBuf]) -> Result<Vec<AttachmentRequest>, CliError> {
    if paths.len() > MAX_ATTACHMENTS {
        let what = format!("a message has at most {MAX_ATTACHMENTS} files, not {}", paths.len());
        return Err(CliError::new(CliErrorKind::Usage, what)
            .with_hint("attach an archive of them, or send several messages"));
    }
    let (mut files, mut total) = (Vec::new(), 0);
    for path in paths {
        let file = read_attachment(path)?;
        total += file.content.0.len();
        if total > MAX_ATTACHMENTS_BYTES {
            let most = size_text(MAX_ATTACHMENTS_BYTES as u64);
            let what = format!("the files of a message have at most {most} together");
            return Err(CliError::new(CliErrorKind::Usage, what)
                .with_hint("send several messages with fewer files each"));
        }
        files.push(file);
    }
    Ok(files)
}

fn read_attachment(path: &Path) -> Result<AttachmentRequest, CliError> {
    let shown = one_line(&path.to_string_lossy());
    let unreadable = |error: io::Error| {
        CliError::new(CliErrorKind::Usage, format!("cannot attach {shown}: {error}"))
    };
    let refused =
        |why: &str| CliError::new(CliErrorKind::Usage, format!("cannot attach {shown}: {why}"));
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(refused("it is a folder")
            .with_hint("attach its files one by one, or an archive of the folder"));
    }
    if !metadata.is_file() {
        // Opening a pipe or a device could wait forever.
        return Err(refused("it is no regular file"));
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| refused("its name is not UTF-8"))?;
    let name: AttachmentName = name.parse().map_err(|error| {
        let error: agent_worker_protocol::BadAttachmentName = error;
        refused(&error.to_string())
    })?;
    let mut content = Vec::new();
    let limit = MAX_ATTACHMENT_BYTES as u64;
    let file = File::open(path).map_err(unreadable)?;
    file.take(limit + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() > MAX_ATTACHMENT_BYTES {
        let size = size_text(metadata.len().max(limit + 1));
        let why = format!("it has {size}, and a file has at most {}", size_text(limit));
        return Err(refused(&why).with_hint(PATH_HINT));
    }
    Ok(AttachmentRequest { name, content: Base64Bytes(content) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(paths: &[PathBuf]) -> String {
        let error = read_attachments(paths).unwrap_err();
        assert_eq!(error.kind(), CliErrorKind::Usage);
        error.to_report_error().message
    }

    #[test]
    fn a_file_is_read_whole_and_has_its_name_without_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shot 1.png");
        fs::write(&path, [0, 255]).unwrap();
        let files = read_attachments(&[path.clone(), path]).unwrap();
        assert_eq!(files.len(), 2);
        assert_eq!((files[0].name.as_str(), &*files[0].content.0), ("shot 1.png", &[0, 255][..]));
    }

    #[test]
    fn a_file_that_cannot_be_attached_is_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        File::create(at("large")).unwrap().set_len(10 * 1024 * 1024 + 1).unwrap();
        File::create(at("whole")).unwrap().set_len(10 * 1024 * 1024).unwrap();
        for (path, why) in [
            (at("missing"), "No such file or directory (os error 2)"),
            (folder.path().to_owned(), "it is a folder"),
            (PathBuf::from("/dev/zero"), "it is no regular file"),
            (at("large"), "it has 10.1 MiB, and a file has at most 10 MiB"),
        ] {
            let expected = format!("cannot attach {}: {why}", path.display());
            assert_eq!(refusal(&[path]), expected);
        }
        assert_eq!(refusal(&vec![at("whole"); 21]), "a message has at most 20 files, not 21");
        let together = "the files of a message have at most 60 MiB together";
        assert_eq!(refusal(&vec![at("whole"); 7]), together);
        assert!(read_attachments(&vec![at("whole"); 6]).is_ok());
    }
}
