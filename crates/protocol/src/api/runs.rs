//! Runs: start, view, stop, resume, statistics and the list for a person.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentFailure, AgentView, DocumentEntry};
use crate::{
    Position,
    agent::Limits,
    id::{ResourceId, RunId, Seq},
    message::{Receipt, Usage},
    name::{AgentName, Tag},
    notify::RunDefaults,
    span::Span,
    state::{RunMode, RunState, VerdictOutcome},
    target::{InstanceRef, Target},
    time::Millis,
};

/// Body of `POST /runs`, `POST /run` and `POST /serve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// Absolute path of the workflow file.
    pub file: PathBuf,
    /// Text of the workflow, instead of the content of the file, whose folder must exist; only the user may give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Absolute path of the folder in which its commands run.
    pub cwd: PathBuf,
    /// Tag of the instance; absent: `main`.
    #[serde(default)]
    pub tag: Option<Tag>,
    /// Mode `run` or `start`; absent: `run`.
    #[serde(default)]
    pub mode: RunMode,
    /// Values for the file's parameters.
    #[serde(default)]
    pub params: BTreeMap<String, String>,
    /// Variables of the caller's environment that the file and the backends need.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// True if the daemon first stops a live run of the instance.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
    /// Settings of the user's configuration file for the run; only the user may give them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Box<RunDefaults>>,
}

/// Reply to [`RunRequest`]: the run exists, and its setup begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunStarted {
    pub run: RunId,
    pub instance: InstanceRef,
    /// Names of all agents in the run.
    pub agents: Vec<AgentName>,
}

/// One run; the reply of `GET /runs/{id}`, and `GET /runs` returns a list of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunView {
    pub run: RunId,
    pub instance: InstanceRef,
    /// Folder of the workflow file.
    pub project: PathBuf,
    /// Path of the workflow file; absent for standalone agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Folder in which the run's commands are executed.
    pub cwd: PathBuf,
    /// Values of the workflow's parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// Limits at which the run pauses by itself.
    pub limits: Limits,
    /// Mode `run` or `start`.
    pub mode: RunMode,
    /// State of the run.
    #[serde(flatten)]
    pub state: RunState,
    /// Time of the last change of state.
    pub state_since: Millis,
    /// Limits that must be raised before the run can continue, if it waits at a limit.
    #[serde(default, skip_serializing_if = "ResumeRequest::is_empty")]
    pub needs: ResumeRequest,
    /// Error that made the run fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// Start of the run.
    pub started: Millis,
    /// End of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Millis>,
    /// Duration of the run until its end or until now, in milliseconds. It differs from `ended` minus `started` if
    /// the wall clock was set in between.
    #[serde(default)]
    pub lasted_ms: u64,
    /// Time that has counted for the wall limit, in milliseconds: without pauses, and without the time in which only
    /// answers of a person were missing.
    #[serde(default)]
    pub wall_used_ms: u64,
    /// Time at which the daemon stops the live turns of a run whose wall limit is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ends: Option<Millis>,
    /// Number of attempts that ended ok or failed.
    pub turns: u32,
    /// Number of messages written in the run.
    pub messages: u32,
    /// Usage of the run.
    pub usage: Usage,
    /// Deliveries whose attempts are used up.
    pub dead_letters: Vec<Receipt>,
    /// Deliveries that were given up.
    pub dropped: Vec<Receipt>,
    /// Last failure of each agent that failed, also if the instance has a newer run and `agents` is absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_failures: Vec<AgentFailure>,
    /// Mentions in answers whose agent was not messaged: the newest hundred, oldest first.
    #[serde(default)]
    pub unheard: Vec<UnheardMention>,
    /// True if the rows of the run are deleted ten seconds after its end (`provider: memory`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub memory: bool,
    /// Agents of the run with their states. Absent if the run has no agents, and for every run but the newest of its
    /// instance: the store keeps the agents of the newest run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentView>,
    /// Newest answer of each agent in the run; a list of runs leaves them out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answers: BTreeMap<AgentName, AnswerView>,
    /// File of the team's default document, if the document exists and is kept in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<PathBuf>,
    /// Documents whose newest revision was written in the run, by path, at most a hundred; a list of runs leaves them
    /// out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<DocumentEntry>,
    /// Verdict of the team about the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<TeamVerdict>,
    /// Number of active proposals, open questions and open approval requests, which also keep the run open.
    #[serde(default)]
    pub pending: u32,
    /// True if the run could work and the daemon starts nothing, because its user stopped the last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// The change that the daemon is about to make by itself, if one is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imminent: Option<ImminentChange>,
    /// Suggestion for the next step of a run that waits or failed; only a reply about one run has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Newest event that this view includes; later events change it.
    #[serde(default)]
    pub position: Position,
}

