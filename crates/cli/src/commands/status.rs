//! `agent-worker status`: prints all details of one agent or one run.

use std::time::Duration;

use agent_worker_protocol::{
    Keyword as _, Millis, RunMode, Target,
    api::{
        AgentDetail, AgentFailure, AgentMockTool, AgentSession, AttemptView, Mail, RunView,
        TeamVerdict, usd_text,
    },
};

use super::{ls, why};
use crate::{
    client::daemon_client::ScopeReach,
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
        target_args::{TargetArgs, TargetEffect},
    },
    output::{
        clock, failure_text,
        next_steps::{agent_next_steps, run_next_steps},
        state_text,
        styled_line::{StyledLine, Tone},
        text::{format_elapsed, one_line, pluralize},
        verdict::RunVerdict,
    },
};

/// Show the details of one agent or one run
///
/// Agent: its activity, its pending messages, its last turns. Run: its state, its limits, its agents.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "info", after_help = "Example: agent-worker status coder@review:pr-123")]
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
    let target = args.target.or_selected(TargetEffect::Read, ctx)?;
    let scope = ctx.scope(target, ScopeReach::CurrentProject);
    let format = args.output.format();
    if let Some(target) = scope.target.clone().filter(|target| target.agent.is_some()) {
        let scope = resolve_run::readable_scope(&client, &scope, format, ctx).await?;
        let agent = client.agent(scope.target.as_ref().unwrap_or(&target), &scope).await?;
        match format {
            Format::Json => ctx.console.print_json(&agent)?,
            Format::Text => {
                let run = client.run(agent.run).await?;
                let questions = why::open_questions(&client, &run).await?;
                show_agent(&agent, agent_next_steps(&agent.view, &run, &questions), ctx)?;
            }
        }
    } else {
        let run = resolve_run::resolve_run(&client, &scope, format, ctx).await?;
        match format {
            // The run of a list has no answers and no document.
            Format::Json => ctx.console.print_json(&client.run(run.run).await?)?,
            Format::Text => {
                let questions = why::open_questions(&client, &run).await?;
                show_run(&run, run_next_steps(&run, &questions), ctx)?;
            }
        }
    }
    Ok(RunVerdict::Done)
}

fn show_agent(
    agent: &AgentDetail,
    next_steps: Vec<String>,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let (view, now) = (&agent.view, clock::now());
    let who = Target::agent(view.name.clone(), &view.instance);
    let state = state_text::agent_state_text(&view.state, now);
    let head =
        StyledLine::new(Tone::Strong, who.to_string()).with(Tone::Plain, format!("  {state}"));
    ctx.console.print_line(&head)?;
    let since = agent.state_since.map(|since| ("since", state_text::time_ago(since, now)));
    let model = view.model.as_deref().map(|model| format!(", {model}")).unwrap_or_default();
    let mut facts: Vec<_> = since.into_iter().collect();
    facts.extend([
        ("source", ls::source_folder(&view.instance, &view.project, ctx.settings)),
        ("backend", format!("{}{model}", view.backend)),
        (
            "run",
            format!("{}, started {}", agent.run_state, state_text::time_ago(view.started, now)),
        ),
        (
            "so far",
            format!(
                "{}, {}, {}",
                pluralize(view.turns as usize, "turn"),
                pluralize(view.messages as usize, "message"),
                state_text::usage_text(&view.usage)
            ),
        ),
        ("wakes when", agent.wakes_when.clone()),
    ]);
    let failed = view.last_failure.as_ref();
    facts.extend(failed.map(|failure| ("last failure", failure_text::failure_text(failure, now))));
    facts.extend(next_steps.into_iter().map(|step| ("next step", step)));
    if let Some(AgentSession { id, open }) = &agent.session {
        facts.push(("session", one_line(id)));
        facts.extend(open.as_ref().map(|open| ("open it", one_line(open))));
    }
    if !agent.mock_tools.is_empty() {
        facts.push(("mock tools", mock_tools_text(&agent.mock_tools)));
    }
    if let Some(system) = &agent.system {
        facts.push(("system", one_line(system)));
    }
    facts.extend(agent.inbox.iter().map(|mail| ("waits", pending_mail_text(mail))));
    let mut shown = agent.session.as_ref();
    for attempt in &agent.attempts {
        facts.push(("turn", attempt_text(attempt, now)));
        let session = attempt.session.as_ref();
        if let Some(AgentSession { id, open }) = session.filter(|_| session != shown) {
            facts.push(("its session", one_line(id)));
            facts.extend(open.as_ref().map(|open| ("open it", one_line(open))));
            shown = session;
        }
    }
    ctx.console.print_facts(&facts)
}

fn mock_tools_text(tools: &[AgentMockTool]) -> String {
    let text = |tool: &AgentMockTool| {
        let changed = if tool.changed { " (changed)" } else { "" };
        format!("{}{changed}", tool.name)
    };
    one_line(&tools.iter().map(text).collect::<Vec<_>>().join(", "))
}

