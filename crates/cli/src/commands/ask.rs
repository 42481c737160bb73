//! `agent-worker ask`: a question and its answer, as it comes.

use agent_worker_protocol::{
    AttemptId, DeliveryState, Event, EventKind, Priority, Seq, Target, api::SendRequest,
};
use serde_json::Value;

use crate::{
    client::{Reach, Watched},
    commands::send,
    console::Console,
    context::{Context, Format, Output},
    error::{CliError, Kind},
    fate::{self, Fate},
    given,
    line::{Line, Tone},
    signals::Signals,
    verdict::Verdict,
};

/// Ask an agent and wait for its answer
///
/// On a terminal its words are shown as they come; in a pipe the answer alone is printed. Without an agent the one that
/// `agent-worker use` chose for this folder is asked.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "agent-worker ask [OPTIONS] [AGENT] <QUESTION>",
    after_help = "\
Examples:
  agent-worker ask coder@review \"why did you choose that?\"
  git diff | agent-worker ask reviewer - > review.md

Exit codes: as of `send --wait`."
)]
pub(crate) struct Args {
    /// Whom, `agent` or `agent@workflow:tag`, and what; `-` reads that from stdin
    // Shown as `<AGENT> <QUESTION>`.
    #[arg(required = true, value_name = "AGENT> <QUESTION")]
    words: Vec<String>,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let format = args.output.format();
    let (agent, question) = send::split(&args.words, "ask")?;
    let target = asked(agent.or_else(|| ctx.default_agent()))?;
    let request = SendRequest {
        target: Some(target.clone()),
        project: Some(ctx.settings.cwd.clone()),
        message: given::text(question)?,
        to: Vec::new(),
        cc: Vec::new(),
        reply_to: None,
        alone: true,
        priority: Priority::Normal,
    };
    let client = ctx.daemon_of_something().await?;
    let when = match format {
        Format::Text if ctx.console.answers_a_person() => When::AsTheyCome,
        Format::Text | Format::Json => When::AtTheEnd,
    };
    // Watched from before it is sent, so that its first words are not missed.
    let from_now = None;
    let watched = Watched::Scope(ctx.scope(Some(target), Reach::Here));
    let events = client.events(&watched, from_now).await?;
    let mut signals = Signals::listen_or_fail()?;
    let reply = send::sent_or_left(&request, &mut signals, ctx).await?;
    send::warn_of_nobody(&reply, ctx)?;
    let mut words = Words { seq: reply.seq, when, attempt: None, shown: String::new() };
    let mut printed = Ok(());
    let (settings, console) = (ctx.settings, &mut *ctx.console);
    let mut heard = |event: &Event| {
        if printed.is_ok() {
            printed = words.hear(event, console);
        }
    };
    let fate = tokio::select! {
        fate = fate::of_heard(&reply, settings, &client, Some(events), &mut heard) => Some(fate?),
        () = signals.first() => None,
    };
    printed?;
    let Some(fate) = fate else {
        words.break_off(ctx)?;
        return send::left(&reply, format, ctx);
    };
    match format {
        Format::Json => send::settled(&fate, &reply, ctx)?,
        Format::Text => words.end(&fate, ctx)?,
    }
    Ok(fate.verdict())
}

/// One agent is asked, and it must be known which.
fn asked(target: Option<Target>) -> Result<Target, CliError> {
    let hint = "name one: agent-worker ask agent@workflow \"…\"; or choose one for this folder: agent-worker use agent";
    match target {
        Some(target) if target.agent.is_some() => Ok(target),
        Some(team) => Err(CliError::new(
            Kind::Usage,
            format!("`{team}` is a team, and a question goes to one agent"),
        )
        .hint(hint)),
        None => Err(CliError::new(Kind::Usage, "no agent is named").hint(hint)),
    }
}

/// The words of the attempts at one message, as they are shown.
struct Words {
    seq: Seq,
    when: When,
    attempt: Option<AttemptId>,
    shown: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    AsTheyCome,
    AtTheEnd,
}

