//! Proposals and votes: creating, casting, counting, and the effects of a decision.

pub(crate) mod electorate;
pub(crate) mod notices;
pub(crate) mod proposals;
pub(crate) mod tally;
pub(crate) mod terms;
