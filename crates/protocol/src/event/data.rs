//! The data of each kind of event. Each struct serialises to the `data` of its kind.
//!
//! Data names rows by their numbers; only a message is joined, when the store reads the event.

use schemars::{JsonSchema, Schema, transform::Transform};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    api::RunError,
    approval::{Consent, ToolPattern},
    id::{ApprovalId, GrantId, ProposalId, QuestionId, Revision, Seq},
    name::{AgentName, DocumentPath},
    notify::{NotifyChannel, NotifyOccasion},
    proposal::ProposalState,
    sandbox::SandboxInForce,
    state::{AttemptEnd, Outcome, PauseCause, RunMode, VerdictOutcome},
    task::{TaskPath, TaskState},
};

/// Data of `run.setup`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename = "setup")]
#[schemars(rename = "RunSetupData", transform = StateTag("setup"))]
pub struct RunSetupData {
    /// The mode that the run was started in.
    pub mode: RunMode,
}

/// Data of `run.electing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename = "electing")]
#[schemars(rename = "RunElectingData", transform = StateTag("electing"))]
pub struct RunElectingData {}

/// Data of `run.running`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename = "running")]
#[schemars(rename = "RunRunningData", transform = StateTag("running"))]
pub struct RunRunningData {}

/// Data of `run.paused`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename = "paused")]
#[schemars(rename = "RunPausedData", transform = StateTag("paused"))]
pub struct RunPausedData {
    /// The cause of the pause.
    pub cause: PauseCause,
}

/// Data of `run.ended`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename = "ended")]
#[schemars(rename = "RunEndedData", transform = StateTag("ended"))]
pub struct RunEndedData {
    /// The outcome of the run.
    pub outcome: Outcome,
    /// The failure that ended the run, if it was not its agents' work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
}

/// Data of `run.verdict`; the agent of the event set it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunVerdictData {
    /// The outcome according to the team.
    pub outcome: VerdictOutcome,
    /// The result of the run in words.
    pub summary: String,
}

/// Data of `attempt.starting`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptStartingData {
    /// The messages that the attempt is shown.
    pub seqs: Vec<Seq>,
    /// The number of the attempt at these messages, from 1.
    pub number: u32,
}

/// Data of `attempt.running`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptRunningData {
    /// The process id of the worker.
    pub pid: u32,
    /// Sandbox of the agent's program; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxInForce>,
}

/// Data of `attempt.ended`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptEndedData {
    /// The end of the attempt.
    #[serde(flatten)]
    pub end: AttemptEnd,
    /// The deliveries of the attempt; absent if the attempt ended because its run did.
    #[serde(flatten)]
    pub deliveries: Option<AttemptDeliveries>,
}

/// The deliveries of an attempt that ended, by their new state, and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptDeliveries {
    /// The messages that the agent acted upon.
    pub acted: Vec<Seq>,
    /// The messages that wait for the next attempt.
    pub pending: Vec<Seq>,
    /// The messages that became dead letters.
    pub dead: Vec<Seq>,
    /// The message with the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Seq>,
}

/// Data of `delivery.dead`, `delivery.dropped` and `delivery.pending`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryData {
    /// The message that was delivered.
    pub seq: Seq,
}

/// Data of `mention.unheard`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MentionUnheardData {
    /// The answer with the mention.
    pub seq: Seq,
    /// The mentioned agent, which the answer's turn did not message, also a name that no agent has.
    pub agent: AgentName,
}

/// Data of `channel.cleared`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelClearedData {
    /// The last message that is hidden.
    pub seq: Seq,
}

/// Data of `document.written`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentWrittenData {
    /// The path of the document.
    pub path: DocumentPath,
    /// The new revision of the document.
    pub revision: Revision,
    /// The number of lines of the revision before that this one no longer has; only if the text came from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
}

/// Data of `document.conflict`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentConflictData {
    /// The path of the document.
    pub path: DocumentPath,
    /// The two revisions of the conflict; absent if the person's text was refused.
    #[serde(flatten)]
    pub revisions: Option<ConflictRevisions>,
}

/// The two revisions that a conflict makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictRevisions {
    /// The revision with the person's text.
    pub revision: Revision,
    /// The newest revision, with the text that stays.
    pub stays: Revision,
}

/// Data of `suggestion.open`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SuggestionOpenData {
    /// The number of the suggestion: its message.
    pub suggestion: Seq,
    /// The path of the document.
    pub path: DocumentPath,
}

/// Data of `suggestion.accepted` and `suggestion.rejected`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SuggestionAnsweredData {
    /// The number of the suggestion: its message.
    pub suggestion: Seq,
    /// The path of the document.
    pub path: DocumentPath,
    /// The revision that the accepted suggestion made.
    pub revision: Option<Revision>,
}

