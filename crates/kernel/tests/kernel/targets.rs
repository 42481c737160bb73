//! Tests of resolving targets from the typed text and the caller's folder.

use std::time::Duration;

use agent_worker_kernel::{
    ChannelQuery, DeadLetterAction, DocumentBase, InstanceSelector, ListingScope, PageRequest,
    Principal,
};
use agent_worker_protocol::{
    Code, ProblemDetails, RunId, RunMode,
    api::{DeadRequest, RunRequest, SendRequest},
};

use crate::{
    agent_join::{mock_agent_request, new_agent},
    world::{KernelWorld, code, problem, send_request, team},
};

/// Starts an instance whose file is in `project`; its first message is that path.
async fn begin(world: &KernelWorld, project: &str, instance: &str, agents: &str) -> RunId {
    let (name, tag) = instance.split_once(':').unwrap_or((instance, "main"));
    let file = team(agents, &format!("kickoff: '{project}/{instance}'"));
    let request = world.run_request(RunMode::Start, &format!("{project}/{name}"), &file);
    let request = RunRequest { tag: Some(tag.parse().unwrap()), ..request };
    let run = world.kernel.runs().create(&Principal::User, request).await.unwrap().run;
    world.pass_time(Duration::from_millis(1)).await;
    run
}

fn at(world: &KernelWorld, target: &str, project: &str) -> InstanceSelector {
    let target = (!target.is_empty()).then(|| target.parse().unwrap());
    InstanceSelector { target, project: Some(world.folder().join(project)) }
}

/// Returns the instance that `target` selects in `project`, or the error.
async fn meant(world: &KernelWorld, target: &str, project: &str) -> String {
    let place = at(world, target, project);
    match world.kernel.messages().list(&Principal::User, &place, ChannelQuery::default()).await {
        Ok(read) => match read.items.first() {
            Some(first) => first.body.clone(),
            None => read.instance.to_string(),
        },
        Err(error) => error.to_string().replace(&format!("{}/", world.folder().display()), ""),
    }
}

async fn several() -> KernelWorld {
    let world = KernelWorld::new().await;
    begin(&world, "one", "review", "coder").await;
    begin(&world, "one", "review:pr-1", "coder lead").await;
    begin(&world, "two", "review", "coder").await;
    begin(&world, "two", "docs:pr-2", "writer").await;
    begin(&world, "three", "docs:pr-3", "alice").await;
    begin(&world, "three", "plan:pr-3", "alice").await;
    new_agent(&world, mock_agent_request(Some("alice"), None)).await.unwrap();
    world
}

