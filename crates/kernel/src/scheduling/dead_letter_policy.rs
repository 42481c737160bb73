//! The next state of a delivery whose attempt has ended: done, tried again, or dead. Pure.

use agent_worker_protocol::AttemptEnd;
use agent_worker_store::{Blame, DeliveryFailureCounts, DeliveryVerdict, LeasedDelivery};

/// Mail that joined during the turn is not what the attempt was woken for: a failure says nothing about it.
pub(crate) fn delivery_verdict(
    held: &LeasedDelivery,
    end: &AttemptEnd,
    blame: Blame,
) -> DeliveryVerdict {
    if *end == AttemptEnd::Ok {
        return DeliveryVerdict::Acted;
    }
    let before = held.counts;
    let judged = |counts, count, most| {
        if count >= most { DeliveryVerdict::Dead(counts) } else { DeliveryVerdict::Pending(counts) }
    };
    match blame {
        Blame::None => DeliveryVerdict::Pending(before),
        Blame::Uncounted { .. } | Blame::Counted { .. } if held.joined => {
            DeliveryVerdict::Pending(before)
        }
        Blame::Uncounted { max: most } => {
            let uncounted = before.uncounted + 1;
            judged(DeliveryFailureCounts { uncounted, ..before }, uncounted, most)
        }
        Blame::Counted { max: most } => {
            let failures = before.failures + 1;
            judged(DeliveryFailureCounts { failures, uncounted: 0, alone: true }, failures, most)
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{FailureClass, Seq};

    use super::*;

    #[test]
    fn what_becomes_of_a_delivery_follows_from_how_its_attempt_ended() {
        let failed = AttemptEnd::Failed { class: FailureClass::Crash, why: "gone".into() };
        let cut = AttemptEnd::Interrupted { why: "drain".into() };
        let counted = Blame::Counted { max: 3 };
        let uncounted = Blame::Uncounted { max: 10 };
        let own = |failures, uncounted| LeasedDelivery {
            seq: Seq::new(1),
            joined: false,
            counts: DeliveryFailureCounts { failures, uncounted, alone: false },
        };
        let joined = LeasedDelivery { joined: true, ..own(2, 9) };
        let pending = |failures, uncounted, alone| {
            DeliveryVerdict::Pending(DeliveryFailureCounts { failures, uncounted, alone })
        };
        let dead = |failures, uncounted, alone| {
            DeliveryVerdict::Dead(DeliveryFailureCounts { failures, uncounted, alone })
        };
        for (held, end, blame, expected) in [
            (own(0, 0), &AttemptEnd::Ok, counted, DeliveryVerdict::Acted),
            (joined, &AttemptEnd::Ok, Blame::None, DeliveryVerdict::Acted),
            (own(0, 4), &failed, counted, pending(1, 0, true)),
            (own(2, 4), &failed, counted, dead(3, 0, true)),
            (own(1, 8), &failed, uncounted, pending(1, 9, false)),
            (own(1, 9), &cut, uncounted, dead(1, 10, false)),
            (own(2, 9), &cut, Blame::None, pending(2, 9, false)),
            (joined, &failed, counted, pending(2, 9, false)),
            (joined, &cut, uncounted, pending(2, 9, false)),
        ] {
            assert_eq!(delivery_verdict(&held, end, blame), expected, "{held:?} {end} {blame:?}");
        }
    }
}
