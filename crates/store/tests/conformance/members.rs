//! A person's actions on existing agents, runs and instances.

use std::{sync::Arc, time::Duration};

use agent_worker_protocol::{
    AttemptEnd, DeliveryState, EffectKey, Epoch, LimitKind, Limits, Outcome, PauseCause, RunState,
    Seq, api::FeedbackView,
};
use agent_worker_store::{
    Error, InstanceQuery, ListRange, MessageOrder, MessageQuery, NewAgent, NotBefore, RunBlockers,
    RunQuery, RunStep, Settlement, Store, WaitReason, WriteActor, WriteContext,
};

use crate::team::{
    LIMITS, NOW, Team, crashed, cut_short, end, keyed, name, new_run, ok, seqs, text, user,
};

fn new_agent(agent: &str) -> NewAgent {
    NewAgent { name: name(agent), settings: "{\"joined\":true}".into() }
}

async fn names(team: &Team) -> Vec<String> {
    let rows = team.store.agent_list(team.workflow).await.unwrap();
    rows.into_iter().map(|row| row.name.to_string()).collect()
}

pub(crate) async fn an_agent_joins_a_live_run_under_a_name_that_is_free(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    let add = async |who: &str| store.agent_add(user(), team.run, new_agent(who), NOW).await;
    add("b").await.unwrap();
    assert!(matches!(add("B").await, Err(Error::Exists("agent"))));
    assert!(matches!(add("a").await, Err(Error::Exists("agent"))));
    assert_eq!(names(&team).await, ["a", "b"]);
    assert_eq!(team.kinds().await.last(), Some(&"agent.added"));
    team.say("go", &["b"]).await;
    let lease = team.lease("b").await;
    assert_eq!(lease.settings, "{\"joined\":true}");
    team.finish(&lease, ok()).await;
    // A repeated key adds the agent once and causes no conflict.
    for _ in 0..2 {
        let by = keyed(user(), "k", "c");
        store.agent_add(by, team.run, new_agent("c"), NOW).await.unwrap();
    }
    let old = team.run;
    team.settle(end(Outcome::Done)).await;
    let late = store.agent_add(user(), old, new_agent("d"), NOW).await;
    assert!(matches!(late, Err(Error::NoRun)), "{late:?}");
    // A former participant may join again: its epoch continues.
    team.start(new_run(&["a"])).await;
    store.agent_add(user(), team.run, new_agent("b"), NOW).await.unwrap();
    team.say("go", &["b"]).await;
    assert_eq!(team.lease("b").await.fence.epoch, Epoch::new(2));
    let row = &store.agent_list(team.workflow).await.unwrap()[1];
    assert_eq!((row.name.as_str(), row.turns), ("b", 0));
}

pub(crate) async fn a_stopped_agent_is_not_woken_until_it_is_resumed(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let seq = team.say("go", &["a"]).await;
    let stop = store.agent_stop(user(), team.workflow, name("A"), "enough".into(), NOW);
    stop.await.unwrap();
    let row = &store.agent_list(team.workflow).await.unwrap()[0];
    assert_eq!(row.stopped.as_deref(), Some("enough"));
    assert!(team.try_lease("a").await.is_none());
    let hindrances = async || store.run_blockers(team.run).await.unwrap();
    let expected = RunBlockers { state: RunState::Running, stopped: vec![name("a")] };
    assert_eq!(hindrances().await, expected);
    assert_eq!(team.facts().await.stranded, 1);
    let event = team.events().await.pop().unwrap();
    assert_eq!((event.body.kind_word(), event.cause.as_deref()), ("agent.stopped", Some("enough")));
    store.agent_resume(user(), team.workflow, name("a"), NOW).await.unwrap();
    assert_eq!(hindrances().await.stopped, []);
    let lease = team.lease("a").await;
    // An agent that waits after a failure waits no longer.
    let until = NotBefore {
        at: NOW.store.plus(Duration::from_mins(5)),
        wait: WaitReason::BackOff,
        why: "gone".into(),
    };
    team.finish(&lease, Settlement { not_before: Some(until), ..crashed() }).await;
    assert!(team.try_lease("a").await.is_none());
    store.agent_resume(user(), team.workflow, name("a"), NOW).await.unwrap();
    team.finish(&team.lease("a").await, ok()).await;
    assert_eq!(team.state(seq, "a").await, DeliveryState::Acted);
    let nobody = store.agent_stop(user(), team.workflow, name("z"), "x".into(), NOW).await;
    assert!(matches!(nobody, Err(Error::NotFound("agent"))));
}

