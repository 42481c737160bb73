//! What counts for the limits of cost and tokens: reported usage, calls without a report, and the last 24 hours of a `start`.

use std::{sync::Arc, time::Duration};

use agent_worker_protocol::{
    LimitKind, Limits, NumberedEvent, PauseCause, RunMode, RunState, SpendLimits, Usage,
    WorkerEvent,
};
use agent_worker_store::{
    Lease, NewRun, Now, ReserveFacts, ReserveStep, RunSpend, SpendFacts, Store, UnreportedCall,
};

use crate::team::{LIMITS, NOW, Team, cut_short, name, new_run, ok, user};

const SPEND: SpendLimits = SpendLimits { cost_micros: Some(1_000_000), tokens: Some(1_000_000) };
const MINUTE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

fn allow(_: &ReserveFacts) -> ReserveStep {
    ReserveStep::Reserve
}

fn refuse(facts: &ReserveFacts) -> ReserveStep {
    let detail = format!("{} of {}", facts.spend.spent.tokens, facts.call.tokens);
    ReserveStep::Refuse(PauseCause::limit(LimitKind::Tokens, detail))
}

fn spend(cost_micros: u64, tokens: u64) -> RunSpend {
    RunSpend { cost_micros, tokens }
}

/// Starts a run with limits of spend in the instance `name`.
async fn start(store: &Arc<dyn Store>, instance: &str, mode: RunMode) -> Team {
    let workflow = store.instance_open("/p".into(), instance.parse().unwrap()).await.unwrap();
    let limits = Limits { spend: SPEND, ..LIMITS };
    let new = NewRun { mode, limits, ..new_run(&["a", "b"]) };
    let mut team = Team { store: Arc::clone(store), workflow, run: new.id };
    team.start(new).await;
    team
}

async fn lease(team: &Team, agent: &str) -> Lease {
    team.say("go", &[agent]).await;
    team.lease(agent).await
}

async fn report(team: &Team, lease: &Lease, no: i64, tokens: u64, now: Now) {
    let usage = Usage { input_tokens: tokens, cost_micros: Some(tokens * 2), ..Usage::default() };
    let event = NumberedEvent { no, ts: now.wall, event: WorkerEvent::Usage(usage) };
    team.store.attempt_events(lease.id, vec![event], now).await.unwrap();
}

async fn counted(team: &Team, now: Now) -> SpendFacts {
    let used = team.store.run_limit_use(team.run, now).await.unwrap().spend;
    assert_eq!(team.facts_at(now).await.spend, used, "a view and a decision count the same");
    used
}

pub(crate) async fn the_spend_of_a_start_counts_for_a_day_and_that_of_a_run_for_ever(
    store: Arc<dyn Store>,
) {
    for (mode, later) in [(RunMode::Start, spend(0, 0)), (RunMode::Run, spend(14, 7))] {
        let team = start(&store, &format!("w:{mode}"), mode).await;
        let lease = lease(&team, "a").await;
        report(&team, &lease, 1, 7, NOW).await;
        assert_eq!(counted(&team, NOW).await.spent, spend(14, 7));
        assert_eq!(counted(&team, NOW.plus(DAY)).await.spent, spend(14, 7));
        // A wall clock that is set changes nothing.
        let set = Now { wall: NOW.plus(DAY * 3).wall, ..NOW };
        assert_eq!(counted(&team, set).await.spent, spend(14, 7));
        assert_eq!(counted(&team, NOW.plus(DAY + 10 * MINUTE)).await.spent, later, "{mode}");
    }
}

pub(crate) async fn a_window_never_counts_less_than_a_day_and_never_more_than_ten_minutes_more(
    store: Arc<dyn Store>,
) {
    let team = start(&store, "w", RunMode::Start).await;
    let lease = lease(&team, "a").await;
    let (mut now, mut reports, mut seed) = (NOW, Vec::new(), 7_u64);
    for no in 1..=400 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        now = now.plus(Duration::from_secs(seed >> 52));
        let tokens = seed >> 40 & 0xff;
        report(&team, &lease, no, tokens, now).await;
        reports.push((now, tokens));
        let since = |span: Duration| -> u64 {
            let recent = reports.iter().filter(|(at, _)| now.store.since(at.store) < span);
            recent.map(|(_, tokens)| tokens).sum()
        };
        let facts = team.store.run_limit_use(team.run, now).await.unwrap().spend;
        let exact = since(DAY)..=since(DAY + 10 * MINUTE);
        assert!(exact.contains(&facts.spent.tokens), "{} is not in {exact:?}", facts.spent.tokens);
        assert!(facts.expiring.len() <= 146, "{} slots", facts.expiring.len());
        let parts: u64 = facts.expiring.iter().map(|part| part.spend.tokens).sum();
        assert_eq!(parts, facts.spent.tokens);
        assert!(facts.expiring.iter().all(|part| part.at > now.store));
    }
}

