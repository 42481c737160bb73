//! `agent-worker send`: put a message in front of an agent.

use std::{io::Read as _, time::Duration};

use agent_worker_host::DialError;
use agent_worker_protocol::{
    AgentName, DeliveryState, Event, EventKind, Receipt, Seq, Target,
    api::{SendReply, SendRequest},
};
use serde::Serialize;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::{
    client::{Client, Scope, Watched},
    context::{Context, Format, Output},
    discovery,
    error::{CliError, Kind},
    line::{Line, Tone},
    text::{harmless, one_line},
    verdict::Verdict,
};

/// How long to wait for an event before looking at the receipts anyway.
const SWEEP: Duration = Duration::from_secs(5);
/// How long to wait before asking a daemon that went away again.
const PAUSE: Duration = Duration::from_millis(200);

/// Send a message to an agent or a workflow
///
/// It is on disk when this returns. Mention others with @name.
#[derive(Debug, clap::Args)]
#[command(
    allow_missing_positional = true,
    after_help = "\
Examples:
  agent-worker send coder@review:pr-123 \"fix it, then ask @reviewer\"
  git diff | agent-worker send @review:pr-123 - --to reviewer --wait"
)]
pub(crate) struct Args {
    /// Where to: `agent`, `agent@workflow:tag` or `@workflow:tag`
    target: Option<Target>,
    /// What to say; `-` reads it from stdin
    message: String,
    /// Whom besides those it mentions
    #[arg(long, value_name = "AGENT")]
    to: Vec<Target>,
    /// Who reads it without being woken
    #[arg(long, value_name = "AGENT")]
    cc: Vec<AgentName>,
    /// The number of the message it answers
    #[arg(long, value_name = "NUMBER")]
    reply_to: Option<i64>,
    /// Wait until everybody woken has acted, and print the answer
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

/// What `send --wait --json` prints.
#[derive(Serialize)]
struct Settled<'a> {
    #[serde(flatten)]
    reply: &'a SendReply,
    receipts: &'a [Receipt],
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let (target, to) = addressed(args.target, args.to)?;
    let request = SendRequest {
        target,
        project: Some(ctx.settings.cwd.clone()),
        message: words(args.message)?,
        to,
        cc: args.cc,
        reply_to: args.reply_to.map(Seq::new),
        alone: args.wait,
    };
    let reply = sent(&request, ctx).await?;
    for unknown in &reply.unknown {
        let meant = unknown.suggestion.as_ref().map(|name| format!("; did you mean @{name}?"));
        let name = one_line(&unknown.name);
        let nobody = format!("@{name} is nobody here{}", meant.unwrap_or_default());
        ctx.console.warn(&nobody)?;
    }
    if let Some(why) = &reply.paused {
        ctx.console.warn(&format!("its run is paused, so nobody acts on it: {}", one_line(why)))?;
    }
    match (args.wait, args.output.format()) {
        (false, Format::Json) => ctx.console.json(&reply).map(|()| Verdict::Done),
        (false, Format::Text) => ctx.console.answer(&place(&reply)).map(|()| Verdict::Done),
        (true, format) => wait(&reply, format, ctx).await,
    }
}

/// Sends it. When the answer was lost it is asked for again: the key makes that one message.
async fn sent(request: &SendRequest, ctx: &Context<'_>) -> Result<SendReply, CliError> {
    let key = Uuid::now_v7().to_string();
    match ctx.daemon().await?.send(&key, request).await {
        Err(DialError::Lost { .. }) => Ok(ctx.daemon().await?.send(&key, request).await?),
        other => Ok(other?),
    }
}

