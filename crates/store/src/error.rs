//! What can go wrong in this room.

use std::{io, path::PathBuf};

use agent_worker_protocol::{
    AgentName, ApprovalId, Consent, DeliveryState, DocumentPath, ProposalId, QuestionId, Revision,
    RunId, RunState, Sender, Seq, SuggestionState,
};

use crate::damage::DamagedRow;

/// The room's result.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// What can go wrong in this room.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing goes by that name.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// Something goes by that name already.
    #[error("there is already such a {0}")]
    Exists(&'static str),
    /// The instance has no live run, so nothing can be written in it.
    #[error("the instance has no live run")]
    NoRun,
    /// An instance has one live run at a time.
    #[error("run {0} is still live")]
    RunLive(RunId),
    /// The run is not in a state that allows this.
    #[error("the run is {0}")]
    WrongRunState(RunState),
    /// An attempt of the agent lives.
    #[error("the agent is working")]
    AgentBusy,
    /// The attempt is over, or a later one has begun.
    #[error("this attempt is no longer the live one")]
    Fenced,
    /// An idempotency key came back with other arguments.
    #[error("this key was used before with other arguments")]
    KeyReused,
    /// The document moved on.
    #[error("the document is at revision {0}")]
    StaleRevision(Revision),
    /// Documents have an owner, and the writer is another agent.
    #[error("{0} owns the documents of this run")]
    NotOwner(AgentName),
    /// The proposal is not voted on any more.
    #[error("proposal #{id} is {how}")]
    ProposalClosed {
        /// Which.
        id: ProposalId,
        /// What became of it.
        how: String,
    },
    /// The caller has no vote on the proposal.
    #[error("you have no vote on proposal #{0}")]
    NoVote(ProposalId),
    /// The proposal is somebody else's to take back.
    #[error("only {0}, who made it, or the user takes a proposal back")]
    NotCreator(Sender),
    /// The question has its answer.
    #[error("question #{0} is answered already")]
    QuestionAnswered(QuestionId),
    /// The request has its answer.
    #[error("request #{0} is {1} already")]
    ApprovalAnswered(ApprovalId, Consent),
    /// Nobody waits for an answer any more: the work it is for is done or given up.
    #[error("request #{0} is no longer asked: the work it was for is over")]
    ApprovalWithdrawn(ApprovalId),
    /// The document is there, and this attempt has not read it.
    #[error("the document is at revision {0}, which you have not read")]
    RevisionNotRead(Revision),
    /// Who may write documents has nobody to suggest anything to.
    #[error("no owner keeps you from writing the documents of this run")]
    SuggestionNotNeeded,
    /// The passage to be replaced is not there exactly once.
    #[error("the text to be replaced occurs {0} times in the document")]
    PassageNotUnique(usize),
    /// The suggestion was answered before.
    #[error("the suggestion is {0} already")]
    SuggestionAnswered(SuggestionState),
    /// A file and a folder cannot have one name.
    #[error("there is a document {0}, and no file can be a folder too")]
    PathConflict(DocumentPath),
    /// The document would be longer than it may be.
    #[error("the document would have {0} bytes")]
    DocumentTooLong(usize),
    /// The delivery is not in a state that allows this.
    #[error("the delivery is {0}")]
    WrongDeliveryState(DeliveryState),
    /// A stored message is missing or is not what was written.
    #[error("message {0} is missing or does not match its hash")]
    CorruptMessage(Seq),
    /// A stored row is not what was written.
    #[error(transparent)]
    Damaged(DamagedRow),
    /// The commit failed or its file is gone: the write may be found later or not; ask again with its key.
    #[error("the write may or may not be stored: {0}")]
    OutcomeUnknown(String),
    /// The store takes no writes.
    #[error("the store takes no writes: {0}")]
    ReadOnly(String),
    /// The disk or the file system failed.
    #[error("the disk failed: {0}")]
    Disk(String),
    /// The database file is no database any more, or its structure is damaged.
    #[error("the database file is damaged: {0}")]
    Malformed(String),
    /// A rescued copy waits for a decision: it may have data that the database lacks.
    #[error(
        "{copy} was rescued from {database} and may have data that it lacks; to use the copy: rm -f {database}-wal \
         {database}-shm && mv {copy} {database}; to go on without it, move it to another folder",
        copy = copy.display(), database = database.display()
    )]
    RescuedCopy {
        /// The copy.
        copy: PathBuf,
        /// The database it was made from.
        database: PathBuf,
    },
    /// There is no room for it.
    #[error("the disk is full; nothing was written")]
    DiskFull,
    /// The file was written by a newer program.
    #[error("the database has schema {found}, this program knows {known}: upgrade agent-worker")]
    NewerSchema {
        /// What the file has.
        found: i64,
        /// What this program reads.
        known: i64,
    },
    /// The instance is in another database than the one that was named.
    #[error("this team is kept in {0}")]
    InOtherDatabase(String),
    /// Another daemon has this database.
    #[error("another daemon uses {0}")]
    InUse(String),
    /// The file is something else.
    #[error("{0} is there already, and is not a database made for a team")]
    NotTeamDatabase(String),
    /// There is one place for all instances.
    #[error("this store keeps all teams in one place")]
    SingleDatabaseOnly,
    /// The store has shut down.
    #[error("the store is closed")]
    Closed,
    /// The database refused.
    #[error("the database failed")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A stored value could not be read.
    #[error("a stored value is not what it should be: {0}")]
    InvalidValue(String),
    /// A file of the store could not be opened, written or read.
    #[error("a file of the store failed: {0}")]
    File(std::io::Error),
}

impl Error {
    /// Whether a connection that gave this error is better closed.
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
