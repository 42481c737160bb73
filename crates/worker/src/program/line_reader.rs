//! Reads the lines of a program's output, with a maximum length.

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Maximum length of a line; longer lines are skipped. No event of any vendor is longer, and the limit bounds
/// memory.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;
const CHUNK_BYTES: usize = 64 * 1024;

/// Reads lines from an optional stream.
pub(super) struct ProgramLineReader<S> {
    stream: Option<S>,
    chunk: Vec<u8>,
    buffer: Vec<u8>,
    /// Number of bytes of `buffer` that were already searched.
    scanned: usize,
    is_skipping: bool,
}

impl<S: AsyncRead + Unpin> ProgramLineReader<S> {
    pub(super) fn new(stream: Option<S>) -> Self {
        Self {
            stream,
            chunk: vec![0; CHUNK_BYTES],
            buffer: Vec::new(),
            scanned: 0,
            is_skipping: false,
        }
    }

    /// Returns the next line, or the rest at the end. A read error counts as the end.
    pub(super) async fn next_line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=self.scanned + end).collect();
                self.scanned = 0;
                if !std::mem::take(&mut self.is_skipping) {
                    return Some(String::from_utf8_lossy(&line).trim_end().to_owned());
                }
                continue;
            }
            self.scanned = self.buffer.len();
            if self.scanned > MAX_LINE_BYTES {
                self.buffer.clear();
                (self.scanned, self.is_skipping) = (0, true);
            }
            let read = match &mut self.stream {
                Some(stream) => stream.read(&mut self.chunk).await.unwrap_or(0),
                None => 0,
            };
            self.buffer.extend_from_slice(&self.chunk[..read]);
            if read == 0 {
                self.stream = None;
                let rest = std::mem::take(&mut self.buffer);
                self.scanned = 0;
                let is_line = !rest.is_empty() && !self.is_skipping;
                return is_line.then(|| String::from_utf8_lossy(&rest).into_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_lines(text: &[u8]) -> Vec<String> {
        let mut lines = ProgramLineReader::new(Some(text));
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().await {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn the_last_line_needs_no_end_and_bad_bytes_are_shown_as_such() {
        assert_eq!(read_lines(b"one\r\n\ntw\xffo").await, ["one", "", "tw\u{fffd}o"]);
        assert!(read_lines(b"").await.is_empty());
    }

    #[tokio::test]
    async fn a_line_that_never_ends_is_skipped_and_the_next_one_is_read() {
        let mut text = vec![b'x'; MAX_LINE_BYTES + MAX_LINE_BYTES / 2];
        text.extend_from_slice(b"\nnext\n");
        assert_eq!(read_lines(&text).await, ["next"]);
    }
}
