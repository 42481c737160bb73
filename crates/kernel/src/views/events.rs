//! Event subscriptions: the stored events of an instance or a run, in order and without a gap, and live ones
//! between them.

use crate::runs::Runs;
use std::collections::VecDeque;

use agent_worker_protocol::{
    AgentName, AgentState, AttemptId, Event, EventKind, PauseCause, Permission, Position, RunId,
    RunState, WorkflowId,
};
use agent_worker_store::{ChangeCursor, EventQuery};

use crate::{
    access::instance_resolution::InstanceSelector,
    approvals::presence::PresenceGuard,
    error::Result,
    kernel::{Kernel, Principal},
    scheduling::live_state::LiveReader,
};

const EVENT_PAGE_SIZE: u32 = 256;

/// The subject of a watch.
#[derive(Clone, Debug)]
pub enum WatchSubject {
    /// One run, from its start to its end.
    Run(RunId),
    /// One run, from its start until it has ended, or is paused with no busy agent.
    RunUntilIdle(RunId),
    /// An instance, from now on and without end.
    Instance(InstanceSelector),
}

/// An open watch. Closing it loses nothing: the next one continues after the position of the last event.
pub struct EventSubscription {
    kernel: Kernel,
    workflow: WorkflowId,
    run: Option<RunId>,
    end_condition: WatchEnd,
    /// The watching attempt: its rights end with it.
    watcher: Option<AttemptId>,
    after: Position,
    seen: ChangeCursor,
    page: VecDeque<Event>,
    live: LiveReader,
    is_over: bool,
    /// The presence of the person who reads the events.
    _presence: Option<PresenceGuard>,
}

/// The condition that ends the watch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchEnd {
    End,
    Idle,
}

impl Runs<'_> {
    /// Watches from `after` on; without it, a run from its start and an instance from now on.
    pub async fn watch(
        self,
        who: &Principal,
        watched: WatchSubject,
        after: Option<Position>,
    ) -> Result<EventSubscription> {
        who.require(Permission::Read)?;
        let until = match watched {
            WatchSubject::Run(_) | WatchSubject::Instance(_) => WatchEnd::End,
            WatchSubject::RunUntilIdle(_) => WatchEnd::Idle,
        };
        let (workflow, run) = match watched {
            WatchSubject::Run(run) | WatchSubject::RunUntilIdle(run) => {
                (self.0.require_run(who, run).await?.workflow, Some(run))
            }
            WatchSubject::Instance(selector) => {
                (self.0.resolve_instance(who, &selector).await?.id, None)
            }
        };
        let mut subscription = EventSubscription {
            kernel: self.0.clone(),
            workflow,
            run,
            end_condition: until,
            watcher: match who {
                Principal::Agent(agent) => Some(agent.attempt),
                Principal::User | Principal::Client(_) | Principal::Anonymous => None,
            },
            after: after.unwrap_or_default(),
            seen: ChangeCursor::default(),
            page: VecDeque::new(),
            live: self.0.live_state.subscribe(),
            is_over: false,
            _presence: None,
        };
        if run.is_none() && after.is_none() {
            subscription.skip_to_now().await?;
        }
        Ok(subscription)
    }
}

impl EventSubscription {
    /// Marks that a person reads this who can answer: meanwhile the run does not pause for a person.
    #[must_use]
    pub fn with_presence_of(self, who: &Principal) -> Self {
        let can_answer = match who {
            Principal::User | Principal::Client(_) => who.may(Permission::Approve),
            Principal::Agent(_) | Principal::Anonymous => false,
        };
        let run = self.run.filter(|_| can_answer);
        let present = run.map(|run| self.kernel.viewers.enter(run));
        Self { _presence: present, ..self }
    }

    /// Returns the position of the last event returned, or the start position.
    pub fn position(&self) -> Position {
        self.after
    }

    /// Returns the next event; none after the end of the watched run or of the watching attempt.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.page.pop_front() {
                self.after = event.pos.unwrap_or(self.after);
                if self.run.is_some() && event.kind() == Some(EventKind::RunEnded) {
                    self.is_over = true;
                    self.page.clear();
                }
                return Ok(Some(event));
            }
            if self.is_over {
                return Ok(None);
            }
            tokio::select! {
                change = self.kernel.store.change_wait(self.workflow, self.seen) => {
                    self.seen = change;
                    self.advance_page().await?;
                }
                event = self.live.next(self.workflow) => {
                    if self.run.is_none() || event.run == self.run {
                        return Ok(Some(Event::clone(&event)));
                    }
                }
            }
        }
    }

    async fn advance_page(&mut self) -> Result<()> {
        self.page = self.read_page().await?;
        // A watch that starts after the end sees no `run.ended`, and no event reports that a run is at rest.
        if let (true, Some(run)) = (self.page.is_empty(), self.run)
            && self.has_ended(run).await?
        {
            // The run may have ended since the page was read; this second read is complete.
            self.page = self.read_page().await?;
            self.is_over = self.page.is_empty();
        }
        // More events may follow this page without a further change, or the watch may now be complete.
        let is_full = self.page.len() == EVENT_PAGE_SIZE as usize;
        if is_full || self.end_condition == WatchEnd::Idle && !self.page.is_empty() {
            self.seen = ChangeCursor::default();
        }
        // Check after reading the page: events read while the attempt was live belong to it.
        if let Some(attempt) = self.watcher
            && self.kernel.store.attempt_get(attempt).await?.ended.is_some()
        {
            self.page.clear();
            self.is_over = true;
        }
        Ok(())
    }

    async fn has_ended(&self, run: RunId) -> Result<bool> {
        let state = self.kernel.store.run_get(run).await?.state;
        Ok(match (self.end_condition, &state) {
            (_, RunState::Ended { .. }) => true,
            // The person that the run waited for is present: it continues in a moment.
            (WatchEnd::Idle, RunState::Paused { cause: PauseCause::Human })
                if self.kernel.viewers.is_present(run) =>
            {
                false
            }
            // Boxed, so that the future of every other watch stays small.
            (WatchEnd::Idle, RunState::Paused { .. }) => {
                let snapshot = self.kernel.store.run_snapshot(run).await?;
                let team = snapshot.agents.clone();
                let view = Box::pin(self.kernel.run_view_of(snapshot)).await?;
                // An agent that waits for approval is idle until a person comes.
                let waits = |name: &AgentName| {
                    let of = view.agents.iter().find(|agent| agent.name == *name);
                    of.is_some_and(|agent| matches!(agent.state, AgentState::Waiting { .. }))
                };
                let is_idle = team.iter().all(|agent| agent.live.is_none() || waits(&agent.name));
                is_idle && view.is_at_rest()
            }
            (WatchEnd::Idle | WatchEnd::End, _) => false,
        })
    }

    async fn read_page(&self) -> Result<VecDeque<Event>> {
        let query = EventQuery {
            workflow: self.workflow,
            run: self.run,
            after: self.after,
            limit: EVENT_PAGE_SIZE,
        };
        Ok(self.kernel.store.event_list(query).await?.into())
    }

    async fn skip_to_now(&mut self) -> Result<()> {
        let store = &self.kernel.store;
        self.after = store.event_last(self.workflow).await?;
        Ok(())
    }
}
