//! Tests of processes at the socket: their identity and their rights.

use agent_worker_host::Process;
use agent_worker_kernel::Principal;
use agent_worker_protocol::api::SendReply;

use super::{
    fixture::{DaemonFixture, TestRequest},
    process_family::{ProcessFamily, UNUSED_PID},
};
use crate::peer::Caller;

const WAITING_CHILD: &str = "env -i bash -c 'echo $$; read'; true";

#[tokio::test]
async fn a_process_of_an_attempt_is_its_agent_until_that_ends() {
    let fixture = DaemonFixture::open().await;
    let attempt = fixture.job.attempt;
    let family = ProcessFamily::new(WAITING_CHILD, Some(&attempt.to_string()));
    let callers = fixture.callers();
    let caller = async || callers.of_process(family.observed_pid, UNUSED_PID).await;
    assert_eq!(caller().await, Caller::Unidentified, "its worker is not known");
    callers.workers.register(attempt, Process::of(family.root_pid()));
    assert_eq!(caller().await, Caller::Attempt(attempt));
    let other = ProcessFamily::new(WAITING_CHILD, None);
    callers.workers.register(attempt, Process::of(other.root_pid()));
    assert_eq!(caller().await, Caller::Leftover { live: None }, "the worker is another process");
    fixture.kernel.runs().stop(&Principal::User, fixture.run).await.unwrap();
    assert_eq!(caller().await, Caller::Leftover { live: None });
}

#[tokio::test]
async fn a_process_that_a_setup_command_left_is_not_the_user_even_after_its_daemon() {
    let fixture = DaemonFixture::open().await;
    let family = ProcessFamily::new(WAITING_CHILD, Some(&fixture.run.to_string()));
    let caller = fixture.callers().of_process(family.observed_pid, UNUSED_PID).await;
    assert_eq!(caller, Caller::Leftover { live: None });
}

#[tokio::test]
async fn an_attempt_of_another_daemon_is_not_recognized() {
    let fixture = DaemonFixture::open().await;
    let foreign = "01890a5d-ac96-774b-bcce-b302099a8057";
    for (mark, expected) in [
        (None, Caller::User),
        (Some(foreign), Caller::Foreign),
        // A mark that a later version may write.
        (Some("not an id"), Caller::Foreign),
    ] {
        let family = ProcessFamily::new(WAITING_CHILD, mark);
        let callers = fixture.callers();
        let seen_by = async |daemon| callers.of_process(family.observed_pid, daemon).await;
        assert_eq!(seen_by(UNUSED_PID).await, expected, "{mark:?}");
        let below_us = seen_by(std::process::id()).await;
        assert_eq!(below_us, Caller::Leftover { live: None }, "{mark:?}");
    }
    let asked = fixture.as_caller(Caller::Foreign, TestRequest::get("/agents")).await;
    assert_eq!(asked.refusal(), (401, "unauthorized".to_owned()));
    let told = asked.json();
    assert_eq!(
        told["message"],
        "this process belongs to an agent or a setup command of another daemon, and this daemon does not accept it"
    );
}

#[tokio::test]
async fn a_process_of_an_attempt_speaks_as_its_agent() {
    let fixture = DaemonFixture::open().await;
    let coder = Caller::Attempt(fixture.job.attempt);
    let send = || TestRequest::post("/messages", r#"{"message": "@reviewer look"}"#);
    let answer = fixture.as_caller(coder, send()).await;
    let reply: SendReply = serde_json::from_value(answer.json()).unwrap();
    let said = fixture.as_user(TestRequest::get("/messages?target=@team&limit=1")).await.json();
    assert_eq!(said["items"][0]["from"], "coder");
    assert_eq!(said["items"][0]["seq"], reply.seq.get());
    let forbidden = fixture.as_caller(coder, TestRequest::get("/tokens")).await;
    assert_eq!(forbidden.refusal(), (403, "forbidden".to_owned()));
    // The shell does not have its worker's token, so it cannot end the attempt in the worker's name.
    let report = TestRequest::post(&format!("/attempts/{}/events", fixture.job.attempt), "{}");
    let forbidden = fixture.as_caller(coder, report).await;
    assert_eq!(forbidden.refusal(), (403, "forbidden".to_owned()));
    fixture.kernel.runs().stop(&Principal::User, fixture.run).await.unwrap();
    let late = fixture.as_caller(coder, send()).await;
    assert_eq!(late.refusal(), (401, "unauthorized".to_owned()));
}
