//! Computes each claim of the demo from the daemon's records. Pure: records in, checks out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use agent_worker_protocol::{
    AgentName, AttemptId, DeliveryState, Event, EventBody, Message, Receipt, Seq,
};

/// A claim in numbers: it holds if `found` is `expected`, and there was something to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TeamCheck {
    found: usize,
    expected: usize,
    /// The claim, behind `5 of 5`.
    claim: &'static str,
}

impl TeamCheck {
    /// Creates a check of a claim.
    pub(super) fn new(found: usize, expected: usize, claim: &'static str) -> Self {
        Self { found, expected, claim }
    }

    /// Returns whether the claim is true.
    pub(super) fn holds(&self) -> bool {
        self.found == self.expected && self.expected > 0
    }
}

impl fmt::Display for TeamCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.found, self.expected, self.claim)
    }
}

/// The state of the team at one moment, as the daemon reports it.
#[derive(Clone, Debug, Default)]
pub(super) struct TeamRecord {
    /// All messages of the channel, oldest first.
    pub(super) messages: Vec<Message>,
    /// The receipts of all messages.
    pub(super) receipts: Vec<Receipt>,
    /// The live attempt of each agent that has one.
    pub(super) running: BTreeMap<AgentName, AttemptId>,
}

impl TeamRecord {
    fn receipt(&self, wanted: &Receipt) -> Option<&Receipt> {
        let is_same =
            |receipt: &&Receipt| (receipt.seq, &receipt.agent) == (wanted.seq, &wanted.agent);
        self.receipts.iter().find(is_same)
    }
}

/// Compares the state before the kill with the state under the next daemon. `sent` are the messages that the killed daemon
/// acknowledged after `before` was read.
pub(super) fn restart_checks(
    before: &TeamRecord,
    sent: &BTreeMap<Seq, String>,
    after: &TeamRecord,
) -> [TeamCheck; 4] {
    let is_there = |(seq, text): &(&Seq, &String)| {
        let is_it = |message: &&Message| message.seq == **seq && message.body == **text;
        let is_delivered = after.receipts.iter().any(|receipt| receipt.seq == **seq);
        after.messages.iter().any(|message| is_it(&message)) && is_delivered
    };
    let unchanged = before.messages.iter().filter(|message| after.messages.contains(message));
    let kept = before.receipts.iter().filter(|receipt| {
        after.receipt(receipt).is_some_and(|later| is_kept(receipt.state, later.state))
    });
    let continued =
        before.running.iter().filter(|(agent, attempt)| after.running.get(*agent) == Some(attempt));
    [
        TeamCheck::new(
            sent.iter().filter(is_there).count(),
            sent.len(),
            "messages with a receipt are in the channel",
        ),
        TeamCheck::new(unchanged.count(), before.messages.len(), "earlier messages are unchanged"),
        TeamCheck::new(kept.count(), before.receipts.len(), "deliveries keep their state"),
        TeamCheck::new(
            continued.count(),
            before.running.len(),
            "turns continue: the new daemon adopted their workers",
        ),
    ]
}

/// Returns whether a delivery may have gone from one state to the other without a loss.
fn is_kept(before: DeliveryState, after: DeliveryState) -> bool {
    match before {
        DeliveryState::Pending => !matches!(after, DeliveryState::Dead | DeliveryState::Dropped),
        DeliveryState::Leased => matches!(after, DeliveryState::Leased | DeliveryState::Acted),
        DeliveryState::Acted | DeliveryState::Dead | DeliveryState::Dropped => before == after,
    }
}

/// Checks that each of the texts is in the channel exactly once.
pub(super) fn once_check(texts: &[&str], after: &TeamRecord) -> TeamCheck {
    let count = |text: &&&str| after.messages.iter().filter(|one| one.body == ***text).count();
    let once = texts.iter().filter(|text| count(text) == 1);
    TeamCheck::new(once.count(), texts.len(), "messages are in the channel, each exactly once")
}

/// Checks the whole run after its end: its messages, its deliveries, and the lines of its document.
pub(super) fn final_checks(end: &TeamRecord, events: &[Event], document: &str) -> [TeamCheck; 3] {
    let seqs: BTreeSet<i64> = end.messages.iter().map(|message| message.seq.get()).collect();
    // Numbers start at 1, so that the last one is the expected count.
    let last = seqs.last().and_then(|last| usize::try_from(*last).ok()).unwrap_or_default();
    let acted_once = end.receipts.iter().filter(|receipt| {
        receipt.state == DeliveryState::Acted && turns_that_acted(receipt, events) == 1
    });
    let lines: Vec<&str> = document.lines().filter(|line| line.starts_with("- ")).collect();
    let single: BTreeSet<&str> = lines.iter().copied().collect();
    [
        TeamCheck::new(seqs.len(), last, "messages are numbered without a gap"),
        TeamCheck::new(
            acted_once.count(),
            end.receipts.len(),
            "deliveries were acted upon, each in one turn",
        ),
        TeamCheck::new(
            single.len(),
            lines.len(),
            "lines of the document are there once, also the crashed attempt's",
        ),
    ]
}

/// Counts the attempts that ended ok and acted on the delivery.
fn turns_that_acted(receipt: &Receipt, events: &[Event]) -> usize {
    let acted = events.iter().filter(|event| event.agent.as_ref() == Some(&receipt.agent));
    let acted = acted.filter(|event| match &event.body {
        EventBody::AttemptEnded(data) => {
            data.deliveries.as_ref().is_some_and(|all| all.acted.contains(&receipt.seq))
        }
        _ => false,
    });
    acted.count()
}

#[cfg(test)]
mod tests;
