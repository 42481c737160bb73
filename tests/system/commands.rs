//! Every command as a person types it, two or three times each.

use crate::world::{World, example};

#[test]
fn a_newcomers_first_run_says_what_happened() {
    let world = World::new();
    let said = world.run(&["run", &example("hello.yaml")]);
    assert_eq!(said.code, 0, "{said:?}\n{}", world.log());
    assert!(said.stdout.contains("Hello!"), "{said:?}");
}

#[test]
fn the_review_team_hands_over_retries_once_and_ends_by_itself() {
    let world = World::new();
    let (code, envelope) = world.envelope(&["run", &example("review.yaml"), "--json"]);
    assert_eq!((code, envelope["outcome"].as_str()), (0, Some("done")), "{envelope}\n{}", world.log());
    assert_eq!(envelope["dead_letters"], serde_json::json!([]));
    assert_eq!(envelope["turns"], 6, "one of them failed and was tried again: {envelope}");
}
