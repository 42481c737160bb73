//! The author of a write, after the fence has accepted it.

use agent_worker_protocol::{AgentName, AttemptId, Epoch, Sender, Seq};

use super::{columns, locked_instance::LockedInstance, transaction::Tx};
use crate::{
    db::{OptionalExtension, params},
    error::{Error, Result},
    model::{Fence, WriteActor},
};

/// An author that may write.
pub(crate) enum Author {
    /// An agent, as a live attempt.
    Attempt(FencedAttempt),
    /// An author without a fence.
    Other(Sender),
}

/// A live attempt, accepted by its fence.
#[derive(Clone)]
pub(crate) struct FencedAttempt {
    pub(crate) id: AttemptId,
    /// Name of the agent, as its run spells it.
    pub(crate) agent: AgentName,
    pub(crate) epoch: Epoch,
    /// Oldest waking delivery; with the agent's name, the id of the activation.
    pub(crate) oldest: Seq,
}

impl Author {
    /// Accepts `who` as an author in the locked instance.
    pub(crate) fn authorize(locked: &LockedInstance<'_>, who: &WriteActor) -> Result<Self> {
        match who {
            WriteActor::Agent(fence) if fence.workflow != locked.workflow => Err(Error::Fenced),
            WriteActor::Agent(fence) => {
                FencedAttempt::check_fence(locked.tx, fence).map(Self::Attempt)
            }
            WriteActor::User | WriteActor::Client(_) | WriteActor::System => {
                Ok(Self::Other(who.sender()))
            }
        }
    }

    /// Returns the sender of the author's messages.
    pub(crate) fn sender(&self) -> Sender {
        match self {
            Self::Attempt(live) => Sender::Agent(live.agent.clone()),
            Self::Other(sender) => sender.clone(),
        }
    }

    /// Returns the author's attempt, if the author is an agent.
    pub(crate) fn attempt(&self) -> Option<AttemptId> {
        match self {
            Self::Attempt(live) => Some(live.id),
            Self::Other(_) => None,
        }
    }

    /// Returns the epoch of the author's attempt.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Attempt(live) => Some(live.epoch),
            Self::Other(_) => None,
        }
    }
}

impl FencedAttempt {
    /// Accepts a live attempt. An epoch alone would accept a late write between a finish and the next lease, so the
    /// agent must also have a live attempt.
    pub(crate) fn check_fence(tx: &Tx<'_>, fence: &Fence) -> Result<Self> {
        let sql = "SELECT a.live, a.name, t.oldest FROM agent a
            JOIN attempt t ON t.workflow = a.workflow AND t.agent = a.name AND t.epoch = a.epoch
            WHERE a.workflow = ?1 AND a.name = ?2 AND a.epoch = ?3 AND a.live IS NOT NULL";
        tx.prepare_cached(sql)?
            .query_row(
                params![fence.workflow.get(), fence.agent.as_str(), fence.epoch.get()],
                |row| {
                    Ok(Self {
                        id: columns::attempt_id(row, 0)?,
                        agent: columns::parse(row, 1)?,
                        epoch: fence.epoch,
                        oldest: columns::seq(row, 2)?,
                    })
                },
            )
            .optional()?
            .ok_or(Error::Fenced)
    }
}
