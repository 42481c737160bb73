//! The errors of this crate, and the only place that maps them to problems for callers.

use agent_worker_protocol::{
    ApprovalId, Code, InstanceRef, PauseCause, Permission, Problem, ProblemDetails, QuestionId,
    RunMode, Seq, Target,
    api::{ResumeRequest, UnknownMention},
};
use agent_worker_store as store;
use agent_worker_workflow as workflow;

use crate::clock::RandomnessUnavailable;

/// The result type of this crate.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// The errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store refused the operation.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The workflow file is invalid.
    #[error("{}", .0.summary())]
    Workflow(#[from] workflow::Error),
    /// The caller is known and not allowed to do this.
    #[error("{0}")]
    Forbidden(&'static str),
    /// The caller is known and lacks this permission.
    #[error("only the user may do this, or a client whose token allows `{0}`")]
    NotAllowed(Permission),
    /// A client may not set this variable, whatever its token allows.
    #[error("a client may not set the variable `{0}`; the daemon sets it, or nobody does")]
    ProtectedEnv(String),
    /// Neither the workflow file nor the token names this variable.
    #[error(
        "a client may not set the variable `{0}`: the workflow file does not declare it, and the token does not allow it"
    )]
    UndeclaredEnv(String),
    /// The token is unknown, or its attempt has ended.
    #[error("unknown token, or its attempt has ended")]
    Unauthorized,
    /// No instance has that name.
    #[error("there is no {0}")]
    NoInstance(String),
    /// No agent or instance has the name of the target.
    #[error("there is no {wanted}")]
    UnknownTarget {
        /// The kind of thing and its name, such as ``agent `coder` ``.
        wanted: String,
        /// Target with the nearest name.
        suggestion: Option<Target>,
    },
    /// The instance has no matching dead letter.
    #[error("there is no dead letter{} in @{instance}", .seq.map(|seq| format!(" #{seq}")).unwrap_or_default())]
    NoDeadLetter {
        /// Instance of the request.
        instance: InstanceRef,
        /// Message of the request, if one was named.
        seq: Option<Seq>,
    },
    /// The target matches several instances.
    #[error("several runs match `{target}`: {}", .candidates.join(", "))]
    Ambiguous {
        /// Target as typed.
        target: String,
        /// Instances that match the target.
        candidates: Vec<String>,
        /// True if the candidates differ only by their folder.
        same_instance: bool,
    },
    /// The recipient does not exist.
    #[error("there is no agent `{}` here", .0.name)]
    NoAgent(UnknownMention),
    /// The name is already in use.
    #[error("agent `{0}` already exists")]
    AgentExists(Target),
    /// The requested agent is invalid.
    #[error("{message}")]
    BadAgent {
        /// Description of the problem.
        message: String,
        /// The correction that the check of its settings proposes.
        correction: String,
    },
    /// The paused run would pause again at once.
    #[error("@{instance} is paused: {cause}")]
    StillLimited {
        /// Instance of the run.
        instance: InstanceRef,
        /// Cause of the pause.
        cause: Box<PauseCause>,
        /// Mode of the run.
        mode: RunMode,
        /// Limits that must be raised.
        needs: Box<ResumeRequest>,
    },
    /// A standalone agent's message exceeds the hop limit.
    #[error("not sent: {0}")]
    HopLimit(PauseCause),
    /// The run is not paused and cannot be resumed.
    #[error("@{0} is not paused")]
    NotPaused(InstanceRef),
    /// The run has not started its work and cannot be paused.
    #[error("@{0} is not running yet")]
    NotRunning(InstanceRef),
    /// The run has ended and cannot change any more.
    #[error("the run of @{0} has ended")]
    RunEnded(InstanceRef),
    /// The data of the run was deleted at its end.
    #[error(
        "the data of this run of @{0} was deleted: `provider: memory` deletes the data of a run at its end"
    )]
    RunForgotten(InstanceRef),
    /// The instance already has a live run.
    #[error("@{0} is already running")]
    AlreadyRunning(InstanceRef),
    /// The instance already has a live run, which is paused.
    #[error("@{0} already has a live run (paused)")]
    AlreadyPaused(InstanceRef),
    /// The request has no target, and several instances match.
    #[error("several runs match: {}", .0.join(", "))]
    AmbiguousDefault(Vec<String>),
    /// The run of standalone agents is permanent.
    #[error("@global holds the standalone agents and cannot be stopped or removed")]
    PermanentRun,
    /// The instance has no live run.
    #[error("@{0} has no live run")]
    NoRun(InstanceRef),
    /// The instance has nothing of this number or name.
    #[error("there is no {what} in @{instance}")]
    Missing {
        /// Kind and name, such as ``document `plan.md` ``.
        what: String,
        /// The instance that was searched.
        instance: InstanceRef,
    },
    /// The question was asked in a run that has ended.
    #[error("question #{question} belonged to an earlier run of @{instance}")]
    EarlierRun {
        /// Number of the question.
        question: QuestionId,
        /// The instance with another live run.
        instance: InstanceRef,
    },
    /// The value exceeds its size limit.
    #[error("{what} is {size} bytes; the limit is {most}")]
    TooLarge {
        /// Name of the value.
        what: &'static str,
        /// Actual size in bytes.
        size: usize,
        /// Maximum size in bytes.
        most: usize,
    },
    /// The agent may not call this tool before a vote opens its gate.
    #[error("`{tool}` is blocked: the gate `{gate}` is closed")]
    GateClosed {
        /// Name of the tool.
        tool: &'static str,
        /// Name of the closed gate.
        gate: String,
    },
    /// The call of a request can be approved for one time only.
    #[error("request #{approval} can be approved once only: {cause}")]
    OnceOnly {
        /// Number of the request.
        approval: ApprovalId,
        /// The part of the call that forbids more.
        cause: String,
    },
    /// No pattern names the call of a request, and the answer names none either.
    #[error(
        "no pattern names exactly this call of `{tool}`, so that it cannot be approved for the run"
    )]
    NoExactPattern {
        /// Number of the request.
        approval: ApprovalId,
        /// Tool of the call.
        tool: String,
    },
    /// The request is invalid.
    #[error("{0}")]
    BadRequest(String),
    /// The daemon is stopping.
    #[error("the daemon is stopping and starts nothing new")]
    Draining,
    /// A run's private folder could not be used.
    #[error("cannot use the run's private folder: {0}")]
    RunFolder(#[source] std::io::Error),
    /// The operating system returned no random bytes.
    #[error(transparent)]
    NoRandomness(#[from] RandomnessUnavailable),
}

impl Error {
    /// Returns the error for something that `instance` does not have.
    pub(crate) fn missing(what: impl std::fmt::Display, instance: &InstanceRef) -> Self {
        Self::Missing { what: what.to_string(), instance: instance.clone() }
    }

    /// Returns true if the log should contain the cause.
    pub fn is_internal(&self) -> bool {
        matches!(self.code(), Code::Internal | Code::ReadOnly | Code::Damaged)
            || self.is_disk_fault()
    }

    /// Returns true if a disk fault prevented the operation, so that the same request may succeed later.
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
            Self::Workflow(_)
            | Self::BadRequest(_)
            | Self::NoExactPattern { .. }
            | Self::OnceOnly { .. }
            | Self::BadAgent { .. } => Code::BadRequest,
            Self::Forbidden(_)
            | Self::NotAllowed(_)
            | Self::ProtectedEnv(_)
            | Self::UndeclaredEnv(_)
            | Self::GateClosed { .. } => Code::Forbidden,
            Self::Unauthorized => Code::Unauthorized,
            Self::NoInstance(_)
            | Self::UnknownTarget { .. }
            | Self::NoAgent(_)
            | Self::Missing { .. }
            | Self::NoDeadLetter { .. }
            | Self::RunForgotten(_) => Code::NotFound,
            Self::Ambiguous { .. }
            | Self::AmbiguousDefault(_)
            | Self::AlreadyRunning(_)
            | Self::AlreadyPaused(_)
            | Self::AgentExists(_)
            | Self::NotPaused(_)
            | Self::NotRunning(_)
            | Self::PermanentRun => Code::Conflict,
            Self::StillLimited { .. } | Self::HopLimit(_) => Code::Limit,
            Self::RunEnded(_) | Self::EarlierRun { .. } => Code::RunEnded,
            Self::NoRun(_) => Code::NoRun,
            Self::TooLarge { .. } => Code::TooLarge,
            Self::Draining | Self::RunFolder(_) => Code::Unavailable,
            Self::NoRandomness(_) => Code::Internal,
        }
    }

    /// The facts of a target that matches several instances.
    fn ambiguity(&self) -> Option<ProblemDetails> {
        let (target, candidates, same_instance) = match self {
            Self::Ambiguous { target, candidates, same_instance } => {
                (Some(target.clone()), candidates.clone(), *same_instance)
            }
            Self::AmbiguousDefault(candidates) => (None, candidates.clone(), false),
            _ => return None,
        };
        Some(ProblemDetails::AmbiguousTarget { target, candidates, same_instance })
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
            Self::StillLimited { instance, cause, mode, needs } => {
                let (instance, needs, room_at) = (instance.clone(), **needs, cause.room_at());
                ProblemDetails::LimitReached { instance, mode: *mode, needs, room_at }
            }
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
            Self::NoInstance(wanted) => unknown_target(wanted, None),
            Self::UnknownTarget { wanted, suggestion } => {
                unknown_target(wanted, suggestion.as_ref())
            }
            Self::Ambiguous { .. } | Self::AmbiguousDefault(_) => return self.ambiguity(),
            Self::AlreadyRunning(instance) | Self::AlreadyPaused(instance) => {
                ProblemDetails::AlreadyRunning { instance: instance.clone() }
            }
            Self::RunEnded(instance) | Self::NoRun(instance) => {
                ProblemDetails::NoRun { instance: instance.clone() }
            }
            Self::TooLarge { size, most, .. } => {
                ProblemDetails::TextTooLarge { size: *size, limit: *most }
            }
            Self::OnceOnly { approval, .. } => ProblemDetails::OnceOnly { approval: *approval },
            Self::NoExactPattern { approval, tool } => {
                ProblemDetails::NoExactPattern { approval: *approval, tool: tool.clone() }
            }
            Self::Store(error) => return store_details(error),
            Self::Workflow(_)
            | Self::RunForgotten(_)
            | Self::BadRequest(_)
            | Self::Missing { .. }
            | Self::EarlierRun { .. }
            | Self::Forbidden(_)
            | Self::NotAllowed(_)
            | Self::ProtectedEnv(_)
            | Self::UndeclaredEnv(_)
            | Self::Unauthorized
            | Self::Draining
            | Self::RunFolder(_)
            | Self::NoRandomness(_) => return None,
        };
        Some(details)
    }
}

fn unknown_target(wanted: &str, suggestion: Option<&Target>) -> ProblemDetails {
    ProblemDetails::UnknownTarget { wanted: wanted.to_owned(), suggestion: suggestion.cloned() }
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
            // The cause may contain a path or a query, so only the log gets it.
            Code::Internal => "internal error in the daemon; its log has the cause".to_owned(),
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
        | store::Error::VerdictFixed(_)
        | store::Error::AgentBusy => Code::Conflict,
        store::Error::NotOwner(_)
        | store::Error::NoVote(_)
        | store::Error::NotCreator(_)
        | store::Error::NotFinisher(_) => Code::Forbidden,
        store::Error::DocumentTooLong(_) => Code::TooLarge,
        store::Error::SingleDatabaseOnly | store::Error::OptionLikePath(_) => Code::BadRequest,
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
