//! `agent-worker clear`: hide what a channel says so far.

use agent_worker_protocol::{Target, api::InstanceRequest};
use uuid::Uuid;

use crate::{
    context::{Context, Format, Output},
    error::CliError,
    line::{Line, Tone},
    verdict::Verdict,
};

/// Hide what was said so far
///
/// From everybody who reads the channel, agents included. Nothing is deleted, and mail that waits still waits; `rm`
/// deletes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker clear @review:pr-123")]
pub(crate) struct Args {
    /// Whose channel: `@workflow`, `@workflow:tag`, `@global`; without it, the only run of this folder
    target: Option<Target>,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let Some(client) = ctx.daemon_if_any().await? else { return Err(Context::nothing_yet()) };
    let (target, project) = (args.target, Some(ctx.settings.cwd.clone()));
    let key = Uuid::now_v7().to_string();
    let cleared = client.instance_clear(&key, &InstanceRequest { target, project }).await?;
    match args.output.format() {
        Format::Json => ctx.console.json(&cleared)?,
        Format::Text => {
            let target = Target::instance(&cleared.instance);
            let line = Line::of(Tone::Strong, format!("cleared {target}"));
            let what = match cleared.until.get() {
                0 => ": nothing was said yet".to_owned(),
                _ => format!(": everything up to #{} is hidden", cleared.until),
            };
            ctx.console.answer(&line.and(Tone::Plain, what))?;
        }
    }
    Ok(Verdict::Done)
}
