//! The inbox of a running agent: reading acknowledges nothing, and an acknowledgement counts only if the turn
//! succeeds.

use agent_worker_protocol::{Message, Seq};
use agent_worker_store::ListRange;
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    kernel::{Kernel, Principal},
    messaging::channel::ChannelPosition,
};

const MAX_INBOX_MESSAGES: u32 = 20;

/// The pending messages of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InboxMessages {
    /// Waking messages first, then urgent ones, then by age.
    pub messages: Vec<Message>,
}

/// The result of an `inbox_ack`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InboxAckResult {
    /// Messages that are acknowledged if this turn succeeds.
    pub with_this_turn: Vec<Seq>,
}

/// Reads and acknowledges the messages for an agent.
#[derive(Clone, Copy)]
pub struct Inboxes<'k>(pub(crate) &'k Kernel);

impl Inboxes<'_> {
    /// Shows a live attempt the messages that arrived since its start.
    pub async fn check(self, who: &Principal) -> Result<InboxMessages> {
        let Principal::Agent(attempt) = who else { return Err(not_an_agent_error(who)) };
        let shown = self
            .0
            .store
            .inbox_show(attempt.fence.clone(), ListRange::first(MAX_INBOX_MESSAGES))
            .await?;
        Ok(InboxMessages { messages: shown.into_iter().map(|shown| shown.message).collect() })
    }

    /// Acknowledges shown messages up to `until`, if this turn succeeds.
    pub async fn ack(self, who: &Principal, until: ChannelPosition) -> Result<InboxAckResult> {
        let Principal::Agent(attempt) = who else { return Err(not_an_agent_error(who)) };
        let until = match until {
            ChannelPosition::Seq(seq) => seq,
            ChannelPosition::Time(time) => {
                self.0.store.message_position(attempt.fence.workflow, time).await?
            }
        };
        let with_this_turn = self.0.store.inbox_ack(attempt.fence.clone(), until).await?;
        Ok(InboxAckResult { with_this_turn })
    }
}

fn not_an_agent_error(who: &Principal) -> Error {
    match who {
        Principal::Anonymous => Error::Unauthorized,
        Principal::User | Principal::Client(_) | Principal::Agent(_) => {
            Error::Forbidden("only an agent has an inbox")
        }
    }
}
