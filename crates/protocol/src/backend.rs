//! Backends of agents: a model's API, a vendor's program, an agent of a protocol, any other program, or a script.
//!
//! The shape of the setting only: which vendors and agents there are is in the registry (`crates/backends`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use strum::{Display, EnumString, IntoStaticStr};

use crate::mock::MockRule;

/// The way in which a worker reaches a model, with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "backend", rename_all = "snake_case")]
pub enum Backend {
    /// A script instead of a model.
    Mock {
        /// The rules of the script.
        rules: Vec<MockRule>,
    },
    /// A model, called through the API of its provider.
    Api(Api),
    /// A vendor's own agent, started for every turn.
    Native(Native),
    /// An agent that speaks the Agent Client Protocol, started for every turn.
    Acp(Acp),
    /// Any executable that reads a prompt and writes events.
    Command {
        /// The program and its arguments.
        command: Vec<String>,
    },
}

/// A model behind the API of a provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Api {
    /// Provider of the model; the registry has the rows of those whose endpoints are known.
    pub provider: String,
    /// Name of the model, as the provider spells it.
    pub model: String,
    /// Endpoint, if it is not the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Variable with the key, as `$NAME`, if it is not one of the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// Further headers of each request; a value that is `$NAME` comes from the environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Decides if a turn continues the previous conversation.
    #[serde(default)]
    pub session: SessionPolicy,
    /// Context window of the model in tokens, if it is not the one of the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// Randomness of the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Further fields of the body of each request.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// Names of the built-in tools that the model gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

/// A vendor's own agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Native {
    /// The vendor of the program.
    pub cli: VendorCli,
    /// The program and what always comes first, if it is not found by its usual name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Further arguments of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Source of the settings and the login. Absent: isolated if there is a key, else login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<CredentialMode>,
    /// Decides if a turn continues the previous conversation.
    #[serde(default)]
    pub session: SessionPolicy,
}

/// An agent that speaks the Agent Client Protocol: one whose ways are known, or any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acp {
    /// The known agent; absent for any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AcpAgent>,
    /// The program and its arguments. Of a known agent: the program and what always comes first, if it is not found by its
    /// usual name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Source of the settings and the login of a known agent. Absent: isolated if there is a key, else login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<CredentialMode>,
    /// Decides if a turn continues the previous conversation.
    #[serde(default)]
    pub session: SessionPolicy,
}

/// The name of an agent of the Agent Client Protocol, as in `agent:`. The registry has its row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct AcpAgent(String);

/// The name of a vendor's command-line agent, as in `backend:`. The registry has its row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct VendorCli(String);

/// Source of the settings and the login of a vendor's agent.
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
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum CredentialMode {
    /// A folder of its own, and a key from the environment.
    Isolated,
    /// The person's own.
    Login,
}

/// The conversation that a turn starts with.
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
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum SessionPolicy {
    /// The whole conversation, where the backend keeps it.
    #[default]
    Continue,
    /// Starts without the previous conversation.
    Fresh,
}

macro_rules! registered_names {
    ($($ty:ident)*) => {$(
        impl $ty {
            /// Returns the name, as stored, shown and typed.
            pub fn word(&self) -> &str {
                &self.0
            }
        }
        impl From<&str> for $ty {
            fn from(name: &str) -> Self {
                Self(name.to_owned())
            }
        }
        impl std::fmt::Display for $ty {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.pad(&self.0) }
        }
    )*};
}

registered_names! { AcpAgent VendorCli }

impl Backend {
    /// Its word in the file.
    pub fn word(&self) -> &str {
        match self {
            Self::Mock { .. } => "mock",
            Self::Api(_) => "api",
            Self::Native(native) => native.cli.word(),
            Self::Acp(_) => "acp",
            Self::Command { .. } => "command",
        }
    }
}
