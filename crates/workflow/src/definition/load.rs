//! Loads a workflow from a path: reads the file, parses it, reads each section and reports every mistake.

use std::{collections::BTreeSet, fs::File, io, path::Path};

use agent_worker_protocol::{
    AgentSettings, RunDefaults, WorkflowName, shell_words::is_protected_variable,
};

use crate::{
    agents::{self, AgentSources, prompt::PromptFolder},
    definition::{
        answers,
        context::{self, Documents, Provider},
        env_mentions::env_mentions,
        gates, history, limits, notify, params, setup, tasks,
        workflow::Workflow,
    },
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        report::DiagnosticReport,
    },
    error::Error,
    open_folder::OpenFolder,
    template::reference::KnownNames,
    template::{self, FlawedReference, Template},
    yaml,
    yaml::{
        fields::{AllowedKeys, YamlField, YamlFields},
        text_file::{self, FileReadError, MAX_FILE_BYTES},
    },
};

const WORKFLOW_KEYS: AllowedKeys = AllowedKeys {
    known: &[
        "name", "params", "agents", "context", "setup", "kickoff", "answers", "finisher", "limits",
        "notify", "gates", "history", "tasks", "finally", "output",
    ],
    planned: &["schedule", "idle_debounce"],
};

/// Sections whose texts may refer to variables of the environment.
const TEXT_SECTIONS: [&str; 5] = ["setup", "kickoff", "tasks", "finally", "output"];

/// Reads and checks a workflow file and the prompt files that it names.
pub fn load(path: &Path) -> Result<Workflow, Error> {
    load_with(path, &RunDefaults::default())
}

/// Like [`load()`], with the defaults of the user.
pub fn load_with(path: &Path, defaults: &RunDefaults) -> Result<Workflow, Error> {
    let unreadable = |error: io::Error| Error::unreadable(path, &error.into());
    let Some(name) = path.file_name() else {
        return Err(Error::unreadable(path, &FileReadError::NotAFile));
    };
    let folder = OpenFolder::open(folder_of(path)).map_err(unreadable)?;
    let file = folder.file(Path::new(name)).map_err(unreadable)?;
    load_file(file, &folder, path, defaults)
}

/// Reads and checks an open workflow file of an open folder, and the prompt files that it names beneath that folder.
/// `path` is as for [`parse`].
pub fn load_file(
    file: File,
    folder: &OpenFolder,
    path: &Path,
    defaults: &RunDefaults,
) -> Result<Workflow, Error> {
    let text = text_file::read(file).map_err(|why| Error::unreadable(path, &why))?;
    parse_in(&text, path, AgentSources { folder: PromptFolder::Open(folder), defaults })
}

/// Like [`load_file`], for a text that is in no file.
pub fn load_text(
    text: &str,
    folder: &OpenFolder,
    path: &Path,
    defaults: &RunDefaults,
) -> Result<Workflow, Error> {
    parse_in(text, path, AgentSources { folder: PromptFolder::Open(folder), defaults })
}

/// Checks a workflow's text. `path` gives its default name, the folder of its prompt files, and the name in messages;
/// the file at `path` is not read.
pub fn parse(text: &str, path: &Path) -> Result<Workflow, Error> {
    let folder = PromptFolder::At(folder_of(path));
    parse_in(text, path, AgentSources { folder, defaults: &RunDefaults::default() })
}

/// Returns the folder of a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

fn parse_in(text: &str, path: &Path, sources: AgentSources<'_>) -> Result<Workflow, Error> {
    if text.len() > MAX_FILE_BYTES {
        return Err(Error::unreadable(path, &FileReadError::TooLarge));
    }
    let mut diagnostics = Diagnostics::default();
    let workflow = diagnostics.ok_or_add(yaml::read(text)).and_then(|root| {
        read_sections(&YamlField::root(&root), (text, path, sources), &mut diagnostics)
    });
    match workflow {
        Some(workflow) if diagnostics.is_empty() => {
            let warnings = DiagnosticReport::new(path, text, diagnostics.into_warnings());
            Ok(Workflow { warnings: warnings.mistakes(), ..workflow })
        }
        _ => Err(Error::invalid(path, text, diagnostics)),
    }
}

