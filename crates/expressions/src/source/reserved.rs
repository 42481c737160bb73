//! Names that no value of a workflow may have, because an expression understands them already.

/// Prefixes and values that the workflow itself defines.
pub const RESERVED_NAMES: [&str; 9] =
    ["tasks", "item", "index", "run", "event", "env", "params", "workflow", "context"];

/// Functions of the expressions, and `instance`, the short form of `workflow.tag`.
pub const RESERVED_FUNCTIONS: [&str; 7] =
    ["success", "failure", "always", "json", "lines", "hash", "int"];

const INSTANCE: &str = "instance";

/// Words of JavaScript that cannot be the name of a value, or that have a fixed one.
const KEYWORDS: [&str; 49] = [
    "arguments",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "get",
    "if",
    "import",
    "in",
    "instanceof",
    "let",
    "new",
    "null",
    "of",
    "return",
    "set",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
    "NaN",
    "Infinity",
];

/// Globals of the interpreter. A test compares them with those that it has.
const GLOBALS: [&str; 42] = [
    "AggregateError",
    "Array",
    "BigInt",
    "Boolean",
    "Error",
    "EvalError",
    "Function",
    "InternalError",
    "Iterator",
    "JSON",
    "Map",
    "Math",
    "Number",
    "Object",
    "RangeError",
    "ReferenceError",
    "Reflect",
    "RegExp",
    "Set",
    "String",
    "SuppressedError",
    "Symbol",
    "SyntaxError",
    "TypeError",
    "URIError",
    "WeakMap",
    "WeakSet",
    "DisposableStack",
    "AsyncDisposableStack",
    "decodeURI",
    "decodeURIComponent",
    "encodeURI",
    "encodeURIComponent",
    "escape",
    "globalThis",
    "isFinite",
    "isNaN",
    "parseFloat",
    "parseInt",
    "queueMicrotask",
    "unescape",
    "undefined",
];

/// Returns true if a word is part of JavaScript's own syntax, or a constant.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// Returns true if an expression has this name without any value of the workflow.
pub(crate) fn is_built_in(word: &str) -> bool {
    GLOBALS.contains(&word) || RESERVED_FUNCTIONS.contains(&word)
}

/// Returns true if no value of a workflow may have the name.
pub fn is_reserved(name: &str) -> bool {
    RESERVED_NAMES.contains(&name) || name == INSTANCE || is_keyword(name) || is_built_in(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_meaning_are_reserved_and_others_are_not() {
        for name in ["tasks", "instance", "json", "hash", "true", "typeof", "Math", "undefined"] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["diff", "Tasks", "JSON5", "tests", "contains", "file"] {
            assert!(!is_reserved(name), "{name}");
        }
    }
}
