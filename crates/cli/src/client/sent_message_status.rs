//! Waits for the outcome of a sent message.
//!
//! Events only trigger a poll; the daemon's state decides. The run is read before the receipts: a run that does not
//! continue starts nothing, so a delivery that is still pending after that will not be acted on.

use std::time::Duration;

use agent_worker_host::{DialError, EventStream};
use agent_worker_protocol::{
    AgentName, AgentState, DeliveryState, Event, EventKind, Receipt, RunState, Target,
    api::{ReportError, RunView, SendReply},
    is_ancestor_or_descendant,
};
use tokio::time::{sleep, timeout};

use crate::{
    client::{
        daemon_client::{CommandScope, DaemonClient, FeedSource, ScopeReach},
        discovery,
    },
    error::CliError,
    input::settings::CliSettings,
    output::{
        next_steps::{agent_next_steps, wait_step},
        verdict::RunVerdict,
    },
};

/// Maximum time to wait for an event before a poll.
const RECEIPT_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Delay before a request to a daemon that went away.
const RECONNECT_DELAY: Duration = Duration::from_millis(200);
/// Maximum number of lost connections in a row without a successful request.
const MAX_CONNECTION_LOSSES: u32 = 5;

/// The final state of a message's deliveries.
#[derive(Debug)]
pub(crate) struct SentMessageStatus {
    /// Receipts of the woken agents, one each.
    pub(crate) receipts: Vec<Receipt>,
    /// Woken agents without a stored receipt.
    pub(crate) without_receipt: Vec<AgentName>,
    /// Run of the message, or a later one of the same instance; `None` if no run is left.
    run: Option<RunView>,
}

/// An update during a wait.
pub(crate) enum WaitUpdate<'a> {
    /// An event of the instance.
    Event(&'a Event),
    /// The wait continues with a daemon that is held.
    Held,
}

