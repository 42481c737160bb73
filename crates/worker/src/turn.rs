//! One turn of an agent, in the same terms for every backend: its input, its tools, its report and its end.
//!
//! A `TurnContext` is created once per attempt from the job. It holds everything that a backend may use and nothing
//! of the attempt's own state: time limits, the lock and the daemon's orders stay in `attempt.rs`.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use agent_worker_host::{DaemonSocket, is_shortage};
use agent_worker_protocol::{
    AgentName, AttemptId, Effort, FailureClass, InstanceRef, Millis, MockTool, Permissions,
    SpendLimits, WorkerJob, WorkerOutcome,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    approval_gate::ToolApprovalGate, attachments::AttachedFile, attempt_sandbox::AttemptSandbox,
    child_env::ChildEnv, event_reporter::EventReporter, mcp_client::McpClient,
    structured_answer::AnswerSchema, tool_set::ToolSet, turn_messages::TurnMessages,
    worker_log::WorkerLog,
};

/// The input of a backend for one turn.
pub(crate) struct TurnContext {
    pub(crate) identity: TurnIdentity,
    pub(crate) request: TurnRequest,
    /// Rules for the program's own tools. The daemon decides by these rules; a program may be configured with them.
    pub(crate) permissions: Permissions,
    /// Tools with scripted results.
    pub(crate) mock_tools: Vec<MockTool>,
    /// Schemas of the team's tools, and calls to them.
    pub(crate) tools: ToolSet,
    /// Asks the daemon for permission of a call of the program.
    pub(crate) approvals: ToolApprovalGate,
    pub(crate) reporter: EventReporter,
    pub(crate) log: WorkerLog,
    /// Fires when the turn has to end. The backend then returns by itself.
    pub(crate) cancelled: CancellationToken,
    pub(crate) folders: TurnFolders,
    /// Working folder and environment of the child processes.
    pub(crate) child_env: ChildEnv,
    pub(crate) limits: TurnLimits,
    /// Sandbox of the program; none without one.
    pub(crate) sandbox: Option<AttemptSandbox>,
    /// Schema of the answer; none if any text is an answer.
    pub(crate) answer_schema: Option<Arc<AnswerSchema>>,
    /// The conversation that the program reported last.
    reported_session: Mutex<Option<Value>>,
    daemon: DaemonSocket,
}

/// Identifies the agent and the attempt.
pub(crate) struct TurnIdentity {
    pub(crate) agent: AgentName,
    pub(crate) instance: InstanceRef,
    /// The activation, which is the same for every attempt.
    pub(crate) activation: String,
    /// The number of the attempt, from 1.
    pub(crate) attempt: u32,
    pub(crate) attempt_id: AttemptId,
}

/// The input of the model.
pub(crate) struct TurnRequest {
    pub(crate) system_prompt: String,
    pub(crate) prompt: String,
    /// The bodies of the messages that woke the agent, without the rest of the prompt.
    pub(crate) woken_by: String,
    /// The model, as the workflow file writes it.
    pub(crate) model: Option<String>,
    /// Models to use if that one is overloaded or used up.
    pub(crate) fallback: Vec<String>,
    /// The effort of the model's reasoning.
    pub(crate) effort: Option<Effort>,
    /// The names of the team's agents.
    pub(crate) team: Vec<AgentName>,
    /// The conversation of the agent's previous turn, in the format of its backend.
    pub(crate) session: Option<Value>,
    /// Files that came with the messages of the prompt, which names their paths.
    pub(crate) attachments: Vec<AttachedFile>,
}

/// Private folders. The working folder is in `TurnContext::child_env`.
pub(crate) struct TurnFolders {
    /// Folder of this attempt.
    pub(crate) attempt: PathBuf,
    /// Folder that persists over the agent's turns in this run. The backend creates it.
    pub(crate) keep: PathBuf,
}

/// Limits that a backend enforces. The attempt enforces those on time.
pub(crate) struct TurnLimits {
    /// Maximum number of requests to the model.
    pub(crate) max_steps: Option<u32>,
    /// Maximum number of tokens of one answer of the model.
    pub(crate) max_tokens: Option<u32>,
    /// Limits of the run's cost and tokens.
    pub(crate) spend: SpendLimits,
}

/// The result of a turn that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnAnswer {
    pub(crate) text: String,
    /// Conversation that the next turn continues; a program reports its own as an event.
    pub(crate) session: Option<Value>,
}

/// The result of a turn that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnFailure {
    pub(crate) class: FailureClass,
    /// The cause, for people.
    pub(crate) why: String,
    /// The time before which the provider refuses further requests.
    pub(crate) retry_at: Option<Millis>,
    /// True if the machine lacked a resource: such a failure says nothing about the work.
    pub(crate) is_shortage: bool,
}

