//! What is wrong with a file or with the values given to it, told so that it can be put right:
//! what, where (file, line, column, the line itself), and what to write instead.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use annotate_snippets::{Level, Renderer};

use crate::{
    diagnostics::{
        diagnostic::Diagnostics,
        report::{DiagnosticReport, Mistake},
    },
    template::reference::Reference,
    yaml::text_file::FileReadError,
};

/// Why there is no workflow, or why it cannot be filled in.
#[derive(Debug)]
pub enum Error {
    /// The file could not be taken: missing, a folder, too long, not UTF-8.
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why, in words.
        why: String,
    },
    /// The file was read and is not a workflow.
    Invalid(DiagnosticReport),
    /// The file has no such parameter.
    UnknownParam {
        /// As given.
        name: String,
        /// What may have been meant, or what there is.
        hint: String,
    },
    /// A parameter that must be given was not.
    MissingParam {
        /// Its name.
        name: String,
    },
    /// The file asks for an environment variable that the caller does not have.
    UnsetEnv {
        /// Its name.
        name: String,
    },
    /// A reference has no value yet: the setup step that makes it has not run.
    NoValue {
        /// Which.
        reference: Reference,
    },
    /// A value has a NUL byte, which no shell variable can hold.
    NulByte {
        /// Whose value.
        reference: Reference,
    },
}

/// Whether a rendered error has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenderStyle {
    /// Text alone.
    Plain,
    /// With terminal escapes.
    Ansi,
}

impl Error {
    pub(crate) fn unreadable(path: &Path, why: &FileReadError) -> Self {
        Self::Unreadable { path: path.to_owned(), why: why.to_string() }
    }

    /// There is at least one diagnostic.
    pub(crate) fn invalid(path: &Path, text: &str, diagnostics: Diagnostics) -> Self {
        Self::Invalid(DiagnosticReport::new(path, text, diagnostics))
    }

    /// One line: `file:line:column: what is wrong`.
    pub fn summary(&self) -> String {
        escape_control_chars(&match self {
            Self::Unreadable { path, why } => format!("cannot read {}: {why}", path.display()),
            Self::Invalid(report) => report.summary(),
            Self::UnknownParam { name, .. } => format!("the workflow has no parameter `{name}`"),
            Self::MissingParam { name } => format!("the parameter `{name}` is required"),
            Self::UnsetEnv { name } => {
                format!("the workflow uses `env.{name}`, and {name} is not set")
            }
            Self::NoValue { reference } => format!("`{reference}` has no value yet"),
            Self::NulByte { reference } => {
                format!("the value of `{reference}` has a NUL byte, which no shell variable holds")
            }
        })
    }

    /// What to do next, if that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable { .. } | Self::NoValue { .. } => None,
            Self::Invalid(report) => report.hint().map(escape_control_chars),
            Self::UnknownParam { hint, .. } => Some(escape_control_chars(hint)),
            Self::MissingParam { name } => Some(format!("add `--{name} VALUE`")),
            Self::UnsetEnv { name } => Some(format!("set {name} before the run")),
            Self::NulByte { reference } => {
                Some(format!("read it from its file: `${{{{ {reference}.file }}}}`"))
            }
        }
    }

    /// What is wrong with the file, each at its place; nothing for an error that has none.
    pub fn mistakes(&self) -> Vec<Mistake> {
        match self {
            Self::Invalid(report) => report.mistakes(),
            Self::Unreadable { .. }
            | Self::UnknownParam { .. }
            | Self::MissingParam { .. }
            | Self::UnsetEnv { .. }
            | Self::NoValue { .. }
            | Self::NulByte { .. } => Vec::new(),
        }
    }

    /// The whole story, for people: each mistake with its line and a caret.
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

/// Text from a file, made harmless for a terminal.
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
