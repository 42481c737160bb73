//! Keys from the bytes of a terminal. Pure.
//!
//! A key may arrive in parts: a character of several bytes, an escape sequence over a slow connection, a paste. Bytes that
//! stand for no known key are dropped, so that no part of a sequence becomes text.

/// Escape sequences around a pasted text.
const PASTE_END: &[u8] = b"\x1b[201~";
/// Maximum length of an escape sequence in bytes; a longer one is dropped.
const MAX_SEQUENCE_BYTES: usize = 32;
/// Maximum length of a pasted text in bytes; the rest is dropped.
const MAX_PASTE_BYTES: usize = 64 * 1024;

const ESCAPE: u8 = 0x1b;

/// A key, or a text that was pasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TypedKey {
    /// A character of the text.
    Character(char),
    /// A pasted text, with its line breaks.
    Paste(String),
    Enter,
    Escape,
    Tab,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    /// Home or Ctrl-A.
    LineStart,
    /// End or Ctrl-E.
    LineEnd,
    PageUp,
    PageDown,
    /// Ctrl-W, which deletes the word before the cursor.
    DeleteWord,
    /// Ctrl-U, which deletes the text before the cursor.
    DeleteToStart,
    /// Ctrl-K, which deletes the text behind the cursor.
    DeleteToEnd,
    /// Ctrl-D, which ends the input of an empty line.
    EndOfInput,
    /// Any other key, which has no effect of its own.
    Other,
}

/// The bytes that are not yet a key.
#[derive(Debug, Default)]
pub(crate) struct KeyDecoder {
    pending: Vec<u8>,
    /// Text of the current paste.
    pasted: Option<Vec<u8>>,
}

/// The start of the pending bytes.
enum DecodedStart {
    /// A key of this many bytes.
    Key(usize, TypedKey),
    /// The start of a paste, of this many bytes.
    PasteStart(usize),
    /// Bytes without a meaning.
    Dropped(usize),
    /// More bytes decide.
    Incomplete,
}

impl KeyDecoder {
    /// Returns the keys that the next bytes complete.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> Vec<TypedKey> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while !self.pending.is_empty() {
            if let Some(pasted) = &mut self.pasted {
                let Some(end) = take_pasted(&mut self.pending, pasted) else { break };
                if end == PasteProgress::Complete {
                    let text = self.pasted.take().unwrap_or_default();
                    keys.push(TypedKey::Paste(normalized_paste(&text)));
                }
                continue;
            }
            let length = match decode_start(&self.pending) {
                DecodedStart::Key(length, key) => {
                    keys.push(key);
                    length
                }
                DecodedStart::PasteStart(length) => {
                    self.pasted = Some(Vec::new());
                    length
                }
                DecodedStart::Dropped(length) => length,
                DecodedStart::Incomplete => break,
            };
            self.pending.drain(..length);
        }
        keys
    }

    /// Returns the key that the pending bytes are if none follows: Escape alone. Other unfinished bytes are dropped.
    pub(crate) fn finish(&mut self) -> Option<TypedKey> {
        if self.pasted.is_some() {
            return None;
        }
        let pending = std::mem::take(&mut self.pending);
        (pending == [ESCAPE]).then_some(TypedKey::Escape)
    }
}

#[derive(PartialEq, Eq)]
enum PasteProgress {
    Complete,
    MoreFollows,
}

/// Moves pasted bytes out of `pending`; `None` if only a possible start of the end mark is left.
fn take_pasted(pending: &mut Vec<u8>, pasted: &mut Vec<u8>) -> Option<PasteProgress> {
    let end = pending.windows(PASTE_END.len()).position(|window| window == PASTE_END);
    let length = match end {
        Some(end) => end,
        None => pending.len() - unfinished_mark(pending),
    };
    let kept = length.min(MAX_PASTE_BYTES.saturating_sub(pasted.len()));
    pasted.extend_from_slice(&pending[..kept]);
    match end {
        Some(end) => {
            pending.drain(..end + PASTE_END.len());
            Some(PasteProgress::Complete)
        }
        None if length == 0 => None,
        None => {
            pending.drain(..length);
            Some(PasteProgress::MoreFollows)
        }
    }
}

