//! Commands that run another command, which is one of their arguments.

use std::{collections::HashMap, sync::LazyLock};

use super::{
    is_assignment,
    options::{OptionTable, OptionValue, is_option},
    program_name,
};

/// A command that runs another command.
#[derive(Debug)]
pub struct CommandWrapper {
    /// Name of the program or builtin.
    pub name: &'static str,
    /// Options that take a value.
    pub options: OptionTable,
    /// Options whose value is code or a command line: `-S` of `env`, `-c` of `flock`.
    pub code_options: OptionTable,
    /// The place of the command.
    pub form: WrapperForm,
}

/// The place of the command in the arguments of a wrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrapperForm {
    /// After the options and this number of operands: `timeout 5 command`.
    AfterOperands(usize),
    /// After the options and `NAME=value` words: `env A=1 command`.
    AfterAssignments,
    /// After `-exec` and similar actions of `find`.
    AfterAction,
    /// Any word may be the command or part of its code: `ssh`, `watch`, `parallel`.
    Anywhere,
}

/// The place of the command behind the wrappers of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrappedCommand {
    /// The command begins at this word; 0 if the first word is no wrapper.
    At(usize),
    /// The words end before the command: the next word is part of a wrapper, or is the command.
    NotNamed,
    /// The next word may be a command or code.
    Unclear,
}

const fn table(short: &'static str, long: &'static [&'static str]) -> OptionTable {
    OptionTable { short, long }
}

const fn plain(name: &'static str, short: &'static str) -> CommandWrapper {
    with_operands(name, 0, table(short, &[]))
}

const fn with_operands(name: &'static str, count: usize, options: OptionTable) -> CommandWrapper {
    let form = WrapperForm::AfterOperands(count);
    CommandWrapper { name, options, code_options: OptionTable::EMPTY, form }
}

const fn anywhere(name: &'static str) -> CommandWrapper {
    CommandWrapper {
        name,
        options: OptionTable::EMPTY,
        code_options: OptionTable::EMPTY,
        form: WrapperForm::Anywhere,
    }
}

const SUDO_LONG: &[&str] = &[
    "--chdir",
    "--chroot",
    "--close-from",
    "--command-timeout",
    "--group",
    "--host",
    "--other-user",
    "--prompt",
    "--role",
    "--type",
    "--user",
];
const XARGS_LONG: &[&str] = &[
    "--arg-file",
    "--delimiter",
    "--max-args",
    "--max-chars",
    "--max-procs",
    "--process-slot-var",
];

/// The dynamic loader, which has the machine and a version in its name: `ld-linux-x86-64.so.2`.
const LOADER: &str = "ld.so";

/// Wrappers with a known place of the command.
static PRECISE: [CommandWrapper; 34] = [
    plain("builtin", ""),
    plain("busybox", ""),
    with_operands("chroot", 1, table("", &["--groups", "--userspec"])),
    with_operands("chrt", 1, table("DPT", &[])),
    plain("command", ""),
    plain("doas", "Cau"),
    plain("eatmydata", ""),
    CommandWrapper {
        name: "env",
        options: table("CPau", &["--argv0", "--chdir", "--unset"]),
        code_options: table("S", &["--split-string"]),
        form: WrapperForm::AfterAssignments,
    },
    plain("exec", "a"),
    plain("fakeroot", "bils"),
    with_operands("faketime", 1, OptionTable::EMPTY),
    CommandWrapper {
        name: "find",
        options: OptionTable::EMPTY,
        code_options: OptionTable::EMPTY,
        form: WrapperForm::AfterAction,
    },
    CommandWrapper {
        name: "flock",
        options: table("Ew", &["--conflict-exit-code", "--timeout", "--wait"]),
        code_options: table("c", &["--command"]),
        form: WrapperForm::AfterOperands(1),
    },
    with_operands("ionice", 0, table("Pcnpu", &["--class", "--classdata", "--pid"])),
    with_operands(LOADER, 0, table("", &["--argv0", "--audit", "--library-path", "--preload"])),
    plain("linux32", ""),
    plain("linux64", ""),
    plain("ltrace", "DFaenopsuw"),
    with_operands("nice", 0, table("n", &["--adjustment"])),
    plain("nohup", ""),
    plain("rlwrap", "CDHMNOPSabcefglmopqst"),
    with_operands("setarch", 1, OptionTable::EMPTY),
    plain("setsid", ""),
    with_operands("stdbuf", 0, table("eio", &["--error", "--input", "--output"])),
    plain("strace", "EIOPSUXabeopsu"),
    CommandWrapper {
        name: "sudo",
        options: table("ACDRTUghprtu", SUDO_LONG),
        code_options: OptionTable::EMPTY,
        form: WrapperForm::AfterAssignments,
    },
    with_operands("taskset", 1, OptionTable::EMPTY),
    with_operands("time", 0, table("fo", &["--format", "--output"])),
    with_operands("timeout", 1, table("ks", &["--kill-after", "--signal"])),
    plain("toybox", ""),
    plain("unbuffer", ""),
    with_operands("xargs", 0, table("EIJLPRSadns", XARGS_LONG)),
    with_operands("gtimeout", 1, table("ks", &["--kill-after", "--signal"])),
    with_operands("gxargs", 0, table("EILPadns", XARGS_LONG)),
];

/// Commands that join their arguments to code, or whose options are too many to list.
static ANYWHERE: [CommandWrapper; 39] = [
    anywhere("at"),
    anywhere("batch"),
    anywhere("bunx"),
    anywhere("bwrap"),
    anywhere("capsh"),
    anywhere("cgexec"),
    anywhere("dbus-run-session"),
    anywhere("direnv"),
    anywhere("dtach"),
    anywhere("entr"),
    anywhere("eval"),
    anywhere("firejail"),
    anywhere("gdb"),
    anywhere("hyperfine"),
    anywhere("machinectl"),
    anywhere("nix-shell"),
    anywhere("npx"),
    anywhere("nsenter"),
    anywhere("numactl"),
    anywhere("parallel"),
    anywhere("pnpx"),
    anywhere("prlimit"),
    anywhere("proot"),
    anywhere("runuser"),
    anywhere("screen"),
    anywhere("script"),
    anywhere("setpriv"),
    anywhere("sg"),
    anywhere("ssh"),
    anywhere("ssh-agent"),
    anywhere("start-stop-daemon"),
    anywhere("su"),
    anywhere("systemd-run"),
    anywhere("tmux"),
    anywhere("trap"),
    anywhere("unshare"),
    anywhere("valgrind"),
    anywhere("watch"),
    anywhere("xvfb-run"),
];

/// Returns the wrapper with this name, which has no folder.
pub fn wrapper(name: &str) -> Option<&'static CommandWrapper> {
    static BY_NAME: LazyLock<HashMap<&str, &CommandWrapper>> = LazyLock::new(|| {
        ANYWHERE.iter().chain(&PRECISE).map(|wrapper| (wrapper.name, wrapper)).collect()
    });
    let is_loader = ["ld-linux", "ld-musl"].iter().any(|start| name.starts_with(start));
    BY_NAME.get(if is_loader { LOADER } else { name }).copied()
}

