//! `context:` section: the channel and the documents that the agents share, and their storage.

use agent_worker_protocol::AgentName;
use serde::{Deserialize, Serialize};

use crate::{
    definition::layout::{self, Layout},
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        spelling::nearest,
    },
    yaml::Yaml,
    yaml::fields::{AllowedKeys, YamlField, YamlFields},
};

const CONTEXT_KEYS: AllowedKeys = AllowedKeys {
    known: &["provider", "documents", "documentOwner", "config", "dir", "channel", "document"],
    planned: &[],
};
/// Keys of the legacy form.
const LEGACY_KEYS: [&str; 3] = ["channel", "document", "dir"];

/// Channel and documents that the agents of a workflow share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowContext {
    /// Storage of the channel and the documents.
    pub provider: Provider,
    /// Storage of the documents.
    pub documents: Documents,
    /// Agent that writes the documents.
    #[serde(default)]
    pub document_owner: DocumentOwner,
    /// Paths of the files.
    #[serde(default)]
    pub layout: Layout,
}

/// Agents that may write the documents; the user always may.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentOwner {
    /// Every agent writes documents.
    #[default]
    Everybody,
    /// Only this agent writes; the others suggest.
    Agent(AgentName),
    /// The agents elect the owner before the kickoff.
    Elect,
}

/// Storage of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// Permanently in the daemon's database.
    Sqlite,
    /// In the database, and also as files for people.
    File,
    /// In the database until the run ends.
    Memory,
    /// The agents share nothing.
    Off,
}

/// Storage of the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Documents {
    /// In the store, and as files beside the workflow's.
    File,
    /// In the store only.
    Store,
    /// The workflow has no documents.
    Off,
}

impl Default for WorkflowContext {
    fn default() -> Self {
        Self {
            provider: Provider::Sqlite,
            documents: Documents::File,
            document_owner: DocumentOwner::Everybody,
            layout: Layout::default(),
        }
    }
}

/// Reads the section. `false` means no context; the caller handles an absent or `null` section, which means the
/// default. `agents` has the names as written in the file, including invalid ones, which are already reported.
pub(crate) fn read(
    field: &YamlField<'_>,
    agents: &[&str],
    diagnostics: &mut Diagnostics,
) -> WorkflowContext {
    let default = WorkflowContext::default();
    match field.node.value {
        Yaml::Bool(false) => {
            return WorkflowContext {
                provider: Provider::Off,
                documents: Documents::Off,
                ..default
            };
        }
        Yaml::Map(_) => {}
        _ => {
            diagnostics.add(field.must_be("a mapping or `false`"));
            return default;
        }
    }
    let Some(fields) = field.fields(&CONTEXT_KEYS, diagnostics) else { return default };
    let owner =
        fields.read_with("documentOwner", diagnostics, |field| read_document_owner(field, agents));
    let document_owner = owner.unwrap_or(default.document_owner);
    if LEGACY_KEYS.iter().any(|key| fields.has(key)) {
        return WorkflowContext {
            document_owner,
            ..read_legacy_context(field, &fields, diagnostics)
        };
    }
    let providers =
        [("sqlite", Provider::Sqlite), ("memory", Provider::Memory), ("file", Provider::File)];
    let documents =
        [("file", Documents::File), ("store", Documents::Store), ("sqlite", Documents::Store)];
    let provider = fields.read_with("provider", diagnostics, |field| field.one_of(&providers, &[]));
    let documents = fields.read_with("documents", diagnostics, |field| {
        match (field.one_of(&documents, &[])?, provider) {
            (Documents::File, Some(Provider::Memory)) => Err(field
                .diagnostic("a run with `provider: memory` leaves no files")
                .with_hint("leave out `documents`, or `provider: memory`")),
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
        let (layout, given) = layout::read_config(&field, diagnostics);
        for key in given {
            if let Some(needs) = missing_requirement(key, provider, documents) {
                let useless = format!("`context.config.{key}` would have no effect");
                diagnostics.add(field.diagnostic(useless).with_hint(format!("it needs `{needs}`")));
            }
        }
        layout
    });
    WorkflowContext { provider, documents, document_owner, layout: layout.unwrap_or_default() }
}

/// Reads the legacy form, in which each named item is a file.
fn read_legacy_context(
    whole: &YamlField<'_>,
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> WorkflowContext {
    for key in ["config", "documents"] {
        if let Some(field) = fields.get(key) {
            diagnostics.add(
                field
                    .diagnostic(format!(
                        "`context.{key}` cannot be combined with `channel`, `document` or `dir`"
                    ))
                    .with_hint("use one of the two forms"),
            );
        }
    }
    fields.read_with("provider", diagnostics, |field| match field.text()? {
        "file" => Ok(()),
        _ => Err(field
            .diagnostic("`channel` and `document` are files and need `provider: file`")
            .with_hint("leave out `provider`, or both keys")),
    });
    if !fields.has("channel") {
        diagnostics.add(
            whole
                .diagnostic("without a channel the agents cannot be woken and cannot announce documents to each other")
                .with_hint("add `channel:`"),
        );
    }
    let documents = if fields.has("document") { Documents::File } else { Documents::Off };
    let layout = layout::read_legacy_layout(whole, fields, diagnostics);
    WorkflowContext { provider: Provider::File, documents, layout, ..WorkflowContext::default() }
}

/// Returns the setting without which a key of `config` has no meaning.
fn missing_requirement(
    key: &str,
    provider: Provider,
    documents: Documents,
) -> Option<&'static str> {
    let (has_channel, has_documents) = (provider == Provider::File, documents == Documents::File);
    match key {
        "channel" if !has_channel => Some("provider: file"),
        "documentDir" if !has_documents => Some("documents: file"),
        "dir" if !has_channel && !has_documents => Some("provider: file"),
        "db" if provider == Provider::Memory => Some("provider: sqlite"),
        _ => None,
    }
}

/// Reads the name of the owner. In a team of one agent the owner excludes no other writer, so any valid value means
/// [`DocumentOwner::Everybody`].
fn read_document_owner(
    field: &YamlField<'_>,
    agents: &[&str],
) -> Result<DocumentOwner, Diagnostic> {
    let text = field.text()?;
    let found = agents.iter().find(|name| name.eq_ignore_ascii_case(text));
    match (text, found) {
        ("elect", _) | (_, Some(_)) if agents.len() == 1 => Ok(DocumentOwner::Everybody),
        ("elect", _) => Ok(DocumentOwner::Elect),
        // The reader of the agents reports a name that is invalid.
        (_, Some(name)) => Ok(name.parse().map_or(DocumentOwner::Everybody, DocumentOwner::Agent)),
        (_, None) => {
            let diagnostic = field.diagnostic(format!("there is no agent `{text}`"));
            Err(match nearest(text, agents.iter().copied().chain(["elect"])) {
                Some(name) => diagnostic.with_hint(format!("did you mean `{name}`?")),
                None => diagnostic.with_hint(format!("the agents are: {}", agents.join(", "))),
            })
        }
    }
}
