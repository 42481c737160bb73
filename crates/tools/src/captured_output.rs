//! The output of a command, of which only the beginning and the end are kept: a command may print any amount.

/// Size of the kept beginning.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Size of the kept end.
const MAX_TAIL_BYTES: usize = 192 * 1024;

/// The beginning and the end of an output.
#[derive(Debug, Default)]
pub(crate) struct CapturedOutput {
    head: Vec<u8>,
    tail: Vec<u8>,
    total: u64,
}

impl CapturedOutput {
    /// Adds the next piece.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.total += piece.len() as u64;
        let (start, rest) = piece.split_at(piece.len().min(MAX_HEAD_BYTES - self.head.len()));
        self.head.extend_from_slice(start);
        self.tail.extend_from_slice(rest);
        // Cuts rarely, because moving the tail forward costs as much as reading it did.
        if self.tail.len() > 2 * MAX_TAIL_BYTES {
            self.tail.drain(..self.tail.len() - MAX_TAIL_BYTES);
        }
    }

    /// Returns the text, with a note in place of the middle that was not kept.
    pub(crate) fn text(&self) -> String {
        let tail = &self.tail[self.tail.len().saturating_sub(MAX_TAIL_BYTES)..];
        let left_out = self.total - self.head.len() as u64 - tail.len() as u64;
        if left_out == 0 {
            // A character may continue in the tail.
            return text_of(&[&self.head[..], tail].concat());
        }
        let (head, tail) = (text_of(&self.head), text_of(tail));
        format!("{head}\n[{left_out} of {} bytes left out here]\n{tail}", self.total)
    }
}

/// Converts an output to text. JSON would write six characters for each NUL.
fn text_of(output: &[u8]) -> String {
    String::from_utf8_lossy(output).replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_output_is_kept_as_it_is() {
        let mut output = CapturedOutput::default();
        let text = "ä".repeat(MAX_HEAD_BYTES / 2) + "öb";
        for piece in text.as_bytes().chunks(1001) {
            output.push(piece);
        }
        assert_eq!(output.text(), text);
    }

    #[test]
    fn a_long_output_keeps_its_beginning_and_its_end_and_says_how_much_is_missing() {
        let mut output = CapturedOutput::default();
        output.push(b"first");
        let piece = vec![b'x'; 64 * 1024];
        for _ in 0..1000 {
            output.push(&piece);
        }
        output.push(b"last");
        let text = output.text();
        assert!(text.starts_with("firstx") && text.ends_with("xlast"));
        let total = 9 + 1000 * 64 * 1024;
        let left_out = total - MAX_HEAD_BYTES - MAX_TAIL_BYTES;
        assert!(text.contains(&format!("\n[{left_out} of {total} bytes left out here]\n")));
        assert!(output.tail.capacity() <= 4 * MAX_TAIL_BYTES, "{}", output.tail.capacity());
    }
}