/// Returns the number of bytes at the end that may be the start of the mark behind a paste.
fn unfinished_mark(pending: &[u8]) -> usize {
    let longest = PASTE_END.len().min(pending.len());
    (1..=longest).rev().find(|length| pending.ends_with(&PASTE_END[..*length])).unwrap_or(0)
}

/// Returns a pasted text with line feeds as line breaks; a terminal sends carriage returns.
fn normalized_paste(text: &[u8]) -> String {
    String::from_utf8_lossy(text).replace("\r\n", "\n").replace('\r', "\n")
}

fn decode_start(bytes: &[u8]) -> DecodedStart {
    match bytes {
        [] | [ESCAPE] | [ESCAPE, b'O'] => DecodedStart::Incomplete,
        [ESCAPE, b'[', rest @ ..] => decode_sequence(rest),
        [ESCAPE, b'O', last, ..] => DecodedStart::Key(3, key_of_letter(*last)),
        // A second Escape may begin a sequence of its own.
        [ESCAPE, ESCAPE, ..] => DecodedStart::Dropped(1),
        [ESCAPE, ..] => match decode_character(&bytes[1..]) {
            // A key together with Alt.
            DecodedStart::Key(length, _) => DecodedStart::Key(length + 1, TypedKey::Other),
            other => other,
        },
        _ => decode_character(bytes),
    }
}

/// Decodes the bytes behind `ESC [`.
fn decode_sequence(rest: &[u8]) -> DecodedStart {
    const START: usize = 2;
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return match rest.len() {
            0..=MAX_SEQUENCE_BYTES => DecodedStart::Incomplete,
            length => DecodedStart::Dropped(START + length),
        };
    };
    let length = START + end + 1;
    let first = rest[..end].split(|byte| *byte == b';').next().unwrap_or_default();
    let key = match (rest[end], first) {
        (b'~', b"200") => return DecodedStart::PasteStart(length),
        (b'~', b"1" | b"7") => TypedKey::LineStart,
        (b'~', b"4" | b"8") => TypedKey::LineEnd,
        (b'~', b"3") => TypedKey::Delete,
        (b'~', b"5") => TypedKey::PageUp,
        (b'~', b"6") => TypedKey::PageDown,
        (b'~', _) => TypedKey::Other,
        (letter, _) => key_of_letter(letter),
    };
    DecodedStart::Key(length, key)
}

fn key_of_letter(letter: u8) -> TypedKey {
    match letter {
        b'A' => TypedKey::Up,
        b'B' => TypedKey::Down,
        b'C' => TypedKey::Right,
        b'D' => TypedKey::Left,
        b'H' => TypedKey::LineStart,
        b'F' => TypedKey::LineEnd,
        _ => TypedKey::Other,
    }
}

/// Decodes a character or a control character.
fn decode_character(bytes: &[u8]) -> DecodedStart {
    let Some(first) = bytes.first() else { return DecodedStart::Incomplete };
    let key = match first {
        b'\r' | b'\n' => TypedKey::Enter,
        b'\t' => TypedKey::Tab,
        0x7f | 0x08 => TypedKey::Backspace,
        0x01 => TypedKey::LineStart,
        0x02 => TypedKey::Left,
        0x04 => TypedKey::EndOfInput,
        0x05 => TypedKey::LineEnd,
        0x06 => TypedKey::Right,
        0x0b => TypedKey::DeleteToEnd,
        0x0e => TypedKey::Down,
        0x10 => TypedKey::Up,
        0x15 => TypedKey::DeleteToStart,
        0x17 => TypedKey::DeleteWord,
        0x00..=0x1f => TypedKey::Other,
        _ => return decode_text(bytes),
    };
    DecodedStart::Key(1, key)
}

