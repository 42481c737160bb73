//! `agent-worker pending`: what agents want to do and wait for.

use agent_worker_protocol::{ApprovalId, Target, api::ApprovalView};

use crate::{
    client::Reach,
    context::{Context, Format, Output},
    error::{CliError, Kind},
    given,
    line::{Line, Tone},
    table::Column::{Name, Text},
    text::{one_line, visible},
    verdict::Verdict,
};

/// What agents want to do and wait for you to approve
///
/// With a number: all of that request, as it would happen.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker pending
  agent-worker pending 3
  agent-worker approve 3
  agent-worker deny 3 -r \"use the staging database\"")]
pub(crate) struct Args {
    /// One request, by its number
    #[arg(value_name = "NUMBER", value_parser = number)]
    id: Option<ApprovalId>,
    /// Whose: `@workflow:tag`; without it this folder's
    #[arg(long, short, value_name = "TARGET")]
    target: Option<Target>,
    /// Those of every folder
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Reads the number of a request.
pub(super) fn number(text: &str) -> Result<ApprovalId, String> {
    given::number(text)
        .map(ApprovalId::new)
        .ok_or_else(|| "a request's number is a whole number from 1".into())
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let reach = if args.all { Reach::Everywhere } else { Reach::Here };
    let scope = ctx.scope(args.target, reach);
    let mut open = match ctx.daemon_if_any().await? {
        Some(client) => client.approvals(&scope).await?,
        None => Vec::new(),
    };
    if let Some(id) = args.id {
        open.retain(|request| request.id == id);
        if open.is_empty() {
            let what = format!("no request #{id} waits for approval");
            return Err(CliError::new(Kind::Failed, what).hint("see: agent-worker pending"));
        }
    }
    match (args.output.format(), args.id) {
        (Format::Json, _) => ctx.console.json(&open)?,
        (Format::Text, None) if open.is_empty() => {
            ctx.console.note("nothing waits for approval")?;
        }
        (Format::Text, None) => {
            let rows: Vec<_> = open.iter().map(row).collect();
            ctx.console
                .table([Name("REQUEST"), Name("FROM"), Name("TOOL"), Text("WITH")], &rows)?;
        }
        (Format::Text, Some(_)) => {
            for request in &open {
                show(request, ctx)?;
            }
        }
    }
    Ok(Verdict::Done)
}

fn row(request: &ApprovalView) -> [String; 4] {
    [
        format!("#{}", request.id),
        Target::agent(request.agent.clone(), &request.instance).to_string(),
        one_line(&request.tool),
        one_line(&request.args.to_string()),
    ]
}

/// All of a request. JSON keeps every letter visible: nothing in it moves a cursor or hides a line.
pub(super) fn show(request: &ApprovalView, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let agent = Target::agent(request.agent.clone(), &request.instance);
    let head = Line::of(Tone::Strong, format!("#{} {agent}", request.id));
    ctx.console.answer(&head.and(Tone::Plain, format!(" wants {}", one_line(&request.tool))))?;
    let args = serde_json::to_string_pretty(&request.args).unwrap_or_default();
    for line in args.lines() {
        ctx.console.answer(&Line::plain(visible(line)))?;
    }
    Ok(())
}