impl Words {
    /// Shows what an event adds. An attempt that is tried again begins anew.
    fn hear(&mut self, event: &Event, console: &mut Console) -> Result<(), CliError> {
        match event.kind {
            EventKind::AttemptStarting if self.is_about(event) => {
                self.attempt = event.attempt;
                if !self.shown.is_empty() {
                    self.shown.clear();
                    console.piece("\n")?;
                    console.say(&Line::of(Tone::Warn, "that attempt failed; it is tried again"))?;
                }
                Ok(())
            }
            EventKind::Text if self.when == When::AsTheyCome && self.is_ours(event) => {
                let text = event.data.get("text").and_then(Value::as_str).unwrap_or_default();
                self.shown.push_str(text);
                console.piece(text)
            }
            _ => Ok(()),
        }
    }

    fn is_ours(&self, event: &Event) -> bool {
        event.attempt.is_some() && event.attempt == self.attempt
    }

    fn is_about(&self, event: &Event) -> bool {
        let seqs = event.data.get("seqs").and_then(Value::as_array);
        seqs.is_some_and(|seqs| seqs.iter().any(|seq| seq.as_i64() == Some(self.seq.get())))
    }

    /// Ends the line that what was shown so far stands on.
    fn break_off(&self, ctx: &mut Context<'_>) -> Result<(), CliError> {
        match self.shown.as_str() {
            "" => Ok(()),
            shown if shown.ends_with('\n') => Ok(()),
            _ => ctx.console.piece("\n"),
        }
    }

    /// The answer, unless its last words stand there already; else why there is none.
    fn end(&self, fate: &Fate, ctx: &mut Context<'_>) -> Result<(), CliError> {
        let answer = match fate.receipts.as_slice() {
            [only] if only.state == DeliveryState::Acted => only.answer.as_deref(),
            _ => None,
        };
        let stands_there = answer.is_some_and(|answer| {
            !self.shown.is_empty() && self.shown.trim_end().ends_with(answer.trim())
        });
        match (stands_there, self.shown.is_empty(), self.shown.ends_with('\n')) {
            (true, _, true) => Ok(()),
            (true, _, false) => ctx.console.piece("\n"),
            (false, true, _) | (false, false, true) => send::show(fate, ctx),
            (false, false, false) => {
                ctx.console.piece("\n")?;
                send::show(fate, ctx)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::samples;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn event(kind: EventKind, attempt: u64, data: Value) -> Event {
        let attempt = Some(AttemptId::new(Uuid::from_u64_pair(0, attempt)));
        Event { attempt, ..samples::event(1, kind, "coder", data) }
    }

    #[test]
    fn only_the_words_of_the_questions_own_attempt_are_shown_and_as_they_come() {
        let paper = Paper::default();
        let mut console = Console::for_programs(Box::new(paper.clone()), Box::new(io::sink()));
        let mut words =
            Words { seq: Seq::new(7), when: When::AsTheyCome, attempt: None, shown: String::new() };
        let said = |text: &str| json!({ "text": text });
        let mut shown = Vec::new();
        for event in [
            event(EventKind::Text, 1, said("of another turn")),
            event(EventKind::AttemptStarting, 1, json!({ "seqs": [6] })),
            event(EventKind::Text, 1, said("of another message")),
            event(EventKind::AttemptStarting, 2, json!({ "seqs": [7] })),
            event(EventKind::Text, 2, said("One ")),
            event(EventKind::Text, 1, said("late")),
            event(EventKind::Text, 2, said("two\u{1b}[2J")),
            event(EventKind::AttemptStarting, 3, json!({ "seqs": [7] })),
            event(EventKind::Text, 3, said("Again")),
        ] {
            words.hear(&event, &mut console).unwrap();
            shown.push(paper.0.lock().unwrap().len());
        }
        let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "One two␛[2J\nAgain");
        assert_eq!(shown[..6], [0, 0, 0, 0, 4, 4], "each piece is there at once");
    }
}
