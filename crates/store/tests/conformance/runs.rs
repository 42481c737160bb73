//! Instances, their runs, and the decisions about them.

use std::{sync::Arc, time::Duration};

use agent_worker_protocol::{
    AttemptEnd, DeliveryState, Epoch, Limits, Outcome, PauseCause, RunMode, RunState, Seq,
    api::{RunError, RunErrorCode},
};
use agent_worker_store::{
    Blame, Error, HopContext, InstanceQuery, NewQuestion, NewRun, NotBefore, RunQuery, RunStep,
    Settlement, Store, WaitReason, Wake,
};

use crate::{
    rules,
    team::{
        LIMITS, NOW, Team, agent, crashed, cut_short, delivered, end, name, new_run, ok, run_id,
        text, user,
    },
};

pub(crate) async fn an_instance_is_found_again_by_its_names(store: Arc<dyn Store>) {
    let open = |project: &str, instance: &str| {
        store.instance_open(project.into(), instance.parse().unwrap())
    };
    let first = open("/p", "review:pr-1").await.unwrap();
    assert_eq!(open("/p", "review:pr-1").await.unwrap(), first);
    for (project, instance) in [("/q", "review:pr-1"), ("/p", "review"), ("/p", "Review:pr-1")] {
        assert_ne!(open(project, instance).await.unwrap(), first);
    }
    let new = new_run(&["a"]);
    let run = new.id;
    store.run_create(first, new, NOW).await.unwrap();
    let list = async |which| store.instance_list(which).await.unwrap();
    let listed = list(InstanceQuery::All).await;
    assert_eq!(listed.len(), 4);
    assert_eq!((listed[0].id, listed[0].live, listed[0].last), (first, Some(run), Some(run)));
    assert_eq!(listed[0].instance.to_string(), "review:pr-1");
    assert_eq!((listed[1].project.as_str(), listed[1].live), ("/q", None));
    for (which, expected) in [
        (InstanceQuery::Live, &["/p review:pr-1"][..]),
        (
            InstanceQuery::Named("review:pr-1".parse().unwrap()),
            &["/p review:pr-1", "/q review:pr-1"],
        ),
        (
            InstanceQuery::OfWorkflow("review".parse().unwrap()),
            &["/p review:pr-1", "/q review:pr-1", "/p review"],
        ),
        (InstanceQuery::Tagged("main".parse().unwrap()), &["/p review"]),
        (InstanceQuery::WithAgent(name("A")), &["/p review:pr-1"]),
        (InstanceQuery::WithAgent(name("b")), &[]),
    ] {
        let found = list(which.clone()).await;
        let found: Vec<_> =
            found.iter().map(|one| format!("{} {}", one.project, one.instance)).collect();
        assert_eq!(found, expected, "{which:?}");
    }
}

pub(crate) async fn an_instance_has_one_live_run(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    let second = || store.run_create(team.workflow, new_run(&["a"]), NOW);
    assert!(matches!(second().await, Err(Error::RunLive(live)) if live == team.run));
    team.settle(RunStep::Pause(PauseCause::User)).await;
    assert!(matches!(second().await, Err(Error::RunLive(_))));
    team.settle(end(Outcome::Stopped)).await;
    team.start(new_run(&["a"])).await;
}

pub(crate) async fn a_run_starts_once(store: Arc<dyn Store>) {
    let workflow = store.instance_open("/p".into(), "w".parse().unwrap()).await.unwrap();
    let new = new_run(&["a"]);
    let team = Team { store: Arc::clone(&store), workflow, run: new.id };
    store.run_create(workflow, new, NOW).await.unwrap();
    assert_eq!(store.run_get(team.run).await.unwrap().state, RunState::Setup);
    for _ in 0..2 {
        store.run_start(team.run, Some(text("kickoff", &["a"])), NOW).await.unwrap();
    }
    let row = store.run_get(team.run).await.unwrap();
    assert_eq!((row.state, row.messages), (RunState::Running, 1));
    assert_eq!(team.kinds().await, ["run.setup", "run.running", "message"]);
    assert_eq!(team.events().await[2].by.as_deref(), Some("user"));
    team.settle(RunStep::Pause(PauseCause::User)).await;
    store.run_start(team.run, None, NOW).await.unwrap();
    assert!(matches!(store.run_get(team.run).await.unwrap().state, RunState::Paused { .. }));
    team.settle(end(Outcome::Done)).await;
    assert!(matches!(store.run_start(team.run, None, NOW).await, Err(Error::NoRun)));
    assert!(matches!(store.run_start(run_id(), None, NOW).await, Err(Error::NotFound("run"))));
}

