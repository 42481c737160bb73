//! The way to start an ended run again: `restart` needs the file of the run. Pure.

use agent_worker_protocol::{InstanceRef, Target, api::RunView};

/// The way to start a run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RestartMethod {
    /// `agent-worker restart` starts it from its file.
    Command(Target),
    /// The daemon deletes the run and its file's path after its end (`provider: memory`).
    SameCommand,
    /// The run has no file: `agent-worker new` created the instance.
    NewAgents(InstanceRef),
}

impl RestartMethod {
    /// Returns the method for a run.
    pub(crate) fn of(run: &RunView) -> Self {
        match &run.file {
            _ if run.memory && !run.state.is_live() => Self::SameCommand,
            Some(_) => Self::Command(Target::instance(&run.instance)),
            None => Self::NewAgents(run.instance.clone()),
        }
    }

    /// Returns the action after `then:`.
    pub(crate) fn action(&self) -> String {
        match self {
            Self::Command(target) => format!("agent-worker restart {target}"),
            Self::SameCommand => "run the same command again".to_owned(),
            Self::NewAgents(instance) => {
                format!("agent-worker new NAME --instance {instance} -b BACKEND")
            }
        }
    }

    /// Returns the hint for an ended run.
    pub(crate) fn hint(&self) -> String {
        let action = self.action();
        match self {
            Self::Command(_) => format!("restart it: {action}"),
            Self::SameCommand => "start it again with the command that started it".to_owned(),
            Self::NewAgents(_) => format!("no file started it; add its agents again: {action}"),
        }
    }

    /// Returns the hint for a run with an unknown cause of its failure.
    pub(crate) fn after_fix(&self) -> String {
        let action = self.action();
        match self {
            Self::Command(_) => format!("fix the cause and restart: {action}"),
            Self::SameCommand => format!("fix the cause and {action}"),
            Self::NewAgents(_) => format!("fix the cause and add its agents again: {action}"),
        }
    }

    /// Returns the condition that would start the run again.
    pub(crate) fn condition(&self) -> String {
        let action = self.action();
        match self {
            Self::Command(_) => format!("the run is restarted: {action}"),
            Self::SameCommand => "the command that started it runs again".to_owned(),
            Self::NewAgents(_) => format!("an agent is added: {action}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::RunState;

    use super::*;
    use crate::output::samples;

    #[test]
    fn restart_is_named_only_for_a_run_that_it_can_start() {
        let memory = RunView { memory: true, ..samples::run() };
        let live = RunView { state: RunState::Running, ..memory.clone() };
        let without_file = RunView { file: None, ..samples::run() };
        for (run, expected) in [
            (samples::run(), "agent-worker restart @review:pr-1"),
            (live, "agent-worker restart @review:pr-1"),
            (memory, "run the same command again"),
            (without_file, "agent-worker new NAME --instance review:pr-1 -b BACKEND"),
        ] {
            assert_eq!(RestartMethod::of(&run).action(), expected);
        }
    }
}