pub(crate) async fn a_call_without_a_report_counts_with_what_it_reserved_and_is_told_apart(
    store: Arc<dyn Store>,
) {
    for mode in [RunMode::Run, RunMode::Start] {
        let team = start(&store, &format!("w:{mode}"), mode).await;
        let first = lease(&team, "a").await;
        let reserve = |lease: &Lease, call| store.attempt_reserve(lease.id, call, allow, NOW);
        reserve(&first, spend(100, 10)).await.unwrap();
        let facts = counted(&team, NOW).await;
        assert_eq!((facts.spent, facts.reserved), (spend(0, 0), spend(100, 10)));
        // Its usage replaces it.
        report(&team, &first, 1, 4, NOW).await;
        let facts = counted(&team, NOW).await;
        assert_eq!((facts.spent, facts.reserved), (spend(8, 4), spend(0, 0)));
        // A call that its provider refused, and one that began its answer.
        reserve(&first, spend(1_000, 100)).await.unwrap();
        store.attempt_settle(first.id, UnreportedCall::Unused, NOW).await.unwrap();
        assert_eq!(counted(&team, NOW).await.spent, spend(8, 4));
        reserve(&first, spend(100, 10)).await.unwrap();
        store.attempt_settle(first.id, UnreportedCall::MaybePaid, NOW).await.unwrap();
        let facts = counted(&team, NOW).await;
        assert_eq!((facts.spent, facts.unreported), (spend(108, 14), spend(100, 10)));
        // An interrupted call.
        reserve(&first, spend(1_000, 100)).await.unwrap();
        team.finish(&first, cut_short(agent_worker_store::Blame::None)).await;
        let facts = counted(&team, NOW).await;
        assert_eq!((facts.spent, facts.unreported), (spend(1_108, 114), spend(1_100, 110)));
        assert_eq!(facts.reserved, spend(0, 0), "{mode}");
    }
}

pub(crate) async fn a_refused_call_reserves_nothing_and_pauses_the_team(store: Arc<dyn Store>) {
    let team = start(&store, "w", RunMode::Start).await;
    let lease = lease(&team, "a").await;
    report(&team, &lease, 1, 4, NOW).await;
    let wait = |_: &ReserveFacts| ReserveStep::Wait;
    let step = store.attempt_reserve(lease.id, spend(0, 9), wait, NOW).await.unwrap();
    assert_eq!(step, ReserveStep::Wait);
    assert_eq!(store.run_get(team.run).await.unwrap().state, RunState::Running);
    let step = store.attempt_reserve(lease.id, spend(0, 9), refuse, NOW).await.unwrap();
    let ReserveStep::Refuse(cause) = step else { panic!("{step:?}") };
    assert_eq!(cause.to_string(), "token limit (4 of 9)");
    assert_eq!(store.run_get(team.run).await.unwrap().state, RunState::Paused { cause });
    assert_eq!(counted(&team, NOW).await.reserved, spend(0, 0));
    team.finish(&lease, ok()).await;
    let ended = store.attempt_reserve(lease.id, spend(0, 9), allow, NOW).await;
    assert!(matches!(ended, Err(agent_worker_store::Error::Fenced)), "{ended:?}");
}

pub(crate) async fn a_standalone_agent_has_spend_of_its_own_until_it_is_resumed(
    store: Arc<dyn Store>,
) {
    let team = start(&store, "global", RunMode::Start).await;
    let (a, b) = (lease(&team, "a").await, lease(&team, "b").await);
    report(&team, &a, 1, 4, NOW).await;
    let told = async |lease: &Lease| {
        let step = store.attempt_reserve(lease.id, spend(0, 9), refuse, NOW).await.unwrap();
        let ReserveStep::Refuse(cause) = step else { panic!("{step:?}") };
        cause.to_string()
    };
    assert_eq!(told(&b).await, "token limit (0 of 9)", "what `a` used does not count for `b`");
    store.agent_resume(user(), team.workflow, name("b"), NOW).await.unwrap();
    assert_eq!(told(&a).await, "token limit (4 of 9)");
    assert_eq!(store.run_get(team.run).await.unwrap().state, RunState::Running);
    let agents = store.agent_list(team.workflow).await.unwrap();
    let stopped: Vec<_> = agents.iter().map(|agent| agent.stopped.as_deref()).collect();
    assert_eq!(stopped, [Some("token limit (4 of 9)"), None]);
    assert_eq!(counted(&team, NOW).await, SpendFacts::default(), "the run has no spend to limit");
    store.agent_resume(user(), team.workflow, name("a"), NOW).await.unwrap();
    assert_eq!(told(&a).await, "token limit (0 of 9)");
}
