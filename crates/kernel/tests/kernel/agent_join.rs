//! Tests of joining agents: in a live team, or as standalone agents.

use std::time::Duration;

use agent_worker_kernel::{
    Error, InstanceSelector, ListingScope, Options, PageRequest, Principal, RecoverySummary,
    ShellOutcome,
};
use agent_worker_protocol::{
    Code, DeliveryState, EffectKey, EventKind, Permission, ProblemDetails, RunId, RunMode,
    RunState, Target,
    api::{AgentRequest, AgentView, TokenRequest},
};
use serde_json::json;
use tokio::sync::mpsc;

use crate::{
    scripted_worker::{ScriptEnd, ScriptGate, ScriptedWorker},
    world::{
        KernelWorld, StoreLocation, code, instance_selector, problem, send_request, team, within,
    },
};

/// Builds a request for an agent of the team, or without a target for a standalone one.
pub(crate) fn mock_agent_request(name: Option<&str>, target: Option<&str>) -> AgentRequest {
    AgentRequest {
        name: name.map(|name| name.parse().unwrap()),
        backend: Some("mock".into()),
        target: target.map(|target| target.parse().unwrap()),
        ..AgentRequest::default()
    }
}

/// Returns the request of a caller in `folder` with a separate `PATH`.
fn from(folder: &str, path: &str, request: AgentRequest) -> AgentRequest {
    let env = [("PATH".to_owned(), path.to_owned())].into();
    AgentRequest { cwd: Some(folder.into()), env, ..request }
}

pub(crate) async fn new_agent(
    world: &KernelWorld,
    request: AgentRequest,
) -> Result<AgentView, Error> {
    within(world.kernel.agents().create(&Principal::User, None, request)).await
}

/// Sets a script that passes every worker of the agent to the test and ends ok.
pub(crate) fn hand_over_workers(
    world: &KernelWorld,
    agent: &str,
) -> mpsc::UnboundedReceiver<ScriptedWorker> {
    let (workers, handed) = mpsc::unbounded_channel();
    world.machine.set_worker_script(agent, move |worker| {
        let workers = workers.clone();
        async move {
            workers.send(worker).unwrap();
            ScriptEnd::quiet()
        }
    });
    handed
}

/// Sends a message of the user to `target`.
pub(crate) async fn send_to(world: &KernelWorld, target: &str, message: &str) {
    let request = send_request(Some(target), message);
    world.kernel.messages().send(&Principal::User, None, request).await.unwrap();
}

/// Returns the run of the standalone agents.
pub(crate) async fn global_run(world: &KernelWorld) -> RunId {
    let place = instance_selector("@global");
    let views = world
        .kernel
        .runs()
        .list(&Principal::User, &place, ListingScope::All, &PageRequest::whole())
        .await
        .unwrap()
        .items;
    views[0].run
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_joins_is_one_of_the_team_at_once() {
    let world = KernelWorld::new().await;
    let (mut bobs, mut coders) =
        (hand_over_workers(&world, "bob"), hand_over_workers(&world, "coder"));
    let run = world.start(&team("coder", "kickoff: '@coder go'")).await;
    let before = within(coders.recv()).await.unwrap();
    assert!(before.job.system_prompt.contains("the others: none."));

    let asked = from("/elsewhere", "/not/this", mock_agent_request(Some("Bob"), Some("@team")));
    let view = new_agent(&world, AgentRequest { cwd: None, ..asked }).await.unwrap();
    assert_eq!((view.name.as_str(), view.backend.as_str()), ("Bob", "mock"));
    assert_eq!((view.state.to_string(), view.instance.to_string()), ("idle".into(), "team".into()));
    let added =
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AgentAdded)).await;
    assert_eq!(added.by.as_deref(), Some("user"));

    let said = world.send_to_team("@bob @coder hello").await;
    assert_eq!(said.woken.len(), 2);
    let (bob, coder) = (within(bobs.recv()).await.unwrap(), within(coders.recv()).await.unwrap());
    assert!(bob.job.system_prompt.contains("@coder"), "{}", bob.job.system_prompt);
    assert!(coder.job.system_prompt.contains("@Bob"), "{}", coder.job.system_prompt);
    assert_eq!(bob.job.cwd, world.folder(), "the run's folder");
    assert_eq!(bob.job.env["PATH"], "/bin", "the run's environment, not the caller's");
    assert_eq!(world.machine.environment(run).len(), 1, "of which nothing is kept");
}

