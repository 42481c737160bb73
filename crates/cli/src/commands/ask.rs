//! `agent-worker ask`: sends a question and prints the answer as it arrives.

use agent_worker_protocol::{
    AttemptId, DeliveryState, Event, EventBody, Priority, Seq, Target, api::SendRequest,
};

use crate::{
    client::{
        daemon_client::{FeedSource, ScopeReach},
        sent_message_status::{self, SentMessageStatus, WaitUpdate},
    },
    commands::send,
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        signals::InterruptSignals,
        target_args::{TargetEffect, same_target},
    },
    output::{
        console::Console,
        styled_line::{StyledLine, Tone},
        verdict::RunVerdict,
    },
};

/// Ask an agent and wait for its answer
///
/// The command prints the text as it arrives on a terminal, and only the answer in a pipe. Without AGENT, it asks the
/// agent that `agent-worker use` selected for this folder.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "agent-worker ask [OPTIONS] [AGENT] <QUESTION>",
    after_help = "\
Examples:
  agent-worker ask coder@review \"why did you choose that?\"
  agent-worker ask \"why?\" --to coder@review
  git diff | agent-worker ask reviewer - > review.md

Exit codes: those of `agent-worker send --wait`."
)]
pub(crate) struct Args {
    /// Agent (`agent` or `agent@workflow:tag`) and question; `-` reads the question from stdin
    // Shown as `<AGENT> <QUESTION>`.
    #[arg(required = true, value_name = "AGENT> <QUESTION")]
    words: Vec<String>,
    /// Same as AGENT
    #[arg(long = "target", visible_alias = "to", short = 't', value_name = "TARGET")]
    target_option: Option<Target>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.output.format();
    let (agent, question) = send::read_target_and_text(
        &args.words,
        args.target_option.as_ref(),
        ("ask", "question"),
        ctx.console,
    )?;
    let target = match same_target(agent, args.target_option)? {
        Some(target) => Some(target),
        None => ctx.selected_target(TargetEffect::Change)?,
    };
    let target = require_single_agent(target, "ask")?;
    let mut signals = None;
    ask_agent(&target, question, format, &mut signals, ctx).await
}

/// Sends a question to one agent and prints the answer. Signals that are not listened to yet are from the moment at which
/// the message is sent.
pub(super) async fn ask_agent(
    target: &Target,
    question: String,
    format: Format,
    signals: &mut Option<InterruptSignals>,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let request = question_request(target, question, ctx);
    let client = ctx.connect_existing().await?;
    let when = match format {
        Format::Text if ctx.console.is_stdout_interactive() => AnswerDisplayMode::Streaming,
        Format::Text | Format::Json => AnswerDisplayMode::AtEnd,
    };
    // The event stream is opened before the message is sent, so that no text is missed.
    let from_now = None;
    let watched = FeedSource::Scope(ctx.scope(Some(target.clone()), ScopeReach::CurrentProject));
    let events = client.events(&watched, from_now).await?;
    let signals = match signals {
        Some(signals) => signals,
        None => signals.insert(InterruptSignals::listen_or_fail()?),
    };
    let reply = send::send_unless_interrupted(&request, signals, ctx).await?;
    send::warn_unknown_mentions(&reply, ctx)?;
    let mut words =
        AnswerStream { seq: reply.seq, display_mode: when, attempt: None, shown: String::new() };
    let mut printed = Ok(());
    let (settings, console) = (ctx.settings, &mut *ctx.console);
    let mut on_update = |update: WaitUpdate<'_>| {
        if printed.is_ok() {
            printed = match update {
                WaitUpdate::Event(event) => words.handle_event(event, console),
                WaitUpdate::Held => CommandContext { settings, console }.note_hold(),
            };
        }
    };
    let delivery_status = tokio::select! {
        delivery_status = sent_message_status::wait_until_final_with_listener(&reply, settings, &client, Some(events), &mut on_update) => Some(delivery_status?),
        () = signals.wait_for_first() => None,
    };
    printed?;
    let Some(delivery_status) = delivery_status else {
        words.end_partial_line(ctx)?;
        return send::print_detached(&reply, format, ctx);
    };
    match format {
        Format::Json => send::print_json_report(&delivery_status, &reply, ctx)?,
        Format::Text => words.print_answer(&delivery_status, ctx)?,
    }
    Ok(delivery_status.verdict())
}

/// Returns the message to one agent alone.
fn question_request(target: &Target, question: String, ctx: &CommandContext<'_>) -> SendRequest {
    SendRequest {
        target: Some(target.clone()),
        project: Some(ctx.settings.cwd.clone()),
        message: question,
        to: Vec::new(),
        cc: Vec::new(),
        reply_to: None,
        alone: true,
        now: false,
        priority: Priority::Normal,
        attachments: Vec::new(),
    }
}

