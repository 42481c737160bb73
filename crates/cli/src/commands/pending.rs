//! `agent-worker pending`: lists the approval requests of agents, and the grants.

use agent_worker_protocol::{
    ApprovalId, Code, Target,
    api::{ApprovalView, GrantView},
};

use crate::{
    client::daemon_client::ScopeReach,
    error::{CliError, CliErrorKind},
    input::{
        argument_values,
        context::{CommandContext, Format, OutputArgs},
        target_args::{ArgOrTarget, LIST_TARGET_HELP, TargetArgs, parse_arg_or_target},
    },
    output::{
        request_text::{request_lines, request_summary},
        styled_line::{StyledLine, Tone},
        table::Column::{Name, Text},
        text::escape_invisible,
        verdict::RunVerdict,
    },
};

/// List the requests that wait for your approval
///
/// With NUMBER, prints the whole request exactly as it would be executed. Below the requests it lists the calls that you
/// have allowed for the rest of a run.
#[derive(Debug, clap::Args)]
#[command(mut_arg("target", |arg| arg.help(LIST_TARGET_HELP)), after_help = "\
Examples:
  agent-worker pending
  agent-worker pending 3
  agent-worker pending --grants --json
  agent-worker approve 3
  agent-worker deny 3 -r \"use the staging database\"")]
pub(crate) struct Args {
    /// Number of the request [default: list all requests]
    #[arg(value_name = "NUMBER", value_parser = parse_arg_or_target(parse_approval_id))]
    id: Option<ArgOrTarget<ApprovalId>>,
    #[command(flatten)]
    target: TargetArgs,
    /// List the requests of every folder
    #[arg(long)]
    all: bool,
    /// List only the calls that are allowed for the rest of a run
    #[arg(long, alias = "rules", conflicts_with = "id")]
    grants: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Parses the number of a request.
pub(super) fn parse_approval_id(text: &str) -> Result<ApprovalId, String> {
    argument_values::parse_positive_number(text)
        .map(ApprovalId::new)
        .ok_or_else(|| "a request's number is a whole number from 1".into())
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let reach = if args.all { ScopeReach::AllProjects } else { ScopeReach::CurrentProject };
    let (id, target) = args.target.split(args.id)?;
    let target = target.for_list(reach, ctx)?;
    let scope = ctx.scope(target, reach);
    let client = ctx.connect_if_history().await?;
    let format = args.output.format();
    let lists_grants = args.grants || id.is_none() && format == Format::Text;
    let grants = match &client {
        Some(client) if lists_grants => client.grants(&scope).await?,
        Some(_) | None => Vec::new(),
    };
    if args.grants {
        return print_grants(&grants, format, ctx);
    }
    let mut open = match &client {
        Some(client) => client.approvals(&scope).await?,
        None => Vec::new(),
    };
    if let Some(id) = id {
        open.retain(|request| request.id == id);
        if open.is_empty() {
            let what = format!("no request #{id} is waiting for approval");
            return Err(CliError::new(CliErrorKind::Refused(Code::NotFound), what)
                .with_hint("list the requests: agent-worker pending"));
        }
    }
    match (format, id) {
        (Format::Json, _) => ctx.console.print_json_list(&open)?,
        (Format::Text, None) if open.is_empty() => {
            ctx.console.note("no requests are waiting for approval")?;
        }
        (Format::Text, None) => {
            let rows: Vec<_> = open.iter().map(row).collect();
            ctx.console
                .print_table([Name("REQUEST"), Name("FROM"), Name("TOOL"), Text("WITH")], &rows)?;
        }
        (Format::Text, Some(_)) => {
            for request in &open {
                show(request, ctx)?;
            }
        }
    }
    if !grants.is_empty() {
        ctx.console.print_line(&StyledLine::plain(""))?;
        print_grants(&grants, format, ctx)?;
    }
    Ok(RunVerdict::Done)
}

fn print_grants(
    grants: &[GrantView],
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    match format {
        Format::Json => ctx.console.print_json_list(grants)?,
        Format::Text if grants.is_empty() => {
            ctx.console.note("no calls are allowed for the rest of a run")?;
        }
        Format::Text => {
            let rows: Vec<_> = grants.iter().map(grant_row).collect();
            let columns = [Name("GRANT"), Name("FOR"), Text("ALLOWS FOR THE RUN"), Name("BY")];
            ctx.console.print_table(columns, &rows)?;
        }
    }
    Ok(RunVerdict::Done)
}

fn grant_row(grant: &GrantView) -> [String; 4] {
    [
        format!("#{}", grant.id),
        Target::agent(grant.agent.clone(), &grant.instance).to_string(),
        escape_invisible(&grant.pattern.to_string()),
        grant.by.clone(),
    ]
}

fn row(request: &ApprovalView) -> [String; 4] {
    [
        format!("#{}", request.id),
        Target::agent(request.agent.clone(), &request.instance).to_string(),
        escape_invisible(&request.tool),
        request_summary(&request.args),
    ]
}

/// Prints a whole request: a command as `$ …`, an edit as a diff, any other call as JSON.
pub(super) fn show(request: &ApprovalView, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let agent = Target::agent(request.agent.clone(), &request.instance);
    let head = StyledLine::new(Tone::Strong, format!("#{} {agent}", request.id));
    ctx.console.print_line(
        &head.with(Tone::Plain, format!(" wants {}", escape_invisible(&request.tool))),
    )?;
    for line in request_lines(&request.args) {
        ctx.console.print_line(&line.unwrapped())?;
    }
    if let Some(pattern) = &request.exact_pattern {
        let pattern = escape_invisible(&pattern.to_string());
        let line = StyledLine::new(Tone::Dim, "with --for-run: ").with(Tone::Plain, pattern);
        ctx.console.print_line(&line)?;
    }
    Ok(())
}
