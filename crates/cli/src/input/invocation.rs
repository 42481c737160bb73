//! Parses the command line once: a command of this crate, the daemon or a worker.

use std::{ffi::OsString, process::ExitCode};

use agent_worker_protocol::Span;
use agent_worker_workflow::nearest;
use clap::{
    Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};
use serde_json::json;

use crate::{
    commands::{
        Commands,
        complete::CompletionRequest,
        daemon::DaemonCommand,
        help_topic::{HelpTopic, find_topic, topic_names},
        sandbox::SandboxArgs,
    },
    error::{CliError, CliErrorKind},
    input::{command_groups::grouped_help, params::is_help_flag},
    output::{console::Console, report::Envelope, verdict::RunVerdict},
};

/// Commands of later versions, so that a reader of the design learns that they are not missing by accident.
const PLANNED_COMMANDS: [&str; 9] =
    ["schedule", "skill", "hook", "on", "ui", "node", "rerun", "task", "tasks"];

/// Subcommands that delete; no misspelt command is corrected to one of them.
const DELETING_COMMANDS: [&str; 5] = ["rm", "end", "drop", "clear", "revoke"];

/// The role that this process takes.
#[derive(Debug)]
pub enum CliInvocation {
    /// A command, for [`run`](crate::run).
    Command(CliCommand),
    /// The daemon, in the foreground.
    Daemon(DaemonFlags),
    /// A worker, which reads its job from stdin.
    Worker,
    /// A program in a sandbox, for [`run_sandbox`](crate::run_sandbox).
    Sandbox(SandboxArgs),
    /// The process that applies the plan of a sandbox and becomes a program.
    SandboxExec(SandboxExecArgs),
    /// The process that evaluates expressions, which it reads from stdin.
    EvaluateExpressions,
    /// The process of the built-in tools, which reads calls from stdin.
    ToolHost,
}

/// A parsed command of this crate.
#[derive(Debug)]
pub struct CliCommand {
    pub(crate) command: Box<Commands>,
    config: Option<OsString>,
}

impl CliCommand {
    fn new(command: Box<Commands>) -> Self {
        Self { command, config: None }
    }

    /// Returns the configuration file that `--config` names, or `none`.
    pub fn config_flag(&self) -> Option<OsString> {
        self.config.clone()
    }
}

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
    /// Read this configuration file, or `none`
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: Option<OsString>,
    #[command(subcommand)]
    command: Option<TopLevelCommand>,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum TopLevelCommand {
    #[command(flatten)]
    Command(Box<Commands>),
    Daemon(DaemonArgs),
    Sandbox(SandboxArgs),
    /// Run one attempt
    #[command(hide = true)]
    Worker,
    #[command(hide = true)]
    SandboxExec(SandboxExecArgs),
    /// Evaluate expressions for another process
    #[command(hide = true)]
    EvaluateExpressions,
    /// Serve the built-in tools of one attempt
    #[command(hide = true)]
    ToolHost,
}

/// Apply the plan of a sandbox, then become a program
#[derive(Debug, Args)]
pub struct SandboxExecArgs {
    /// Plan as JSON
    pub plan: String,
    /// Program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
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
    let (config, words) = split_config_flag(words.into_iter().collect());
    let mut invocation = parse_without_config(&words, console)?;
    if let CliInvocation::Command(command) = &mut invocation {
        command.config = config;
    }
    Ok(invocation)
}

/// Takes `--config FILE` from the place before the command. Everything else depends on the place of the command.
fn split_config_flag(mut words: Vec<OsString>) -> (Option<OsString>, Vec<OsString>) {
    let mut config = None;
    while let Some(first) = words.get(1).and_then(|word| word.to_str()) {
        let length = match (first.strip_prefix("--config="), words.get(2)) {
            (Some(path), _) => {
                config = Some(path.into());
                1
            }
            (None, Some(path)) if first == "--config" => {
                config = Some(path.clone());
                2
            }
            (None, _) => break,
        };
        words.drain(1..=length);
    }
    (config, words)
}

fn parse_without_config(
    words: &[OsString],
    console: &mut Console,
) -> Result<CliInvocation, ExitCode> {
    let without_grammar = match (typed_topic(words), completion_request(words)) {
        (Some(topic), _) => Some(Commands::HelpTopic(topic)),
        (None, request) => request.map(Commands::Complete),
    };
    if let Some(command) = without_grammar {
        return Ok(CliInvocation::Command(CliCommand::new(Box::new(command))));
    }
    match parse_words(words) {
        Ok(cli) => Ok(into_invocation(cli.command)),
        Err(error) => match (file_help_command(&error, words), parse_list_item(&error, words)) {
            (Some(command), _) => Ok(CliInvocation::Command(CliCommand::new(Box::new(command)))),
            (None, Some(cli)) => Ok(into_invocation(cli.command)),
            (None, None) => {
                let error = with_variable_name(with_suggestion(error, words), words);
                Err(print_parse_error(error, words, console))
            }
        },
    }
}

