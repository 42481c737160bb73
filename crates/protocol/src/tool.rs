//! Names of the daemon's tools. Each interface that offers tools describes their arguments and results.

use crate::words::word_enum;

/// Name of the worker's own tool, a shell. No tool of the daemon has this name.
pub const SHELL_TOOL: &str = "shell";

word_enum! {
    /// A tool of the daemon.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ToolName {
        /// Writes to the channel.
        ChannelSend => "channel_send",
        /// Reads the channel.
        ChannelRead => "channel_read",
        /// Shows what came since the turn began.
        InboxCheck => "inbox_check",
        /// Takes some of that into the turn.
        InboxAck => "inbox_ack",
        /// Lists the team.
        WorkflowAgents => "workflow_agents",
        /// Reads a document.
        DocumentRead => "document_read",
        /// Creates or replaces a document.
        DocumentWrite => "document_write",
        /// Appends to a document.
        DocumentAppend => "document_append",
        /// Lists the documents.
        DocumentList => "document_list",
        /// Writes one that must not be there yet.
        DocumentCreate => "document_create",
        /// Suggests a change to one that another agent owns.
        DocumentSuggest => "document_suggest",
        /// Accepts or rejects what was suggested.
        SuggestionAnswer => "suggestion_answer",
        /// Keeps a long text.
        ResourceCreate => "resource_create",
        /// Reads a resource.
        ResourceRead => "resource_read",
        /// Says something about the program itself.
        FeedbackSubmit => "feedback_submit",
        /// Lets the team vote.
        ProposalCreate => "proposal_create",
        /// Casts a vote.
        Vote => "vote",
        /// Shows what is voted on.
        ProposalStatus => "proposal_status",
        /// Takes a proposal back.
        ProposalCancel => "proposal_cancel",
        /// Asks a person.
        AskHuman => "ask_human",
        /// Lists the instances.
        WorkflowList => "workflow_list",
        /// Lists the runs.
        RunList => "run_list",
        /// Shows a run.
        RunStatus => "run_status",
        /// Starts a run from a file.
        RunStart => "run_start",
        /// Ends a run.
        RunStop => "run_stop",
        /// Resumes a paused run.
        RunResume => "run_resume",
        /// Explains an agent.
        AgentShow => "agent_show",
        /// Lets one join.
        AgentNew => "agent_new",
        /// Wakes one no more.
        AgentStop => "agent_stop",
        /// Wakes one again.
        AgentResume => "agent_resume",
        /// Takes one out of its run.
        AgentRemove => "agent_remove",
    }
}

impl ToolName {
    /// Names of older designs, which are accepted but not listed.
    pub const LEGACY_NAMES: [(&str, Self); 4] = [
        ("channel_peek", Self::ChannelRead),
        ("channel_mentions", Self::InboxCheck),
        ("inbox_read", Self::InboxCheck),
        ("agent_list", Self::WorkflowAgents),
    ];

    /// Returns true if the tool changes state that others see; a gate can lock only such a tool.
    pub const fn writes(self) -> bool {
        match self {
            Self::ChannelSend
            | Self::DocumentWrite
            | Self::DocumentAppend
            | Self::DocumentCreate
            | Self::DocumentSuggest
            | Self::SuggestionAnswer
            | Self::ResourceCreate
            | Self::ProposalCreate
            | Self::Vote
            | Self::ProposalCancel
            | Self::AskHuman
            | Self::RunStart
            | Self::RunStop
            | Self::RunResume
            | Self::AgentNew
            | Self::AgentStop
            | Self::AgentResume
            | Self::AgentRemove => true,
            Self::ChannelRead
            | Self::InboxCheck
            | Self::InboxAck
            | Self::WorkflowAgents
            | Self::DocumentRead
            | Self::DocumentList
            | Self::ResourceRead
            | Self::ProposalStatus
            | Self::FeedbackSubmit
            | Self::WorkflowList
            | Self::RunList
            | Self::RunStatus
            | Self::AgentShow => false,
        }
    }

    /// Finds a tool by its name or by an older name.
    pub fn find(word: &str) -> Option<Self> {
        let listed = Self::ALL.iter().map(|tool| (tool.word(), *tool));
        listed.chain(Self::LEGACY_NAMES).find(|(known, _)| *known == word).map(|(_, tool)| tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_found_by_the_name_it_is_listed_under_and_by_an_older_one() {
        for tool in ToolName::ALL {
            assert_eq!(ToolName::find(tool.word()), Some(*tool));
        }
        for (word, expected) in [
            ("channel_peek", Some(ToolName::ChannelRead)),
            ("inbox_read", Some(ToolName::InboxCheck)),
            ("channel_mentions", Some(ToolName::InboxCheck)),
            ("Channel_Send", None),
            (SHELL_TOOL, None),
        ] {
            assert_eq!(ToolName::find(word), expected, "{word}");
        }
    }
}
