//! Tests of a run in one request, as a stream or as a report; pause, resume, replacement, and dead letters.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::fixture::{DaemonFixture, TestRequest};

const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

const QUICK: &str = "
name: quick
agents:
  quick: { backend: mock }
kickoff: '@quick go'
";
const FRAGILE: &str = "
name: fragile
agents:
  fragile: { backend: mock, retry: { max_attempts: 1 } }
kickoff: '@fragile go'
";
const LIMITED: &str = "
name: limited
agents:
  one: { backend: mock }
  other: { backend: mock }
kickoff: '@one @other go'
limits: { turns: 1 }
";

/// Returns the kinds of events in a stream that has ended.
fn kinds(stream: &str) -> Vec<&str> {
    stream.lines().filter_map(|line| line.strip_prefix("event: ")).collect()
}

async fn serve(fixture: &DaemonFixture, request: &Value) -> Value {
    let answer = fixture.as_user(TestRequest::post("/serve", request.to_string())).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Waits until `limited` is paused, checks that resuming with the same limits is refused, and ends the running
/// turn.
async fn stop_worker_at_pause(fixture: &DaemonFixture) {
    let runs = async || {
        let answer = fixture.as_user(TestRequest::get("/runs?target=@limited")).await;
        if answer.status == 200 { answer.items() } else { json!([{}]) }
    };
    fixture.wait_until(async || runs().await[0]["state"] == "paused").await;
    let paused = runs().await;
    let resume = format!("/runs/{}/resume", paused[0]["run"].as_str().unwrap());
    let as_it_is = fixture.as_user(TestRequest::post(&resume, "{}")).await;
    assert_eq!(as_it_is.refusal(), (429, "limit".to_owned()));
    let agents = paused[0]["agents"].as_array().unwrap();
    let who = agents.iter().find(|agent| agent["state"] == "running").unwrap();
    let stop = format!("/agents/{}@limited/stop", who["name"].as_str().unwrap());
    assert_eq!(fixture.as_user(TestRequest::post(&stop, "{}")).await.status, 200);
}

#[tokio::test]
async fn a_run_is_streamed_from_its_beginning_to_its_end() {
    let fixture = DaemonFixture::open().await;
    let request = fixture.file("quick", QUICK);
    let told = fixture.as_user(TestRequest::post("/run", request.to_string())).await;
    assert!(told.head.contains("content-type: text/event-stream"), "{told:?}");
    let kinds = kinds(&told.body);
    assert_eq!((kinds.first(), kinds.last()), (Some(&"run.setup"), Some(&"run.ended")));
    assert!(kinds.contains(&"message") && kinds.contains(&"attempt.ended"), "{kinds:?}");
}

#[tokio::test]
async fn the_text_of_a_model_is_streamed_as_it_is_generated() {
    let fixture = DaemonFixture::open().await;
    let request = fixture.file("slow", &QUICK.replace("quick", "slow"));
    let mut told = fixture.open_event_stream(TestRequest::post("/run", request.to_string())).await;
    let job = fixture.jobs.lock().await.recv().await.unwrap();
    let report = format!("/attempts/{}/events", job.attempt);
    for word in ["Polly ", "wants"] {
        let words = json!({"live": [{"kind": "text", "text": word}]});
        let said =
            fixture.as_user(TestRequest::post(&report, words.to_string()).token(&job.token)).await;
        assert_eq!(said.status, 200, "{said:?}");
        let words = async {
            loop {
                let event = told.next().await.expect("the run continues");
                if event["kind"] == "text" {
                    break event;
                }
            }
        };
        // No other event occurs in the run: the texts arrive on their own or not at all.
        let heard = timeout(EVENT_TIMEOUT, words).await.expect("they are told as they come");
        assert_eq!((&heard["agent"], &heard["data"]["text"]), (&json!("slow"), &json!(word)));
        assert_eq!(heard.get("pos"), None, "it is not kept");
    }
    let run = fixture.as_user(TestRequest::get("/runs?target=@slow")).await.items()[0].clone();
    assert_eq!(run["agents"][0]["state"], "running", "{run}");
}

#[tokio::test]
async fn what_a_run_came_to_is_one_document() {
    let fixture = DaemonFixture::open().await;
    let done = serve(&fixture, &fixture.file("quick", QUICK)).await;
    assert_eq!((&done["outcome"], &done["error"]), (&json!("done"), &Value::Null));
    assert_eq!((&done["turns"], &done["agents"]["quick"]["turns"]), (&json!(1), &json!(1)));
    let failed = serve(&fixture, &fixture.file("fragile", FRAGILE)).await;
    assert_eq!(
        (&failed["outcome"], &failed["error"]["code"]),
        (&json!("failed"), &json!("dead_letters"))
    );
    assert_eq!(failed["dead_letters"][0]["agent"], "fragile");
    let hint = failed["error"]["hint"].as_str().unwrap_or_else(|| panic!("{failed}"));
    assert!(hint.ends_with("then start the run again: `POST /runs`"), "{hint}");
}

#[tokio::test]
async fn the_stream_of_a_run_that_pauses_ends_once_no_agent_works_and_the_run_is_resumed_with_more()
{
    let fixture = DaemonFixture::open().await;
    let mut request = fixture.file("limited", LIMITED);
    let telling = fixture.as_user(TestRequest::post("/run", request.to_string()));
    let (told, ()) = tokio::join!(telling, stop_worker_at_pause(&fixture));
    let kinds = kinds(&told.body);
    let at = |kind| kinds.iter().position(|one| *one == kind).unwrap();
    assert!(at("run.paused") < at("attempt.ended"), "{kinds:?}");
    let runs = fixture.as_user(TestRequest::get("/runs?target=@limited")).await.items();
    assert_eq!(runs[0]["state"], "paused");
    let waiting = fixture.as_user(TestRequest::get("/attention?target=@limited")).await.items();
    assert_eq!(waiting[0]["kind"], "paused");
    let resume = format!("/runs/{}/resume", runs[0]["run"].as_str().unwrap());
    let more = fixture.as_user(TestRequest::post(&resume, r#"{"turns": 9}"#)).await.json();
    assert_eq!((&more["state"], &more["limits"]["turns"]), (&json!("running"), &json!(9)));
    let running = fixture.as_user(TestRequest::post(&resume, "{}")).await;
    assert_eq!(running.refusal(), (409, "conflict".to_owned()));
    // A live run is replaced only with `replace`.
    let busy = fixture.as_user(TestRequest::post("/serve", request.to_string())).await;
    assert_eq!(busy.refusal(), (409, "conflict".to_owned()));
    request["replace"] = json!(true);
    let (report, ()) = tokio::join!(serve(&fixture, &request), stop_worker_at_pause(&fixture));
    assert_eq!(report["outcome"], "limit");
    let resume = format!("`POST /runs/{}/resume` with {{", report["run"].as_str().unwrap());
    assert!(report["error"]["hint"].as_str().unwrap().contains(&resume), "{report}");
    let works = |agent: &Value| agent["state"] == "running";
    assert!(!report["agents"].as_object().unwrap().values().any(works), "{report}");
    assert_ne!(report["run"], runs[0]["run"]);
}

#[tokio::test]
async fn a_caller_who_hangs_up_leaves_the_run_as_it_is() {
    let fixture = DaemonFixture::open().await;
    for path in ["/run", "/serve"] {
        let request = fixture.file("slow", &QUICK.replace("quick", "slow")).to_string();
        let asked = fixture.send_request(TestRequest::post(path, request)).await;
        let runs = async || fixture.as_user(TestRequest::get("/runs?target=@slow")).await;
        let at_work = async || {
            let runs = runs().await;
            runs.status == 200 && runs.items()[0]["agents"][0]["state"] == "running"
        };
        fixture.wait_until(at_work).await;
        drop(asked);
        let run = runs().await.items()[0].clone();
        assert_eq!(run["state"], "running");
        let stop = format!("/runs/{}/stop", run["run"].as_str().unwrap());
        let stopped = fixture.as_user(TestRequest::new("POST", &stop)).await.json();
        assert_eq!(stopped["attempts"], json!(["slow"]), "{path}: it was still at work");
    }
}

#[tokio::test]
async fn a_client_that_waits_for_a_run_is_notified_when_the_daemon_stops() {
    let fixture = DaemonFixture::open().await;
    let request = fixture.file("waits", &QUICK.replace("quick", "slow"));
    let waiting = fixture.as_user(TestRequest::post("/serve", request.to_string()));
    let leaves = async {
        fixture
            .wait_until(async || {
                fixture.as_user(TestRequest::get("/runs?target=@slow")).await.status == 200
            })
            .await;
        fixture.shutdown.close_streams();
    };
    let (answer, ()) = tokio::join!(waiting, leaves);
    assert_eq!(answer.refusal(), (503, "unavailable".to_owned()));
}

#[tokio::test]
async fn a_dead_letter_is_listed_tried_again_and_given_up() {
    let fixture = DaemonFixture::open().await;
    let mut request = fixture.file("fragile", FRAGILE);
    request["mode"] = json!("start");
    let run = fixture.as_user(TestRequest::post("/runs", request.to_string())).await.json();
    assert_eq!(run["instance"], "fragile");
    let dead = async || fixture.as_user(TestRequest::get("/dead?target=@fragile")).await.items();
    fixture.wait_until(async || dead().await.as_array().is_some_and(|dead| dead.len() == 1)).await;
    let letter = dead().await[0].clone();
    assert_eq!(
        (&letter["agent"], &letter["state"], &letter["live"]),
        (&json!("fragile"), &json!("dead"), &json!(true))
    );
    let waiting = fixture.as_user(TestRequest::get("/attention?target=@fragile")).await.items();
    assert_eq!(waiting[0]["kind"], "dead_letter");
    let which = json!({"target": "@fragile", "seq": letter["seq"]}).to_string();
    let redriven = fixture.as_user(TestRequest::post("/dead/redrive", which.clone())).await.json();
    assert_eq!(redriven["receipts"][0]["agent"], "fragile");
    // The agent fails again.
    fixture.wait_until(async || dead().await.as_array().is_some_and(|dead| dead.len() == 1)).await;
    let dropped = fixture.as_user(TestRequest::post("/dead/drop", which)).await.json();
    assert_eq!(dropped["receipts"][0]["state"], "dropped");
    assert_eq!(dead().await, json!([]));
    let stats = fixture.as_user(TestRequest::get("/stats?target=@fragile")).await.items();
    assert_eq!((&stats[0]["total"]["turns"], &stats[0]["total"]["failed"]), (&json!(2), &json!(2)));
}

#[tokio::test]
async fn a_stop_of_a_run_now_skips_the_grace_period_of_that_run_alone() {
    let fixture = DaemonFixture::open().await;
    let other = fixture.file("slow", &QUICK.replace("quick", "slow")).to_string();
    let other = fixture.as_user(TestRequest::post("/runs", other)).await.json();
    let stop =
        |run: &str, query: &str| TestRequest::new("POST", &format!("/runs/{run}/stop{query}"));
    let stopped = fixture.as_user(stop(other["run"].as_str().unwrap(), "?now=false")).await;
    assert_eq!((stopped.status, fixture.grace_skips.lock().unwrap().len()), (200, 0));
    let unknown = "00000000-0000-0000-0000-000000000000";
    let missing = fixture.as_user(stop(unknown, "?now=true")).await;
    assert_eq!((missing.refusal().0, fixture.grace_skips.lock().unwrap().len()), (404, 0));
    let stopped = fixture.as_user(stop(&fixture.run.to_string(), "?now=true")).await.json();
    assert_eq!(stopped["attempts"], json!(["coder"]));
    assert_eq!(*fixture.grace_skips.lock().unwrap(), [(fixture.run, None)]);
}

#[tokio::test]
async fn a_stop_of_an_agent_now_skips_the_grace_period_of_that_agent_alone() {
    let fixture = DaemonFixture::open().await;
    let stop = async |agent: &str, query: &str| {
        let question = TestRequest::new("POST", &format!("/agents/{agent}@team/stop{query}"));
        let answer = fixture.as_user(question).await;
        (answer.status, fixture.grace_skips.lock().unwrap().clone())
    };
    assert_eq!(stop("reviewer", "?now=true").await, (200, vec![]), "it has no worker");
    assert_eq!(stop("coder", "?now=1").await, (400, vec![]));
    assert_eq!(stop("stranger", "?now=true").await, (404, vec![]));
    let hurried = vec![(fixture.run, Some(fixture.job.attempt))];
    assert_eq!(stop("coder", "?now=true").await, (200, hurried));
    let other = DaemonFixture::open().await;
    let usual = other.as_user(TestRequest::new("POST", "/agents/coder@team/stop")).await;
    assert_eq!((usual.status, other.grace_skips.lock().unwrap().len()), (200, 0));
}