#[tokio::test(start_paused = true)]
async fn a_target_means_the_nearest_match_and_an_ambiguous_target_is_reported() {
    let world = several().await;
    for (target, project, expected) in [
        ("@review", "one", "one/review"),
        ("@review", "one/deep/inside", "one/review"),
        ("@review", "two", "two/review"),
        ("@review", "three", "several runs match `@review`: `@review` in one, `@review` in two"),
        ("@review:pr-1", "three", "one/review:pr-1"),
        ("lead", "three", "one/review:pr-1"),
        ("LEAD", "three", "one/review:pr-1"),
        ("coder", "two", "two/review"),
        ("coder", "one", "several runs match `coder`: `@review` in one, `@review:pr-1` in one"),
        ("coder@review", "one", "one/review"),
        ("zoe", "one", "there is no agent `zoe`"),
        ("@rewiev", "one", "there is no instance `@rewiev`"),
        ("@review:pr-9", "one", "there is no instance `@review:pr-9`"),
    ] {
        assert_eq!(meant(&world, target, project).await, expected, "{target} in {project}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bare_name_is_a_standalone_agents_while_they_live() {
    let world = several().await;
    assert_eq!(meant(&world, "alice", "three").await, "global");
    assert_eq!(meant(&world, "alice@docs:pr-3", "three").await, "three/docs:pr-3");
    assert_eq!(meant(&world, "@global", "one").await, "global");
    world.kernel.agents().remove(&Principal::User, &at(&world, "alice", "three")).await.unwrap();
    let doubt = "several runs match `alice`: `@docs:pr-3` in three, `@plan:pr-3` in three";
    assert_eq!(meant(&world, "alice", "three").await, doubt);
}

#[tokio::test(start_paused = true)]
async fn the_older_spelling_names_a_tag_where_no_workflow_has_that_name() {
    let world = several().await;
    for (target, project, expected) in [
        ("coder@pr-1", "one", "one/review:pr-1"),
        ("@pr-2", "one", "two/docs:pr-2"),
        (
            "alice@pr-3",
            "one",
            "several runs match `alice@pr-3`: `@docs:pr-3` in three, `@plan:pr-3` in three",
        ),
        ("coder@pr-4", "one", "there is no instance `coder@pr-4`"),
        // The default tag was formerly called `default`.
        ("coder@review:default", "one", "one/review"),
        ("coder@default", "two", "two/review"),
    ] {
        assert_eq!(meant(&world, target, project).await, expected, "{target} in {project}");
    }
    begin(&world, "four", "pr-1", "coder").await;
    assert_eq!(
        meant(&world, "coder@pr-1", "one").await,
        "four/pr-1",
        "a workflow's name counts first"
    );
    begin(&world, "four", "pr-2:x", "coder").await;
    let none = "there is no instance `@pr-2`";
    assert_eq!(meant(&world, "@pr-2", "one").await, none, "whatever its tag");
    begin(&world, "one", "review:default", "coder").await;
    assert_eq!(meant(&world, "coder@review:default", "one").await, "one/review:default");
    assert_eq!(meant(&world, "coder@default", "two").await, "one/review:default");
}

#[tokio::test(start_paused = true)]
async fn without_a_target_the_only_run_here_is_meant_and_never_the_standalone_agents() {
    let world = KernelWorld::new().await;
    new_agent(&world, mock_agent_request(None, None)).await.unwrap();
    assert_eq!(meant(&world, "", "one").await, "there is no run in this folder");
    let one = begin(&world, "one", "review", "coder").await;
    assert_eq!(meant(&world, "", "one").await, "one/review");
    assert_eq!(meant(&world, "", "two").await, "one/review", "the only one that lives");
    begin(&world, "two", "docs", "writer").await;
    begin(&world, "two", "plan", "writer").await;
    let several = "several runs match: `@docs` in two, `@plan` in two";
    assert_eq!(meant(&world, "", "two").await, several);
    world.stop(one).await.unwrap();
    assert_eq!(meant(&world, "", "one").await, "one/review", "what is over here is nearer");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_undone_is_done_elsewhere_only_by_its_name() {
    let world = KernelWorld::new().await;
    let run = begin(&world, "one", "review", "coder").await;
    let (kernel, user) = (&world.kernel, &Principal::User);
    let (here, there) = (at(&world, "", "one"), at(&world, "", "two"));
    assert_eq!(meant(&world, "", "two").await, "one/review");
    assert_eq!(code(kernel.instances().clear(user, None, &there).await), Some(Code::NotFound));
    kernel.instances().clear(user, None, &here).await.unwrap();
    let running = problem(kernel.instances().remove(user, &here).await);
    assert_eq!(
        (running.code, running.message.as_str()),
        (Code::Conflict, "@review is already running")
    );
    world.stop(run).await.unwrap();
    begin(&world, "three", "docs", "writer").await;
    let gone = problem(kernel.instances().remove(user, &there).await);
    assert_eq!(gone.message, "there is no run in this folder");
    let InstanceSelector { target, project } = there.clone();
    let dead = DeadRequest { target, project, seq: None, agent: None, why: None };
    let drop = problem(
        kernel.attention().resolve_dead_letter(user, None, dead, DeadLetterAction::Drop).await,
    );
    assert_eq!(drop.message, "there is no run in this folder");
    kernel.instances().remove(user, &at(&world, "@review", "two")).await.unwrap();
    assert_eq!(meant(&world, "@review", "one").await, "there is no instance `@review`");
    let left = kernel
        .instances()
        .list(user, &InstanceSelector::default(), ListingScope::All, &PageRequest::whole())
        .await
        .unwrap()
        .items;
    assert_eq!(left.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_written_without_a_target_never_lands_in_another_folder() {
    let world = KernelWorld::new().await;
    begin(&world, "one", "review", "coder").await;
    let send = async |target: &str, project: &str| {
        let InstanceSelector { target, project } = at(&world, target, project);
        let message = SendRequest { target, project, ..send_request(None, "@coder hello") };
        code(world.kernel.messages().send(&Principal::User, None, message).await)
    };
    let append = async |project: &str| {
        let (place, file) = (at(&world, "", project), "notes.md".parse().unwrap());
        let text = "text".to_owned();
        let write = world.kernel.documents().write(
            &Principal::User,
            None,
            &place,
            file,
            text,
            DocumentBase::Append,
        );
        code(write.await)
    };
    assert_eq!(
        (send("", "two").await, append("two").await),
        (Some(Code::NotFound), Some(Code::NotFound))
    );
    assert_eq!((send("@review", "two").await, send("", "one").await), (None, None));
    assert_eq!(append("one").await, None);
}

#[tokio::test(start_paused = true)]
async fn where_standalone_agents_live_is_never_removed() {
    let world = KernelWorld::new().await;
    new_agent(&world, mock_agent_request(Some("alice"), None)).await.unwrap();
    let global = at(&world, "@global", "one");
    let refused = problem(world.kernel.instances().remove(&Principal::User, &global).await);
    assert_eq!(refused.code, Code::Conflict);
    assert_eq!(refused.details, Some(Box::new(ProblemDetails::PermanentRun)));
    let run = world
        .kernel
        .instances()
        .list(&Principal::User, &global, ListingScope::All, &PageRequest::whole())
        .await
        .unwrap()
        .items;
    let stop = world.kernel.runs().stop(&Principal::User, run[0].live.unwrap()).await;
    assert_eq!(code(stop), Some(Code::Conflict));
}
