//! Notices for a person who may not be watching: the events that need one, and whether the need still exists.
//!
//! The kernel returns facts. The interface that delivers a notice words it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use agent_worker_protocol::{
    AgentName, BASE_ENV, Event, EventBody, InstanceRef, Millis, NotificationFailedData,
    NotifyOccasion, NotifySettings, NotifyWhen, Outcome, PauseCause, Position, ProposalState,
    RunDefaults, RunId, RunState, Sender,
};
use agent_worker_store::{ApprovalQuery, Error as StoreError, QuestionQuery, RunRow};
use agent_worker_workflow::Workflow;
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    kernel::{Kernel, Principal},
    runs::file_paths::resolve_command,
};

/// The notifications of a run, kept until the run ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifyPlan {
    /// Effective settings: those of the workflow file, else of the user.
    pub settings: NotifySettings,
    /// Environment of the commands that notify the user.
    pub env: BTreeMap<String, String>,
    /// Folder of the workflow file, in which the command runs.
    pub folder: PathBuf,
}

/// One thing that a person should learn about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonNotice {
    /// Position of the event in the log of the instance.
    pub position: Position,
    /// Occasion of the notice.
    pub occasion: NotifyOccasion,
    /// Instance of the run.
    pub instance: InstanceRef,
    /// Folder of the workflow file.
    pub project: String,
    /// Run of the event.
    pub run: RunId,
    /// Agent that asks.
    pub agent: Option<AgentName>,
    /// Words of the event: a question, a call, a limit, a failure. An agent may have written them.
    pub detail: String,
    /// Time of the event.
    pub time: Millis,
}

/// Finds the notices in the events of a run.
#[derive(Clone, Copy)]
pub struct PersonNotices<'k>(pub(crate) &'k Kernel);

/// Returns the occasion of an event, if a person should learn of it.
pub fn notify_occasion(body: &EventBody) -> Option<NotifyOccasion> {
    match body {
        EventBody::QuestionOpen(_) => Some(NotifyOccasion::Question),
        EventBody::ApprovalOpen(_) => Some(NotifyOccasion::Approval),
        EventBody::ProposalActive(_) => Some(NotifyOccasion::Vote),
        EventBody::RunPaused(paused) => match paused.cause {
            PauseCause::Limit { .. } => Some(NotifyOccasion::Limit),
            PauseCause::Interrupted => Some(NotifyOccasion::Interrupted),
            // The questions, requests and proposals have notices of their own.
            PauseCause::Human | PauseCause::User => None,
        },
        EventBody::RunEnded(ended) => match ended.outcome {
            Outcome::Done => Some(NotifyOccasion::Done),
            Outcome::Failed => Some(NotifyOccasion::Failed),
            Outcome::Stopped => None,
        },
        _ => None,
    }
}

impl NotifyPlan {
    /// Returns the plan of a run; none if it has no channel. The paths of the file's command start at its folder.
    pub(crate) fn of_run(
        workflow: &Workflow,
        defaults: &RunDefaults,
        folder: &Path,
        env: &BTreeMap<String, String>,
    ) -> Option<Self> {
        let mut of_file = workflow.notify.clone();
        if let Some(command) = &mut of_file.command {
            resolve_command(folder, command);
        }
        let settings = of_file.or(defaults.notify.clone());
        let base = env.iter().filter(|(name, _)| BASE_ENV.contains(&name.as_str()));
        let mut env: BTreeMap<String, String> =
            base.map(|(name, value)| (name.clone(), value.clone())).collect();
        env.extend(defaults.notify_env.clone());
        settings.has_any_channel().then(|| Self { settings, env, folder: folder.to_owned() })
    }
}

