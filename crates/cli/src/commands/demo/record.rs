//! Reads the state of the team from the daemon.

use agent_worker_host::DialError;
use agent_worker_protocol::{AgentState, RunId};

use super::evidence::TeamRecord;
use crate::client::daemon_client::{CommandScope, DaemonClient, MessageFilter, RunSelection};

/// More messages than the demo writes.
const ALL_MESSAGES: u32 = 1_000;

/// Reads the channel, the receipts of its messages and the live attempts.
pub(super) async fn read_team(
    client: &DaemonClient,
    scope: &CommandScope,
    run: RunId,
) -> Result<TeamRecord, DialError> {
    let filter = MessageFilter {
        limit: ALL_MESSAGES,
        since: None,
        search: None,
        thread: None,
        runs: RunSelection::Current,
    };
    let messages = client.messages(scope, &filter).await?.items;
    let mut receipts = Vec::new();
    for message in messages.iter().filter(|message| !message.to.is_empty()) {
        receipts.extend(client.receipts(scope, message.seq).await?);
    }
    let agents = client.run(run).await?.agents.into_iter();
    let running = agents.filter_map(|agent| match agent.state {
        AgentState::Running { attempt, .. } => Some((agent.name, attempt)),
        _ => None,
    });
    Ok(TeamRecord { messages, receipts, running: running.collect() })
}
