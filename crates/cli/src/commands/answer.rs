//! `agent-worker answer`: lists the questions of agents to a person and sends the answers.

use agent_worker_protocol::{
    QuestionId, Target,
    api::{AnswerRequest, QuestionView, SendReply},
};
use uuid::Uuid;

use super::send::warn_if_blocked;
use crate::{
    client::daemon_client::ScopeReach,
    error::{CliError, CliErrorKind},
    input::{
        argument_values,
        context::{CommandContext, Format, OutputArgs},
        target_args::{ArgOrTarget, TargetArgs, TargetEffect, parse_arg_or_target},
    },
    output::{
        styled_line::{StyledLine, Tone},
        table::Column::{Name, Text},
        text::one_line,
        verdict::RunVerdict,
    },
};

/// Answer a question of an agent, or list open questions
///
/// The answer wakes the agent, and a run that was paused for you continues.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker answer
  agent-worker answer 1 \"yes, but keep the old flag\" --target @review:pr-123")]
pub(crate) struct Args {
    /// Number of the question [default: list all open questions]
    #[arg(value_name = "NUMBER", value_parser = parse_arg_or_target(parse_question_id))]
    id: Option<ArgOrTarget<QuestionId>>,
    /// Text of the answer; `-` reads stdin
    #[arg(value_name = "TEXT")]
    answer: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
    /// List the questions of every folder
    #[arg(long, conflicts_with = "answer")]
    all: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

fn parse_question_id(text: &str) -> Result<QuestionId, String> {
    argument_values::parse_positive_number(text)
        .map(QuestionId::new)
        .ok_or_else(|| "a question's number is a whole number from 1".into())
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.output.format();
    let (id, target) = args.target.split(args.id)?;
    let (id, answer, target) = match (id, args.answer) {
        (Some(id), Some(answer)) => {
            let (answer, target) = target.split_required_text(
                answer,
                "answer",
                &format!("answer {id}"),
                ctx.console,
            )?;
            (id, answer, target)
        }
        (Some(id), None) => {
            return Err(CliError::new(CliErrorKind::Usage, "no answer was given")
                .with_hint(format!("add it: agent-worker answer {id} \"…\"")));
        }
        (None, Some(_)) => {
            return Err(CliError::new(CliErrorKind::Usage, "no question is named")
                .with_hint("the number goes first: agent-worker answer 1 \"…\" @workflow"));
        }
        (None, None) => {
            let reach = if args.all { ScopeReach::AllProjects } else { ScopeReach::CurrentProject };
            return list_questions(target, reach, format, ctx).await;
        }
    };
    let target = target.or_selected(TargetEffect::Change, ctx)?;
    let client = ctx.connect_or_start().await?;
    let project = Some(ctx.settings.cwd.clone());
    let request = AnswerRequest { target, project, answer };
    let reply = client.question_answer(&Uuid::now_v7().to_string(), id, &request).await?;
    warn_if_blocked(&reply, ctx)?;
    print_answered(id, &reply, format, ctx)
}

async fn list_questions(
    target: TargetArgs,
    reach: ScopeReach,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let target = target.for_list(reach, ctx)?;
    let scope = ctx.scope(target, reach);
    let open = match ctx.connect_if_history().await? {
        Some(client) => client.questions(&scope).await?,
        None => Vec::new(),
    };
    list(&open, format, ctx)
}

fn list(
    open: &[QuestionView],
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let row = |question: &QuestionView| {
        [
            format!("#{}", question.id),
            Target::agent(question.agent.clone(), &question.instance).to_string(),
            one_line(&question.question),
            one_line(&question.options.join(" | ")),
        ]
    };
    match format {
        Format::Json => ctx.console.print_json_list(open)?,
        Format::Text if open.is_empty() => ctx.console.note("no open questions")?,
        Format::Text => {
            let rows: Vec<_> = open.iter().map(row).collect();
            ctx.console.print_table(
                [Name("QUESTION"), Name("FROM"), Text("WHAT"), Text("OPTIONS")],
                &rows,
            )?;
        }
    }
    Ok(RunVerdict::Done)
}

fn print_answered(
    id: QuestionId,
    reply: &SendReply,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    match format {
        Format::Json => ctx.console.print_json(reply)?,
        Format::Text => {
            let woken = reply.woken.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let is_hindered = reply.paused.is_some() || !reply.stopped.is_empty();
            let wakes = if is_hindered { "is for" } else { "wakes" };
            let line = StyledLine::new(Tone::Strong, format!("question #{id}"));
            let line =
                line.with(Tone::Plain, format!(" is answered: #{} {wakes} {woken}", reply.seq));
            ctx.console.print_line(&line)?;
        }
    }
    Ok(RunVerdict::Done)
}
