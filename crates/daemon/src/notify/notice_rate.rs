//! The limit of the notifications of one run: an agent that asks again and again does not flood its user. Pure.

use std::{collections::VecDeque, time::Duration};

use agent_worker_protocol::NotifyOccasion;
use tokio::time::Instant;

/// Maximum number of notifications about agents in one window.
const MAX_NOTICES: usize = 10;
const WINDOW: Duration = Duration::from_mins(1);

/// The newest notifications of a run.
#[derive(Debug, Default)]
pub(super) struct NoticeRate {
    recent: VecDeque<Instant>,
    left_out: u32,
}

/// Decision about one notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RateDecision {
    /// It is delivered, and says how many were left out before.
    Send { left_out: u32 },
    /// It is left out; the next one that is delivered counts it.
    Skip,
}

impl NoticeRate {
    /// Decides about a notification. The state of a run is always delivered: it changes only once.
    pub(super) fn admit(&mut self, occasion: NotifyOccasion, now: Instant) -> RateDecision {
        let is_limited = match occasion {
            NotifyOccasion::Question | NotifyOccasion::Approval | NotifyOccasion::Vote => true,
            NotifyOccasion::Limit
            | NotifyOccasion::Interrupted
            | NotifyOccasion::Failed
            | NotifyOccasion::Done => false,
        };
        while self.recent.front().is_some_and(|sent| now.duration_since(*sent) >= WINDOW) {
            self.recent.pop_front();
        }
        if is_limited && self.recent.len() >= MAX_NOTICES {
            self.left_out += 1;
            return RateDecision::Skip;
        }
        if is_limited {
            self.recent.push_back(now);
        }
        RateDecision::Send { left_out: std::mem::take(&mut self.left_out) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_limited_and_counted_and_the_end_of_a_run_is_not() {
        let (mut rate, start) = (NoticeRate::default(), Instant::now());
        let send = |left_out| RateDecision::Send { left_out };
        for _ in 0..MAX_NOTICES {
            assert_eq!(rate.admit(NotifyOccasion::Question, start), send(0));
        }
        assert_eq!(rate.admit(NotifyOccasion::Approval, start), RateDecision::Skip);
        assert_eq!(rate.admit(NotifyOccasion::Question, start), RateDecision::Skip);
        assert_eq!(rate.admit(NotifyOccasion::Done, start), send(2));
        assert_eq!(rate.admit(NotifyOccasion::Question, start), RateDecision::Skip);
        assert_eq!(rate.admit(NotifyOccasion::Question, start + WINDOW), send(1));
    }
}
