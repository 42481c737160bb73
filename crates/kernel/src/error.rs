//! What can go wrong in this room, and the one place where that becomes what a caller is told.

use agent_worker_protocol::{
    Code, InstanceRef, PauseCause, Permission, Problem, RunMode, Seq, Target,
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
        /// What to do about it.
        hint: String,
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

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoAgent(UnknownMention { suggestion: Some(name), .. }) => {
                Some(format!("did you mean `{name}`?"))
            }
            Self::BadAgent { hint, .. } => Some(hint.clone()),
            Self::StillLimited { instance, mode, needs, .. } => {
                Some(resume_hint(instance, *mode, needs))
            }
            Self::AgentExists(target) => Some(format!(
                "give it another name, or end that one: agent-worker agent end {target}"
            )),
            Self::HopLimit(_) => Some("end this turn; a message of a person begins anew".into()),
            Self::GateClosed { gate, .. } => {
                Some(format!("a binding proposal with gate `{gate}` opens it when `approve` wins"))
            }
            Self::PermanentRun => Some(
                "`agent-worker ls @global` lists them, `agent-worker agent end NAME` ends one"
                    .into(),
            ),
            Self::NotPaused(_) | Self::NotRunning(_) => {
                Some("`agent-worker runs` shows how it stands".into())
            }
            Self::NoAgent(_) => Some("`agent-worker ls` shows who is there".into()),
            Self::NoDeadLetter { instance, .. } => {
                Some(format!("`agent-worker dead @{instance}` lists what there is"))
            }
            Self::NoInstance(_) => Some("`agent-worker ls --all` shows what there is".into()),
            Self::Ambiguous { .. } => Some(
                "name it whole, agent@workflow:tag, or go to the folder of the one you mean".into(),
            ),
            Self::AmbiguousDefault(_) => Some("name the one you mean: @workflow:tag".into()),
            Self::AlreadyRunning(instance) => Some(format!(
                "`agent-worker stop @{instance}` ends it, --replace does so first, --tag NAME starts another one beside it"
            )),
            Self::NoRun(instance) if instance.is_global() => {
                Some("make a standalone agent: agent-worker new -b mock --say \"Hello.\"".into())
            }
            Self::NoRun(instance) => {
                Some(format!("begin it again: agent-worker restart @{instance}"))
            }
            Self::TooLarge { .. } => {
                Some("put the rest into a resource with resource_create".into())
            }
            Self::Store(error) => store_hint(error),
            Self::Workflow(_)
            | Self::BadRequest(_)
            | Self::Forbidden(_)
            | Self::NotAllowed(_)
            | Self::Unauthorized
            | Self::Draining
            | Self::RunFolder(_)
            | Self::NoRandomness(_) => None,
        }
    }
}

/// How a run is given more.
fn resume_hint(instance: &InstanceRef, mode: RunMode, needs: &ResumeRequest) -> String {
    let typed = needs.to_command(&Target::instance(instance));
    match (mode, needs) {
        (RunMode::Start, ResumeRequest { turns: Some(_), .. }) => {
            format!("it goes on by itself within a day; to go on now: {typed}")
        }
        (_, ResumeRequest { wall: Some(_), .. }) => {
            format!("allow more time, counted from its beginning: {typed}")
        }
        (RunMode::Run | RunMode::Start, _) => format!("allow more: {typed}"),
    }
}

/// What to do about what the store refused.
fn store_hint(error: &store::Error) -> Option<String> {
    let hint = match error {
        store::Error::StaleRevision(_) => {
            "read it, then document_write with that as base_revision".into()
        }
        store::Error::RevisionNotRead(_) => "read it first with document_read, then write again".into(),
        store::Error::NotOwner(owner) => {
            format!("tell @{owner} what you would change, with document_suggest")
        }
        store::Error::SuggestionNotNeeded => "write it with document_write or document_append".into(),
        store::Error::PassageNotUnique(_) => {
            "read it, and quote as much as occurs there once, to the letter".into()
        }
        store::Error::ProposalClosed { .. } => {
            "what is decided stays so; make a new proposal to change it".into()
        }
        store::Error::NoVote(_) => {
            "its electorate was fixed when it was made: proposal_status shows it".into()
        }
        store::Error::PathConflict(_) => "give it another name".into(),
        store::Error::InOtherDatabase(_) => {
            "put `context.config.db` back as it was, or delete what is there: agent-worker rm"
                .into()
        }
        store::Error::InUse(_) | store::Error::NotTeamDatabase(_) => {
            "give the team another `context.config.db`".into()
        }
        store::Error::DiskFull => {
            "free some space; writes work again as soon as there is room, without a restart".into()
        }
        store::Error::OutcomeUnknown(_) => {
            "ask again with the same idempotency key: then it happens once".into()
        }
        store::Error::Damaged(_) => {
            "everything else can be read and exported; `agent-worker doctor` lists every damaged row".into()
        }
        store::Error::KeyReused => "use a new idempotency_key for a new call".into(),
        _ => return None,
    };
    Some(hint)
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
        Self { code: error.code(), message, hint: error.hint() }
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
