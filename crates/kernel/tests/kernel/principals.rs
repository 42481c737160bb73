//! Tests of permissions: every kind of principal tries every operation.

use agent_worker_kernel::{
    ChannelPosition, ChannelQuery, DeadLetterAction, DocumentBase, Error, InstanceSelector, Kernel,
    ListingScope, PageRequest, Principal, WatchSubject,
};
use agent_worker_protocol::{
    AttemptId, Code, EventsRequest, RunId, RunMode, Sender, Seq,
    api::{AgentRequest, DeadRequest, FeedbackRequest, ResumeRequest, RunRequest, TokenRequest},
};
use tokio::sync::mpsc;

use crate::{
    scripted_worker::ScriptedWorker,
    world::{KernelWorld, code, instance_selector, send_request, team, within},
};

/// Two instances, each with a running coder.
struct TwoInstances {
    world: KernelWorld,
    team: RunId,
    other: RunId,
    coder: ScriptedWorker,
    stranger: ScriptedWorker,
}

async fn two_instances() -> TwoInstances {
    let world = KernelWorld::new().await;
    let (workers, mut working) = mpsc::unbounded_channel();
    world.machine.set_worker_script("coder", move |worker| {
        workers.send(worker.clone()).unwrap();
        async move { worker.hang().await }
    });
    let file = team("coder lead", "kickoff: '@coder go'");
    let team = world.run(&file).await;
    let coder = within(working.recv()).await.unwrap();
    let other = world.begin_run(RunMode::Run, "other", &file).await.unwrap().run;
    let stranger = within(working.recv()).await.unwrap();
    TwoInstances { world, team, other, coder, stranger }
}

fn token(name: &str) -> TokenRequest {
    TokenRequest { name: name.into(), ..TokenRequest::default() }
}

async fn read(kernel: &Kernel, who: &Principal, place: InstanceSelector) -> Option<Code> {
    code(kernel.messages().list(who, &place, ChannelQuery::default()).await)
}

async fn write(kernel: &Kernel, who: &Principal, target: &str) -> Option<Code> {
    code(kernel.messages().send(who, None, send_request(Some(target), "@lead hello")).await)
}

async fn watch(kernel: &Kernel, who: &Principal, run: RunId) -> Option<Code> {
    code(kernel.runs().watch(who, WatchSubject::Run(run), None).await)
}

async fn document(kernel: &Kernel, who: &Principal, target: &str) -> Option<Code> {
    let (file, text) = ("notes.md".parse().unwrap(), "text".to_owned());
    code(
        kernel
            .documents()
            .write(who, None, &instance_selector(target), file, text, DocumentBase::Append)
            .await,
    )
}

async fn report(kernel: &Kernel, who: &Principal, attempt: AttemptId) -> Option<Code> {
    code(kernel.attempts().report(who, attempt, EventsRequest::default()).await)
}

/// Calls every operation that only the user may use: those that start, end or change something for others, worker
/// logs, feedback, and tokens. None of the targets exist, so that the calls of a user change nothing either.
async fn user_only_calls(kernel: &Kernel, who: &Principal, run: RunId) -> [Option<Code>; 18] {
    let nobody = &instance_selector("zoe@team");
    let nowhere = &instance_selector("@nowhere");
    let agent = AgentRequest { backend: Some("none".into()), ..AgentRequest::default() };
    let dead = |action| {
        let (target, seq) = (Some("@team".parse().unwrap()), Some(Seq::new(99)));
        let request = DeadRequest { target, project: None, seq, agent: None, why: None };
        kernel.attention().resolve_dead_letter(who, None, request, action)
    };
    let start = RunRequest {
        source: None,
        file: "/team.yaml".into(),
        cwd: "/".into(),
        tag: None,
        mode: RunMode::Run,
        params: [].into(),
        env: [].into(),
        replace: false,
        defaults: None,
    };
    [
        code(kernel.runs().create(who, start).await),
        code(kernel.runs().resume(who, None, run, ResumeRequest::default()).await),
        code(kernel.runs().pause(who, agent_worker_protocol::RunId::new(uuid::Uuid::nil())).await),
        code(kernel.agents().create(who, None, agent).await),
        code(kernel.agents().stop(who, nobody).await),
        code(kernel.agents().remove(who, nobody).await),
        code(kernel.agents().resume(who, nobody).await),
        code(kernel.agents().read_log(who, nobody, None, 0).await),
        code(dead(DeadLetterAction::Redrive).await),
        code(dead(DeadLetterAction::Drop).await),
        code(kernel.instances().clear(who, None, nowhere).await),
        code(kernel.instances().remove(who, nowhere).await),
        code(kernel.health().check_store(who).await),
        code(kernel.feedback().list(who, &PageRequest::whole()).await),
        code(kernel.tokens().create(who, token("mine")).await),
        code(kernel.tokens().list(who, &PageRequest::whole()).await),
        code(kernel.tokens().revoke(who, "none".into()).await),
        code(kernel.runs().stop(who, run).await),
    ]
}

