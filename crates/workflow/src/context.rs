//! `context:` what the agents share, and where it is kept.

use serde::{Deserialize, Serialize};

use crate::{
    complaint::Complaints,
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
pub(crate) fn read(field: &Field<'_>, complaints: &mut Complaints) -> Context {
    let default = Context::default();
    match field.node.value {
        Yaml::Bool(false) => {
            return Context { provider: Provider::Off, documents: Documents::Off };
        }
        Yaml::Map(_) => {}
        _ => {
            complaints.add(field.must("a mapping or `false`"));
            return default;
        }
    }
    let Some(fields) = field.fields(&KEYS, complaints) else { return default };
    let providers = [("sqlite", Provider::Sqlite), ("memory", Provider::Memory)];
    let documents = [("store", Documents::Store), ("sqlite", Documents::Store)];
    let provider = fields.take("provider", complaints, |field| field.word(&providers, &["file"]));
    let documents = fields.take("documents", complaints, |field| field.word(&documents, &["file"]));
    Context {
        provider: provider.unwrap_or(default.provider),
        documents: documents.unwrap_or(default.documents),
    }
}
