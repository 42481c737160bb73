//! The turns of an export, each with its whole history, oldest first.
//!
//! One turn at a time is held; of the others only their ids.

use agent_worker_host::DialError;
use agent_worker_protocol::{
    AttemptId, Code, RunId, Target,
    api::{TurnDetail, TurnView},
};

use super::{ExportFormat, code_fence};
use crate::{
    client::daemon_client::{CommandScope, DaemonClient, RunSelection},
    error::CliError,
    input::context::CommandContext,
    output::{
        styled_line::StyledLine,
        text::{one_line, sanitize_for_display},
        turn_text::{self, EntryText},
    },
};

/// Prints the turns of the exported runs.
pub(super) async fn write_turns(
    client: &DaemonClient,
    scope: &CommandScope,
    runs: RunSelection,
    format: ExportFormat,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let mut is_first = true;
    for id in turn_ids(client, scope, runs).await? {
        let turn = match client.turn(&id.to_string()).await {
            Ok(turn) => turn,
            // It was deleted in the meantime.
            Err(DialError::Refused(problem)) if problem.code == Code::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        match format {
            ExportFormat::Json => {
                ctx.console.print_json_after(if is_first { " " } else { "," }, &turn)?;
            }
            ExportFormat::Md => write_turn(&turn, ctx)?,
        }
        is_first = false;
    }
    Ok(())
}

/// Lists the turns of the current run or of all, oldest first.
async fn turn_ids(
    client: &DaemonClient,
    scope: &CommandScope,
    runs: RunSelection,
) -> Result<Vec<AttemptId>, CliError> {
    let run = match runs {
        RunSelection::Current => match client.newest_run(scope).await? {
            Some(run) => Some(run.run),
            None => return Ok(Vec::new()),
        },
        RunSelection::All => None,
    };
    let is_of = |view: &TurnView, run: Option<RunId>| run.is_none_or(|run| view.run == run);
    let mut ids = Vec::new();
    let mut after = None;
    loop {
        let page = client.turns_page(scope, after.as_deref()).await?;
        ids.extend(page.items.iter().filter(|view| is_of(view, run)).map(|view| view.turn));
        // The turns of an earlier run are older.
        let is_older = page.items.last().is_some_and(|last| !is_of(last, run));
        match page.next {
            Some(next) if !is_older => after = Some(next),
            Some(_) | None => break,
        }
    }
    ids.reverse();
    Ok(ids)
}

/// Prints a turn as Markdown: its facts, then each entry; texts are in fences that no line of theirs closes.
fn write_turn(turn: &TurnDetail, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let who = Target::agent(turn.view.agent.clone(), &turn.view.instance);
    let mut lines = vec![String::new(), format!("# Turn of {who}"), String::new()];
    let facts = turn_text::turn_facts(&turn.view, turn.log.as_deref());
    lines.extend(facts.iter().map(|(name, value)| format!("- {name}: {}", quoted(value))));
    for entry in &turn.items {
        lines.extend(entry_lines(&turn_text::entry_text(&entry.body)));
    }
    if let Some(text) = &turn.text {
        let text = sanitize_for_display(text.trim_end());
        lines.extend(entry_lines(&EntryText { title: "answer".to_owned(), text, mark: None }));
    }
    lines.iter().try_for_each(|line| ctx.console.print_line(&StyledLine::plain(line)))
}

/// Quotes a text as code, so that it has no other meaning in Markdown.
fn quoted(text: &str) -> String {
    let text = one_line(text).replace('`', "'");
    format!("`{text}`")
}

fn entry_lines(entry: &EntryText) -> Vec<String> {
    let mut lines = vec![String::new(), format!("## {}", quoted(&entry.title))];
    if !entry.text.is_empty() {
        let fence = code_fence(&entry.text);
        lines.extend([String::new(), fence.clone(), entry.text.clone(), fence]);
    }
    lines.extend(entry.mark.iter().flat_map(|mark| [String::new(), format!("*{mark}*")]));
    lines
}