/// Returns the place of the command behind all wrappers. A word is none if its first character is not known before
/// the command runs, so that it may be an option.
pub fn wrapped_command(words: &[Option<&str>]) -> WrappedCommand {
    let mut at = 0;
    loop {
        let Some(word) = words.get(at) else { return WrappedCommand::NotNamed };
        let Some(wrapper) = word.and_then(|word| wrapper(program_name(word))) else {
            return WrappedCommand::At(at);
        };
        match wrapper.command_in(&words[at + 1..]) {
            WrappedCommand::At(next) => at += 1 + next,
            // The search of `find` is over: its remaining words are arguments.
            WrappedCommand::NotNamed if wrapper.form == WrapperForm::AfterAction => {
                return WrappedCommand::At(at);
            }
            other => return other,
        }
    }
}

impl CommandWrapper {
    /// Returns the place of the command in the arguments of this wrapper.
    fn command_in(&self, arguments: &[Option<&str>]) -> WrappedCommand {
        let (mut operands, takes_assignments) = match self.form {
            WrapperForm::Anywhere => return WrappedCommand::Unclear,
            WrapperForm::AfterAction => return action_command(arguments),
            WrapperForm::AfterOperands(count) => (count, false),
            WrapperForm::AfterAssignments => (0, true),
        };
        let (mut at, mut options_end) = (0, false);
        while let Some(word) = arguments.get(at) {
            let option = match word {
                // The word may be an option with a value, or the command.
                None if !options_end => return WrappedCommand::Unclear,
                Some(word) if !options_end && is_option(word) => Some(*word),
                _ => None,
            };
            match option {
                Some("--") => options_end = true,
                Some(option) if self.code_options.value_of(option) != OptionValue::None => {
                    return WrappedCommand::Unclear;
                }
                Some(option) => {
                    at += usize::from(self.options.value_of(option) == OptionValue::NextWord);
                }
                None if takes_assignments && word.is_some_and(is_assignment) => {}
                None if operands == 0 => return WrappedCommand::At(at),
                None => {
                    operands -= 1;
                    // `flock file -c code` has options after its operand.
                    options_end = operands == 0 && self.code_options.short.is_empty();
                }
            }
            at += 1;
        }
        WrappedCommand::NotNamed
    }
}

/// Returns the place of the command of the last action of `find` that has no end yet.
fn action_command(arguments: &[Option<&str>]) -> WrappedCommand {
    let is_action =
        |word: Option<&str>| matches!(word, Some("-exec" | "-execdir" | "-ok" | "-okdir"));
    let Some(action) = arguments.iter().rposition(|word| is_action(*word)) else {
        return WrappedCommand::NotNamed;
    };
    let command = &arguments[action + 1..];
    let ended = command.iter().any(|word| matches!(word, Some(";" | "\\;")))
        || command.windows(2).any(|pair| pair == [Some("{}"), Some("+")]);
    match (ended, command.is_empty()) {
        (true, _) => WrappedCommand::NotNamed,
        (false, true) => WrappedCommand::Unclear,
        (false, false) => WrappedCommand::At(action + 1),
    }
}
