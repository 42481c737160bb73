//! `context:` what the agents share, and where it is kept.

use serde::{Deserialize, Serialize};

use crate::{
    error::Complaint,
    fields::{Field, Keys},
    tree::Yaml,
};

const KEYS: Keys = Keys {
    known: &["provider", "documents"],
    later: &["documentOwner", "config", "channel", "document"],
};

/// What the agents of a workflow share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Where channel and documents are kept.
    pub provider: Provider,
    /// Where documents are kept.
    pub documents: Documents,
}

/// Where the channel is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// In the daemon's database, for good.
    Sqlite,
    /// Until the run ends.
    Memory,
    /// The agents share nothing.
    Off,
}

/// Where documents are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Documents {
    /// In the store alone.
    Store,
    /// There are none.
    Off,
}

impl Default for Context {
    fn default() -> Self {
        Self { provider: Provider::Sqlite, documents: Documents::Store }
    }
}

/// `false` is no context; absent and `null` are not asked here: they are the default.
pub(crate) fn read(field: &Field<'_>) -> Result<Context, Complaint> {
    match field.node.value {
        Yaml::Bool(false) => {
            return Ok(Context { provider: Provider::Off, documents: Documents::Off });
        }
        Yaml::Map(_) => {}
        _ => return Err(field.must("a mapping or `false`")),
    }
    let fields = field.fields(&KEYS)?;
    let provider = fields.get("provider").map(|field| {
        field.word(&[("sqlite", Provider::Sqlite), ("memory", Provider::Memory)], &["file"])
    });
    let documents = fields.get("documents").map(|field| {
        field.word(&[("store", Documents::Store), ("sqlite", Documents::Store)], &["file"])
    });
    let default = Context::default();
    Ok(Context {
        provider: provider.transpose()?.unwrap_or(default.provider),
        documents: documents.transpose()?.unwrap_or(default.documents),
    })
}
