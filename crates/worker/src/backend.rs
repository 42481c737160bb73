//! The seam between an attempt and its agent: one trait for the tool loop, programs and agents of the Agent Client
//! Protocol.

use agent_worker_protocol::{Backend, WorkerJob};
use async_trait::async_trait;

use crate::{
    api_backend::ApiBackend,
    mock::MockModel,
    program::{AcpBackend, ProgramBackend},
    tool_loop::{StepAuthor, ToolLoop},
    turn::{TurnAnswer, TurnContext, TurnFailure},
};

/// Carries out the turns of an agent.
///
/// Invariant: after `TurnContext::cancelled` fires, `turn` returns by itself, soon, with any result. The attempt
/// ends the processes that are left and reports the reason for the cancellation.
#[async_trait]
pub(crate) trait AgentBackend: Send {
    /// Runs one turn to its answer.
    async fn turn(&mut self, turn: TurnContext) -> Result<TurnAnswer, TurnFailure>;
}

/// Returns the backend of a job. Fails for a backend that the registry does not have.
pub(crate) fn backend_for(job: &WorkerJob) -> Result<Box<dyn AgentBackend>, TurnFailure> {
    Ok(match &job.backend {
        Backend::Mock { rules } => {
            Box::new(ToolLoop::new(MockModel::new(rules, job), StepAuthor::Script))
        }
        Backend::Api(api) => Box::new(ApiBackend::new(api.clone(), job.env.clone())),
        Backend::Native(native) => Box::new(ProgramBackend::native(native)?),
        Backend::Acp(acp) => Box::new(AcpBackend::new(acp)?),
        Backend::Command { command } => Box::new(ProgramBackend::executable(command)),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agent_worker_host::DaemonSocket;
    use serde_json::{Value, json};
    use tokio::time::{Instant, timeout};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::event_reporter::EventReporter;
    use crate::turn_history::TurnHistory;

    fn job(folder: &std::path::Path, backend: &Value) -> WorkerJob {
        let job = json!({
            "attempt": uuid::Uuid::nil(), "activation": "coder/7", "number": 1, "agent": "coder",
            "instance": "review:pr-1", "socket": folder.join("daemon.sock"), "token": "s3cret",
            "folder": folder, "keep": folder.join("keep"), "cwd": folder, "env": {"PATH": "/usr/bin:/bin"},
            "system_prompt": "", "prompt": "", "woken_by": "", "backend": backend, "max_steps": 30,
            "limits": {"wall": "30s", "silence": "30s", "orphan_grace": "30s", "kill_grace": "1s"},
        });
        serde_json::from_value(job).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn every_backend_ends_by_itself_when_its_turn_is_cancelled() {
        for backend in [
            json!({"backend": "mock", "rules": [{"fail": "hang"}]}),
            json!({"backend": "api", "provider": "ollama", "model": "any"}),
            json!({"backend": "native", "cli": "claude", "command": ["cat"]}),
            json!({"backend": "acp", "command": ["cat"]}),
            json!({"backend": "command", "command": ["cat"]}),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let job = job(folder.path(), &backend);
            let daemon = DaemonSocket::at(job.socket.clone());
            let hour = Duration::from_hours(1);
            let reporter = EventReporter::open(
                folder.path(),
                job.attempt,
                daemon.clone(),
                hour,
                TurnHistory::default(),
            )
            .unwrap();
            let cancelled = CancellationToken::new();
            let turn = TurnContext::new(&job, &daemon, &reporter, cancelled.clone());
            let mut agent = backend_for(&job).unwrap();
            let mut running = agent.turn(turn);
            // No daemon is running: programs wait for the schemas of their tools.
            let early = timeout(Duration::from_secs(5), &mut running).await;
            assert!(early.is_err(), "{backend}: {early:?}");
            cancelled.cancel();
            let began = Instant::now();
            assert_eq!(running.await, Err(TurnFailure::cancelled()), "{backend}");
            assert_eq!(began.elapsed(), Duration::ZERO, "{backend}");
        }
    }
}
