//! The live view of a run: its event feed, the screen, keys and approval prompts.

pub(crate) mod approval_panel;
pub(crate) mod approval_prompt;
pub(crate) mod feed;
pub(crate) mod follower;
pub(crate) mod keyboard;
pub(crate) mod screen;
pub(crate) mod tail;
pub(crate) mod view;
