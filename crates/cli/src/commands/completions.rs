//! `agent-worker completions`: prints the completion script for a shell.
//!
//! The script passes the line up to the cursor to `agent-worker complete`, so that it knows the targets, tags,
//! parameters and numbers that exist at that moment.

use clap::ValueEnum;

use crate::{error::CliError, input::context::CommandContext, output::verdict::RunVerdict};

/// Print a shell completion script
///
/// The script completes commands, options, files, targets, tags, parameters of a workflow file, and the numbers of
/// messages, requests, questions and proposals. It starts no daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bash: agent-worker completions bash > ~/.local/share/bash-completion/completions/agent-worker
  zsh:  agent-worker completions zsh > \"${fpath[1]}/_agent-worker\"
  fish: agent-worker completions fish > ~/.config/fish/completions/agent-worker.fish
  PowerShell: agent-worker completions powershell >> $PROFILE")]
pub(crate) struct Args {
    /// Shell to complete commands in
    #[arg(value_enum)]
    shell: CompletionShell,
}

/// The shells with completions.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum CompletionShell {
    Bash,
    Zsh,
    Fish,
    #[value(name = "powershell", alias = "pwsh")]
    PowerShell,
}

/// Runs the command.
pub(crate) fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let script = match args.shell {
        CompletionShell::Bash => include_str!("completions/agent-worker.bash"),
        CompletionShell::Zsh => include_str!("completions/agent-worker.zsh"),
        CompletionShell::Fish => include_str!("completions/agent-worker.fish"),
        CompletionShell::PowerShell => include_str!("completions/agent-worker.ps1"),
    };
    ctx.console.print_raw(script)?;
    Ok(RunVerdict::Done)
}
