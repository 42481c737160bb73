//! Reasons for which a reference cannot be at its position, with a correction for each.
//!
//! A correction that is code can be pasted: with a name instead of the `…` in `${{ … }}` the loader accepts it.

mod rewrite;

use crate::template::reference::ReferenceFlaw;

/// Reason for which a reference cannot be at its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlacementRefusal {
    /// In a comment: `# …`.
    Comment,
    /// After a quoted delimiter: `<<'EOF'`.
    QuotedHeredoc,
    /// In a delimiter: `<<${{ x }}`.
    HeredocDelimiter,
    /// In ANSI quotes: `$'…'`.
    AnsiQuotes,
    /// In arithmetic: `$(( … ))`, `(( … ))`, `${name:offset}`.
    Arithmetic,
    /// In backticks: `` `…` ``.
    Backticks,
    /// In a parameter expansion: `${…}`.
    Braces,
    /// After a backslash: `\${{ x }}`.
    Backslash,
    /// In a subscript: `a[${{ x }}]=`.
    Subscript,
    /// As a command, `${{ x }} --help`, or in the pattern of a `case`.
    CommandWord,
    /// In a condition: `[[ ${{ x }} == 1 ]]`.
    Condition,
    /// In an array: `a=( … )`.
    Array,
    /// In an indirect expansion: `${!name}`.
    Indirect,
    /// In a transformation: `${name@P}`.
    Transformation,
    /// In an addition to a variable: `name+=`.
    Append,
    /// In a variable with a meaning to the shell: `PATH=`.
    SpecialVariable(String),
    /// As an argument of a command whose name is not known: `$program ${{ x }}`.
    UnknownCommand,
    /// As the command that a wrapper runs, or as one of its options: `timeout 5 ${{ x }}`.
    Wrapper(String),
    /// As code for `eval`, `ssh`, `sh -c`, ….
    Code(String),
    /// On the standard input of a command that runs it: `sh <<EOF`.
    Stdin(String),
    /// As the name of a variable: `read ${{ x }}`.
    Variable(String),
    /// In `declare`, `export` and similar.
    Declaration(String),
    /// As an argument of another builtin.
    Builtin(String),
    /// Before the format of `printf`.
    Format,
    /// As an operand of `test` that may be an operator.
    TestOperand,
    /// In a script whose commands have other names than they seem: `alias`.
    Alias(String),
    /// In a script with a command that runs text from anywhere: `eval`.
    Evaluator(String),
    /// In a script that sets a variable which the shell runs: `PS4=`.
    CodeVariable(String),
    /// In a script with a command whose name is made at run time: `$program`.
    DynamicCommand,
    /// In a script with a variable whose name is made at run time: `read "p$i"`.
    DynamicName(String),
    /// In a script with code that is made at run time: `trap "rm $file" EXIT`.
    DynamicCode(String),
    /// In a script that evaluates text which is made at run time: `y=$(cat f); echo $((y))`.
    Computed { variable: Option<String>, why: Box<PlacementRefusal> },
    /// In a script that the scanner could not follow.
    ScanFailed(&'static str),
    /// In a variable, which is then used where a value is refused.
    Through { variable: String, why: Box<PlacementRefusal> },
}

impl PlacementRefusal {
    /// Creates the refusal of a value that reaches a place by a variable.
    pub(super) fn through(variable: &str, why: Self) -> Self {
        Self::Through { variable: variable.to_owned(), why: Box::new(why) }
    }

    pub(super) fn flaw(&self) -> ReferenceFlaw {
        let message = match self {
            Self::Through { variable, why } => {
                let variable = if variable == "@" { "1" } else { variable };
                format!("a value cannot be in `${variable}` here: {}", why.message())
            }
            why => format!("a value cannot be placed here: {}", why.message()),
        };
        ReferenceFlaw::new(message).with_hint(self.hint())
    }

    #[expect(clippy::too_many_lines, reason = "a table with one row for each refusal")]
    fn message(&self) -> String {
        let message = match self {
            Self::Comment => "this is a comment",
            Self::QuotedHeredoc => {
                "the delimiter of this here-document is quoted, so no value is inserted"
            }
            Self::HeredocDelimiter => "this is the delimiter of a here-document",
            Self::AnsiQuotes => "this is inside `$'…'`",
            Self::Arithmetic => "arithmetic evaluates its operands as code",
            Self::Backticks => "this is inside backticks",
            Self::Braces => "this is inside `${…}`",
            Self::Backslash => "it follows a backslash",
            Self::Subscript => "a subscript is evaluated as code",
            Self::CommandWord => "this is the command itself, or a pattern of `case`",
            Self::Condition => "`[[ … ]]` may evaluate its operands as code",
            Self::Array => "the elements of an array may be evaluated as code",
            Self::Indirect => "`${!…}` evaluates a name as code",
            Self::Transformation => "`${…@…}` may run its text as code",
            Self::Append => "`+=` may evaluate the text as code",
            Self::SpecialVariable(name) => {
                return format!("`{name}` has a meaning to the shell or to programs");
            }
            Self::UnknownCommand => "the name of the command is not written out",
            Self::Wrapper(name) => {
                return format!("`{name}` runs one of its arguments, and this may be the one");
            }
            Self::Code(name) => return format!("`{name}` would run it as code"),
            Self::Stdin(name) => {
                return format!(
                    "`{name}` runs its standard input as code, and a value may arrive there"
                );
            }
            Self::Variable(name) => return format!("`{name}` would use it as a variable's name"),
            Self::Declaration(name) => return format!("`{name}` may evaluate it as code"),
            Self::Builtin(name) => {
                return format!(
                    "`{name}` is a builtin that is not known to take every text as data"
                );
            }
            Self::Format => "the format of `printf` comes first and is written out",
            Self::TestOperand => "`test` may take it for an operator such as `-v`",
            Self::Alias(name) => {
                return format!("`{name}` can make code of other commands of this script");
            }
            Self::Evaluator(name) => {
                return format!("`{name}` in this script can run text from anywhere as code");
            }
            Self::CodeVariable(name) => {
                return format!("the shell runs the text of `{name}`, which this script sets");
            }
            Self::DynamicCommand => {
                "the name of a command in this script is not written out, and may be `eval`"
            }
            Self::DynamicName(name) => {
                return format!(
                    "`{name}` in this script uses a variable's name that is not written out"
                );
            }
            Self::DynamicCode(name) => {
                return format!("the code of `{name}` in this script is not written out");
            }
            Self::Computed { variable, why } => {
                let what = variable.as_ref().map_or_else(
                    || "the output of a command or a part of a text".to_owned(),
                    |name| format!("`${}`", if name == "@" { "1" } else { name }),
                );
                return format!("{what} may have a value or name one, and {}", why.message());
            }
            Self::ScanFailed(what) => {
                return format!("the script cannot be parsed ({what})");
            }
            Self::Through { why, .. } => return why.message(),
        };
        message.to_owned()
    }

    fn hint(&self) -> String {
        rewrite::hint(self)
    }
}
