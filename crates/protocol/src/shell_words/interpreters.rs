//! Programs that run code: from an argument, from a file, or from their standard input.

use std::{collections::HashMap, sync::LazyLock};

use super::{
    options::{OptionTable, OptionValue, is_option},
    program_name,
};

/// A program that runs code.
#[derive(Debug)]
pub struct Interpreter {
    /// Name of the program, without a version.
    pub name: &'static str,
    /// Options whose value is code.
    pub code_options: OptionTable,
    /// Options with another value.
    pub options: OptionTable,
    /// Language of the code.
    pub language: Language,
}

/// The language of an interpreter, as far as it changes the meaning of the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A shell: after `-c` in any group of letters, the first operand is code.
    Shell,
    /// The first operand is a file with code.
    Script,
    /// The first operand is code: `awk`, `sed`.
    Program,
}

/// The meaning of a word to an interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentRole {
    /// The interpreter runs the word, or may do so.
    Code,
    /// The interpreter runs the file with this name.
    ScriptFile,
    /// The word is data for the code.
    Data,
}

/// Folders of shells that belong to the system or to its package manager.
pub const SHELL_DIRECTORIES: [&str; 5] =
    ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"];

const fn shell(name: &'static str) -> Interpreter {
    Interpreter {
        name,
        code_options: OptionTable { short: "c", long: &["--command"] },
        options: OptionTable { short: "oO", long: &["--init-file", "--rcfile"] },
        language: Language::Shell,
    }
}

const fn script(
    name: &'static str,
    code: &'static str,
    long_code: &'static [&'static str],
    options: &'static str,
) -> Interpreter {
    Interpreter {
        name,
        code_options: OptionTable { short: code, long: long_code },
        options: OptionTable { short: options, long: &[] },
        language: Language::Script,
    }
}

const fn program(name: &'static str, code: &'static str, options: &'static str) -> Interpreter {
    Interpreter {
        name,
        code_options: OptionTable { short: code, long: &["--expression", "--source"] },
        options: OptionTable { short: options, long: &[] },
        language: Language::Program,
    }
}

const JS_CODE: &[&str] = &["--eval", "--print"];

static INTERPRETERS: [Interpreter; 58] = [
    shell("ash"),
    shell("bash"),
    shell("csh"),
    shell("dash"),
    shell("elvish"),
    Interpreter {
        name: "fish",
        code_options: OptionTable { short: "Cc", long: &["--command", "--init-command"] },
        options: OptionTable { short: "dDfo", long: &[] },
        language: Language::Shell,
    },
    shell("ksh"),
    shell("mksh"),
    shell("nu"),
    shell("oksh"),
    shell("osh"),
    shell("pdksh"),
    shell("posh"),
    Interpreter {
        name: "pwsh",
        code_options: OptionTable {
            short: "c",
            long: &["-Command", "-EncodedCommand", "--command"],
        },
        options: OptionTable::EMPTY,
        language: Language::Shell,
    },
    shell("rbash"),
    shell("rksh"),
    shell("sh"),
    shell("tcsh"),
    shell("xonsh"),
    shell("yash"),
    shell("zsh"),
    program("awk", "e", "Ffv"),
    program("gawk", "e", "Ffivl"),
    program("mawk", "", "FWfv"),
    program("nawk", "", "Ffv"),
    program("sed", "e", "fl"),
    program("gsed", "e", "fl"),
    script("bun", "ep", JS_CODE, "r"),
    script("crontab", "", &[], "u"),
    script("dc", "e", &["--expression"], "f"),
    script("deno", "", &[], ""),
    script("ed", "", &[], "p"),
    script("ex", "c", &["--cmd"], ""),
    script("expect", "c", &[], "f"),
    script("guile", "c", &[], "l"),
    script("julia", "eE", JS_CODE, "L"),
    script("lua", "e", &[], "l"),
    script("luajit", "e", &[], "l"),
    script("m4", "", &[], "DI"),
    script("make", "", &["--eval"], "fC"),
    script("mysql", "e", &["--execute"], ""),
    script("node", "ep", JS_CODE, "r"),
    script("nodejs", "ep", JS_CODE, "r"),
    script("nvim", "cS", &["--cmd"], ""),
    script("osascript", "e", &[], "l"),
    script("perl", "eE", &[], ""),
    script("php", "rBRE", &["--run"], "dc"),
    script("psql", "c", &["--command"], "dfhpU"),
    script("pypy", "c", &[], "WX"),
    script("python", "c", &[], "WX"),
    script("racket", "e", &["--eval"], "l"),
    script("ruby", "e", &[], "rI"),
    script("sqlite3", "", &["-cmd"], ""),
    script("tclsh", "", &[], ""),
    script("ts-node", "ep", JS_CODE, "r"),
    script("tsx", "ep", JS_CODE, "r"),
    script("vi", "c", &[], ""),
    script("vim", "cS", &["--cmd"], ""),
];

/// Commands that are no interpreters by their arguments and that run their standard input.
const STDIN_RUNNERS: [&str; 20] = [
    ".",
    "at",
    "batch",
    "chroot",
    "docker",
    "kubectl",
    "machinectl",
    "newgrp",
    "nsenter",
    "parallel",
    "podman",
    "runuser",
    "script",
    "sg",
    "source",
    "ssh",
    "su",
    "sudo",
    "systemd-run",
    "unshare",
];

/// Interpreters whose operands are the data of the code on standard input.
const OPERANDS_ARE_DATA: [&str; 6] = ["dc", "ed", "ex", "mysql", "psql", "sqlite3"];

