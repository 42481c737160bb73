//! Tests of documents and instances over HTTP.

use serde_json::{Value, json};

use super::fixture::{DaemonFixture, TestRequest, TestResponse};

async fn write(
    fixture: &DaemonFixture,
    mode: &str,
    content: &str,
    base: Option<i64>,
) -> TestResponse {
    let mut body = json!({"target": "@team", "mode": mode, "content": content});
    if let Some(base) = base {
        body["base_revision"] = json!(base);
    }
    fixture.as_user(TestRequest::post("/documents/plans/first.md", body.to_string())).await
}

#[tokio::test]
async fn a_document_is_replaced_only_by_who_has_read_it() {
    let fixture = DaemonFixture::open().await;
    let conflict = || (409, "conflict".to_owned());
    assert_eq!(write(&fixture, "write", "one", None).await.json()["revision"], 1);
    assert_eq!(write(&fixture, "write", "blind", None).await.refusal(), conflict());
    assert_eq!(write(&fixture, "create", "again", None).await.refusal(), conflict());
    assert_eq!(write(&fixture, "write", "two", Some(1)).await.json()["revision"], 2);
    assert_eq!(write(&fixture, "write", "late", Some(1)).await.refusal(), conflict());
    assert_eq!(write(&fixture, "append", " and more", None).await.json()["revision"], 3);
    for mode in ["append", "create"] {
        let bad = write(&fixture, mode, "x", Some(3)).await;
        assert_eq!(bad.refusal(), (400, "bad_request".to_owned()), "{mode}");
    }
    let read = async |query: &str| {
        let path = format!("/documents/plans/first.md?target=@team{query}");
        fixture.as_user(TestRequest::get(&path)).await.json()
    };
    let now = read("").await;
    assert_eq!(
        (&now["content"], &now["revision"], &now["author"]),
        (&json!("two and more"), &json!(3), &json!("user"))
    );
    assert_eq!(read("&revision=1").await["content"], "one");
    let list = fixture.as_user(TestRequest::get("/documents?target=@team")).await.items();
    assert_eq!((list.as_array().unwrap().len(), &list[0]["file"]), (1, &json!("plans/first.md")));
    let history =
        fixture.as_user(TestRequest::get("/revisions/plans/first.md?target=@team")).await.items();
    let revisions: Vec<&Value> =
        history.as_array().unwrap().iter().map(|one| &one["revision"]).collect();
    assert_eq!(revisions, [3, 2, 1]);
}

#[tokio::test]
async fn a_diff_compares_the_revisions_it_is_asked_for() {
    let fixture = DaemonFixture::open().await;
    write(&fixture, "create", "one\n", None).await;
    write(&fixture, "append", "two\n", None).await;
    let path = "/diffs/plans/first.md?target=@team&from=0&to=1";
    let diff = fixture.as_user(TestRequest::get(path)).await.json();
    assert_eq!((&diff["from"], &diff["to"]), (&json!(0), &json!(1)));
    assert!(diff["diff"].as_str().unwrap().ends_with("@@ -0,0 +1 @@\n+one\n"), "{diff}");
}

#[tokio::test]
async fn a_key_makes_a_write_happen_once_in_one_document() {
    let fixture = DaemonFixture::open().await;
    let body = json!({"target": "@team", "mode": "append", "content": "x"}).to_string();
    let append = |file: &str| {
        TestRequest::post(&format!("/documents/{file}"), body.clone())
            .header("Idempotency-Key", "k")
    };
    let first = fixture.as_user(append("a.md")).await.json();
    let again = fixture.as_user(append("a.md")).await.json();
    assert_eq!((&again["revision"], &again["deduplicated"]), (&first["revision"], &json!(true)));
    // The same key with another document is a different call.
    assert_eq!(fixture.as_user(append("b.md")).await.refusal(), (409, "conflict".to_owned()));
}

