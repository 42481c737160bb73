//! The two clocks: deadlines follow the store's clock, also if the wall clock is set.

use std::{sync::Arc, time::Duration};

use agent_worker_protocol::{
    FailureClass, Finished, Millis, NumberedEvent, ProposalState, WorkerEvent, WorkerOutcome,
};
use agent_worker_store::{NotBefore, Now, Settlement, Store, WaitReason};

use crate::{
    proposals::{VOTING_PERIOD, propose, terms},
    rules::TALLY_RULE,
    team::{NOW, Team, crashed, ok, user},
};

const HOUR: i64 = 3_600_000;

/// Returns the instant `span` after [`NOW`], with the wall clock set by this many hours.
fn set_by(hours: i64, span: Duration) -> Now {
    let Now { store, wall } = NOW.plus(span);
    Now { store, wall: Millis::new(wall.get() + hours * HOUR) }
}

pub(crate) async fn store_time_passes_and_never_goes_back(store: Arc<dyn Store>) {
    let first = store.now();
    let mut last = first;
    while last.store == first.store {
        let now = store.now();
        assert!(now.store >= last.store, "{now:?} after {last:?}");
        last = now;
    }
    // A new store starts at the wall-clock time.
    assert!(first.wall_at(first.store).get() - first.store.get() < 60_000, "{first:?}");
}

pub(crate) async fn a_backoff_ends_by_the_stores_clock_however_the_wall_clock_is_set(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    for hours in [-1, 48] {
        let lease = team.lease("a").await;
        let at = NOW.store.plus(Duration::from_secs(5));
        let wait = NotBefore { at, wait: WaitReason::BackOff, why: "gone".into() };
        team.finish(&lease, Settlement { not_before: Some(wait), ..crashed() }).await;
        assert!(team.lease_at("a", set_by(hours, Duration::from_millis(4_999))).await.is_none());
        let lease = team.lease_at("a", set_by(hours, Duration::from_secs(5))).await.unwrap();
        team.finish(&lease, ok()).await;
        team.say("go", &["a"]).await;
    }
}

pub(crate) async fn a_turn_counts_for_a_day_of_the_stores_clock(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    team.finish(&lease, ok()).await;
    for (hours, passed, today) in [(48, 1, 1), (-48, 23, 1), (-48, 25, 0)] {
        let now = set_by(hours, Duration::from_hours(passed));
        assert_eq!(team.facts_at(now).await.turns_today, today, "set by {hours} h");
    }
}

pub(crate) async fn a_vote_is_open_until_its_time_is_up_on_the_stores_clock(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    for hours in [-1, 48] {
        let id = propose(&team, user(), terms(&["x", "y"], &["a", "b"])).await;
        assert_eq!(
            store.proposal_due(team.workflow).await.unwrap(),
            Some(NOW.store.plus(VOTING_PERIOD))
        );
        for (span, over) in [(Duration::from_millis(999), vec![]), (VOTING_PERIOD, vec![id])] {
            let now = set_by(hours, span);
            let settled = store.proposal_settle(team.workflow, TALLY_RULE, now).await.unwrap();
            assert_eq!(settled, over, "set by {hours} h, after {span:?}");
        }
    }
}

pub(crate) async fn a_deadline_is_shown_on_the_wall_clock_of_the_caller(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let id = propose(&team, user(), terms(&["x", "y"], &["a", "b"])).await;
    let announced = NOW.wall.plus(VOTING_PERIOD);
    let shown = async |now| store.proposal_get(team.workflow, id, now).await.unwrap().unwrap();
    assert_eq!(shown(NOW).await.deadline, announced);
    let later = set_by(-1, Duration::from_millis(400));
    let in_an_hour_less = Millis::new(announced.get() - HOUR);
    assert_eq!(shown(later).await.deadline, in_an_hour_less);
    // A proposal that is over keeps its announced deadline.
    store.proposal_settle(team.workflow, TALLY_RULE, set_by(-1, VOTING_PERIOD)).await.unwrap();
    let over = shown(later).await;
    assert!(matches!(over.state, ProposalState::Expired { .. }));
    assert_eq!(over.deadline, announced);
}

pub(crate) async fn a_providers_reset_time_is_converted_once(store: Arc<dyn Store>) {
    let minute = Duration::from_mins(1);
    let team = Team::new(&store, &["a"]).await;
    for (hours, received, expected) in [
        (0, Duration::ZERO, minute),
        // The daemon was absent for ten seconds.
        (0, Duration::from_secs(10), minute),
        // The wall clock was set back before the daemon received it.
        (-1, Duration::ZERO, minute),
    ] {
        team.say("go", &["a"]).await;
        let lease = team.lease("a").await;
        let outcome = WorkerOutcome::Failed {
            class: FailureClass::RateLimited,
            why: "429".into(),
            retry_at: Some(NOW.wall.plus(minute)),
        };
        let event = WorkerEvent::Finished(Finished { text: String::new(), outcome, session: None });
        let report = vec![NumberedEvent { no: 1, ts: NOW.wall, event }];
        let now = set_by(hours, received);
        store.attempt_events(lease.id, report, now).await.unwrap();
        let retry_at = store.attempt_get(lease.id).await.unwrap().retry_at;
        assert_eq!(retry_at, Some(NOW.store.plus(expected)), "set by {hours} h");
        team.finish(&lease, ok()).await;
    }
}
