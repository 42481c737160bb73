//! A line of `events.jsonl`: an event as JSON, with a checksum of the line as its last field.
//!
//! The checksum detects bytes that changed on the disk. Lines of an earlier version have no checksum and are
//! accepted.

use xxhash_rust::xxh3::xxh3_128;

use crate::NumberedEvent;

/// Bytes before and after the checksum.
const CHECKSUM_PREFIX: &[u8] = b",\"xxh3\":\"";
const CHECKSUM_SUFFIX: &[u8] = b"\"}";
const CHECKSUM_DIGITS: usize = 32;

/// Reason for which a line is no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadEventLine {
    /// The line was written only in part, or never was an event.
    NotAnEvent,
    /// The line does not match its checksum.
    Damaged,
}

impl NumberedEvent {
    /// Writes the event as a line, including the newline.
    pub fn to_line(&self) -> serde_json::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        // The brace that ends the object comes after the checksum.
        line.pop();
        let checksum = xxh3_128(&line);
        line.extend_from_slice(CHECKSUM_PREFIX);
        line.extend_from_slice(format!("{checksum:0CHECKSUM_DIGITS$x}").as_bytes());
        line.extend_from_slice(CHECKSUM_SUFFIX);
        line.push(b'\n');
        Ok(line)
    }

    /// Parses a line without its newline.
    pub fn from_line(line: &[u8]) -> Result<Self, BadEventLine> {
        if let Some((content, checksum)) = split_checksum(line)
            && format!("{:0CHECKSUM_DIGITS$x}", xxh3_128(content)).as_bytes() != checksum
        {
            return Err(BadEventLine::Damaged);
        }
        serde_json::from_slice(line).map_err(|_| BadEventLine::NotAnEvent)
    }
}

/// Splits a line into the part before its checksum and the checksum.
fn split_checksum(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_suffix(CHECKSUM_SUFFIX)?;
    let (content, checksum) = line.split_at_checked(line.len().checked_sub(CHECKSUM_DIGITS)?)?;
    Some((content.strip_suffix(CHECKSUM_PREFIX)?, checksum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Finished, Millis, WorkerEvent, WorkerOutcome};

    #[test]
    fn no_flipped_bit_of_a_line_makes_another_event() {
        let finished =
            Finished { text: "the answer".into(), outcome: WorkerOutcome::Ok, session: None };
        let event =
            NumberedEvent { no: 3, ts: Millis::new(7), event: WorkerEvent::Finished(finished) };
        let line = event.to_line().unwrap();
        let (end, line) = line.split_last().unwrap();
        assert_eq!((*end, NumberedEvent::from_line(line)), (b'\n', Ok(event.clone())));
        for bit in 0..line.len() * 8 {
            let mut flipped = line.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let read = NumberedEvent::from_line(&flipped);
            assert!(read.is_err() || read.as_ref() == Ok(&event), "bit {bit}: {read:?}");
        }
        let mut flipped = line.to_vec();
        let place = line.windows(6).position(|part| part == b"answer").unwrap();
        flipped[place] ^= 1;
        assert_eq!(NumberedEvent::from_line(&flipped), Err(BadEventLine::Damaged));
    }

    #[test]
    fn a_line_of_an_earlier_version_is_read_and_half_a_line_is_none() {
        let event = NumberedEvent {
            no: 1,
            ts: Millis::new(1),
            event: WorkerEvent::Started { pid: 7, sandbox: None },
        };
        let old = serde_json::to_vec(&event).unwrap();
        assert_eq!(NumberedEvent::from_line(&old), Ok(event.clone()));
        let line = event.to_line().unwrap();
        let half = &line[..line.len() / 2];
        assert_eq!(NumberedEvent::from_line(half), Err(BadEventLine::NotAnEvent));
    }
}
