//! Errors of a workflow file or of the values given to it. Each contains the mistake, its place (file, line, column,
//! the line itself) and a correction.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use annotate_snippets::{Level, Renderer};

use crate::{
    definition::param_value::ParamProblem,
    diagnostics::{
        diagnostic::Diagnostics,
        report::{DiagnosticReport, Mistake},
    },
    template::reference::Reference,
    yaml::text_file::FileReadError,
};

/// Reason for which there is no workflow, or for which it cannot be interpolated.
#[derive(Debug)]
pub enum Error {
    /// The file could not be read: it is missing, a folder, too long, or not UTF-8.
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Explanation of the failure, in words.
        why: String,
    },
    /// The file was read and is not a workflow.
    Invalid(DiagnosticReport),
    /// Values of parameters are wrong, unknown or missing.
    Params {
        /// Problems, at least one.
        problems: Vec<ParamProblem>,
    },
    /// The file uses an environment variable that the caller does not have.
    UnsetEnv {
        /// Name of the variable.
        name: String,
    },
    /// A reference has no value yet: the setup step that makes it has not run.
    NoValue {
        /// Reference without a value.
        reference: Reference,
    },
    /// A value that must be a number is other text.
    NotANumber {
        /// Reference to that value.
        reference: Reference,
        /// Kind of number, in words.
        kind: &'static str,
    },
    /// A value has a NUL byte, which no shell variable can hold.
    NulByte {
        /// Reference to that value.
        reference: Reference,
    },
    /// A variable of a setup command cannot be in an environment.
    BadVariable {
        /// Name of the variable.
        name: String,
        /// Property that excludes it, in words.
        why: &'static str,
    },
}

/// Coloring of a rendered error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenderStyle {
    /// Text without colors.
    Plain,
    /// Text with terminal escapes.
    Ansi,
}

impl Error {
    pub(crate) fn unreadable(path: &Path, why: &FileReadError) -> Self {
        Self::Unreadable { path: path.to_owned(), why: why.to_string() }
    }

    /// Creates the error for a file with at least one diagnostic.
    pub(crate) fn invalid(path: &Path, text: &str, diagnostics: Diagnostics) -> Self {
        Self::Invalid(DiagnosticReport::new(path, text, diagnostics))
    }

    /// Returns one line: `file:line:column: message`.
    pub fn summary(&self) -> String {
        escape_control_chars(&match self {
            Self::Unreadable { path, why } => format!("cannot read {}: {why}", path.display()),
            Self::Invalid(report) => report.summary(),
            Self::Params { problems } => join(problems, |problem| problem.message.clone()),
            Self::UnsetEnv { name } => {
                format!("the workflow uses `env.{name}`, and {name} is not set")
            }
            Self::NoValue { reference } => format!("`{reference}` has no value yet"),
            Self::NotANumber { reference, kind } => {
                format!("the value of `{reference}` must be {kind}")
            }
            Self::NulByte { reference } => {
                format!(
                    "the value of `{reference}` has a NUL byte, which no shell variable can hold"
                )
            }
            Self::BadVariable { name, why } => {
                format!("the value of the setup variable `{name}` {why}")
            }
        })
    }

    /// Returns a suggestion for the next step, if one is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable { .. } | Self::NoValue { .. } => None,
            Self::Invalid(report) => report.hint().map(escape_control_chars),
            Self::Params { problems } => {
                Some(escape_control_chars(&join(problems, |problem| problem.hint.clone())))
            }
            Self::UnsetEnv { name } => Some(format!("set {name} before the run")),
            Self::NotANumber { .. } => Some("let the step print one number".to_owned()),
            Self::NulByte { reference } => {
                Some(format!("read it from its file: `${{{{ {reference}.file }}}}`"))
            }
            Self::BadVariable { .. } => {
                Some("read the value in the script: `${{ NAME.file }}`".to_owned())
            }
        }
    }

    /// Returns the path of the file that could not be read or is invalid.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Unreadable { path, .. } => Some(path),
            Self::Invalid(report) => Some(report.path()),
            Self::Params { .. }
            | Self::UnsetEnv { .. }
            | Self::NoValue { .. }
            | Self::NotANumber { .. }
            | Self::NulByte { .. }
            | Self::BadVariable { .. } => None,
        }
    }

    /// Returns the mistakes of the file with their positions; empty for an error without a position.
    pub fn mistakes(&self) -> Vec<Mistake> {
        match self {
            Self::Invalid(report) => report.mistakes(),
            Self::Unreadable { .. }
            | Self::Params { .. }
            | Self::UnsetEnv { .. }
            | Self::NoValue { .. }
            | Self::NotANumber { .. }
            | Self::NulByte { .. }
            | Self::BadVariable { .. } => Vec::new(),
        }
    }

    /// Renders the whole error for people: each mistake with its line and a caret.
    pub fn render(&self, paint: RenderStyle) -> String {
        let renderer = match paint {
            RenderStyle::Plain => Renderer::plain(),
            RenderStyle::Ansi => Renderer::styled(),
        };
        if let Self::Invalid(report) = self {
            return report.render(&renderer);
        }
        let hint = self.hint().map(|hint| Level::HELP.message(hint));
        renderer.render(&[Level::ERROR.primary_title(self.summary()).elements(hint)])
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())
    }
}

impl std::error::Error for Error {}

/// Joins the texts of several problems without those that repeat.
fn join(problems: &[ParamProblem], text: impl Fn(&ParamProblem) -> String) -> String {
    let mut texts: Vec<String> = problems.iter().map(text).collect();
    texts.dedup();
    texts.join("; ")
}

/// Escapes control characters of a file's text, so that a terminal does not interpret them.
pub(crate) fn escape_control_chars(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        if c.is_control() {
            out.extend(c.escape_debug());
        } else {
            out.push(c);
        }
        out
    })
}
