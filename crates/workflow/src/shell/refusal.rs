//! Reasons for which a reference cannot be at its position, with a correction for each.

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
    /// In arithmetic: `$(( … ))`, `(( … ))`.
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
    /// In an arithmetic condition: `[[ ${{ x }} -eq 1 ]]`.
    Condition,
    /// As code for `eval`, `ssh`, `sh -c`, ….
    Code(String),
    /// As the name of a variable: `read ${{ x }}`, `declare ${{ x }}`.
    Variable(String),
    /// After text that the scanner could not follow.
    ScanFailed(&'static str),
}

impl PlacementRefusal {
    pub(super) fn flaw(&self) -> ReferenceFlaw {
        let (message, hint) = self.message_and_hint();
        ReferenceFlaw::new(format!("a value cannot be placed here: {message}")).with_hint(hint)
    }

    fn message_and_hint(&self) -> (String, &'static str) {
        const VARIABLE: &str = "assign the value to a variable first: `x=${{ … }}`, then use `$x`";
        let (message, hint) = match self {
            Self::Comment => {
                ("this is a comment", "remove it; for the characters themselves write `$${{`")
            }
            Self::QuotedHeredoc => (
                "the delimiter of this here-document is quoted, so no value is inserted",
                "remove the quotes from the delimiter",
            ),
            Self::HeredocDelimiter => ("this is the delimiter of a here-document", "write it out"),
            Self::AnsiQuotes => ("this is inside `$'…'`", "use `\"…\"`"),
            Self::Arithmetic => ("arithmetic evaluates its operands as code", VARIABLE),
            Self::Backticks => ("this is inside backticks", "use `$( … )`"),
            Self::Braces => ("this is inside `${…}`", VARIABLE),
            Self::Backslash => (
                "it follows a backslash",
                "remove the backslash; for the characters themselves write `$${{`",
            ),
            Self::Subscript => ("a subscript is evaluated as code", VARIABLE),
            Self::CommandWord => (
                "this is the command itself, or a pattern of `case`",
                "a value can be an argument; write the command out",
            ),
            Self::Condition => (
                "`[[ … ]]` evaluates the operands of `-eq`, `-lt`, `-v` … as code",
                "use `[ … ]`, or compare text with `==`",
            ),
            Self::Code(name) => {
                let message = format!("`{name}` would run it as code");
                let hint = "pass it as a separate argument (`sh -c 'echo \"$1\"' sh \"${{ … }}\"`) or on stdin";
                return (message, hint);
            }
            Self::Variable(name) => {
                return (format!("`{name}` would use it as a variable's name"), VARIABLE);
            }
            Self::ScanFailed(what) => {
                let message = format!("the script before it cannot be parsed ({what})");
                return (
                    message,
                    "write that part more simply, or use the value in a separate step",
                );
            }
        };
        (message.to_owned(), hint)
    }
}
