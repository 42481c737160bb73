//! Files of messages: their limits, and the places where an agent finds them. Pure.

use std::path::Path;

use agent_worker_protocol::{
    JobAttachment, MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS, MAX_ATTACHMENTS_BYTES, Message,
    api::AttachmentRequest, media_type_of,
};
use agent_worker_store::{NewAttachment, ShownMessage};

use crate::{
    error::{Error, Result},
    messaging::size_limits,
};

/// Folder of the files, in the folder of an attempt.
const FOLDER: &str = "attachments";
/// Maximum length of the part of a file name that comes from its sender: the end, which has the extension.
const MAX_NAME_CHARS: usize = 80;

/// Checks the files of a request.
pub(crate) fn new_attachments(files: Vec<AttachmentRequest>) -> Result<Vec<NewAttachment>> {
    if files.len() > MAX_ATTACHMENTS {
        let why = format!("a message has at most {MAX_ATTACHMENTS} files, not {}", files.len());
        return Err(Error::BadRequest(why));
    }
    let size = files.iter().map(|file| file.content.0.len()).sum();
    for file in &files {
        size_limits::check("an attached file", file.content.0.len(), MAX_ATTACHMENT_BYTES)?;
    }
    size_limits::check("the files of a message", size, MAX_ATTACHMENTS_BYTES)?;
    let attachment = |AttachmentRequest { name, content }| {
        let media_type = media_type_of(&content.0).to_owned();
        NewAttachment { name, media_type, content: content.0 }
    };
    Ok(files.into_iter().map(attachment).collect())
}

/// Returns the files of the messages that an attempt is shown, for its worker.
pub(crate) fn job_attachments(messages: &[ShownMessage], folder: &Path) -> Vec<JobAttachment> {
    messages.iter().flat_map(|shown| attached_files(&shown.message, folder)).collect()
}

/// Returns the files of a message, with their paths below the folder of an attempt.
pub(crate) fn attached_files(message: &Message, folder: &Path) -> Vec<JobAttachment> {
    let place = |(number, attachment): (usize, &agent_worker_protocol::Attachment)| {
        let name = reduced_name(attachment.name.as_str());
        let path = folder.join(FOLDER).join(format!("{}-{number}-{name}", message.seq));
        JobAttachment { attachment: attachment.clone(), path }
    };
    (1..).zip(&message.attachments).map(place).collect()
}

/// Reduces a name to characters without a meaning for shells and for programs that expand `@path`. The name is shown to
/// a model outside of the sender's message, so it contains no blank and therefore no sentence.
fn reduced_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let skipped = name.chars().count().saturating_sub(MAX_NAME_CHARS);
    name.chars().skip(skipped).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::Base64Bytes;

    use super::*;

    #[test]
    fn a_file_name_is_reduced_to_plain_characters() {
        for (name, expected) in [
            ("shot.png", "shot.png"),
            ("Bildschirmfoto 1.png", "Bildschirmfoto_1.png"),
            ("@me $(id) `x`;'y'.md", "_me___id___x___y_.md"),
            ("größe.txt", "gr__e.txt"),
            ("..", ".."),
        ] {
            assert_eq!(reduced_name(name), expected);
        }
        let long = format!("{}.png", "x".repeat(190));
        assert_eq!(reduced_name(&long), format!("{}.png", "x".repeat(76)));
    }

    #[test]
    fn the_number_and_the_size_of_files_are_limited() {
        let file = |size: usize| AttachmentRequest {
            name: "a".parse().unwrap(),
            content: Base64Bytes(vec![0; size]),
        };
        let why = |files: Vec<_>| new_attachments(files).err().map(|error| error.to_string());
        assert_eq!(why(vec![file(MAX_ATTACHMENT_BYTES); 6]), None);
        assert_eq!(why(vec![file(0); 20]), None);
        let too_many = "a message has at most 20 files, not 21";
        assert_eq!(why(vec![file(0); 21]).as_deref(), Some(too_many));
        let one = why(vec![file(MAX_ATTACHMENT_BYTES + 1)]).unwrap();
        assert!(one.starts_with("an attached file"), "{one}");
        let all = why([vec![file(MAX_ATTACHMENT_BYTES); 6], vec![file(1)]].concat()).unwrap();
        assert!(all.starts_with("the files of a message"), "{all}");
    }
}
