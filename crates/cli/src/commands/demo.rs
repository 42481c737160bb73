//! `agent-worker demo`: shows a team that survives a crash of an agent and the kill of its daemon.
//!
//! The agents are scripted; the daemon, the workers, the kill and the retry are real. `demo_home` owns the private
//! folder and its daemon, `scenes` plays the steps (`kill_scene` that of the kill) with the team of `show`, `stage` prints at a pace for readers, `captions` has the texts, and
//! `evidence` computes each claim from two readings of the daemon's state.

mod captions;
mod demo_home;
mod evidence;
mod kill_scene;
mod record;
mod scenes;
mod show;
mod stage;

use self::{
    captions::{CHECK_FAILED, INTRODUCTION, NEXT_STEP, STOPPED},
    demo_home::DemoHome,
    scenes::play_scenes,
    stage::{Halt, KeyInput, Stage},
};
use crate::{
    error::CliError,
    input::{context::CommandContext, signals::InterruptSignals},
    output::verdict::RunVerdict,
};

/// Watch a team of scripted agents survive `kill -9`, in 20 seconds
///
/// A lead hands out work, an agent fails and is retried, the daemon is killed, and an agent asks you a question. The demo needs
/// no key and no file. It has its own folder, daemon and port; your daemon and your runs are not touched. At the end the
/// processes and the folder are gone, also after Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: agent-worker demo

Exit codes: 0 every check succeeded, 1 a check failed, 130 you stopped the demo.")]
pub(crate) struct Args {
    /// Answer the question without waiting for a key
    #[arg(long)]
    no_input: bool,
    /// Keep the folder of the demo, with its workflow file and its database
    #[arg(long)]
    keep: bool,
    /// Length of the pauses, in percent
    #[arg(long, hide = true, value_name = "PERCENT", default_value_t = 100)]
    pace: u32,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let signals = InterruptSignals::listen_or_fail()?;
    let mut home = DemoHome::create(ctx.settings)?;
    let keys = if args.no_input { KeyInput::Off } else { KeyInput::IfTerminal };
    let mut stage = Stage::new(ctx.console, signals, args.pace, keys);
    let played = play(&mut home, &mut stage).await;
    // A Ctrl-C also reaches a daemon that is just being started; the failed start is then no error of its own.
    let played = match played {
        Err(_) if stage.is_interrupted().await => Err(Halt::Interrupted),
        played => played,
    };
    let closed = home.stop_daemon().await;
    let closed = closed.and_then(|()| if args.keep { Ok(()) } else { home.remove() });
    if let Err(Halt::Failed(error)) = played {
        if let Err(remaining) = closed {
            ctx.console.warn(&remaining.to_report_error().message)?;
        }
        return Err(error);
    }
    closed?;
    if args.keep {
        stage.print_all(&home.kept_lines())?;
    }
    match played {
        Ok(RunVerdict::Done) => stage.print_all(&NEXT_STEP)?,
        Ok(_) => stage.print_all(&CHECK_FAILED)?,
        Err(_) => ctx.console.note(STOPPED)?,
    }
    Ok(played.unwrap_or(RunVerdict::Stopped))
}

async fn play(home: &mut DemoHome, stage: &mut Stage<'_>) -> Result<RunVerdict, Halt> {
    stage.introduce(&INTRODUCTION).await?;
    play_scenes(home, stage).await
}
