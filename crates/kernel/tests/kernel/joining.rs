//! How agents join: a team whose run lives, or as standalone ones.

use std::time::Duration;

use agent_worker_kernel::{Breadth, Error, Options, Place, Principal, Recovered, ShellEnd};
use agent_worker_protocol::{
    Code, DeliveryState, EffectKey, EventKind, RunId, RunMode, RunState,
    api::{AgentRequest, AgentView},
};
use serde_json::json;
use tokio::sync::mpsc;

use crate::{
    worker::{End, Gate, Worker},
    world::{Disk, World, code, place, problem, request, team, within},
};

/// An agent of the team, or with no target a standalone one.
pub(crate) fn mock(name: Option<&str>, target: Option<&str>) -> AgentRequest {
    AgentRequest {
        name: name.map(|name| name.parse().unwrap()),
        backend: Some("mock".into()),
        target: target.map(|target| target.parse().unwrap()),
        ..AgentRequest::default()
    }
}

/// The same as a caller in `folder` asks, with `PATH` of his own.
fn from(folder: &str, path: &str, request: AgentRequest) -> AgentRequest {
    let env = [("PATH".to_owned(), path.to_owned())].into();
    AgentRequest { cwd: Some(folder.into()), env, ..request }
}

pub(crate) async fn new(world: &World, request: AgentRequest) -> Result<AgentView, Error> {
    within(world.kernel.agent_new(&Principal::User, None, request)).await
}

/// An agent whose every worker hands itself to the test, and ends well.
pub(crate) fn handing(world: &World, agent: &str) -> mpsc::UnboundedReceiver<Worker> {
    let (workers, handed) = mpsc::unbounded_channel();
    world.machine.plays(agent, move |worker| {
        let workers = workers.clone();
        async move {
            workers.send(worker).unwrap();
            End::quiet()
        }
    });
    handed
}

/// The user says something to `target`.
pub(crate) async fn tell(world: &World, target: &str, message: &str) {
    let request = request(Some(target), message);
    world.kernel.send(&Principal::User, None, request).await.unwrap();
}

/// The run of the standalone agents.
pub(crate) async fn global(world: &World) -> RunId {
    let place = place("@global");
    let views = world.kernel.run_views(&Principal::User, &place, Breadth::All).await.unwrap();
    views[0].run
}

#[tokio::test(start_paused = true)]
async fn whoever_joins_is_one_of_the_team_at_once() {
    let world = World::new().await;
    let (mut bobs, mut coders) = (handing(&world, "bob"), handing(&world, "coder"));
    let run = world.start(&team("coder", "kickoff: '@coder go'")).await;
    let before = within(coders.recv()).await.unwrap();
    assert!(before.job.system_prompt.contains("nobody else"));

    let asked = from("/elsewhere", "/not/this", mock(Some("Bob"), Some("@team")));
    let view = new(&world, AgentRequest { cwd: None, ..asked }).await.unwrap();
    assert_eq!((view.name.as_str(), view.backend.as_str()), ("Bob", "mock"));
    assert_eq!((view.state.to_string(), view.instance.to_string()), ("idle".into(), "team".into()));
    let added = world.until(run, |event| event.kind == EventKind::AgentAdded).await;
    assert_eq!(added.by.as_deref(), Some("user"));

    let said = world.say("@bob @coder hello").await;
    assert_eq!(said.woken.len(), 2);
    let (bob, coder) = (within(bobs.recv()).await.unwrap(), within(coders.recv()).await.unwrap());
    assert!(bob.job.system_prompt.contains("@coder"), "{}", bob.job.system_prompt);
    assert!(coder.job.system_prompt.contains("@Bob"), "{}", coder.job.system_prompt);
    assert_eq!(bob.job.cwd, world.folder(), "the run's folder");
    assert_eq!(bob.job.env["PATH"], "/bin", "the run's environment, not the caller's");
    assert_eq!(world.machine.environment(run).len(), 1, "of which nothing is kept");
}

