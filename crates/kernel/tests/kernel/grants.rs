//! Tests of grants: the calls that a person allows an agent for the rest of its run.

use agent_worker_kernel::{Error, ListingScope, PageRequest, Principal};
use agent_worker_protocol::{
    ApprovalId, Code, Consent, ConsentScope, EventBody, EventKind, GrantId, Permission, RunId,
    api::{ApprovalView, ConsentRequest, GrantView, PermitReply, RevokeRequest},
};

use crate::{
    approvals::{DONE, permit, team},
    scripted_worker::ScriptEnd,
    world::{KernelWorld, code, instance_selector},
};

/// An agent that makes calls of `Bash`, one after the other, and returns the replies.
fn calls(world: &KernelWorld, agent: &str, commands: &'static [&'static str]) {
    world.machine.set_worker_script(agent, move |worker| async move {
        let mut replies = Vec::new();
        for (n, command) in commands.iter().enumerate() {
            replies.push(match permit(&worker, &format!("c{n}"), command).await {
                PermitReply::Allow => "allowed".to_owned(),
                PermitReply::Deny { why } => why,
                other => format!("{other:?}"),
            });
        }
        ScriptEnd::done(&replies.join(", "))
    });
}

impl KernelWorld {
    async fn approve_for_run(
        &self,
        who: &Principal,
        id: i64,
        pattern: Option<&str>,
    ) -> Result<ApprovalView, Error> {
        let request = ConsentRequest {
            target: Some("@team".parse().unwrap()),
            scope: ConsentScope::Run,
            pattern: pattern.map(|pattern| pattern.parse().unwrap()),
            ..Default::default()
        };
        let id = ApprovalId::new(id);
        self.kernel.approvals().answer(who, None, id, Consent::Approved, request).await
    }

    async fn deny(&self, id: i64) {
        let request =
            ConsentRequest { target: Some("@team".parse().unwrap()), ..Default::default() };
        let id = ApprovalId::new(id);
        let user = &Principal::User;
        self.kernel.approvals().answer(user, None, id, Consent::Denied, request).await.unwrap();
    }

    async fn grants(&self) -> Vec<GrantView> {
        let (at, page) = (&instance_selector("@team"), &PageRequest::whole());
        let listed = self.kernel.approvals().grants(&Principal::User, at, ListingScope::Live, page);
        listed.await.unwrap().items
    }

    async fn revoke(&self, who: &Principal, id: i64) -> Result<GrantView, Error> {
        let target = Some("@team".parse().unwrap());
        let request = RevokeRequest { target, ..Default::default() };
        self.kernel.approvals().revoke_grant(who, None, GrantId::new(id), request).await
    }

