//! Shell commands with `${{ name }}` in them, prepared so that a value is never code in the shell that runs them.
//!
//! A reference is rewritten, according to the quotes around it, to a shell variable; the variable is filled from a
//! private file. A value is therefore never in the script, on a command line or in the environment, and can be 10 MB
//! long. A reference that cannot be placed is refused when the file is loaded. A number is checked and written into the
//! script, and may be anywhere.
//!
//! The scanner follows the quoting of bash and POSIX shells and collects facts; the policy decides about them. A
//! program that the script starts interprets its arguments by its own rules.

mod command;
mod facts;
mod heredoc;
mod operators;
mod parameter;
mod policy;
mod quoting;
mod refusal;
mod scanner;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde::{Deserialize, Serialize};

use crate::{
    diagnostics::diagnostic::Diagnostics,
    error::Error,
    template::{FlawedReference, Piece, expression, split_pieces},
    template::{
        number::{NumberKind, canonical_number},
        reference::{KnownNames, Reference, ReferenceFlaw, ReferenceForm},
        scope::TemplateScope,
    },
};
pub(crate) use policy::is_special as is_special_variable;
use scanner::{MisplacedReference, Symbol};

/// Command with references to values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellTemplate {
    parts: Vec<ShellTemplatePart>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ShellTemplatePart {
    Text(String),
    Value { reference: Reference, form: ReferenceForm, quotes: Quotes },
}

/// Quotes around a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Quotes {
    None,
    Double,
    Single,
    /// Text of a here-document, in which variables are expanded and not split.
    Heredoc,
}

/// Shell whose quoting is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Bash,
    /// `sh` and dash. `sh` may be bash, so the scanner accepts only text that both read alike.
    Posix,
}

/// Script with the files from which it reads its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedScript {
    /// Text for the shell; run it from a file, because it may be too long for a command line.
    pub script: String,
    /// Files that the caller writes (0600) before it runs the script.
    pub files: Vec<ValueFile>,
}

/// One value, to be written unchanged to a private file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueFile {
    /// Environment variable that must contain the file's path.
    pub variable: String,
    /// Content of the file.
    pub value: String,
}

impl ShellTemplate {
    /// Parses a command and finds a safe place for each of its references. Without a dialect the program is not a
    /// known shell, and references are refused.
    pub(crate) fn read(
        text: &str,
        dialect: Option<Dialect>,
        known: &KnownNames,
    ) -> Result<Self, Vec<FlawedReference>> {
        let (pieces, unsplit) = split_pieces(text, known);
        let (mut references, mut flaws) = (Vec::new(), Vec::new());
        let mut symbols = Vec::new();
        for piece in &pieces {
            match piece {
                Piece::Text(text) => symbols.extend(text.chars().map(Symbol::Char)),
                Piece::Reference { inner, nth } => match check_reference(inner, known) {
                    Ok((reference, form)) => {
                        let number = is_number(form);
                        symbols.push(if number { Symbol::Number } else { Symbol::Reference });
                        references.push((reference, form, *nth));
                    }
                    Err(flaw) => flaws.push(FlawedReference { nth: *nth, flaw }),
                },
            }
            if flaws.len() > Diagnostics::MAX_REPORTED {
                break;
            }
        }
        flaws.extend(unsplit);
        if !flaws.is_empty() {
            return Err(flaws);
        }
        // References to text: `Symbol::Number` is scanned as text.
        let places: Vec<usize> = references
            .iter()
            .filter(|(_, form, _)| !is_number(*form))
            .map(|(.., nth)| *nth)
            .collect();
        let environment = mentioned(&symbols, known);
        let quotes = match (dialect, places.first()) {
            (_, None) if environment.is_empty() => Vec::new(),
            (None, Some(nth)) => {
                return Err(vec![FlawedReference { nth: *nth, flaw: unknown_program_flaw() }]);
            }
            (None, None) => Vec::new(),
            (Some(dialect), _) => {
                scanner::quotes(&symbols, dialect, environment).map_err(|misplaced| {
                    let flawed = |one: MisplacedReference| FlawedReference {
                        // Without a reference, the flaw is at the whole script.
                        nth: places.get(one.index).copied().unwrap_or(usize::MAX),
                        flaw: one.why.flaw(),
                    };
                    misplaced.into_iter().map(flawed).collect::<Vec<_>>()
                })?
            }
        };
        let (mut values, mut quotes) = (references.into_iter(), quotes.into_iter());
        let part = |piece: Piece<'_>| match piece {
            Piece::Text(text) => Some(ShellTemplatePart::Text(text.to_owned())),
            Piece::Reference { .. } => {
                let (reference, form, _) = values.next()?;
                let quotes = if is_number(form) { Quotes::None } else { quotes.next()? };
                Some(ShellTemplatePart::Value { reference, form, quotes })
            }
        };
        Ok(Self { parts: pieces.into_iter().filter_map(part).collect() })
    }

    /// Creates the script that can read this scope's values.
    pub fn prepare(&self, scope: &TemplateScope) -> Result<PreparedScript, Error> {
        let mut numbers: BTreeMap<&Reference, usize> = BTreeMap::new();
        let mut files = Vec::new();
        let mut loaded = Vec::new();
        let mut body = String::new();
        for part in &self.parts {
            let (reference, form, quotes) = match part {
                ShellTemplatePart::Text(text) => {
                    body.push_str(text);
                    continue;
                }
                ShellTemplatePart::Value { reference, form, quotes } => (reference, form, quotes),
            };
            let value = scope.value(reference)?;
            if is_number(*form) {
                body.push_str(&number_text(reference, *form, value)?);
                continue;
            }
            let next = numbers.len() + 1;
            let number = *numbers.entry(reference).or_insert(next);
            if number == next {
                let variable = format!("AW_F{number}");
                files.push(ValueFile { variable, value: value.to_owned() });
            }
            let variable = match form {
                ReferenceForm::File | ReferenceForm::Integer | ReferenceForm::Number => {
                    format!("AW_F{number}")
                }
                ReferenceForm::Value if value.contains('\0') => {
                    return Err(Error::NulByte { reference: reference.clone() });
                }
                ReferenceForm::Value => {
                    loaded.push(number);
                    format!("AW_V{number}")
                }
            };
            body.push_str(&quotes.quote_variable(&variable));
        }
        loaded.sort_unstable();
        loaded.dedup();
        Ok(PreparedScript { script: preamble(&loaded) + &body, files })
    }

    /// Returns the references in the command.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.parts.iter().filter_map(|part| match part {
            ShellTemplatePart::Text(_) => None,
            ShellTemplatePart::Value { reference, .. } => Some(reference),
        })
    }
}

