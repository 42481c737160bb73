//! The one list of commands that run other commands or code, and pure functions that read their arguments.
//!
//! The permission rules find a denied command behind them; the script scanner finds the place of a value. This is
//! no parser of the shell: the callers split a command into words. A list is never complete. A caller that decides
//! what is safe accepts what it knows, and does not rely on the absence of a name.

use std::{collections::HashSet, sync::LazyLock};

mod interpreters;
mod options;
mod subcommands;
mod wrappers;

pub use interpreters::{
    ArgumentRole, Interpreter, Language, SHELL_DIRECTORIES, interpreter, is_installed_shell,
    is_shell, reads_commands, runs_stdin,
};
pub use options::{OptionTable, is_option};
pub use subcommands::{SubcommandProgram, subcommand_program};
pub use wrappers::{CommandWrapper, WrappedCommand, WrapperForm, wrapped_command, wrapper};

/// Words after which a command begins. `time` has options and is a wrapper.
const KEYWORDS: [&str; 10] =
    ["!", "{", "coproc", "do", "elif", "else", "if", "then", "until", "while"];

/// Commands that a shell runs itself: those of bash, dash and POSIX.
const BUILTINS: [&str; 62] = [
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "chdir",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];

/// Returns true for a word of the shell's grammar after which a command begins, such as `then`.
pub fn precedes_command(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// Returns true for a command that the shell runs itself, such as `read`.
pub fn is_builtin(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| BUILTINS.into_iter().collect());
    NAMES.contains(name)
}

/// Returns the name of a program without its folder: `rm` for `/bin/rm`.
pub fn program_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns true for `NAME=value` and `NAME+=value`, which set the environment of a command.
pub fn is_assignment(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| is_variable_name(name.strip_suffix('+').unwrap_or(name)))
}

/// Returns true for the name of a variable.
pub fn is_variable_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Variables with which a shell, the loader or git runs other programs than the file names.
const PROTECTED_NAMES: [&str; 10] =
    ["PATH", "HOME", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "IFS", "CDPATH", "SHELL"];
/// Beginnings of such names: the loader's, git's, exported functions of bash, and our own.
const PROTECTED_PREFIXES: [&str; 5] = ["LD_", "DYLD_", "GIT_", "BASH_FUNC_", "AGENT_WORKER_"];

/// Returns true for a variable that no client may set, whatever its token allows.
pub fn is_protected_variable(name: &str) -> bool {
    PROTECTED_NAMES.contains(&name)
        || PROTECTED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Quotes a word for a shell.
pub fn shell_quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
