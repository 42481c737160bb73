//! The facts of a problem. They hold no words: each interface makes its own hint from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    AgentName, ApprovalId, DocumentPath, InstanceRef, Millis, ProposalId, Revision, RunId, RunMode,
    Seq, Target, api::ResumeRequest,
};

/// The reason of a problem that a hint exists for, with the facts that the hint needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the name of such a field says what it holds")]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum ProblemDetails {
    /// Nothing has the name that was asked for.
    UnknownTarget {
        /// The kind of thing and its name, such as ``agent `coder` ``.
        wanted: String,
        /// The target with the nearest name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        suggestion: Option<Target>,
    },
    /// The team has no agent of this name.
    UnknownAgent {
        agent: String,
        /// The agent whose name is nearest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        suggestion: Option<AgentName>,
    },
    /// Several things have the name.
    AmbiguousTarget {
        /// The target as typed; absent where none was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
        candidates: Vec<String>,
        /// True if the candidates differ only by their folder.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        same_instance: bool,
    },
    /// The instance has no live run.
    NoRun { instance: InstanceRef },
    /// The instance has a live run already.
    AlreadyRunning { instance: InstanceRef },
    /// The state of the run does not allow the request.
    WrongRunState { instance: InstanceRef },
    /// The run of standalone agents cannot be ended.
    PermanentRun,
    /// A paused run would pause again at once.
    LimitReached {
        instance: InstanceRef,
        mode: RunMode,
        /// The limits that the run needs to continue.
        needs: ResumeRequest,
        /// Time at which a `start` continues by itself, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        room_at: Option<Millis>,
    },
    /// The message is one hop too many.
    HopLimit,
    /// The name of the agent is taken.
    AgentExists { target: Target },
    /// The settings of a new agent are invalid.
    InvalidAgent {
        /// The correction that the check of the settings proposes.
        correction: String,
    },
    /// No delivery is dead there.
    NoDeadLetter {
        instance: InstanceRef,
        /// The message, where one was named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seq: Option<Seq>,
    },
    /// The text is longer than allowed.
    TextTooLarge {
        /// Size in bytes.
        size: usize,
        /// Size in bytes.
        limit: usize,
    },
    /// The body of the request is longer than allowed.
    BodyTooLarge {
        /// Size in bytes.
        limit: usize,
    },
    /// A vote has to open the gate before the tool may be called.
    GateClosed { tool: String, gate: String },
    /// The document has a newer revision than the writer named.
    StaleRevision { revision: Revision },
    /// The writer has not read the present revision.
    RevisionNotRead { revision: Revision },
    /// Another agent owns the documents.
    NotOwner { owner: AgentName },
    /// The caller may write the document and has nobody to suggest changes to.
    SuggestionNotNeeded,
    /// The passage to be replaced does not occur exactly once.
    PassageNotUnique { count: usize },
    /// A document of this path is in the way.
    PathConflict { path: DocumentPath },
    /// The proposal is decided, cancelled or expired.
    ProposalClosed { proposal: ProposalId },
    /// The call of an approval request can be approved for one time only.
    OnceOnly { approval: ApprovalId },
    /// No pattern names exactly the call of an approval request.
    NoExactPattern { approval: ApprovalId, tool: String },
    /// The caller is not in the electorate.
    NoVote { proposal: ProposalId },
    /// The team is stored in another database than the file names.
    OtherDatabase { database: String },
    /// The database that the file names cannot be used for the team.
    DatabaseTaken { database: String },
    /// The disk is full.
    DiskFull,
    /// The effect may or may not have happened.
    OutcomeUnknown,
    /// A stored row is damaged.
    DamagedRow,
    /// The idempotency key was used with other arguments.
    KeyReused,
    /// The caller sent no token and is not known by its process.
    TokenMissing,
    /// The calling process belongs to an agent of another daemon.
    OtherDaemon,
    /// The request names a host that is not this daemon's.
    UnknownHost { host: String },
    /// A range of bytes could not be read.
    InvalidRange { range: String },
    /// The daemon stops before the run is over; the run continues with the next daemon.
    RunContinues { run: RunId },
    /// The MCP session is not known to this daemon.
    UnknownSession,
}

impl ProblemDetails {
    /// JSON array with a sample of each reason. Every interface tests its hints with it.
    pub const SAMPLES: &str = include_str!("problem_details/samples.json");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn the_samples_have_every_reason() {
        let samples: Vec<ProblemDetails> = serde_json::from_str(ProblemDetails::SAMPLES).unwrap();
        let covered: BTreeSet<_> = samples.iter().map(reason).collect();
        let schema = schemars::schema_for!(ProblemDetails).to_value();
        let reasons = schema["oneOf"].as_array().unwrap().iter();
        let reasons = reasons.map(|variant| text(&variant["properties"]["reason"]["const"]));
        assert_eq!(covered, reasons.collect::<BTreeSet<_>>());
    }

    fn reason(details: &ProblemDetails) -> String {
        text(&serde_json::to_value(details).unwrap()["reason"])
    }

    fn text(value: &Value) -> String {
        value.as_str().unwrap().to_owned()
    }
}
