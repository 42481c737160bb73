//! Enums with one keyword per variant. `strum` derives the conversions; the trait gives them one short name.

use std::str::FromStr;

/// An enum that is stored, shown and typed as a keyword.
pub trait Keyword: Copy + Into<&'static str> + FromStr {
    /// Returns the keyword of the variant.
    fn word(self) -> &'static str {
        self.into()
    }
}

impl<T: Copy + Into<&'static str> + FromStr> Keyword for T {}
