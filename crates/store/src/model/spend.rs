//! What counts for the limits of cost and tokens: calls that were paid for, may have to be, and are under way.

use agent_worker_protocol::{Limits, PauseCause, RunMode};

use super::LimitScope;
use crate::time::{Now, StoreTime};

/// The work of the models of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunSpend {
    /// Sum of the known costs, in millionths of a dollar.
    pub cost_micros: u64,
    /// Input and output tokens.
    pub tokens: u64,
}

/// A call of a model that has ended without usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreportedCall {
    /// The provider refused it or was not reached.
    Unused,
    /// The provider began its answer.
    MaybePaid,
}

/// The calls of models that count for a limit: all of a `run`, those of the last 24 hours of a `start`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpendFacts {
    /// Reported usage, and the most that calls without a report can have used.
    pub spent: RunSpend,
    /// The part of `spent` by calls without a report, at most.
    pub unreported: RunSpend,
    /// The most that calls under way can use.
    pub reserved: RunSpend,
    /// The parts of `spent` that stop counting, oldest first; none for a `run`.
    pub expiring: Vec<ExpiringSpend>,
}

/// A part of the spend that stops counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiringSpend {
    /// Time from which it no longer counts.
    pub at: StoreTime,
    /// The calls that then stop counting.
    pub spend: RunSpend,
}

/// What counts for the limits of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitUse {
    /// Turns of a `run`, or those of a `start` that ended in the last 24 hours, counted up to the limit.
    pub turns: u32,
    /// Number of live attempts.
    pub attempts: u32,
    /// Time at which a `start` whose turns fill the limit has a turn again.
    pub turn_expires: Option<StoreTime>,
    /// What counts for the limits of cost and tokens of a team; standalone agents have their own.
    pub spend: SpendFacts,
}

/// The facts for the decision about a call of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReserveFacts {
    /// Mode `run` or `start`.
    pub mode: RunMode,
    /// Limits of the run.
    pub limits: Limits,
    /// Scope in which spend is counted.
    pub limit_scope: LimitScope,
    /// What counts so far.
    pub spend: SpendFacts,
    /// The most that the call can use.
    pub call: RunSpend,
    /// Time of the decision.
    pub now: Now,
}

/// The decision about a call of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReserveStep {
    /// Reserves the call.
    Reserve,
    /// Reserves nothing; the call may have room when calls under way have ended.
    Wait,
    /// Reserves nothing, and pauses the run, or stops the standalone agent, for this cause.
    Refuse(PauseCause),
}

/// A pure decision about a call of a model, called inside the store's transaction.
pub type ReserveRule = fn(&ReserveFacts) -> ReserveStep;

impl RunSpend {
    /// Returns the sum of two spends.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }
}
