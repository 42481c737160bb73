//! Parses the command line once: a command of this crate, the daemon or a worker.

use std::{ffi::OsString, process::ExitCode};

use agent_worker_protocol::Span;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, error::ErrorKind};
use serde_json::json;

use crate::{
    commands::{Commands, daemon::DaemonCommand},
    error::{CliError, CliErrorKind},
    input::params::is_help_flag,
    output::{console::Console, report::Envelope, verdict::RunVerdict},
};

/// The role that this process takes.
#[derive(Debug)]
pub enum CliInvocation {
    /// A command, for [`run`](crate::run).
    Command(CliCommand),
    /// The daemon, in the foreground.
    Daemon(DaemonFlags),
    /// A worker, which reads its job from stdin.
    Worker,
}

/// A parsed command of this crate.
#[derive(Debug)]
pub struct CliCommand(pub(crate) Box<Commands>);

/// The method for tracking the processes of agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ProcessTrackingFlag {
    /// One control group (version 2) per attempt, if possible
    Auto,
    /// The process tree only
    Tree,
}

/// The daemon's settings. Each flag is also `AGENT_WORKER_<FLAG>`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct DaemonFlags {
    /// Maximum number of concurrent attempts
    #[arg(
        long,
        value_name = "COUNT",
        env = "AGENT_WORKER_WORKERS",
        default_value_t = 8,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Limits"
    )]
    pub workers: u32,
    /// Maximum number of concurrent attempts per instance
    #[arg(
        long,
        value_name = "COUNT",
        env = "AGENT_WORKER_WORKERS_PER_INSTANCE",
        default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Limits"
    )]
    pub workers_per_instance: u32,
    /// Time a worker keeps running without a daemon
    #[arg(
        long,
        value_name = "TIME",
        env = "AGENT_WORKER_ORPHAN_GRACE",
        default_value = "60s",
        help_heading = "Times"
    )]
    pub orphan_grace: Span,
    /// Grace period between TERM and KILL for the children of a worker
    #[arg(
        long,
        value_name = "TIME",
        env = "AGENT_WORKER_KILL_GRACE",
        default_value = "10s",
        help_heading = "Times"
    )]
    pub kill_grace: Span,
    /// Interval of the sweep for pending messages
    #[arg(
        long,
        value_name = "TIME",
        env = "AGENT_WORKER_SWEEP",
        default_value = "5s",
        help_heading = "Times"
    )]
    pub sweep: Span,
    /// Grace period for workers when the daemon stops
    #[arg(
        long,
        value_name = "TIME",
        env = "AGENT_WORKER_DRAIN_GRACE",
        default_value = "10s",
        help_heading = "Times"
    )]
    pub drain_grace: Span,
    /// Method of tracking the processes of agents
    #[arg(long, value_name = "HOW", env = "AGENT_WORKER_PROCESS_TRACKING", value_enum, default_value_t = ProcessTrackingFlag::Auto)]
    pub process_tracking: ProcessTrackingFlag,
    /// Port for clients on 127.0.0.1, 0 for any free one [default: 5099, or another if it is taken]
    #[arg(long, env = "AGENT_WORKER_PORT")]
    pub port: Option<u16>,
    /// User id that may connect to the port, in addition to your own; repeatable
    #[arg(
        long = "allow-uid",
        value_name = "UID",
        env = "AGENT_WORKER_ALLOW_UID",
        value_delimiter = ','
    )]
    pub allow_uid: Vec<u32>,
    /// Print `ready` on stdout once the daemon listens
    #[arg(long, hide = true)]
    pub announce: bool,
}

/// Run several AI agents as a team
#[derive(Debug, Parser)]
#[command(
    name = "agent-worker",
    bin_name = "agent-worker",
    version,
    after_help = "Example: agent-worker run review.yaml --tag pr-123\n\n\
                  Answers go to stdout, messages to stderr. With --json stdout is one JSON document, \
                  also for failures.\n\
                  Help for a command: agent-worker COMMAND --help"
)]
struct CliArgs {
    #[command(subcommand)]
    command: Option<TopLevelCommand>,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum TopLevelCommand {
    #[command(flatten)]
    Command(Box<Commands>),
    Daemon(DaemonArgs),
    /// Run one attempt
    #[command(hide = true)]
    Worker,
}

/// Run the daemon in the foreground, or manage the running one
///
/// Commands that need a daemon start one, so this is rarely needed.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example: agent-worker daemon status"
)]
struct DaemonArgs {
    #[command(subcommand)]
    command: Option<DaemonCommand>,
    #[command(flatten)]
    flags: DaemonFlags,
}

/// Builds the complete clap command for completions and the manual, which list every subcommand.
pub(crate) fn full_clap_command() -> clap::Command {
    CliArgs::command()
}

/// Parses the arguments; prints help and usage errors itself.
pub fn parse(
    words: impl IntoIterator<Item = OsString>,
    console: &mut Console,
) -> Result<CliInvocation, ExitCode> {
    let words: Vec<OsString> = words.into_iter().collect();
    match parse_words(&words) {
        Ok(cli) => Ok(into_invocation(cli.command)),
        Err(error) => match (file_help_command(&error, &words), parse_list_item(&error, &words)) {
            (Some(command), _) => Ok(CliInvocation::Command(CliCommand(Box::new(command)))),
            (None, Some(cli)) => Ok(into_invocation(cli.command)),
            (None, None) => Err(print_parse_error(error, &words, console)),
        },
    }
}

/// Parses with a clap command that defines only the named subcommand, since defining all of them takes longer than most
/// commands run. The full command parses any other input again: aliases, misspelt names, requests for help.
fn parse_words(words: &[OsString]) -> Result<CliArgs, clap::Error> {
    match CliArgs::try_parse_from(words) {
        Err(error) if error.kind() != ErrorKind::DisplayVersion => parse_with_full_command(words),
        read => read,
    }
}

