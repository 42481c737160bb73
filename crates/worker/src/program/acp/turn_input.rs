//! The input of one turn of an agent, and the parts of it that the agent accepts. Pure.

use serde_json::{Value, json};

use super::preset::AcpPreset;
use crate::{attachments::InlineImage, tool_server::ToolServerEndpoint};

/// The input of a turn.
pub(super) struct AcpTurnInput<'a> {
    pub(super) preset: Option<AcpPreset>,
    pub(super) cwd: &'a str,
    /// The endpoint of the team's tools.
    pub(super) tool_server: &'a ToolServerEndpoint,
    /// The file with that endpoint, for an agent that must not get it through the protocol.
    pub(super) tools_file: Option<String>,
    pub(super) system_prompt: &'a str,
    pub(super) prompt: &'a str,
    /// Images of the prompt, for an agent that accepts them.
    pub(super) images: &'a [InlineImage],
    /// Folder of the attached files.
    pub(super) attachment_folder: Option<&'a str>,
    /// The session that the last turn reported.
    pub(super) session: Option<&'a Value>,
}

/// The optional input that the agent accepts.
#[derive(Clone, Copy, Default)]
pub(super) struct AcpAcceptedInput {
    images: bool,
    /// Folders that the agent may read, in addition to its own.
    pub(super) folders: bool,
}

impl AcpAcceptedInput {
    /// Reads the capabilities that an agent declares.
    pub(super) fn of_capabilities(can: &Value) -> Self {
        Self {
            images: can["promptCapabilities"]["image"] == true,
            folders: can["sessionCapabilities"]["additionalDirectories"].is_object(),
        }
    }
}

impl AcpTurnInput<'_> {
    /// Returns the blocks of the prompt.
    pub(super) fn prompt_blocks(&self, accepts: AcpAcceptedInput) -> Vec<Value> {
        let Self { preset, system_prompt, prompt, images, .. } = self;
        let text = |text: &str| json!({"type": "text", "text": text});
        let mut blocks = match preset.and_then(|preset| preset.hooks.session_meta) {
            Some(_) => vec![text(prompt)],
            None => vec![text(&format!("{system_prompt}\n\n")), text(prompt)],
        };
        blocks.extend(images.iter().filter(|_| accepts.images).map(InlineImage::acp_block));
        blocks
    }
}