impl Quotes {
    /// Formats the variable in quotes of its own, and without braces: a `{` makes bash scan the whole word once more
    /// for brace expansion, where it follows quotes less well.
    fn quote_variable(self, variable: &str) -> String {
        match self {
            Self::None => format!("\"${variable}\""),
            Self::Double => format!("\"\"${variable}\"\""),
            Self::Single => format!("'\"${variable}\"'"),
            Self::Heredoc => format!("${{{variable}}}"),
        }
    }
}

/// Formats the assignments of the variables. `$( )` removes newlines at the end: a dot protects them. The assignments
/// share a line with the script's first, so that the shell's line numbers match the file's.
fn preamble(numbers: &[usize]) -> String {
    numbers.iter().fold(String::new(), |mut text, n| {
        // Writing to a string cannot fail.
        let _ = write!(text, "AW_V{n}=$(cat <\"$AW_F{n}\" && printf .); AW_V{n}=${{AW_V{n}%.}}; ");
        text
    })
}

/// Returns the variables of the environment that hold values and that the script mentions.
fn mentioned(symbols: &[Symbol], known: &KnownNames) -> Vec<String> {
    let holds_value = |name: &str| known.client_env.contains(name) || known.step_env.contains(name);
    let char_of = |symbol: &Symbol| match symbol {
        Symbol::Char(c) => *c,
        Symbol::Reference | Symbol::Number => ' ',
    };
    let text: String = symbols.iter().map(char_of).collect();
    let found: BTreeSet<&str> =
        facts::identifiers(&text).filter(|name| holds_value(name)).collect();
    found.into_iter().map(str::to_owned).collect()
}

fn check_reference(
    inner: &str,
    known: &KnownNames,
) -> Result<(Reference, ReferenceForm), ReferenceFlaw> {
    let (reference, form) = expression::parse(inner, known)?;
    reference.check(known)?;
    let form = match (&reference, form) {
        (Reference::Param(name), ReferenceForm::Value) if known.number_params.contains(name) => {
            ReferenceForm::Number
        }
        (_, form) => form,
    };
    Ok((reference, form))
}

fn is_number(form: ReferenceForm) -> bool {
    match form {
        ReferenceForm::Integer | ReferenceForm::Number => true,
        ReferenceForm::Value | ReferenceForm::File => false,
    }
}

/// Returns the text of a number for the script.
fn number_text(reference: &Reference, form: ReferenceForm, value: &str) -> Result<String, Error> {
    let (number_kind, kind) = match form {
        ReferenceForm::Integer => (NumberKind::Integer, "a whole number"),
        ReferenceForm::Value | ReferenceForm::File | ReferenceForm::Number => {
            (NumberKind::Decimal, "a number")
        }
    };
    canonical_number(value, number_kind)
        .ok_or_else(|| Error::NotANumber { reference: reference.clone(), kind })
}

fn unknown_program_flaw() -> ReferenceFlaw {
    ReferenceFlaw::new(
        "a value can be placed in scripts of bash, sh and dash, not of this `shell_program`",
    )
    .with_hint("use one of these shells, or pass the value in an earlier step")
}
