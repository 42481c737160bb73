//! Tests of approvals: rules, waiting, answers, and absent people.

use std::{sync::Arc, time::Duration};

use agent_worker_kernel::{
    AttentionNeed, Error, ListingScope, PageRequest, Principal, WatchSubject,
};
use agent_worker_protocol::{
    ApprovalId, AttemptEnd, Code, Consent, EventKind, Outcome, PauseCause, Permission, RunState,
    api::{ApprovalView, AttentionKind, ConsentRequest, PermitReply, PermitRequest, TokenRequest},
};
use serde_json::json;
use tokio::sync::Notify;

use crate::{
    scripted_worker::{ScriptEnd, ScriptedWorker},
    world::{KernelWorld, code, instance_selector},
};

pub(crate) const DONE: RunState = RunState::Ended { outcome: Outcome::Done };

pub(crate) fn team(permissions: &str) -> String {
    format!(
        "agents:\n  coder: {{ backend: claude, permissions: {{ {permissions} }} }}\nkickoff: '@coder go'\n"
    )
}

/// Requests a permit like a worker: again while the request is open, and after a daemon has stopped.
pub(crate) async fn permit(worker: &ScriptedWorker, call: &str, command: &str) -> PermitReply {
    loop {
        let asked = async {
            let (kernel, who) = worker.principal().await?;
            let args = json!({ "command": command });
            let request = PermitRequest { call: call.into(), tool: "Bash".into(), args };
            kernel.approvals().permit_call(&who, worker.job.attempt, request).await
        };
        match asked.await {
            Ok(PermitReply::Open { .. }) => {}
            Ok(reply) => return reply,
            Err(Error::Store(agent_worker_store::Error::Closed)) => {
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn asks(world: &KernelWorld, command: &'static str) {
    world.machine.set_worker_script("coder", move |worker| async move {
        match permit(&worker, "c1", command).await {
            PermitReply::Allow => ScriptEnd::done("allowed"),
            PermitReply::Deny { why } => ScriptEnd::done(&why),
            other => ScriptEnd::done(&format!("{other:?}")),
        }
    });
}

impl KernelWorld {
    async fn consent(&self, who: &Principal, consent: Consent) -> Result<ApprovalView, Error> {
        let target = Some("@team".parse().unwrap());
        let request = ConsentRequest { target, reason: Some("so".into()), ..Default::default() };
        self.kernel.approvals().answer(who, None, ApprovalId::new(1), consent, request).await
    }

    /// Creates a client with these permissions in this instance.
    pub(crate) async fn client(
        &self,
        name: &str,
        allow: &[Permission],
        instance: &str,
    ) -> Principal {
        let allow = Some(allow.iter().copied().collect());
        let instances = vec![instance.parse().unwrap()];
        let request = TokenRequest { name: name.into(), allow, instances, ..Default::default() };
        let made = self.kernel.tokens().create(&Principal::User, request).await.unwrap();
        self.kernel.tokens().principal_by_token(&made.token).await.unwrap()
    }

    pub(crate) async fn open(&self) -> Vec<ApprovalView> {
        let at = &instance_selector("@team");
        self.kernel
            .approvals()
            .list(&Principal::User, at, ListingScope::Live, &PageRequest::whole())
            .await
            .unwrap()
            .items
    }

    pub(crate) async fn answers(&self) -> String {
        self.channel().await.pop().unwrap().body
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_rule_decides_is_answered_at_once_without_a_request() {
    for (permissions, command, answer) in [
        ("allow: ['Bash(ls*)']", "ls -l", "allowed"),
        ("default: allow", "rm x", "allowed"),
        ("default: allow, deny: ['Bash(rm*)']", "rm x", "Bash is not allowed here"),
    ] {
        let world = KernelWorld::new().await;
        asks(&world, command);
        let run = world.run(&team(permissions)).await;
        assert_eq!(world.wait_until_ended(run).await.state, DONE);
        assert_eq!(world.answers().await, answer);
        let story = world.events_of(run).await;
        assert!(!story.iter().any(|event| event.kind() == Some(EventKind::ApprovalOpen)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_pauses_the_run_and_its_clocks_until_a_person_answers() {
    for (consent, answer) in
        [(Consent::Approved, "allowed"), (Consent::Denied, "denied by user: so")]
    {
        let world = KernelWorld::new().await;
        asks(&world, "git push");
        let run = world.run(&team("")).await;
        let paused = world.wait_until_paused(run).await;
        assert_eq!(paused.cause.as_deref(), Some("waiting for a person"));
        // Much longer than the limits of an attempt's time or a worker's silence.
        world.pass_time(Duration::from_hours(3)).await;
        let view = world.view(run).await;
        assert_eq!(view.state, RunState::Paused { cause: PauseCause::Human });
        assert_eq!(view.agents[0].state.to_string(), "waiting for approval (#1)");
        assert!(view.is_at_rest(), "whoever follows it may go");
        let (user, at) = (&Principal::User, &instance_selector("@team"));
        let items = world
            .kernel
            .attention()
            .list(user, at, ListingScope::Live, &PageRequest::whole())
            .await
            .unwrap()
            .items;
        let item = items.iter().find(|item| item.need.kind() == AttentionKind::Approval).unwrap();
        assert_eq!(item.what, r#"wants #1: Bash {"command":"git push"}"#);
        assert_eq!(item.need, AttentionNeed::Approval(ApprovalId::new(1)));
        let item = items.iter().find(|item| item.need.kind() == AttentionKind::Paused).unwrap();
        assert_eq!(item.need, AttentionNeed::AnyApproval);
        let answered = world.consent(user, consent).await.unwrap();
        assert_eq!(
            (answered.args, answered.answer),
            (json!({"command": "git push"}), Some(consent))
        );
        assert_eq!(world.wait_until_ended(run).await.state, DONE);
        assert_eq!((world.answers().await.as_str(), world.open().await.len()), (answer, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn no_agent_and_no_client_without_that_right_answers() {
    let world = KernelWorld::new().await;
    let asked = Arc::new(Notify::new());
    let is_asked = asked.clone();
    world.machine.set_worker_script("coder", move |worker| {
        let is_asked = is_asked.clone();
        async move {
            let own = async {
                is_asked.notified().await;
                let (kernel, who) = worker.principal().await.unwrap();
                let (id, request) = (ApprovalId::new(1), ConsentRequest::default());
                kernel.approvals().answer(&who, None, id, Consent::Approved, request).await
            };
            let (reply, answered) = tokio::join!(permit(&worker, "c1", "git push"), own);
            ScriptEnd::done(&format!("{reply:?} {:?}", code(answered)))
        }
    });
    let run = world.run(&team("")).await;
    world.wait_until_paused(run).await;
    asked.notify_one();
    let lone =
        world.kernel.runs().watch(&Principal::User, WatchSubject::RunUntilIdle(run), None).await;
    let mut lone = lone.unwrap();
    while lone.next().await.unwrap().is_some() {}
    let nobody = world.consent(&Principal::Anonymous, Consent::Approved).await;
    assert_eq!(code(nobody), Some(Code::Unauthorized));
    assert_eq!(world.open().await.len(), 1);
    world.consent(&Principal::User, Consent::Denied).await.unwrap();
    assert_eq!(
        code(world.consent(&Principal::User, Consent::Approved).await),
        Some(Code::Conflict)
    );
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    let said = world.answers().await;
    assert!(said.starts_with("Deny") && said.ends_with("Some(Forbidden)"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_client_answers_if_it_was_given_that_right_for_this_instance() {
    use Permission::Approve;
    let world = KernelWorld::new().await;
    asks(&world, "git push");
    let run = world.run(&team("")).await;
    world.wait_until_paused(run).await;
    let others: Vec<_> = Permission::ALL.iter().copied().filter(|it| *it != Approve).collect();
    for (who, expected) in [
        (world.client("all-but-that", &others, "@team").await, Code::Forbidden),
        (world.client("elsewhere", Permission::ALL, "@other").await, Code::NotFound),
        (world.client("other-tag", Permission::ALL, "@team:x").await, Code::NotFound),
    ] {
        for consent in [Consent::Approved, Consent::Denied] {
            assert_eq!(code(world.consent(&who, consent).await), Some(expected), "{who:?}");
        }
    }
    assert_eq!(world.open().await.len(), 1, "nothing was said to it");
    let judge = world.client("judge", &[Approve], "@team").await;
    assert_eq!(world.consent(&judge, Consent::Approved).await.unwrap().args["command"], "git push");
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    assert_eq!(world.answers().await, "allowed");
    let story = world.events_of(run).await;
    let answered =
        story.iter().find(|event| event.kind() == Some(EventKind::ApprovalAnswered)).unwrap();
    assert_eq!(answered.by.as_deref(), Some("client:judge"));
}

#[tokio::test(start_paused = true)]
async fn two_calls_are_two_requests_however_alike_and_one_that_changes_is_refused() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        let other = |tool: &str, args| PermitRequest { call: "c1".into(), tool: tool.into(), args };
        let rest = async {
            let (kernel, who) = worker.principal().await.unwrap();
            let changed = other("Bash", json!({ "command": "git push --force" }));
            let changed = kernel.approvals().permit_call(&who, worker.job.attempt, changed).await;
            let long = other("Write", json!({ "content": "x".repeat(2 << 20) }));
            let long = PermitRequest { call: "c3".into(), ..long };
            let long = kernel.approvals().permit_call(&who, worker.job.attempt, long).await;
            [code(changed), code(long)]
        };
        let (one, two, again) = tokio::join!(
            permit(&worker, "c1", "git push"),
            permit(&worker, "c2", "git push"),
            permit(&worker, "c1", "git push"),
        );
        ScriptEnd::done(&format!("{one:?} {two:?} {:?} {:?}", one == again, rest.await))
    });
    let run = world.run(&team("")).await;
    world.wait_until_paused(run).await;
    let asked = world.open().await;
    assert_eq!(asked.len(), 2, "{asked:?}");
    world.consent(&Principal::User, Consent::Approved).await.unwrap();
    world.pass_time(Duration::from_hours(1)).await;
    let left = world.open().await;
    assert_eq!(left.len(), 1, "one answer is for one call");
    let id = left[0].id;
    let denied = ConsentRequest { target: Some("@team".parse().unwrap()), ..Default::default() };
    let denied =
        world.kernel.approvals().answer(&Principal::User, None, id, Consent::Denied, denied);
    denied.await.unwrap();
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    let said = world.answers().await;
    let (allowed, denied) = ("Allow", "Deny { why: \"denied by user\" }");
    let either = [format!("{allowed} {denied}"), format!("{denied} {allowed}")];
    assert!(either.iter().any(|both| said.starts_with(both)), "{said}");
    assert!(said.ends_with("true [Some(Conflict), Some(TooLarge)]"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_watched_run_waits_for_an_approval_without_a_pause() {
    let world = KernelWorld::new().await;
    asks(&world, "git push");
    let run = world.run(&team("on_ask: deny")).await;
    let feed =
        world.kernel.runs().watch(&Principal::User, WatchSubject::RunUntilIdle(run), None).await;
    let person = feed.unwrap().with_presence_of(&Principal::User);
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::ApprovalOpen)).await;
    world.pass_time(Duration::from_mins(10)).await;
    assert_eq!(world.view(run).await.state, RunState::Running);
    assert_eq!(world.open().await.len(), 1);
    drop(person);
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    assert_eq!(world.answers().await, "denied by system: no person is present to approve it");
}

#[tokio::test(start_paused = true)]
async fn without_a_person_present_a_request_is_denied_or_its_turn_fails_as_configured() {
    for (on_ask, expected) in [
        ("deny", "denied by system: no person is present to approve it"),
        ("fail", "Fail { why: \"no person is present to approve it\" }"),
    ] {
        let world = KernelWorld::new().await;
        asks(&world, "git push");
        let run = world.run(&team(&format!("on_ask: {on_ask}"))).await;
        assert_eq!(world.wait_until_ended(run).await.state, DONE, "nothing was paused");
        assert_eq!(world.answers().await, expected);
        let story = world.events_of(run).await;
        let at = |kind| story.iter().find(|event| event.kind() == Some(kind)).unwrap().ts;
        let waited = at(EventKind::ApprovalAnswered).since(at(EventKind::ApprovalOpen));
        assert_eq!(waited, Duration::from_secs(5), "somebody may be on their way");
        assert!(!story.iter().any(|event| event.kind() == Some(EventKind::RunPaused)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_outlives_the_daemon_and_the_attempt_that_asked_goes_on_with_the_answer() {
    let mut world = KernelWorld::on_disk().await;
    asks(&world, "git push");
    let run = world.run(&team("")).await;
    let paused = world.wait_until_paused(run).await;
    assert_eq!(paused.cause.as_deref(), Some("waiting for a person"));
    world.stop_daemon().await;
    world.restart_daemon().await;
    world.consent(&Principal::User, Consent::Approved).await.unwrap();
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    assert_eq!(world.answers().await, "allowed");
    let ends = world.events_of(run).await;
    let ends = ends.iter().filter(|event| event.kind() == Some(EventKind::AttemptEnded));
    let ends: Vec<AttemptEnd> =
        ends.map(|event| serde_json::from_value(event.data().into_owned()).unwrap()).collect();
    assert_eq!(ends, [AttemptEnd::Ok], "the attempt that asked did it");
}

#[tokio::test(start_paused = true)]
async fn an_answer_outlives_the_attempt_and_the_next_one_has_it_without_asking_again() {
    let world = KernelWorld::new().await;
    asks(&world, "git push");
    let run = world.run(&team("")).await;
    world.wait_until_paused(run).await;
    world.machine.kill_all().await;
    world.consent(&Principal::User, Consent::Approved).await.unwrap();
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    assert_eq!(world.answers().await, "allowed");
    assert_eq!(world.machine.turns_of("coder").len(), 2);
    let story = world.events_of(run).await;
    let asked = story.iter().filter(|event| event.kind() == Some(EventKind::ApprovalOpen));
    assert_eq!(asked.map(|event| event.data()["approval"].clone()).collect::<Vec<_>>(), [json!(1)]);
}