impl RunView {
    /// Returns the failures that no later attempt of the same agent made up for.
    pub fn unrecovered_failures(&self) -> impl Iterator<Item = &AgentFailure> {
        self.last_failures.iter().filter(|failed| !failed.failure.recovered)
    }

    /// Returns the unrecovered failures that are not the reason of a dead letter of the same agent.
    pub fn unlisted_failures(&self) -> impl Iterator<Item = &AgentFailure> {
        self.unrecovered_failures().filter(|failed| {
            let why = Some(failed.end().to_string());
            !self.dead_letters.iter().any(|dead| dead.agent == failed.agent && dead.why == why)
        })
    }

    /// True if nothing more happens in it by itself: it is over, or paused and no change is due.
    pub fn is_at_rest(&self) -> bool {
        match &self.state {
            RunState::Ended { .. } => true,
            RunState::Setup | RunState::Electing | RunState::Running => false,
            RunState::Paused { .. } => self.imminent.is_none(),
        }
    }
}

/// A mention in an answer whose agent was not messaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnheardMention {
    /// The answer with the mention.
    pub seq: Seq,
    /// Agent that wrote the answer.
    pub from: AgentName,
    /// Agent that the answer mentions, also a name that no agent has.
    pub agent: AgentName,
    /// Cause for which a hand-off is not delivered; none if the mention is no hand-off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// Answer of an agent: the final text of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerView {
    /// Message with the answer.
    pub seq: Seq,
    /// Text of the answer; of a long one only the beginning.
    pub text: String,
    /// Resource with the whole text, if that is longer than a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceId>,
}

/// Verdict of a team about its run. It can make the outcome of the run worse, never better.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamVerdict {
    /// Outcome according to the team.
    pub outcome: VerdictOutcome,
    /// Result of the run in words.
    pub summary: String,
    /// Agent that set the verdict.
    pub by: AgentName,
}

/// Arguments of `run_finish`: the verdict of the calling agent about its run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishRequest {
    /// Outcome according to the team.
    pub outcome: VerdictOutcome,
    /// Result of the run in words.
    pub summary: String,
}

/// Reply of `run_finish`: the verdict that holds now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FinishReply {
    #[serde(flatten)]
    pub verdict: TeamVerdict,
    /// True if an earlier request with the same key set it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deduplicated: bool,
}

/// A change of a run that the daemon makes in a moment, without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImminentChange {
    /// The run ends: no agent has anything left to do.
    Ends,
    /// The run resumes: its turn limit allows turns again.
    Resumes,
    /// A turn of the paused run ends: its worker still runs.
    TurnEnds,
}

/// Reason for which a run failed apart from its agents' work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunError {
    /// Stable code: `setup_failed`, `nobody_woken`, `bad_file` or `verdict`.
    pub code: RunErrorCode,
    /// Explanation of the failure.
    pub message: String,
}

/// Failures of a run other than dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunErrorCode {
    /// A setup command failed.
    SetupFailed,
    /// The kickoff wakes no agent.
    NobodyWoken,
    /// The kickoff could not be interpolated.
    BadFile,
    /// The team's own verdict is `failed`.
    Verdict,
    /// A task failed, or was stopped.
    TaskFailed,
}

/// Reply of `POST /runs/{id}/stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunStopped {
    pub run: RunId,
    pub instance: InstanceRef,
    /// Agents whose attempts the daemon ended.
    pub attempts: Vec<AgentName>,
    /// Number of processes that the daemon ended.
    pub processes: u32,
}

