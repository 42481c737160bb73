//! `agent-worker down`: end what `up` began, named as briefly as can be.

use agent_worker_host::DialError;
use agent_worker_protocol::{Code, Tag, Target, api::InstanceView};

use super::stop::{Meant, Stopping, nothing};
use crate::{
    client::{Client, Grace, Reach},
    context::{Context, Output},
    error::{CliError, Kind},
    verdict::Verdict,
    which,
};

/// Stop what `up` started
///
/// Alone: the only run of this folder. `down pr-123`: the run with that tag. `down coder`, `down coder@pr-123`: that
/// agent. Returns when the processes are gone.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker down pr-123")]
pub(crate) struct Args {
    /// Which: a tag, an agent, or a target as of `stop`
    #[arg(value_name = "TAG|TARGET")]
    what: Option<String>,
    /// Every run of every folder
    #[arg(long, conflicts_with = "what")]
    all: bool,
    /// Give the processes no time to end by themselves
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let format = args.output.format();
    let client = match (ctx.daemon_if_any().await?, &args.what) {
        (Some(client), _) => client,
        (None, Some(_)) => return Err(Context::nothing_yet()),
        (None, None) => return nothing(format, ctx),
    };
    let meant = match &args.what {
        _ if args.all => Meant::Everything,
        None => Meant::OnlyRun,
        Some(word) => meant(word, &client, ctx).await?,
    };
    let grace = if args.now { Grace::Nothing } else { Grace::Usual };
    Stopping { meant, grace, format }.carry_out(&client, ctx).await
}

/// What a word means: a tag of a run that goes on, else whatever it is a target of.
async fn meant(word: &str, client: &Client, ctx: &Context<'_>) -> Result<Meant, CliError> {
    let target = word.parse::<Target>();
    let tagged = match word.parse::<Tag>() {
        Ok(tag) => tagged(&tag, client, ctx).await?,
        Err(_) => Vec::new(),
    };
    match (tagged.as_slice(), target) {
        ([], Ok(target)) if target.agent.is_none() => {
            Ok(Meant::Runs(ctx.scope(Some(target), Reach::Here)))
        }
        ([], Ok(target)) => Ok(Meant::Agent(target)),
        ([], Err(bad)) => {
            Err(CliError::because(Kind::Usage, format!("`{word}` names nothing"), bad)
                .hint("see what goes on: agent-worker ls"))
        }
        ([one], Ok(target)) if is_there(&target, client, ctx).await? => {
            let instance = Target::instance(&one.instance);
            Err(CliError::new(
                Kind::Refused(Code::Conflict),
                format!("`{word}` is an agent, and the tag of {instance}"),
            )
            .hint(format!(
                "say which: agent-worker down {instance}, or the agent with its workflow"
            )))
        }
        ([one], _) => Ok(Meant::Runs(which::of(one))),
        (several, _) => {
            let names: Vec<_> =
                several.iter().map(|one| Target::instance(&one.instance).to_string()).collect();
            let what = format!("which one? {}", names.join(", "));
            Err(CliError::new(Kind::Refused(Code::Conflict), what)
                .hint(format!("name it: agent-worker down {}", names[0])))
        }
    }
}

/// The instances with this tag that have a live run: of this folder, else anywhere.
async fn tagged(
    tag: &Tag,
    client: &Client,
    ctx: &Context<'_>,
) -> Result<Vec<InstanceView>, CliError> {
    let is_meant = |one: &InstanceView| {
        one.instance.tag == *tag && one.live.is_some() && !one.instance.is_global()
    };
    for reach in [Reach::Here, Reach::Everywhere] {
        let mut found = client.instances(&ctx.scope(None, reach)).await?;
        found.retain(is_meant);
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// Whether somebody of that name takes part in something.
async fn is_there(target: &Target, client: &Client, ctx: &Context<'_>) -> Result<bool, CliError> {
    match client.agents(&ctx.scope(Some(target.clone()), Reach::Here)).await {
        Ok(agents) => Ok(!agents.is_empty()),
        Err(DialError::Refused(problem)) if problem.code == Code::NotFound => Ok(false),
        // There are several.
        Err(DialError::Refused(problem)) if problem.code == Code::Conflict => Ok(true),
        Err(error) => Err(error.into()),
    }
}
