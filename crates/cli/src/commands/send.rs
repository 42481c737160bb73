//! `agent-worker send`: sends a message to an agent or a workflow.

use std::path::PathBuf;

use agent_worker_host::DialError;
use agent_worker_protocol::{
    AgentName, BadTarget, DeliveryState, Priority, Receipt, Seq, Target,
    api::{NowOutcome, NowReceipt, ReportError, SendReply, SendRequest},
};
use serde::Serialize;
use uuid::Uuid;

use crate::{
    client::sent_message_status::{self, SentMessageStatus, WaitUpdate},
    error::{CliError, CliErrorKind},
    input::{
        argument_values,
        attached_files::read_attachments,
        context::{CommandContext, Format, OutputArgs},
        signals::InterruptSignals,
        target_args::{TargetEffect, parse_bare_target, target_without_text_error},
    },
    output::{
        console::Console,
        styled_line::{StyledLine, Tone},
        text::{one_line, sanitize_for_display},
        verdict::RunVerdict,
    },
};

/// Send a message to an agent or a workflow
///
/// The message is on disk when this command returns. Mention others with @name. Without TARGET the message goes to the
/// agent that `agent-worker use` selected for this folder.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "agent-worker send [OPTIONS] [TARGET] <MESSAGE>",
    after_help = "\
Examples:
  agent-worker send coder@review:pr-123 \"fix it, then ask @reviewer\"
  agent-worker send \"fix it\" --to coder@review:pr-123
  agent-worker send designer@review \"compare these\" --attach before.png --attach after.png
  agent-worker send coder@review \"stop, use the other file\" --now
  git diff | agent-worker send @review:pr-123 - --to reviewer --wait

Exit codes with --wait: 0 all woken agents acted, 1 at least one never will. If the run is the
reason: 3 paused at a limit, 4 paused for a person, 5 interrupted, 130 stopped, as of `run`."
)]
pub(crate) struct Args {
    /// Target (`agent`, `agent@workflow:tag` or `@workflow:tag`) and message; `-` reads the message from stdin
    // Shown as `<TARGET> <MESSAGE>`.
    #[arg(required = true, value_name = "TARGET> <MESSAGE")]
    words: Vec<String>,
    /// Same as TARGET; with TARGET, additional recipients
    #[arg(
        long,
        short = 't',
        visible_alias = "target",
        value_name = "TARGET",
        help_heading = "Recipients"
    )]
    to: Vec<Target>,
    /// Recipients that are not woken
    #[arg(long, value_name = "AGENT", help_heading = "Recipients")]
    cc: Vec<AgentName>,
    /// Number of the message this replies to
    #[arg(long, value_name = "NUMBER")]
    reply_to: Option<i64>,
    /// High priority: delivered before other pending messages
    #[arg(long)]
    urgent: bool,
    /// Attach a file, such as an image; repeatable, at most 20 files of 10 MiB each
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// Reach the woken agents in the middle of their turns: a running turn gets the message if its backend can pass it on
    /// (`backends` lists them); else the turn ends, and the next one has its messages and this one
    #[arg(long, conflicts_with = "wait")]
    now: bool,
    /// Wait until all woken agents have acted, and print the answer
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The document that `send --wait --json` and `ask --json` print; `outcome` is the word of the exit code, and `error`
/// is null exactly when that is `done`.
#[derive(Serialize)]
struct SendReport<'a> {
    outcome: &'static str,
    #[serde(flatten)]
    reply: &'a SendReply,
    receipts: &'a [Receipt],
    error: Option<ReportError>,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let attachments = read_attachments(&args.attach)?;
    let (target, message) =
        read_target_and_text(&args.words, args.to.first(), ("send", "message"), ctx.console)?;
    let (target, to) = resolve_recipients(target, args.to)?;
    let target = match target {
        Some(target) => Some(target),
        None => ctx.selected_target(TargetEffect::Change)?,
    };
    let request = SendRequest {
        target,
        project: Some(ctx.settings.cwd.clone()),
        message,
        to,
        cc: args.cc,
        reply_to: args.reply_to.map(Seq::new),
        alone: args.wait,
        now: args.now,
        priority: if args.urgent { Priority::High } else { Priority::Normal },
        attachments,
    };
    let mut signals = args.wait.then(InterruptSignals::listen_or_fail).transpose()?;
    let reply = match &mut signals {
        Some(signals) => send_unless_interrupted(&request, signals, ctx).await?,
        None => send_message(&request, ctx).await?,
    };
    warn_unknown_mentions(&reply, ctx)?;
    // A caller that waits gets the reason at the end.
    if !args.wait {
        warn_if_blocked(&reply, ctx)?;
    }
    match (signals, args.output.format()) {
        (None, Format::Json) => ctx.console.print_json(&reply).map(|()| RunVerdict::Done),
        (None, Format::Text) => {
            ctx.console.print_line(&recipients_line(&reply))?;
            for receipt in &reply.now {
                ctx.console.print_line(&now_line(receipt))?;
            }
            Ok(RunVerdict::Done)
        }
        (Some(mut signals), format) => wait_for_delivery(&reply, &mut signals, format, ctx).await,
    }
}

