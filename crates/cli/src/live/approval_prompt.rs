//! Carries to the daemon what a person says with a key to what an agent asks for, in the live view.
//!
//! What is open is read from the daemon, by the run's own id and folder: events only say when to look.

use std::{collections::BTreeSet, future::pending, pin::Pin, time::Duration};

use agent_worker_host::DialError;
use agent_worker_protocol::{
    ApprovalId, Consent, Millis, Target,
    api::{ApprovalView, ConsentRequest, RunStarted, RunView},
};
use uuid::Uuid;

use crate::{
    client::daemon_client::{CommandScope, DaemonClient, ScopeReach},
    error::CliError,
    live::{
        approval_panel::ApprovalPanel,
        keyboard::{KeyCapture, KeyReader},
    },
    output::{
        console::TerminalSize,
        styled_line::{StyledLine, Tone},
    },
};

/// How long to wait before looking again where looking failed.
const APPROVALS_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Whoever is at the keyboard, and what they are asked.
pub(crate) struct ApprovalPrompt {
    run: RunStarted,
    interactivity: Interactivity,
    keys: KeyReader,
    panel: ApprovalPanel,
    /// What was open when it was last looked, oldest first.
    open_requests: Vec<ApprovalView>,
    /// What was known to be open then.
    fetched_ids: BTreeSet<i64>,
    refetch_at: Option<Millis>,
    /// The request that is being answered.
    submitting: Option<ApprovalId>,
    /// What is under way.
    in_flight: Option<Pin<Box<dyn Future<Output = PromptTaskResult> + Send>>>,
}

/// Whether anybody can answer with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interactivity {
    /// A person who reads along in a terminal that can be drawn on.
    Interactive,
    /// Nobody.
    NonInteractive,
}

enum PromptTaskResult {
    Fetched(BTreeSet<i64>, Result<Vec<ApprovalView>, DialError>),
    Submitted(ApprovalId, Result<ApprovalView, DialError>),
}

impl ApprovalPrompt {
    pub(crate) fn new(run: RunStarted, interactivity: Interactivity) -> Self {
        Self {
            run,
            interactivity,
            keys: KeyReader::default(),
            panel: ApprovalPanel::default(),
            open_requests: Vec::new(),
            fetched_ids: BTreeSet::new(),
            refetch_at: None,
            submitting: None,
            in_flight: None,
        }
    }

    /// Takes in what is wanted now and which keys were pressed.
    pub(crate) fn update(&mut self, wanted: BTreeSet<i64>, client: &DaemonClient, now: Millis) {
        if self.interactivity == Interactivity::NonInteractive {
            return;
        }
        self.open_requests.retain(|request| wanted.contains(&request.id.get()));
        if self.open_requests.is_empty() {
            self.keys.stop_capture();
            self.panel.hide();
        } else {
            match self.keys.start_capture() {
                KeyCapture::Active => {}
                KeyCapture::Started | KeyCapture::Unavailable => self.panel.hide(),
            }
            let said = self.panel.decision_for_keys(&self.keys.read_pressed(), now);
            if let (Some((id, consent)), None) = (said, self.submitting) {
                // A look that was under way is taken again afterwards.
                self.submitting = Some(id);
                self.in_flight =
                    Some(Box::pin(submit_decision(client.clone(), self.run.clone(), id, consent)));
            }
        }
        let is_late = self.refetch_at.is_some_and(|at| now >= at);
        if self.in_flight.is_none() && (wanted != self.fetched_ids || is_late) {
            self.refetch_at = None;
            self.in_flight =
                Some(Box::pin(fetch_open_approvals(client.clone(), self.run.clone(), wanted)));
        }
    }

    /// The request that can be answered now, in so much room.
    pub(crate) fn draw(&mut self, room: TerminalSize, now: Millis) -> Vec<StyledLine> {
        match (self.interactivity, self.submitting) {
            (Interactivity::Interactive, None)
                if self.keys.start_capture() != KeyCapture::Unavailable =>
            {
                self.panel.draw(&self.open_requests, room, now)
            }
            (Interactivity::Interactive | Interactivity::NonInteractive, _) => {
                self.panel.hide();
                Vec::new()
            }
        }
    }

    /// Leaves the terminal as it was.
    pub(crate) fn close(&mut self) {
        self.interactivity = Interactivity::NonInteractive;
        self.keys.stop_capture();
    }

    /// Waits until what is under way is done; for ever if nothing is. May be dropped while it waits.
    pub(crate) async fn wait_in_flight(&mut self, now: impl Fn() -> Millis) -> Option<StyledLine> {
        let done = match &mut self.in_flight {
            Some(in_flight) => in_flight.await,
            None => pending().await,
        };
        self.in_flight = None;
        match done {
            PromptTaskResult::Fetched(wanted, Ok(open)) => {
                (self.open_requests, self.fetched_ids) = (open, wanted);
                None
            }
            PromptTaskResult::Fetched(wanted, Err(_)) => {
                self.fetched_ids = wanted;
                self.refetch_at = Some(now().plus(APPROVALS_RETRY_DELAY));
                None
            }
            PromptTaskResult::Submitted(id, answered) => {
                self.submitting = None;
                self.open_requests.retain(|request| request.id != id);
                self.refetch_at = Some(now().plus(APPROVALS_RETRY_DELAY));
                let error = CliError::from(answered.err()?);
                let what =
                    format!("request #{id} is not answered: {}", error.to_report_error().message);
                Some(StyledLine::new(Tone::Warn, what))
            }
        }
    }
}

/// What is open in a run.
async fn fetch_open_approvals(
    client: DaemonClient,
    run: RunStarted,
    wanted: BTreeSet<i64>,
) -> PromptTaskResult {
    let looked = async {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let RunView { project, .. } = client.run(run.run).await?;
        let target = Some(Target::instance(&run.instance));
        let mut open = client
            .approvals(&CommandScope { target, project, reach: ScopeReach::CurrentProject })
            .await?;
        open.retain(|request| request.run == run.run);
        Ok(open)
    };
    let looked = looked.await;
    PromptTaskResult::Fetched(wanted, looked)
}

async fn submit_decision(
    client: DaemonClient,
    run: RunStarted,
    id: ApprovalId,
    consent: Consent,
) -> PromptTaskResult {
    let answered = async {
        let RunView { project, .. } = client.run(run.run).await?;
        let target = Some(Target::instance(&run.instance));
        let request = ConsentRequest { target, project: Some(project), reason: None };
        client.approval_decide(&Uuid::now_v7().to_string(), id, consent, &request).await
    };
    let answered = answered.await;
    PromptTaskResult::Submitted(id, answered)
}