impl PersonNotices<'_> {
    /// Returns the notice of an event; none if no person needs it, if a person follows the run, or if the need has
    /// been met meanwhile.
    pub async fn of_event(
        self,
        event: &Event,
        settings: &NotifySettings,
    ) -> Result<Option<PersonNotice>> {
        let occasion = notify_occasion(&event.body).filter(|one| settings.includes(*one));
        let (Some(occasion), Some(run), Some(position)) = (occasion, event.run, event.pos) else {
            return Ok(None);
        };
        if settings.when.unwrap_or_default() == NotifyWhen::Unwatched
            && self.is_watched(run, occasion)
        {
            return Ok(None);
        }
        let row = self.0.store.run_get(run).await?;
        let Some(detail) = self.open_need(&row, &event.body).await? else { return Ok(None) };
        Ok(Some(PersonNotice {
            position,
            occasion,
            instance: row.instance,
            project: row.project,
            run,
            agent: event.agent.clone(),
            detail,
            time: event.ts,
        }))
    }

    /// Records that a notification could not be delivered, in the log of a live run.
    pub async fn record_failure(self, run: RunId, failure: NotificationFailedData) -> Result<()> {
        let body = EventBody::NotificationFailed(failure);
        match self.0.store.event_append(run, body, None, self.0.now()).await {
            // Nothing is added to the log of an ended run.
            Ok(()) | Err(StoreError::NoRun) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns true if a person follows the run. A watch ends with its run, perhaps before the event is examined.
    fn is_watched(self, run: RunId, occasion: NotifyOccasion) -> bool {
        match occasion {
            NotifyOccasion::Question | NotifyOccasion::Approval | NotifyOccasion::Vote => {
                self.0.viewers.is_present(run)
            }
            NotifyOccasion::Limit
            | NotifyOccasion::Interrupted
            | NotifyOccasion::Failed
            | NotifyOccasion::Done => self.0.viewers.was_present(run),
        }
    }

    /// Returns the words of a need that still exists.
    async fn open_need(self, row: &RunRow, body: &EventBody) -> Result<Option<String>> {
        Ok(match (body, &row.state) {
            (
                EventBody::QuestionOpen(_)
                | EventBody::ApprovalOpen(_)
                | EventBody::ProposalActive(_),
                RunState::Ended { .. },
            ) => None,
            (EventBody::QuestionOpen(data), _) => {
                let open = self.0.store.question_list(row.workflow, QuestionQuery::Open).await?;
                let asked = open.into_iter().find(|one| one.id == data.question);
                asked.map(|one| match &one.options[..] {
                    [] => one.question,
                    options => format!("{} ({})", one.question, options.join(" | ")),
                })
            }
            (EventBody::ApprovalOpen(data), _) => {
                let open = self.0.store.approval_list(row.workflow, ApprovalQuery::Open).await?;
                let asked = open.into_iter().find(|one| one.id == data.approval);
                asked.map(|one| format!("{} {}", one.tool, one.args))
            }
            (EventBody::ProposalActive(data), _) => {
                let found = self.0.store.proposal_get(row.workflow, data.proposal, self.0.now());
                let open = found.await?.filter(|it| it.state == ProposalState::Active);
                let waits = open.filter(|it| it.missing_voters().contains(&&Sender::User));
                waits.map(|it| it.terms.title)
            }
            (
                EventBody::RunPaused(data),
                RunState::Paused { cause: PauseCause::Limit { .. } | PauseCause::Interrupted },
            ) => Some(data.cause.to_string()),
            (EventBody::RunEnded(data), _) => {
                Some(data.error.as_ref().map(|error| error.message.clone()).unwrap_or_default())
            }
            _ => None,
        })
    }
}

/// Refuses the settings of a caller who is not the user: a notification runs a command of the user.
pub(crate) fn require_own_defaults(
    who: &Principal,
    defaults: Option<Box<RunDefaults>>,
) -> Result<RunDefaults> {
    match (who, defaults) {
        (_, None) => Ok(RunDefaults::default()),
        (Principal::User, Some(defaults)) => Ok(*defaults),
        (Principal::Agent(_) | Principal::Client(_) | Principal::Anonymous, Some(_)) => {
            Err(Error::Forbidden("only the user may give `defaults` for a run"))
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{
        LimitKind, ProposalActiveData, ProposalId, QuestionData, QuestionId, RunEndedData,
        RunPausedData, RunRunningData,
    };

    use super::*;

    #[test]
    fn questions_limits_and_ends_are_occasions_and_a_stop_by_the_user_is_none() {
        let ended = |outcome| EventBody::RunEnded(RunEndedData { outcome, error: None });
        let paused = |cause| EventBody::RunPaused(RunPausedData { cause });
        let limit = PauseCause::limit(LimitKind::Turns, "1 allowed".to_owned());
        let question = QuestionData { question: QuestionId::new(1) };
        let proposal = ProposalActiveData { proposal: ProposalId::new(1) };
        let proposal = EventBody::ProposalActive(proposal);
        for (body, occasion) in [
            (EventBody::QuestionOpen(question.clone()), Some(NotifyOccasion::Question)),
            (EventBody::QuestionAnswered(question), None),
            (paused(limit), Some(NotifyOccasion::Limit)),
            (paused(PauseCause::Interrupted), Some(NotifyOccasion::Interrupted)),
            (proposal, Some(NotifyOccasion::Vote)),
            (paused(PauseCause::User), None),
            (paused(PauseCause::Human), None),
            (ended(Outcome::Done), Some(NotifyOccasion::Done)),
            (ended(Outcome::Failed), Some(NotifyOccasion::Failed)),
            (ended(Outcome::Stopped), None),
            (EventBody::RunRunning(RunRunningData {}), None),
        ] {
            assert_eq!(notify_occasion(&body), occasion, "{body:?}");
        }
    }
}
