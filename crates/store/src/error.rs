//! Errors of the store.

use std::{io, path::PathBuf};

use agent_worker_protocol::{
    AgentName, ApprovalId, Consent, DeliveryState, DocumentPath, ProposalId, QuestionId, Revision,
    RunId, RunState, Sender, Seq, SuggestionState,
};

use crate::damage::DamagedRow;

/// The result of a store call.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No item has that name or number.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// An item with that name exists already.
    #[error("such a {0} already exists")]
    Exists(&'static str),
    /// The instance has no live run, so no write is possible.
    #[error("the instance has no live run")]
    NoRun,
    /// An instance has one live run at a time.
    #[error("run {0} is still live")]
    RunLive(RunId),
    /// The run is not in a state that allows this.
    #[error("the run is {0}")]
    WrongRunState(RunState),
    /// An attempt of the agent is live.
    #[error("the agent is working")]
    AgentBusy,
    /// The attempt is over, or a later one has started.
    #[error("this attempt is no longer live")]
    Fenced,
    /// An idempotency key was used again with other arguments.
    #[error("this idempotency key was already used with other arguments")]
    KeyReused,
    /// The document has a newer revision.
    #[error("the document is at revision {0}")]
    StaleRevision(Revision),
    /// Documents have an owner, and the writer is another agent.
    #[error("{0} owns the documents of this run")]
    NotOwner(AgentName),
    /// The caller is neither the coordinator nor the finisher of the run, which are these agents.
    #[error("{}", finisher_text(.0))]
    NotFinisher(Vec<AgentName>),
    /// This agent set the verdict `failed`, and a verdict does not become better.
    #[error("the verdict of {0} is `failed`, and a verdict does not become better")]
    VerdictFixed(AgentName),
    /// The proposal is no longer voted on.
    #[error("proposal #{id} is {how}")]
    ProposalClosed {
        /// Number of the proposal.
        id: ProposalId,
        /// Final state of the proposal.
        how: String,
    },
    /// The caller has no vote on the proposal.
    #[error("you have no vote on proposal #{0}")]
    NoVote(ProposalId),
    /// The caller did not create the proposal and may not cancel it.
    #[error("only {0}, who created the proposal, or the user may cancel it")]
    NotCreator(Sender),
    /// The question is answered already.
    #[error("question #{0} is answered already")]
    QuestionAnswered(QuestionId),
    /// The request is answered already.
    #[error("request #{0} is {1} already")]
    ApprovalAnswered(ApprovalId, Consent),
    /// No attempt waits for the answer any more: the work it is for is done or given up.
    #[error("request #{0} was withdrawn: the work that needed it is over")]
    ApprovalWithdrawn(ApprovalId),
    /// The document exists, and this attempt has not read it.
    #[error("the document is at revision {0}, which you have not read")]
    RevisionNotRead(Revision),
    /// The caller may write the documents and needs no suggestion.
    #[error("you may write the documents of this run without a suggestion")]
    SuggestionNotNeeded,
    /// The passage to be replaced does not occur exactly once.
    #[error("the text to be replaced occurs {0} times in the document")]
    PassageNotUnique(usize),
    /// The suggestion was answered before.
    #[error("the suggestion is {0} already")]
    SuggestionAnswered(SuggestionState),
    /// A path cannot be a file and a folder.
    #[error("the document {0} exists, and a path cannot be both a file and a folder")]
    PathConflict(DocumentPath),
    /// A new document has a name that a program would read as an option.
    #[error("`{0}` cannot be the path of a new document: no part of it may begin with `-`")]
    OptionLikePath(DocumentPath),
    /// The document would exceed its maximum length.
    #[error("the document would have {0} bytes")]
    DocumentTooLong(usize),
    /// The delivery is not in a state that allows this.
    #[error("the delivery is {0}")]
    WrongDeliveryState(DeliveryState),
    /// A stored message is missing or does not match its hash.
    #[error("message {0} is missing or does not match its hash")]
    CorruptMessage(Seq),
    /// A stored row does not match its checksum.
    #[error(transparent)]
    Damaged(DamagedRow),
    /// The commit failed or its file was lost: the write may be stored or not; repeat it with its key.
    #[error("the write may or may not be stored: {0}")]
    OutcomeUnknown(String),
    /// The store refuses all writes.
    #[error("the store refuses writes: {0}")]
    ReadOnly(String),
    /// The disk or the file system failed.
    #[error("the disk failed: {0}")]
    Disk(String),
    /// The file is no longer a database, or its structure is damaged.
    #[error("the database file is damaged: {0}")]
    Malformed(String),
    /// A rescued copy needs a decision of the user: it may have data that the database lacks.
    #[error(
        "{copy} was rescued from {database} and may have data that the database lacks; to use the copy: rm -f {database}-wal \
         {database}-shm && mv {copy} {database}; to continue without the copy, move it to another folder",
        copy = copy.display(), database = database.display()
    )]
    RescuedCopy {
        /// Path of the copy.
        copy: PathBuf,
        /// Path of the database that the copy was made from.
        database: PathBuf,
    },
    /// The disk has no free space for the write.
    #[error("the disk is full; nothing was written")]
    DiskFull,
    /// A newer program wrote the file.
    #[error("the database has schema {found}, this program knows {known}: upgrade agent-worker")]
    NewerSchema {
        /// Schema version of the file.
        found: i64,
        /// Newest schema version that this program reads.
        known: i64,
    },
    /// The instance is in another database than the one that was named.
    #[error("this team is kept in {0}")]
    InOtherDatabase(String),
    /// Another daemon has this database open.
    #[error("another daemon uses {0}")]
    InUse(String),
    /// The file is not a database of a team.
    #[error("{0} already exists and is not the database of a team")]
    NotTeamDatabase(String),
    /// The store keeps all instances in one database.
    #[error("this store keeps all teams in one database")]
    SingleDatabaseOnly,
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// The database returned another error.
    #[error("the database failed")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A stored value could not be converted.
    #[error("a stored value is invalid: {0}")]
    InvalidValue(String),
    /// A file of the store could not be opened, written or read.
    #[error("cannot access a file of the store: {0}")]
    File(std::io::Error),
}

/// Names the agents that may set the verdict of a run.
fn finisher_text(agents: &[AgentName]) -> String {
    let names: Vec<_> = agents.iter().map(|agent| format!("`{agent}`")).collect();
    match names.as_slice() {
        [] => "the run has neither a coordinator nor a finisher, so no agent may set its verdict"
            .into(),
        names => format!("only {} may set the verdict of this run", names.join(" or ")),
    }
}

impl Error {
    /// Returns true if a connection that returned this error should be closed.
    pub(crate) fn spoils_connection(&self) -> bool {
        matches!(self, Self::Database(_) | Self::Disk(_) | Self::Malformed(_) | Self::DiskFull)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::File(error),
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::InvalidValue(error.to_string())
    }
}
