//! `agent-worker turns`: lists the turns of agents, or shows the history of one.

use std::{num::NonZeroU16, time::Duration};

use agent_worker_host::DialError;
use agent_worker_protocol::{
    Code, HistoryText, Target,
    api::{TurnDetail, TurnEntryBody, TurnView},
};

use crate::{
    client::daemon_client::{DaemonClient, ScopeReach},
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
        target_args::{ArgOrTarget, TargetArgs, TargetEffect, parse_arg_or_target},
    },
    output::{
        clock, state_text,
        styled_line::{StyledLine, Tone},
        table::Column::{Figure, Name, State, Text},
        text::{format_count, format_elapsed, sanitize_for_display},
        turn_text::{self, EntryText},
        verdict::RunVerdict,
    },
};

/// Width below which the list has fewer columns.
const MIN_WIDTH: usize = 76;
/// Number of digits of the shortest beginning of an id.
const MIN_ID_DIGITS: usize = 4;

/// List turns, or show one with its prompt, words and calls
///
/// A list has the newest turns, newest last. With an id the command shows what woke the turn, its prompts, the words of the model,
/// every tool call with its result, usage and cost, also during the turn.
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "turn",
    after_help = "\
Examples:
  agent-worker turns coder@review:pr-123
  agent-worker turns 0197a3b2-7c1e"
)]
pub(crate) struct Args {
    /// Id of a turn, or its beginning as the list prints it [default: list turns]
    #[arg(value_name = "ID", value_parser = parse_arg_or_target(parse_turn_id))]
    id: Option<ArgOrTarget<String>>,
    #[command(flatten)]
    target: TargetArgs,
    /// Maximum number of turns in the list
    #[arg(long, value_name = "NUMBER", default_value = "20")]
    limit: NonZeroU16,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Parses the id of a turn, which begins with a digit; the name of an agent begins with a letter.
fn parse_turn_id(text: &str) -> Result<String, String> {
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_id = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if is_id && text.starts_with(|c: char| c.is_ascii_digit()) && digits >= MIN_ID_DIGITS {
        return Ok(text.to_ascii_lowercase());
    }
    Err(format!(
        "`{text}` is neither a target nor the id of a turn, as `agent-worker turns` lists it"
    ))
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let format = args.output.format();
    let (id, target) = args.target.split(args.id)?;
    if let Some(id) = id {
        match format {
            Format::Json => ctx.console.print_json(&client.turn(&id).await.map_err(with_hint)?)?,
            Format::Text => show(&client, &id, ctx).await?,
        }
        return Ok(RunVerdict::Done);
    }
    let target = target.or_selected(TargetEffect::Read, ctx)?;
    let scope = ctx.scope(target, ScopeReach::CurrentProject);
    let scope = resolve_run::readable_scope(&client, &scope, format, ctx).await?;
    let mut page = client.turns(&scope, usize::from(args.limit.get())).await?;
    page.items.reverse();
    match format {
        Format::Json => ctx.console.print_json(&page)?,
        Format::Text if page.items.is_empty() => ctx.console.note("no turns yet")?,
        Format::Text => {
            list(&page.items, ctx)?;
            if page.next.is_some() {
                ctx.console.note("earlier turns are left out; --limit lists more")?;
            }
        }
    }
    Ok(RunVerdict::Done)
}

fn with_hint(error: DialError) -> CliError {
    let list = || "`agent-worker turns` lists the turns of a run".to_owned();
    CliError::from(error).with_hint_for(Code::NotFound, list)
}

fn list(turns: &[TurnView], ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let now = clock::now();
    let ids: Vec<_> = turns.iter().map(|view| view.turn).collect();
    if ctx.console.stdout_width().is_some_and(|width| width < MIN_WIDTH) {
        return list_narrow(turns, ctx);
    }
    let row = |view: &TurnView| {
        let tokens = view.usage.input_tokens.saturating_add(view.usage.output_tokens);
        [
            turn_text::short_id(view.turn, &ids),
            view.agent.to_string(),
            turn_text::turn_state(view),
            turn_text::cause_text(view),
            state_text::time_ago(view.started, now),
            format_elapsed(Duration::from_millis(view.lasted_ms)),
            if tokens == 0 { String::new() } else { format_count(tokens) },
            state_text::cost_text(&view.usage).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = turns.iter().map(row).collect();
    let head = [
        Name("TURN"),
        Name("AGENT"),
        State("STATE"),
        Text("WOKEN BY"),
        Figure("BEGUN"),
        Figure("LASTED"),
        Figure("TOKENS"),
        Figure("COST"),
    ];
    ctx.console.print_table(head, &rows)
}

/// Prints the most important columns: an id that is cut could not be typed.
fn list_narrow(turns: &[TurnView], ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let ids: Vec<_> = turns.iter().map(|view| view.turn).collect();
    let row = |view: &TurnView| {
        let id = turn_text::short_id(view.turn, &ids);
        [id, view.agent.to_string(), turn_text::turn_state(view)]
    };
    let rows: Vec<_> = turns.iter().map(row).collect();
    ctx.console.print_table([Name("TURN"), Text("AGENT"), State("STATE")], &rows)
}

/// Prints a turn page by page.
async fn show(
    client: &DaemonClient,
    id: &str,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let mut page = client.turn_page(id, None).await.map_err(with_hint)?;
    let id = page.view.turn.to_string();
    print_header(&page, ctx)?;
    let final_text = page.text.take();
    let mut last_words = String::new();
    loop {
        for entry in &page.items {
            let text = turn_text::entry_text(&entry.body);
            if let TurnEntryBody::Words(HistoryText { text: Some(words), .. }) = &entry.body {
                last_words.clone_from(words);
            }
            print_entry(&text, ctx)?;
        }
        let Some(after) = page.next.take() else { break };
        page = client.turn_page(&id, Some(&after)).await?;
    }
    // The final text usually was the last that the model said.
    let answer = final_text.filter(|text| !last_words.trim_end().ends_with(text.trim()));
    if let Some(text) = answer {
        let text = sanitize_for_display(text.trim_end());
        print_entry(&EntryText { title: "answer".to_owned(), text, mark: None }, ctx)?;
    }
    Ok(())
}

fn print_header(page: &TurnDetail, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let who = Target::agent(page.view.agent.clone(), &page.view.instance);
    ctx.console.print_line(&StyledLine::new(Tone::Strong, who.to_string()))?;
    ctx.console.print_facts(&turn_text::turn_facts(&page.view, page.log.as_deref()))
}

/// Prints an entry: its title, then its text, indented.
fn print_entry(entry: &EntryText, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    ctx.console.print_line(&StyledLine::plain(""))?;
    ctx.console.print_line(&StyledLine::new(Tone::Strong, entry.title.clone()))?;
    for line in entry.text.lines() {
        ctx.console.print_line(&StyledLine::plain(format!("  {line}").trim_end()))?;
    }
    match &entry.mark {
        Some(mark) => ctx.console.print_line(&StyledLine::new(Tone::Warn, format!("  [{mark}]"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_begins_with_a_digit_and_anything_else_is_a_target() {
        for (text, expected) in [
            ("0197A3b2-7c1e", Some("0197a3b2-7c1e")),
            ("0197", Some("0197")),
            ("019", None),
            ("coder", None),
            ("abcd", None),
            ("0197-zz", None),
        ] {
            assert_eq!(parse_turn_id(text).ok().as_deref(), expected, "{text}");
        }
    }
}
