//! The batch of messages that one activation takes. Pure.

use agent_worker_store::{LeaseRule, ShownMessage};

use crate::scheduling::limits;

/// The most messages and bytes of one activation.
const MAX_ACTIVATION_MESSAGES: u32 = 20;
const MAX_ACTIVATION_BYTES: usize = 64 * 1024;

/// The rules for starting an attempt.
pub(crate) const LEASE_RULE: LeaseRule = LeaseRule {
    may_start: limits::lease_step,
    max_messages: MAX_ACTIVATION_MESSAGES,
    select_batch: fit_messages,
};

/// Adds `others`, in their order, to `first` while there is room; what was taken is shown in that order.
fn fit_messages(first: Vec<ShownMessage>, others: Vec<ShownMessage>) -> Vec<ShownMessage> {
    let mut taken = first;
    let mut bytes: usize = taken.iter().map(|shown| shown.message.body.len()).sum();
    let here: Vec<_> = taken.iter().map(|shown| shown.message.seq).collect();
    for other in others.into_iter().filter(|other| !here.contains(&other.message.seq)) {
        bytes += other.message.body.len();
        if taken.len() >= MAX_ACTIVATION_MESSAGES as usize || bytes > MAX_ACTIVATION_BYTES {
            break;
        }
        taken.push(other);
    }
    taken.sort_by_key(|shown| {
        let ShownMessage { message, wakes } = shown;
        (!wakes, std::cmp::Reverse(message.priority), message.seq)
    });
    taken
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{Message, MessageKind, Millis, Priority, RunId, Sender, Seq};

    use super::*;

    fn shown_message(seq: i64, priority: Priority, bytes: usize) -> ShownMessage {
        let message = Message {
            seq: Seq::new(seq),
            run: RunId::new(uuid::Uuid::nil()),
            ts: Millis::new(0),
            from: Sender::User,
            kind: MessageKind::Message,
            body: "x".repeat(bytes),
            reply_to: None,
            hops: 0,
            priority,
            to: Vec::new(),
            cc: Vec::new(),
            acts_on: Vec::new(),
            resource: None,
            attachments: Vec::new(),
        };
        ShownMessage { message, wakes: true }
    }

    fn fitted_seqs(first: ShownMessage, others: Vec<ShownMessage>) -> Vec<i64> {
        fit_messages(vec![first], others).iter().map(|shown| shown.message.seq.get()).collect()
    }

    #[test]
    fn the_oldest_is_in_every_activation_however_much_is_more_urgent() {
        let urgent = (2..=30).map(|seq| shown_message(seq, Priority::High, 1)).collect();
        let seqs = fitted_seqs(shown_message(1, Priority::Normal, 1), urgent);
        assert_eq!(seqs, (2..=20).chain([1]).collect::<Vec<_>>());
    }

    #[test]
    fn what_does_not_fit_waits_and_nothing_overtakes_it() {
        let sizes = [(2, 30_000), (3, 40_000), (4, 1)];
        let others = sizes.map(|(seq, bytes)| shown_message(seq, Priority::Normal, bytes)).to_vec();
        assert_eq!(fitted_seqs(shown_message(1, Priority::Normal, 10), others.clone()), [1, 2]);
        assert_eq!(fitted_seqs(shown_message(1, Priority::Normal, 200_000), others), [1]);
    }

    #[test]
    fn mail_that_only_is_read_along_comes_last() {
        let cc = ShownMessage { wakes: false, ..shown_message(2, Priority::High, 1) };
        let urgent = shown_message(3, Priority::High, 1);
        assert_eq!(fitted_seqs(shown_message(1, Priority::Normal, 1), vec![urgent, cc]), [3, 1, 2]);
    }
}