pub(crate) async fn who_is_not_named_again_takes_no_part_but_keeps_its_epoch(
    store: Arc<dyn Store>,
) {
    let mut team = Team::new(&store, &["b", "Coder"]).await;
    let names = async |team: &Team| {
        let agents = store.agent_list(team.workflow).await.unwrap();
        agents.iter().map(|agent| agent.name.to_string()).collect::<Vec<_>>()
    };
    team.say("go", &["coder"]).await;
    let lease = team.lease("coder").await;
    team.append(agent(&lease), text("hm", &[])).await.unwrap();
    team.finish(&lease, Settlement { stop: Some("no key".into()), ..crashed() }).await;
    team.settle(end(Outcome::Failed)).await;
    assert_eq!(names(&team).await, ["b", "Coder"]);
    team.start(new_run(&["b"])).await;
    assert_eq!(names(&team).await, ["b"]);
    assert!(matches!(team.append(user(), text("x", &["coder"])).await, Err(Error::NotFound(_))));
    team.settle(end(Outcome::Done)).await;
    team.start(new_run(&["coder"])).await;
    let row = store.agent_list(team.workflow).await.unwrap().remove(0);
    assert_eq!((row.name.as_str(), row.stopped, row.turns, row.messages), ("coder", None, 0, 0));
    team.say("go", &["Coder"]).await;
    assert_eq!(team.lease("Coder").await.fence.epoch, Epoch::new(2));
}

pub(crate) async fn the_facts_are_what_is_open(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b", "c"]).await;
    let facts = team.facts().await;
    assert_eq!((facts.state, facts.mode), (RunState::Running, RunMode::Run));
    assert_eq!((facts.limits, facts.clock.since), (LIMITS, Some(NOW.store)));
    let counts = async || {
        let facts = team.facts().await;
        (facts.waking, facts.stranded, facts.attempts, facts.turns, facts.dead, facts.dropped)
    };
    assert_eq!(counts().await, (0, 0, 0, 0, 0, 0));
    team.say("one", &["a", "b"]).await;
    team.post(delivered(Wake::No, text("fyi", &["a", "b", "c"]))).await;
    assert_eq!(counts().await, (2, 0, 0, 0, 0, 0));
    let lease = team.lease("a").await;
    assert_eq!(counts().await, (2, 0, 1, 0, 0, 0));
    team.finish(&lease, ok()).await;
    assert_eq!(counts().await, (1, 0, 0, 1, 0, 0));
    let lease = team.lease("b").await;
    team.finish(&lease, Settlement { stop: Some("no key".into()), ..crashed() }).await;
    // Waking mail of a stopped agent keeps no run open.
    assert_eq!(counts().await, (0, 1, 0, 2, 0, 0));
    let two = team.say("two", &["c"]).await;
    for _ in 0..3 {
        let lease = team.lease("c").await;
        team.finish(&lease, crashed()).await;
    }
    assert_eq!(counts().await, (0, 1, 0, 5, 1, 0));
    let why = "enough".to_owned();
    store.delivery_drop(user(), team.workflow, name("c"), two, why, NOW).await.unwrap();
    assert_eq!(counts().await, (0, 1, 0, 5, 0, 1));
}

pub(crate) async fn a_turn_counts_for_a_day_and_an_interrupted_one_never(store: Arc<dyn Store>) {
    let tomorrow = NOW.plus(Duration::from_hours(24));
    let just_before = NOW.plus(Duration::from_hours(24) - Duration::from_millis(1));
    let mut team = Team::new(&store, &["a"]).await;
    for (end, turns) in [(ok(), 1), (crashed(), 2), (cut_short(Blame::None), 2), (ok(), 3)] {
        team.say("go", &["a"]).await;
        let lease = team.lease("a").await;
        team.finish(&lease, end).await;
        let facts = team.facts_at(just_before).await;
        assert_eq!((facts.turns, facts.turns_today), (turns, turns));
    }
    let facts = team.facts_at(tomorrow).await;
    assert_eq!((facts.turns, facts.turns_today), (3, 0));
    team.settle(end(Outcome::Done)).await;
    // Turns of another run do not count; the count stops at the limit.
    let limits = Limits { turns: Some(1), ..LIMITS };
    team.start(NewRun { limits, ..new_run(&["a"]) }).await;
    assert_eq!(team.facts().await.turns_today, 0);
    for _ in 0..2 {
        team.say("go", &["a"]).await;
        let lease = team.lease("a").await;
        team.finish(&lease, ok()).await;
    }
    let facts = team.facts().await;
    assert_eq!((facts.turns, facts.turns_today), (2, 1));
}

