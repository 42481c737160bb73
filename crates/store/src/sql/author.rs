//! Who writes, once the fence has let them pass.

use agent_worker_protocol::{AgentName, AttemptId, Epoch, Sender, Seq};

use super::{columns, locked_instance::LockedInstance, transaction::Tx};
use crate::{
    db::{OptionalExtension, params},
    error::{Error, Result},
    model::{Fence, WriteActor},
};

/// Somebody who may write.
pub(crate) enum Author {
    /// A live attempt.
    Attempt(FencedAttempt),
    /// Somebody who needs no fence.
    Other(Sender),
}

/// A live attempt.
#[derive(Clone)]
pub(crate) struct FencedAttempt {
    pub(crate) id: AttemptId,
    /// As its run spells it.
    pub(crate) agent: AgentName,
    pub(crate) epoch: Epoch,
    /// With the agent, its activation.
    pub(crate) oldest: Seq,
}

impl Author {
    /// Lets `who` write in the instance that is held.
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

    /// The name a message of theirs carries.
    pub(crate) fn sender(&self) -> Sender {
        match self {
            Self::Attempt(live) => Sender::Agent(live.agent.clone()),
            Self::Other(sender) => sender.clone(),
        }
    }

    /// The attempt they are.
    pub(crate) fn attempt(&self) -> Option<AttemptId> {
        match self {
            Self::Attempt(live) => Some(live.id),
            Self::Other(_) => None,
        }
    }

    /// That attempt's number.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Attempt(live) => Some(live.epoch),
            Self::Other(_) => None,
        }
    }
}

impl FencedAttempt {
    /// Lets a live attempt pass. An epoch alone would let a late write in between a finish and the next lease,
    /// so the agent must also have an attempt in hand.
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
