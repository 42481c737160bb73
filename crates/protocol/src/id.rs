//! Numbers and ids. Each is a type, so that a seq is never taken for an epoch.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::effect::Hash;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(i64);
        impl $name {
            /// Takes a number that came from a store or a caller.
            pub const fn new(number: i64) -> Self { Self(number) }
            /// The number, for storage and display.
            pub const fn get(self) -> i64 { self.0 }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
    )*};
}
numbers! {
    /// An instance's row.
    WorkflowId,
    /// A message's place in its instance's one order, from 1.
    Seq,
    /// An attempt's number, rising with each lease of its agent.
    Epoch,
    /// An event's place in its instance's log, from 1.
    Position,
    /// A document's revision, from 1.
    Revision,
    /// A proposal's number in its instance, from 1.
    ProposalId,
    /// A question's number in its instance, from 1.
    QuestionId,
    /// A request's number in its instance, from 1.
    ApprovalId,
}

macro_rules! uuids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(Uuid);
        impl $name {
            /// Takes an id made by the caller, who has the clock and the randomness.
            pub const fn new(id: Uuid) -> Self { Self(id) }
            /// The id's bits.
            pub const fn get(self) -> Uuid { self.0 }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, uuid::Error> { text.parse().map(Self) }
        }
    )*};
}
uuids! {
    /// One execution of an instance.
    RunId,
    /// One try at an activation.
    AttemptId,
}

/// A resource: the SHA-256 of its content, in hex.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceId(Hash);

/// Text that is not 64 hex digits.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a resource's id: 64 hex digits, as `resource_create` returned them")]
pub struct BadResourceId(String);

impl ResourceId {
    /// Takes the hash of a content.
    pub const fn new(hash: Hash) -> Self {
        Self(hash)
    }
    /// The hash.
    pub const fn get(self) -> Hash {
        self.0
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for ResourceId {
    type Err = BadResourceId;
    fn from_str(text: &str) -> Result<Self, BadResourceId> {
        let bad = || BadResourceId(text.chars().take(80).collect());
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let mut hash = [0; 32];
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| bad())?;
        }
        Ok(Self(hash))
    }
}

impl TryFrom<String> for ResourceId {
    type Error = BadResourceId;
    fn try_from(text: String) -> Result<Self, BadResourceId> {
        text.parse()
    }
}
impl From<ResourceId> for String {
    fn from(id: ResourceId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_id_reads_what_it_writes() {
        let id = ResourceId::new(crate::hash(&[b"content"]));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("é".repeat(32).parse::<ResourceId>().is_err());
        assert!("ab".parse::<ResourceId>().is_err());
    }
}
