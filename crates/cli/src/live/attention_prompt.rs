//! Sends the answers that a person gives by key in the live view to the daemon.
//!
//! The open requests and questions are read from the daemon, by the run's own id and folder; events only trigger that
//! read.

use std::{collections::BTreeSet, future::pending, path::PathBuf, pin::Pin, time::Duration};

use agent_worker_host::DialError;
use agent_worker_protocol::{
    Consent, ConsentScope, InstanceRef, Millis, Target,
    api::{AnswerRequest, ConsentRequest, RunStarted, RunView},
};
use uuid::Uuid;

use crate::{
    client::daemon_client::{CommandScope, DaemonClient, ScopeReach},
    error::CliError,
    live::{
        attention_panel::{AttentionPanel, ItemId, OpenItem, PanelDecision},
        controls::{ItemInput, PressedKeys},
    },
    output::{
        console::TerminalSize,
        styled_line::{StyledLine, Tone},
    },
};

/// Delay before a failed read of the open items is repeated.
const REFETCH_DELAY: Duration = Duration::from_secs(1);

/// The numbers of the requests and questions of a run without an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenItemIds {
    pub(crate) approvals: BTreeSet<i64>,
    pub(crate) questions: BTreeSet<i64>,
}

/// The open requests and questions of a run, and the panel that answers them.
pub(crate) struct AttentionPrompt {
    run: RunStarted,
    interactivity: Interactivity,
    panel: AttentionPanel,
    /// Items that were open at the last read: requests before questions, each oldest first.
    open_items: Vec<OpenItem>,
    /// Ids that were known to be open at that read.
    fetched_ids: OpenItemIds,
    refetch_at: Option<Millis>,
    /// Item whose answer is being sent.
    submitting: Option<ItemId>,
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
    Fetched(OpenItemIds, Result<Vec<OpenItem>, DialError>),
    Submitted(ItemId, Result<(), DialError>),
}

impl AttentionPrompt {
    pub(crate) fn new(run: RunStarted, interactivity: Interactivity) -> Self {
        Self {
            run,
            interactivity,
            panel: AttentionPanel::default(),
            open_items: Vec::new(),
            fetched_ids: OpenItemIds::default(),
            refetch_at: None,
            submitting: None,
            in_flight: None,
        }
    }

    /// Forgets the items that are no longer open.
    pub(crate) fn retain_open(&mut self, wanted: &OpenItemIds) {
        self.open_items.retain(|item| wanted.contains(item.id()));
        if self.open_items.is_empty() {
            self.panel.hide();
        }
    }

    /// Returns the input that the open items take.
    pub(crate) fn item_input(&self) -> ItemInput {
        match (self.open_items.is_empty(), self.panel.is_typing()) {
            (true, _) => ItemInput::None,
            (false, false) => ItemInput::Key,
            (false, true) => ItemInput::Text,
        }
    }

    /// Notes a key that is not for the items.
    pub(crate) fn note_other_key(&mut self, now: Millis) {
        self.panel.note_other_key(now);
    }

    /// Notes that no item is visible.
    pub(crate) fn hide(&mut self) {
        self.panel.hide();
    }

    /// Applies keys for the items, and reads the items again if other ids are open now.
    pub(crate) fn update(
        &mut self,
        wanted: OpenItemIds,
        pressed: &PressedKeys,
        client: &DaemonClient,
        now: Millis,
    ) {
        if self.interactivity == Interactivity::NonInteractive {
            return;
        }
        if !self.open_items.is_empty() {
            let decision = self.panel.decision_for_keys(&pressed.keys, pressed.at);
            if let (Some(decision), None) = (decision, self.submitting) {
                // This drops a read in progress; it is repeated afterwards.
                self.submitting = Some(decision.id());
                self.in_flight =
                    Some(Box::pin(submit_decision(client.clone(), self.run.clone(), decision)));
            }
        }
        let is_late = self.refetch_at.is_some_and(|at| now >= at);
        if self.in_flight.is_none() && (wanted != self.fetched_ids || is_late) {
            self.refetch_at = None;
            self.in_flight =
                Some(Box::pin(fetch_open_items(client.clone(), self.run.clone(), wanted)));
        }
    }

