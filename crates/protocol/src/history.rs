//! History of a turn: the texts that a worker reports whole, and the mode in which the daemon keeps them.
//!
//! Not here: the short form of calls and results, which is data of events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

/// Maximum size of one stored text; a longer one is cut.
pub const MAX_HISTORY_TEXT_BYTES: usize = 256 * 1024;
/// Maximum size of all texts of a run; later ones are kept short.
pub const MAX_HISTORY_RUN_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum size of a prompt or of words that are kept short.
pub const MAX_SHORT_TEXT_BYTES: usize = 2 * 1024;

/// Mode of the history of a run's turns: `history` in the workflow file.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum HistoryMode {
    /// Prompts, words, arguments and results are kept whole.
    #[default]
    Full,
    /// Only their beginnings are kept.
    Short,
    /// Neither prompts nor words are kept; calls are kept as in the event log.
    Off,
}

impl HistoryMode {
    /// Returns true for the default, which serialization omits.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Completeness of a text in the history of a turn.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum TextState {
    /// The whole text is kept.
    Whole,
    /// The text is longer than 256 KiB, and its beginning is kept.
    Cut,
    /// The workflow file has `history: short`, and the beginning is kept.
    Short,
    /// The texts of the run have reached 64 MiB, and the beginning is kept.
    Limit,
    /// The workflow file has `history: off`.
    Off,
    /// The text could not be stored.
    Lost,
    /// The text was deleted because of its age.
    Expired,
    /// The stored text is damaged.
    Damaged,
}

/// State of the history of an attempt.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum HistoryState {
    /// No history: the attempt has reported none yet, or an earlier version ran it.
    None,
    /// Everything is kept, up to 256 KiB of each text.
    Full,
    /// Only beginnings are kept: `history: short`.
    Short,
    /// Neither prompts nor words are kept: `history: off`.
    Off,
    /// The texts of the run have reached 64 MiB; later ones are kept short.
    Limit,
    /// A text could not be stored.
    Lost,
    /// The history was deleted because of its age.
    Expired,
}

impl From<HistoryMode> for HistoryState {
    fn from(mode: HistoryMode) -> Self {
        match mode {
            HistoryMode::Full => Self::Full,
            HistoryMode::Short => Self::Short,
            HistoryMode::Off => Self::Off,
        }
    }
}

/// Text for the history, as a worker reports it. Secrets are replaced already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryText {
    /// The text or its beginning; absent if only the short form in the event is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Size of the whole text.
    pub bytes: u64,
    /// Completeness of `text`.
    pub state: TextState,
}

impl HistoryText {
    /// Makes a text of this mode: whole, or its beginning.
    pub fn of(text: String, mode: HistoryMode) -> Self {
        let bytes = text.len() as u64;
        let whole = Self { text: Some(text), bytes, state: TextState::Whole };
        match mode {
            HistoryMode::Full => whole.cut_to(MAX_HISTORY_TEXT_BYTES, TextState::Cut),
            HistoryMode::Short => whole.cut_to(MAX_SHORT_TEXT_BYTES, TextState::Short),
            HistoryMode::Off => Self { text: None, bytes, state: TextState::Off },
        }
    }

    /// Makes a text of which only the short form in the event is kept.
    pub fn omitted(bytes: usize, state: TextState) -> Self {
        Self { text: None, bytes: bytes as u64, state }
    }

    /// Cuts a longer text to its first `most` bytes, at a character boundary.
    #[must_use]
    pub fn cut_to(mut self, most: usize, state: TextState) -> Self {
        if let Some(text) = &mut self.text
            && text.len() > most
        {
            text.truncate(text.floor_char_boundary(most));
            self.state = state;
        }
        self
    }

    /// Drops a text that could not be stored.
    pub fn lose(&mut self) {
        if self.text.take().is_some() {
            self.state = TextState::Lost;
        }
    }

    /// Returns the number of bytes that are present.
    pub fn present_bytes(&self) -> usize {
        self.text.as_ref().map_or(0, String::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_whole_cut_or_left_out() {
        let long = "é".repeat(MAX_HISTORY_TEXT_BYTES / 2 + 1);
        for (text, mode, present, state) in [
            ("short", HistoryMode::Full, 5, TextState::Whole),
            (&*long, HistoryMode::Full, MAX_HISTORY_TEXT_BYTES, TextState::Cut),
            ("short", HistoryMode::Short, 5, TextState::Whole),
            (&*long, HistoryMode::Short, MAX_SHORT_TEXT_BYTES, TextState::Short),
            ("short", HistoryMode::Off, 0, TextState::Off),
        ] {
            let made = HistoryText::of(text.to_owned(), mode);
            assert_eq!((made.present_bytes(), made.state), (present, state), "{mode}");
            assert_eq!(made.bytes, text.len() as u64, "{mode}");
        }
    }
}
