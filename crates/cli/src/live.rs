//! The live view of a run, in layers: the event feed, the progress that it makes (`view`), the requests and questions that
//! a person answers by key (`attention_*`), the line for messages (`input_line`), and the screen that draws them.
//! `controls` distributes the keys, `follower` joins all of them.

pub(crate) mod attention_panel;
pub(crate) mod attention_prompt;
mod attention_text;
pub(crate) mod bell;
pub(crate) mod controls;
pub(crate) mod feed;
pub(crate) mod follower;
pub(crate) mod input_line;
mod key_watcher;
pub(crate) mod keyboard;
pub(crate) mod line_editor;
pub(crate) mod message_draft;
pub(crate) mod screen;
pub(crate) mod tail;
pub(crate) mod terminal_restore;
pub(crate) mod typed_key;
pub(crate) mod view;
