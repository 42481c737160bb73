//! `agent-worker status`: one agent or one run, with everything there is to know of it.

use std::time::Duration;

use agent_worker_protocol::{
    Limits, Millis, Target,
    api::{AgentDetail, AttemptView, Mail, RunView},
};

use super::ls;
use crate::{
    client::Reach,
    clock,
    context::{Context, Format, Output},
    error::CliError,
    line::{Line, Tone},
    text::{count, lasted, one_line},
    verdict::Verdict,
    which, words,
};

/// Show one agent or one run whole
///
/// An agent: what it is doing, what waits for it, how its last turns went. A run: where it stands, its limits, its
/// agents.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "info", after_help = "Example: agent-worker status coder@review:pr-123")]
pub(crate) struct Args {
    /// Which: `agent`, `agent@workflow:tag` or `@workflow:tag`; without it, the only run of this folder
    target: Option<Target>,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let Some(client) = ctx.daemon_if_any().await? else { return Err(Context::nothing_yet()) };
    let scope = ctx.scope(args.target.clone(), Reach::Here);
    let format = args.output.format();
    if let Some(target) = args.target.filter(|target| target.agent.is_some()) {
        let agent = client.agent(&target, &scope).await?;
        match format {
            Format::Json => ctx.console.json(&agent)?,
            Format::Text => show_agent(&agent, ctx)?,
        }
    } else {
        let run = which::run(&client, &scope).await?;
        match format {
            Format::Json => ctx.console.json(&run)?,
            Format::Text => show_run(&run, ctx)?,
        }
    }
    Ok(Verdict::Done)
}

fn show_agent(agent: &AgentDetail, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let (view, now) = (&agent.view, clock::now());
    let who = Target::agent(view.name.clone(), &view.instance);
    let state = words::agent(&view.state, now);
    let head = Line::of(Tone::Strong, who.to_string()).and(Tone::Plain, format!("  {state}"));
    ctx.console.answer(&head)?;
    let since = agent.state_since.map(|since| ("since", words::ago(since, now)));
    let model = view.model.as_deref().map(|model| format!(", {model}")).unwrap_or_default();
    let mut facts: Vec<_> = since.into_iter().collect();
    facts.extend([
        ("source", ls::source(&view.instance, &view.project, ctx.settings)),
        ("backend", format!("{}{model}", view.backend)),
        ("run", format!("{}, begun {}", agent.run_state, words::ago(view.started, now))),
        (
            "so far",
            format!(
                "{}, {}, {}",
                count(view.turns as usize, "turn"),
                count(view.messages as usize, "message"),
                words::usage(&view.usage)
            ),
        ),
        ("wakes when", agent.wakes_when.clone()),
    ]);
    if let Some(system) = &agent.system {
        facts.push(("system", one_line(system)));
    }
    facts.extend(agent.inbox.iter().map(|mail| ("waits", waiting(mail))));
    facts.extend(agent.attempts.iter().map(|attempt| ("turn", turn(attempt, now))));
    ctx.console.facts(&facts)
}

fn waiting(mail: &Mail) -> String {
    let cc = if mail.wakes { "" } else { " (read along)" };
    let message = &mail.message;
    format!("#{} {}{cc}: {}", message.seq, message.from, message.body)
}

/// One attempt, as `why` tells it too.
pub(super) fn turn(attempt: &AttemptView, now: Millis) -> String {
    let how = attempt.ended.as_ref().map_or_else(|| "under way".to_owned(), ToString::to_string);
    let begun = words::ago(attempt.started, now);
    let took = attempt.ended_at.map(|at| format!(", took {}", lasted(at.since(attempt.started))));
    let begun = format!("{begun}{}", took.unwrap_or_default());
    match attempt.number {
        1 => format!("for #{}, begun {begun}: {how}", attempt.oldest),
        number => format!("for #{}, try {number}, begun {begun}: {how}", attempt.oldest),
    }
}

fn show_run(run: &RunView, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let now = clock::now();
    let target = Target::instance(&run.instance).to_string();
    let head = Line::of(Tone::Strong, target).and(Tone::Plain, format!("  {}", words::run(run)));
    ctx.console.answer(&head)?;
    let begun = words::ago(run.started, now);
    let begun = match run.ended {
        Some(_) => format!("{begun}, lasted {}", lasted(Duration::from_millis(run.lasted_ms))),
        None => begun,
    };
    let mut facts = vec![
        ("source", ls::source(&run.instance, &run.project, ctx.settings)),
        ("run", format!("{} ({})", run.run, run.mode)),
        ("begun", begun),
        ("since", words::ago(run.state_since, now)),
        (
            "so far",
            format!(
                "{}, {}, {}",
                count(run.turns as usize, "turn"),
                count(run.messages as usize, "message"),
                words::usage(&run.usage)
            ),
        ),
        ("limits", limits(&run.limits)),
    ];
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
    ctx.console.facts(&facts)?;
    if run.agents.is_empty() {
        return Ok(());
    }
    ctx.console.answer(&Line::default())?;
    ls::show(&run.agents, ctx)
}

fn limits(limits: &Limits) -> String {
    let turns = limits.turns.map(|turns| count(turns as usize, "turn"));
    let wall = limits.wall.map(|wall| wall.to_string());
    let hops = Some(count(limits.hops as usize, "hop"));
    hops.into_iter().chain(turns).chain(wall).collect::<Vec<_>>().join(", ")
}
