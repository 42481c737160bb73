//! From a path to a checked workflow: read, parse, take each section, say everything that is wrong.

use std::{collections::BTreeSet, path::Path};

use agent_worker_protocol::WorkflowName;

use crate::{
    agents, context,
    error::{Complaint, Error},
    fields::{Field, Fields, Keys},
    file, limits, params,
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
    let invalid = |complaints| Error::invalid(path, text, complaints);
    let root = tree::read(text).map_err(|complaint| invalid(vec![complaint]))?;
    let root = Field::root(&root);
    let fields = root.fields_unchecked().map_err(|complaint| {
        invalid(vec![complaint.hint("it begins with `agents:` and the names of the agents")])
    })?;
    let mut complaints = Complaints(fields.strangers(&KEYS));
    let workflow = sections(&fields, text, path, &mut complaints);
    match (workflow, complaints.0.is_empty()) {
        (Some(workflow), true) => Ok(workflow),
        _ => Err(invalid(complaints.0)),
    }
}

/// What is wrong so far. A section that is wrong is left out, so that the next is looked at too.
struct Complaints(Vec<Complaint>);

impl Complaints {
    fn keep<T>(&mut self, section: Result<T, Complaint>) -> Option<T> {
        self.keep_all(section.map_err(|complaint| vec![complaint]))
    }

    fn keep_all<T>(&mut self, section: Result<T, Vec<Complaint>>) -> Option<T> {
        section.map_err(|complaints| self.0.extend(complaints)).ok()
    }
}

/// Nothing is returned only if something was complained about.
fn sections(
    fields: &Fields<'_>,
    text: &str,
    path: &Path,
    complaints: &mut Complaints,
) -> Option<Workflow> {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let name = complaints.keep(name(fields, path));
    let params = match fields.get("params") {
        Some(field) => complaints.keep(params::read(&field)),
        None => Some(Vec::new()),
    };
    // A misspelt `agents` is one mistake.
    let agents = match fields.get("agents") {
        None if !complaints.0.is_empty() => None,
        _ => complaints.keep(fields.need("agents")),
    };
    let agents = agents.and_then(|field| complaints.keep_all(agents::read(&field, folder)));
    let context = match fields.get("context") {
        Some(field) => complaints.keep(context::read(&field)),
        None => Some(context::Context::default()),
    };
    let names = fields.get("params").map(|field| params::names(&field));
    let mut known = Known { params: names.unwrap_or_default(), ..Known::default() };
    let setup = match fields.get("setup") {
        Some(field) => complaints.keep_all(setup::read(&field, text, &mut known)),
        None => Some(Vec::new()),
    };
    let kickoff = fields.get("kickoff").map(|field| kickoff(&field, text, &known)).transpose();
    let kickoff = complaints.keep(kickoff);
    let limits = match fields.get("limits") {
        Some(field) => complaints.keep(limits::read(&field)),
        None => Some(limits::LimitSettings::default()),
    };
    let mut workflow = Workflow {
        name: name?,
        params: params?,
        agents: agents?,
        context: context?,
        setup: setup?,
        kickoff: kickoff?,
        limits: limits?,
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
    referred.chain(passed).collect()
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

fn kickoff(field: &Field<'_>, source: &str, known: &Known) -> Result<Template, Complaint> {
    let text = field.text()?;
    Template::read(text, known).map_err(|flawed| flaw_at(field, text, source, flawed))
}

/// Points at the reference itself. YAML has no other way to write `${{` that anybody uses, so the
/// nth of the text is the nth of the source; where the counts differ, the whole value is meant.
pub(crate) fn flaw_at(field: &Field<'_>, text: &str, source: &str, flawed: Flawed) -> Complaint {
    let whole = field.node.at.clone();
    let written = source.get(whole.clone()).unwrap_or_default();
    let same = written.matches(OPEN).count() == text.matches(OPEN).count();
    let found = written.match_indices(OPEN).nth(flawed.nth).filter(|_| same);
    let at = match found {
        Some((offset, _)) => {
            let length = written[offset..].find("}}").map_or(OPEN.len(), |close| close + 2);
            whole.start + offset..whole.start + offset + length
        }
        None => whole,
    };
    Complaint { at, message: flawed.flaw.message, hint: flawed.flaw.hint }
}