/// Reads every section; returns none only if a diagnostic was added.
fn read_sections(
    root: &YamlField<'_>,
    (text, path, sources): (&str, &Path, AgentSources<'_>),
    diagnostics: &mut Diagnostics,
) -> Option<Workflow> {
    let fields = root.fields_unchecked().map_err(|diagnostic| {
        diagnostic.with_hint("begin the file with `agents:` and the names of the agents")
    });
    let mut fields = diagnostics.ok_or_add(fields)?;
    fields.reject_unknown_keys(&WORKFLOW_KEYS, diagnostics);
    let name = diagnostics.ok_or_add(read_name(&fields, path));
    let params = fields.get("params");
    let mut known = KnownNames::default();
    known.params.extend(params.iter().flat_map(params::declared_names));
    known.number_params.extend(params.iter().flat_map(params::declared_numbers));
    let params = params.map(|field| params::read(&field, diagnostics));
    // A procedure may consist of commands alone.
    let agents = match fields.get("tasks") {
        Some(_) => fields.get("agents"),
        None => fields.require("agents", diagnostics),
    };
    let named = agents.as_ref().and_then(|field| field.named_entries().ok()).unwrap_or_default();
    let agents = agents.map(|field| agents::read(&field, sources, diagnostics));
    let team: Vec<&str> = named.iter().map(|(key, _)| key.text).collect();
    let context = fields.get("context").map(|field| context::read(&field, &team, diagnostics));
    let context = context.unwrap_or_default();
    known.channel_file = context.provider == Provider::File;
    known.document_file = context.documents == Documents::File;
    let kickoff = fields.get("kickoff");
    let setup = fields.get("setup");
    known.client_env = client_env(&fields, text, agents.as_deref());
    let setup = setup.map(|field| setup::read(&field, text, &mut known, diagnostics));
    let kickoff = kickoff.and_then(|field| read_kickoff(&field, text, &known, diagnostics));
    let answers = fields.read_with("answers", diagnostics, |field| answers::read(field, &context));
    let finisher =
        fields.read_with("finisher", diagnostics, |field| agents::read_member(field, &team));
    let limits = fields.get("limits").map(|field| limits::read(&field, diagnostics));
    let notify = fields.get("notify").map(|field| notify::read(&field, diagnostics));
    let history = fields.read_with("history", diagnostics, history::read);
    let members = agents.as_deref().unwrap_or_default();
    let gates = fields.get("gates").map(|field| gates::read(&field, members, diagnostics));
    let tasks = tasks::read(&fields, text, known, diagnostics);
    let mut workflow = Workflow {
        name: name?,
        params: params.unwrap_or_default(),
        agents: agents.unwrap_or_default(),
        context,
        setup: setup.unwrap_or_default(),
        kickoff,
        answers: answers.unwrap_or_default(),
        finisher: finisher.flatten(),
        limits: limits.unwrap_or_default().or(sources.defaults.limits),
        notify: notify.unwrap_or_default(),
        gates: gates.unwrap_or_default(),
        history: history.unwrap_or_default(),
        tasks,
        env_names: BTreeSet::new(),
        warnings: Vec::new(),
    };
    workflow.env_names = env_names(&workflow);
    Some(workflow)
}

/// Returns the variables that a client may set, because the file names them: [`Workflow::declares_env`]. Their values
/// are in the environment of every command, also of a command before the one that names them.
fn client_env(
    fields: &YamlFields<'_>,
    text: &str,
    agents: Option<&[AgentSettings]>,
) -> BTreeSet<String> {
    let sections = TEXT_SECTIONS.iter().filter_map(|key| fields.get(key));
    let mentions = sections.flat_map(|field| env_mentions(field.node, text));
    let mut names: BTreeSet<String> = mentions.map(|mention| mention.name).collect();
    names.extend(agents.into_iter().flatten().flat_map(|agent| agent.env.iter().cloned()));
    names.retain(|name| !is_protected_variable(name));
    names
}

fn env_names(workflow: &Workflow) -> BTreeSet<String> {
    let referred = workflow.env_references().map(str::to_owned);
    let passed = workflow.agents.iter().flat_map(|agent| agent.env.iter().cloned());
    referred.chain(passed).collect()
}

fn read_name(fields: &YamlFields<'_>, path: &Path) -> Result<WorkflowName, Diagnostic> {
    let Some(field) = fields.get("name") else {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        return checked_name(&stem).map_err(|why| {
            Diagnostic::new(0..0, format!("the file's name is not a valid workflow name: {why}"))
                .with_hint("add `name:` to the file")
        });
    };
    checked_name(field.text()?).map_err(|why| field.diagnostic(why))
}

fn checked_name(text: &str) -> Result<WorkflowName, String> {
    let name: WorkflowName = text.parse().map_err(|bad| format!("{bad}"))?;
    if text.eq_ignore_ascii_case("global") {
        return Err("`global` is reserved for agents that belong to no workflow".to_owned());
    }
    Ok(name)
}

fn read_kickoff(
    field: &YamlField<'_>,
    source: &str,
    known: &KnownNames,
    diagnostics: &mut Diagnostics,
) -> Option<Template> {
    let text = diagnostics.ok_or_add(field.text())?;
    let read = Template::read(text, known);
    read.map_err(|flaws| diagnostics.add_all(locate_flaws(field, text, source, flaws))).ok()
}

/// Locates the flaws at the references themselves.
pub(crate) fn locate_flaws(
    field: &YamlField<'_>,
    text: &str,
    source: &str,
    flaws: Vec<FlawedReference>,
) -> impl Iterator<Item = Diagnostic> {
    template::locate_flaws(&field.node.at, text, source, flaws).into_iter()
}
