//! Files that come with messages: their names, media types and limits, and bytes as base64.

use std::{fmt, str::FromStr};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::ResourceId;

/// Maximum size of one attached file, in bytes.
pub const MAX_ATTACHMENT_BYTES: usize = 10 * 1024 * 1024;
/// Maximum size of all files of one message, in bytes; as base64 they fit into a request.
pub const MAX_ATTACHMENTS_BYTES: usize = 60 * 1024 * 1024;
/// Maximum number of files of one message.
pub const MAX_ATTACHMENTS: usize = 20;
/// Maximum length of a file name, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// The media types that are recognized by the first bytes of a file.
const SIGNATURES: [(&[u8], &str); 5] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
];
const WEBP: &str = "image/webp";
const TEXT: &str = "text/plain";
const BYTES: &str = "application/octet-stream";

/// A file of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attachment {
    /// Name of the file, without a folder.
    pub name: AttachmentName,
    /// Media type, recognized by the content.
    pub media_type: String,
    /// Size in bytes.
    pub size: u64,
    /// Resource with the content.
    pub resource: ResourceId,
}

/// A file name without a folder, in printable characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct AttachmentName(String);

/// The reason why a text is not the name of an attachment.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{name}` cannot be the name of an attachment: {why}")]
pub struct BadAttachmentName {
    name: String,
    why: &'static str,
}

/// Bytes that are base64 in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Base64Bytes(pub Vec<u8>);

impl Attachment {
    /// Returns true if the file is an image that models can see.
    pub fn is_image(&self) -> bool {
        is_image(&self.media_type)
    }
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, media_type, size, .. } = self;
        write!(f, "{name}, {media_type}, {}", size_text(*size))
    }
}

impl AttachmentName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AttachmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for AttachmentName {
    type Err = BadAttachmentName;
    fn from_str(text: &str) -> Result<Self, BadAttachmentName> {
        let why = if text.trim().is_empty() {
            "it is empty"
        } else if matches!(text, "." | "..") {
            "it is a folder"
        } else if text.contains(['/', '\\']) {
            "it contains a folder"
        } else if text.chars().any(char::is_control) {
            "it contains a control character"
        } else if text.len() > MAX_NAME_BYTES {
            "it is longer than 200 bytes"
        } else {
            return Ok(Self(text.to_owned()));
        };
        Err(BadAttachmentName { name: text.escape_debug().to_string(), why })
    }
}
impl TryFrom<String> for AttachmentName {
    type Error = BadAttachmentName;
    fn try_from(text: String) -> Result<Self, BadAttachmentName> {
        text.parse()
    }
}
impl From<AttachmentName> for String {
    fn from(name: AttachmentName) -> Self {
        name.0
    }
}

impl TryFrom<String> for Base64Bytes {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, &'static str> {
        BASE64_STANDARD.decode(text).map(Self).map_err(|_| "the content is not valid base64")
    }
}
impl From<Base64Bytes> for String {
    fn from(bytes: Base64Bytes) -> Self {
        BASE64_STANDARD.encode(bytes.0)
    }
}

/// Returns the media type of a content.
pub fn media_type_of(content: &[u8]) -> &'static str {
    let known = SIGNATURES.iter().find(|(start, _)| content.starts_with(start));
    if let Some((_, media_type)) = known {
        return media_type;
    }
    if content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP") {
        return WEBP;
    }
    if std::str::from_utf8(content).is_ok() { TEXT } else { BYTES }
}

/// Returns true if content of this media type is bytes and not text.
pub fn is_binary(media_type: &str) -> bool {
    media_type == BYTES
        || media_type == WEBP
        || SIGNATURES.iter().any(|(_, binary)| *binary == media_type)
}

/// Returns true if content of this media type is an image that models can see.
pub fn is_image(media_type: &str) -> bool {
    is_binary(media_type) && media_type.starts_with("image/")
}

/// Returns a line that names attached files, such as `[attached: shot.png, image/png, 34 KiB]`; none without a file.
pub fn attachments_line(attachments: &[Attachment]) -> Option<String> {
    let files: Vec<_> = attachments.iter().map(ToString::to_string).collect();
    if files.is_empty() { None } else { Some(format!("[attached: {}]", files.join("; "))) }
}

/// Returns a size in the unit that people read, such as `34 KiB`.
pub fn size_text(bytes: u64) -> String {
    const KIB: u64 = 1024;
    match bytes {
        ..KIB => format!("{bytes} B"),
        _ if bytes < KIB * KIB => format!("{} KiB", bytes.div_ceil(KIB)),
        _ => {
            let tenths = (bytes * 10).div_ceil(KIB * KIB);
            match tenths % 10 {
                0 => format!("{} MiB", tenths / 10),
                rest => format!("{}.{rest} MiB", tenths / 10),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_decides_the_media_type() {
        for (content, expected) in [
            (&b"\x89PNG\r\n\x1a\n\0\0"[..], "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF89a..", "image/gif"),
            (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
            (b"RIFF\x10\0\0\0WAVE", "text/plain"),
            (b"%PDF-1.7", "application/pdf"),
            ("für".as_bytes(), "text/plain"),
            (b"", "text/plain"),
            (b"\xff\xfe", "application/octet-stream"),
        ] {
            assert_eq!(media_type_of(content), expected, "{content:?}");
        }
    }

    #[test]
    fn a_name_has_no_folder_and_no_control_character() {
        for (name, is_good) in [
            ("shot.png", true),
            ("Bildschirmfoto 1.png", true),
            ("..png", true),
            ("", false),
            ("  ", false),
            (".", false),
            ("..", false),
            ("../x", false),
            ("/etc/passwd", false),
            ("a\\b", false),
            ("a\nb", false),
        ] {
            assert_eq!(name.parse::<AttachmentName>().is_ok(), is_good, "{name}");
        }
        assert!("x".repeat(201).parse::<AttachmentName>().is_err());
    }

    #[test]
    fn a_line_names_each_file_with_type_and_size() {
        let file = |name: &str, media_type: &str, size| Attachment {
            name: name.parse().unwrap(),
            media_type: media_type.to_owned(),
            size,
            resource: ResourceId::new([0; 32]),
        };
        assert_eq!(attachments_line(&[]), None);
        let files = [
            file("shot.png", "image/png", 34_000),
            file("a", "text/plain", 10 << 20),
            file("b", BYTES, 1_572_864),
        ];
        let line = attachments_line(&files).unwrap();
        assert_eq!(
            line,
            "[attached: shot.png, image/png, 34 KiB; a, text/plain, 10 MiB; b, application/octet-stream, 1.5 MiB]"
        );
    }

    #[test]
    fn bytes_are_base64_in_json() {
        let bytes = Base64Bytes(vec![0, 255, 7]);
        let json = serde_json::to_string(&bytes).unwrap();
        assert_eq!(json, r#""AP8H""#);
        assert_eq!(serde_json::from_str::<Base64Bytes>(&json).unwrap(), bytes);
        assert!(serde_json::from_str::<Base64Bytes>(r#""%""#).is_err());
    }
}
