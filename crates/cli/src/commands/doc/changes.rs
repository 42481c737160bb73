//! Changes of a document, made or suggested: diffs and suggestions.

use std::str::FromStr;

use agent_worker_host::DialError;
use agent_worker_protocol::{
    DocumentPath, Seq, SuggestionState,
    api::{DocumentDiff, DocumentEntry, SuggestRequest, SuggestionRequest, SuggestionView},
};
use uuid::Uuid;

use super::{DocTarget, DocumentClient, open_for_reading, parse_path};
use crate::{
    error::CliError,
    input::{
        context::{CommandContext, Format},
        target_args::{ArgOrTarget, TargetArgs, TargetEffect, parse_text_or_target},
    },
    output::{
        styled_line::{StyledLine, Tone},
        table::Column::{Figure, Name, State, Text},
        text::{one_line, sanitize_for_display},
    },
};

#[derive(Debug, clap::Subcommand)]
pub(super) enum DocChangeCommand {
    /// Show the changes between two revisions
    #[command(after_help = "Examples:
  agent-worker doc diff notes.md          # changes of the newest revision
  agent-worker doc diff notes.md 3        # changes of revision 3
  agent-worker doc diff notes.md 1..3     # changes from revision 1 to 3")]
    Diff {
        /// Path of the document [default: the team's, notes.md unless the workflow file names another]
        #[arg(value_name = "FILE", value_parser = parse_text_or_target(parse_path))]
        file: Option<ArgOrTarget<DocumentPath>>,
        /// Revision or range: `3`, `1..3` or `1..` [default: the newest]
        #[arg(value_name = "BETWEEN", value_parser = parse_text_or_target(RevisionRangeArg::from_str))]
        between: Option<ArgOrTarget<RevisionRangeArg>>,
        #[command(flatten)]
        whose: DocTarget,
    },
    /// Suggest a change to the owner of the documents
    ///
    /// With --new, accepting the suggestion makes the change: in place of --old, or at the end.
    #[command(after_help = "\
Example: agent-worker doc suggest notes.md \"spelling\" --old teh --new the")]
    Suggest {
        /// Path of the document
        file: DocumentPath,
        /// Description of the change
        text: String,
        /// Passage to replace, which must occur exactly once
        #[arg(long, value_name = "TEXT", requires = "new")]
        old: Option<String>,
        /// Replacement for --old; without --old, text to append
        #[arg(long, value_name = "TEXT")]
        new: Option<String>,
        #[command(flatten)]
        whose: DocTarget,
    },
    /// List suggestions, newest first
    #[command(after_help = "Example: agent-worker doc suggestions")]
    Suggestions {
        #[command(flatten)]
        whose: DocTarget,
    },
    /// Accept a suggestion and write its change
    #[command(after_help = "Example: agent-worker doc accept 17")]
    Accept {
        /// Number of the suggestion, as listed by `doc suggestions`
        suggestion: i64,
        #[command(flatten)]
        whose: DocTarget,
    },
    /// Reject a suggestion and send the reason to its author
    #[command(after_help = "Example: agent-worker doc reject 17 -r \"it was decided otherwise\"")]
    Reject {
        /// Number of the suggestion, as listed by `doc suggestions`
        suggestion: i64,
        /// Reason for the rejection
        #[arg(long, short, value_name = "WHY")]
        reason: String,
        #[command(flatten)]
        whose: DocTarget,
    },
}

/// Revisions to compare, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RevisionRangeArg {
    from: Option<i64>,
    to: Option<i64>,
}

impl FromStr for RevisionRangeArg {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| match text {
            "" => Ok(None),
            digits => digits.parse().map(Some).map_err(|_| format!("`{digits}` is not a revision")),
        };
        match text.split_once("..") {
            Some((from, to)) => Ok(Self { from: number(from)?, to: number(to)? }),
            None => Ok(Self { from: None, to: number(text)? }),
        }
    }
}

impl DocChangeCommand {
    pub(super) fn doc_target(&self) -> &DocTarget {
        match self {
            Self::Diff { whose, .. }
            | Self::Suggest { whose, .. }
            | Self::Suggestions { whose }
            | Self::Accept { whose, .. }
            | Self::Reject { whose, .. } => whose,
        }
    }
}

pub(super) async fn run(
    ask: DocChangeCommand,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    match ask {
        DocChangeCommand::Diff { file, between, whose } => {
            let (file, target) = whose.target.split(file)?;
            let (between, target) = target.split(between)?;
            let document_client = open_for_reading(target, format, ctx).await?;
            let file = document_client.resolve_path(file).await?;
            let RevisionRangeArg { from, to } =
                between.unwrap_or(RevisionRangeArg { from: None, to: None });
            let DocumentClient { client, scope } = document_client;
            show_diff(&client.diff(&scope, &file, [from, to]).await?, format, ctx)
        }
        DocChangeCommand::Suggestions { whose } => {
            let DocumentClient { client, scope } =
                open_for_reading(whose.target, format, ctx).await?;
            show_list(&client.suggestions(&scope).await?, format, ctx)
        }
        DocChangeCommand::Suggest { file, text, old, new, whose } => {
            let command = format!("doc suggest {file}");
            let (text, target) =
                whose.target.split_required_text(text, "description", &command, ctx.console)?;
            let request = SuggestRequest {
                target: target.or_selected(TargetEffect::Change, ctx)?,
                project: Some(ctx.settings.cwd.clone()),
                file: Some(file),
                suggestion: text,
                old,
                new,
            };
            suggest(&request, format, ctx).await
        }
        DocChangeCommand::Accept { suggestion, whose } => {
            let request = decision_request(whose.target, SuggestionDecision::Accept, ctx)?;
            submit_suggestion_decision(Seq::new(suggestion), &request, format, ctx).await
        }
        DocChangeCommand::Reject { suggestion, reason, whose } => {
            let request = decision_request(whose.target, SuggestionDecision::Reject(reason), ctx)?;
            submit_suggestion_decision(Seq::new(suggestion), &request, format, ctx).await
        }
    }
}