/// Warns if the run or a recipient does not act on the message for now.
pub(super) fn warn_if_blocked(
    reply: &SendReply,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    if let Some(why) = &reply.paused {
        ctx.console.warn(&format!(
            "the run is paused, so no agent acts on the message: {}",
            one_line(why)
        ))?;
    }
    for agent in &reply.stopped {
        let who = Target::agent(agent.clone(), &reply.instance);
        ctx.console
            .warn(&format!("{agent} is stopped and acts on the message only when it is resumed"))?;
        ctx.console.hint(&format!("resume the agent: agent-worker resume {who}"))?;
    }
    Ok(())
}

/// Warns about mentions of unknown agents.
pub(super) fn warn_unknown_mentions(
    reply: &SendReply,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    for unknown in &reply.unknown {
        let meant = unknown.suggestion.as_ref().map(|name| format!("; did you mean @{name}?"));
        let name = one_line(&unknown.name);
        let nobody = format!("@{name} is not an agent here{}", meant.unwrap_or_default());
        ctx.console.warn(&nobody)?;
    }
    Ok(())
}

/// Sends the message; repeats a lost request with the same key, which creates only one message.
pub(super) async fn send_message(
    request: &SendRequest,
    ctx: &CommandContext<'_>,
) -> Result<SendReply, CliError> {
    let key = Uuid::now_v7().to_string();
    match ctx.connect_existing().await?.send(&key, request).await {
        Err(DialError::Lost { .. }) => {
            Ok(ctx.connect_existing().await?.send(&key, request).await?)
        }
        other => Ok(other?),
    }
}

/// Sends for a caller that waits; the first signal does not interrupt the request, the second one does.
pub(super) async fn send_unless_interrupted(
    request: &SendRequest,
    signals: &mut InterruptSignals,
    ctx: &CommandContext<'_>,
) -> Result<SendReply, CliError> {
    let unknown = || {
        CliError::new(
            CliErrorKind::Detached,
            "interrupted before the daemon reported whether the message was sent",
        )
        .with_hint("read the messages: agent-worker peek")
    };
    signals.run_until_second(send_message(request, ctx)).await.unwrap_or_else(|| Err(unknown()))
}

/// Waits for the deliveries and prints the answer, or the reason for a missing one.
async fn wait_for_delivery(
    reply: &SendReply,
    signals: &mut InterruptSignals,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    if format == Format::Text {
        ctx.console.eprint_line(&recipients_line(reply))?;
    }
    if reply.woken.is_empty() {
        return Err(CliError::new(
            CliErrorKind::Failed,
            "the message was sent, but it wakes no agent, so no agent will answer",
        )
        .with_hint("mention an agent with @name, or add --to NAME"));
    }
    let settings = ctx.settings;
    let mut printed = Ok(());
    let mut on_update = |update: WaitUpdate<'_>| match update {
        WaitUpdate::Held if printed.is_ok() => printed = ctx.note_hold(),
        WaitUpdate::Held | WaitUpdate::Event(_) => {}
    };
    let delivery_status = tokio::select! {
        delivery_status = sent_message_status::wait_until_final(reply, settings, &mut on_update) => Some(delivery_status?),
        () = signals.wait_for_first() => None,
    };
    printed?;
    let Some(delivery_status) = delivery_status else { return print_detached(reply, format, ctx) };
    match format {
        Format::Json => print_json_report(&delivery_status, reply, ctx)?,
        Format::Text => print_delivery(&delivery_status, ctx)?,
    }
    Ok(delivery_status.verdict())
}

