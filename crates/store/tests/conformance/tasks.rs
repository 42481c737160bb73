//! Tasks of a run.

use std::sync::Arc;

use agent_worker_protocol::{
    DeliveryState, Outcome, ResourceId, RunState, Seq, TaskPath, TaskState, hash,
};
use agent_worker_store::{
    Error, NewTask, OutputContent, OutputFormat, Store, TaskEnd, TaskKey, TaskOutput, TaskResend,
    TaskRow,
};

use crate::team::{NOW, Team, end, name, new_run, text, user};

fn key(path: &str) -> TaskKey {
    TaskKey::of(TaskPath::new(path))
}

fn new_task(path: &str) -> NewTask {
    NewTask { key: key(path), condition: None, items: None, message: None }
}

fn ended(path: &str, state: TaskState) -> TaskEnd {
    TaskEnd {
        key: key(path),
        state,
        condition: None,
        output: None,
        exit_code: None,
        error: None,
        stderr: None,
    }
}

pub(crate) async fn a_task_starts_and_ends_once_with_everything_that_it_gave(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &[]).await;
    let new = NewTask { condition: Some(true), items: Some("[1,2]".into()), ..new_task("b/2") };
    let started = store.task_start(team.run, new, NOW).await.unwrap();
    let running = TaskRow {
        key: key("b/2"),
        state: TaskState::Running,
        attempts: 1,
        condition: Some(true),
        items: Some("[1,2]".into()),
        message: None,
        output: None,
        exit_code: None,
        error: None,
        stderr: None,
        started: Some(NOW.wall),
        ended: None,
    };
    assert_eq!(started, running);
    let content = OutputContent::Inline("a\0\u{1F600}\n".into());
    let output = Some(TaskOutput { format: OutputFormat::Json, content });
    let end = TaskEnd {
        output: output.clone(),
        exit_code: Some(-3),
        error: Some("why".into()),
        stderr: Some("bad".into()),
        ..ended("b/2", TaskState::Failed)
    };
    let finished = store.task_finish(team.run, end, NOW).await.unwrap();
    let expected = TaskRow {
        state: TaskState::Failed,
        output,
        exit_code: Some(-3),
        error: Some("why".into()),
        stderr: Some("bad".into()),
        ended: Some(NOW.wall),
        ..running
    };
    assert_eq!(finished, expected);
    let again = store.task_finish(team.run, ended("b/2", TaskState::Done), NOW).await.unwrap();
    assert_eq!(again, expected);
    assert_eq!(store.task_start(team.run, new_task("b/2"), NOW).await.unwrap(), expected);
    let long = OutputContent::Resource(ResourceId::new(hash(&[b"long"])));
    let output = Some(TaskOutput { format: OutputFormat::Text, content: long });
    store.task_start(team.run, new_task("a"), NOW).await.unwrap();
    let end = TaskEnd { output: output.clone(), ..ended("a", TaskState::Done) };
    store.task_finish(team.run, end, NOW).await.unwrap();
    let rows = store.task_list(team.run).await.unwrap();
    assert_eq!((rows.len(), &rows[0].output, &rows[1]), (2, &output, &expected));
}

pub(crate) async fn a_task_that_sends_writes_its_message_with_its_first_start_only(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a"]).await;
    let send = || NewTask { message: Some(text("review it", &["a"])), ..new_task("review") };
    let first = store.task_start(team.run, send(), NOW).await.unwrap();
    let again = store.task_start(team.run, send(), NOW).await.unwrap();
    assert_eq!((first.message, &again), (Some(Seq::new(1)), &first));
    assert_eq!(team.inbox("a").await, [Seq::new(1)]);
    let unknown = NewTask { message: Some(text("hello", &["stranger"])), ..new_task("other") };
    let refused = store.task_start(team.run, unknown, NOW).await;
    assert!(matches!(refused, Err(Error::NotFound("agent"))), "{refused:?}");
    assert_eq!(store.task_list(team.run).await.unwrap(), [first]);
}

