//! Requests for approval: their answers, and the attempts that receive them.

use std::sync::Arc;

use agent_worker_protocol::{ApprovalId, Consent, OnAsk, Outcome, PauseCause, RunState, Sender};
use agent_worker_store::{
    Approval, ApprovalQuery, Blame, Error, Lease, NewApproval, Once, RunStep, Store, WriteContext,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::team::{
    NOW, Team, agent, client, crashed, cut_short, end, keyed, name, new_run, ok, user,
};

fn request(call: &str, command: &str) -> NewApproval {
    let args = json!({ "command": command });
    NewApproval { call: call.into(), tool: "Bash".into(), args, on_ask: OnAsk::Wait }
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
    let reason = Some("because".to_owned());
    team.store.approval_answer(by, team.workflow, id, consent, reason, NOW).await
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