fn parse_with_full_command<W: Into<OsString> + Clone>(
    words: impl IntoIterator<Item = W>,
) -> Result<CliArgs, clap::Error> {
    let mut grammar = full_clap_command();
    grammar.build();
    CliArgs::from_arg_matches_mut(&mut grammar.try_get_matches_from(words)?)
}

/// Parses `doc append notes.md "- done"`: an argument that starts with a dash and a blank is a list item and no option.
/// The text is the last argument of a command, so it is moved behind `--`.
fn parse_list_item(error: &clap::Error, words: &[OsString]) -> Option<CliArgs> {
    let is_item = |word: &&OsString| word.as_encoded_bytes().starts_with(b"- ");
    if error.kind() != ErrorKind::UnknownArgument || words.iter().any(|word| word == "--") {
        return None;
    }
    let (items, others): (Vec<_>, Vec<_>) = words.iter().partition(is_item);
    let end = OsString::from("--");
    let words = others.into_iter().chain([&end]).chain(items);
    parse_with_full_command(words).ok()
}

/// Returns the command for `run FILE --help`, which must read the file to list its parameters.
fn file_help_command(error: &clap::Error, words: &[OsString]) -> Option<Commands> {
    if error.kind() != ErrorKind::DisplayHelp {
        return None;
    }
    let others = words.iter().filter(|word| !is_help_flag(word));
    match parse_with_full_command(others).ok()?.command? {
        TopLevelCommand::Command(command) => command.into_file_help(),
        TopLevelCommand::Daemon(_) | TopLevelCommand::Worker => None,
    }
}

fn into_invocation(typed: Option<TopLevelCommand>) -> CliInvocation {
    match typed {
        None => CliInvocation::Command(CliCommand(Box::new(Commands::Overview))),
        Some(TopLevelCommand::Command(command)) => CliInvocation::Command(CliCommand(command)),
        Some(TopLevelCommand::Daemon(DaemonArgs { command: Some(ask), .. })) => {
            CliInvocation::Command(CliCommand(Box::new(Commands::Daemon(ask))))
        }
        Some(TopLevelCommand::Daemon(DaemonArgs { command: None, flags })) => {
            CliInvocation::Daemon(flags)
        }
        Some(TopLevelCommand::Worker) => CliInvocation::Worker,
    }
}

/// Prints clap's message: as text for people, or as a JSON document for a program, which never requests help.
fn print_parse_error(error: clap::Error, words: &[OsString], console: &mut Console) -> ExitCode {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    let verdict = if error.use_stderr() { RunVerdict::Invalid } else { RunVerdict::Done };
    let json = words.iter().any(|word| word == "--json");
    let printed = if json && !is_help {
        let failure = CliError::from(error);
        match words.get(1).and_then(|word| word.to_str()) {
            Some("run" | "start" | "up" | "attach" | "resume" | "restart") => {
                console.print_json(&Envelope::from_error(&failure))
            }
            _ => console.print_json(&json!({ "error": failure.to_report_error() })),
        }
    } else {
        console.print_clap_message(&error)
    };
    match printed {
        Err(error) if error.kind() != CliErrorKind::OutputClosed => {
            error.verdict().exit_code().into()
        }
        Ok(()) | Err(_) => verdict.exit_code().into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn no_two_words_of_the_grammar_are_in_each_others_way() {
        full_clap_command().debug_assert();
    }

    fn reads(words: &[&str]) -> Result<String, ExitCode> {
        let mut console = Console::for_programs(Box::new(io::sink()), Box::new(io::sink()));
        let words = ["agent-worker"].iter().chain(words).map(Into::into);
        parse(words, &mut console).map(|read| format!("{read:?}"))
    }

    #[test]
    fn a_command_is_the_same_by_its_other_name() {
        for (words, others) in [
            (&["ls", "--all"], &["list", "--all"]),
            (&["status", "coder"], &["info", "coder"]),
            (&["token", "list"], &["token", "ls"]),
        ] {
            assert_eq!(reads(words).unwrap(), reads(others).unwrap());
        }
    }

    #[test]
    fn an_item_of_a_list_is_a_text_and_a_misspelt_option_is_not() {
        for words in [
            &["doc", "append", "notes.md", "- done", "--target", "@review"][..],
            &["send", "coder", "- one\n- two", "--wait"],
        ] {
            let read = reads(words).unwrap();
            assert!(
                words.iter().any(|word| word.starts_with("- ")) && read.contains("- "),
                "{read}"
            );
        }
        assert!(reads(&["send", "coder", "hello", "--wiat"]).is_err());
        assert!(reads(&["send", "coder", "- hello", "--wiat"]).is_err());
    }

    #[test]
    fn the_reference_names_every_command() {
        let reference = include_str!("../../../../docs/reference/commands.md");
        let grammar = full_clap_command();
        for command in grammar.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let is_named = reference.split(|c: char| !c.is_alphanumeric()).any(|word| word == name);
            assert!(is_named, "docs/reference/commands.md does not describe `{name}`");
        }
    }

    #[test]
    fn every_command_says_what_it_is_and_shows_an_example() {
        fn check_help(command: &clap::Command, path: &str) {
            for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
                let path = format!("{path} {}", one.get_name());
                assert!(one.get_about().is_some(), "{path}");
                let after = one.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(after.contains("Example"), "{path}");
                check_help(one, &path);
            }
        }
        let mut grammar = full_clap_command().disable_help_subcommand(true);
        grammar.build();
        check_help(&grammar, "agent-worker");
    }
}