impl TurnContext {
    pub(crate) fn new(
        job: &WorkerJob,
        daemon: &DaemonSocket,
        reporter: &EventReporter,
        cancelled: CancellationToken,
    ) -> Self {
        let log = WorkerLog::new(&job.env);
        let tools = ToolSet::new(McpClient::new(daemon.clone()), reporter.clone(), log.clone());
        let approvals =
            ToolApprovalGate::new(daemon.clone(), job.attempt, reporter.clone(), tools.clone());
        Self {
            identity: TurnIdentity {
                agent: job.agent.clone(),
                instance: job.instance.clone(),
                activation: job.activation.clone(),
                attempt: job.number,
                attempt_id: job.attempt,
            },
            request: TurnRequest {
                system_prompt: job.system_prompt.clone(),
                prompt: job.prompt.clone(),
                woken_by: job.woken_by.clone(),
                model: job.model.clone(),
                fallback: job.fallback.clone(),
                effort: job.effort,
                team: job.team.clone(),
                session: job.session.clone(),
                attachments: Vec::new(),
            },
            permissions: job.permissions.clone(),
            mock_tools: job.mock_tools.clone(),
            tools,
            approvals,
            reporter: reporter.clone(),
            log,
            cancelled,
            folders: TurnFolders { attempt: job.folder.clone(), keep: job.keep.clone() },
            child_env: ChildEnv::new(job),
            limits: TurnLimits {
                max_steps: job.max_steps,
                max_tokens: job.max_tokens,
                spend: job.limits.spend,
            },
            sandbox: None,
            answer_schema: None,
            reported_session: Mutex::default(),
            daemon: daemon.clone(),
        }
    }

    /// Returns the daemon, with the token of the attempt.
    pub(crate) fn daemon(&self) -> &DaemonSocket {
        &self.daemon
    }

    /// Keeps the conversation that the program has reported.
    pub(crate) fn keep_session(&self, session: &Value) {
        let mut kept = self.reported_session.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(session.clone());
    }

    /// Returns the conversation that the program has reported last.
    pub(crate) fn take_session(&mut self) -> Option<Value> {
        self.reported_session.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns a receiver of the messages to the running turn.
    pub(crate) fn new_messages(&self) -> TurnMessages {
        let attempt = self.identity.attempt_id;
        TurnMessages::new(self.daemon.clone(), attempt, self.reporter.clone())
    }

    /// Runs `work` to its end, or until the turn is cancelled.
    pub(crate) async fn until_cancelled<T>(
        &self,
        work: impl Future<Output = Result<T, TurnFailure>>,
    ) -> Result<T, TurnFailure> {
        let done = self.cancelled.run_until_cancelled(work).await;
        done.unwrap_or_else(|| Err(TurnFailure::cancelled()))
    }
}

impl From<String> for TurnAnswer {
    fn from(text: String) -> Self {
        Self { text, session: None }
    }
}

impl TurnFailure {
    pub(crate) fn new(class: FailureClass, why: impl Into<String>) -> Self {
        Self { class, why: why.into(), retry_at: None, is_shortage: false }
    }

    /// Returns true if another model of another quota may succeed: this one is overloaded or used up.
    pub(crate) fn is_of_provider(&self) -> bool {
        match self.class {
            FailureClass::RateLimited | FailureClass::Transient | FailureClass::Billing => true,
            FailureClass::Crash
            | FailureClass::Timeout
            | FailureClass::ContextOverflow
            | FailureClass::Permission
            | FailureClass::Output
            | FailureClass::MissingProgram
            | FailureClass::OutdatedProgram
            | FailureClass::Fatal
            | FailureClass::Auth => false,
        }
    }

    /// Returns the failure of a turn that ended because it was cancelled. The attempt reports its own reason instead.
    pub(crate) fn cancelled() -> Self {
        Self::new(FailureClass::Fatal, "the turn was cancelled")
    }

    /// Returns the failure for an error of the system while the worker was `doing` something.
    pub(crate) fn from_io_error(doing: &str, error: &io::Error) -> Self {
        let failure = Self::new(FailureClass::Fatal, format!("could not {doing}: {error}"));
        Self { is_shortage: is_shortage(error), ..failure }
    }

    /// Returns the outcome for the report.
    pub(crate) fn outcome(self) -> WorkerOutcome {
        let Self { class, why, retry_at, is_shortage } = self;
        if is_shortage {
            return WorkerOutcome::Unstarted { why };
        }
        WorkerOutcome::Failed { class, why, retry_at }
    }
}
