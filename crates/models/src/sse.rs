//! Server-sent events: bytes in, the data of events out.

/// Splits a byte stream into the data of its events. Pieces may end anywhere, also inside a character.
#[derive(Debug, Default)]
pub struct SseDecoder {
    buffer: Vec<u8>,
    /// Data lines of the event that has begun.
    data: Vec<String>,
}

impl SseDecoder {
    /// Adds bytes, and returns the data of each event that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        // The rest of the last piece has no end of a line: a long line is not searched again with each piece.
        let mut searched = self.buffer.len();
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        let mut begin = 0;
        while let Some(length) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
            let end = searched + length;
            let line = String::from_utf8_lossy(&self.buffer[begin..end]).into_owned();
            begin = end + 1;
            searched = begin;
            events.extend(self.read_line(line.trim_end_matches('\r')));
        }
        self.buffer.drain(..begin);
        events
    }

    /// Returns the data of an event without the empty line after it, which some servers omit at the end.
    pub fn finish(mut self) -> Option<String> {
        let rest = String::from_utf8_lossy(&self.buffer).into_owned();
        let ended = self.read_line(rest.trim_end_matches('\r'));
        ended.or_else(|| self.read_line(""))
    }

    /// Returns the number of bytes of the line that has no end yet.
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn read_line(&mut self, line: &str) -> Option<String> {
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            return (!data.is_empty()).then(|| data.join("\n"));
        }
        if let Some(data) = line.strip_prefix("data:") {
            self.data.push(data.strip_prefix(' ').unwrap_or(data).to_owned());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_their_bytes_arrive() {
        let stream = ": hello\nevent: a\r\ndata: {\"x\":\r\ndata: \"é€\"}\r\n\r\nid: 7\ndata:2\n\n\n\ndata: last";
        let expected = ["{\"x\":\n\"é€\"}", "2", "last"];
        for size in [1, 2, 3, 7, 1000] {
            let mut decoder = SseDecoder::default();
            let mut events = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                events.extend(decoder.push(piece));
            }
            events.extend(decoder.finish());
            assert_eq!(events, expected, "{size}");
        }
    }
}