    async fn wait_for_request(&self, run: RunId, id: i64) {
        let is_it = |body: &EventBody| matches!(body, EventBody::ApprovalOpen(data) if data.approval == ApprovalId::new(id));
        self.wait_for_event(run, |event| is_it(&event.body)).await;
        self.wait_until_paused(run).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_for_the_run_allows_exactly_that_call_again_and_no_other() {
    let world = KernelWorld::new().await;
    calls(&world, "coder", &["git push", "git push", "git push -f", "git push"]);
    let run = world.run(&team("")).await;
    world.wait_for_request(run, 1).await;
    let shown = world.open().await.pop().unwrap().exact_pattern;
    assert_eq!(shown.unwrap().to_string(), "Bash(git push)");
    let answered = world.approve_for_run(&Principal::User, 1, None).await.unwrap();
    let given = answered.grant.unwrap();
    assert_eq!((given.id, given.pattern.to_string()), (GrantId::new(1), "Bash(git push)".into()));
    world.wait_for_request(run, 3).await;
    let grants = world.grants().await;
    assert_eq!(grants.len(), 1);
    assert_eq!((grants[0].agent.as_str(), grants[0].by.as_str()), ("coder", "user"));
    world.deny(3).await;
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    assert_eq!(world.answers().await, "allowed, allowed, denied by user, allowed");
    let used = world.events_of(run).await;
    let used = used.iter().filter(|event| event.kind() == Some(EventKind::PermissionUsed));
    assert_eq!(used.count(), 2, "the log shows each call that was allowed");
    assert_eq!(world.grants().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_persons_pattern_must_cover_the_call_and_deny_rules_have_priority() {
    let world = KernelWorld::new().await;
    calls(&world, "coder", &["git push", "git push -f", "git push --delete x"]);
    let run =
        world.run(&team("ask: ['Bash(git push*)'], deny: ['Bash(git push --delete*)']")).await;
    world.wait_for_request(run, 1).await;
    let missed = world.approve_for_run(&Principal::User, 1, Some("Bash(git pull*)")).await;
    let missed = missed.unwrap_err();
    assert!(matches!(missed, Error::BadRequest(_)), "{missed:?}");
    assert_eq!(missed.to_string(), "`Bash(git pull*)` does not cover the call of request #1");
    assert_eq!(world.open().await.len(), 1, "nothing is half done");
    assert_eq!(world.grants().await, []);
    world.approve_for_run(&Principal::User, 1, Some("Bash(git push*)")).await.unwrap();
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    assert_eq!(world.answers().await, "allowed, allowed, Bash is not allowed here");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_no_pattern_names_is_not_approved_for_the_run_without_one() {
    let world = KernelWorld::new().await;
    calls(&world, "coder", &["rm *.o"]);
    let run = world.run(&team("")).await;
    world.wait_for_request(run, 1).await;
    assert_eq!(world.open().await.pop().unwrap().exact_pattern, None);
    let refused = world.approve_for_run(&Principal::User, 1, None).await.unwrap_err();
    assert!(matches!(refused, Error::NoExactPattern { .. }), "{refused:?}");
    assert_eq!(world.open().await.len(), 1, "nothing is half done");
    let pattern_without_scope = ConsentRequest {
        target: Some("@team".parse().unwrap()),
        pattern: Some("Bash".parse().unwrap()),
        ..Default::default()
    };
    let denied_for_run =
        ConsentRequest { scope: ConsentScope::Run, pattern: None, ..pattern_without_scope.clone() };
    let user = &Principal::User;
    for (consent, request) in
        [(Consent::Approved, pattern_without_scope), (Consent::Denied, denied_for_run)]
    {
        let id = ApprovalId::new(1);
        let answered = world.kernel.approvals().answer(user, None, id, consent, request).await;
        assert_eq!(code(answered), Some(Code::BadRequest));
    }
    assert_eq!(world.open().await.len(), 1);
    world.approve_for_run(user, 1, Some("Bash")).await.unwrap();
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
}

#[tokio::test(start_paused = true)]
async fn shell_syntax_and_paths_outside_of_the_folder_are_approved_once_only() {
    let world = KernelWorld::new().await;
    calls(&world, "coder", &["make > log", "cat /etc/passwd", "make", "make && ls", "make"]);
    let run = world.run(&team("")).await;
    for (id, cause) in [
        (1, "its command has shell syntax (`>`)"),
        (2, "`/etc/passwd` is outside of the agent's folder"),
    ] {
        world.wait_for_request(run, id).await;
        assert_eq!(world.open().await.pop().unwrap().exact_pattern, None);
        for pattern in [None, Some("Bash")] {
            let refused = world.approve_for_run(&Principal::User, id, pattern).await.unwrap_err();
            let expected = format!("request #{id} can be approved once only: {cause}");
            assert_eq!(refused.to_string(), expected);
            assert_eq!(code(Err::<(), _>(refused)), Some(Code::BadRequest));
        }
        assert_eq!((world.open().await.len(), world.grants().await), (1, Vec::new()));
        world.deny(id).await;
    }
    world.wait_for_request(run, 3).await;
    world.approve_for_run(&Principal::User, 3, Some("Bash")).await.unwrap();
    // A grant of the whole tool does not cover shell syntax either.
    world.wait_for_request(run, 4).await;
    world.deny(4).await;
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    let denied = "denied by user";
    assert_eq!(world.answers().await, format!("{denied}, {denied}, allowed, {denied}, allowed"));
}

#[tokio::test(start_paused = true)]
async fn a_revoked_grant_allows_nothing_and_another_run_asks_again() {
    let world = KernelWorld::new().await;
    calls(&world, "coder", &["make", "make", "ls", "make"]);
    let run = world.run(&team("")).await;
    world.wait_for_request(run, 1).await;
    world.approve_for_run(&Principal::User, 1, None).await.unwrap();
    world.wait_for_request(run, 3).await;
    let revoked = world.revoke(&Principal::User, 1).await.unwrap();
    assert_eq!(revoked.pattern.to_string(), "Bash(make)");
    assert_eq!(code(world.revoke(&Principal::User, 1).await), Some(Code::NotFound));
    assert_eq!(world.grants().await, []);
    world.deny(3).await;
    world.wait_for_request(run, 4).await;
    world.approve_for_run(&Principal::User, 4, None).await.unwrap();
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    assert_eq!(world.answers().await, "allowed, allowed, denied by user, allowed");
    let next = world.run(&team("")).await;
    world.wait_for_request(next, 5).await;
    assert_eq!(world.grants().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_grant_answers_the_open_requests_of_its_agent_alone() {
    let world = KernelWorld::new().await;
    for agent in ["coder", "other"] {
        world.machine.set_worker_script(agent, |worker| async move {
            let (one, two, three) = tokio::join!(
                permit(&worker, "c1", "git diff a"),
                permit(&worker, "c2", "git diff b"),
                permit(&worker, "c3", "rm x"),
            );
            ScriptEnd::done(&format!("{one:?} {two:?} {three:?}"))
        });
    }
    let file = team("")
        .replace("kickoff: '@coder", "  other: { backend: claude }\nkickoff: '@coder @other");
    let run = world.run(&file).await;
    world.wait_for_request(run, 6).await;
    let of = |open: &[ApprovalView], agent: &str, command: &str| {
        let is_it =
            |it: &&ApprovalView| it.agent.as_str() == agent && it.args["command"] == command;
        open.iter().find(is_it).map(|it| it.id)
    };
    let open = world.open().await;
    let asked = of(&open, "coder", "git diff a").unwrap().get();
    world.approve_for_run(&Principal::User, asked, Some("Bash(git diff*)")).await.unwrap();
    let open = world.open().await;
    assert_eq!(open.len(), 4);
    assert_eq!(of(&open, "coder", "git diff b"), None);
    let left = of(&open, "coder", "rm x").unwrap().get();
    world.deny(left).await;
    for left in world.open().await {
        world.deny(left.id.get()).await;
    }
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    let said: Vec<_> = world.channel().await.into_iter().map(|message| message.body).collect();
    assert!(said.contains(&"Allow Allow Deny { why: \"denied by user\" }".to_owned()), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_grant_outlives_the_daemon_and_the_attempt() {
    let mut world = KernelWorld::on_disk().await;
    calls(&world, "coder", &["make", "ls", "make"]);
    let run = world.run(&team("")).await;
    world.wait_for_request(run, 1).await;
    world.approve_for_run(&Principal::User, 1, None).await.unwrap();
    world.wait_for_request(run, 2).await;
    world.machine.kill_all().await;
    world.stop_daemon().await;
    world.restart_daemon().await;
    assert_eq!(world.grants().await.len(), 1);
    world.deny(2).await;
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    assert_eq!(world.answers().await, "allowed, denied by user, allowed");
    assert_eq!(world.machine.turns_of("coder").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_agent_and_no_client_without_that_right_makes_or_revokes_a_grant() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        let (kernel, who) = worker.principal().await.unwrap();
        let (id, request) = (GrantId::new(1), RevokeRequest::default());
        let reply = permit(&worker, "c1", "make").await;
        let own = kernel.approvals().revoke_grant(&who, None, id, request).await;
        ScriptEnd::done(&format!("{reply:?} {:?}", code(own)))
    });
    let run = world.run(&team("")).await;
    world.wait_for_request(run, 1).await;
    let others: Vec<_> =
        Permission::ALL.iter().copied().filter(|it| *it != Permission::Approve).collect();
    let others = world.client("others", &others, "@team").await;
    assert_eq!(code(world.approve_for_run(&others, 1, None).await), Some(Code::Forbidden));
    assert_eq!(code(world.revoke(&others, 1).await), Some(Code::Forbidden));
    let judge = world.client("judge", &[Permission::Approve], "@team").await;
    world.approve_for_run(&judge, 1, None).await.unwrap();
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    assert_eq!(world.answers().await, "Allow Some(Forbidden)");
    let granted = world.events_of(run).await;
    let granted = granted.iter().find(|it| it.kind() == Some(EventKind::PermissionGranted));
    assert_eq!(granted.unwrap().by.as_deref(), Some("client:judge"));
}