/// Prints the deliveries as one document.
pub(super) fn print_json_report(
    delivery_status: &SentMessageStatus,
    reply: &SendReply,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let (outcome, receipts, error) = (
        delivery_status.verdict().word(),
        &delivery_status.receipts[..],
        delivery_status.to_report_error(),
    );
    ctx.console.print_json(&SendReport { outcome, reply, receipts, error })
}

/// Reports that the caller left before the message was acted on.
pub(super) fn print_detached(
    reply: &SendReply,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let SendReply { seq, instance, .. } = reply;
    let what =
        format!("interrupted before #{seq} was acted on; the message stays with its recipients");
    let look = format!("check its receipts: agent-worker receipts {seq} @{instance}");
    let error = CliError::new(CliErrorKind::Detached, what).with_hint(look);
    match format {
        Format::Text => Err(error),
        Format::Json => {
            let (outcome, receipts) = (error.verdict().word(), &[][..]);
            ctx.console.print_json(&SendReport {
                outcome,
                reply,
                receipts,
                error: Some(error.to_report_error()),
            })?;
            Ok(error.verdict())
        }
    }
}

/// Prints the deliveries for people.
pub(super) fn print_delivery(
    delivery_status: &SentMessageStatus,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    for receipt in &delivery_status.receipts {
        match receipt.state {
            DeliveryState::Acted => {
                let answer = sanitize_for_display(receipt.answer.as_deref().unwrap_or_default());
                let whose = match delivery_status.receipts.as_slice() {
                    [_] => StyledLine::default(),
                    _ => StyledLine::new(Tone::Strong, format!("{}: ", receipt.agent)),
                };
                ctx.console.print_line(&whose.with(Tone::Plain, answer.trim_end()))?;
            }
            state => {
                let line = format!("#{} for {} is {state}", receipt.seq, receipt.agent);
                let why = one_line(&delivery_status.pending_reason(receipt));
                ctx.console.eprint_line(
                    &StyledLine::new(Tone::Bad, line).with(Tone::Plain, format!(": {why}")),
                )?;
            }
        }
    }
    for agent in &delivery_status.without_receipt {
        let line = StyledLine::new(Tone::Bad, format!("no receipt for {agent} was kept"));
        ctx.console.eprint_line(
            &line.with(Tone::Plain, format!(": {}", delivery_status.run_state_text())),
        )?;
    }
    match delivery_status.advice() {
        Some(hint) => ctx.console.hint(&hint),
        None => Ok(()),
    }
}

/// Formats the recipients: `#12 → coder, reviewer`.
pub(super) fn recipients_line(reply: &SendReply) -> StyledLine {
    let names =
        |names: &[AgentName]| names.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
    let woken = match reply.woken.as_slice() {
        [] => " (wakes no agent)".to_owned(),
        woken => format!(" → {}", names(woken)),
    };
    let cc = match reply.cc.as_slice() {
        [] => String::new(),
        cc => format!(" (cc {})", names(cc)),
    };
    StyledLine::new(Tone::Strong, format!("#{}", reply.seq))
        .with(Tone::Plain, woken)
        .with(Tone::Dim, cc)
}

/// Describes the effect of `--now` on one agent.
fn now_line(receipt: &NowReceipt) -> StyledLine {
    let effect = match receipt.outcome {
        NowOutcome::Joined => "its running turn gets this message with the next step of the model",
        NowOutcome::Interrupted => "interrupted the turn; the next one has this message",
        NowOutcome::Started => "the next turn starts with this message",
        NowOutcome::Waiting => {
            "the message is pending: no turn starts in a paused run or for a stopped agent"
        }
    };
    StyledLine::plain(format!("{}: {effect}", receipt.agent))
}

/// Returns the target and the text of `send` and `ask`. A text that is only a target, without another target, is the
/// target, and the text comes from stdin. `what` is the name of the text.
pub(super) fn read_target_and_text(
    words: &[String],
    option: Option<&Target>,
    (command, what): (&str, &str),
    console: &mut Console,
) -> Result<(Option<Target>, String), CliError> {
    let (target, text) = split_target_and_text(words, command)?;
    match parse_bare_target(&text).filter(|_| target.is_none() && option.is_none()) {
        None => Ok((target, argument_values::read_text(text)?)),
        Some(bare) => match argument_values::read_piped_text(what, console)? {
            Some(text) => Ok((Some(bare), text)),
            None => Err(target_without_text_error(&bare, what, command)),
        },
    }
}