pub(crate) async fn a_task_that_sends_again_has_one_message_for_each_attempt(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a", "b"]).await;
    let send = NewTask { message: Some(text("review it", &["a", "b"])), ..new_task("review") };
    let first = store.task_start(team.run, send, NOW).await.unwrap();
    let late = "late".to_owned();
    let seq = Seq::new(1);
    store.delivery_drop(user(), team.workflow, name("b"), seq, late, NOW).await.unwrap();
    let resend = |previous: i64| TaskResend {
        key: key("review"),
        previous: Seq::new(previous),
        message: text("review it", &["a", "b"]),
        why: "no answer".into(),
    };
    let again = store.task_resend(team.run, resend(1), NOW).await.unwrap();
    let expected = TaskRow { attempts: 2, message: Some(Seq::new(2)), ..first };
    assert_eq!(again, expected);
    // The same call has happened.
    assert_eq!(store.task_resend(team.run, resend(1), NOW).await.unwrap(), expected);
    assert_eq!(store.task_list(team.run).await.unwrap(), std::slice::from_ref(&expected));
    assert_eq!(team.inbox("a").await, [Seq::new(2)]);
    let receipts = store.message_receipts(team.workflow, Seq::new(1)).await.unwrap();
    let states: Vec<_> = receipts.iter().map(|receipt| receipt.state).collect();
    assert_eq!(states, [DeliveryState::Dropped, DeliveryState::Dropped]);
    let facts = team.facts().await;
    assert_eq!((facts.dropped, facts.dead, facts.waking), (0, 0, 2));
    let done = store.task_finish(team.run, ended("review", TaskState::Done), NOW).await.unwrap();
    assert_eq!(store.task_resend(team.run, resend(2), NOW).await.unwrap(), done);
    let none = TaskResend { key: key("other"), ..resend(2) };
    let none = store.task_resend(team.run, none, NOW).await;
    assert!(matches!(none, Err(Error::NotFound("task"))), "{none:?}");
}

pub(crate) async fn a_command_without_a_result_may_start_again(store: Arc<dyn Store>) {
    let team = Team::new(&store, &[]).await;
    for attempt in 1..=3 {
        let row = store.task_start(team.run, new_task("a"), NOW).await.unwrap();
        assert_eq!((row.attempts, row.state), (attempt, TaskState::Running));
    }
    assert_eq!(store.task_list(team.run).await.unwrap()[0].attempts, 3);
}

pub(crate) async fn a_task_that_never_starts_has_a_final_row(store: Arc<dyn Store>) {
    let team = Team::new(&store, &[]).await;
    let skip = TaskEnd { condition: Some(false), ..ended("a", TaskState::Skipped) };
    let row = store.task_finish(team.run, skip, NOW).await.unwrap();
    assert_eq!((row.attempts, row.started, row.condition), (0, None, Some(false)));
    assert_eq!(store.task_start(team.run, new_task("a"), NOW).await.unwrap(), row);
    assert_eq!(store.task_list(team.run).await.unwrap(), [row]);
    let open = store.task_finish(team.run, ended("b", TaskState::Running), NOW).await;
    assert!(matches!(open, Err(Error::InvalidValue(_))), "{open:?}");
}

pub(crate) async fn no_task_starts_in_a_run_that_is_not_running(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &[]).await;
    let first = team.run;
    store.task_start(first, new_task("a"), NOW).await.unwrap();
    team.settle(end(Outcome::Done)).await;
    let late = store.task_start(first, new_task("b"), NOW).await;
    assert!(matches!(late, Err(Error::NoRun)), "{late:?}");
    let late = store.task_finish(first, ended("a", TaskState::Done), NOW).await;
    assert!(matches!(late, Err(Error::NoRun)), "{late:?}");
    let new = new_run(&[]);
    team.run = new.id;
    store.run_create(team.workflow, new, NOW).await.unwrap();
    let early = store.task_start(team.run, new_task("a"), NOW).await;
    assert!(matches!(early, Err(Error::WrongRunState(RunState::Setup))), "{early:?}");
    assert_eq!(store.task_list(first).await.unwrap().len(), 1);
    assert_eq!(store.task_list(team.run).await.unwrap(), []);
}

pub(crate) async fn the_tasks_of_a_run_go_with_its_instance(store: Arc<dyn Store>) {
    let team = Team::new(&store, &[]).await;
    store.task_start(team.run, new_task("a"), NOW).await.unwrap();
    team.settle(end(Outcome::Done)).await;
    store.instance_remove(team.workflow).await.unwrap();
    assert_eq!(store.task_list(team.run).await.unwrap(), []);
}