#[tokio::test(start_paused = true)]
async fn an_instance_without_a_file_is_created_with_its_first_agent_and_outlives_the_daemon() {
    let mut world = KernelWorld::on_disk().await;
    let asked = |name: &str, path: &str| AgentRequest {
        project: Some("/projects/here".into()),
        create_instance: true,
        ..from("/projects/here", path, mock_agent_request(Some(name), Some("@pr-9")))
    };
    let typo = AgentRequest { create_instance: false, ..asked("alice", "/a") };
    assert_eq!(code(new_agent(&world, typo).await), Some(Code::NotFound));
    let alice = new_agent(&world, asked("alice", "/a")).await.unwrap();
    assert_eq!((alice.name.as_str(), alice.instance.to_string()), ("alice", "pr-9".into()));
    let bob = new_agent(&world, asked("bob", "/b")).await.unwrap();
    assert_eq!(bob.instance, alice.instance, "the second agent joins the first");
    world.stop_daemon().await;
    world.restart_daemon().await;
    let mut bobs = hand_over_workers(&world, "bob");
    send_to(&world, "bob@pr-9", "hello").await;
    let bob = within(bobs.recv()).await.unwrap();
    assert_eq!(
        (bob.job.env["PATH"].as_str(), bob.job.cwd.to_str()),
        ("/b", Some("/projects/here"))
    );
    let place = instance_selector("@pr-9");
    let runs = world
        .kernel
        .runs()
        .list(&Principal::User, &place, ListingScope::All, &PageRequest::default())
        .await
        .unwrap();
    world.kernel.runs().stop(&Principal::User, runs.items[0].run).await.unwrap();
    let again = new_agent(&world, asked("alice", "/a")).await.unwrap();
    assert_eq!(again.instance, alice.instance, "a new run of the same instance");
}

#[tokio::test(start_paused = true)]
async fn only_the_user_creates_an_instance_or_names_a_program() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "")).await;
    let command =
        AgentRequest { command: vec!["./x".into()], ..mock_agent_request(Some("x"), None) };
    let instance =
        AgentRequest { create_instance: true, ..mock_agent_request(Some("x"), Some("@new")) };
    let allow = Some([Permission::Agents].into());
    let token = TokenRequest { name: "ci".into(), allow, ..TokenRequest::default() };
    let token = world.kernel.tokens().create(&Principal::User, token).await.unwrap().token;
    let client = world.kernel.tokens().principal_by_token(&token).await.unwrap();
    for request in [command, instance] {
        let refused = within(world.kernel.agents().create(&client, None, request)).await;
        assert_eq!(code(refused), Some(Code::Forbidden));
    }
    let ended = AgentRequest { create_instance: true, ..mock_agent_request(None, Some("@team")) };
    let (user, place) = (Principal::User, instance_selector("@team"));
    let runs = world
        .kernel
        .runs()
        .list(&user, &place, ListingScope::All, &PageRequest::default())
        .await
        .unwrap();
    world.kernel.runs().stop(&user, runs.items[0].run).await.unwrap();
    let refused = new_agent(&world, ended).await;
    assert_eq!(code(refused), Some(Code::NoRun), "a team is started from its file");
}

