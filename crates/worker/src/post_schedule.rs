//! The schedule of posts: urgent events at once, all others at most four times a second. Pure: facts in, step out.

use std::time::Duration;

/// Minimum interval between two posts that are not urgent, including repeated posts.
const MIN_POST_INTERVAL: Duration = Duration::from_millis(250);
const MAX_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// The kind of content that is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostBacklog {
    /// Nothing except the next heartbeat.
    Empty,
    /// Events or text.
    Pending,
    /// `started` or `finished`, not posted yet.
    Urgent,
}

/// The input of the schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostFacts {
    pub(crate) backlog: PostBacklog,
    /// Time since the last attempt to post.
    pub(crate) since_post: Duration,
    /// Time until the next heartbeat is due.
    pub(crate) heartbeat_in: Duration,
}

/// Returns the delay before the next post.
pub(crate) fn delay_until_post(facts: PostFacts) -> Duration {
    let spaced = MIN_POST_INTERVAL.saturating_sub(facts.since_post);
    match facts.backlog {
        PostBacklog::Urgent => Duration::ZERO,
        PostBacklog::Pending => spaced,
        PostBacklog::Empty => spaced.max(facts.heartbeat_in),
    }
}

/// Returns the interval of heartbeats, which is short enough that one lost heartbeat orphans no attempt.
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
