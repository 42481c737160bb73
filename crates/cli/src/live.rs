//! The live view of a run, in layers: the event feed, the progress that it makes (`view`), the requests and questions that
//! a person answers by key (`attention_*`), and the screen that draws both. `follower` joins them.

pub(crate) mod attention_panel;
pub(crate) mod attention_prompt;
mod attention_text;
pub(crate) mod bell;
pub(crate) mod feed;
pub(crate) mod follower;
pub(crate) mod keyboard;
pub(crate) mod line_editor;
pub(crate) mod screen;
pub(crate) mod tail;
pub(crate) mod view;