fn pending_mail_text(mail: &Mail) -> String {
    let cc = if mail.wakes { "" } else { " (cc only)" };
    let message = &mail.message;
    format!("#{} {}{cc}: {}", message.seq, message.from, message.body)
}

/// Formats one attempt, for `status` and `why`.
pub(super) fn attempt_text(attempt: &AttemptView, now: Millis) -> String {
    let how = attempt.ended.as_ref().map_or_else(|| "in progress".to_owned(), ToString::to_string);
    let begun = state_text::time_ago(attempt.started, now);
    let took =
        attempt.ended_at.map(|at| format!(", took {}", format_elapsed(at.since(attempt.started))));
    let begun = format!("{begun}{}", took.unwrap_or_default());
    match attempt.number {
        1 => format!("for #{}, started {begun}: {how}", attempt.oldest),
        number => format!("for #{}, attempt {number}, started {begun}: {how}", attempt.oldest),
    }
}

fn show_run(
    run: &RunView,
    next_steps: Vec<String>,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let now = clock::now();
    let target = Target::instance(&run.instance).to_string();
    let head = StyledLine::new(Tone::Strong, target)
        .with(Tone::Plain, format!("  {}", state_text::run_state_text(run)));
    ctx.console.print_line(&head)?;
    let begun = state_text::time_ago(run.started, now);
    let begun = match run.ended {
        Some(_) => {
            format!("{begun}, lasted {}", format_elapsed(Duration::from_millis(run.lasted_ms)))
        }
        None => begun,
    };
    let mut facts = vec![
        ("source", ls::source_folder(&run.instance, &run.project, ctx.settings)),
        ("run", format!("{} ({})", run.run, run.mode)),
        ("started", begun),
        ("since", state_text::time_ago(run.state_since, now)),
        (
            "so far",
            format!(
                "{}, {}, {}",
                pluralize(run.turns as usize, "turn"),
                pluralize(run.messages as usize, "message"),
                state_text::usage_text(&run.usage)
            ),
        ),
        ("limits", limits_text(run)),
    ];
    facts.extend(state_text::grace_text(run, now).map(|grace| ("live turns", grace)));
    facts.extend(run.verdict.iter().map(|TeamVerdict { outcome, summary, by }| {
        ("verdict", one_line(&format!("{} by {by}: {summary}", outcome.word())))
    }));
    if let Some(file) = &run.file {
        let name = file.file_name().unwrap_or(file.as_os_str());
        facts[0].1 = format!("{}/{}", facts[0].1, name.to_string_lossy());
    }
    facts.extend(run.params.iter().map(|(name, value)| ("param", format!("{name}: {value}"))));
    let undone = run.dead_letters.iter().chain(&run.dropped);
    facts.extend(undone.map(|receipt| {
        let why = receipt.why.as_deref().unwrap_or("no reason given");
        let words = format!("#{} for {}: {why}", receipt.seq, receipt.agent);
        (receipt.state.word(), words)
    }));
    facts.extend(run.last_failures.iter().map(|AgentFailure { agent, failure }| {
        ("last failure", format!("{agent}: {}", failure_text::failure_text(failure, now)))
    }));
    facts.extend(next_steps.into_iter().map(|step| ("next step", step)));
    let unheard = run.unheard.iter().map(|mention| ("unheard", state_text::unheard_text(mention)));
    facts.extend(unheard);
    ctx.console.print_facts(&facts)?;
    if run.agents.is_empty() {
        return Ok(());
    }
    ctx.console.print_line(&StyledLine::default())?;
    ls::show(&run.agents, ctx)
}

fn limits_text(run: &RunView) -> String {
    let limits = &run.limits;
    let window = match run.mode {
        RunMode::Run => "",
        RunMode::Start => " per 24 h",
    };
    let turns = limits.turns.map(|turns| pluralize(turns as usize, "turn") + window);
    let wall = state_text::wall_text(run);
    let hops = Some(pluralize(limits.hops as usize, "hop"));
    let cost = limits.spend.cost_micros.map(|micros| format!("${}{window}", usd_text(micros)));
    let tokens = limits.spend.tokens.map(|tokens| format!("{tokens} tokens{window}"));
    let all = hops.into_iter().chain(turns).chain(wall).chain(cost).chain(tokens);
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::SpendLimits;

    use super::*;
    use crate::output::samples;

    #[test]
    fn the_limits_of_a_start_name_the_time_in_which_they_count() {
        let mut run = samples::run();
        run.limits.spend = SpendLimits { cost_micros: Some(20_000_000), tokens: Some(9) };
        for (mode, expected) in [
            (RunMode::Run, "50 hops, 200 turns, $20, 9 tokens"),
            (RunMode::Start, "50 hops, 200 turns per 24 h, $20 per 24 h, 9 tokens per 24 h"),
        ] {
            assert_eq!(limits_text(&RunView { mode, ..run.clone() }), expected);
        }
    }
}
