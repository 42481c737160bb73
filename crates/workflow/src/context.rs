//! `context:` what the agents share, and where it is kept.

use agent_worker_protocol::AgentName;
use serde::{Deserialize, Serialize};

use crate::{
    complaint::{Complaint, Complaints},
    fields::{Field, Keys},
    suggest::nearest,
    tree::Yaml,
};

const KEYS: Keys = Keys {
    known: &["provider", "documents", "documentOwner"],
    later: &["config", "channel", "document"],
};

/// What the agents of a workflow share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Where channel and documents are kept.
    pub provider: Provider,
    /// Where documents are kept.
    pub documents: Documents,
    /// Which agent writes them.
    #[serde(default)]
    pub document_owner: DocumentOwner,
}

/// Which agent writes the documents. The user always may.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentOwner {
    /// Every agent does.
    #[default]
    Everybody,
    /// This one alone; the others suggest.
    Agent(AgentName),
    /// Whom they elect before the kickoff.
    Elect,
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
    /// In the store, and as files beside the workflow's.
    File,
    /// In the store alone.
    Store,
    /// There are none.
    Off,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            provider: Provider::Sqlite,
            documents: Documents::File,
            document_owner: DocumentOwner::Everybody,
        }
    }
}

/// `false` is no context; absent and `null` are not asked here: they are the default.
/// `agents` are the names as the file has them, those that were complained about too.
pub(crate) fn read(field: &Field<'_>, agents: &[&str], complaints: &mut Complaints) -> Context {
    let default = Context::default();
    match field.node.value {
        Yaml::Bool(false) => {
            return Context { provider: Provider::Off, documents: Documents::Off, ..default };
        }
        Yaml::Map(_) => {}
        _ => {
            complaints.add(field.must("a mapping or `false`"));
            return default;
        }
    }
    let Some(fields) = field.fields(&KEYS, complaints) else { return default };
    let providers = [("sqlite", Provider::Sqlite), ("memory", Provider::Memory)];
    let documents =
        [("file", Documents::File), ("store", Documents::Store), ("sqlite", Documents::Store)];
    let provider = fields.take("provider", complaints, |field| field.word(&providers, &["file"]));
    let documents = fields.take("documents", complaints, |field| {
        match (field.word(&documents, &[])?, provider) {
            (Documents::File, Some(Provider::Memory)) => Err(field
                .complaint("a run whose rows are deleted leaves no files")
                .hint("leave out `documents`, or `provider: memory`")),
            (documents, _) => Ok(documents),
        }
    });
    let usual = match provider {
        Some(Provider::Memory) => Documents::Store,
        Some(Provider::Sqlite | Provider::Off) | None => default.documents,
    };
    let owner = fields.take("documentOwner", complaints, |field| owner(field, agents));
    Context {
        provider: provider.unwrap_or(default.provider),
        documents: documents.unwrap_or(usual),
        document_owner: owner.unwrap_or(default.document_owner),
    }
}

/// One of the agents. Where there is only one, nobody could be kept from writing: whatever is said means nothing.
fn owner(field: &Field<'_>, agents: &[&str]) -> Result<DocumentOwner, Complaint> {
    let text = field.text()?;
    let found = agents.iter().find(|name| name.eq_ignore_ascii_case(text));
    match (text, found) {
        ("elect", _) | (_, Some(_)) if agents.len() == 1 => Ok(DocumentOwner::Everybody),
        ("elect", _) => Ok(DocumentOwner::Elect),
        // A name that cannot be one was complained about where the agent stands.
        (_, Some(name)) => Ok(name.parse().map_or(DocumentOwner::Everybody, DocumentOwner::Agent)),
        (_, None) => {
            let complaint = field.complaint(format!("there is no agent `{text}`"));
            Err(match nearest(text, agents.iter().copied().chain(["elect"])) {
                Some(name) => complaint.hint(format!("did you mean `{name}`?")),
                None => complaint.hint(format!("it has: {}", agents.join(", "))),
            })
        }
    }
}
