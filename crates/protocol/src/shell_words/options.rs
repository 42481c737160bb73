//! Options of a program that take a value.

/// The options of a program that take a value. Every other option takes none.
#[derive(Clone, Copy, Debug)]
pub struct OptionTable {
    /// Letters of short options: `ks` for `-k` and `-s`.
    pub short: &'static str,
    /// Long options with their dashes: `--signal`.
    pub long: &'static [&'static str],
}

/// The place of the value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionValue {
    /// The option takes no value.
    None,
    /// The rest of the word from this byte, as in `-n5` and `--signal=KILL`.
    Attached(usize),
    /// The next word.
    NextWord,
}

impl OptionTable {
    /// Table of a program without such options.
    pub(super) const EMPTY: Self = Self { short: "", long: &[] };

    /// Returns the place of the value that belongs to the option `word`.
    pub(super) fn value_of(&self, word: &str) -> OptionValue {
        if let Some(long) = word.strip_prefix("--") {
            let name_length = long.find('=').map_or(word.len(), |at| at + 2);
            return match self.long.contains(&&word[..name_length]) {
                true if name_length < word.len() => OptionValue::Attached(name_length + 1),
                true => OptionValue::NextWord,
                false => OptionValue::None,
            };
        }
        // Single-dash long options, such as `-config`.
        if self.long.contains(&word) {
            return OptionValue::NextWord;
        }
        let taker = word.char_indices().skip(1).find(|(_, c)| self.short.contains(*c));
        match taker.map(|(at, c)| at + c.len_utf8()) {
            None => OptionValue::None,
            Some(end) if end < word.len() => OptionValue::Attached(end),
            Some(_) => OptionValue::NextWord,
        }
    }

    /// Returns the number of words that the options at the beginning of `words` take, with their values.
    pub fn leading_words(&self, words: &[&str]) -> usize {
        let mut at = 0;
        while let Some(word) = words.get(at).filter(|word| is_option(word)) {
            at += 1;
            if *word == "--" {
                break;
            }
            at += usize::from(self.value_of(word) == OptionValue::NextWord);
        }
        at.min(words.len())
    }
}

/// Returns true for a word that a program reads as an option; `-` alone is an operand.
pub fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with(['-', '+'])
}