pub(crate) async fn the_facts_show_when_all_agents_wait(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let wait = |secs| {
        let at = NOW.store.plus(Duration::from_secs(secs));
        Some(NotBefore { at, wait: WaitReason::RateLimited, why: "429".into() })
    };
    team.say("go", &["a", "b"]).await;
    let (a, b) = (team.lease("a").await, team.lease("b").await);
    team.finish(&a, Settlement { not_before: wait(9), ..crashed() }).await;
    assert_eq!(team.facts().await.all_wait_until, None);
    team.finish(&b, Settlement { not_before: wait(5), ..crashed() }).await;
    let earliest = NOW.plus(Duration::from_secs(5));
    assert_eq!(team.facts().await.all_wait_until, Some(earliest.store));
    let b = team.lease_at("b", earliest).await.unwrap();
    team.finish(&b, crashed()).await;
    assert_eq!(team.facts().await.all_wait_until, None);
}

pub(crate) async fn a_step_is_carried_out_only_where_it_fits(store: Arc<dyn Store>) {
    let workflow = store.instance_open("/p".into(), "w".parse().unwrap()).await.unwrap();
    let new = new_run(&["a"]);
    let team = Team { store: Arc::clone(&store), workflow, run: new.id };
    store.run_create(workflow, new, NOW).await.unwrap();
    let pause = |cause| RunStep::Pause(cause);
    // A resume after a pause would end the setup too early.
    assert_eq!(team.settle(pause(PauseCause::User)).await, RunStep::Stay);
    store.run_start(team.run, None, NOW).await.unwrap();
    assert_eq!(team.settle(RunStep::Resume).await, RunStep::Stay);
    assert_eq!(team.settle(pause(PauseCause::User)).await, pause(PauseCause::User));
    assert_eq!(team.settle(pause(PauseCause::User)).await, RunStep::Stay);
    assert_eq!(team.settle(pause(PauseCause::Human)).await, pause(PauseCause::Human));
    assert_eq!(team.facts().await.state, RunState::Paused { cause: PauseCause::Human });
    assert_eq!(team.settle(RunStep::Resume).await, RunStep::Resume);
    assert_eq!(
        team.kinds().await,
        ["run.setup", "run.running", "run.paused", "run.paused", "run.running"]
    );
    assert_eq!(team.events().await[2].cause.as_deref(), Some("by the user"));
}

pub(crate) async fn an_end_drops_what_is_open_and_shuts_out_who_works(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let first = team.say("go", &["a", "b"]).await;
    let lease = team.lease("a").await;
    let second = team.say("more", &["a"]).await;
    let error = RunError { code: RunErrorCode::SetupFailed, message: "make failed".into() };
    let step = RunStep::End {
        outcome: Outcome::Stopped,
        why: "stopped by user".into(),
        error: Some(error.clone()),
    };
    assert_eq!(team.settle(step.clone()).await, step);

    let late = team.append(agent(&lease), text("late", &[])).await;
    assert!(matches!(late, Err(Error::Fenced)));
    let late = store.attempt_finish(lease.fence.clone(), ok(), NOW).await;
    assert!(matches!(late, Err(Error::Fenced)));
    assert_eq!(store.attempt_get(lease.id).await.unwrap().ended, Some(AttemptEnd::Stopped));
    assert!(store.attempt_live().await.unwrap().is_empty());
    for (seq, who) in [(first, "a"), (first, "b"), (second, "a")] {
        assert_eq!(team.state(seq, who).await, DeliveryState::Dropped);
    }
    let failures = store.run_failures(team.run).await.unwrap();
    let told: Vec<_> = failures.iter().map(|f| (f.seq, f.why.as_deref())).collect();
    let why = Some("stopped by user");
    assert_eq!(told, [(first, why), (first, why), (second, why)]);
    let row = store.run_get(team.run).await.unwrap();
    assert_eq!(row.state, RunState::Ended { outcome: Outcome::Stopped });
    assert_eq!((row.error, row.ended, row.messages), (Some(error), Some(NOW.wall), 2));
    let kinds = team.kinds().await.split_off(5);
    let dropped = "delivery.dropped";
    assert_eq!(kinds, ["attempt.ended", dropped, dropped, dropped, "run.ended"]);
    assert!(store.agent_list(team.workflow).await.unwrap()[0].live.is_none());
}

