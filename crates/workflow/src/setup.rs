//! `setup:` commands that run before anybody is woken; what they print can be used by name.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    agents::folder_name,
    complaint::{Complaint, Complaints},
    fields::{Field, Keys},
    load::flaws_at,
    reference::{Known, NAME_SHAPE, RESERVED, is_name},
    report::Lines,
    shell::{Dialect, ShellTemplate},
};

const KEYS: Keys = Keys {
    known: &["shell", "as", "cwd", "shell_program"],
    later: &["send", "to", "if", "parallel", "timeout", "env"],
};

const BASH: &str = "bash";

/// One command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupStep {
    /// What it runs.
    pub shell: ShellTemplate,
    /// What runs it (`shell_program:`), if not bash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// By which name its output is known (`as:`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it runs, if not where the run does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Its line in the file, for messages.
    pub line: usize,
}

impl SetupStep {
    /// The program and its options; the script follows as a file, or after `-c`.
    pub fn interpreter(&self) -> (&str, &'static [&'static str]) {
        let program = self.program.as_deref().unwrap_or(BASH);
        match dialect(program) {
            Some(Dialect::Bash) => (program, &["-euo", "pipefail"]),
            Some(Dialect::Posix) => (program, &["-eu"]),
            None => (program, &[]),
        }
    }
}

fn dialect(program: &str) -> Option<Dialect> {
    match Path::new(program).file_name()?.to_str()? {
        BASH => Some(Dialect::Bash),
        "sh" | "dash" => Some(Dialect::Posix),
        _ => None,
    }
}

/// Reads every step and the names they make; a step that is wrong does not hide the next.
pub(crate) fn read(
    field: &Field<'_>,
    source: &str,
    known: &mut Known,
    complaints: &mut Complaints,
) -> Vec<SetupStep> {
    let Some(items) = complaints.keep(field.list()) else { return Vec::new() };
    let lines = Lines::of(source);
    let mut steps = Vec::new();
    known.announced = items.iter().filter_map(output_name).map(str::to_owned).collect();
    for item in items {
        if complaints.is_full() {
            break;
        }
        let line = lines.number(item.node.at.start);
        steps.extend(step(&item, line, source, known, complaints));
        // Even a step with a mistake makes its output known: one mistake, one complaint.
        known.outputs.extend(output_name(&item).map(str::to_owned));
    }
    steps
}

fn output_name<'a>(item: &Field<'a>) -> Option<&'a str> {
    item.fields_unchecked().ok()?.get("as")?.text().ok()
}

fn step(
    field: &Field<'_>,
    line: usize,
    source: &str,
    known: &Known,
    complaints: &mut Complaints,
) -> Option<SetupStep> {
    let fields = field.fields(&KEYS, complaints)?;
    let name = fields.take("as", complaints, |field| checked_name(field, known));
    let program = fields.take("shell_program", complaints, program);
    let cwd = fields.take("cwd", complaints, folder_name);
    let shell = fields.need("shell", complaints)?;
    let text = complaints.keep(shell.text())?;
    if text.contains('\0') {
        complaints.add(shell.must("text without NUL characters"));
        return None;
    }
    let dialect = dialect(program.as_deref().unwrap_or(BASH));
    match ShellTemplate::read(text, dialect, known) {
        Ok(shell) => Some(SetupStep { shell, program, name, cwd, line }),
        Err(flaws) => {
            complaints.add_all(flaws_at(&shell, text, source, flaws));
            None
        }
    }
}

fn program(field: &Field<'_>) -> Result<String, Complaint> {
    let text = field.text_as_is()?;
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c == '\0') {
        return Err(field
            .must("the name or path of one program")
            .hint("without options; such as `sh` or `/usr/bin/python3`"));
    }
    Ok(text.to_owned())
}

fn checked_name(field: &Field<'_>, known: &Known) -> Result<String, Complaint> {
    let name = field.text()?;
    if RESERVED.contains(&name) {
        return Err(field.complaint(format!("`{name}` is reserved")).hint("choose another name"));
    }
    if !is_name(name) {
        return Err(field
            .complaint(format!("`{name}` cannot be the name of an output"))
            .hint(NAME_SHAPE));
    }
    if known.outputs.contains(name) {
        return Err(field.complaint(format!("there are two outputs called `{name}`")));
    }
    Ok(name.to_owned())
}