/// Body of `POST /runs/{id}/resume`: each given value replaces the run's limit of that name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// Maximum number of messages in a chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    /// Maximum number of turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Maximum time in which the run can work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<Span>,
    /// Maximum cost in millionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Maximum number of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// Returns dollars as a user writes them: `10`, `0.5`.
pub fn usd_text(micros: u64) -> String {
    let (dollars, rest) = (micros / 1_000_000, micros % 1_000_000);
    let text = format!("{dollars}.{rest:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl ResumeRequest {
    /// Returns true if the request changes no limit.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the command line for this request.
    pub fn to_command(&self, target: &Target) -> String {
        let Self { hops, turns, wall, cost_micros, tokens } = self;
        let count =
            |name: &str, value: &Option<u32>| value.map(|value| format!(" --{name} {value}"));
        let more = [
            count("hops", hops),
            count("turns", turns),
            wall.map(|wall| format!(" --wall {wall}")),
            cost_micros.map(|micros| format!(" --cost-usd {}", usd_text(micros))),
            tokens.map(|tokens| format!(" --tokens {tokens}")),
        ];
        format!("agent-worker resume {target}{}", more.into_iter().flatten().collect::<String>())
    }
}

/// Reply of `GET /stats`: the work of a run's agents and its durations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatsView {
    pub run: RunId,
    pub instance: InstanceRef,
    /// Folder of the workflow file.
    pub project: PathBuf,
    /// State of the run.
    #[serde(flatten)]
    pub state: RunState,
    /// Duration of the run so far, in milliseconds.
    pub lasted_ms: u64,
    /// Sum over all agents.
    pub total: ActivityStats,
    /// Statistics of each agent.
    pub agents: Vec<AgentStats>,
}

/// Statistics of one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStats {
    pub name: AgentName,
    /// Figures of the agent.
    #[serde(flatten)]
    pub stats: ActivityStats,
}

/// Amount of work and its durations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Tally")]
pub struct ActivityStats {
    /// Number of attempts that ended ok or failed.
    pub turns: u32,
    /// Number of messages written; for a run, messages of every sender.
    pub messages: u32,
    pub usage: Usage,
    /// Number of failures among the newest thousand turns.
    pub failed: u32,
    /// Durations of these turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<DurationPercentiles>,
    /// Waiting times of the messages that the turns' activations are named after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<DurationPercentiles>,
}

/// Percentiles of durations, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Spread")]
pub struct DurationPercentiles {
    /// Median duration (50th percentile).
    pub p50_ms: u64,
    /// 95th percentile of the durations.
    pub p95_ms: u64,
    /// Longest duration of all.
    pub max_ms: u64,
}

/// One item that needs a person; `GET /attention` returns a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttentionItem {
    /// Kind of the item.
    pub kind: AttentionKind,
    pub instance: InstanceRef,
    /// Folder of the workflow file.
    pub project: PathBuf,
    pub run: RunId,
    /// Agent that the item concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Description of the occurrence.
    pub what: String,
    /// Command to type.
    pub hint: String,
}

/// Kind of item that needs a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionKind {
    /// A run is paused until a person resumes it.
    Paused,
    /// An agent asked a question, and the answer wakes it.
    Question,
    /// An agent waits for the approval of a call.
    Approval,
    /// A proposal waits for the vote of the user, who is in its electorate.
    Vote,
    /// A delivery has used up its attempts.
    DeadLetter,
    /// The daemon no longer wakes an agent.
    AgentStopped,
    /// A person's edit of a document's file could not be merged.
    DocumentConflict,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_needs_is_a_command_to_type() {
        let target: Target = "@review:pr-1".parse().unwrap();
        let (hops, turns, wall) = (Some(4), Some(8), Some(Span::from_secs(7200)));
        for (needs, typed) in [
            (ResumeRequest::default(), "agent-worker resume @review:pr-1"),
            (
                ResumeRequest { hops, ..Default::default() },
                "agent-worker resume @review:pr-1 --hops 4",
            ),
            (
                ResumeRequest { hops, turns, wall, ..ResumeRequest::default() },
                "agent-worker resume @review:pr-1 --hops 4 --turns 8 --wall 2h",
            ),
        ] {
            assert_eq!(needs.to_command(&target), typed);
        }
    }
}
