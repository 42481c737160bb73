//! The handles of the kernel: each groups the operations on one noun.

use crate::{
    access::tokens::Tokens, approvals::Approvals, approvals::attention::PendingAttention,
    approvals::notices::PersonNotices, approvals::questions::Questions, documents::DocumentLibrary,
    documents::resources::Resources, documents::suggestions::Suggestions, kernel::Kernel,
    messaging::channel::Messages, messaging::inbox::Inboxes, runs::Runs,
    runs::instances::FeedbackEntries, runs::instances::Instances, runs::members::Agents,
    scheduling::attempts::Attempts, views::KernelHealth, views::turns::Turns,
    voting::proposals::Proposals,
};

impl Kernel {
    /// Sends messages and reads the channel.
    pub fn messages(&self) -> Messages<'_> {
        Messages(self)
    }

    /// Reads and acknowledges the messages for an agent.
    pub fn inbox(&self) -> Inboxes<'_> {
        Inboxes(self)
    }

    /// Starts, pauses, stops and shows runs.
    pub fn runs(&self) -> Runs<'_> {
        Runs(self)
    }

    /// Lists turns and reads their history.
    pub fn turns(&self) -> Turns<'_> {
        Turns(self)
    }

    /// Adds, stops, resumes and shows agents.
    pub fn agents(&self) -> Agents<'_> {
        Agents(self)
    }

    /// Lists, clears and removes instances.
    pub fn instances(&self) -> Instances<'_> {
        Instances(self)
    }

    /// Reads and writes the documents of an instance.
    pub fn documents(&self) -> DocumentLibrary<'_> {
        DocumentLibrary(self)
    }

    /// Makes and answers suggestions for documents.
    pub fn suggestions(&self) -> Suggestions<'_> {
        Suggestions(self)
    }

    /// Stores and reads resources: texts and files too large for a message.
    pub fn resources(&self) -> Resources<'_> {
        Resources(self)
    }

    /// Creates proposals and casts votes.
    pub fn proposals(&self) -> Proposals<'_> {
        Proposals(self)
    }

    /// Finds the notices for a person in the events of a run.
    pub fn notices(&self) -> PersonNotices<'_> {
        PersonNotices(self)
    }

    /// Decides requests for approval.
    pub fn approvals(&self) -> Approvals<'_> {
        Approvals(self)
    }

    /// Asks the user and stores the answers.
    pub fn questions(&self) -> Questions<'_> {
        Questions(self)
    }

    /// Lists everything that needs the user, and resolves dead letters.
    pub fn attention(&self) -> PendingAttention<'_> {
        PendingAttention(self)
    }

    /// Creates and revokes tokens, and identifies callers.
    pub fn tokens(&self) -> Tokens<'_> {
        Tokens(self)
    }

    /// Stores the events that workers report.
    pub fn attempts(&self) -> Attempts<'_> {
        Attempts(self)
    }

    /// Stores and lists feedback.
    pub fn feedback(&self) -> FeedbackEntries<'_> {
        FeedbackEntries(self)
    }

    /// Reports the state of the store and of the scheduler.
    pub fn health(&self) -> KernelHealth<'_> {
        KernelHealth(self)
    }
}
