//! Predicates of the state of a run, for decisions about leases, clocks and the instance.

use crate::state::{LimitKind, PauseCause, RunState};

impl RunState {
    /// Returns true if the daemon wakes the agents of such a run.
    pub fn wakes_agents(&self) -> bool {
        match self {
            Self::Electing | Self::Running => true,
            Self::Setup | Self::Paused { .. } | Self::Ended { .. } => false,
        }
    }

    /// Returns true if the run is paused at a limit that refuses new work, while its live turns finish.
    pub fn refuses_work(&self) -> bool {
        match self {
            Self::Paused { cause: PauseCause::Limit { limit, .. } } => match limit {
                LimitKind::Hops | LimitKind::Turns | LimitKind::Cost | LimitKind::Tokens => true,
                LimitKind::Wall => false,
            },
            Self::Paused {
                cause: PauseCause::Human | PauseCause::Interrupted | PauseCause::User,
            }
            | Self::Setup
            | Self::Electing
            | Self::Running
            | Self::Ended { .. } => false,
        }
    }

    /// Returns true if the run can work: it is neither paused nor over.
    pub fn can_work(&self) -> bool {
        match self {
            Self::Setup | Self::Electing | Self::Running => true,
            Self::Paused { .. } | Self::Ended { .. } => false,
        }
    }

    /// Returns true if the run holds its instance, so that no second run may start.
    pub fn is_live(&self) -> bool {
        match self {
            Self::Setup | Self::Electing | Self::Running | Self::Paused { .. } => true,
            Self::Ended { .. } => false,
        }
    }
}