/// A callback for the updates during a wait.
pub(crate) type Listener<'a> = &'a mut dyn FnMut(WaitUpdate<'_>);

/// Waits until every woken agent has acted on the message or will not.
pub(crate) async fn wait_until_final(
    reply: &SendReply,
    settings: &CliSettings,
    listener: Listener<'_>,
) -> Result<SentMessageStatus, CliError> {
    let client = discovery::connect_or_start(settings).await?;
    let from_now = None;
    wait_until_final_with_listener(reply, settings, &client, from_now, listener).await
}

/// Waits likewise and passes every update to `listener`: the events of `events`, opened before the message was sent, and all
/// later ones.
pub(crate) async fn wait_until_final_with_listener(
    reply: &SendReply,
    settings: &CliSettings,
    client: &DaemonClient,
    mut events: Option<EventStream>,
    listener: Listener<'_>,
) -> Result<SentMessageStatus, CliError> {
    let scope = recipient_scope(client, reply, settings).await;
    let mut client = client.clone();
    let mut losses = 0;
    loop {
        match watch_until_final(&client, events.take(), reply, &scope, &mut losses, listener).await
        {
            Ok(DeliveryWatchEnd::Final(delivery_status)) => return Ok(*delivery_status),
            Ok(DeliveryWatchEnd::Closed) => {
                let found = discovery::wait_for_successor(settings).await?;
                if found.is_held() {
                    listener(WaitUpdate::Held);
                }
                client = found.client;
            }
            Err(error @ (DialError::Lost { .. } | DialError::Absent { .. })) => {
                losses += 1;
                if losses > MAX_CONNECTION_LOSSES {
                    return Err(error.into());
                }
                sleep(RECONNECT_DELAY * losses).await;
                let found = discovery::discover_or_start(settings).await?;
                if found.is_held() {
                    listener(WaitUpdate::Held);
                }
                client = found.client;
            }
            Err(other) => return Err(other.into()),
        }
    }
}

/// Returns the scope of the message's instance. The message went to a live run, which may belong to another folder than
/// an ended instance of the same name here.
async fn recipient_scope(
    client: &DaemonClient,
    reply: &SendReply,
    settings: &CliSettings,
) -> CommandScope {
    let (target, reach) = (None, ScopeReach::AllProjects);
    let everywhere = CommandScope { target, project: settings.cwd.clone(), reach };
    // Without an answer the folder of the caller is the best guess; the wait itself reports a lost connection.
    let mut live = client.instances(&everywhere).await.unwrap_or_default();
    live.retain(|one| one.instance == reply.instance && one.live.is_some());
    live.sort_by_key(|one| !is_ancestor_or_descendant(&one.project, &settings.cwd));
    let project = live.into_iter().next().map_or_else(|| settings.cwd.clone(), |one| one.project);
    CommandScope::for_instance(&reply.instance, project)
}

enum DeliveryWatchEnd {
    Final(Box<SentMessageStatus>),
    /// The daemon stopped in good order.
    Closed,
}

async fn watch_until_final(
    client: &DaemonClient,
    events: Option<EventStream>,
    reply: &SendReply,
    scope: &CommandScope,
    losses: &mut u32,
    listener: Listener<'_>,
) -> Result<DeliveryWatchEnd, DialError> {
    // Events from now on; the poll that starts after the stream is open covers earlier ones.
    let from_now = None;
    let mut events = match events {
        Some(events) => events,
        None => client.events(&FeedSource::Scope(scope.clone()), from_now).await?,
    };
    loop {
        let runs = client.recent_runs(scope).await?;
        let run = runs.into_iter().find(|run| run.instance == reply.instance);
        let mut receipts = client.receipts(scope, reply.seq).await?;
        receipts.retain(|receipt| reply.woken.contains(&receipt.agent));
        *losses = 0;
        let has_one = |name: &AgentName| receipts.iter().any(|receipt| receipt.agent == *name);
        let forgotten = reply.woken.iter().filter(|name| !has_one(name)).cloned().collect();
        let delivery_status = SentMessageStatus { receipts, without_receipt: forgotten, run };
        if delivery_status.is_final() {
            return Ok(DeliveryWatchEnd::Final(Box::new(delivery_status)));
        }
        // Without an event for this long, one may have been missed.
        let reason = timeout(RECEIPT_POLL_INTERVAL, next_poll_trigger(&mut events, listener))
            .await
            .unwrap_or(Ok(PollTrigger::Event));
        match reason? {
            PollTrigger::Event => {}
            PollTrigger::Closed => {
                sleep(RECONNECT_DELAY).await;
                return Ok(DeliveryWatchEnd::Closed);
            }
        }
    }
}

enum PollTrigger {
    Event,
    Closed,
}

async fn next_poll_trigger(
    events: &mut EventStream,
    listener: Listener<'_>,
) -> Result<PollTrigger, DialError> {
    while let Some((_, event)) = events.next().await? {
        listener(WaitUpdate::Event(&event));
        if may_change_delivery(&event) {
            return Ok(PollTrigger::Event);
        }
    }
    Ok(PollTrigger::Closed)
}

/// Returns whether an event may have decided a delivery.
fn may_change_delivery(event: &Event) -> bool {
    matches!(
        event.kind(),
        Some(
            EventKind::AttemptEnded
                | EventKind::DeliveryDead
                | EventKind::DeliveryDropped
                | EventKind::AgentStopped
                | EventKind::RunPaused
                | EventKind::RunEnded
        )
    )
}

impl SentMessageStatus {
    /// Returns whether the deliveries will not change for now; a turn that has begun is finished even if the run is
    /// paused.
    fn is_final(&self) -> bool {
        let run = self.run.as_ref().map(|run| &run.state);
        self.receipts.iter().all(|receipt| match (receipt.state, run) {
            (DeliveryState::Acted | DeliveryState::Dead | DeliveryState::Dropped, _)
            | (_, Some(RunState::Ended { .. }) | None)
            | (DeliveryState::Pending, Some(RunState::Paused { .. })) => true,
            (DeliveryState::Pending, Some(_)) => self.agent_stop_reason(&receipt.agent).is_some(),
            (DeliveryState::Leased, Some(_)) => false,
        })
    }

    /// Returns the reason why an agent is no longer woken while its run is live.
    fn agent_stop_reason(&self, agent: &AgentName) -> Option<String> {
        let run = self.run.as_ref().filter(|run| run.state.is_live())?;
        let view = run.agents.iter().find(|view| view.name == *agent)?;
        match &view.state {
            AgentState::Stopped { .. } => Some(view.state.to_string()),
            AgentState::Idle
            | AgentState::Queued { .. }
            | AgentState::Running { .. }
            | AgentState::BackingOff { .. }
            | AgentState::Parked { .. }
            | AgentState::Waiting { .. }
            | AgentState::Paused { .. }
            | AgentState::Stopping => None,
        }
    }

    /// Returns the verdict; the run's state is the verdict if it prevented a delivery.
    pub(crate) fn verdict(&self) -> RunVerdict {
        let is = |state| move |receipt: &Receipt| receipt.state == state;
        if self.receipts.iter().all(is(DeliveryState::Acted)) && self.without_receipt.is_empty() {
            return RunVerdict::Done;
        }
        let run = self.run.as_ref().and_then(RunVerdict::of);
        match run {
            _ if self.receipts.iter().any(is(DeliveryState::Dead)) => RunVerdict::Failed,
            Some(
                because @ (RunVerdict::Limit
                | RunVerdict::Human
                | RunVerdict::Interrupted
                | RunVerdict::Stopped),
            ) => because,
            Some(RunVerdict::Done | RunVerdict::Failed | RunVerdict::Invalid) | None => {
                RunVerdict::Failed
            }
        }
    }

    /// Returns the reason for a delivery without an act; the run's state explains a pending one, not its earlier
    /// attempts.
    pub(crate) fn pending_reason(&self, receipt: &Receipt) -> String {
        let settled = match receipt.state {
            DeliveryState::Pending | DeliveryState::Leased => None,
            DeliveryState::Acted | DeliveryState::Dead | DeliveryState::Dropped => {
                receipt.why.clone()
            }
        };
        let stopped =
            || self.agent_stop_reason(&receipt.agent).map(|why| format!("the agent is {why}"));
        settled.or_else(stopped).unwrap_or_else(|| self.run_state_text())
    }

    /// Describes the state of the run.
    pub(crate) fn run_state_text(&self) -> String {
        match &self.run {
            Some(run) => format!("the run is {}", run.state),
            None => "the run no longer exists".to_owned(),
        }
    }

    /// Returns the error for programs: the open delivery and its reason.
    pub(crate) fn to_report_error(&self) -> Option<ReportError> {
        let verdict = self.verdict();
        let open = self.receipts.iter().find(|one| one.state != DeliveryState::Acted);
        let message = match (open, self.without_receipt.first()) {
            _ if verdict == RunVerdict::Done => return None,
            (Some(open), _) => {
                format!(
                    "#{} for {} is {}: {}",
                    open.seq,
                    open.agent,
                    open.state,
                    self.pending_reason(open)
                )
            }
            (None, Some(agent)) => {
                format!("no receipt for {agent} was kept: {}", self.run_state_text())
            }
            (None, None) => self.run_state_text(),
        };
        let (code, hint) = (verdict.word().to_owned(), self.advice());
        Some(ReportError { code, message, hint, details: None })
    }

    /// Returns the next step for a paused run or a stopped agent.
    pub(crate) fn advice(&self) -> Option<String> {
        let run = self.run.as_ref()?;
        let mut left =
            self.receipts.iter().filter(|receipt| receipt.state == DeliveryState::Pending);
        if let Some(left) = left.find(|receipt| self.agent_stop_reason(&receipt.agent).is_some()) {
            let failed = run.agents.iter().find(|view| {
                let failure = view.last_failure.as_ref();
                view.name == left.agent
                    && failure.is_some_and(|failure| failure.class.stops_agent())
            });
            if let Some(view) = failed
                && let steps @ [_, ..] = &agent_next_steps(view, run, &[])[..]
            {
                return Some(steps.join("; "));
            }
            let agent = Target::agent(left.agent.clone(), &run.instance);
            return Some(format!("resume the agent: agent-worker resume {agent}"));
        }
        let waits = matches!(run.state, RunState::Paused { .. });
        let target = Target::instance(&run.instance);
        (waits && self.verdict() != RunVerdict::Done).then(|| {
            let on = run.needs.to_command(&target);
            let wait = wait_step(&run.state).map(|wait| format!("{wait}; or "));
            let wait = wait.unwrap_or_default();
            format!("{wait}resume the run: {on}; or end it: agent-worker stop {target}")
        })
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{LimitKind, Outcome, PauseCause};

    use super::*;
    use crate::output::samples;

    #[test]
    fn the_run_state_decides_the_verdict_on_mail_that_was_not_taken() {
        use DeliveryState::{Acted, Dead, Dropped, Leased, Pending};
        let limit = PauseCause::limit(LimitKind::Turns, "3 of 3".to_owned());
        let paused = |cause| Some(RunState::Paused { cause });
        let ended = |outcome| Some(RunState::Ended { outcome });
        let goes_on = None;
        for (state, run, expected) in [
            (Pending, Some(RunState::Running), goes_on),
            (Leased, Some(RunState::Running), goes_on),
            (Acted, Some(RunState::Running), Some(0)),
            (Dead, Some(RunState::Running), Some(1)),
            (Dropped, Some(RunState::Running), Some(1)),
            (Pending, paused(limit.clone()), Some(3)),
            (Leased, paused(limit.clone()), goes_on),
            (Acted, paused(limit.clone()), Some(0)),
            (Dead, paused(limit), Some(1)),
            (Pending, paused(PauseCause::Human), Some(4)),
            (Pending, paused(PauseCause::User), Some(5)),
            (Dropped, ended(Outcome::Stopped), Some(130)),
            (Dropped, ended(Outcome::Failed), Some(1)),
            (Pending, ended(Outcome::Done), Some(1)),
            (Pending, None, Some(1)),
        ] {
            let shown = format!("{state} {run:?}");
            let run = run.map(|state| RunView { state, ..samples::run() });
            let receipts = vec![samples::receipt(7, "coder", state)];
            let delivery_status = SentMessageStatus { receipts, without_receipt: Vec::new(), run };
            let code = delivery_status.is_final().then(|| delivery_status.verdict().exit_code());
            assert_eq!(code, expected, "{shown}");
        }
    }

    #[test]
    fn every_event_that_may_decide_causes_a_poll() {
        for (kind, decides) in [
            (EventKind::AttemptEnded, true),
            (EventKind::DeliveryDead, true),
            (EventKind::DeliveryDropped, true),
            (EventKind::AgentStopped, true),
            (EventKind::RunPaused, true),
            (EventKind::RunEnded, true),
            (EventKind::Message, false),
            (EventKind::Heartbeat, false),
        ] {
            let event = samples::event(1, kind, "coder", serde_json::Value::Null);
            assert_eq!(may_change_delivery(&event), decides, "{kind:?}");
        }
    }

    #[test]
    fn an_agent_that_was_stopped_is_not_waited_for() {
        let stopped = AgentState::Stopped { why: "no key".into() };
        let agents = vec![samples::agent("coder", stopped)];
        let run = Some(RunView { state: RunState::Running, agents, ..samples::run() });
        let receipt = samples::receipt(7, "coder", DeliveryState::Pending);
        let delivery_status =
            SentMessageStatus { receipts: vec![receipt.clone()], without_receipt: Vec::new(), run };
        assert_eq!(
            (delivery_status.is_final(), delivery_status.verdict()),
            (true, RunVerdict::Failed)
        );
        assert_eq!(delivery_status.pending_reason(&receipt), "the agent is stopped: no key");
        let advice = "resume the agent: agent-worker resume coder@review:pr-1";
        assert_eq!(delivery_status.advice().as_deref(), Some(advice));
    }

    #[test]
    fn a_message_without_a_receipt_was_not_acted_upon() {
        let forgotten = vec![samples::agent_name("coder")];
        let delivery_status = SentMessageStatus {
            receipts: Vec::new(),
            without_receipt: forgotten,
            run: Some(samples::run()),
        };
        assert!(delivery_status.is_final());
        assert_eq!(delivery_status.verdict(), RunVerdict::Failed);
    }
}