enum SuggestionDecision {
    Accept,
    Reject(String),
}

fn decision_request(
    target: TargetArgs,
    verdict: SuggestionDecision,
    ctx: &mut CommandContext<'_>,
) -> Result<SuggestionRequest, CliError> {
    let (accept, reason) = match verdict {
        SuggestionDecision::Accept => (true, None),
        SuggestionDecision::Reject(why) => (false, Some(why)),
    };
    let target = target.or_selected(TargetEffect::Change, ctx)?;
    let project = Some(ctx.settings.cwd.clone());
    Ok(SuggestionRequest { target, project, accept, reason })
}

async fn suggest(
    request: &SuggestRequest,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let client = ctx.connect_or_start().await?;
    let key = Uuid::now_v7().to_string();
    let made = match client.suggest(&key, request).await {
        Err(DialError::Lost { .. }) => client.suggest(&key, request).await?,
        other => other?,
    };
    match format {
        Format::Json => ctx.console.print_json(&made),
        Format::Text => {
            let line = format!("suggestion {} waits for {}", made.suggestion, made.owner);
            ctx.console.print_line(&StyledLine::plain(line))
        }
    }
}

async fn submit_suggestion_decision(
    suggestion: Seq,
    request: &SuggestionRequest,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let client = ctx.connect_or_start().await?;
    let key = Uuid::now_v7().to_string();
    let answered = match client.suggestion_answer(&key, suggestion, request).await {
        Err(DialError::Lost { .. }) => client.suggestion_answer(&key, suggestion, request).await?,
        other => other?,
    };
    let SuggestionView { file, state, revision, .. } = &answered;
    let line = match (state, revision) {
        (SuggestionState::Accepted, Some(revision)) => {
            format!("suggestion {suggestion} is accepted: {file} is at revision {revision}")
        }
        (SuggestionState::Accepted, None) => {
            format!(
                "suggestion {suggestion} is accepted; it replaces no text, so {file} is unchanged"
            )
        }
        (SuggestionState::Rejected | SuggestionState::Open, _) => {
            format!("suggestion {suggestion} is {state}")
        }
    };
    match format {
        Format::Json => ctx.console.print_json(&answered),
        Format::Text => ctx.console.print_line(&StyledLine::plain(line)),
    }
}

fn show_list(
    list: &[SuggestionView],
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let rows: Vec<_> = list
        .iter()
        .map(|one| {
            let state = match &one.reason {
                Some(why) => format!("{}: {}", one.state, one_line(why)),
                None => one.state.to_string(),
            };
            let number = one.suggestion.to_string();
            [number, one.file.to_string(), one_line(&one.author), state, one_line(&one.text)]
        })
        .collect();
    match format {
        Format::Json => ctx.console.print_json_list(list),
        Format::Text if rows.is_empty() => ctx.console.note("no suggestions"),
        Format::Text => {
            let columns =
                [Figure("NUMBER"), Name("FILE"), Name("BY"), State("STATE"), Text("WHAT")];
            ctx.console.print_table(columns, &rows)
        }
    }
}

/// Prints the changes of each of these revisions.
pub(super) async fn show_diffs(
    document_client: &DocumentClient,
    entries: &[DocumentEntry],
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let mut diffs = Vec::new();
    for entry in entries {
        let revision = entry.revision.get();
        let between = [Some(revision - 1), Some(revision)];
        let diff =
            document_client.client.diff(&document_client.scope, &entry.file, between).await?;
        if format == Format::Text {
            let (author, file) = (one_line(&entry.author), &entry.file);
            let attempt = entry.attempt.map(|id| format!(" · attempt {id}")).unwrap_or_default();
            let heading = format!("{file} · revision {revision} · by {author}{attempt}");
            ctx.console.print_line(&StyledLine::new(Tone::Dim, heading))?;
            show_diff(&diff, format, ctx)?;
        }
        diffs.push(diff);
    }
    match format {
        Format::Json => ctx.console.print_json_list(&diffs),
        Format::Text => Ok(()),
    }
}

fn show_diff(
    diff: &DocumentDiff,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    match format {
        Format::Json => ctx.console.print_json(diff),
        Format::Text if ctx.console.is_stdout_interactive() => {
            let lines = diff.diff.lines().map(|line| {
                let tone = match line.as_bytes().first() {
                    Some(b'+') => Tone::Good,
                    Some(b'-') => Tone::Bad,
                    _ => Tone::Plain,
                };
                StyledLine::new(tone, sanitize_for_display(line))
            });
            ctx.console.print_lines(&lines.collect::<Vec<_>>())
        }
        Format::Text => ctx.console.print_raw(&diff.diff),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_typed_alone_or_as_a_stretch() {
        for (text, from, to) in [
            ("3", None, Some(3)),
            ("1..3", Some(1), Some(3)),
            ("1..", Some(1), None),
            ("..3", None, Some(3)),
        ] {
            assert_eq!(text.parse(), Ok(RevisionRangeArg { from, to }), "{text}");
        }
        assert!("a..b".parse::<RevisionRangeArg>().is_err());
    }
}
