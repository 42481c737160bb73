//! The requests of the full screen: what it shows, and the answers and messages of the person.

use agent_worker_host::DialError;
use agent_worker_protocol::{
    Message, Priority, RunId, Target,
    api::{RunView, SendReply, SendRequest},
};
use uuid::Uuid;

use super::entries::{AttentionEntry, ItemPlace};
use crate::{
    client::daemon_client::{CommandScope, DaemonClient, MessageFilter, RunSelection, ScopeReach},
    error::CliError,
    live::{
        attention_panel::{OpenItem, PanelDecision},
        attention_prompt::send_decision,
    },
};

/// Largest number of runs on the screen.
const MAX_RUNS: usize = 32;
/// Number of messages of each run that are read at first.
const FIRST_MESSAGES: u32 = 50;

/// The live runs, newest first, and the number of those that the screen leaves out.
pub(super) struct LiveRuns {
    pub(super) views: Vec<RunView>,
    pub(super) hidden: usize,
}

/// Reads the live runs of the scope.
pub(super) async fn read_runs(
    client: &DaemonClient,
    scope: &CommandScope,
) -> Result<LiveRuns, DialError> {
    let mut runs = client.recent_runs(scope).await?;
    runs.retain(|run| run.state.is_live());
    // The permanent run of the standalone agents is shown while there are such agents.
    runs.retain(|run| !run.instance.is_global() || !run.agents.is_empty());
    let hidden = runs.len().saturating_sub(MAX_RUNS);
    runs.truncate(MAX_RUNS);
    Ok(LiveRuns { views: runs, hidden })
}

/// Reads the view of a run, and its newest messages.
pub(super) async fn read_run(
    client: &DaemonClient,
    run: RunId,
) -> Result<(RunView, Vec<Message>), DialError> {
    let view = client.run(run).await?;
    let scope = CommandScope::for_instance(&view.instance, view.project.clone());
    let filter = MessageFilter {
        limit: FIRST_MESSAGES,
        since: None,
        search: None,
        thread: None,
        runs: RunSelection::Current,
    };
    let messages = client.messages(&scope, &filter).await?.items;
    Ok((view, messages))
}

/// Reads the requests, questions and dead letters of the scope.
pub(super) async fn read_attention(
    client: DaemonClient,
    scope: CommandScope,
) -> Result<Vec<AttentionEntry>, DialError> {
    let approvals = client.approvals(&scope).await?;
    let questions = client.questions(&scope).await?;
    let dead = client.dead_letters(&scope).await?;
    let approvals = approvals.into_iter().map(OpenItem::Approval);
    let open = approvals.chain(questions.into_iter().map(OpenItem::Question));
    let dead = dead.into_iter().map(|letter| AttentionEntry::Dead(Box::new(letter)));
    Ok(open.map(AttentionEntry::Open).chain(dead).collect())
}

/// Sends the answer to an item.
pub(super) async fn decide(
    client: DaemonClient,
    place: ItemPlace,
    decision: PanelDecision,
) -> Result<(), CliError> {
    Ok(send_decision(&client, &place.instance, place.project, decision).await?)
}

/// Sends a message to the team of a run.
pub(super) async fn send(
    client: DaemonClient,
    run: RunId,
    text: String,
) -> Result<SendReply, CliError> {
    let view = client.run(run).await?;
    let request = SendRequest {
        target: Some(Target::instance(&view.instance)),
        project: Some(view.project),
        message: text,
        to: Vec::new(),
        cc: Vec::new(),
        reply_to: None,
        alone: false,
        now: false,
        priority: Priority::Normal,
        attachments: Vec::new(),
    };
    let key = Uuid::now_v7().to_string();
    match client.send(&key, &request).await {
        Err(DialError::Lost { .. }) => Ok(client.send(&key, &request).await?),
        other => Ok(other?),
    }
}

/// Returns the scope of the screen: one target, or everything.
pub(super) fn scope_of(target: Option<Target>, project: std::path::PathBuf) -> CommandScope {
    let reach = match target {
        Some(_) => ScopeReach::CurrentProject,
        None => ScopeReach::AllProjects,
    };
    CommandScope { target, project, reach }
}