pub(crate) async fn a_new_script_replaces_the_settings_of_an_agent_once(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let set = async |who: &str, settings: &str| {
        let agent = NewAgent { settings: settings.to_owned(), ..new_agent(who) };
        store.agent_mock_set(user(), team.workflow, agent, NOW).await
    };
    set("A", "{\"new\":1}").await.unwrap();
    let settings: Vec<_> = store.agent_list(team.workflow).await.unwrap();
    let settings: Vec<_> = settings.into_iter().map(|row| (row.name, row.settings)).collect();
    assert_eq!(settings[0], (name("a"), "{\"new\":1}".to_owned()));
    assert_ne!(settings[1].1, settings[0].1);
    let event = team.events().await.pop().unwrap();
    assert_eq!((event.body.kind_word(), event.by.as_deref()), ("agent.mock_changed", Some("user")));
    assert!(matches!(set("z", "{}").await, Err(Error::NotFound("agent"))));
    let by = |key: &str| keyed(user(), key, "args");
    let is_known = async |key: &str| store.effect_is_known(by(key), team.workflow).await.unwrap();
    assert!(!is_known("k").await && !store.effect_is_known(user(), team.workflow).await.unwrap());
    let new = NewAgent { settings: "{}".to_owned(), ..new_agent("b") };
    store.agent_mock_set(by("k"), team.workflow, new, NOW).await.unwrap();
    assert!(is_known("k").await && !is_known("other").await);
    team.settle(end(Outcome::Stopped)).await;
    assert!(matches!(set("a", "{}").await, Err(Error::NoRun)));
}

pub(crate) async fn an_agent_that_leaves_takes_its_open_mail_with_it(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let seq = team.say("go", &["a", "b"]).await;
    let lease = team.lease("a").await;
    let remove = async || store.agent_remove(user(), team.workflow, name("a"), NOW).await;
    assert!(matches!(remove().await, Err(Error::AgentBusy)));
    team.finish(&lease, cut_short(agent_worker_store::Blame::None)).await;
    remove().await.unwrap();
    assert!(matches!(remove().await, Err(Error::NotFound("agent"))));
    assert_eq!(names(&team).await, ["b"]);
    assert_eq!(team.state(seq, "a").await, DeliveryState::Dropped);
    assert_eq!(team.state(seq, "b").await, DeliveryState::Pending);
    assert!(team.try_lease("a").await.is_none());
    assert!(matches!(
        team.append(user(), text("again", &["a"])).await,
        Err(Error::NotFound("agent"))
    ));
    assert_eq!(
        team.kinds().await[team.kinds().await.len() - 2..],
        ["delivery.dropped", "agent.removed"]
    );
}

pub(crate) async fn a_paused_run_goes_on_within_its_new_limits(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let limits = Limits { hops: 99, ..LIMITS };
    let resume = async || store.run_resume(user(), team.run, limits, NOW).await;
    let running = resume().await;
    assert!(matches!(running, Err(Error::WrongRunState(RunState::Running))), "{running:?}");
    let cause = PauseCause::limit(LimitKind::Hops, "51 of 50".to_owned());
    team.settle(RunStep::Pause(cause)).await;
    resume().await.unwrap();
    let row = store.run_get(team.run).await.unwrap();
    assert_eq!((row.state, row.limits), (RunState::Running, limits));
    let event = team.events().await.pop().unwrap();
    assert_eq!((event.body.kind_word(), event.by.as_deref()), ("run.running", Some("user")));
    team.say("go", &["a"]).await;
    assert!(team.try_lease("a").await.is_some());
    team.settle(end(Outcome::Stopped)).await;
    assert!(matches!(resume().await, Err(Error::NoRun)));
}

