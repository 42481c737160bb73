//! Enums that are one word each: the word, and the way back.

macro_rules! words {
    ($($ty:ident { $($arm:ident => $word:literal),* $(,)? })*) => {$(
        impl $ty {
            /// Its one word, as stored, shown and typed.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$arm => $word),* }
            }
            /// Reads the word back.
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
