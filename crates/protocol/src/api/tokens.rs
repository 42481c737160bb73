//! Tokens of clients.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    scope::{InstancePattern, Permission, Scopes},
    time::Millis,
};

/// Body of `POST /tokens`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    pub name: String,
    /// Permissions of the token; absent: read, send, documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<BTreeSet<Permission>>,
    /// Instances as `@workflow:tag` with `*` for any, or folders; absent or empty: every instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstancePattern>,
    /// Variables that the token may set for runs and agents; absent: only those that a workflow file declares.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub env: BTreeSet<String>,
}

impl TokenRequest {
    /// Returns the scopes that the token gets.
    pub fn scopes(self) -> Scopes {
        let allow = self.allow.unwrap_or_else(|| Scopes::default().allow);
        Scopes { allow, instances: self.instances, env: self.env }
    }
}

/// Reply to [`TokenRequest`], the only one that contains the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenCreated {
    pub name: String,
    /// Secret of the token.
    pub token: String,
}

/// One token; `GET /tokens` returns a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenView {
    pub name: String,
    /// Time of creation.
    pub created: Millis,
    /// Permissions and instances of the token.
    #[serde(flatten)]
    pub scopes: Scopes,
}
