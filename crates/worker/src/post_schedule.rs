//! When a worker posts: at once for what somebody waits for, else at most four times a second.
//! Pure: facts in, step out.

use std::time::Duration;

/// The shortest time between two posts that nobody waits for, a repeated one among them.
const MIN_POST_INTERVAL: Duration = Duration::from_millis(250);
const MAX_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// What there is to post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostBacklog {
    /// Nothing but the next heartbeat.
    Empty,
    /// Events or words.
    Pending,
    /// `started` or `finished`, not tried yet.
    Urgent,
}

/// What the poster knows when it asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostFacts {
    pub(crate) backlog: PostBacklog,
    /// Since the last post was tried.
    pub(crate) since_post: Duration,
    /// Until the next heartbeat is due.
    pub(crate) heartbeat_in: Duration,
}

/// How long to wait before the next post.
pub(crate) fn delay_until_post(facts: PostFacts) -> Duration {
    let spaced = MIN_POST_INTERVAL.saturating_sub(facts.since_post);
    match facts.backlog {
        PostBacklog::Urgent => Duration::ZERO,
        PostBacklog::Pending => spaced,
        PostBacklog::Empty => spaced.max(facts.heartbeat_in),
    }
}

/// How often a worker says that it is there: often enough that a lost one orphans nobody.
pub(crate) fn heartbeat_interval(orphan_grace: Duration) -> Duration {
    MAX_HEARTBEAT_INTERVAL.min(orphan_grace / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posts_are_at_once_or_spaced_and_heartbeats_fill_the_silence() {
        let ms = Duration::from_millis;
        for (waiting, since_post, heartbeat_in, wait) in [
            (PostBacklog::Urgent, 0, 9_000, 0),
            (PostBacklog::Pending, 100, 9_000, 150),
            (PostBacklog::Pending, 5_000, 5_000, 0),
            (PostBacklog::Empty, 4_000, 6_000, 6_000),
            (PostBacklog::Empty, 10_000, 0, 0),
            (PostBacklog::Empty, 100, 0, 150),
        ] {
            let facts = PostFacts {
                backlog: waiting,
                since_post: ms(since_post),
                heartbeat_in: ms(heartbeat_in),
            };
            assert_eq!(delay_until_post(facts), ms(wait), "{facts:?}");
        }
    }

    #[test]
    fn several_heartbeats_fit_into_any_grace() {
        assert_eq!(heartbeat_interval(Duration::from_mins(1)), Duration::from_secs(10));
        assert_eq!(heartbeat_interval(Duration::from_secs(4)), Duration::from_secs(1));
    }
}