/// Refuses a missing agent and a whole team.
pub(super) fn require_single_agent(
    target: Option<Target>,
    command: &str,
) -> Result<Target, CliError> {
    let (text, what) = match command {
        "ask" => (" \"…\"", "a question goes to one agent"),
        _ => ("", "a conversation is with one agent"),
    };
    let hint = format!(
        "name one: agent-worker {command} agent@workflow{text}; or choose one for this folder: agent-worker use agent"
    );
    match target {
        Some(target) if target.agent.is_some() => Ok(target),
        Some(team) => {
            Err(CliError::new(CliErrorKind::Usage, format!("`{team}` is a team, and {what}"))
                .with_hint(hint))
        }
        None => Err(CliError::new(CliErrorKind::Usage, "no agent is named").with_hint(hint)),
    }
}

/// The printed text of the attempts at one message.
struct AnswerStream {
    seq: Seq,
    display_mode: AnswerDisplayMode,
    attempt: Option<AttemptId>,
    shown: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AnswerDisplayMode {
    Streaming,
    AtEnd,
}

impl AnswerStream {
    /// Prints the text that an event adds; a new attempt starts the answer again.
    fn handle_event(&mut self, event: &Event, console: &mut Console) -> Result<(), CliError> {
        match &event.body {
            EventBody::AttemptStarting(data) if data.seqs.contains(&self.seq) => {
                self.attempt = event.attempt;
                if !self.shown.is_empty() {
                    self.shown.clear();
                    console.print_chunk("\n")?;
                    console.eprint_line(&StyledLine::new(
                        Tone::Warn,
                        "the attempt failed; retrying",
                    ))?;
                }
                Ok(())
            }
            EventBody::Text(data)
                if self.display_mode == AnswerDisplayMode::Streaming
                    && self.is_from_current_attempt(event) =>
            {
                self.shown.push_str(&data.text);
                console.print_chunk(&data.text)
            }
            _ => Ok(()),
        }
    }

    fn is_from_current_attempt(&self, event: &Event) -> bool {
        event.attempt.is_some() && event.attempt == self.attempt
    }

    /// Ends the last printed line if it is incomplete.
    fn end_partial_line(&self, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
        match self.shown.as_str() {
            "" => Ok(()),
            shown if shown.ends_with('\n') => Ok(()),
            _ => ctx.console.print_chunk("\n"),
        }
    }

    /// Prints the answer unless the streamed text already ends with it, or the reason for a missing answer.
    fn print_answer(
        &self,
        delivery_status: &SentMessageStatus,
        ctx: &mut CommandContext<'_>,
    ) -> Result<(), CliError> {
        let answer = match delivery_status.receipts.as_slice() {
            [only] if only.state == DeliveryState::Acted => only.answer.as_deref(),
            _ => None,
        };
        let stands_there = answer.is_some_and(|answer| {
            !self.shown.is_empty() && self.shown.trim_end().ends_with(answer.trim())
        });
        match (stands_there, self.shown.is_empty(), self.shown.ends_with('\n')) {
            (true, _, true) => Ok(()),
            (true, _, false) => ctx.console.print_chunk("\n"),
            (false, true, _) | (false, false, true) => send::print_delivery(delivery_status, ctx),
            (false, false, false) => {
                ctx.console.print_chunk("\n")?;
                send::print_delivery(delivery_status, ctx)
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

    use agent_worker_protocol::{AttemptStartingData, TextData};
    use uuid::Uuid;

    use super::*;
    use crate::output::samples;

    #[derive(Clone, Default)]
    struct OutputBuffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for OutputBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn event(body: EventBody, attempt: u64) -> Event {
        let attempt = Some(AttemptId::new(Uuid::from_u64_pair(0, attempt)));
        Event { attempt, ..samples::typed_event(1, "coder", body) }
    }

    fn starting(attempt: u64, seq: i64) -> Event {
        let data = AttemptStartingData { seqs: vec![Seq::new(seq)], number: 1 };
        event(EventBody::AttemptStarting(data), attempt)
    }

    fn text(attempt: u64, text: &str) -> Event {
        event(EventBody::Text(TextData { text: text.into() }), attempt)
    }

    #[test]
    fn only_the_words_of_the_questions_own_attempt_are_shown_and_as_they_come() {
        let paper = OutputBuffer::default();
        let mut console = Console::for_programs(Box::new(paper.clone()), Box::new(io::sink()));
        let mut words = AnswerStream {
            seq: Seq::new(7),
            display_mode: AnswerDisplayMode::Streaming,
            attempt: None,
            shown: String::new(),
        };
        let mut shown = Vec::new();
        for event in [
            text(1, "of another turn"),
            starting(1, 6),
            text(1, "of another message"),
            starting(2, 7),
            text(2, "One "),
            text(1, "late"),
            text(2, "two\u{1b}[2J"),
            starting(3, 7),
            text(3, "Again"),
        ] {
            words.handle_event(&event, &mut console).unwrap();
            shown.push(paper.0.lock().unwrap().len());
        }
        let printed = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        assert_eq!(printed, "One two␛[2J\nAgain");
        assert_eq!(shown[..6], [0, 0, 0, 0, 4, 4], "each piece is there at once");
    }
}