pub(crate) async fn an_ended_run_is_not_decided_again(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    let first = team.run;
    team.settle(end(Outcome::Done)).await;
    team.start(new_run(&["a"])).await;
    let asked = Box::new(|_: &_| panic!("a run that has ended was decided about"));
    assert_eq!(store.run_settle(first, asked, NOW).await.unwrap(), RunStep::Stay);
    let ended = RunState::Ended { outcome: Outcome::Done };
    assert_eq!(store.run_get(first).await.unwrap().state, ended);
    assert_eq!(store.run_get(team.run).await.unwrap().state, RunState::Running);
    let nobody = store.run_settle(run_id(), Box::new(|_| RunStep::Stay), NOW).await;
    assert!(matches!(nobody, Err(Error::NotFound("run"))));
}

pub(crate) async fn runs_are_listed_newest_first(store: Arc<dyn Store>) {
    let mut one = Team::new(&store, &["a"]).await;
    let first = one.run;
    one.say("hello", &[]).await;
    one.settle(end(Outcome::Done)).await;
    let two = Team::new(&store, &["a"]).await;
    one.start(new_run(&["a"])).await;
    let list = async |which| {
        let runs = store.run_list(which).await.unwrap();
        runs.iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(list(RunQuery::Live).await, [one.run, two.run]);
    assert_eq!(list(RunQuery::OfInstance(one.workflow, 9)).await, [one.run, first]);
    let row = store.run_get(first).await.unwrap();
    assert_eq!((row.workflow, row.messages, row.script.as_str()), (one.workflow, 1, "script"));
    assert_eq!((row.project.as_str(), row.instance.name.as_str()), ("/p", "w"));
    assert_eq!(store.instance_verify(one.workflow).await.unwrap(), Seq::new(1));
}

pub(crate) async fn time_counts_only_while_a_run_can_work(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let at = |seconds| NOW.plus(Duration::from_secs(seconds));
    let settle = async |step: RunStep, seconds| {
        store.run_settle(team.run, Box::new(move |_| step.clone()), at(seconds)).await.unwrap()
    };
    let clock = async |seconds| {
        let row = store.run_get(team.run).await.unwrap();
        (row.clock.elapsed(at(seconds).store).as_secs(), row.clock.since.is_some())
    };
    assert_eq!(clock(5).await, (5, true), "from its creation on");
    settle(RunStep::Pause(PauseCause::User), 10).await;
    settle(RunStep::Pause(PauseCause::Interrupted), 20).await;
    assert_eq!(clock(900).await, (10, false));
    assert_eq!(store.run_get(team.run).await.unwrap().store_since, at(20).store);
    store.run_resume(user(), team.run, LIMITS, at(100)).await.unwrap();
    assert_eq!(clock(105).await, (15, true));
    // An agent asks a person, and its turn ends at second 110.
    team.say("go", &["a"]).await;
    let lease = team.lease_at("a", at(105)).await.unwrap();
    let new = NewQuestion {
        question: "Which?".into(),
        options: Vec::new(),
        text: rules::question_text,
        hop_context: HopContext { hops: 1, pause: None },
    };
    store.question_ask(agent(&lease), team.workflow, new, at(106)).await.unwrap();
    settle(RunStep::Stay, 108).await;
    assert_eq!(clock(110).await, (20, true), "the agent still works");
    store.attempt_finish(lease.fence.clone(), ok(), at(110)).await.unwrap();
    settle(RunStep::Stay, 110).await;
    assert_eq!(clock(900).await, (20, false), "only the answer is missing");
    // New work counts again, also if the question stays open.
    team.say("something else", &["a"]).await;
    settle(RunStep::Stay, 1_000).await;
    assert_eq!(clock(1_007).await, (27, true));
    settle(end(Outcome::Stopped), 1_010).await;
    assert_eq!(clock(9_000).await, (30, false), "an ended run keeps its time");
}
