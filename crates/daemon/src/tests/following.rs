//! A run in one request, told as it goes or once it rests; paused, resumed, replaced; what died in it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::house::{House, Question};

const PATIENCE: Duration = Duration::from_secs(20);

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

/// The kinds of events in a stream that has ended.
fn kinds(stream: &str) -> Vec<&str> {
    stream.lines().filter_map(|line| line.strip_prefix("event: ")).collect()
}

async fn serve(house: &House, request: &Value) -> Value {
    let answer = house.as_user(Question::post("/serve", request.to_string())).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Waits until `limited` is paused, is refused more of the same, and ends the turn under way in it.
async fn stop_who_works_at_the_pause(house: &House) {
    let runs = async || {
        let answer = house.as_user(Question::get("/runs?target=@limited")).await;
        if answer.status == 200 { answer.json() } else { json!([{}]) }
    };
    house.until(async || runs().await[0]["state"] == "paused").await;
    let paused = runs().await;
    let resume = format!("/runs/{}/resume", paused[0]["run"].as_str().unwrap());
    let as_it_is = house.as_user(Question::post(&resume, "{}")).await;
    assert_eq!(as_it_is.refusal(), (429, "limit".to_owned()));
    let agents = paused[0]["agents"].as_array().unwrap();
    let who = agents.iter().find(|agent| agent["state"] == "running").unwrap();
    let stop = format!("/agents/{}@limited/stop", who["name"].as_str().unwrap());
    assert_eq!(house.as_user(Question::post(&stop, "{}")).await.status, 200);
}

#[tokio::test]
async fn a_run_is_told_from_its_beginning_to_its_end() {
    let house = House::open().await;
    let request = house.file("quick", QUICK);
    let told = house.as_user(Question::post("/run", request.to_string())).await;
    assert!(told.head.contains("content-type: text/event-stream"), "{told:?}");
    let kinds = kinds(&told.body);
    assert_eq!((kinds.first(), kinds.last()), (Some(&"run.setup"), Some(&"run.ended")));
    assert!(kinds.contains(&"message") && kinds.contains(&"attempt.ended"), "{kinds:?}");
}

#[tokio::test]
async fn a_models_words_are_told_while_it_speaks() {
    let house = House::open().await;
    let request = house.file("slow", &QUICK.replace("quick", "slow"));
    let mut told = house.listen(Question::post("/run", request.to_string())).await;
    let job = house.jobs.lock().await.recv().await.unwrap();
    let report = format!("/attempts/{}/events", job.attempt);
    for word in ["Polly ", "wants"] {
        let words = json!({"live": [{"kind": "text", "text": word}]});
        let said =
            house.as_user(Question::post(&report, words.to_string()).token(&job.token)).await;
        assert_eq!(said.status, 200, "{said:?}");
        let words = async {
            loop {
                let event = told.next().await.expect("the run goes on");
                if event["kind"] == "text" {
                    break event;
                }
            }
        };
        // Nothing else happens in the run, and nothing ends: they come by themselves or not at all.
        let heard = timeout(PATIENCE, words).await.expect("they are told as they come");
        assert_eq!((&heard["agent"], &heard["data"]["text"]), (&json!("slow"), &json!(word)));
        assert_eq!(heard.get("pos"), None, "it is not kept");
    }
    let run = house.as_user(Question::get("/runs?target=@slow")).await.json()[0].clone();
    assert_eq!(run["agents"][0]["state"], "running", "{run}");
}

#[tokio::test]
async fn what_a_run_came_to_is_one_document() {
    let house = House::open().await;
    let done = serve(&house, &house.file("quick", QUICK)).await;
    assert_eq!((&done["outcome"], &done["error"]), (&json!("done"), &Value::Null));
    assert_eq!((&done["turns"], &done["agents"]["quick"]["turns"]), (&json!(1), &json!(1)));
    let failed = serve(&house, &house.file("fragile", FRAGILE)).await;
    assert_eq!(
        (&failed["outcome"], &failed["error"]["code"]),
        (&json!("failed"), &json!("dead_letters"))
    );
    assert_eq!(failed["dead_letters"][0]["agent"], "fragile");
}

#[tokio::test]
async fn a_run_that_pauses_ends_its_telling_once_nobody_works_and_is_resumed_with_more() {
    let house = House::open().await;
    let mut request = house.file("limited", LIMITED);
    let telling = house.as_user(Question::post("/run", request.to_string()));
    let (told, ()) = tokio::join!(telling, stop_who_works_at_the_pause(&house));
    let kinds = kinds(&told.body);
    let at = |kind| kinds.iter().position(|one| *one == kind).unwrap();
    assert!(at("run.paused") < at("attempt.ended"), "{kinds:?}");
    let runs = house.as_user(Question::get("/runs?target=@limited")).await.json();
    assert_eq!(runs[0]["state"], "paused");
    let waiting = house.as_user(Question::get("/attention?target=@limited")).await.json();
    assert_eq!(waiting[0]["kind"], "paused");
    let resume = format!("/runs/{}/resume", runs[0]["run"].as_str().unwrap());
    let more = house.as_user(Question::post(&resume, r#"{"turns": 9}"#)).await.json();
    assert_eq!((&more["state"], &more["limits"]["turns"]), (&json!("running"), &json!(9)));
    let running = house.as_user(Question::post(&resume, "{}")).await;
    assert_eq!(running.refusal(), (409, "conflict".to_owned()));
    // One that lives is replaced only by who says so.
    let busy = house.as_user(Question::post("/serve", request.to_string())).await;
    assert_eq!(busy.refusal(), (409, "conflict".to_owned()));
    request["replace"] = json!(true);
    let (report, ()) = tokio::join!(serve(&house, &request), stop_who_works_at_the_pause(&house));
    assert_eq!(report["outcome"], "limit");
    let works = |agent: &Value| agent["state"] == "running";
    assert!(!report["agents"].as_object().unwrap().values().any(works), "{report}");
    assert_ne!(report["run"], runs[0]["run"]);
}

#[tokio::test]
async fn a_caller_who_hangs_up_leaves_the_run_as_it_is() {
    let house = House::open().await;
    for path in ["/run", "/serve"] {
        let request = house.file("slow", &QUICK.replace("quick", "slow")).to_string();
        let asked = house.begin(Question::post(path, request)).await;
        let runs = async || house.as_user(Question::get("/runs?target=@slow")).await;
        let at_work = async || {
            let runs = runs().await;
            runs.status == 200 && runs.json()[0]["agents"][0]["state"] == "running"
        };
        house.until(at_work).await;
        drop(asked);
        let run = runs().await.json()[0].clone();
        assert_eq!(run["state"], "running");
        let stop = format!("/runs/{}/stop", run["run"].as_str().unwrap());
        let stopped = house.as_user(Question::new("POST", &stop)).await.json();
        assert_eq!(stopped["attempts"], json!(["slow"]), "{path}: it was still at work");
    }
}

#[tokio::test]
async fn whoever_waits_for_a_run_is_told_when_the_daemon_leaves() {
    let house = House::open().await;
    let request = house.file("waits", &QUICK.replace("quick", "slow"));
    let waiting = house.as_user(Question::post("/serve", request.to_string()));
    let leaves = async {
        house
            .until(async || house.as_user(Question::get("/runs?target=@slow")).await.status == 200)
            .await;
        house.shutdown.close_streams();
    };
    let (answer, ()) = tokio::join!(waiting, leaves);
    assert_eq!(answer.refusal(), (503, "unavailable".to_owned()));
}

#[tokio::test]
async fn a_dead_letter_is_listed_tried_again_and_given_up() {
    let house = House::open().await;
    let mut request = house.file("fragile", FRAGILE);
    request["mode"] = json!("start");
    let run = house.as_user(Question::post("/runs", request.to_string())).await.json();
    assert_eq!(run["instance"], "fragile");
    let dead = async || house.as_user(Question::get("/dead?target=@fragile")).await.json();
    house.until(async || dead().await.as_array().is_some_and(|dead| dead.len() == 1)).await;
    let letter = dead().await[0].clone();
    assert_eq!(
        (&letter["agent"], &letter["state"], &letter["live"]),
        (&json!("fragile"), &json!("dead"), &json!(true))
    );
    let waiting = house.as_user(Question::get("/attention?target=@fragile")).await.json();
    assert_eq!(waiting[0]["kind"], "dead_letter");
    let which = json!({"target": "@fragile", "seq": letter["seq"]}).to_string();
    let redriven = house.as_user(Question::post("/dead/redrive", which.clone())).await.json();
    assert_eq!(redriven["receipts"][0]["agent"], "fragile");
    // It breaks again.
    house.until(async || dead().await.as_array().is_some_and(|dead| dead.len() == 1)).await;
    let dropped = house.as_user(Question::post("/dead/drop", which)).await.json();
    assert_eq!(dropped["receipts"][0]["state"], "dropped");
    assert_eq!(dead().await, json!([]));
    let stats = house.as_user(Question::get("/stats?target=@fragile")).await.json();
    assert_eq!((&stats[0]["total"]["turns"], &stats[0]["total"]["failed"]), (&json!(2), &json!(2)));
}

#[tokio::test]
async fn whoever_does_not_want_to_wait_hurries_the_end_of_that_run_alone() {
    let house = House::open().await;
    let other = house.file("slow", &QUICK.replace("quick", "slow")).to_string();
    let other = house.as_user(Question::post("/runs", other)).await.json();
    let stop = |run: &str, query: &str| Question::new("POST", &format!("/runs/{run}/stop{query}"));
    let stopped = house.as_user(stop(other["run"].as_str().unwrap(), "?now=false")).await;
    assert_eq!((stopped.status, house.hurried.lock().unwrap().len()), (200, 0));
    let unknown = "00000000-0000-0000-0000-000000000000";
    let missing = house.as_user(stop(unknown, "?now=true")).await;
    assert_eq!((missing.refusal().0, house.hurried.lock().unwrap().len()), (404, 0));
    let stopped = house.as_user(stop(&house.run.to_string(), "?now=true")).await.json();
    assert_eq!(stopped["attempts"], json!(["coder"]));
    assert_eq!(*house.hurried.lock().unwrap(), [(house.run, None)]);
}

#[tokio::test]
async fn whoever_does_not_want_to_wait_hurries_the_end_of_that_agent_alone() {
    let house = House::open().await;
    let stop = async |agent: &str, query: &str| {
        let question = Question::new("POST", &format!("/agents/{agent}@team/stop{query}"));
        let answer = house.as_user(question).await;
        (answer.status, house.hurried.lock().unwrap().clone())
    };
    assert_eq!(stop("reviewer", "?now=true").await, (200, vec![]), "it has no worker");
    assert_eq!(stop("coder", "?now=1").await, (400, vec![]));
    assert_eq!(stop("stranger", "?now=true").await, (404, vec![]));
    let hurried = vec![(house.run, Some(house.job.attempt))];
    assert_eq!(stop("coder", "?now=true").await, (200, hurried));
    let other = House::open().await;
    let usual = other.as_user(Question::new("POST", "/agents/coder@team/stop")).await;
    assert_eq!((usual.status, other.hurried.lock().unwrap().len()), (200, 0));
}