/// Calls every read-only operation at `place`, which every known caller may use.
async fn read_only_calls(
    kernel: &Kernel,
    who: &Principal,
    place: &InstanceSelector,
) -> [Option<Code>; 10] {
    let file = || "notes.md".parse().unwrap();
    let of = |target: &str| {
        let target = place.target.as_ref().map(|whole| format!("{target}{whole}"));
        InstanceSelector { target: target.map(|target| target.parse().unwrap()), project: None }
    };
    let (own, all) = (of("coder"), ListingScope::All);
    [
        code(kernel.messages().list(who, place, ChannelQuery::default()).await),
        code(kernel.runs().list(who, place, all, &PageRequest::whole()).await),
        code(kernel.agents().list(who, place, all, &PageRequest::whole()).await),
        code(kernel.instances().list(who, place, all, &PageRequest::whole()).await),
        code(kernel.attention().dead_letters(who, place, all, &PageRequest::whole()).await),
        code(kernel.attention().list(who, place, all, &PageRequest::whole()).await),
        code(kernel.runs().stats(who, place, all, &PageRequest::whole()).await),
        code(kernel.inbox().peek(who, &own, &PageRequest::whole()).await),
        code(kernel.documents().list(who, place, &PageRequest::whole()).await),
        code(kernel.documents().history(who, place, file(), &PageRequest::whole()).await),
    ]
}

async fn explain(kernel: &Kernel, who: &Principal, target: &str) -> Option<Code> {
    code(kernel.agents().detail(who, &instance_selector(target)).await)
}

async fn feedback(kernel: &Kernel, who: &Principal) -> Option<Code> {
    code(kernel.feedback().submit(who, None, FeedbackRequest { message: "nice".into() }).await)
}

#[tokio::test(start_paused = true)]
async fn the_user_may_everything() {
    let TwoInstances { world, team, .. } = two_instances().await;
    let (kernel, who) = (&world.kernel, &Principal::User);
    for code in user_only_calls(kernel, who, team).await {
        assert!(!matches!(code, Some(Code::Forbidden | Code::Unauthorized)), "{code:?}");
    }
    assert_eq!(document(kernel, who, "@other").await, None);
    for target in ["@team", "@other"] {
        for code in read_only_calls(kernel, who, &instance_selector(target)).await {
            assert!(!matches!(code, Some(Code::Forbidden | Code::Unauthorized)), "{code:?}");
        }
    }
    assert_eq!(
        (explain(kernel, who, "coder@other").await, feedback(kernel, who).await),
        (None, None)
    );
}

