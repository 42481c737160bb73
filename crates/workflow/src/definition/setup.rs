//! `setup:` section: commands that run before any agent is woken; their output is available by name.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use agent_worker_protocol::shell_words::is_protected_variable;
use serde::{Deserialize, Serialize};

use crate::{
    agents::folder_name,
    definition::load::locate_flaws,
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        report::LineIndex,
    },
    error::Error,
    shell::{Dialect, ShellTemplate, is_special_variable},
    template::{
        Template,
        reference::{KnownNames, NAME_SHAPE, RESERVED, Reference, is_name},
        scope::TemplateScope,
    },
    yaml::fields::{AllowedKeys, YamlField, YamlFields, YamlKey},
};

const STEP_KEYS: AllowedKeys = AllowedKeys {
    known: &["shell", "as", "cwd", "shell_program", "env"],
    planned: &["send", "to", "if", "parallel", "timeout"],
};

const BASH: &str = "bash";

/// Maximum length of a script. Following a longer one would take the daemon too long.
const MAX_SCRIPT_BYTES: usize = 256 * 1024;

/// Maximum length of a variable that `env:` sets. Linux starts no program with a longer one.
const MAX_VARIABLE_BYTES: usize = 100 * 1024;

/// One setup command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupStep {
    /// Script of the command.
    pub shell: ShellTemplate,
    /// Interpreter of the script (`shell_program:`), if it is not bash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Name of the output (`as:`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Working folder, if it differs from the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Variables that only this command gets (`env:`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Template>,
    /// Line number in the file, for messages.
    pub line: usize,
}

impl SetupStep {
    /// Returns the references in `env:`.
    pub(crate) fn env_references(&self) -> impl Iterator<Item = &Reference> {
        self.env.values().flat_map(Template::references)
    }

    /// Returns the names of the variables of `env:` whose text contains a value.
    pub fn env_with_values(&self) -> impl Iterator<Item = &str> {
        let with_values = self.env.iter().filter(|(_, text)| text.references().next().is_some());
        with_values.map(|(name, _)| name.as_str())
    }

    /// Returns the variables of `env:` with the values of a scope.
    pub(crate) fn variables(
        &self,
        scope: &TemplateScope,
    ) -> Result<BTreeMap<String, String>, Error> {
        let variable = |(name, template): (&String, &Template)| {
            let value = template.render(scope)?.text;
            let bad = |why| Err(Error::BadVariable { name: name.clone(), why });
            match value {
                long if long.len() > MAX_VARIABLE_BYTES => bad("is longer than 100 KiB"),
                text if text.contains('\0') => bad("has a NUL byte"),
                value => Ok((name.clone(), value)),
            }
        };
        self.env.iter().map(variable).collect()
    }

    /// Returns the program and its options; the path of the script follows.
    ///
    /// A known shell reads the whole script before it runs any of it. A shell that runs a file reads on after each
    /// command: a command that writes to `/proc/self/fd/255`, which may be a value or a link, would write code.
    pub fn interpreter(&self) -> (&str, &'static [&'static str]) {
        let program = self.program.as_deref().unwrap_or(BASH);
        match dialect(program) {
            Some(Dialect::Bash) => (program, &["-euo", "pipefail", "-c", ". \"$0\""]),
            Some(Dialect::Posix) => (program, &["-eu", "-c", "eval \"$(cat \"$0\")\""]),
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

/// Reads every step and the names of their outputs; a mistake in one step does not hide the next.
pub(crate) fn read(
    field: &YamlField<'_>,
    source: &str,
    known: &mut KnownNames,
    diagnostics: &mut Diagnostics,
) -> Vec<SetupStep> {
    let Some(items) = diagnostics.ok_or_add(field.list()) else { return Vec::new() };
    let lines = LineIndex::of(source);
    let mut steps = Vec::new();
    known.all_outputs = items.iter().filter_map(output_name).map(str::to_owned).collect();
    for item in items {
        if diagnostics.is_full() {
            break;
        }
        let line = lines.number(item.node.at.start);
        steps.extend(read_step(&item, line, source, known, diagnostics));
        known.step_env.clear();
        // A step with a mistake also declares its output, so that one mistake gets one diagnostic.
        known.outputs.extend(output_name(&item).map(str::to_owned));
    }
    steps
}

fn output_name<'a>(item: &YamlField<'a>) -> Option<&'a str> {
    item.fields_unchecked().ok()?.get("as")?.text().ok()
}