fn decode_text(bytes: &[u8]) -> DecodedStart {
    let text = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(text) {
        Ok(valid) => valid,
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => {
            return match error.error_len() {
                Some(length) => DecodedStart::Dropped(length),
                None => DecodedStart::Incomplete,
            };
        }
    };
    match valid.chars().next() {
        Some(character) => DecodedStart::Key(character.len_utf8(), TypedKey::Character(character)),
        None => DecodedStart::Incomplete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn characters(text: &str) -> Vec<TypedKey> {
        text.chars().map(TypedKey::Character).collect()
    }

    /// Returns the keys of bytes that arrive in these parts.
    fn decoded(parts: &[&[u8]]) -> Vec<TypedKey> {
        let mut decoder = KeyDecoder::default();
        let mut keys: Vec<_> = parts.iter().flat_map(|part| decoder.decode(part)).collect();
        keys.extend(decoder.finish());
        keys
    }

    #[test]
    fn every_editing_key_is_decoded_from_its_bytes() {
        use TypedKey::*;
        for (bytes, key) in [
            (&b"\r"[..], Enter),
            (b"\n", Enter),
            (b"\t", Tab),
            (b"\x1b", Escape),
            (b"\x7f", Backspace),
            (b"\x08", Backspace),
            (b"\x1b[3~", Delete),
            (b"\x1b[D", Left),
            (b"\x1bOD", Left),
            (b"\x1b[C", Right),
            (b"\x1b[1;5C", Right),
            (b"\x1b[A", Up),
            (b"\x1bOB", Down),
            (b"\x1b[H", LineStart),
            (b"\x1b[1~", LineStart),
            (b"\x01", LineStart),
            (b"\x1b[F", LineEnd),
            (b"\x1b[4~", LineEnd),
            (b"\x05", LineEnd),
            (b"\x1b[5~", PageUp),
            (b"\x1b[6~", PageDown),
            (b"\x15", DeleteToStart),
            (b"\x0b", DeleteToEnd),
            (b"\x17", DeleteWord),
            (b"\x04", EndOfInput),
            (b"\x1b[15~", Other),
            (b"\x1b[Z", Other),
            (b"\x1by", Other),
            (b"\x00", Other),
        ] {
            assert_eq!(decoded(&[bytes]), [key], "{bytes:?}");
        }
    }

    #[test]
    fn a_key_may_arrive_in_parts() {
        let all = "nö请👍".as_bytes();
        let single: Vec<&[u8]> = all.chunks(1).collect();
        assert_eq!(decoded(&single), characters("nö请👍"));
        assert_eq!(decoded(&[b"\x1b", b"[", b"A"]), [TypedKey::Up]);
        assert_eq!(
            decoded(&[b"a\x1b[1;", b"5Cb"]),
            [TypedKey::Character('a'), TypedKey::Right, TypedKey::Character('b'),]
        );
    }

    #[test]
    fn a_paste_is_one_text_also_in_parts_and_with_escape_sequences_in_it() {
        let paste = |text: &str| vec![TypedKey::Paste(text.to_owned())];
        assert_eq!(decoded(&[b"\x1b[200~one\r\ntwo\rthree\x1b[201~"]), paste("one\ntwo\nthree"));
        let whole = b"\x1b[200~a\x1b[A\x1b[2\x1b[201~";
        for at in 1..whole.len() {
            let (first, rest) = whole.split_at(at);
            assert_eq!(decoded(&[first, rest]), paste("a\u{1b}[A\u{1b}[2"), "{at}");
        }
        let long = [b"\x1b[200~", "x".repeat(100_000).as_bytes(), PASTE_END, b"y"].concat();
        let keys = decoded(&[&long]);
        assert_eq!(keys, [paste(&"x".repeat(MAX_PASTE_BYTES)), characters("y")].concat());
    }

    #[test]
    fn bytes_without_a_meaning_are_dropped() {
        assert_eq!(decoded(&[b"a\xffb"]), characters("ab"));
        assert_eq!(decoded(&[b"a\xc3"]), characters("a"));
        assert_eq!(decoded(&[b"\x1b\x1b[A"]), [TypedKey::Up]);
        let endless = [&b"\x1b["[..], &[b'1'; 40], b"x"].concat();
        assert_eq!(decoded(&[&endless[..42], &endless[42..]]), characters("x"));
        assert_eq!(decoded(&[b"\x1b["]), []);
    }
}
