//! Where a run stops by itself: hops and turns. Pure.

use agent_worker_protocol::{LimitKind, Limits, PauseCause, Seq};
use agent_worker_store::LeaseFacts;

/// How many messages led to what an attempt says: one more than what it answers, else than the most it was shown.
pub(crate) fn hops(shown: &[(Seq, u32)], reply_to: Option<Seq>) -> u32 {
    let answered = shown.iter().find(|(seq, _)| Some(*seq) == reply_to).map(|(_, hops)| *hops);
    let most = shown.iter().map(|(_, hops)| *hops).max();
    answered.or(most).map_or(0, |hops| hops.saturating_add(1))
}

/// Whether a message with so many hops is one too many.
pub(crate) fn hop_limit(hops: u32, limits: &Limits) -> Option<PauseCause> {
    (hops > limits.hops).then(|| PauseCause::Limit {
        limit: LimitKind::Hops,
        detail: format!("a chain of {hops} messages, {} allowed", limits.hops),
    })
}

/// Whether one more attempt would be one too many; those that live count as turns to come.
pub(crate) fn turn_limit(facts: &LeaseFacts) -> Option<PauseCause> {
    let most = facts.limits.turns?;
    (facts.turns + facts.attempts >= most).then(|| PauseCause::Limit {
        limit: LimitKind::Turns,
        detail: match facts.attempts {
            0 => format!("{} turns taken, {most} allowed", facts.turns),
            live => format!("{} turns taken and {live} under way, {most} allowed", facts.turns),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_grow_along_what_is_answered_and_else_along_the_longest_chain() {
        let shown = [(Seq::new(4), 2), (Seq::new(7), 9)];
        for (shown, reply_to, expected) in [
            (&shown[..], None, 10),
            (&shown[..], Some(4), 3),
            (&shown[..], Some(7), 10),
            (&shown[..], Some(1), 10),
            (&[], None, 0),
            (&[], Some(4), 0),
        ] {
            assert_eq!(hops(shown, reply_to.map(Seq::new)), expected, "{shown:?} {reply_to:?}");
        }
    }

    #[test]
    fn the_message_after_the_last_allowed_hop_trips_the_limit() {
        let limits = Limits { hops: 50, turns: None, wall: None };
        assert!(hop_limit(50, &limits).is_none());
        assert!(hop_limit(51, &limits).is_some());
    }

    #[test]
    fn attempts_that_live_count_as_turns_to_come() {
        let limits = Limits { hops: 50, turns: Some(3), wall: None };
        for (turns, attempts, stops) in
            [(0, 0, false), (2, 0, false), (2, 1, true), (3, 0, true), (1, 2, true)]
        {
            let facts = LeaseFacts { turns, attempts, limits };
            assert_eq!(turn_limit(&facts).is_some(), stops, "{facts:?}");
        }
        let unlimited =
            LeaseFacts { turns: 9, attempts: 9, limits: Limits { turns: None, ..limits } };
        assert_eq!(turn_limit(&unlimited), None);
    }
}