fn read_step(
    field: &YamlField<'_>,
    line: usize,
    source: &str,
    known: &mut KnownNames,
    diagnostics: &mut Diagnostics,
) -> Option<SetupStep> {
    let fields = field.fields(&STEP_KEYS, diagnostics)?;
    let name = fields.read_with("as", diagnostics, |field| checked_name(field, known));
    let step = read_command(&fields, line, source, known, diagnostics)?;
    Some(SetupStep { name, ..step })
}

/// Reads the keys of a command, except the name of its output.
pub(super) fn read_command(
    fields: &YamlFields<'_>,
    line: usize,
    source: &str,
    known: &mut KnownNames,
    diagnostics: &mut Diagnostics,
) -> Option<SetupStep> {
    let program = fields.read_with("shell_program", diagnostics, read_program);
    let cwd = fields.read_with("cwd", diagnostics, folder_name);
    let env = fields.get("env").map(|field| read_env(&field, source, known, diagnostics));
    let env = env.unwrap_or_default();
    let with_values = env.iter().filter(|(_, value)| value.references().next().is_some());
    known.step_env = with_values.map(|(name, _)| name.clone()).collect();
    let shell = fields.require("shell", diagnostics)?;
    let text = diagnostics.ok_or_add(shell.text())?;
    if text.contains('\0') {
        diagnostics.add(shell.must_be("text without NUL characters"));
        return None;
    }
    if text.len() > MAX_SCRIPT_BYTES {
        let limit = format_args!("at most {} KiB long", MAX_SCRIPT_BYTES / 1024);
        diagnostics
            .add(shell.must_be(limit).with_hint("move the script to a file and run that file"));
        return None;
    }
    let dialect = dialect(program.as_deref().unwrap_or(BASH));
    match ShellTemplate::read(text, dialect, known) {
        Ok(shell) => Some(SetupStep { shell, program, name: None, cwd, env, line }),
        Err(flaws) => {
            diagnostics.add_all(locate_flaws(&shell, text, source, flaws));
            None
        }
    }
}

/// Reads the variables of one step. A value may refer to secrets, because only the command gets it.
fn read_env(
    field: &YamlField<'_>,
    source: &str,
    known: &KnownNames,
    diagnostics: &mut Diagnostics,
) -> BTreeMap<String, Template> {
    let mut env = BTreeMap::new();
    for (key, value) in diagnostics.ok_or_add(field.named_entries()).unwrap_or_default() {
        if diagnostics.is_full() {
            break;
        }
        let name = diagnostics.ok_or_add(checked_variable(&key));
        let Some(text) = diagnostics.ok_or_add(value.text()) else { continue };
        match (name, Template::read_variable(text, known)) {
            (Some(name), Ok(template)) => {
                env.insert(name, template);
            }
            (None, Ok(_)) => {}
            (_, Err(flaws)) => diagnostics.add_all(locate_flaws(&value, text, source, flaws)),
        }
    }
    env
}

/// Refuses variables that the shell and its programs interpret: with one of them a value could become code.
fn checked_variable(key: &YamlKey<'_>) -> Result<String, Diagnostic> {
    let name = key.text;
    if !is_name(name) {
        return Err(key
            .diagnostic(format!("`{name}` is not the name of an environment variable"))
            .with_hint(NAME_SHAPE));
    }
    if is_protected_variable(name) || is_special_variable(name) {
        return Err(key
            .diagnostic(format!("`{name}` changes how commands run and cannot be set with `env`"))
            .with_hint("set it in the script"));
    }
    Ok(name.to_owned())
}

fn read_program(field: &YamlField<'_>) -> Result<String, Diagnostic> {
    let text = field.literal_text()?;
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c == '\0') {
        return Err(field
            .must_be("the name or path of one program")
            .with_hint("without options; such as `sh` or `/usr/bin/python3`"));
    }
    Ok(text.to_owned())
}

fn checked_name(field: &YamlField<'_>, known: &KnownNames) -> Result<String, Diagnostic> {
    let name = field.text()?;
    if RESERVED.contains(&name) {
        return Err(field
            .diagnostic(format!("`{name}` is reserved"))
            .with_hint("choose another name"));
    }
    if !is_name(name) {
        return Err(field
            .diagnostic(format!("`{name}` cannot be the name of an output"))
            .with_hint(NAME_SHAPE));
    }
    if known.outputs.contains(name) {
        return Err(field.diagnostic(format!("there are two outputs called `{name}`")));
    }
    Ok(name.to_owned())
}
