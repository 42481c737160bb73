//! Clients' tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Millis;

/// `POST /tokens`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenRequest {
    /// What it is called.
    pub name: String,
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
}
