//! What `/health` says, and what it costs to say it.

use std::time::Duration;

use agent_worker_store::{Store as _, StoreTime};

use super::house::{House, Question, Standstill};

async fn status(house: &House) -> String {
    let health = house.over_tcp(Question::get("/health")).await.json();
    health["status"].as_str().unwrap().to_owned()
}

/// The last write of a pulse, once the clock has moved on: the next one will differ from it.
async fn last_pulse(house: &House) -> StoreTime {
    let last = house.store.pulse_last().await.unwrap().unwrap();
    while house.store.now().store <= last {
        tokio::task::yield_now().await;
    }
    last
}

#[tokio::test]
async fn healths_within_a_second_share_one_write_and_trouble_is_told_after_it() {
    let house = House::open().await;
    let before = last_pulse(&house).await;
    let clock = Standstill::begin();
    assert_eq!(status(&house).await, "ok");
    let first = last_pulse(&house).await;
    assert!(first > before, "what it says was tried");
    assert_eq!(status(&house).await, "ok");
    clock.pass(Duration::from_millis(999)).await;
    assert_eq!(status(&house).await, "ok");
    assert_eq!(last_pulse(&house).await, first);
    clock.pass(Duration::from_millis(1)).await;
    assert_eq!(status(&house).await, "ok");
    assert!(last_pulse(&house).await > first, "a second is over");

    house.store.clone().close().await;
    assert_eq!(status(&house).await, "ok", "a write went through less than a second ago");
    clock.pass(Duration::from_secs(1)).await;
    assert_eq!(status(&house).await, "read_only");
}
