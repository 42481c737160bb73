//! Macro for enums with one word per variant: the conversion to the word and back.

macro_rules! words {
    ($($ty:ident { $($arm:ident => $word:literal),* $(,)? })*) => {$(
        impl $ty {
            /// Returns the word of the variant, as stored, shown and typed.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$arm => $word),* }
            }
            /// Parses the word of a variant.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$arm),)* _ => None }
            }
        }
        impl std::fmt::Display for $ty {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.pad(self.word()) }
        }
    )*};
}

/// Defines an enum that is one word each, and can be listed.
macro_rules! word_enum {
    ($(#[$attribute:meta])* pub enum $name:ident { $($(#[$about:meta])* $arm:ident => $word:literal),* $(,)? }) => {
        $(#[$attribute])*
        pub enum $name { $($(#[$about])* $arm),* }

        impl $name {
            /// Every one, in the order in which they are listed.
            pub const ALL: &[Self] = &[$(Self::$arm),*];

            /// Its word on the wire and on the command line.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$arm => $word),* }
            }
        }
    };
}

pub(crate) use {word_enum, words};
