//! Documents and instances over HTTP.

use serde_json::{Value, json};

use super::house::{Answer, House, Question};

async fn write(house: &House, mode: &str, content: &str, base: Option<i64>) -> Answer {
    let mut body = json!({"target": "@team", "mode": mode, "content": content});
    if let Some(base) = base {
        body["base_revision"] = json!(base);
    }
    house.as_user(Question::post("/documents/plans/first.md", body.to_string())).await
}

#[tokio::test]
async fn a_document_is_replaced_only_by_who_has_read_it() {
    let house = House::open().await;
    let conflict = || (409, "conflict".to_owned());
    assert_eq!(write(&house, "write", "one", None).await.json()["revision"], 1);
    assert_eq!(write(&house, "write", "blind", None).await.refusal(), conflict());
    assert_eq!(write(&house, "create", "again", None).await.refusal(), conflict());
    assert_eq!(write(&house, "write", "two", Some(1)).await.json()["revision"], 2);
    assert_eq!(write(&house, "write", "late", Some(1)).await.refusal(), conflict());
    assert_eq!(write(&house, "append", " and more", None).await.json()["revision"], 3);
    for mode in ["append", "create"] {
        let bad = write(&house, mode, "x", Some(3)).await;
        assert_eq!(bad.refusal(), (400, "bad_request".to_owned()), "{mode}");
    }
    let read = async |query: &str| {
        let path = format!("/documents/plans/first.md?target=@team{query}");
        house.as_user(Question::get(&path)).await.json()
    };
    let now = read("").await;
    assert_eq!(
        (&now["content"], &now["revision"], &now["author"]),
        (&json!("two and more"), &json!(3), &json!("user"))
    );
    assert_eq!(read("&revision=1").await["content"], "one");
    let list = house.as_user(Question::get("/documents?target=@team")).await.json();
    assert_eq!((list.as_array().unwrap().len(), &list[0]["file"]), (1, &json!("plans/first.md")));
    let history =
        house.as_user(Question::get("/revisions/plans/first.md?target=@team")).await.json();
    let revisions: Vec<&Value> =
        history.as_array().unwrap().iter().map(|one| &one["revision"]).collect();
    assert_eq!(revisions, [3, 2, 1]);
}

#[tokio::test]
async fn a_diff_compares_the_revisions_it_is_asked_for() {
    let house = House::open().await;
    write(&house, "create", "one\n", None).await;
    write(&house, "append", "two\n", None).await;
    let path = "/diffs/plans/first.md?target=@team&from=0&to=1";
    let diff = house.as_user(Question::get(path)).await.json();
    assert_eq!((&diff["from"], &diff["to"]), (&json!(0), &json!(1)));
    assert!(diff["diff"].as_str().unwrap().ends_with("@@ -0,0 +1 @@\n+one\n"), "{diff}");
}

#[tokio::test]
async fn a_key_makes_a_write_happen_once_in_one_document() {
    let house = House::open().await;
    let body = json!({"target": "@team", "mode": "append", "content": "x"}).to_string();
    let append = |file: &str| {
        Question::post(&format!("/documents/{file}"), body.clone()).header("Idempotency-Key", "k")
    };
    let first = house.as_user(append("a.md")).await.json();
    let again = house.as_user(append("a.md")).await.json();
    assert_eq!((&again["revision"], &again["deduplicated"]), (&first["revision"], &json!(true)));
    // The same key for another document is another call.
    assert_eq!(house.as_user(append("b.md")).await.refusal(), (409, "conflict".to_owned()));
}

#[tokio::test]
async fn a_text_too_long_for_a_message_is_read_in_parts_by_whom_it_concerns() {
    let house = House::open().await;
    let long = "0123456789".repeat(10_000);
    let body = json!({"target": "@team", "message": long}).to_string();
    assert_eq!(house.as_user(Question::post("/messages", body)).await.status, 200);
    let read = house.as_user(Question::get("/messages?target=@team&limit=1")).await.json();
    let id = read["messages"][0]["resource"].as_str().unwrap().to_owned();
    let part = |query: &str| Question::get(&format!("/resources/{id}?target=@team{query}"));
    let first = house.as_user(part("")).await.json();
    assert_eq!((&first["start"], &first["end"]), (&json!(0), &json!(65_536)));
    assert_eq!((&first["total"], &first["type"]), (&json!(100_000), &json!("text/plain")));
    let rest = house.as_user(part("&range=65536..")).await.json();
    let both = [&first, &rest].map(|part| part["content"].as_str().unwrap()).concat();
    assert!(both == long && rest["end"] == 100_000, "{}", rest["end"]);
    assert_eq!(house.as_user(part("&range=3..5")).await.json()["content"], "34");
    for bad in ["&range=5..3", "&range=bytes%3D0-1", "&range="] {
        assert_eq!(
            house.as_user(part(bad)).await.refusal(),
            (400, "bad_request".to_owned()),
            "{bad}"
        );
    }
    let own = house.over_tcp(part("&range=0..3").token(&house.job.token)).await;
    assert_eq!(own.json()["content"], "012");
    let elsewhere = format!("/resources/{id}?target=@global");
    let elsewhere = house.over_tcp(Question::get(&elsewhere).token(&house.job.token)).await;
    assert_eq!(elsewhere.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(house.over_tcp(part("")).await.refusal(), (401, "unauthorized".to_owned()));
}

#[tokio::test]
async fn an_instance_is_listed_cleared_and_after_its_run_removed() {
    let house = House::open().await;
    let team = || json!({"target": "@team"}).to_string();
    let listed = house.as_user(Question::get("/workflows?all=true")).await.json();
    assert_eq!((&listed[0]["instance"], &listed[0]["live"]), (&json!("team"), &json!(house.run)));
    let cleared = house.as_user(Question::post("/workflows/clear", team())).await.json();
    assert_eq!(cleared, json!({"instance": "team", "until": 1}));
    let shown = house.as_user(Question::get("/messages?target=@team")).await.json();
    assert_eq!(shown["messages"], json!([]));
    let live = house.as_user(Question::post("/workflows/remove", team())).await;
    assert_eq!(live.refusal(), (409, "conflict".to_owned()));
    let stop = format!("/runs/{}/stop", house.run);
    assert_eq!(house.as_user(Question::new("POST", &stop)).await.status, 200);
    let removed = house.as_user(Question::post("/workflows/remove", team())).await.json();
    assert_eq!(removed["instance"], "team");
    assert_eq!(house.as_user(Question::get("/workflows?all=true")).await.json(), json!([]));
    let sound = house.as_user(Question::get("/doctor")).await.json();
    assert_eq!(sound["problems"], json!([]));
}