#[tokio::test(start_paused = true)]
async fn an_agent_works_in_its_own_instance_and_nowhere_else() {
    let TwoInstances { world, team, other, coder, stranger } = two_instances().await;
    let (kernel, who) = coder.principal().await.unwrap();
    let no = Some(Code::Forbidden);
    assert_eq!(read(&kernel, &who, InstanceSelector::default()).await, None);
    assert_eq!(read(&kernel, &who, instance_selector("@other")).await, no);
    assert_eq!(
        (write(&kernel, &who, "@team").await, write(&kernel, &who, "@other").await),
        (None, no)
    );
    // An agent does not even learn that a run of another instance exists.
    let absent = Some(Code::NotFound);
    let watched = (watch(&kernel, &who, team).await, watch(&kernel, &who, other).await);
    assert_eq!(watched, (None, absent));
    assert_eq!(document(&kernel, &who, "@team").await, None);
    assert_eq!(document(&kernel, &who, "@other").await, no);
    assert_eq!(code(kernel.runs().view(&who, other).await), absent);
    assert_eq!(read_only_calls(&kernel, &who, &instance_selector("@team")).await, [None; 10]);
    assert_eq!(
        read_only_calls(&kernel, &who, &InstanceSelector::default()).await,
        [None; 10],
        "it needs no target"
    );
    assert_eq!(read_only_calls(&kernel, &who, &instance_selector("@other")).await, [no; 10]);
    for (list, project) in [(ListingScope::All, None), (ListingScope::Live, Some("/".into()))] {
        let (everywhere, all) = (InstanceSelector { target: None, project }, &PageRequest::whole());
        let agents = kernel.agents().list(&who, &everywhere, list, all).await.unwrap();
        let runs = kernel.runs().list(&who, &everywhere, list, all).await.unwrap();
        let instances = kernel.instances().list(&who, &everywhere, list, all).await.unwrap();
        let stats = kernel.runs().stats(&who, &everywhere, list, all).await.unwrap();
        assert_eq!((agents.items.len(), runs.items.len()), (2, 1));
        assert_eq!((instances.items.len(), stats.items.len()), (1, 1));
    }
    assert_eq!(
        code(kernel.inbox().peek(&who, &instance_selector("lead"), &PageRequest::whole()).await),
        no,
        "only its own inbox"
    );
    assert_eq!(explain(&kernel, &who, "coder").await, None);
    assert_eq!(explain(&kernel, &who, "lead").await, no);
    assert_eq!(explain(&kernel, &who, "coder@other").await, no);
    assert_eq!(feedback(&kernel, &who).await, None);
    assert_eq!(code(kernel.inbox().check(&who).await), None);
    assert_eq!(report(&kernel, &who, coder.job.attempt).await, None);
    assert_eq!(report(&kernel, &who, stranger.job.attempt).await, no);
    assert_eq!(user_only_calls(&kernel, &who, team).await, [no; 18]);
    let said = world.channel().await.pop().unwrap();
    assert_eq!(said.from, Sender::Agent("coder".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_client_reads_and_sends_and_rules_nothing() {
    let TwoInstances { world, team, other, coder, .. } = two_instances().await;
    let kernel = &world.kernel;
    let made = kernel.tokens().create(&Principal::User, token("ci")).await.unwrap();
    let who = kernel.tokens().principal_by_token(&made.token).await.unwrap();
    let no = Some(Code::Forbidden);
    for (target, run) in [("@team", team), ("@other", other)] {
        assert_eq!(read(kernel, &who, instance_selector(target)).await, None);
        assert_eq!(write(kernel, &who, target).await, None);
        assert_eq!(watch(kernel, &who, run).await, None);
    }
    assert_eq!(world.channel().await.pop().unwrap().from, Sender::Client("ci".into()));
    assert_eq!(document(kernel, &who, "@team").await, None);
    assert_eq!(read_only_calls(kernel, &who, &instance_selector("@team")).await, [None; 10]);
    assert_eq!(explain(kernel, &who, "coder@other").await, None);
    assert_eq!(feedback(kernel, &who).await, None);
    assert_eq!(code(kernel.inbox().check(&who).await), no);
    assert_eq!(report(kernel, &who, coder.job.attempt).await, no);
    assert_eq!(user_only_calls(kernel, &who, team).await, [no; 18]);
    kernel.tokens().revoke(&Principal::User, "ci".into()).await.unwrap();
    assert_eq!(
        code(kernel.tokens().principal_by_token(&made.token).await),
        Some(Code::Unauthorized)
    );
}

#[tokio::test(start_paused = true)]
async fn an_anonymous_caller_may_do_nothing() {
    let TwoInstances { world, team, coder, .. } = two_instances().await;
    let (kernel, who) = (&world.kernel, Principal::Anonymous);
    let no = Some(Code::Unauthorized);
    assert_eq!(read(kernel, &who, instance_selector("@team")).await, no);
    assert_eq!(write(kernel, &who, "@team").await, no);
    assert_eq!(watch(kernel, &who, team).await, no);
    assert_eq!(document(kernel, &who, "@team").await, no);
    assert_eq!(read_only_calls(kernel, &who, &instance_selector("@team")).await, [no; 10]);
    assert_eq!(read_only_calls(kernel, &who, &InstanceSelector::default()).await, [no; 10]);
    assert_eq!(explain(kernel, &who, "coder@team").await, no);
    assert_eq!(feedback(kernel, &who).await, no);
    assert_eq!(code(kernel.runs().view(&who, team).await), no);
    let unknown = RunId::new(uuid::Uuid::nil());
    assert_eq!(code(kernel.runs().view(&who, unknown).await), no, "nor learns what there is");
    assert_eq!(code(kernel.inbox().check(&who).await), no);
    assert_eq!(code(kernel.inbox().ack(&who, ChannelPosition::Seq(Seq::new(1))).await), no);
    assert_eq!(report(kernel, &who, coder.job.attempt).await, no);
    assert_eq!(user_only_calls(kernel, &who, team).await, [no; 18]);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_dead_when_its_attempt_has_ended() {
    let TwoInstances { world, team, coder, stranger, .. } = two_instances().await;
    let kernel = &world.kernel;
    let is_agent = |who: Result<Principal, Error>| matches!(who, Ok(Principal::Agent(_)));
    assert!(is_agent(kernel.tokens().principal_by_token(&coder.job.token).await));
    let principal_of_mark = || kernel.tokens().principal_by_mark(coder.job.attempt);
    assert!(matches!(principal_of_mark().await, Ok(Some(Principal::Agent(_)))));
    world.stop(team).await.unwrap();
    assert_eq!(
        code(kernel.tokens().principal_by_token(&coder.job.token).await),
        Some(Code::Unauthorized)
    );
    assert!(matches!(principal_of_mark().await, Ok(Some(Principal::Anonymous))));
    assert!(
        is_agent(kernel.tokens().principal_by_token(&stranger.job.token).await),
        "the other one's lives on"
    );
    assert_eq!(
        code(kernel.tokens().principal_by_token("aw_guess").await),
        Some(Code::Unauthorized)
    );
}
