//! All records of a finished run, and checks of their consistency.

use std::collections::{HashMap, HashSet};

use agent_worker_protocol::{
    AgentName, AttemptEnd, AttemptId, DeliveryState, Event, EventKind, Outcome, Receipt, RunId,
    RunState, Seq,
};
use agent_worker_store::{AttemptRow, AttemptStore as _, RunStore as _};
use serde::de::DeserializeOwned;

use crate::world::KernelWorld;

/// Number of counted failures after which a delivery is dead.
const MAX_ATTEMPTS: u32 = 3;
/// Number of consecutive uncounted failures after which a delivery is dead.
const MAX_SETBACKS: usize = 10;

pub(crate) struct RunLedger {
    state: RunState,
    story: Vec<Event>,
    receipts: Vec<Receipt>,
    attempts: HashMap<AttemptId, AttemptRow>,
}

impl RunLedger {
    /// Reads the records, and checks that the channel and the log have no gap.
    pub(crate) async fn read(world: &KernelWorld, run: RunId) -> Self {
        let story = world.events_of(run).await;
        let row = world.store.run_get(run).await.unwrap();
        let last = world.store.instance_verify(row.workflow).await.unwrap();
        let mut receipts = Vec::new();
        for seq in 1..=last.get() {
            receipts.extend(world.receipts(seq).await);
        }
        let mut attempts = HashMap::new();
        for event in story.iter().filter(|event| event.kind() == Some(EventKind::AttemptStarting)) {
            let id = event.attempt.unwrap();
            attempts.insert(id, world.store.attempt_get(id).await.unwrap());
        }
        Self { state: row.state, story, receipts, attempts }
    }

    /// Fails if the records are inconsistent.
    pub(crate) fn check_balance(&self) {
        self.the_log_has_no_gap_and_ends_with_the_end();
        self.no_agent_had_two_attempts_at_once();
        for receipt in &self.receipts {
            match receipt.state {
                DeliveryState::Acted => self.was_shown_to_the_attempt_that_acted(receipt),
                DeliveryState::Dead => self.has_used_up_its_attempts(receipt),
                DeliveryState::Dropped => assert!(receipt.why.is_some(), "{receipt:?}"),
                DeliveryState::Pending | DeliveryState::Leased => panic!("left open: {receipt:?}"),
            }
        }
        self.the_outcome_is_true();
    }

    fn the_log_has_no_gap_and_ends_with_the_end(&self) {
        let positions = self.story.iter().map(|event| event.pos.unwrap().get());
        assert!(positions.eq(1..=i64::try_from(self.story.len()).unwrap()));
        assert_eq!(self.story.last().unwrap().kind(), Some(EventKind::RunEnded));
    }

    fn no_agent_had_two_attempts_at_once(&self) {
        let mut live: HashSet<&AgentName> = HashSet::new();
        for event in &self.story {
            let agent = event.agent.as_ref();
            match event.kind() {
                Some(EventKind::AttemptStarting) => {
                    assert!(live.insert(agent.unwrap()), "{event:?}");
                }
                Some(EventKind::AttemptEnded) => assert!(live.remove(agent.unwrap()), "{event:?}"),
                _ => {}
            }
        }
        assert!(live.is_empty(), "never ended: {live:?}");
    }

    fn was_shown_to_the_attempt_that_acted(&self, receipt: &Receipt) {
        let acted: Vec<&AttemptRow> = self
            .ends(&receipt.agent)
            .filter(|event| list::<Seq>(event, "acted").contains(&receipt.seq))
            .map(|event| &self.attempts[&event.attempt.unwrap()])
            .collect();
        let [attempt] = acted[..] else { panic!("acted {} times: {receipt:?}", acted.len()) };
        assert_eq!(attempt.ended, Some(AttemptEnd::Ok), "{receipt:?}");
        assert!(attempt.shown.iter().any(|(seq, _)| *seq == receipt.seq), "unseen: {receipt:?}");
    }

    fn has_used_up_its_attempts(&self, receipt: &Receipt) {
        let counted: Vec<bool> = self.tries(receipt).into_iter().map(counts).collect();
        let failures = u32::try_from(counted.iter().filter(|counted| **counted).count()).unwrap();
        assert_eq!(receipt.failures, failures, "{receipt:?}");
        let setbacks = counted.iter().rev().take_while(|counted| !**counted).count();
        assert!(
            failures == MAX_ATTEMPTS && setbacks == 0
                || failures < MAX_ATTEMPTS && setbacks >= MAX_SETBACKS,
            "{failures} and {setbacks}: {receipt:?}"
        );
    }

    fn the_outcome_is_true(&self) {
        let lost = self.receipts.iter().any(|receipt| receipt.state != DeliveryState::Acted);
        let expected = if lost { Outcome::Failed } else { Outcome::Done };
        let RunState::Ended { outcome } = self.state else { panic!("{}", self.state) };
        assert!(outcome == Outcome::Stopped || outcome == expected, "{outcome}");
    }

    /// Returns the ends of all attempts of a delivery, in order.
    fn tries(&self, receipt: &Receipt) -> Vec<&AttemptEnd> {
        let starting = |event: &&Event| event.kind() == Some(EventKind::AttemptStarting);
        let began = self.story.iter().filter(starting).filter(|event| {
            event.agent.as_ref() == Some(&receipt.agent)
                && list::<Seq>(event, "seqs").contains(&receipt.seq)
        });
        began.map(|event| self.attempts[&event.attempt.unwrap()].ended.as_ref().unwrap()).collect()
    }

    fn ends<'a>(&'a self, agent: &'a AgentName) -> impl Iterator<Item = &'a Event> {
        let ended = self.story.iter().filter(|event| event.kind() == Some(EventKind::AttemptEnded));
        ended.filter(move |event| event.agent.as_ref() == Some(agent))
    }
}

fn counts(end: &AttemptEnd) -> bool {
    matches!(end, AttemptEnd::Failed { class, .. } if class.is_counted())
}

/// Returns a list from an event's data; a stopped attempt has none.
fn list<T: DeserializeOwned>(event: &Event, name: &str) -> Vec<T> {
    serde_json::from_value(event.data()[name].clone()).unwrap_or_default()
}
