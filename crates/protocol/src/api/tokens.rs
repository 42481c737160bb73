//! Clients' tokens.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    scope::{InstancePattern, Permission, Scopes},
    time::Millis,
};

/// `POST /tokens`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// What it is called.
    pub name: String,
    /// What may be done with it; absent: read, send, documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<BTreeSet<Permission>>,
    /// Where, as `@workflow:tag` with `*` for any, or a folder; absent or empty: everywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstancePattern>,
}

impl TokenRequest {
    /// What the token is to be good for.
    pub fn scopes(self) -> Scopes {
        let allow = self.allow.unwrap_or_else(|| Scopes::default().allow);
        Scopes { allow, instances: self.instances }
    }
}

/// The answer to [`TokenRequest`]: the only time the secret is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenCreated {
    /// What it is called.
    pub name: String,
    /// The secret.
    pub token: String,
}

/// `GET /tokens` gives a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenView {
    /// What it is called.
    pub name: String,
    /// When it was made.
    pub created: Millis,
    /// What it is good for.
    #[serde(flatten)]
    pub scopes: Scopes,
}