#[tokio::test(start_paused = true)]
async fn a_name_is_given_once_and_only_while_the_run_lives() {
    let world = KernelWorld::new().await;
    let run = world.start(&team("coder", "")).await;
    for name in ["coder", "CODER"] {
        let there = problem(new_agent(&world, mock_agent_request(Some(name), Some("@team"))).await);
        assert_eq!(there.code, Code::Conflict);
        assert_eq!(there.message, format!("agent `{name}@team` already exists"));
        let target = Target::agent(name.parse().unwrap(), &"team".parse().unwrap());
        assert_eq!(there.details, Some(Box::new(ProblemDetails::AgentExists { target })));
    }
    world.stop(run).await.unwrap();
    let late = new_agent(&world, mock_agent_request(Some("bob"), Some("@team"))).await;
    assert_eq!(code(late), Some(Code::NoRun));
    let nowhere = new_agent(&world, mock_agent_request(Some("bob"), Some("@taem"))).await;
    assert_eq!(code(nowhere), Some(Code::NotFound));
    for strange in ["coder", "bob@team"] {
        let strange = new_agent(&world, mock_agent_request(None, Some(strange))).await;
        assert_eq!(code(strange), Some(Code::BadRequest), "a target is no agent");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_while_an_agent_joins_keeps_nothing_of_that_agent() {
    let world = KernelWorld::new().await;
    let run = world.start(&team("alice", "")).await;
    let listed = world.store.withhold_answer("agent_list");
    let kernel = world.kernel.clone();
    let bob = mock_agent_request(Some("bob"), Some("@team"));
    let joining = Box::pin(kernel.agents().create(&Principal::User, None, bob));
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
    let world = KernelWorld::new().await;
    let (mut zero, mut bob) = (hand_over_workers(&world, "a0"), hand_over_workers(&world, "bob"));
    let first =
        new_agent(&world, from("/one", "/one/bin", mock_agent_request(None, None))).await.unwrap();
    assert_eq!((first.name.as_str(), first.instance.is_global()), ("a0", true));
    let here = AgentRequest {
        project: Some("/two".into()),
        cwd: None,
        ..from("/", "/two/bin", mock_agent_request(Some("bob"), Some("@global")))
    };
    new_agent(&world, here).await.unwrap();
    send_to(&world, "a0", "hello").await;
    send_to(&world, "bob", "hello").await;
    for (handed, folder, path) in [(&mut zero, "/one", "/one/bin"), (&mut bob, "/two", "/two/bin")]
    {
        let worker = within(handed.recv()).await.unwrap();
        assert_eq!(worker.job.cwd.to_str(), Some(folder));
        let env: Vec<_> = worker.job.env.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(env, [("PATH", path)]);
    }
    let refused = new_agent(&world, from("one", "/", mock_agent_request(None, None))).await;
    assert_eq!(problem(refused).message, "`cwd` must be an absolute path");
    // A name in use keeps its stored environment.
    let again =
        new_agent(&world, from("/three", "/three/bin", mock_agent_request(Some("bob"), None)))
            .await;
    assert_eq!(code(again), Some(Code::Conflict));
    send_to(&world, "bob", "again").await;
    assert_eq!(within(bob.recv()).await.unwrap().job.env["PATH"], "/two/bin");
}

#[tokio::test(start_paused = true)]
async fn two_who_join_at_once_without_a_name_are_a0_and_a1_of_one_run() {
    let world = KernelWorld::new().await;
    let join = |path| new_agent(&world, from("/", path, mock_agent_request(None, None)));
    let (one, two) = tokio::join!(join("/zero"), join("/one"));
    let names = [one.unwrap().name, two.unwrap().name].map(String::from);
    assert_eq!(names, ["a0", "a1"]);
    let everywhere = InstanceSelector::default();
    let all = world
        .kernel
        .runs()
        .list(&Principal::User, &everywhere, ListingScope::All, &PageRequest::whole())
        .await
        .unwrap()
        .items;
    assert_eq!((all.len(), &all[0].state), (1, &RunState::Running));
    let kept = world.machine.environment(all[0].run);
    assert_eq!((kept["a0/PATH"].as_str(), kept["a1/PATH"].as_str()), ("/zero", "/one"));
}

#[tokio::test(start_paused = true)]
async fn a_new_agent_without_a_name_is_made_once_under_a_key() {
    let world = KernelWorld::new().await;
    let once = |key: &str| {
        let key = EffectKey::new(key.to_owned(), "agent_new", &json!({}));
        let request = from("/", "/bin", mock_agent_request(None, None));
        world.kernel.agents().create(&Principal::User, Some(key), request)
    };
    for (key, expected) in [("k1", "a0"), ("k1", "a0"), ("k2", "a1"), ("k1", "a0")] {
        assert_eq!(once(key).await.unwrap().name.as_str(), expected, "{key}");
    }
    let run = global_run(&world).await;
    assert_eq!(world.view(run).await.agents.len(), 2);
    assert_eq!(world.machine.environment(run).len(), 2, "nothing is kept for nobody");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_be_made_makes_nothing() {
    let world = KernelWorld::new().await;
    let strange = AgentRequest { backend: Some("mok".into()), ..mock_agent_request(None, None) };
    let refused = problem(new_agent(&world, strange).await);
    assert_eq!(refused.message, "there is no backend `mok`");
    let correction = "did you mean `mock`?".to_owned();
    assert_eq!(refused.details, Some(Box::new(ProblemDetails::InvalidAgent { correction })));
    let everywhere = InstanceSelector::default();
    let all = world
        .kernel
        .instances()
        .list(&Principal::User, &everywhere, ListingScope::All, &PageRequest::whole())
        .await;
    assert!(all.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_agent_joins_even_if_its_requester_disconnects_meanwhile() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "kickoff: hello")).await;
    let added = world.store.withhold_answer("agent_add");
    let asked = Box::pin(world.kernel.agents().create(
        &Principal::User,
        None,
        mock_agent_request(Some("bob"), Some("@team")),
    ));
    within(async {
        tokio::select! {
            _ = asked => panic!("answered before it was done"),
            () = added.reached() => {}
        }
    })
    .await;
    added.release();
    world.pass_time(Duration::from_millis(1)).await;
    assert_eq!(world.send_to_team("@bob hello").await.unknown, []);
}

#[tokio::test(start_paused = true)]
async fn a_team_that_was_read_before_an_agent_joined_is_not_cached() {
    let world = KernelWorld::new().await;
    let listed = world.store.withhold_answer("agent_list");
    let file = team("coder", "");
    let starting = Box::pin(world.begin_run(RunMode::Start, "team", &file));
    let joining = Box::pin(async {
        listed.reached().await;
        new_agent(&world, mock_agent_request(Some("bob"), Some("@team"))).await.unwrap();
        listed.clone().release();
    });
    let (started, ()) = within(async { tokio::join!(starting, joining) }).await;
    started.unwrap();
    assert_eq!(world.send_to_team("@bob hello").await.unknown, []);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_joins_during_the_setup_receives_the_kickoff() {
    let world = KernelWorld::new().await;
    let gate = ScriptGate::default();
    let waits = gate.clone();
    world.machine.set_shell_script(move |_| {
        let gate = waits.clone();
        async move {
            gate.wait_open().await;
            ShellOutcome { status: Some(0), ..ShellOutcome::default() }
        }
    });
    let run = world.run(&team("coder", "setup: [{ shell: wait }]\nkickoff: '@bob go'")).await;
    new_agent(&world, mock_agent_request(Some("bob"), Some("@team"))).await.unwrap();
    gate.open();
    world.wait_until_ended(run).await;
    assert_eq!(world.receipts(1).await[0].state, DeliveryState::Acted);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_waits_for_a_worker_slot_learns_of_agents_that_joined_meanwhile() {
    let options = Options { workers: 1, ..Options::default() };
    let world = KernelWorld::with(StoreLocation::Memory, options, 1).await;
    let gate = ScriptGate::default();
    let waits = gate.clone();
    world.machine.set_worker_script("coder", move |_| {
        let gate = waits.clone();
        async move {
            gate.wait_open().await;
            ScriptEnd::quiet()
        }
    });
    let mut leads = hand_over_workers(&world, "lead");
    let run = world.start(&team("coder lead", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.send_to_team("@lead go").await;
    world.pass_time(Duration::from_secs(1)).await;
    new_agent(&world, mock_agent_request(Some("bob"), Some("@team"))).await.unwrap();
    gate.open();
    let lead = within(leads.recv()).await.unwrap();
    assert!(lead.job.system_prompt.contains("@bob"), "{}", lead.job.system_prompt);
}

#[tokio::test(start_paused = true)]
async fn those_who_joined_go_on_after_a_restart() {
    let mut world = KernelWorld::on_disk().await;
    let gate = ScriptGate::default();
    let waits = gate.clone();
    world.machine.set_worker_script("bob", move |worker| {
        let gate = waits.clone();
        async move {
            if worker.nth == 1 {
                gate.wait_open().await;
            }
            ScriptEnd::done("finished")
        }
    });
    let mut zero = hand_over_workers(&world, "a0");
    let run = world.start(&team("coder", "")).await;
    new_agent(&world, mock_agent_request(Some("bob"), Some("@team"))).await.unwrap();
    new_agent(&world, from("/one", "/one/bin", mock_agent_request(None, None))).await.unwrap();
    world.send_to_team("@bob go").await;
    world.wait_for_report(run, "bob", 1).await;
    world.stop_daemon().await;
    let found = world.restart_daemon().await;
    assert_eq!(found, RecoverySummary { runs: 2, adopted: 1, settled: 0 });
    gate.open();
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    assert_eq!(world.receipts(1).await[0].answer.as_deref(), Some("finished"));
    assert_eq!(world.machine.turns_of("bob").len(), 1, "the same turn went on");
    world.send_to_team("@bob again").await;
    world.wait_for_report(run, "bob", 2).await;
    send_to(&world, "a0", "hello").await;
    let worker = within(zero.recv()).await.unwrap();
    assert_eq!(
        (worker.job.env["PATH"].as_str(), worker.job.cwd.to_str()),
        ("/one/bin", Some("/one"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_created_instance_is_not_the_live_one_of_another_folder() {
    let world = KernelWorld::new().await;
    let asked = |name: &str, folder: &str| AgentRequest {
        project: Some(folder.into()),
        create_instance: true,
        ..from(folder, "/bin", mock_agent_request(Some(name), Some("@dev")))
    };
    for (name, folder) in
        [("alice", "/projects/a"), ("bob", "/projects/b"), ("carol", "/projects/c")]
    {
        let agent = new_agent(&world, asked(name, folder)).await.unwrap();
        assert_eq!(agent.project.to_str(), Some(folder), "{name}");
    }
    let joined = new_agent(&world, asked("dave", "/projects/a/src")).await.unwrap();
    assert_eq!(joined.project.to_str(), Some("/projects/a"), "near its folder");
    let joins = AgentRequest { create_instance: false, ..asked("erin", "/projects/b") };
    let joined = new_agent(&world, joins).await.unwrap();
    assert_eq!(joined.project.to_str(), Some("/projects/b"));
}
