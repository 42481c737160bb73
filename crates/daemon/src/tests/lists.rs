//! Lists over HTTP: everything that the caller may read, page by page.

use agent_worker_protocol::Permission;
use serde_json::{Value, json};

use super::fixture::{DaemonFixture, TestRequest};

/// The lists that cover several instances.
const LISTS: [&str; 9] = [
    "/workflows",
    "/runs",
    "/agents",
    "/attention",
    "/questions",
    "/approvals",
    "/grants",
    "/dead",
    "/stats",
];

async fn page(fixture: &DaemonFixture, path: &str) -> Value {
    let answer = fixture.as_user(TestRequest::get(path)).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

fn names(items: &Value, key: &str) -> Vec<String> {
    items.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_list_without_parameters_has_everything_that_the_caller_may_read() {
    let fixture = DaemonFixture::open().await;
    fixture.start_team("other").await;
    let all = page(&fixture, "/workflows").await;
    assert_eq!(names(&all["items"], "instance"), ["team", "other"]);
    assert_eq!(all["next"], Value::Null);
    for list in LISTS {
        let whole = page(&fixture, list).await;
        assert!(whole["items"].is_array() && whole.get("next").is_some(), "{list}: {whole}");
        let nowhere = page(&fixture, &format!("{list}?project=/nowhere")).await;
        assert_eq!(nowhere, json!({"items": [], "next": null}), "{list}");
        let relative = TestRequest::get(&format!("{list}?project=nowhere"));
        let relative = fixture.as_user(relative).await;
        assert_eq!(relative.refusal(), (400, "bad_request".to_owned()), "{list}");
        let live = page(&fixture, &format!("{list}?project=/&live=true")).await;
        assert_eq!(
            live["items"].as_array().unwrap().len(),
            whole["items"].as_array().unwrap().len()
        );
    }
    let token = fixture.token_for("other", &[Permission::Read], &["@other"]).await;
    let theirs = fixture.over_tcp(TestRequest::get("/workflows").token(&token)).await;
    assert_eq!(names(&theirs.items(), "instance"), ["other"]);
}

#[tokio::test]
async fn a_list_is_read_page_by_page_with_the_cursor_of_the_page_before() {
    let fixture = DaemonFixture::open().await;
    fixture.start_team("other").await;
    let whole = page(&fixture, "/agents").await["items"].clone();
    let (mut path, mut read) = ("/agents?limit=1".to_owned(), Vec::new());
    loop {
        let one = page(&fixture, &path).await;
        assert_eq!(one["items"].as_array().unwrap().len(), 1, "{one}");
        read.extend(one["items"].as_array().unwrap().clone());
        let Some(next) = one["next"].as_str() else { break };
        path = format!("/agents?limit=1&after={next}");
    }
    let key = |agent: &Value| (agent["instance"].clone(), agent["name"].clone());
    assert_eq!(
        read.iter().map(key).collect::<Vec<_>>(),
        whole.as_array().unwrap().iter().map(key).collect::<Vec<_>>()
    );
    let cursor = page(&fixture, "/workflows?limit=1").await["next"].as_str().unwrap().to_owned();
    let other = fixture.as_user(TestRequest::get(&format!("/agents?after={cursor}"))).await;
    assert_eq!(other.refusal(), (400, "bad_request".to_owned()), "a cursor of another list");
}

#[tokio::test]
async fn a_limit_above_the_maximum_is_refused_with_the_maximum() {
    let fixture = DaemonFixture::open().await;
    for path in LISTS.into_iter().chain(["/messages", "/tokens", "/feedback", "/documents"]) {
        for limit in [0, 1_001] {
            let refused = fixture.as_user(TestRequest::get(&format!("{path}?limit={limit}"))).await;
            assert_eq!(refused.refusal(), (400, "bad_request".to_owned()), "{path}");
            assert!(refused.body.contains("from 1 to 1000"), "{path}: {refused:?}");
        }
        let most = fixture.as_user(TestRequest::get(&format!("{path}?limit=1000"))).await;
        assert_eq!(most.status, 200, "{path}: {most:?}");
    }
}
