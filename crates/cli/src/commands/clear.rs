//! `agent-worker clear`: hides the messages of a channel so far.

use agent_worker_protocol::{Target, api::InstanceRequest};
use uuid::Uuid;

use crate::{
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        target_args::{TargetArgs, TargetEffect},
    },
    output::{
        styled_line::{StyledLine, Tone},
        verdict::RunVerdict,
    },
};

/// Hide all messages of a channel so far
///
/// Hides them from all readers, including agents, whose next turns begin new conversations. Nothing is deleted, and pending
/// messages stay pending; `rm` deletes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker clear @review:pr-123")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let target = args.target.or_selected(TargetEffect::Change, ctx)?;
    let project = Some(ctx.settings.cwd.clone());
    let key = Uuid::now_v7().to_string();
    let cleared = client.instance_clear(&key, &InstanceRequest { target, project }).await?;
    match args.output.format() {
        Format::Json => ctx.console.print_json(&cleared)?,
        Format::Text => {
            let target = Target::instance(&cleared.instance);
            let line = StyledLine::new(Tone::Strong, format!("cleared {target}"));
            let what = match cleared.until.get() {
                0 => ": no messages yet".to_owned(),
                _ => format!(": everything up to #{} is hidden", cleared.until),
            };
            ctx.console.print_line(&line.with(Tone::Plain, what))?;
        }
    }
    Ok(RunVerdict::Done)
}