    /// Draws the item that can be answered now, within the given size.
    pub(crate) fn draw(&mut self, size: TerminalSize, now: Millis) -> Vec<StyledLine> {
        match (self.interactivity, self.submitting) {
            (Interactivity::Interactive, None) => self.panel.draw(&self.open_items, size, now),
            (Interactivity::Interactive | Interactivity::NonInteractive, _) => {
                self.panel.hide();
                Vec::new()
            }
        }
    }

    /// Ends the answers by key.
    pub(crate) fn close(&mut self) {
        self.interactivity = Interactivity::NonInteractive;
        self.panel.hide();
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
                (self.open_items, self.fetched_ids) = (open, wanted);
                None
            }
            PromptTaskResult::Fetched(wanted, Err(_)) => {
                self.fetched_ids = wanted;
                self.refetch_at = Some(now().plus(REFETCH_DELAY));
                None
            }
            PromptTaskResult::Submitted(id, answered) => {
                self.submitting = None;
                self.open_items.retain(|item| item.id() != id);
                self.refetch_at = Some(now().plus(REFETCH_DELAY));
                let error = CliError::from(answered.err()?);
                let what = format!("could not answer {id}: {}", error.to_report_error().message);
                Some(StyledLine::new(Tone::Warn, what))
            }
        }
    }
}

impl OpenItemIds {
    fn contains(&self, id: ItemId) -> bool {
        match id {
            ItemId::Approval(id) => self.approvals.contains(&id.get()),
            ItemId::Question(id) => self.questions.contains(&id.get()),
        }
    }
}

/// Reads the open requests and questions of a run.
async fn fetch_open_items(
    client: DaemonClient,
    run: RunStarted,
    wanted: OpenItemIds,
) -> PromptTaskResult {
    let read = async {
        let mut open = Vec::new();
        if wanted == OpenItemIds::default() {
            return Ok(open);
        }
        let RunView { project, .. } = client.run(run.run).await?;
        let target = Some(Target::instance(&run.instance));
        let scope = CommandScope { target, project, reach: ScopeReach::CurrentProject };
        if !wanted.approvals.is_empty() {
            let mut requests = client.approvals(&scope).await?;
            requests.retain(|request| request.run == run.run);
            open.extend(requests.into_iter().map(OpenItem::Approval));
        }
        if !wanted.questions.is_empty() {
            let mut questions = client.questions(&scope).await?;
            questions.retain(|question| question.run == run.run);
            open.extend(questions.into_iter().map(OpenItem::Question));
        }
        Ok(open)
    };
    let read = read.await;
    PromptTaskResult::Fetched(wanted, read)
}

async fn submit_decision(
    client: DaemonClient,
    run: RunStarted,
    decision: PanelDecision,
) -> PromptTaskResult {
    let id = decision.id();
    let answered = async {
        let RunView { project, .. } = client.run(run.run).await?;
        send_decision(&client, &run.instance, project, decision).await
    };
    PromptTaskResult::Submitted(id, answered.await)
}

/// Sends an answer to a request or a question of an instance.
pub(crate) async fn send_decision(
    client: &DaemonClient,
    instance: &InstanceRef,
    project: PathBuf,
    decision: PanelDecision,
) -> Result<(), DialError> {
    let key = Uuid::now_v7().to_string();
    let (target, project) = (Some(Target::instance(instance)), Some(project));
    let request = ConsentRequest { target, project, ..ConsentRequest::default() };
    let (id, consent, request) = match decision {
        PanelDecision::Approve(id) => (id, Consent::Approved, request),
        PanelDecision::ApproveForRun(id, pattern) => {
            // The user has seen this pattern.
            let (scope, pattern) = (ConsentScope::Run, Some(pattern));
            (id, Consent::Approved, ConsentRequest { scope, pattern, ..request })
        }
        PanelDecision::Deny(id, reason) => {
            (id, Consent::Denied, ConsentRequest { reason, ..request })
        }
        PanelDecision::Answer(id, answer) => {
            let ConsentRequest { target, project, .. } = request;
            let request = AnswerRequest { target, project, answer };
            return client.question_answer(&key, id, &request).await.map(drop);
        }
    };
    client.approval_decide(&key, id, consent, &request).await.map(drop)
}