/// Returns the interpreter with this name, which has no folder and may have a version: `python3.12`.
pub fn interpreter(name: &str) -> Option<&'static Interpreter> {
    // A script of a megabyte has thousands of commands, and each is looked up.
    static BY_NAME: LazyLock<HashMap<&str, &Interpreter>> =
        LazyLock::new(|| INTERPRETERS.iter().map(|known| (known.name, known)).collect());
    let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    match BY_NAME.get(name) {
        None if unversioned != name => BY_NAME.get(unversioned).copied(),
        found => found.copied(),
    }
}

/// Returns true for the name of a shell, without its folder.
pub fn is_shell(name: &str) -> bool {
    interpreter(name).is_some_and(|known| known.language == Language::Shell)
}

/// Returns true for a shell that is named alone, or that is in a folder of the system.
pub fn is_installed_shell(program: &str) -> bool {
    let at_known_place = match program.rsplit_once('/') {
        None => true,
        Some((folder, _)) => SHELL_DIRECTORIES.contains(&folder),
    };
    at_known_place && is_shell(program_name(program))
}

/// Returns true for a shell and for a program that reads commands like a shell: `at`.
pub fn reads_commands(name: &str) -> bool {
    is_shell(name) || ["at", "batch", "newgrp", "parallel", "su"].contains(&name)
}

/// Returns true if the command with these words runs its standard input as code, or may do so.
pub fn runs_stdin(name: &str, arguments: &[Option<&str>]) -> bool {
    if STDIN_RUNNERS.contains(&name) {
        return true;
    }
    interpreter(name).is_some_and(|known| known.runs_stdin(arguments))
}

impl Interpreter {
    /// Returns the role of a word that begins with `prefix` and follows `arguments`. An argument is none if its
    /// first character is not known before the command runs, so that it may be an option.
    pub fn role_after(&self, arguments: &[Option<&str>], prefix: &str) -> ArgumentRole {
        let state = self.read(arguments);
        match state {
            Reading::Unclear | Reading::CodeValue => ArgumentRole::Code,
            Reading::OptionValue { .. } | Reading::Operands => ArgumentRole::Data,
            Reading::Options { code_named } => {
                let value = self.code_options.value_of(prefix);
                if is_option(prefix) && value != OptionValue::None {
                    return ArgumentRole::Code;
                }
                match (self.language, code_named) {
                    // `bash -c` waits for its code, and so does `awk`.
                    (Language::Shell, true) | (Language::Program, false) => ArgumentRole::Code,
                    (Language::Shell | Language::Script, false) => ArgumentRole::ScriptFile,
                    (Language::Script | Language::Program, true) => ArgumentRole::Data,
                }
            }
        }
    }

    fn runs_stdin(&self, arguments: &[Option<&str>]) -> bool {
        let is_stdin = |word: Option<&str>| {
            matches!(word, Some("-" | "-s" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") | None)
        };
        let names_code = match self.read(arguments) {
            Reading::Options { code_named } => code_named,
            Reading::Operands => true,
            Reading::Unclear | Reading::CodeValue | Reading::OptionValue { .. } => false,
        };
        let is_program_given = names_code && !OPERANDS_ARE_DATA.contains(&self.name);
        self.language != Language::Program
            && (!is_program_given || arguments.iter().copied().any(is_stdin))
            || arguments.windows(2).any(|pair| {
                matches!(pair[0], Some("-f" | "--file" | "--makefile")) && is_stdin(pair[1])
            })
    }

    /// Reads the arguments before the next one.
    fn read(&self, arguments: &[Option<&str>]) -> Reading {
        let mut state = Reading::Options { code_named: false };
        let mut options_end = false;
        for word in arguments {
            state = match (state, word) {
                (Reading::Operands | Reading::Unclear, _) => return state,
                (Reading::CodeValue, _) => Reading::Options { code_named: true },
                (Reading::OptionValue { code_named }, _) => Reading::Options { code_named },
                (Reading::Options { .. }, None) if !options_end => Reading::Unclear,
                (Reading::Options { .. }, Some("--")) if !options_end => {
                    options_end = true;
                    state
                }
                (Reading::Options { .. }, Some(word)) if !options_end && is_option(word) => {
                    self.after_option(word, state)
                }
                (Reading::Options { .. }, _) => Reading::Operands,
            };
        }
        state
    }

    /// Returns the state after an option.
    fn after_option(&self, word: &str, before: Reading) -> Reading {
        let code_named = matches!(before, Reading::Options { code_named: true });
        let code = self.code_options.value_of(word);
        let value = self.options.value_of(word);
        if self.language == Language::Shell {
            // A shell takes its code from the first operand, and the value of `o` from the next word:
            // `bash -ceo pipefail code`.
            let code_named = code_named || code != OptionValue::None;
            return match value {
                OptionValue::None => Reading::Options { code_named },
                OptionValue::Attached(_) | OptionValue::NextWord => {
                    Reading::OptionValue { code_named }
                }
            };
        }
        // `awk -f file` and `sed -f file` name their program.
        let names_file = self.language == Language::Program && word.starts_with("-f");
        let code_named = code_named || names_file;
        match (code, value) {
            (OptionValue::Attached(_), _) => Reading::Options { code_named: true },
            (OptionValue::NextWord, _) => Reading::CodeValue,
            (OptionValue::None, OptionValue::NextWord) => Reading::OptionValue { code_named },
            (OptionValue::None, OptionValue::None | OptionValue::Attached(_)) => {
                Reading::Options { code_named }
            }
        }
    }
}

/// The state of an interpreter's arguments.
#[derive(Clone, Copy)]
enum Reading {
    /// Among the options.
    Options { code_named: bool },
    /// The next word is code.
    CodeValue,
    /// The next word is the value of another option.
    OptionValue { code_named: bool },
    /// After the first operand.
    Operands,
    /// A word may be an option.
    Unclear,
}
