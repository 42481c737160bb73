//! The channel and the inboxes: sending, recipients, receipts, acknowledgements.

pub(crate) mod attachments;
pub(crate) mod channel;
pub(crate) mod inbox;
mod mid_turn;
pub(crate) mod recipients;
pub(crate) mod size_limits;
