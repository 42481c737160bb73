//! Tests of `/health`: its content and its cost.

use std::time::Duration;

use agent_worker_store::{AdminStore as _, StoreTime};

use super::fixture::{DaemonFixture, ManualTime, TestRequest};

async fn status(fixture: &DaemonFixture) -> String {
    let health = fixture.over_tcp(TestRequest::get("/health")).await.json();
    health["status"].as_str().unwrap().to_owned()
}

/// Returns the time of the last probe write, once the clock has advanced, so that the next one differs.
async fn last_heartbeat(fixture: &DaemonFixture) -> StoreTime {
    let last = fixture.store.heartbeat_last().await.unwrap().unwrap();
    while fixture.store.now().store <= last {
        tokio::task::yield_now().await;
    }
    last
}

#[tokio::test]
async fn health_checks_within_a_second_share_one_write_and_a_fault_is_reported_after_it() {
    let fixture = DaemonFixture::open().await;
    let before = last_heartbeat(&fixture).await;
    let clock = ManualTime::start();
    assert_eq!(status(&fixture).await, "ok");
    let first = last_heartbeat(&fixture).await;
    assert!(first > before, "what it says was tried");
    assert_eq!(status(&fixture).await, "ok");
    clock.advance(Duration::from_millis(999)).await;
    assert_eq!(status(&fixture).await, "ok");
    assert_eq!(last_heartbeat(&fixture).await, first);
    clock.advance(Duration::from_millis(1)).await;
    assert_eq!(status(&fixture).await, "ok");
    assert!(last_heartbeat(&fixture).await > first, "a second is over");

    fixture.store.clone().close().await;
    assert_eq!(status(&fixture).await, "ok", "a write went through less than a second ago");
    clock.advance(Duration::from_secs(1)).await;
    assert_eq!(status(&fixture).await, "read_only");
}
