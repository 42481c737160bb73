//! `read_file`: lines of a text file with their numbers, or an image.

use std::fmt::Write as _;

use agent_worker_protocol::Base64Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    file_access::WorkFiles,
    image_format::image_media_type,
    tool_output::{MAX_RESULT_BYTES, ToolImage, ToolOutput, ToolStep, beginning, read_arguments},
};

const DEFAULT_LINES: usize = 2000;
const MAX_LINE_BYTES: usize = 2000;
/// Maximum size of an image: providers accept 5 MB of Base64 for one.
const MAX_IMAGE_BYTES: usize = 3_750_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

/// Reads a file.
pub(crate) fn read_file(args: Map<String, Value>, files: &WorkFiles) -> ToolStep<ToolOutput> {
    let ReadArguments { path, offset, limit } = read_arguments(args)?;
    let content = files.read(&files.resolve(&path)?)?;
    if let Some(media_type) = image_media_type(&content) {
        if content.len() > MAX_IMAGE_BYTES {
            let size = content.len();
            return Err(
                format!("{path} is an image of {size} bytes, more than {MAX_IMAGE_BYTES}").into()
            );
        }
        let text = format!("{path}: {media_type}, {} bytes", content.len());
        let (media_type, base64) = (media_type.to_owned(), Base64Bytes(content).into());
        return Ok(ToolOutput::Image(ToolImage { text, media_type, base64 }));
    }
    let text = match String::from_utf8(content) {
        Ok(text) if !text.contains('\0') => text,
        Ok(_) | Err(_) => return Err(format!("{path} is a binary file").into()),
    };
    let first = offset.unwrap_or(1).max(1);
    numbered_lines(&text, first, limit.unwrap_or(DEFAULT_LINES)).map(ToolOutput::Done)
}

/// Returns lines with their numbers, as many as fit, and how to continue.
fn numbered_lines(text: &str, first: usize, limit: usize) -> ToolStep<String> {
    let total = text.lines().count();
    if total == 0 {
        return Ok("[the file is empty]".to_owned());
    }
    if first > total {
        return Err(format!("the file has {total} lines, and `offset` is {first}").into());
    }
    let (mut shown, mut last) = (String::new(), first - 1);
    for line in text.lines().skip(first - 1).take(limit) {
        let cut = beginning(line, MAX_LINE_BYTES);
        let mut row = format!("{:>6}\t{cut}", last + 1);
        if cut.len() < line.len() {
            let _ = write!(row, " … [{} more bytes in this line]", line.len() - cut.len());
        }
        if shown.len() + row.len() > MAX_RESULT_BYTES && last >= first {
            break;
        }
        shown += &row;
        shown.push('\n');
        last += 1;
    }
    if last < total {
        let next = last + 1;
        let part = format_args!("lines {first} to {last} of {total}");
        let _ = writeln!(shown, "[{part}; continue with offset {next}]");
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::tool_output::ToolError;

    fn read(content: &[u8], args: Value) -> ToolStep<ToolOutput> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x"), content).unwrap();
        let Value::Object(mut args) = args else { panic!("{args}") };
        args.insert("path".to_owned(), "x".into());
        read_file(args, &WorkFiles::new(folder.path().to_owned()))
    }

    fn text(content: &str, args: Value) -> String {
        match read(content.as_bytes(), args) {
            Ok(ToolOutput::Done(text)) => text,
            Err(ToolError(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_have_numbers_and_a_part_says_how_to_continue() {
        assert_eq!(text("a\n\tb\r\nc", json!({})), "     1\ta\n     2\t\tb\n     3\tc\n");
        let part = text("a\nb\nc\n", json!({"offset": 2, "limit": 1}));
        assert_eq!(part, "     2\tb\n[lines 2 to 2 of 3; continue with offset 3]\n");
        assert_eq!(text("a\n", json!({"offset": 2})), "the file has 1 lines, and `offset` is 2");
        assert_eq!(text("", json!({})), "[the file is empty]");
    }

    #[test]
    fn long_lines_are_cut_and_a_long_file_is_read_in_parts() {
        let cut = text(&("ä".repeat(1500) + "\nb\n"), json!({}));
        assert!(cut.contains(" … [1000 more bytes in this line]\n     2\tb\n"), "{cut}");
        let long = "x".repeat(99) + "\n";
        let part = text(&long.repeat(1000), json!({}));
        assert!(part.len() < MAX_RESULT_BYTES + 200, "{}", part.len());
        assert!(part.contains("of 1000; continue with offset "), "{part}");
    }

    #[test]
    fn an_image_is_returned_as_one_and_another_binary_file_is_refused() {
        let png = b"\x89PNG\r\n\x1a\n\0\0";
        let Ok(ToolOutput::Image(image)) = read(png, json!({})) else { panic!() };
        assert_eq!(
            (image.media_type.as_str(), image.base64.as_str()),
            ("image/png", "iVBORw0KGgoAAA==")
        );
        for content in [&b"a\0b"[..], b"\xff\xfe"] {
            assert_eq!(read(content, json!({})), Err("x is a binary file".into()));
        }
    }
}
