//! The files of the messages of a turn, fetched from the daemon into the folder of the attempt before the turn.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use agent_worker_host::{DaemonSocket, DialError};
use agent_worker_protocol::{
    Base64Bytes, Code, FailureClass, JobAttachment, ResourceId, WorkerJob, api::ResourceText,
    is_image,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::turn::TurnFailure;

/// Maximum time to wait for a daemon that is away or cannot answer.
const UNAVAILABLE_TIMEOUT: Duration = Duration::from_secs(45);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum size of an image that a model is shown directly: providers accept 5 MB of base64 for one image. A larger one
/// is a path only, and a program that reads the file may scale it down.
const MAX_IMAGE_BYTES: u64 = 3_750_000;
/// Maximum size of all images that a model is shown directly in one turn.
const MAX_IMAGES_BYTES: u64 = 15_000_000;

/// A file that came with a message, in the folder of the attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttachedFile {
    /// Name of the file, as its sender wrote it.
    pub(crate) name: String,
    pub(crate) media_type: String,
    pub(crate) size: u64,
    pub(crate) path: PathBuf,
}

/// An image for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InlineImage {
    pub(crate) media_type: String,
    /// Content in base64.
    pub(crate) data: String,
}

impl AttachedFile {
    pub(crate) fn is_image(&self) -> bool {
        is_image(&self.media_type)
    }
}

impl InlineImage {
    /// Returns the image as a block of a message of Anthropic's API.
    pub(crate) fn anthropic_block(&self) -> Value {
        let Self { media_type, data } = self;
        let source = json!({"type": "base64", "media_type": media_type, "data": data});
        json!({"type": "image", "source": source})
    }

    /// Returns the image as a block of a prompt of the Agent Client Protocol.
    pub(crate) fn acp_block(&self) -> Value {
        let Self { media_type, data } = self;
        json!({"type": "image", "mimeType": media_type, "data": data})
    }
}

/// Reads the images that a provider accepts, in order.
pub(crate) fn inline_images(files: &[AttachedFile]) -> io::Result<Vec<InlineImage>> {
    let mut total = 0;
    let mut images = Vec::new();
    for file in files.iter().filter(|file| file.is_image() && file.size <= MAX_IMAGE_BYTES) {
        total += file.size;
        if total > MAX_IMAGES_BYTES {
            break;
        }
        let data = Base64Bytes(std::fs::read(&file.path)?).into();
        images.push(InlineImage { media_type: file.media_type.clone(), data });
    }
    Ok(images)
}

/// Returns the folder of the files, if there are any.
pub(crate) fn attachment_folder(files: &[AttachedFile]) -> Option<&Path> {
    files.first()?.path.parent()
}

/// Fetches the files of a job. Waits for a daemon that is away.
pub(crate) async fn fetch_attachments(
    job: &WorkerJob,
    daemon: &DaemonSocket,
) -> Result<Vec<AttachedFile>, TurnFailure> {
    let mut files = Vec::new();
    for JobAttachment { attachment, path } in &job.attachments {
        let doing = format!("store the attached file {}", path.display());
        let failed = |error: io::Error| TurnFailure::from_io_error(&doing, &error);
        let mut file = create_private_file(path).map_err(failed)?;
        let mut from = 0;
        while from < attachment.size {
            let part = fetch_part(daemon, attachment.resource, from).await?;
            let (end, bytes) = (part.end, part.content_bytes().unwrap_or_default());
            if bytes.is_empty() || end != from + bytes.len() as u64 {
                let why = format!("the daemon returned an invalid part of {}", attachment.name);
                return Err(TurnFailure::new(FailureClass::Fatal, why));
            }
            file.write_all(&bytes).map_err(failed)?;
            from = end;
        }
        files.push(AttachedFile {
            name: attachment.name.to_string(),
            media_type: attachment.media_type.clone(),
            size: attachment.size,
            path: path.clone(),
        });
    }
    Ok(files)
}

fn create_private_file(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Reads a whole resource. Waits for a daemon that is away.
pub(crate) async fn fetch_resource(
    daemon: &DaemonSocket,
    id: ResourceId,
) -> Result<Vec<u8>, TurnFailure> {
    let mut content = Vec::new();
    loop {
        let part = fetch_part(daemon, id, content.len() as u64).await?;
        let bytes = part.content_bytes().unwrap_or_default();
        content.extend_from_slice(&bytes);
        if content.len() as u64 >= part.total {
            return Ok(content);
        }
        if bytes.is_empty() {
            let why = format!("the daemon returned an invalid part of the resource {id}");
            return Err(TurnFailure::new(FailureClass::Fatal, why));
        }
    }
}

/// Reads the next part of a resource.
async fn fetch_part(
    daemon: &DaemonSocket,
    id: ResourceId,
    from: u64,
) -> Result<ResourceText, TurnFailure> {
    let began = Instant::now();
    loop {
        let error = match daemon.get(&format!("/resources/{id}?range={from}..")).await {
            Ok(part) => return Ok(part),
            Err(error) => error,
        };
        let is_away = match &error {
            DialError::Absent { .. } | DialError::Lost { .. } => true,
            DialError::Refused(problem) => {
                matches!(problem.code, Code::Unavailable | Code::ReadOnly)
            }
            DialError::Impostor { .. }
            | DialError::Garbled { .. }
            | DialError::PathTooLong { .. } => false,
        };
        if is_away && began.elapsed() < UNAVAILABLE_TIMEOUT {
            sleep(RETRY_INTERVAL).await;
            continue;
        }
        let class = if is_away { FailureClass::Transient } else { FailureClass::Fatal };
        return Err(TurnFailure::new(class, format!("could not fetch an attached file: {error}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_shown_images_up_to_the_limits_of_its_provider() {
        let folder = tempfile::tempdir().unwrap();
        let file = |media_type: &str, size: u64| {
            let path = folder.path().join("file");
            std::fs::write(&path, [1, 2, 3]).unwrap();
            AttachedFile { name: "file".into(), media_type: media_type.into(), size, path }
        };
        let png = || file("image/png", MAX_IMAGE_BYTES);
        let shown = |files: &[AttachedFile]| inline_images(files).unwrap().len();
        assert_eq!(shown(&[file("text/plain", 3), file("application/pdf", 3)]), 0);
        assert_eq!(shown(&[png(), file("image/png", MAX_IMAGE_BYTES + 1), png()]), 2);
        assert_eq!(shown(&[png(), png(), png(), png(), file("image/gif", 1)]), 4);
        let expected = InlineImage { media_type: "image/webp".into(), data: "AQID".into() };
        assert_eq!(inline_images(&[file("image/webp", 3)]).unwrap(), [expected]);
    }
}
