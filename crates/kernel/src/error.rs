//! What can go wrong in this room, and the one place where that becomes what a caller is told.

use agent_worker_protocol::{
    Code, InstanceRef, PauseCause, Permission, Problem, ProblemDetails, RunMode, Seq, Target,
    api::{ResumeRequest, UnknownMention},
};
use agent_worker_store as store;
use agent_worker_workflow as workflow;

use crate::clock::RandomnessUnavailable;

/// The room's result.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong in this room.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The workflow file is wrong.
    #[error("{}", .0.summary())]
    Workflow(#[from] workflow::Error),
    /// The caller is known and may not.
    #[error("{0}")]
    Forbidden(&'static str),
    /// The caller is known, and this was not granted.
    #[error("only the user may, or a client whose token allows `{0}`")]
    NotAllowed(Permission),
    /// The token is not known, or its attempt is over.
    #[error("this token is not known, or its attempt is over")]
    Unauthorized,
    /// No instance goes by that name.
    #[error("there is no {0}")]
    NoInstance(String),
    /// No delivery was given up on there.
    #[error("there is no dead letter{} in @{instance}", .seq.map(|seq| format!(" #{seq}")).unwrap_or_default())]
    NoDeadLetter {
        /// Where.
        instance: InstanceRef,
        /// Of which message, where one was named.
        seq: Option<Seq>,
    },
    /// Several instances could be meant.
    #[error("`{target}` could be {}", .candidates.join(" or "))]
    Ambiguous {
        /// What was asked for.
        target: String,
        /// What it could be.
        candidates: Vec<String>,
    },
    /// An address is nobody.
    #[error("there is no agent `{}` here", .0.name)]
    NoAgent(UnknownMention),
    /// The name is taken.
    #[error("there is an agent `{0}` already")]
    AgentExists(Target),
    /// An agent made by hand cannot be made.
    #[error("{message}")]
    BadAgent {
        /// What is wrong.
        message: String,
        /// The correction that the check of its settings proposes.
        correction: String,
    },
    /// A paused run would pause again at once.
    #[error("@{instance} is paused: {cause}")]
    StillLimited {
        /// Which.
        instance: InstanceRef,
        /// Why.
        cause: PauseCause,
        /// How it was begun.
        mode: RunMode,
        /// What to give it more of.
        needs: ResumeRequest,
    },
    /// A standalone agent's message would be one too many.
    #[error("not sent: {0}")]
    HopLimit(PauseCause),
    /// The run is not paused, so there is nothing to resume.
    #[error("@{0} is not paused")]
    NotPaused(InstanceRef),
    /// The run has not begun its work, so there is nothing to pause.
    #[error("@{0} is not running yet")]
    NotRunning(InstanceRef),
    /// The instance has a live run already.
    #[error("@{0} is running already")]
    AlreadyRunning(InstanceRef),
    /// No target was given, and there is more than one thing it could be.
    #[error("several runs could be meant: {}", .0.join(", "))]
    AmbiguousDefault(Vec<String>),
    /// The run of standalone agents has no end.
    #[error("standalone agents live in @global, which is always there")]
    PermanentRun,
    /// The instance has no live run.
    #[error("@{0} has no live run")]
    NoRun(InstanceRef),
    /// More than is taken.
    #[error("{what} is {size} bytes; at most {most} are taken")]
    TooLarge {
        /// What.
        what: &'static str,
        /// How much it was.
        size: usize,
        /// How much it may be.
        most: usize,
    },
    /// The agent may not call this tool before a vote allows it.
    #[error("`{tool}` waits for the gate `{gate}`, which is shut")]
    GateClosed {
        /// The tool.
        tool: &'static str,
        /// What has to be opened.
        gate: String,
    },
    /// The request makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// The daemon is stopping.
    #[error("the daemon is stopping and starts nothing new")]
    Draining,
    /// A run's private folder could not be used.
    #[error("the run's private folder failed: {0}")]
    RunFolder(#[source] std::io::Error),
    /// No randomness.
    #[error(transparent)]
    NoRandomness(#[from] RandomnessUnavailable),
}

impl Error {
    /// Whether the log should have the cause.
    pub fn is_internal(&self) -> bool {
        matches!(self.code(), Code::Internal | Code::ReadOnly | Code::Damaged)
            || self.is_disk_fault()
    }

    /// Whether the disk keeps the daemon from doing what was asked, so that the same request may succeed later.
    pub fn is_disk_fault(&self) -> bool {
        match self {
            Self::RunFolder(_) => true,
            Self::Store(error) => matches!(
                error,
                store::Error::DiskFull
                    | store::Error::Disk(_)
                    | store::Error::File(_)
                    | store::Error::OutcomeUnknown(_)
                    | store::Error::ReadOnly(_)
                    | store::Error::Malformed(_)
                    | store::Error::RescuedCopy { .. }
            ),
            _ => false,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Store(error) => store_code(error),
            Self::Workflow(_) | Self::BadRequest(_) | Self::BadAgent { .. } => Code::BadRequest,
            Self::Forbidden(_) | Self::NotAllowed(_) | Self::GateClosed { .. } => Code::Forbidden,
            Self::Unauthorized => Code::Unauthorized,
            Self::NoInstance(_) | Self::NoAgent(_) | Self::NoDeadLetter { .. } => Code::NotFound,
            Self::Ambiguous { .. }
            | Self::AmbiguousDefault(_)
            | Self::AlreadyRunning(_)
            | Self::AgentExists(_)
            | Self::NotPaused(_)
            | Self::NotRunning(_)
            | Self::PermanentRun => Code::Conflict,
            Self::StillLimited { .. } | Self::HopLimit(_) => Code::Limit,
            Self::NoRun(_) => Code::NoRun,
            Self::TooLarge { .. } => Code::TooLarge,
            Self::Draining | Self::RunFolder(_) => Code::Unavailable,
            Self::NoRandomness(_) => Code::Internal,
        }
    }

    /// The facts that an interface makes a hint from.
    fn details(&self) -> Option<ProblemDetails> {
        let details = match self {
            Self::NoAgent(UnknownMention { name, suggestion }) => {
                ProblemDetails::UnknownAgent { agent: name.clone(), suggestion: suggestion.clone() }
            }
            Self::BadAgent { correction, .. } => {
                ProblemDetails::InvalidAgent { correction: correction.clone() }
            }
            Self::StillLimited { instance, mode, needs, .. } => ProblemDetails::LimitReached {
                instance: instance.clone(),
                mode: *mode,
                needs: *needs,
            },
            Self::AgentExists(target) => ProblemDetails::AgentExists { target: target.clone() },
            Self::HopLimit(_) => ProblemDetails::HopLimit,
            Self::GateClosed { tool, gate } => {
                ProblemDetails::GateClosed { tool: (*tool).to_owned(), gate: gate.clone() }
            }
            Self::PermanentRun => ProblemDetails::PermanentRun,
            Self::NotPaused(instance) | Self::NotRunning(instance) => {
                ProblemDetails::WrongRunState { instance: instance.clone() }
            }
            Self::NoDeadLetter { instance, seq } => {
                ProblemDetails::NoDeadLetter { instance: instance.clone(), seq: *seq }
            }
            Self::NoInstance(wanted) => ProblemDetails::UnknownTarget { wanted: wanted.clone() },
            Self::Ambiguous { target, candidates } => ProblemDetails::AmbiguousTarget {
                target: Some(target.clone()),
                candidates: candidates.clone(),
            },
            Self::AmbiguousDefault(candidates) => {
                ProblemDetails::AmbiguousTarget { target: None, candidates: candidates.clone() }
            }
            Self::AlreadyRunning(instance) => {
                ProblemDetails::AlreadyRunning { instance: instance.clone() }
            }
            Self::NoRun(instance) => ProblemDetails::NoRun { instance: instance.clone() },
            Self::TooLarge { size, most, .. } => {
                ProblemDetails::TextTooLarge { size: *size, limit: *most }
            }
            Self::Store(error) => return store_details(error),
            Self::Workflow(_)
            | Self::BadRequest(_)
            | Self::Forbidden(_)
            | Self::NotAllowed(_)
            | Self::Unauthorized
            | Self::Draining
            | Self::RunFolder(_)
            | Self::NoRandomness(_) => return None,
        };
        Some(details)
    }
}

/// The facts of an error of the store.
fn store_details(error: &store::Error) -> Option<ProblemDetails> {
    let details = match error {
        store::Error::StaleRevision(revision) => {
            ProblemDetails::StaleRevision { revision: *revision }
        }
        store::Error::RevisionNotRead(revision) => {
            ProblemDetails::RevisionNotRead { revision: *revision }
        }
        store::Error::NotOwner(owner) => ProblemDetails::NotOwner { owner: owner.clone() },
        store::Error::SuggestionNotNeeded => ProblemDetails::SuggestionNotNeeded,
        store::Error::PassageNotUnique(count) => ProblemDetails::PassageNotUnique { count: *count },
        store::Error::ProposalClosed { id, .. } => ProblemDetails::ProposalClosed { proposal: *id },
        store::Error::NoVote(id) => ProblemDetails::NoVote { proposal: *id },
        store::Error::PathConflict(path) => ProblemDetails::PathConflict { path: path.clone() },
        store::Error::InOtherDatabase(database) => {
            ProblemDetails::OtherDatabase { database: database.clone() }
        }
        store::Error::InUse(database) | store::Error::NotTeamDatabase(database) => {
            ProblemDetails::DatabaseTaken { database: database.clone() }
        }
        store::Error::DiskFull => ProblemDetails::DiskFull,
        store::Error::OutcomeUnknown(_) => ProblemDetails::OutcomeUnknown,
        store::Error::Damaged(_) => ProblemDetails::DamagedRow,
        store::Error::KeyReused => ProblemDetails::KeyReused,
        _ => return None,
    };
    Some(details)
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        let message = match error.code() {
            // The cause may hold a path or a query: it goes to the log.
            Code::Internal => {
                "something went wrong in the daemon; its log has the cause".to_owned()
            }
            _ => error.to_string(),
        };
        Self { code: error.code(), message, details: error.details().map(Box::new) }
    }
}

fn store_code(error: &store::Error) -> Code {
    match error {
        store::Error::NotFound(_) => Code::NotFound,
        store::Error::Exists(_)
        | store::Error::InOtherDatabase(_)
        | store::Error::InUse(_)
        | store::Error::NotTeamDatabase(_)
        | store::Error::RunLive(_)
        | store::Error::KeyReused
        | store::Error::StaleRevision(_)
        | store::Error::RevisionNotRead(_)
        | store::Error::SuggestionNotNeeded
        | store::Error::PassageNotUnique(_)
        | store::Error::QuestionAnswered(_)
        | store::Error::ApprovalAnswered(..)
        | store::Error::ApprovalWithdrawn(_)
        | store::Error::PathConflict(_)
        | store::Error::WrongDeliveryState(_)
        | store::Error::WrongRunState(_)
        | store::Error::ProposalClosed { .. }
        | store::Error::SuggestionAnswered(_)
        | store::Error::AgentBusy => Code::Conflict,
        store::Error::NotOwner(_) | store::Error::NoVote(_) | store::Error::NotCreator(_) => {
            Code::Forbidden
        }
        store::Error::DocumentTooLong(_) => Code::TooLarge,
        store::Error::SingleDatabaseOnly => Code::BadRequest,
        store::Error::NoRun => Code::RunEnded,
        store::Error::Fenced => Code::StaleEpoch,
        store::Error::Closed
        | store::Error::DiskFull
        | store::Error::Disk(_)
        | store::Error::File(_)
        | store::Error::OutcomeUnknown(_) => Code::Unavailable,
        store::Error::ReadOnly(_)
        | store::Error::Malformed(_)
        | store::Error::RescuedCopy { .. } => Code::ReadOnly,
        store::Error::Damaged(_) => Code::Damaged,
        store::Error::CorruptMessage(_)
        | store::Error::NewerSchema { .. }
        | store::Error::Database(_)
        | store::Error::InvalidValue(_) => Code::Internal,
    }
}
