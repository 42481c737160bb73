//! Numbers and ids. Each is its own type, so that the compiler rejects a seq in the place of an epoch.

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
            /// Wraps a number that came from a store or a caller.
            pub const fn new(number: i64) -> Self { Self(number) }
            /// Returns the number, for storage and display.
            pub const fn get(self) -> i64 { self.0 }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
    )*};
}
numbers! {
    /// Row id of an instance in the store.
    WorkflowId,
    /// Position of a message in the total order of its instance, from 1.
    Seq,
    /// Number of an attempt, rising with each lease of its agent.
    Epoch,
    /// Position of an event in the log of its instance, from 1.
    Position,
    /// Number of a document's revision, from 1.
    Revision,
    /// Number of a proposal in its instance, from 1.
    ProposalId,
    /// Number of a question in its instance, from 1.
    QuestionId,
    /// Number of an approval request in its instance, from 1.
    ApprovalId,
    /// Number of a grant in its instance, from 1.
    GrantId,
}

macro_rules! uuids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(Uuid);
        impl $name {
            /// Wraps an id made by the caller, which has the clock and the randomness.
            pub const fn new(id: Uuid) -> Self { Self(id) }
            /// Returns the underlying UUID.
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
    /// Id of one execution of an instance.
    RunId,
    /// Id of one try at an activation.
    AttemptId,
}

/// Id of a resource: the SHA-256 of its content, in hex.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceId(Hash);

/// Error for a text that is not 64 hex digits.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a resource's id: 64 hex digits, as `resource_create` returned them")]
pub struct BadResourceId(String);

impl ResourceId {
    /// Wraps the hash of a content.
    pub const fn new(hash: Hash) -> Self {
        Self(hash)
    }
    /// Returns the hash of the content.
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
