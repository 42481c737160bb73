//! Names of the daemon's tools. Each interface that offers tools describes their arguments and results.

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// Name of the worker's own tool, a shell. No tool of the daemon has this name.
pub const SHELL_TOOL: &str = "shell";

/// A tool of the daemon.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum ToolName {
    /// Writes to the channel.
    ChannelSend,
    /// Reads the channel.
    ChannelRead,
    /// Shows the messages that arrived during the turn.
    InboxCheck,
    /// Marks shown messages as handled in this turn.
    InboxAck,
    /// Lists the agents of the team.
    WorkflowAgents,
    /// Reads a document.
    DocumentRead,
    /// Creates or replaces a document.
    DocumentWrite,
    /// Appends to a document.
    DocumentAppend,
    /// Lists the documents.
    DocumentList,
    /// Creates a document; fails if it exists.
    DocumentCreate,
    /// Suggests a change to a document that another agent owns.
    DocumentSuggest,
    /// Accepts or rejects a suggestion.
    SuggestionAnswer,
    /// Stores a long text.
    ResourceCreate,
    /// Reads a resource.
    ResourceRead,
    /// Submits feedback about the program.
    FeedbackSubmit,
    /// Creates a proposal.
    ProposalCreate,
    /// Casts a vote.
    Vote,
    /// Shows one proposal or all open ones.
    ProposalStatus,
    /// Cancels a proposal.
    ProposalCancel,
    /// Asks a person a question.
    AskHuman,
    /// Sets the verdict of the run.
    RunFinish,
    /// Lists the instances.
    WorkflowList,
    /// Lists the runs.
    RunList,
    /// Shows the state of a run.
    RunStatus,
    /// Starts a run from a file.
    RunStart,
    /// Ends a run.
    RunStop,
    /// Resumes a paused run.
    RunResume,
    /// Explains an agent.
    AgentShow,
    /// Adds an agent.
    AgentNew,
    /// Stops an agent.
    AgentStop,
    /// Ends the current turn of an agent.
    AgentInterrupt,
    /// Resumes a stopped agent.
    AgentResume,
    /// Removes an agent from its run.
    AgentRemove,
    /// Lists the open approval requests.
    ApprovalList,
    /// Approves or denies a requested call.
    ApprovalAnswer,
    /// Lists the calls that are allowed for the rest of a run.
    GrantList,
    /// Revokes a grant.
    GrantRevoke,
    /// Lists the open questions of agents.
    QuestionList,
    /// Answers a question of an agent.
    QuestionAnswer,
    /// Lists the dead letters.
    DeadList,
    /// Delivers dead letters again.
    DeadRedrive,
    /// Drops dead letters.
    DeadDrop,
}

impl ToolName {
    /// Every tool, in the order of the lists.
    pub const ALL: &[Self] = Self::VARIANTS;

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
            | Self::RunFinish
            | Self::RunStart
            | Self::RunStop
            | Self::RunResume
            | Self::AgentNew
            | Self::AgentStop
            | Self::AgentInterrupt
            | Self::AgentResume
            | Self::AgentRemove
            | Self::ApprovalAnswer
            | Self::GrantRevoke
            | Self::QuestionAnswer
            | Self::DeadRedrive
            | Self::DeadDrop => true,
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
            | Self::AgentShow
            | Self::ApprovalList
            | Self::GrantList
            | Self::QuestionList
            | Self::DeadList => false,
        }
    }

    /// Returns true if agents are offered the tool; the others are for clients.
    pub const fn is_for_agents(self) -> bool {
        !matches!(
            self,
            Self::WorkflowList
                | Self::RunList
                | Self::RunStatus
                | Self::RunStart
                | Self::RunStop
                | Self::RunResume
                | Self::AgentShow
                | Self::AgentNew
                | Self::AgentStop
                | Self::AgentInterrupt
                | Self::AgentResume
                | Self::AgentRemove
                | Self::ApprovalList
                | Self::ApprovalAnswer
                | Self::GrantList
                | Self::GrantRevoke
                | Self::QuestionList
                | Self::QuestionAnswer
                | Self::DeadList
                | Self::DeadRedrive
                | Self::DeadDrop
        )
    }

    /// Finds a tool by its name or by an older name.
    pub fn find(word: &str) -> Option<Self> {
        let legacy = Self::LEGACY_NAMES.into_iter().find(|(known, _)| *known == word);
        word.parse().ok().or_else(|| legacy.map(|(_, tool)| tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keyword as _;

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
