//! The lines a program writes, one after the other, each within reason.

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A line that is longer is skipped: no event of any vendor is, and memory is not for free.
const LONGEST: usize = 64 * 1024 * 1024;
const CHUNK: usize = 64 * 1024;

/// Reads lines from a stream that may not be there.
pub(super) struct Lines<S> {
    stream: Option<S>,
    chunk: Vec<u8>,
    read: Vec<u8>,
    /// How much of it has been looked at.
    looked: usize,
    is_skipping: bool,
}

impl<S: AsyncRead + Unpin> Lines<S> {
    pub(super) fn new(stream: Option<S>) -> Self {
        Self { stream, chunk: vec![0; CHUNK], read: Vec::new(), looked: 0, is_skipping: false }
    }

    /// The next line, or what is left at the end. A stream that cannot be read any more has ended.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.read[self.looked..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=self.looked + end).collect();
                self.looked = 0;
                if !std::mem::take(&mut self.is_skipping) {
                    return Some(String::from_utf8_lossy(&line).trim_end().to_owned());
                }
                continue;
            }
            self.looked = self.read.len();
            if self.looked > LONGEST {
                self.read.clear();
                (self.looked, self.is_skipping) = (0, true);
            }
            let read = match &mut self.stream {
                Some(stream) => stream.read(&mut self.chunk).await.unwrap_or(0),
                None => 0,
            };
            self.read.extend_from_slice(&self.chunk[..read]);
            if read == 0 {
                self.stream = None;
                let rest = std::mem::take(&mut self.read);
                self.looked = 0;
                let is_line = !rest.is_empty() && !self.is_skipping;
                return is_line.then(|| String::from_utf8_lossy(&rest).into_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8]) -> Vec<String> {
        let mut lines = Lines::new(Some(text));
        let mut all = Vec::new();
        while let Some(line) = lines.next().await {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn the_last_line_needs_no_end_and_bad_bytes_are_shown_as_such() {
        assert_eq!(lines(b"one\r\n\ntw\xffo").await, ["one", "", "tw\u{fffd}o"]);
        assert!(lines(b"").await.is_empty());
    }

    #[tokio::test]
    async fn a_line_that_never_ends_is_skipped_and_the_next_one_is_read() {
        let mut text = vec![b'x'; LONGEST + LONGEST / 2];
        text.extend_from_slice(b"\nnext\n");
        assert_eq!(lines(&text).await, ["next"]);
    }
}