/// Prints what became of it: the answer, or why there is none.
async fn wait(
    reply: &SendReply,
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<Verdict, CliError> {
    if format == Format::Text {
        ctx.console.say(&place(reply))?;
    }
    if let Some(why) = &reply.paused {
        let what = format!("it was sent, but its run is paused: {}", one_line(why));
        return Err(CliError::new(Kind::Failed, what).hint(format!(
            "end the run with `agent-worker stop {}`, and start it again",
            Target::instance(&reply.instance)
        )));
    }
    if reply.woken.is_empty() {
        return Err(CliError::new(
            Kind::Failed,
            "it was sent, but nobody is woken by it, so nobody will answer",
        )
        .hint("mention somebody with @name, or add --to NAME"));
    }
    let scope = Scope::instance(&reply.instance, ctx.settings.cwd.clone());
    let receipts = settled(reply, &scope, ctx).await?;
    match format {
        Format::Json => ctx.console.json(&Settled { reply, receipts: &receipts })?,
        Format::Text => show(&receipts, ctx)?,
    }
    let acted = receipts.iter().all(|receipt| receipt.state == DeliveryState::Acted);
    Ok(if acted { Verdict::Done } else { Verdict::Failed })
}

/// Waits until every woken agent has acted or never will. Events say when to look; the receipts are the truth.
async fn settled(
    reply: &SendReply,
    scope: &Scope,
    ctx: &Context<'_>,
) -> Result<Vec<Receipt>, CliError> {
    loop {
        let client = discovery::open(ctx.settings).await?;
        match watched(&client, reply, scope).await {
            Ok(receipts) => return Ok(receipts),
            Err(DialError::Lost { .. } | DialError::Absent { .. }) => sleep(PAUSE).await,
            Err(other) => return Err(other.into()),
        }
    }
}

async fn watched(
    client: &Client,
    reply: &SendReply,
    scope: &Scope,
) -> Result<Vec<Receipt>, DialError> {
    // From now on; what happened before is in the receipts, which are read after this has begun.
    let from_now = None;
    let mut events = client.events(&Watched::Scope(scope.clone()), from_now).await?;
    loop {
        let mut receipts = client.receipts(scope, reply.seq).await?.receipts;
        receipts.retain(|receipt| reply.woken.contains(&receipt.agent));
        if receipts.iter().all(|receipt| is_settled(receipt.state)) {
            return Ok(receipts);
        }
        let reason_to_look = async {
            while let Some((_, event)) = events.next().await? {
                if may_settle(&event) {
                    return Ok(());
                }
            }
            Err(DialError::Lost { source: "the events ended".into() })
        };
        timeout(SWEEP, reason_to_look).await.unwrap_or(Ok(()))?;
    }
}

fn is_settled(state: DeliveryState) -> bool {
    match state {
        DeliveryState::Pending | DeliveryState::Leased => false,
        DeliveryState::Acted | DeliveryState::Dead | DeliveryState::Dropped => true,
    }
}

/// Whether an event may have settled a delivery.
fn may_settle(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::AttemptEnded
            | EventKind::DeliveryDead
            | EventKind::DeliveryDropped
            | EventKind::RunEnded
    )
}

fn show(receipts: &[Receipt], ctx: &mut Context<'_>) -> Result<(), CliError> {
    for receipt in receipts {
        match receipt.state {
            DeliveryState::Acted => {
                let answer = harmless(receipt.answer.as_deref().unwrap_or_default());
                let whose = match receipts {
                    [_] => Line::default(),
                    _ => Line::of(Tone::Strong, format!("{}: ", receipt.agent)),
                };
                ctx.console.answer(&whose.and(Tone::Plain, answer.trim_end()))?;
            }
            state => {
                let why = one_line(receipt.why.as_deref().unwrap_or("no reason given"));
                let said = Line::of(
                    Tone::Bad,
                    format!("#{} for {} is {state}", receipt.seq, receipt.agent),
                );
                ctx.console.say(&said.and(Tone::Plain, format!(": {why}")))?;
            }
        }
    }
    Ok(())
}

/// `#12 → coder, reviewer`
fn place(reply: &SendReply) -> Line {
    let names =
        |names: &[AgentName]| names.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
    let woken = match reply.woken.as_slice() {
        [] => " (nobody is woken by it)".to_owned(),
        woken => format!(" → {}", names(woken)),
    };
    let cc = match reply.cc.as_slice() {
        [] => String::new(),
        cc => format!(" (cc {})", names(cc)),
    };
    Line::of(Tone::Strong, format!("#{}", reply.seq)).and(Tone::Plain, woken).and(Tone::Dim, cc)
}

fn words(message: String) -> Result<String, CliError> {
    if message != "-" {
        return Ok(message);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| {
        CliError::because(Kind::Usage, "could not read the message from stdin", error)
    })?;
    Ok(text)
}

/// Where it goes and whom it names. `send "text" --to coder@review` means the same as `send coder@review "text"`.
fn addressed(
    target: Option<Target>,
    to: Vec<Target>,
) -> Result<(Option<Target>, Vec<AgentName>), CliError> {
    let mut to = to.into_iter();
    let target = target.or_else(|| to.next());
    let names = to.map(|other| match other {
        Target { agent: Some(agent), workflow: None, tag: None } => Ok(agent),
        elsewhere => Err(CliError::new(
            Kind::Usage,
            format!("`--to {elsewhere}` names a place, and a message goes to one place only"),
        )
        .hint("write the place once: agent-worker send @workflow:tag \"…\" --to agent")),
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
            let meant = addressed(target, targets(to)).ok();
            let meant = meant.map(|(target, to)| (target.unwrap().to_string(), to));
            let expected = expected.map(|(target, to)| {
                (target.to_owned(), to.iter().map(|name| name.parse().unwrap()).collect::<Vec<_>>())
            });
            assert_eq!(meant, expected);
        }
    }

    #[test]
    fn no_target_at_all_is_left_to_the_daemon() {
        assert_eq!(addressed(None, Vec::new()).unwrap(), (None, Vec::new()));
    }
}
