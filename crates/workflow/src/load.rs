//! From a path to a checked workflow: read, parse, take each section, say everything that is wrong.

use std::{collections::BTreeSet, path::Path};

use agent_worker_protocol::WorkflowName;

use crate::{
    agents,
    complaint::{Complaint, Complaints},
    context::{self, Documents, Provider},
    error::Error,
    fields::{Field, Fields, Keys},
    file::{self, MAX_BYTES, Unreadable},
    limits, params,
    reference::{Known, Reference},
    setup,
    template::{Flawed, OPEN, Template},
    tree,
    workflow::Workflow,
};

const KEYS: Keys = Keys {
    known: &["name", "params", "agents", "context", "setup", "kickoff", "limits"],
    later: &["tasks", "schedule", "idle_debounce"],
};

/// Reads and checks a workflow file and the prompt files it names.
pub fn load(path: &Path) -> Result<Workflow, Error> {
    let text = file::read(path).map_err(|why| Error::unreadable(path, &why))?;
    parse(&text, path)
}

/// Checks a workflow's text. `path` gives its default name, the folder of its prompt files, and
/// the name in messages; it is not read.
pub fn parse(text: &str, path: &Path) -> Result<Workflow, Error> {
    if text.len() > MAX_BYTES {
        return Err(Error::unreadable(path, &Unreadable::TooLarge));
    }
    let mut complaints = Complaints::default();
    let workflow = complaints
        .keep(tree::read(text))
        .and_then(|root| sections(&Field::root(&root), text, path, &mut complaints));
    match workflow {
        Some(workflow) if complaints.is_empty() => Ok(workflow),
        _ => Err(Error::invalid(path, text, complaints)),
    }
}

/// Reads every section. Nothing is returned only if something was complained about.
fn sections(
    root: &Field<'_>,
    text: &str,
    path: &Path,
    complaints: &mut Complaints,
) -> Option<Workflow> {
    let fields = root.fields_unchecked().map_err(|complaint| {
        complaint.hint("it begins with `agents:` and the names of the agents")
    });
    let mut fields = complaints.keep(fields)?;
    fields.refuse_strangers(&KEYS, complaints);
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let name = complaints.keep(name(&fields, path));
    let params = fields.get("params");
    let mut known = Known::default();
    known.params.extend(params.iter().flat_map(params::names));
    let params = params.map(|field| params::read(&field, complaints));
    let agents = fields.need("agents", complaints);
    let named = agents.as_ref().and_then(|field| field.named().ok()).unwrap_or_default();
    let agents = agents.map(|field| agents::read(&field, folder, complaints));
    let team: Vec<&str> = named.iter().map(|(key, _)| key.text).collect();
    let context = fields.get("context").map(|field| context::read(&field, &team, complaints));
    let context = context.unwrap_or_default();
    known.channel_file = context.provider == Provider::File;
    known.document_file = context.documents == Documents::File;
    let setup = fields.get("setup");
    let setup = setup.map(|field| setup::read(&field, text, &mut known, complaints));
    let kickoff = fields.get("kickoff");
    let kickoff = kickoff.and_then(|field| kickoff_of(&field, text, &known, complaints));
    let limits = fields.get("limits").map(|field| limits::read(&field, complaints));
    let mut workflow = Workflow {
        name: name?,
        params: params.unwrap_or_default(),
        agents: agents?,
        context,
        setup: setup.unwrap_or_default(),
        kickoff,
        limits: limits.unwrap_or_default(),
        env_names: BTreeSet::new(),
    };
    workflow.env_names = env_names(&workflow);
    Some(workflow)
}

fn env_names(workflow: &Workflow) -> BTreeSet<String> {
    let referred = workflow.references().filter_map(|reference| match reference {
        Reference::Env(name) => Some(name.clone()),
        _ => None,
    });
    let passed = workflow.agents.iter().flat_map(|agent| agent.env.iter().cloned());
    let needed = workflow.agents.iter().flat_map(|agent| agent.backend.variables());
    referred.chain(passed).chain(needed.map(|name| (*name).to_owned())).collect()
}

fn name(fields: &Fields<'_>, path: &Path) -> Result<WorkflowName, Complaint> {
    let Some(field) = fields.get("name") else {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        return checked_name(&stem).map_err(|why| {
            Complaint::new(0..0, format!("the file's name does not name the workflow: {why}"))
                .hint("add `name:` to the file")
        });
    };
    checked_name(field.text()?).map_err(|why| field.complaint(why))
}

fn checked_name(text: &str) -> Result<WorkflowName, String> {
    let name: WorkflowName = text.parse().map_err(|bad| format!("{bad}"))?;
    if text.eq_ignore_ascii_case("global") {
        return Err("`global` is where agents live that belong to no workflow".to_owned());
    }
    Ok(name)
}

fn kickoff_of(
    field: &Field<'_>,
    source: &str,
    known: &Known,
    complaints: &mut Complaints,
) -> Option<Template> {
    let text = complaints.keep(field.text())?;
    let read = Template::read(text, known);
    read.map_err(|flaws| complaints.add_all(flaws_at(field, text, source, flaws))).ok()
}

/// Points at the references themselves. YAML has no other way to write `${{` that anybody uses, so the
/// nth of the text is the nth of the source; where the counts differ, the whole value is meant.
pub(crate) fn flaws_at(
    field: &Field<'_>,
    text: &str,
    source: &str,
    flaws: Vec<Flawed>,
) -> impl Iterator<Item = Complaint> {
    let whole = field.node.at.clone();
    let written = source.get(whole.clone()).unwrap_or_default();
    let opens: Vec<usize> = written.match_indices(OPEN).map(|(offset, _)| offset).collect();
    let same = opens.len() == text.matches(OPEN).count();
    flaws.into_iter().map(move |flawed| {
        let at = match opens.get(flawed.nth).filter(|_| same) {
            Some(offset) => {
                let length = written[*offset..].find("}}").map_or(OPEN.len(), |close| close + 2);
                whole.start + offset..whole.start + offset + length
            }
            None => whole.clone(),
        };
        Complaint { at, message: flawed.flaw.message, hint: flawed.flaw.hint }
    })
}