#[tokio::test]
async fn a_text_too_long_for_a_message_is_read_in_parts_by_its_recipients() {
    let fixture = DaemonFixture::open().await;
    let long = "0123456789".repeat(10_000);
    let body = json!({"target": "@team", "message": long}).to_string();
    assert_eq!(fixture.as_user(TestRequest::post("/messages", body)).await.status, 200);
    let read = fixture.as_user(TestRequest::get("/messages?target=@team&limit=1")).await.json();
    let id = read["items"][0]["resource"].as_str().unwrap().to_owned();
    let part = |query: &str| TestRequest::get(&format!("/resources/{id}?target=@team{query}"));
    let first = fixture.as_user(part("")).await.json();
    assert_eq!((&first["start"], &first["end"]), (&json!(0), &json!(65_536)));
    assert_eq!((&first["total"], &first["type"]), (&json!(100_000), &json!("text/plain")));
    let rest = fixture.as_user(part("&range=65536..")).await.json();
    let both = [&first, &rest].map(|part| part["content"].as_str().unwrap()).concat();
    assert!(both == long && rest["end"] == 100_000, "{}", rest["end"]);
    assert_eq!(fixture.as_user(part("&range=3..5")).await.json()["content"], "34");
    for bad in ["&range=5..3", "&range=bytes%3D0-1", "&range="] {
        assert_eq!(
            fixture.as_user(part(bad)).await.refusal(),
            (400, "bad_request".to_owned()),
            "{bad}"
        );
    }
    let own = fixture.over_tcp(part("&range=0..3").token(&fixture.job.token)).await;
    assert_eq!(own.json()["content"], "012");
    let elsewhere = format!("/resources/{id}?target=@global");
    let elsewhere = fixture.over_tcp(TestRequest::get(&elsewhere).token(&fixture.job.token)).await;
    assert_eq!(elsewhere.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(fixture.over_tcp(part("")).await.refusal(), (401, "unauthorized".to_owned()));
}

#[tokio::test]
async fn an_instance_is_listed_cleared_and_after_its_run_removed() {
    let fixture = DaemonFixture::open().await;
    let team = || json!({"target": "@team"}).to_string();
    let listed = fixture.as_user(TestRequest::get("/workflows")).await.items();
    assert_eq!((&listed[0]["instance"], &listed[0]["live"]), (&json!("team"), &json!(fixture.run)));
    let cleared = fixture.as_user(TestRequest::post("/workflows/clear", team())).await.json();
    assert_eq!(cleared, json!({"instance": "team", "until": 1}));
    let shown = fixture.as_user(TestRequest::get("/messages?target=@team")).await.json();
    assert_eq!(shown["items"], json!([]));
    let live = fixture.as_user(TestRequest::post("/workflows/remove", team())).await;
    assert_eq!(live.refusal(), (409, "conflict".to_owned()));
    let stop = format!("/runs/{}/stop", fixture.run);
    assert_eq!(fixture.as_user(TestRequest::new("POST", &stop)).await.status, 200);
    let removed = fixture.as_user(TestRequest::post("/workflows/remove", team())).await.json();
    assert_eq!(removed["instance"], "team");
    assert_eq!(fixture.as_user(TestRequest::get("/workflows")).await.items(), json!([]));
    let sound = fixture.as_user(TestRequest::get("/doctor")).await.json();
    assert_eq!(sound["problems"], json!([]));
}

#[tokio::test]
async fn the_generated_record_of_decisions_has_a_history_of_one_revision() {
    let fixture = DaemonFixture::open().await;
    let own = |tool, args| super::scopes::call(&fixture, &fixture.job.token, tool, args);
    let get = |path: &str| fixture.as_user(TestRequest::get(&format!("{path}?target=@team")));
    let missing = get("/revisions/decisions.md").await;
    assert_eq!(missing.refusal(), (404, "not_found".to_owned()), "nothing is decided yet");
    let request = json!({"title": "Ship it?", "quorum": 1, "close_at_quorum": true});
    let made = own("proposal_create", request).await;
    own("vote", json!({"proposal": made["proposal"], "choice": "approve"})).await;
    let listed = get("/documents").await.items();
    let listed = listed.as_array().unwrap().iter().find(|one| one["file"] == "decisions.md");
    let history = get("/revisions/decisions.md").await.items();
    assert_eq!(history.as_array().unwrap()[..], [listed.unwrap().clone()]);
    let diff = get("/diffs/decisions.md").await;
    assert_eq!(diff.refusal(), (400, "bad_request".to_owned()), "{diff:?}");
}
