//! Errors of the interpreter. Their messages may contain values: only fixed messages and names that the source itself
//! has leave the child.

use rquickjs::CaughtError;

use crate::{child::functions::MESSAGES, error::EvaluationError};

/// Classes whose names leave the child.
const KINDS: [&str; 9] = [
    "Error",
    "TypeError",
    "RangeError",
    "ReferenceError",
    "SyntaxError",
    "EvalError",
    "URIError",
    "InternalError",
    "AggregateError",
];

/// Messages of the interpreter without a variable part.
const FIXED: [&str; 9] = [
    "not a function",
    "not an object",
    "invalid array length",
    "invalid string length",
    "circular reference",
    "cannot convert to object",
    "invalid regular expression flags",
    "cannot convert bigint to number",
    "cannot convert symbol to number",
];

/// Messages of the interpreter around one name.
const AROUND_NAMES: [(&str, &str); 8] = [
    ("'", "' is not defined"),
    ("", " is not defined"),
    ("cannot read property '", "' of undefined"),
    ("cannot read property '", "' of null"),
    ("cannot set property '", "' of undefined"),
    ("'", "' is read-only"),
    ("", " is not a function"),
    ("no setter for property '", "'"),
];

const OUT_OF_MEMORY: &str = "out of memory";
const STACK_OVERFLOW: [&str; 2] = ["stack overflow", "Maximum call stack size exceeded"];

/// Lines before the source in the text that is compiled.
const LINES_BEFORE: usize = 1;

/// Returns the error of a source that cannot be compiled; nothing of it has run.
pub(super) fn syntax_error(caught: &CaughtError<'_>, source: &str) -> EvaluationError {
    let (why, offset) = match caught {
        CaughtError::Exception(exception) => {
            (exception.message().unwrap_or_default(), offset_in(exception.stack(), source))
        }
        CaughtError::Error(_) | CaughtError::Value(_) => (String::new(), None),
    };
    let offset = offset.unwrap_or_default();
    let why = match why.as_str() {
        "" => "it cannot be read".to_owned(),
        // The interpreter names the bracket after the source, which is ours.
        _ if offset >= source.trim_end().len() => "it ends too early".to_owned(),
        _ => why,
    };
    EvaluationError::Syntax { offset, why }
}

/// Returns the error that an expression threw.
pub(super) fn thrown_error(caught: &CaughtError<'_>, source: &str, memory: u64) -> EvaluationError {
    if is_out_of_memory(caught) {
        return EvaluationError::OutOfMemory { limit: memory };
    }
    let CaughtError::Exception(exception) = caught else {
        let kind = "a value that is not an error".to_owned();
        return EvaluationError::Thrown { offset: None, kind, why: None };
    };
    let message = exception.message().unwrap_or_default();
    let name: Option<String> = exception.get("name").ok();
    let kind = name.filter(|name| KINDS.contains(&name.as_str()));
    let kind = kind.unwrap_or_else(|| "Error".to_owned());
    if STACK_OVERFLOW.contains(&message.as_str()) {
        return EvaluationError::StackOverflow;
    }
    let offset = offset_in(exception.stack(), source);
    EvaluationError::Thrown { offset, kind, why: harmless(&message, source) }
}

pub(super) fn is_out_of_memory(caught: &CaughtError<'_>) -> bool {
    match caught {
        CaughtError::Exception(exception) => {
            exception.message().is_none_or(|message| message == OUT_OF_MEMORY)
        }
        // Without memory the interpreter cannot make the exception either.
        CaughtError::Value(value) => value.is_null(),
        CaughtError::Error(error) => matches!(error, rquickjs::Error::Allocation),
    }
}

/// Returns the message if no value can be in it.
fn harmless(message: &str, source: &str) -> Option<String> {
    if MESSAGES.contains(&message) || FIXED.contains(&message) {
        return Some(message.to_owned());
    }
    let name = AROUND_NAMES
        .iter()
        .find_map(|(before, after)| message.strip_prefix(before)?.strip_suffix(after))?;
    has_word(source, name).then(|| message.to_owned())
}

/// Returns true if the source has the name as a word of its own.
fn has_word(source: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    !name.is_empty() && source.split(|c| !is_part(c)).any(|word| word == name)
}

/// Reads the place of the first line of a stack that is in the source.
fn offset_in(stack: Option<String>, source: &str) -> Option<usize> {
    let stack = stack?;
    let mut places = stack.lines().filter_map(|line| {
        let line = line.trim_end().trim_end_matches(')');
        let (rest, column) = line.rsplit_once(':')?;
        let (file, line) = rest.rsplit_once(':')?;
        let is_ours = file.ends_with("eval_script");
        let (line, column) = (line.parse::<usize>().ok()?, column.parse::<usize>().ok()?);
        is_ours.then_some((line, column))
    });
    places.find_map(|(line, column)| {
        let line = line.checked_sub(LINES_BEFORE + 1)?;
        let start: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
        let mut offset = (start + column.saturating_sub(1)).min(source.len());
        while !source.is_char_boundary(offset) {
            offset -= 1;
        }
        Some(offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_leaves_the_child_only_without_values() {
        for (message, source, expected) in [
            ("'itms' is not defined", "itms.length", true),
            ("cannot read property 'y' of undefined", "x.y.z", true),
            ("cannot read property 'hunter2' of undefined", "x[env.NAME].z", false),
            ("hunter2", "x", false),
            ("'hunter2' is not defined", "(() => {}).constructor(x)()", false),
            ("json(): the text is not JSON", "json(x)", true),
            ("Unexpected token 'h'", "JSON.parse(x)", false),
            ("'' is not defined", "", false),
        ] {
            assert_eq!(harmless(message, source).is_some(), expected, "{message}");
        }
    }

    #[test]
    fn a_stack_gives_the_place_in_the_source() {
        for (stack, source, expected) in [
            ("    at <anonymous> (eval_script:2:3)\n", "a b", Some(2)),
            ("    at f (native)\n    at <anonymous> (eval_script:3:2)\n", "a\nbc", Some(3)),
            ("    at eval_script:2:1\n", "a", Some(0)),
            ("    at <anonymous> (eval_script:1:9)\n", "a", None),
            ("    at <anonymous> (eval_script:2:99)\n", "é", Some(2)),
            ("    at <anonymous> (eval_script:2:2)\n", "é", Some(0)),
            ("", "a", None),
        ] {
            assert_eq!(offset_in(Some(stack.to_owned()), source), expected, "{stack}");
        }
    }
}
