//! `setup:` commands that run before anybody is woken; what they print can be used by name.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    agents::folder_name,
    error::{Complaint, line_and_column},
    fields::{Field, Fields, Keys},
    load::flaw_at,
    reference::{Known, NAME_SHAPE, RESERVED, is_name},
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
) -> Result<Vec<SetupStep>, Vec<Complaint>> {
    let items = field.list().map_err(|complaint| vec![complaint])?;
    let (mut steps, mut complaints) = (Vec::new(), Vec::new());
    known.announced = items.iter().filter_map(output_name).map(str::to_owned).collect();
    for item in items {
        let step = step(&item, source, known);
        // Even a step with a mistake makes its output known: one mistake, one complaint.
        if let Some(name) = output_name(&item) {
            known.outputs.push(name.to_owned());
        }
        match step {
            Ok(step) => steps.push(step),
            Err(complaint) => complaints.push(complaint),
        }
    }
    if complaints.is_empty() { Ok(steps) } else { Err(complaints) }
}

fn output_name<'a>(item: &Field<'a>) -> Option<&'a str> {
    item.fields_unchecked().ok()?.get("as")?.text().ok()
}

fn step(field: &Field<'_>, source: &str, known: &Known) -> Result<SetupStep, Complaint> {
    let fields = field.fields(&KEYS)?;
    let name = fields.get("as").map(|field| checked_name(&field, known)).transpose()?;
    let program = program(&fields)?;
    let cwd = fields.get("cwd").map(|field| folder_name(&field)).transpose()?;
    let shell = fields.need("shell")?;
    let text = shell.text()?;
    if text.contains('\0') {
        return Err(shell.must("text without NUL characters"));
    }
    let dialect = dialect(program.as_deref().unwrap_or(BASH));
    let template = ShellTemplate::read(text, dialect, known)
        .map_err(|flawed| flaw_at(&shell, text, source, flawed))?;
    let (line, _) = line_and_column(source, field.node.at.start);
    Ok(SetupStep { shell: template, program, name, cwd, line })
}

fn program(fields: &Fields<'_>) -> Result<Option<String>, Complaint> {
    let Some(field) = fields.get("shell_program") else { return Ok(None) };
    let text = field.text_as_is()?;
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c == '\0') {
        return Err(field
            .must("the name or path of one program")
            .hint("without options; such as `sh` or `/usr/bin/python3`"));
    }
    Ok(Some(text.to_owned()))
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
    if known.outputs.iter().any(|output| output == name) {
        return Err(field.complaint(format!("there are two outputs called `{name}`")));
    }
    Ok(name.to_owned())
}