pub(crate) async fn what_was_cleared_is_hidden_and_kept(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.say("one", &[]).await;
    team.say("two", &["a"]).await;
    let clear = store.instance_clear(user(), team.workflow, NOW).await;
    assert_eq!(clear.unwrap(), Seq::new(2));
    team.say("three", &[]).await;
    let shown = async |run| {
        let (after, order) = (Seq::new(0), MessageOrder::NewestFirst);
        let query =
            MessageQuery { run, after, before: None, search: None, to: None, order, limit: 99 };
        let list = store.message_list(team.workflow, query).await.unwrap();
        list.into_iter().map(|message| message.seq).collect::<Vec<_>>()
    };
    assert_eq!(shown(Some(team.run)).await, seqs(&[3]));
    assert_eq!(shown(None).await, seqs(&[1, 2, 3]));
    // Pending deliveries stay pending.
    assert_eq!(team.inbox("a").await, seqs(&[2]));
}

pub(crate) async fn a_removed_instance_leaves_nothing_behind(store: Arc<dyn Store>) {
    let (team, other) = (Team::new(&store, &["a"]).await, Team::new(&store, &["a"]).await);
    other.say("stays", &["a"]).await;
    team.say("goes", &["a"]).await;
    let live = store.instance_remove(team.workflow).await;
    assert!(matches!(live, Err(Error::RunLive(run)) if run == team.run));
    team.settle(end(Outcome::Done)).await;
    store.instance_remove(team.workflow).await.unwrap();
    assert!(matches!(store.instance_remove(team.workflow).await, Err(Error::NotFound(_))));
    assert!(matches!(store.run_get(team.run).await, Err(Error::NotFound("run"))));
    let ids = store
        .instance_list(InstanceQuery::All)
        .await
        .unwrap()
        .into_iter()
        .map(|instance| instance.id);
    assert_eq!(ids.collect::<Vec<_>>(), [other.workflow]);
    assert_eq!(store.run_list(RunQuery::Live).await.unwrap().len(), 1);
    let ended = RunQuery::Ended(None, ListRange::all());
    assert_eq!(store.run_list(ended).await.unwrap(), []);
    assert_eq!(other.inbox("a").await.len(), 1);
    // The id is never used again: a caller that still has it finds no instance.
    store.instance_open("/p".into(), "w:last".parse().unwrap()).await.unwrap();
    store.instance_remove(team.workflow).await.unwrap_err();
}

pub(crate) async fn attempts_and_turns_are_listed_newest_first(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    for end in [ok(), crashed(), cut_short(agent_worker_store::Blame::None)] {
        team.say("go", &["a"]).await;
        let later = NOW.plus(Duration::from_secs(2));
        let lease = team.lease_at("a", later).await.unwrap();
        let ended = later.plus(Duration::from_secs(3));
        store.attempt_finish(lease.fence.clone(), end, ended).await.unwrap();
    }
    let attempts = store.attempt_list(team.workflow, name("A"), 2).await.unwrap();
    let epochs: Vec<_> = attempts.iter().map(|attempt| attempt.fence.epoch.get()).collect();
    assert_eq!(epochs, [3, 2]);
    assert_eq!(store.attempt_list(team.workflow, name("b"), 9).await.unwrap().len(), 0);
    let turns = store.turn_list(team.run, 9).await.unwrap();
    assert_eq!(turns.len(), 2, "{turns:?}");
    assert!(turns.iter().any(|turn| turn.end == AttemptEnd::Ok));
    for turn in turns {
        assert_eq!((turn.agent.as_str(), turn.waited.as_secs(), turn.took.as_secs()), ("a", 2, 3));
    }
    assert_eq!(store.turn_list(team.run, 1).await.unwrap().len(), 1);
}

