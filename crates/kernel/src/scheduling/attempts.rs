//! Reports of workers about their attempts.

use agent_worker_protocol::{
    AttemptId, Event, EventBody, EventsReply, EventsRequest, LiveEvent, Order, TextData,
};

use crate::{
    error::Result,
    kernel::{AgentPrincipal, Kernel, Principal, RunContext},
};

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
            self.0.store.attempt_events(attempt, request.events, self.0.now()).await?
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
