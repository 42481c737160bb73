//! Sends the decisions that a person makes by key in the live view to the daemon.
//!
//! The open requests are read from the daemon, by the run's own id and folder; events only trigger that read.

use std::{collections::BTreeSet, future::pending, pin::Pin, time::Duration};

use agent_worker_host::DialError;
use agent_worker_protocol::{
    ApprovalId, Consent, ConsentScope, Millis, Target,
    api::{ApprovalView, ConsentRequest, RunStarted, RunView},
};
use uuid::Uuid;

use crate::{
    client::daemon_client::{CommandScope, DaemonClient, ScopeReach},
    error::CliError,
    live::{
        approval_panel::{ApprovalPanel, PanelDecision},
        keyboard::{KeyCapture, KeyReader},
    },
    output::{
        console::TerminalSize,
        styled_line::{StyledLine, Tone},
    },
};

/// Delay before a failed read of the open requests is repeated.
const APPROVALS_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The open requests of a run and the keyboard that answers them.
pub(crate) struct ApprovalPrompt {
    run: RunStarted,
    interactivity: Interactivity,
    keys: KeyReader,
    panel: ApprovalPanel,
    /// Requests that were open at the last read, oldest first.
    open_requests: Vec<ApprovalView>,
    /// Ids that were known to be open at that read.
    fetched_ids: BTreeSet<i64>,
    refetch_at: Option<Millis>,
    /// Request whose answer is being sent.
    submitting: Option<ApprovalId>,
    /// Call to the daemon in progress.
    in_flight: Option<Pin<Box<dyn Future<Output = PromptTaskResult> + Send>>>,
}

/// The ability of the user to answer with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interactivity {
    /// A person at a terminal that can be drawn on.
    Interactive,
    /// No user with a key.
    NonInteractive,
}

enum PromptTaskResult {
    Fetched(BTreeSet<i64>, Result<Vec<ApprovalView>, DialError>),
    Submitted(ApprovalId, Result<(), DialError>),
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

    /// Processes the ids that are open now and the keys that were pressed.
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
            let decision = self.panel.decision_for_keys(&self.keys.read_pressed(), now);
            if let (Some((id, decision)), None) = (decision, self.submitting) {
                // This drops a read in progress; it is repeated afterwards.
                self.submitting = Some(id);
                self.in_flight =
                    Some(Box::pin(submit_decision(client.clone(), self.run.clone(), id, decision)));
            }
        }
        let is_late = self.refetch_at.is_some_and(|at| now >= at);
        if self.in_flight.is_none() && (wanted != self.fetched_ids || is_late) {
            self.refetch_at = None;
            self.in_flight =
                Some(Box::pin(fetch_open_approvals(client.clone(), self.run.clone(), wanted)));
        }
    }

    /// Draws the request that can be answered now, within the given size.
    pub(crate) fn draw(&mut self, size: TerminalSize, now: Millis) -> Vec<StyledLine> {
        match (self.interactivity, self.submitting) {
            (Interactivity::Interactive, None)
                if self.keys.start_capture() != KeyCapture::Unavailable =>
            {
                self.panel.draw(&self.open_requests, size, now)
            }
            (Interactivity::Interactive | Interactivity::NonInteractive, _) => {
                self.panel.hide();
                Vec::new()
            }
        }
    }

    /// Restores the terminal's modes.
    pub(crate) fn close(&mut self) {
        self.interactivity = Interactivity::NonInteractive;
        self.keys.stop_capture();
    }

    /// Waits for the call in progress, forever if there is none. Cancel safe.
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
                    format!("could not answer request #{id}: {}", error.to_report_error().message);
                Some(StyledLine::new(Tone::Warn, what))
            }
        }
    }
}

/// Reads the open requests of a run.
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
    decision: PanelDecision,
) -> PromptTaskResult {
    let (consent, scope, pattern) = match decision {
        PanelDecision::Approve => (Consent::Approved, ConsentScope::Call, None),
        // The user has seen this pattern.
        PanelDecision::ApproveForRun(pattern) => {
            (Consent::Approved, ConsentScope::Run, Some(pattern))
        }
        PanelDecision::Deny => (Consent::Denied, ConsentScope::Call, None),
    };
    let answered = async {
        let RunView { project, .. } = client.run(run.run).await?;
        let target = Some(Target::instance(&run.instance));
        let request =
            ConsentRequest { target, project: Some(project), reason: None, scope, pattern };
        client.approval_decide(&Uuid::now_v7().to_string(), id, consent, &request).await
    };
    PromptTaskResult::Submitted(id, answered.await.map(drop))
}
