//! Values of a workflow's parameters: those of a file, those of the command line over them, and the texts of the files
//! and of stdin that they name.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use agent_worker_protocol::size_text;
use agent_worker_workflow::{Param, ParamType, load_params_file};

use crate::{
    error::{CliError, CliErrorKind},
    output::text::one_line,
};

/// Maximum size of a value, so that all fit into a request.
const MAX_VALUE_BYTES: usize = 8 * 1024 * 1024;

/// Spelling of stdin as a value.
const STDIN: &str = "-";

/// Places where the values come from.
pub(crate) struct ParamSources<'a> {
    /// Parameters that the workflow declares.
    pub(crate) params: &'a [Param],
    /// Texts of the command line by the name of their parameter.
    pub(crate) typed: BTreeMap<String, String>,
    /// File of `--params-file`.
    pub(crate) file: Option<&'a Path>,
    /// Folder of the command.
    pub(crate) cwd: &'a Path,
    /// Other thing that is read from stdin.
    pub(crate) stdin_use: Option<&'static str>,
}

impl ParamSources<'_> {
    /// Reads all values; `stdin` is read at most once.
    pub(crate) fn read(
        self,
        mut stdin: impl io::Read,
    ) -> Result<BTreeMap<String, String>, CliError> {
        let mut values = BTreeMap::new();
        if let Some(file) = self.file {
            let path = self.cwd.join(file);
            let folder = path.parent().unwrap_or(self.cwd).to_owned();
            for (name, text) in load_params_file(&path, self.params)? {
                if self.typed.contains_key(&name) {
                    continue;
                }
                let text = match self.value_type(&name) {
                    Some(ParamType::File) => read_file(&name, &text, &folder)?,
                    _ => text,
                };
                values.insert(name, text);
            }
        }
        let mut stdin_use = self.stdin_use.map(str::to_owned);
        for (name, text) in &self.typed {
            let value_type = self.value_type(name);
            let takes_stdin =
                matches!(value_type, Some(ParamType::Text | ParamType::File | ParamType::Json));
            let value = match value_type {
                _ if takes_stdin && text == STDIN => {
                    if let Some(first) = stdin_use.replace(format!("`--{name}`")) {
                        let what = format!("{first} and `--{name}` both read stdin");
                        return Err(CliError::new(CliErrorKind::Usage, what)
                            .with_hint("give one of them as a file, or with `--params-file`"));
                    }
                    read_limited(name, "stdin", &mut stdin)?
                }
                Some(ParamType::File) => read_file(name, text, self.cwd)?,
                _ => text.clone(),
            };
            values.insert(name.clone(), value);
        }
        Ok(values)
    }

    fn value_type(&self, name: &str) -> Option<ParamType> {
        self.params.iter().find(|param| param.name == name).map(|param| param.value_type)
    }
}

fn read_file(name: &str, typed: &str, folder: &Path) -> Result<String, CliError> {
    let path = folder.join(typed);
    let shown = one_line(&path.to_string_lossy());
    let refused = |why: String| {
        CliError::new(CliErrorKind::Usage, format!("cannot read {shown} for `--{name}`: {why}"))
    };
    let metadata = fs::metadata(&path).map_err(|error| refused(error.to_string()))?;
    if metadata.is_dir() {
        return Err(refused("it is a folder".to_owned()));
    }
    // A pipe of the shell, `<(git diff)`, has a writer.
    let file = File::open(&path).map_err(|error| refused(error.to_string()))?;
    read_limited(name, &shown, file)
}

fn read_limited(name: &str, shown: &str, source: impl io::Read) -> Result<String, CliError> {
    let refused = |why: &str| {
        CliError::new(CliErrorKind::Usage, format!("cannot read {shown} for `--{name}`: {why}"))
    };
    let mut bytes = Vec::new();
    let limit = MAX_VALUE_BYTES as u64;
    source.take(limit + 1).read_to_end(&mut bytes).map_err(|error| refused(&error.to_string()))?;
    if bytes.len() > MAX_VALUE_BYTES {
        let why = format!("it has more than {}", size_text(limit));
        return Err(refused(&why).with_hint("let a setup command read the file"));
    }
    String::from_utf8(bytes).map_err(|_| refused("it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> Vec<Param> {
        let typed = |name: &str, value_type| Param {
            name: name.to_owned(),
            value_type,
            ..Param::default()
        };
        vec![
            typed("target", ParamType::Text),
            typed("depth", ParamType::Choice),
            typed("diff", ParamType::File),
            typed("plan", ParamType::Json),
        ]
    }

    fn read(
        typed: &[(&str, &str)],
        file: Option<&str>,
        folder: &Path,
        stdin: &str,
    ) -> Result<BTreeMap<String, String>, CliError> {
        let typed = typed.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
        let params = params();
        let sources = ParamSources {
            params: &params,
            typed,
            file: file.map(Path::new),
            cwd: folder,
            stdin_use: None,
        };
        sources.read(stdin.as_bytes())
    }

    #[test]
    fn a_value_is_the_text_the_file_or_stdin_byte_for_byte() {
        let folder = tempfile::tempdir().unwrap();
        let hostile = "$(touch x) `id` ${{ env.HOME }} '\"\n\0\u{1b}[2J\r\n";
        fs::write(folder.path().join("a.diff"), hostile).unwrap();
        let one = |typed, stdin| read(&[typed], None, folder.path(), stdin).unwrap();
        let values = |name: &str, text: &str| BTreeMap::from([(name.to_owned(), text.to_owned())]);
        for (typed, stdin, expected) in [
            (("target", hostile), "", hostile),
            (("target", "@a.diff"), "", "@a.diff"),
            (("target", "-"), hostile, hostile),
            (("diff", "a.diff"), "", hostile),
            (("diff", "-"), hostile, hostile),
            (("plan", "-"), "[1]", "[1]"),
            (("depth", "-"), "unread", "-"),
        ] {
            assert_eq!(one(typed, stdin), values(typed.0, expected), "{typed:?}");
        }
    }

    #[test]
    fn the_command_line_is_over_the_file_whose_paths_begin_at_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("ci")).unwrap();
        fs::write(folder.path().join("ci/a.diff"), "+ line").unwrap();
        let text = "target: main\ndiff: a.diff\nplan: { steps: [1, null] }\n";
        fs::write(folder.path().join("ci/values.yaml"), text).unwrap();
        let found = read(&[("target", "pr")], Some("ci/values.yaml"), folder.path(), "").unwrap();
        let expected = [("diff", "+ line"), ("plan", r#"{"steps":[1,null]}"#), ("target", "pr")];
        assert_eq!(found, expected.map(|(name, text)| (name.into(), text.into())).into());
    }

    #[test]
    fn a_source_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("binary"), b"\xff").unwrap();
        fs::write(folder.path().join("long"), "x".repeat(MAX_VALUE_BYTES + 1)).unwrap();
        for (typed, part) in [
            (&[("diff", "missing")][..], "No such file"),
            (&[("diff", ".")], "it is a folder"),
            (&[("diff", "binary")], "it is not UTF-8 text"),
            (&[("diff", "long")], "it has more than 8 MiB"),
            (&[("diff", "-"), ("plan", "-")], "`--diff` and `--plan` both read stdin"),
        ] {
            let error = read(typed, None, folder.path(), "").unwrap_err().to_report_error();
            assert!(error.message.contains(part), "{typed:?}: {error:?}");
        }
    }
}
