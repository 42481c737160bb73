//! Reports of workers about their attempts.

use agent_worker_protocol::{
    AttemptId, Event, EventBody, EventsReply, EventsRequest, LiveEvent, NumberedEvent, Order,
    TextData, WorkerEvent,
};
use agent_worker_store::Error as StoreError;

use crate::{
    error::Result,
    kernel::{AgentPrincipal, Kernel, Principal, RunContext},
};

/// Size of the texts in one write from which no further event is added.
const MAX_HISTORY_BYTES_PER_WRITE: usize = 1024 * 1024;

/// Stores the events that workers report.
#[derive(Clone, Copy)]
pub struct Attempts<'k>(pub(crate) &'k Kernel);

impl Attempts<'_> {
    /// Stores a worker's events, publishes its live ones, and replies whether the worker continues.
    pub async fn report(
        self,
        who: &Principal,
        attempt: AttemptId,
        request: EventsRequest,
    ) -> Result<EventsReply> {
        let agent = who.require_own_attempt(attempt)?;
        self.0.live_state.record_report(attempt);
        let stored = if request.events.is_empty() {
            agent.last_event
        } else {
            let is_usage = |it: &NumberedEvent| matches!(it.event, WorkerEvent::Usage(_));
            let has_usage = request.events.iter().any(is_usage);
            let stored = self.0.store_worker_events(attempt, request.events).await?;
            if has_usage {
                self.0.scheduler.spend_gate.announce_end();
            }
            stored
        };
        if !request.live.is_empty() {
            let run_context = self.0.run_context(agent.run).await?;
            for live in request.live {
                self.0
                    .live_state
                    .publish(run_context.workflow, self.0.live_event(&run_context, agent, live));
            }
        }
        let order =
            if self.0.scheduler.is_stopping(attempt) { Order::Stop } else { Order::Continue };
        Ok(EventsReply { stored, order })
    }
}

impl Kernel {
    /// Stores events of a worker, without the secrets of the daemon; the worker has replaced those that it knows.
    pub(super) async fn store_worker_events(
        &self,
        attempt: AttemptId,
        events: Vec<NumberedEvent>,
    ) -> std::result::Result<i64, StoreError> {
        let redacted = |numbered: NumberedEvent| {
            let event = numbered.event.redacted(&self.secrets);
            NumberedEvent { event, ..numbered }
        };
        let events = events.into_iter().map(redacted).collect();
        self.store.attempt_events(attempt, events, self.now()).await
    }

    /// Stores the events of a worker's file in parts, so that long texts do not delay other writes.
    pub(super) async fn store_file_events(
        &self,
        attempt: AttemptId,
        events: Vec<NumberedEvent>,
    ) -> std::result::Result<(), StoreError> {
        let mut part = Vec::new();
        let mut bytes = 0;
        for event in events {
            bytes += event.event.history_bytes();
            part.push(event);
            if bytes >= MAX_HISTORY_BYTES_PER_WRITE {
                self.store_worker_events(attempt, std::mem::take(&mut part)).await?;
                bytes = 0;
            }
        }
        if !part.is_empty() {
            self.store_worker_events(attempt, part).await?;
        }
        Ok(())
    }

    fn live_event(
        &self,
        run_context: &RunContext,
        agent: &AgentPrincipal,
        live: LiveEvent,
    ) -> Event {
        let body = match live {
            LiveEvent::Text { text } => EventBody::Text(TextData { text }),
            LiveEvent::Heartbeat => EventBody::Heartbeat,
        };
        Event {
            run: Some(run_context.run),
            agent: Some(agent.fence.agent.clone()),
            attempt: Some(agent.attempt),
            ..Event::new(self.now().wall, run_context.instance.clone(), body)
        }
    }
}