/// Splits the arguments: one is a text, two are a target and a text. Options may appear between them, which clap does
/// not allow if the first of two arguments is the optional one.
fn split_target_and_text(
    words: &[String],
    command: &str,
) -> Result<(Option<Target>, String), CliError> {
    match words {
        [] => Ok((None, String::new())),
        [text] => Ok((None, text.clone())),
        [target, text] => match target.parse() {
            Ok(target) => Ok((Some(target), text.clone())),
            Err(bad) => Err(CliError::new(CliErrorKind::Usage, BadTarget::to_string(&bad))),
        },
        [first, ..] => Err(CliError::new(CliErrorKind::Usage, "too many arguments")
            .with_hint(format!("put the text in quotes: agent-worker {command} {first} \"…\""))),
    }
}

/// Returns the target and the further recipients. `send "text" --to coder@review` and `send coder@review "text"` are
/// equivalent.
fn resolve_recipients(
    target: Option<Target>,
    to: Vec<Target>,
) -> Result<(Option<Target>, Vec<AgentName>), CliError> {
    let mut to = to.into_iter();
    let target = target.or_else(|| to.next());
    let names = to.map(|other| match other {
        Target { agent: Some(agent), workflow: None, tag: None } => Ok(agent),
        elsewhere => Err(CliError::new(
            CliErrorKind::Usage,
            format!(
                "`--to {elsewhere}` names an instance, and a message goes to one instance only"
            ),
        )
        .with_hint("name the instance once: agent-worker send @workflow:tag \"…\" --to agent")),
    });
    Ok((target, names.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {

    use super::*;

    fn targets(texts: &[&str]) -> Vec<Target> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn both_spellings_of_a_target_mean_the_same() {
        for (target, to, expected) in [
            (Some("coder@review:pr-1"), &[][..], Some(("coder@review:pr-1", &[][..]))),
            (None, &["coder@review:pr-1"], Some(("coder@review:pr-1", &[]))),
            (Some("@review"), &["coder", "reviewer"], Some(("@review", &["coder", "reviewer"]))),
            (None, &["coder@review", "reviewer"], Some(("coder@review", &["reviewer"]))),
            (Some("@review"), &["coder@other"], None),
        ] {
            let target = target.map(|text| text.parse().unwrap());
            let meant = resolve_recipients(target, targets(to)).ok();
            let meant = meant.map(|(target, to)| (target.unwrap().to_string(), to));
            let expected = expected.map(|(target, to)| {
                (target.to_owned(), to.iter().map(|name| name.parse().unwrap()).collect::<Vec<_>>())
            });
            assert_eq!(meant, expected);
        }
    }

    #[test]
    fn an_address_alone_is_no_message() {
        for (text, address) in [
            ("coder@review", true),
            ("@review:pr-1", true),
            ("hello", false),
            ("@coder please", false),
            ("me@example.com", true),
        ] {
            assert_eq!(parse_bare_target(text).is_some(), address, "{text}");
        }
    }

    #[test]
    fn one_word_is_a_text_two_are_a_target_and_a_text_and_three_want_quotes() {
        for (words, expected) in [
            (&["hello"][..], Ok((None, "hello"))),
            (&["coder@review", "hello there"], Ok((Some("coder@review"), "hello there"))),
            (&["coder", "hello", "there"], Err("too many arguments")),
            (&["a b", "hello"], Err("`a b` cannot be an agent's name")),
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            match (split_target_and_text(&words, "send"), expected) {
                (Ok((target, text)), Ok((place, line))) => {
                    let target = target.map(|target| target.to_string());
                    assert_eq!((target.as_deref(), &*text), (place, line));
                }
                (Err(error), Err(why)) => assert!(error.to_report_error().message.starts_with(why)),
                (read, expected) => panic!("{read:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn no_target_at_all_is_left_to_the_daemon() {
        assert_eq!(resolve_recipients(None, Vec::new()).unwrap(), (None, Vec::new()));
    }
}
