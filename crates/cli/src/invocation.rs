//! What a person typed, read once: a command for this room, or one of the two that are rooms of their own.

use std::{ffi::OsString, process::ExitCode};

use agent_worker_protocol::Span;
use clap::{Args, Parser, Subcommand, error::ErrorKind};
use serde_json::json;

use crate::{
    commands::{Commands, daemon::Ask},
    console::Console,
    error::{CliError, Kind},
    report::Envelope,
    verdict::Verdict,
};

/// What this process becomes.
#[derive(Debug)]
pub enum Invocation {
    /// A command, for [`run`](crate::run).
    Command(Command),
    /// The daemon, in the foreground.
    Daemon(DaemonFlags),
    /// A worker: its job is on stdin.
    Worker,
}

/// A command of this room.
#[derive(Debug)]
pub struct Command(pub(crate) Commands);

/// The daemon's settings. Each flag is also `AGENT_WORKER_<FLAG>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct DaemonFlags {
    /// How many attempts may live at once
    #[arg(long, value_name = "COUNT", env = "AGENT_WORKER_WORKERS", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: u32,
    /// How many of them in one instance
    #[arg(long, value_name = "COUNT", env = "AGENT_WORKER_WORKERS_PER_INSTANCE", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub workers_per_instance: u32,
    /// How long a worker goes on without a daemon
    #[arg(long, value_name = "TIME", env = "AGENT_WORKER_ORPHAN_GRACE", default_value = "60s")]
    pub orphan_grace: Span,
    /// How long a worker's children have between TERM and KILL
    #[arg(long, value_name = "TIME", env = "AGENT_WORKER_KILL_GRACE", default_value = "10s")]
    pub kill_grace: Span,
    /// How often agents look for mail without being woken
    #[arg(long, value_name = "TIME", env = "AGENT_WORKER_SWEEP", default_value = "5s")]
    pub sweep: Span,
    /// How long workers have when the daemon is asked to stop
    #[arg(long, value_name = "TIME", env = "AGENT_WORKER_DRAIN_GRACE", default_value = "10s")]
    pub drain_grace: Span,
    /// The port for clients on 127.0.0.1; another free one when it is taken
    #[arg(long, env = "AGENT_WORKER_PORT", default_value_t = 5099)]
    pub port: u16,
    /// Say `ready` on stdout once it listens
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
                  Answers go to stdout, talk to stderr. With --json stdout is one JSON document, \
                  failures included."
)]
struct Cli {
    #[command(subcommand)]
    typed: Option<Typed>,
}

#[derive(Debug, Subcommand)]
enum Typed {
    #[command(flatten)]
    Command(Commands),
    Daemon(DaemonArgs),
    /// Carry out one attempt
    #[command(hide = true)]
    Worker,
}

/// Run the daemon in the foreground, or ask the one that runs
///
/// Nobody needs to: commands that need a daemon start one.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example: agent-worker daemon status"
)]
struct DaemonArgs {
    #[command(subcommand)]
    ask: Option<Ask>,
    #[command(flatten)]
    flags: DaemonFlags,
}

/// Reads the words of a command line. Help, and words that make no sense, are answered here.
pub fn parse(
    words: impl IntoIterator<Item = OsString>,
    console: &mut Console,
) -> Result<Invocation, ExitCode> {
    let words: Vec<OsString> = words.into_iter().collect();
    match Cli::try_parse_from(&words) {
        Ok(cli) => Ok(meant(cli.typed)),
        Err(error) => Err(answered(error, &words, console)),
    }
}

fn meant(typed: Option<Typed>) -> Invocation {
    match typed {
        None => Invocation::Command(Command(Commands::Overview)),
        Some(Typed::Command(command)) => Invocation::Command(Command(command)),
        Some(Typed::Daemon(DaemonArgs { ask: Some(ask), .. })) => {
            Invocation::Command(Command(Commands::Daemon(ask)))
        }
        Some(Typed::Daemon(DaemonArgs { ask: None, flags })) => Invocation::Daemon(flags),
        Some(Typed::Worker) => Invocation::Worker,
    }
}

/// Prints clap's answer: as it is for people; for a program, which never asks for help, as a document.
fn answered(error: clap::Error, words: &[OsString], console: &mut Console) -> ExitCode {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    let verdict = if error.use_stderr() { Verdict::Invalid } else { Verdict::Done };
    let json = words.iter().any(|word| word == "--json");
    let printed = if json && !is_help {
        let failure = CliError::from(error);
        match words.get(1).and_then(|word| word.to_str()) {
            Some("run" | "start") => console.json(&Envelope::of_failure(&failure)),
            _ => console.json(&json!({ "error": failure.body() })),
        }
    } else {
        console.clap(&error)
    };
    match printed {
        Err(error) if error.kind() != Kind::ReaderGone => error.verdict().code().into(),
        Ok(()) | Err(_) => verdict.code().into(),
    }
}