/// Returns the topic of `help TOPIC`.
fn typed_topic(words: &[OsString]) -> Option<&'static HelpTopic> {
    match words {
        [_, help, name] if help == "help" => find_topic(name.to_str()?),
        _ => None,
    }
}

/// Returns the request of a completion script: `complete SHELL LINE`. It is no command of the grammar, so that no line
/// fails.
fn completion_request(words: &[OsString]) -> Option<CompletionRequest> {
    match words {
        [_, complete, shell, line] if complete == "complete" => Some(CompletionRequest {
            shell: shell.to_string_lossy().into_owned(),
            line: line.to_string_lossy().into_owned(),
        }),
        _ => None,
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
    let topics: Vec<_> = topic_names().collect();
    let help = grouped_help(&grammar, &topics.join(", "));
    let grammar = grammar.override_help(help);
    CliArgs::from_arg_matches_mut(&mut grammar.try_get_matches_from(words)?)
}

/// Returns the misspelt or planned subcommand of an error.
fn unknown_subcommand(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) => Some(name),
        _ => None,
    }
}

/// Adds the nearest subcommand to clap's error. clap itself does not count a transposition, such as `rnu`, as near.
fn with_suggestion(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let Some(typed) = unknown_subcommand(&error).map(str::to_owned) else { return error };
    let mut grammar = full_clap_command();
    grammar.build();
    let mut parent = &grammar;
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        match parent.find_subcommand(word) {
            Some(found) => parent = found,
            None => break,
        }
    }
    let shown = parent.get_subcommands().filter(|one| !one.is_hide_set());
    let shown = shown.filter(|one| !DELETING_COMMANDS.contains(&one.get_name()));
    let topics = topic_names().filter(|_| parent.get_name() == "help");
    let names = shown.flat_map(|one| one.get_name_and_visible_aliases());
    let names: Vec<&str> = names.chain(topics.map(|topic| -> &str { topic })).collect();
    // clap's own suggestion may be a hidden command.
    let suggested = match error.remove(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(suggested)) => suggested,
        _ => Vec::new(),
    };
    let suggested = suggested.into_iter().filter(|name| names.contains(&name.as_str()));
    let near = nearest(&typed, names.iter().copied()).map(|near| vec![near.to_owned()]);
    let near = near.unwrap_or_else(|| suggested.collect());
    if near.is_empty() {
        error.remove(ContextKind::Suggested);
    } else {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
    }
    error
}

/// Names the variable in the error about a value that no argument has: `AGENT_WORKER_PORT` instead of `--port`.
fn with_variable_name(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let mut grammar = DaemonArgs::augment_args(clap::Command::new("daemon"));
    grammar.build();
    let Some(arg) = grammar.get_arguments().find(|arg| arg.to_string() == *shown) else {
        return error;
    };
    let flag = arg.get_long().map(|long| format!("--{long}")).unwrap_or_default();
    let is_typed = words.iter().any(|word| word.to_string_lossy().starts_with(&flag));
    if let Some(variable) = arg.get_env().filter(|_| !is_typed) {
        let variable = variable.to_string_lossy().into_owned();
        error.insert(ContextKind::InvalidArg, ContextValue::String(variable));
    }
    error
}

/// Returns the error for a command that only a later version has.
fn planned_command_error(error: &clap::Error, words: &[OsString]) -> Option<CliError> {
    let typed = unknown_subcommand(error)?;
    let is_first = words.get(1).is_some_and(|word| word == typed);
    (is_first && PLANNED_COMMANDS.contains(&typed)).then(|| {
        CliError::new(CliErrorKind::Usage, format!("`{typed}` is not in this version"))
            .with_hint("the commands of this version: agent-worker --help")
    })
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
        TopLevelCommand::Daemon(_)
        | TopLevelCommand::Sandbox(_)
        | TopLevelCommand::Worker
        | TopLevelCommand::SandboxExec(_)
        | TopLevelCommand::EvaluateExpressions
        | TopLevelCommand::ToolHost => None,
    }
}