#[tokio::test(start_paused = true)]
async fn a_name_is_given_once_and_only_while_the_run_lives() {
    let world = World::new().await;
    let run = world.start(&team("coder", "")).await;
    for name in ["coder", "CODER"] {
        let there = problem(new(&world, mock(Some(name), Some("@team"))).await);
        assert_eq!(there.code, Code::Conflict);
        assert_eq!(there.message, format!("there is an agent `{name}@team` already"));
        let hint = format!("agent-worker agent end {name}@team");
        assert!(there.hint.as_ref().unwrap().ends_with(&hint), "{there:?}");
    }
    world.stop(run).await.unwrap();
    let late = new(&world, mock(Some("bob"), Some("@team"))).await;
    assert_eq!(code(late), Some(Code::NoRun));
    let nowhere = new(&world, mock(Some("bob"), Some("@taem"))).await;
    assert_eq!(code(nowhere), Some(Code::NotFound));
    for strange in ["coder", "bob@team"] {
        let strange = new(&world, mock(None, Some(strange))).await;
        assert_eq!(code(strange), Some(Code::BadRequest), "a target is no agent");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_while_somebody_joins_keeps_nothing_of_them() {
    let world = World::new().await;
    let run = world.start(&team("alice", "")).await;
    let listed = world.store.withhold("agent_list");
    let kernel = world.kernel.clone();
    let bob = mock(Some("bob"), Some("@team"));
    let joining = Box::pin(kernel.agent_new(&Principal::User, None, bob));
    let stopping = async {
        listed.reached().await;
        world.stop(run).await.unwrap();
        listed.clone().release();
    };
    let (joined, ()) = within(async { tokio::join!(joining, stopping) }).await;
    let problem = problem(joined);
    assert_eq!(problem.code, Code::NoRun);
    assert!(!world.machine.keeps_environment(run));
}

#[tokio::test(start_paused = true)]
async fn a_standalone_agent_has_its_callers_folder_and_environment_and_no_other_ones() {
    let world = World::new().await;
    let (mut zero, mut bob) = (handing(&world, "a0"), handing(&world, "bob"));
    let first = new(&world, from("/one", "/one/bin", mock(None, None))).await.unwrap();
    assert_eq!((first.name.as_str(), first.instance.is_global()), ("a0", true));
    let here = AgentRequest {
        project: Some("/two".into()),
        cwd: None,
        ..from("/", "/two/bin", mock(Some("bob"), Some("@global")))
    };
    new(&world, here).await.unwrap();
    tell(&world, "a0", "hello").await;
    tell(&world, "bob", "hello").await;
    for (handed, folder, path) in [(&mut zero, "/one", "/one/bin"), (&mut bob, "/two", "/two/bin")]
    {
        let worker = within(handed.recv()).await.unwrap();
        assert_eq!(worker.job.cwd.to_str(), Some(folder));
        let env: Vec<_> = worker.job.env.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(env, [("PATH", path)]);
    }
    let refused = new(&world, from("one", "/", mock(None, None))).await;
    assert_eq!(problem(refused).message, "`cwd` must be an absolute path");
    // A name that is taken leaves what is kept for it as it was.
    let again = new(&world, from("/three", "/three/bin", mock(Some("bob"), None))).await;
    assert_eq!(code(again), Some(Code::Conflict));
    tell(&world, "bob", "again").await;
    assert_eq!(within(bob.recv()).await.unwrap().job.env["PATH"], "/two/bin");
}

#[tokio::test(start_paused = true)]
async fn two_who_join_at_once_without_a_name_are_a0_and_a1_of_one_run() {
    let world = World::new().await;
    let join = |path| new(&world, from("/", path, mock(None, None)));
    let (one, two) = tokio::join!(join("/zero"), join("/one"));
    let names = [one.unwrap().name, two.unwrap().name].map(String::from);
    assert_eq!(names, ["a0", "a1"]);
    let everywhere = Place::default();
    let all = world.kernel.run_views(&Principal::User, &everywhere, Breadth::All).await.unwrap();
    assert_eq!((all.len(), &all[0].state), (1, &RunState::Running));
    let kept = world.machine.environment(all[0].run);
    assert_eq!((kept["a0/PATH"].as_str(), kept["a1/PATH"].as_str()), ("/zero", "/one"));
}

#[tokio::test(start_paused = true)]
async fn a_new_agent_without_a_name_is_made_once_under_a_key() {
    let world = World::new().await;
    let once = |key: &str| {
        let key = EffectKey::new(key.to_owned(), "agent_new", &json!({}));
        let request = from("/", "/bin", mock(None, None));
        world.kernel.agent_new(&Principal::User, Some(key), request)
    };
    for (key, expected) in [("k1", "a0"), ("k1", "a0"), ("k2", "a1"), ("k1", "a0")] {
        assert_eq!(once(key).await.unwrap().name.as_str(), expected, "{key}");
    }
    let run = global(&world).await;
    assert_eq!(world.view(run).await.agents.len(), 2);
    assert_eq!(world.machine.environment(run).len(), 2, "nothing is kept for nobody");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_be_made_makes_nothing() {
    let world = World::new().await;
    let strange = AgentRequest { backend: Some("mok".into()), ..mock(None, None) };
    let refused = problem(new(&world, strange).await);
    assert_eq!(refused.message, "there is no backend `mok`");
    assert_eq!(refused.hint.as_deref(), Some("did you mean `mock`?"));
    let everywhere = Place::default();
    let all = world.kernel.instance_views(&Principal::User, &everywhere, Breadth::All).await;
    assert!(all.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_agent_joins_even_if_whoever_asked_goes_away_meanwhile() {
    let world = World::new().await;
    world.start(&team("coder", "kickoff: hello")).await;
    let added = world.store.withhold("agent_add");
    let asked = world.kernel.agent_new(&Principal::User, None, mock(Some("bob"), Some("@team")));
    within(async {
        tokio::select! {
            _ = asked => panic!("answered before it was done"),
            () = added.reached() => {}
        }
    })
    .await;
    added.release();
    world.pass(Duration::from_millis(1)).await;
    assert_eq!(world.say("@bob hello").await.unknown, []);
}

#[tokio::test(start_paused = true)]
async fn who_takes_part_is_not_remembered_from_before_somebody_joined() {
    let world = World::new().await;
    let listed = world.store.withhold("agent_list");
    let file = team("coder", "");
    let starting = Box::pin(world.begin(RunMode::Start, "team", &file));
    let joining = Box::pin(async {
        listed.reached().await;
        new(&world, mock(Some("bob"), Some("@team"))).await.unwrap();
        listed.clone().release();
    });
    let (started, ()) = within(async { tokio::join!(starting, joining) }).await;
    started.unwrap();
    assert_eq!(world.say("@bob hello").await.unknown, []);
}

#[tokio::test(start_paused = true)]
async fn whoever_joins_during_the_setup_is_reached_by_the_kickoff() {
    let world = World::new().await;
    let gate = Gate::default();
    let waits = gate.clone();
    world.machine.runs(move |_| {
        let gate = waits.clone();
        async move {
            gate.pass().await;
            ShellEnd { status: Some(0), ..ShellEnd::default() }
        }
    });
    let run = world.run(&team("coder", "setup: [{ shell: wait }]\nkickoff: '@bob go'")).await;
    new(&world, mock(Some("bob"), Some("@team"))).await.unwrap();
    gate.open();
    world.over(run).await;
    assert_eq!(world.receipts(1).await[0].state, DeliveryState::Acted);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_place_is_told_of_those_who_joined_meanwhile() {
    let options = Options { workers: 1, ..Options::default() };
    let world = World::with(Disk::Memory, options, 1).await;
    let gate = Gate::default();
    let waits = gate.clone();
    world.machine.plays("coder", move |_| {
        let gate = waits.clone();
        async move {
            gate.pass().await;
            End::quiet()
        }
    });
    let mut leads = handing(&world, "lead");
    let run = world.start(&team("coder lead", "kickoff: '@coder go'")).await;
    world.working(run, "coder", 1).await;
    world.say("@lead go").await;
    world.pass(Duration::from_secs(1)).await;
    new(&world, mock(Some("bob"), Some("@team"))).await.unwrap();
    gate.open();
    let lead = within(leads.recv()).await.unwrap();
    assert!(lead.job.system_prompt.contains("@bob"), "{}", lead.job.system_prompt);
}

#[tokio::test(start_paused = true)]
async fn those_who_joined_go_on_after_a_restart() {
    let mut world = World::on_disk().await;
    let gate = Gate::default();
    let waits = gate.clone();
    world.machine.plays("bob", move |worker| {
        let gate = waits.clone();
        async move {
            if worker.nth == 1 {
                gate.pass().await;
            }
            End::done("finished")
        }
    });
    let mut zero = handing(&world, "a0");
    let run = world.start(&team("coder", "")).await;
    new(&world, mock(Some("bob"), Some("@team"))).await.unwrap();
    new(&world, from("/one", "/one/bin", mock(None, None))).await.unwrap();
    world.say("@bob go").await;
    world.working(run, "bob", 1).await;
    world.leave().await;
    let found = world.come_back().await;
    assert_eq!(found, Recovered { runs: 2, adopted: 1, settled: 0 });
    gate.open();
    world.until(run, |event| event.kind == EventKind::AttemptEnded).await;
    assert_eq!(world.receipts(1).await[0].answer.as_deref(), Some("finished"));
    assert_eq!(world.machine.turns_of("bob").len(), 1, "the same turn went on");
    world.say("@bob again").await;
    world.working(run, "bob", 2).await;
    tell(&world, "a0", "hello").await;
    let worker = within(zero.recv()).await.unwrap();
    assert_eq!(
        (worker.job.env["PATH"].as_str(), worker.job.cwd.to_str()),
        ("/one/bin", Some("/one"))
    );
}
