//! `context:` what the agents share, and where it is kept.

use agent_worker_protocol::AgentName;
use serde::{Deserialize, Serialize};

use crate::{
    complaint::{Complaint, Complaints},
    fields::{Field, Fields, Keys},
    layout::{self, Layout},
    suggest::nearest,
    tree::Yaml,
};

const KEYS: Keys = Keys {
    known: &["provider", "documents", "documentOwner", "config", "dir", "channel", "document"],
    later: &[],
};
/// The keys of the first files.
const FIRST: [&str; 3] = ["channel", "document", "dir"];

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
    /// Where the files of it lie.
    #[serde(default)]
    pub layout: Layout,
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
    /// There too, and as files that people read.
    File,
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
            layout: Layout::default(),
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
    let owner = fields.take("documentOwner", complaints, |field| owner(field, agents));
    let document_owner = owner.unwrap_or(default.document_owner);
    if FIRST.iter().any(|key| fields.has(key)) {
        return Context { document_owner, ..first(field, &fields, complaints) };
    }
    let providers =
        [("sqlite", Provider::Sqlite), ("memory", Provider::Memory), ("file", Provider::File)];
    let documents =
        [("file", Documents::File), ("store", Documents::Store), ("sqlite", Documents::Store)];
    let provider = fields.take("provider", complaints, |field| field.word(&providers, &[]));
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
        Some(Provider::Sqlite | Provider::File | Provider::Off) | None => default.documents,
    };
    let (provider, documents) = (provider.unwrap_or(default.provider), documents.unwrap_or(usual));
    let config = fields.get("config");
    let layout = config.map(|field| {
        let (layout, given) = layout::config(&field, complaints);
        for key in given {
            if let Some(needs) = needs(key, provider, documents) {
                let useless = format!("`context.config.{key}` says where there is no file");
                complaints.add(field.complaint(useless).hint(format!("it needs `{needs}`")));
            }
        }
        layout
    });
    Context { provider, documents, document_owner, layout: layout.unwrap_or_default() }
}

/// The form of the first files: what is named there is there, as a file.
fn first(whole: &Field<'_>, fields: &Fields<'_>, complaints: &mut Complaints) -> Context {
    for key in ["config", "documents"] {
        if let Some(field) = fields.get(key) {
            complaints.add(
                field
                    .complaint(format!(
                        "`context.{key}` says again what `channel` and `document` say"
                    ))
                    .hint("use one of the two forms"),
            );
        }
    }
    fields.take("provider", complaints, |field| match field.text()? {
        "file" => Ok(()),
        _ => Err(field
            .complaint("`channel` and `document` are files: that is `provider: file`")
            .hint("leave out `provider`, or both of them")),
    });
    if !fields.has("channel") {
        complaints.add(
            whole
                .complaint("without a channel the agents cannot be woken, nor tell each other of a document")
                .hint("add `channel:`"),
        );
    }
    let documents = if fields.has("document") { Documents::File } else { Documents::Off };
    let layout = layout::first(whole, fields, complaints);
    Context { provider: Provider::File, documents, layout, ..Context::default() }
}

/// What a key of `config` has no meaning without.
fn needs(key: &str, provider: Provider, documents: Documents) -> Option<&'static str> {
    let (has_channel, has_documents) = (provider == Provider::File, documents == Documents::File);
    match key {
        "channel" if !has_channel => Some("provider: file"),
        "documentDir" if !has_documents => Some("documents: file"),
        "dir" if !has_channel && !has_documents => Some("provider: file"),
        "db" if provider == Provider::Memory => Some("provider: sqlite"),
        _ => None,
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
