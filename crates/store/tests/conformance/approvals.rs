//! Requests for approval: their answers, and the attempts that receive them.

use std::sync::Arc;

use agent_worker_protocol::{
    ApprovalId, Consent, EventBody, GrantId, OnAsk, Outcome, PauseCause, RunState, Sender,
};
use agent_worker_store::{
    Approval, ApprovalDecision, ApprovalQuery, Blame, Error, GrantQuery, Lease, NewApproval,
    NewGrant, Once, PermissionGrant, RunStep, Store, WriteContext,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::team::{
    NOW, Team, agent, client, crashed, cut_short, end, keyed, name, new_run, ok, user,
};

fn request(call: &str, command: &str) -> NewApproval {
    let args = json!({ "command": command });
    NewApproval { call: call.into(), tool: "Bash".into(), args, on_ask: OnAsk::Wait, grant: None }
}

async fn ask(team: &Team, lease: &Lease, new: NewApproval) -> Result<Approval, Error> {
    team.store.approval_ask(lease.fence.clone(), new, NOW).await
}

async fn answer(
    team: &Team,
    by: WriteContext,
    id: ApprovalId,
    consent: Consent,
) -> Result<Once<()>, Error> {
    let decision = match consent {
        Consent::Approved => ApprovalDecision::ApproveCall,
        Consent::Denied => ApprovalDecision::Deny,
    };
    decide(team, by, id, decision).await
}

async fn decide(
    team: &Team,
    by: WriteContext,
    id: ApprovalId,
    decision: ApprovalDecision,
) -> Result<Once<()>, Error> {
    let reason = Some("because".to_owned());
    team.store.approval_answer(by, team.workflow, id, decision, reason, NOW).await
}

async fn open(team: &Team) -> Vec<ApprovalId> {
    let open = team.store.approval_list(team.workflow, ApprovalQuery::Open).await.unwrap();
    open.into_iter().map(|approval| approval.id).collect()
}

fn answer_and_sender(approval: &Approval) -> Option<(Consent, Sender)> {
    approval.answer.as_ref().map(|answer| (answer.consent, answer.by.clone()))
}

const APPROVED_BY_USER: Option<(Consent, Sender)> = Some((Consent::Approved, Sender::User));

async fn team_with_lease(store: &Arc<dyn Store>) -> (Team, Lease) {
    let team = Team::new(store, &["a"]).await;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    (team, lease)
}

pub(crate) async fn a_request_is_kept_to_the_letter_and_answered_once_by_no_agent(
    store: Arc<dyn Store>,
) {
    let (team, lease) = team_with_lease(&store).await;
    let asked = ask(&team, &lease, request("c1", "git push")).await.unwrap();
    let again = ask(&team, &lease, request("c1", "git push")).await.unwrap();
    assert_eq!((&again, asked.id), (&asked, ApprovalId::new(1)), "the same call asks the same");
    let args: Value = json!({ "command": "git push" });
    assert_eq!((asked.tool.as_str(), &asked.args, &asked.answer), ("Bash", &args, &None));
    assert_eq!((asked.attempt, asked.agent.clone()), (lease.id, name("a")));
    let other = ask(&team, &lease, request("c1", "git push --force")).await;
    assert!(matches!(other, Err(Error::KeyReused)), "a call has one set of arguments: {other:?}");
    let own = answer(&team, agent(&lease), asked.id, Consent::Approved).await;
    assert!(matches!(own, Err(Error::Fenced)), "{own:?}");
    let by = || keyed(client("ci"), "k", "x");
    assert!(!answer(&team, by(), asked.id, Consent::Denied).await.unwrap().is_deduplicated());
    assert!(answer(&team, by(), asked.id, Consent::Denied).await.unwrap().is_deduplicated());
    let late = answer(&team, user(), asked.id, Consent::Approved).await;
    assert!(matches!(late, Err(Error::ApprovalAnswered(_, Consent::Denied))), "{late:?}");
    let answered = ask(&team, &lease, request("c1", "git push")).await.unwrap().answer.unwrap();
    assert_eq!(answered.by, Sender::Client("ci".into()));
    assert_eq!((answered.consent, answered.reason.as_deref()), (Consent::Denied, Some("because")));
    let missing = answer(&team, user(), ApprovalId::new(9), Consent::Approved).await;
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
    let kinds = team.kinds().await;
    let about = kinds.iter().filter(|kind| kind.starts_with("approval"));
    assert_eq!(about.collect::<Vec<_>>(), [&"approval.open", &"approval.answered"]);
}

pub(crate) async fn an_answer_is_returned_to_one_call_however_often_that_asks(
    store: Arc<dyn Store>,
) {
    let (team, lease) = team_with_lease(&store).await;
    let first = ask(&team, &lease, request("c1", "make")).await.unwrap();
    answer(&team, user(), first.id, Consent::Approved).await.unwrap();
    for _ in 0..2 {
        let told_again = ask(&team, &lease, request("c1", "make")).await.unwrap();
        assert_eq!(
            answer_and_sender(&told_again),
            APPROVED_BY_USER,
            "a reply that was lost is given again"
        );
    }
    let second = ask(&team, &lease, request("c2", "make")).await.unwrap();
    assert_eq!(
        (second.id, answer_and_sender(&second)),
        (ApprovalId::new(2), None),
        "once is not twice"
    );
    team.finish(&lease, cut_short(Blame::None)).await;
    let next = team.lease("a").await;
    let third = ask(&team, &next, request("c1", "make")).await.unwrap();
    assert_eq!(answer_and_sender(&third), None, "what was told to one attempt is told to no other");
    assert_eq!(third.id, second.id, "the one that was left open is asked again");
}

pub(crate) async fn the_next_attempt_takes_over_exactly_what_the_last_one_asked(
    store: Arc<dyn Store>,
) {
    let (team, lease) = team_with_lease(&store).await;
    let left = ask(&team, &lease, request("c1", "make")).await.unwrap();
    team.finish(&lease, crashed()).await;
    assert_eq!(open(&team).await, [left.id], "the work is still to be done");
    answer(&team, user(), left.id, Consent::Approved).await.unwrap();
    let next = team.lease("a").await;
    let other = ask(&team, &next, request("c7", "make install")).await.unwrap();
    assert_eq!(
        (other.id, answer_and_sender(&other)),
        (ApprovalId::new(2), None),
        "other arguments"
    );
    let same = ask(&team, &next, request("c8", "make")).await.unwrap();
    assert_eq!(
        (same.id, answer_and_sender(&same), same.attempt),
        (left.id, APPROVED_BY_USER, next.id)
    );
    let late = ask(&team, &lease, request("c1", "make")).await;
    assert!(matches!(late, Err(Error::Fenced)), "an attempt that is over asks nothing: {late:?}");
    // A request for another message is another request.
    team.finish(&next, ok()).await;
    team.say("again", &["a"]).await;
    let third = team.lease("a").await;
    let fresh = ask(&team, &third, request("c1", "make")).await.unwrap();
    assert_eq!((fresh.id, answer_and_sender(&fresh)), (ApprovalId::new(3), None));
}

pub(crate) async fn a_request_without_a_waiting_attempt_cannot_be_answered(store: Arc<dyn Store>) {
    let (mut team, lease) = team_with_lease(&store).await;
    let done = ask(&team, &lease, request("c1", "make")).await.unwrap();
    team.finish(&lease, ok()).await;
    assert_eq!(open(&team).await, []);
    let late = answer(&team, user(), done.id, Consent::Approved).await;
    assert!(matches!(late, Err(Error::ApprovalWithdrawn(_))), "{late:?}");
    team.say("more", &["a"]).await;
    let lease = team.lease("a").await;
    let cut = ask(&team, &lease, request("c1", "make")).await.unwrap();
    team.settle(end(Outcome::Stopped)).await;
    assert_eq!(open(&team).await, []);
    let late = answer(&team, user(), cut.id, Consent::Approved).await;
    assert!(matches!(late, Err(Error::NoRun)), "{late:?}");
    team.start(new_run(&["a"])).await;
    let late = answer(&team, user(), cut.id, Consent::Approved).await;
    assert!(matches!(late, Err(Error::NoRun)), "{late:?}");
}

pub(crate) async fn an_attempt_that_waits_is_held_and_its_run_goes_on_with_the_answer(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a", "b"]).await;
    team.say("go", &["a", "b"]).await;
    let (a, b) = (team.lease("a").await, team.lease("b").await);
    team.say("more", &["a"]).await;
    let facts = team.facts().await;
    assert_eq!(
        (facts.waking, facts.attempts, facts.awaiting_approval, facts.awaiting_approval_deliveries),
        (3, 2, 0, 0)
    );
    let denied_alone = NewApproval { on_ask: OnAsk::Deny, ..request("c0", "x") };
    ask(&team, &b, denied_alone).await.unwrap();
    assert_eq!(team.facts().await.awaiting_approval, 0, "no person is waited for");
    let one = ask(&team, &a, request("c1", "x")).await.unwrap();
    let two = ask(&team, &a, request("c2", "y")).await.unwrap();
    let facts = team.facts().await;
    assert_eq!(
        (facts.waking, facts.attempts, facts.awaiting_approval, facts.awaiting_approval_deliveries),
        (3, 2, 1, 2)
    );
    team.settle(RunStep::Pause(PauseCause::Human)).await;
    answer(&team, user(), one.id, Consent::Denied).await.unwrap();
    let facts = team.facts().await;
    assert_eq!(
        (facts.state, facts.awaiting_approval),
        (RunState::Running, 1),
        "the other one is open"
    );
    answer(&team, user(), two.id, Consent::Approved).await.unwrap();
    assert_eq!(team.facts().await.awaiting_approval, 0);
    // A repeated request without a new answer changes nothing.
    let before = team.events().await.len();
    ask(&team, &b, NewApproval { on_ask: OnAsk::Deny, ..request("c0", "x") }).await.unwrap();
    assert_eq!(team.events().await.len(), before);
}

pub(crate) async fn of_many_answers_at_once_one_counts(store: Arc<dyn Store>) {
    let (team, lease) = team_with_lease(&store).await;
    let asked = ask(&team, &lease, request("c1", "make")).await.unwrap();
    let mut answers = JoinSet::new();
    for n in 0..16 {
        let (team, id) = (team.clone(), asked.id);
        let consent = if n % 2 == 0 { Consent::Approved } else { Consent::Denied };
        answers.spawn(async move { (consent, answer(&team, user(), id, consent).await) });
    }
    let mut counted = Vec::new();
    for (consent, result) in answers.join_all().await {
        match result {
            Ok(_) => counted.push(consent),
            Err(error) => assert!(matches!(error, Error::ApprovalAnswered(..)), "{error:?}"),
        }
    }
    assert_eq!(counted.len(), 1);
    let told = ask(&team, &lease, request("c1", "make")).await.unwrap();
    assert_eq!(told.answer.unwrap().consent, counted[0]);
}

/// A request that the pattern of this grant covers.
fn covered_request(call: &str, command: &str, grant: GrantId) -> NewApproval {
    NewApproval { grant: Some(grant), ..request(call, command) }
}

fn for_run(pattern: &str, covers: &[ApprovalId]) -> ApprovalDecision {
    let pattern = pattern.parse().unwrap();
    ApprovalDecision::ApproveForRun(NewGrant { pattern, covers: covers.to_vec() })
}

async fn grants(team: &Team) -> Vec<PermissionGrant> {
    team.store.grant_list(team.workflow, GrantQuery::InForce).await.unwrap()
}

fn grant_events(mut kinds: Vec<&'static str>) -> Vec<&'static str> {
    kinds.retain(|kind| kind.starts_with("approval") || kind.starts_with("permission"));
    kinds
}

pub(crate) async fn a_grant_answers_the_later_calls_of_its_agent_until_it_is_revoked(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a", "b"]).await;
    team.say("go", &["a", "b"]).await;
    let (a, b) = (team.lease("a").await, team.lease("b").await);
    let first = ask(&team, &a, request("c1", "make")).await.unwrap();
    let own = decide(&team, agent(&a), first.id, for_run("Bash(make*)", &[])).await;
    assert!(matches!(own, Err(Error::Fenced)), "{own:?}");
    let by = || keyed(client("ci"), "k", "x");
    decide(&team, by(), first.id, for_run("Bash(make*)", &[])).await.unwrap();
    assert!(
        decide(&team, by(), first.id, for_run("Bash(make*)", &[])).await.unwrap().is_deduplicated()
    );
    let given = grants(&team).await;
    let [grant] = &given[..] else { panic!("one answer, one grant: {given:?}") };
    assert_eq!((&grant.agent, grant.approval, grant.run), (&name("a"), first.id, first.run));
    assert_eq!(grant.pattern.to_string(), "Bash(make*)");
    let by_client = Sender::Client("ci".into());
    assert_eq!(grant.by, by_client);
    let called = ask(&team, &a, covered_request("c2", "make x", grant.id)).await.unwrap();
    let approved = Some((Consent::Approved, by_client.clone()));
    assert_eq!(answer_and_sender(&called), approved);
    let others = ask(&team, &b, covered_request("c1", "make x", grant.id)).await.unwrap();
    assert_eq!(answer_and_sender(&others), None, "a grant is for one agent");
    let unknown = ask(&team, &a, covered_request("c3", "make", GrantId::new(9))).await.unwrap();
    assert_eq!(answer_and_sender(&unknown), None);
    assert!(matches!(
        team.store.grant_revoke(agent(&a), team.workflow, grant.id, NOW).await,
        Err(Error::Fenced)
    ));
    let revoke = || team.store.grant_revoke(keyed(user(), "r", "x"), team.workflow, grant.id, NOW);
    assert!(!revoke().await.unwrap().is_deduplicated());
    assert!(revoke().await.unwrap().is_deduplicated());
    let again = team.store.grant_revoke(user(), team.workflow, grant.id, NOW).await;
    assert!(matches!(again, Err(Error::NotFound("grant"))), "{again:?}");
    assert_eq!(grants(&team).await, []);
    let one = team.store.grant_list(team.workflow, GrantQuery::One(grant.id)).await.unwrap();
    assert_eq!(one, given);
    let told_again = ask(&team, &a, covered_request("c2", "make x", grant.id)).await.unwrap();
    assert_eq!(answer_and_sender(&told_again), approved, "the call was allowed before");
    let late = ask(&team, &a, covered_request("c4", "make x", grant.id)).await.unwrap();
    assert_eq!(answer_and_sender(&late), None);
    assert_eq!(
        grant_events(team.kinds().await),
        [
            "approval.open",
            "approval.answered",
            "permission.granted",
            "permission.used",
            "approval.open",
            "approval.open",
            "permission.revoked",
            "approval.open"
        ]
    );
}

pub(crate) async fn a_grant_answers_the_open_requests_that_it_covers(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    team.say("go", &["a", "b"]).await;
    let (a, b) = (team.lease("a").await, team.lease("b").await);
    let one = ask(&team, &a, request("c1", "make")).await.unwrap();
    let two = ask(&team, &a, request("c2", "make")).await.unwrap();
    let late = ask(&team, &a, request("c3", "make")).await.unwrap();
    let others = ask(&team, &b, request("c1", "make")).await.unwrap();
    team.settle(RunStep::Pause(PauseCause::Human)).await;
    let decision = for_run("Bash(make)", &[two.id, others.id, ApprovalId::new(9)]);
    decide(&team, user(), one.id, decision).await.unwrap();
    assert_eq!(open(&team).await, [late.id, others.id], "no other agent gains by it");
    assert_eq!(team.facts().await.state, RunState::Running);
    let told = ask(&team, &a, request("c2", "make")).await.unwrap();
    assert_eq!(answer_and_sender(&told), APPROVED_BY_USER);
    // A request that was asked while the grant was made.
    team.settle(RunStep::Pause(PauseCause::Human)).await;
    let grant = grants(&team).await[0].id;
    let told = ask(&team, &a, covered_request("c3", "make", grant)).await.unwrap();
    assert_eq!((told.id, answer_and_sender(&told)), (late.id, APPROVED_BY_USER));
    assert_eq!(team.facts().await.state, RunState::Running, "no person has to act");
    let by_grant = team.events().await.into_iter().filter_map(|event| match event.body {
        EventBody::ApprovalAnswered(data) => Some((data.approval, data.grant)),
        _ => None,
    });
    let by_grant: Vec<_> = by_grant.collect();
    assert_eq!(by_grant, [(one.id, None), (two.id, Some(grant)), (late.id, Some(grant))]);
}

pub(crate) async fn a_grant_ends_with_its_run_and_with_its_agent(store: Arc<dyn Store>) {
    let (mut team, lease) = team_with_lease(&store).await;
    let asked = ask(&team, &lease, request("c1", "make")).await.unwrap();
    decide(&team, user(), asked.id, for_run("Bash", &[])).await.unwrap();
    let grant = grants(&team).await[0].id;
    team.finish(&lease, crashed()).await;
    let next = team.lease("a").await;
    let kept = ask(&team, &next, covered_request("c1", "make", grant)).await.unwrap();
    assert_eq!(answer_and_sender(&kept), APPROVED_BY_USER, "the next attempt keeps it");
    team.finish(&next, ok()).await;
    team.store.agent_remove(user(), team.workflow, name("a"), NOW).await.unwrap();
    assert_eq!(grants(&team).await, [], "a later agent of that name has none of it");
    team.settle(end(Outcome::Stopped)).await;
    team.start(new_run(&["a"])).await;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    let asked = ask(&team, &lease, request("c1", "make")).await.unwrap();
    decide(&team, user(), asked.id, for_run("Bash", &[])).await.unwrap();
    let grant = grants(&team).await[0].id;
    assert_eq!(grant, GrantId::new(2), "a number is used once");
    team.settle(end(Outcome::Stopped)).await;
    assert_eq!(grants(&team).await, []);
    team.start(new_run(&["a"])).await;
    assert_eq!(grants(&team).await, []);
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    let asked = ask(&team, &lease, covered_request("c1", "make", grant)).await.unwrap();
    assert_eq!(answer_and_sender(&asked), None, "another run asks again");
    let old = team.store.grant_revoke(user(), team.workflow, grant, NOW).await;
    assert!(matches!(old, Err(Error::NotFound("grant"))), "{old:?}");
}