/// Data of `setup.ran`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetupRanData {
    /// The line of the command in the workflow file.
    pub line: u64,
    /// The name of the command's output.
    #[serde(rename = "as")]
    pub name: Option<String>,
    /// The exit status; absent if a signal ended the command.
    pub status: Option<i32>,
    /// The length of the output in bytes.
    pub bytes: u64,
    /// The duration in milliseconds.
    pub ms: u64,
}

/// Data of `task.started`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskStartedData {
    /// The place of the task in the procedure.
    pub task: TaskPath,
    /// The number of the item of `for_each`, from 1; absent for the task itself.
    pub item: Option<u32>,
    /// The number of the start, from 1.
    pub attempt: u32,
    /// The message that the task sent.
    pub message: Option<Seq>,
}

/// Data of `task.ended`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskEndedData {
    /// The place of the task in the procedure.
    pub task: TaskPath,
    /// The number of the item of `for_each`, from 1; absent for the task itself.
    pub item: Option<u32>,
    /// The state in which the task ended.
    pub state: TaskState,
    /// The exit code of the task's command.
    pub exit_code: Option<i32>,
    /// The reason of a failure.
    pub error: Option<String>,
    /// The duration in milliseconds; absent for a task that did not start.
    pub ms: Option<u64>,
}

/// Data of `proposal.active`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProposalActiveData {
    /// The number of the proposal.
    pub proposal: ProposalId,
}

/// Data of `ballot.cast`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BallotCastData {
    /// The number of the proposal.
    pub proposal: ProposalId,
    /// The option that the ballot names.
    pub choice: String,
}

/// Data of `proposal.resolved`, `proposal.expired` and `proposal.cancelled`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProposalEndedData {
    /// The number of the proposal.
    pub proposal: ProposalId,
    /// The final state of the proposal.
    #[serde(flatten)]
    pub state: ProposalState,
}

/// Data of `question.open` and `question.answered`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionData {
    /// The number of the question.
    pub question: QuestionId,
}

/// Data of `approval.open`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalOpenData {
    /// The number of the request.
    pub approval: ApprovalId,
    /// The tool that the agent wants to call.
    pub tool: String,
    /// The beginning of the arguments as JSON text.
    pub args: String,
}

/// Data of `approval.answered`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalAnsweredData {
    /// The number of the request.
    pub approval: ApprovalId,
    /// The tool that the agent wants to call.
    pub tool: String,
    /// The answer of a person or of their rules.
    pub answer: Consent,
    /// The reason that the person gave.
    pub reason: Option<String>,
    /// The grant that covers the call, if the answer follows from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
}

/// Data of `permission.granted` and `permission.revoked`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionGrantData {
    /// The number of the grant.
    pub grant: GrantId,
    /// The calls that the agent may make without asking.
    pub pattern: ToolPattern,
}

/// Data of `permission.used`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionUsedData {
    /// The number of the grant.
    pub grant: GrantId,
    /// The number of the request that was approved without a question.
    pub approval: ApprovalId,
    /// The tool that the agent calls.
    pub tool: String,
    /// The beginning of the arguments as JSON text.
    pub args: String,
}

/// Data of `notification.failed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotificationFailedData {
    /// The occasion of the notification.
    pub occasion: NotifyOccasion,
    /// The channel that failed.
    pub channel: NotifyChannel,
    /// The reason of the failure.
    pub why: String,
}

/// Data of `clock.jumped`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockJumpedData {
    /// The milliseconds by which the wall clock was set; negative if it was set back.
    pub by_ms: i64,
}

/// Data of `tool_call`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCallData {
    /// The id of the call, which its result repeats.
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments of the call.
    pub args: Value,
}

/// Data of `tool_result`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResultData {
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// True if the tool did what the call asked.
    pub ok: bool,
    /// The first words of the result.
    pub summary: String,
}

/// Data of `retry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryData {
    /// The failure that the worker retries after.
    pub why: String,
}

/// Data of `note`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoteData {
    /// The fact, for people.
    pub text: String,
}

/// Data of `text`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextData {
    /// The next words of the model.
    pub text: String,
}

/// Adds the tag `state` of a struct to its schema, which the derived schema leaves out.
struct StateTag(&'static str);

impl Transform for StateTag {
    fn transform(&mut self, schema: &mut Schema) {
        let object = schema.ensure_object();
        let properties = object.entry("properties").or_insert_with(|| json!({}));
        properties["state"] = json!({"type": "string", "const": self.0});
        if let Value::Array(required) = object.entry("required").or_insert_with(|| json!([])) {
            required.push(json!("state"));
        }
    }
}