fn into_invocation(typed: Option<TopLevelCommand>) -> CliInvocation {
    match typed {
        None => CliInvocation::Command(CliCommand::new(Box::new(Commands::Overview))),
        Some(TopLevelCommand::Command(command)) => CliInvocation::Command(CliCommand::new(command)),
        Some(TopLevelCommand::Daemon(DaemonArgs { command: Some(ask), .. })) => {
            CliInvocation::Command(CliCommand::new(Box::new(Commands::Daemon(ask))))
        }
        Some(TopLevelCommand::Daemon(DaemonArgs { command: None, flags })) => {
            CliInvocation::Daemon(flags)
        }
        Some(TopLevelCommand::Sandbox(args)) => CliInvocation::Sandbox(args),
        Some(TopLevelCommand::Worker) => CliInvocation::Worker,
        Some(TopLevelCommand::SandboxExec(args)) => CliInvocation::SandboxExec(args),
        Some(TopLevelCommand::EvaluateExpressions) => CliInvocation::EvaluateExpressions,
        Some(TopLevelCommand::ToolHost) => CliInvocation::ToolHost,
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
    let planned = planned_command_error(&error, words);
    let printed = if let (Some(planned), false) = (&planned, json) {
        console.eprint_error(planned)
    } else if json && !is_help {
        let failure = planned.unwrap_or_else(|| CliError::from(error));
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

    use agent_worker_protocol::Target;

    use super::*;
    use crate::input::target_args::TargetArgs;

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
    fn help_explains_a_topic_and_lists_commands_in_groups() {
        let read = reads(&["help", "targets"]).unwrap();
        assert!(read.contains("HelpTopic") && read.contains("targets"), "{read}");
        let help = parse_words(&["agent-worker", "--help"].map(Into::into)).unwrap_err();
        let help = help.render().to_string();
        let place = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
        assert!(
            place("First steps:") < place("\n  run ") && place("\n  run ") < place("\n  vote ")
        );
        assert!(place("Topics: agent-worker help TOPIC") < place("Example:"), "{help}");
        assert!(!help.contains("Other commands"), "{help}");
        let of_run = parse_words(&["agent-worker", "help", "run"].map(Into::into)).unwrap_err();
        assert!(of_run.render().to_string().contains("agent-worker run"));
    }

    #[test]
    fn the_configuration_file_is_named_before_the_command() {
        let split = |words: &[&str]| {
            let words = words.iter().map(Into::into).collect();
            let (config, rest) = split_config_flag(words);
            let rest: Vec<_> =
                rest.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            (config.map(|path| path.to_string_lossy().into_owned()), rest.join(" "))
        };
        let file = || Some("c.toml".to_owned());
        for (words, config, rest) in [
            (&["aw", "--config", "c.toml", "run", "x"][..], file(), "aw run x"),
            (&["aw", "--config=c.toml", "ls"], file(), "aw ls"),
            (&["aw", "--config", "a", "--config", "c.toml"], file(), "aw"),
            (&["aw", "run", "x", "--config", "c.toml"], None, "aw run x --config c.toml"),
            (&["aw", "--config"], None, "aw --config"),
        ] {
            assert_eq!(split(words), (config, rest.to_owned()), "{words:?}");
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

    /// Returns the error of these words, as `--json` reports it.
    fn refused(words: &[&str]) -> agent_worker_protocol::api::ReportError {
        let words: Vec<OsString> = ["agent-worker"].iter().chain(words).map(Into::into).collect();
        let error = with_suggestion(parse_words(&words).unwrap_err(), &words);
        let planned = planned_command_error(&error, &words);
        planned.unwrap_or_else(|| CliError::from(error)).to_report_error()
    }

    #[test]
    fn a_misspelt_command_has_a_suggestion_and_a_planned_one_is_named() {
        for (words, expected) in [
            (&["rnu", "team.yaml"][..], "'run'"),
            (&["staus"], "'status'"),
            (&["lst"], "'ls'"),
            (&["daemon", "statsu"], "'status'"),
            (&["doc", "raed"], "'read'"),
            (&["token", "lst"], "'list'"),
            (&["help", "tragets"], "'targets'"),
        ] {
            let hint = refused(words).hint.unwrap_or_default();
            assert!(hint.contains(expected), "{words:?}: {hint}");
        }
        for words in [&["agent", "send", "x"][..], &["agent", "edn", "x"], &["rmm"]] {
            let hint = refused(words).hint.unwrap_or_default();
            let quoted = DELETING_COMMANDS.map(|name| format!("'{name}'"));
            assert!(!quoted.iter().any(|name| hint.contains(name.as_str())), "{words:?}: {hint}");
        }
        for name in PLANNED_COMMANDS {
            let error = refused(&[name, "coder", "set", "5m"]);
            let message = format!("`{name}` is not in this version");
            assert_eq!((error.code.as_str(), error.message), ("usage", message));
        }
        let hidden = refused(&["workflow"]).hint.unwrap_or_default();
        assert!(!hidden.contains("worker"), "{hidden}");
        let unknown = refused(&["xyzzy"]);
        assert_eq!(unknown.message, "unrecognized subcommand 'xyzzy'");
        assert!(
            full_clap_command()
                .get_subcommands()
                .all(|one| !PLANNED_COMMANDS.contains(&one.get_name()))
        );
    }

    /// Commands that act on no existing agent or instance, or only on that of the caller's shell.
    const WITHOUT_TARGET: [&str; 48] = [
        "run",
        "start",
        "up",
        "new",
        "agent",
        "agent new",
        "doc",
        "resource",
        "context",
        "context send",
        "context read",
        "context inbox",
        "context ack",
        "demo",
        "init",
        "validate",
        "sandbox",
        "schema",
        "doctor",
        "backends",
        "providers",
        "providers check",
        "config",
        "config path",
        "config get",
        "mock say",
        "mock call",
        "mock rules",
        "tool",
        "tool call",
        "mcp",
        "mcp install",
        "token",
        "token create",
        "token list",
        "token revoke",
        "feedback",
        "feedback list",
        "completions",
        "man",
        "daemon",
        "daemon status",
        "daemon stop",
        "daemon restart",
        "daemon install",
        "daemon uninstall",
        "daemon start",
        "daemon logs",
    ];

    #[test]
    fn every_command_that_acts_on_a_target_takes_it_as_an_argument_and_as_an_option() {
        fn check(command: &clap::Command, path: &str, others: &mut Vec<String>) {
            for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
                let path = format!("{path} {}", one.get_name()).trim_start().to_owned();
                check(one, &path, others);
                let option = one.get_opts().find(|arg| {
                    let names = arg.get_long_and_visible_aliases().unwrap_or_default();
                    ["target", "to"].iter().all(|name| names.contains(name))
                });
                let argument = one.get_positionals().any(|arg| {
                    let names = arg.get_value_names().unwrap_or_default();
                    names.iter().any(|name| name.contains("TARGET") || name.contains("AGENT"))
                });
                match option {
                    Some(option) => {
                        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
                        let same = help.starts_with("Same as TARGET") || help == "Same as AGENT";
                        assert!(argument && same, "{path}: {help}");
                        assert_eq!(option.get_short(), Some('t'), "{path}");
                    }
                    None => others.push(path),
                }
            }
        }
        let mut grammar = full_clap_command().disable_help_subcommand(true);
        grammar.build();
        let mut others = Vec::new();
        check(&grammar, "", &mut others);
        let mut expected = WITHOUT_TARGET.map(str::to_owned).to_vec();
        others.sort_unstable();
        expected.sort_unstable();
        assert_eq!(others, expected);
    }

    #[test]
    fn a_target_is_read_the_same_as_an_argument_and_as_an_option() {
        for (command, rest) in [
            (&["status"][..], &[][..]),
            (&["stop"], &[]),
            (&["receipts", "12"], &[]),
            (&["approve", "2"], &[]),
            (&["vote", "3", "sqlite"], &[]),
            (&["answer", "1", "yes"], &["--json"]),
            (&["dead", "redrive", "12"], &[]),
            (&["doc", "read", "notes.md"], &[]),
            (&["proposals"], &[]),
        ] {
            let expected: Target = "@review:pr-1".parse().unwrap();
            let with = |target: &[&str]| parsed_target(&[command, target, rest].concat());
            assert_eq!(with(&["@review:pr-1"]), Some(expected.clone()), "{command:?}");
            for option in ["--target", "--to", "-t"] {
                let target = with(&[option, "@review:pr-1"]);
                assert_eq!(target, Some(expected.clone()), "{command:?} {option}");
            }
        }
    }

    /// Returns the target of a command line, also from an optional argument in its place.
    fn parsed_target(words: &[&str]) -> Option<Target> {
        let words = ["agent-worker"].iter().chain(words);
        let matches = full_clap_command().try_get_matches_from(words).unwrap();
        let mut leaf = &matches;
        while let Some((_, inner)) = leaf.subcommand() {
            leaf = inner;
        }
        let typed = TargetArgs::from_arg_matches(leaf).unwrap().typed().unwrap();
        typed.or_else(|| {
            let mut first = ["id", "first"].iter().filter_map(|id| leaf.try_get_raw(id).ok()?);
            first.find_map(|mut values| values.next()?.to_str()?.parse().ok())
        })
    }

    #[test]
    fn a_value_of_a_variable_is_refused_with_the_name_of_the_variable() {
        let words: Vec<OsString> =
            ["agent-worker", "daemon", "--port", "abc"].map(Into::into).into();
        let typed = || parse_words(&words).unwrap_err();
        let message = |words: &[OsString]| {
            CliError::from(with_variable_name(typed(), words)).to_report_error().message
        };
        assert!(message(&words).contains("'--port <PORT>'"), "{}", message(&words));
        let text = message(&words[..2]);
        assert!(text.starts_with("invalid value 'abc' for 'AGENT_WORKER_PORT'"), "{text}");
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