pub(crate) async fn it_is_known_since_when_a_run_and_its_agents_stand_as_they_do(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a"]).await;
    let at = |seconds: u64| NOW.plus(Duration::from_secs(seconds));
    let run = async || store.run_get(team.run).await.unwrap().since;
    let agents = async || -> Vec<_> {
        let rows = store.agent_list(team.workflow).await.unwrap();
        rows.into_iter().map(|row| row.since).collect()
    };
    let stop = async |seconds| {
        let why = "enough".to_owned();
        store.agent_stop(user(), team.workflow, name("a"), why, at(seconds)).await.unwrap();
    };
    let resume = async |seconds| {
        store.agent_resume(user(), team.workflow, name("a"), at(seconds)).await.unwrap();
    };
    store.agent_add(user(), team.run, new_agent("b"), at(1)).await.unwrap();
    assert_eq!((run().await, agents().await), (at(0).wall, vec![at(0).wall, at(1).wall]));
    stop(2).await;
    stop(3).await;
    assert_eq!(
        agents().await[0],
        at(2).wall,
        "stopped once more, it has been stopped since before"
    );
    resume(4).await;
    resume(5).await;
    assert_eq!(agents().await[0], at(4).wall, "an agent that may be woken is not resumed");
    // A resume ends the wait after a failure; a failure that stops the agent appends its event.
    team.say("go", &["a"]).await;
    let until = NotBefore { at: at(60).store, wait: WaitReason::BackOff, why: "gone".into() };
    let finish = async |settlement, seconds| {
        let lease = team.lease_at("a", at(seconds)).await.unwrap();
        let fence = lease.fence.clone();
        store.attempt_finish(fence, settlement, at(seconds + 1)).await.unwrap();
        store.attempt_get(lease.id).await.unwrap()
    };
    let ended = finish(Settlement { not_before: Some(until), ..crashed() }, 6).await;
    assert_eq!(
        (ended.started, ended.ended_at, agents().await[0]),
        (at(6).wall, Some(at(7).wall), at(4).wall)
    );
    resume(8).await;
    assert_eq!(agents().await[0], at(8).wall);
    finish(Settlement { stop: Some("auth".into()), ..crashed() }, 9).await;
    assert_eq!(agents().await[0], at(10).wall);
    let settle = async |step: RunStep, seconds| {
        store.run_settle(team.run, Box::new(move |_| step.clone()), at(seconds)).await.unwrap();
        run().await
    };
    assert_eq!(settle(RunStep::Pause(PauseCause::User), 11).await, at(11).wall);
    assert_eq!(
        settle(RunStep::Pause(PauseCause::User), 12).await,
        at(11).wall,
        "it is paused already"
    );
    assert_eq!(settle(RunStep::Resume, 13).await, at(13).wall);
    assert_eq!(settle(end(Outcome::Stopped), 14).await, at(14).wall);
}

pub(crate) async fn feedback_about_the_program_is_kept(store: Arc<dyn Store>) {
    let said = |message: &str, instance: Option<&str>| FeedbackView {
        ts: NOW.wall,
        by: "user".into(),
        instance: instance.map(|instance| instance.parse().unwrap()),
        message: message.into(),
    };
    store.feedback_put(said("one", None)).await.unwrap();
    store.feedback_put(said("two", Some("review:pr-1"))).await.unwrap();
    let expected = [said("two", Some("review:pr-1")), said("one", None)];
    let list = async |range| {
        let rows = store.feedback_list(range).await.unwrap();
        rows.into_iter().map(|row| (row.key, row.entry)).unzip::<_, _, Vec<_>, Vec<_>>()
    };
    let (keys, entries) = list(ListRange::first(9)).await;
    assert_eq!(entries, expected);
    assert_eq!(list(ListRange::first(1)).await.1, expected[..1]);
    assert_eq!(list(ListRange { after: Some(keys[0]), limit: 9 }).await.1, expected[1..]);
    let team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    let key = EffectKey::new("k".to_owned(), "feedback_submit", &serde_json::json!({}));
    let by =
        || WriteContext { actor: WriteActor::Agent(lease.fence.clone()), key: Some(key.clone()) };
    let submit =
        async || store.feedback_submit(by(), team.workflow, said("three", None), NOW).await;
    assert!(!submit().await.unwrap().is_deduplicated());
    assert!(submit().await.unwrap().is_deduplicated());
    assert_eq!(store.feedback_list(ListRange::first(9)).await.unwrap().len(), 3, "once per key");
    assert_eq!(store.integrity_check().await.unwrap().problems, Vec::<String>::new());
}
