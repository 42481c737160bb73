//! `agent-worker completions`: prints the completion script for a shell.

use clap::ValueEnum;
use clap_complete::Shell;

use crate::{
    error::CliError,
    input::{context::CommandContext, invocation},
    output::verdict::RunVerdict,
};

/// Print a shell completion script
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bash: agent-worker completions bash > ~/.local/share/bash-completion/completions/agent-worker
  zsh:  agent-worker completions zsh > \"${fpath[1]}/_agent-worker\"
  fish: agent-worker completions fish > ~/.config/fish/completions/agent-worker.fish")]
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
}

/// Runs the command.
pub(crate) fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let shell = match args.shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut invocation::full_clap_command(),
        "agent-worker",
        &mut script,
    );
    ctx.console.print_raw(&String::from_utf8_lossy(&script))?;
    Ok(RunVerdict::Done)
}
