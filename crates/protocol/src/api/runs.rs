//! Runs: begun, looked at, stopped, resumed.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AgentView;
use crate::{
    Position,
    agent::Limits,
    id::RunId,
    message::{Receipt, Usage},
    name::{AgentName, Tag},
    span::Span,
    state::{RunMode, RunState},
    target::{InstanceRef, Target},
    time::Millis,
};

/// `POST /runs`, `POST /run`, `POST /serve`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// The workflow file, absolute.
    pub file: PathBuf,
    /// Where its commands run, absolute.
    pub cwd: PathBuf,
    /// Which instance; absent: `main`.
    #[serde(default)]
    pub tag: Option<Tag>,
    /// `run` or `start`; absent: `run`.
    #[serde(default)]
    pub mode: RunMode,
    /// Values for the file's parameters.
    #[serde(default)]
    pub params: BTreeMap<String, String>,
    /// The caller's environment, as far as the file and the backends need it.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Whether a live run of the instance is stopped first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}

/// The answer to [`RunRequest`]: the run exists; its setup begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunStarted {
    /// The run.
    pub run: RunId,
    /// Its instance.
    pub instance: InstanceRef,
    /// Who takes part.
    pub agents: Vec<AgentName>,
}

/// `GET /runs/{id}`; `GET /runs` gives a list of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunView {
    /// The run.
    pub run: RunId,
    /// Its instance.
    pub instance: InstanceRef,
    /// The folder its file lies in.
    pub project: PathBuf,
    /// The file it was read from; absent for standalone agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Where its commands run.
    pub cwd: PathBuf,
    /// The values its parameters were given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// Where it stops by itself.
    pub limits: Limits,
    /// `run` or `start`.
    pub mode: RunMode,
    /// Where it stands.
    #[serde(flatten)]
    pub state: RunState,
    /// Since when it stands there.
    pub state_since: Millis,
    /// What it must be given more of to go on, where it waits at a limit.
    #[serde(default, skip_serializing_if = "ResumeRequest::is_empty")]
    pub needs: ResumeRequest,
    /// What made it fail, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// When it began.
    pub started: Millis,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Millis>,
    /// How long it lasted, or has lasted so far, in milliseconds. This is not `ended` minus `started` where the wall clock
    /// was set in between.
    #[serde(default)]
    pub lasted_ms: u64,
    /// Attempts that ended ok or failed.
    pub turns: u32,
    /// Messages written in it.
    pub messages: u32,
    /// What it used.
    pub usage: Usage,
    /// Deliveries whose attempts are used up.
    pub dead_letters: Vec<Receipt>,
    /// Deliveries that were given up.
    pub dropped: Vec<Receipt>,
    /// Who takes part, and what each is doing.
    pub agents: Vec<AgentView>,
    /// Proposals that are voted on, questions and requests that wait for a person: what else keeps it open.
    #[serde(default)]
    pub pending: u32,
    /// The change that comes next by itself, where one is due. Not part of the documented API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub imminent: Option<ImminentChange>,
    /// The newest event this view includes; later events change it.
    #[serde(default)]
    pub position: Position,
}

impl RunView {
    /// Whether nothing more happens in it by itself: it is over, or paused and no change is due.
    pub fn is_at_rest(&self) -> bool {
        match &self.state {
            RunState::Ended { .. } => true,
            RunState::Setup | RunState::Electing | RunState::Running => false,
            RunState::Paused { .. } => self.imminent.is_none(),
        }
    }
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

/// Why a run failed before or beside its agents' work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunError {
    /// `setup_failed`, `nobody_woken`, `bad_file`, …
    pub code: RunErrorCode,
    /// What happened.
    pub message: String,
}

/// The ways a run fails that are not a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunErrorCode {
    /// A setup command failed.
    SetupFailed,
    /// The kickoff wakes nobody.
    NobodyWoken,
    /// The kickoff could not be filled in.
    BadFile,
}

/// `POST /runs/{id}/stop`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunStopped {
    /// The run.
    pub run: RunId,
    /// Its instance.
    pub instance: InstanceRef,
    /// Attempts that were ended, by agent.
    pub attempts: Vec<AgentName>,
    /// Processes that were ended.
    pub processes: u32,
}

/// `POST /runs/{id}/resume`: what is given replaces the run's limit of that name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// How many messages may lead to a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    /// How many turns it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// How long it may last, from its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<Span>,
}

impl ResumeRequest {
    /// Whether it asks for no more than to go on.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The command that asks for this.
    pub fn to_command(&self, target: &Target) -> String {
        let Self { hops, turns, wall } = self;
        let count =
            |name: &str, value: &Option<u32>| value.map(|value| format!(" --{name} {value}"));
        let more = [
            count("hops", hops),
            count("turns", turns),
            wall.map(|wall| format!(" --wall {wall}")),
        ];
        format!("agent-worker resume {target}{}", more.into_iter().flatten().collect::<String>())
    }
}

/// `GET /stats`: what a run's agents did and how long it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatsView {
    /// The run.
    pub run: RunId,
    /// Its instance.
    pub instance: InstanceRef,
    /// Where it stands.
    #[serde(flatten)]
    pub state: RunState,
    /// How long it has lasted, in milliseconds.
    pub lasted_ms: u64,
    /// Everybody together.
    pub total: ActivityStats,
    /// Each agent.
    pub agents: Vec<AgentStats>,
}

/// One agent's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStats {
    /// Whose.
    pub name: AgentName,
    /// What it did.
    #[serde(flatten)]
    pub stats: ActivityStats,
}

/// What was done, and how long it took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Tally")]
pub struct ActivityStats {
    /// Attempts that ended ok or failed.
    pub turns: u32,
    /// Messages written; of a run, by whomever.
    pub messages: u32,
    /// What was used.
    pub usage: Usage,
    /// Of the newest thousand turns, those that failed.
    pub failed: u32,
    /// How long these took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<DurationPercentiles>,
    /// How long the message each is named after had waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<DurationPercentiles>,
}

/// How times are spread, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Spread")]
pub struct DurationPercentiles {
    /// Half took no longer.
    pub p50_ms: u64,
    /// Nineteen of twenty took no longer.
    pub p95_ms: u64,
    /// None took longer.
    pub max_ms: u64,
}

/// `GET /attention`: one thing that needs a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttentionItem {
    /// What it is.
    pub kind: AttentionKind,
    /// Where.
    pub instance: InstanceRef,
    /// The folder its file lies in.
    pub project: PathBuf,
    /// In which run.
    pub run: RunId,
    /// Whose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// What happened.
    pub what: String,
    /// What to type.
    pub hint: String,
}

/// What needs a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionKind {
    /// A run is paused until somebody resumes it.
    Paused,
    /// An agent asks something and is woken by the answer.
    Question,
    /// An agent wants to do something and waits for approval.
    Approval,
    /// A delivery's attempts are used up.
    DeadLetter,
    /// An agent is not woken any more.
    AgentStopped,
    /// What somebody wrote into a document's file could not be merged.
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
                ResumeRequest { hops, turns, wall },
                "agent-worker resume @review:pr-1 --hops 4 --turns 8 --wall 2h",
            ),
        ] {
            assert_eq!(needs.to_command(&target), typed);
        }
    }
}
