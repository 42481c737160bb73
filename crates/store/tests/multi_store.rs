//! Team databases next to the home's database.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path};

use agent_worker_protocol::{InstanceRef, Limits, Millis, Outcome, RunId, RunMode, WorkflowId};
use agent_worker_store::{
    AdminStore as _, Database, Error, InstanceQuery, ListRange, MultiStore, NewRun, Now, Retention,
    RunKey, RunQuery, RunStep, RunStore as _, StoreTime,
};
use uuid::Uuid;

fn instance(tag: &str) -> InstanceRef {
    InstanceRef { name: "review".parse().unwrap(), tag: tag.parse().unwrap() }
}

async fn open_in_file(
    multi_store: &MultiStore,
    file: &Path,
    tag: &str,
) -> Result<WorkflowId, Error> {
    multi_store.instance_open_in(file.to_owned(), "/p".to_owned(), instance(tag)).await
}

async fn open_in_home(multi_store: &MultiStore, tag: &str) -> Result<WorkflowId, Error> {
    multi_store.instance_open("/p".to_owned(), instance(tag)).await
}

async fn start_run(multi_store: &MultiStore, workflow: WorkflowId, number: u128) -> RunId {
    let id = RunId::new(Uuid::from_u128(number));
    let millis = i64::try_from(number).unwrap();
    let (store, wall) = (StoreTime::new(millis), Millis::new(millis));
    let now = Now { store, wall };
    let limits = Limits {
        hops: 50,
        turns: Some(200),
        wall: None,
        wall_grace: Limits::WALL_GRACE,
        spend: agent_worker_protocol::SpendLimits::NONE,
    };
    let script = String::new();
    let new = NewRun {
        id,
        mode: RunMode::Start,
        limits,
        retention: Retention::Always,
        script,
        agents: vec![],
        roles: vec![],
    };
    multi_store.run_create(workflow, new, now).await.unwrap();
    multi_store.run_start(id, None, now).await.unwrap();
    id
}

async fn instance_tags(multi_store: &MultiStore) -> Vec<String> {
    let all = multi_store.instance_list(InstanceQuery::All).await.unwrap();
    all.into_iter().map(|found| found.instance.tag.to_string()).collect()
}

#[tokio::test]
async fn a_team_is_in_its_own_file_and_found_as_every_other_one() {
    let folder = tempfile::tempdir().unwrap();
    let (home, file) = (folder.path().join("home"), folder.path().join("p/.workflow/team.db"));
    fs::create_dir(&home).unwrap();
    let multi_store = MultiStore::open(&home).await.unwrap();
    let (first, own) = (
        open_in_home(&multi_store, "a").await.unwrap(),
        open_in_file(&multi_store, &file, "b").await.unwrap(),
    );
    assert_eq!(open_in_file(&multi_store, &file, "b").await.unwrap(), own, "it is found again");
    let (old, new) =
        (start_run(&multi_store, first, 1).await, start_run(&multi_store, own, 2).await);
    assert_eq!(instance_tags(&multi_store).await, ["a", "b"]);
    let live = multi_store.run_list(RunQuery::Live).await.unwrap();
    assert_eq!(live.into_iter().map(|run| run.id).collect::<Vec<_>>(), [new, old]);
    for run in [old, new] {
        let why = "the run ended".to_owned();
        let step = RunStep::End { outcome: Outcome::Done, why, error: None };
        let over = Box::new(move |_: &_| step.clone());
        multi_store.run_settle(run, over, multi_store.now()).await.unwrap();
    }
    let ended = async |of: Option<Vec<WorkflowId>>, range| {
        let runs = multi_store.run_list(RunQuery::Ended(of, range)).await.unwrap();
        runs.into_iter().map(|run| (run.started, run.id)).collect::<Vec<_>>()
    };
    let [first_part, all] = [ListRange::first(1), ListRange::first(9)];
    let newest = ended(None, first_part).await;
    let (started, run) = newest[0];
    let rest = ListRange { after: Some(RunKey { started, run }), limit: 9 };
    let ids = |runs: Vec<(_, RunId)>| runs.into_iter().map(|(_, run)| run).collect::<Vec<_>>();
    assert_eq!(ids(ended(None, all).await), [new, old]);
    assert_eq!((ids(newest), ids(ended(None, rest).await)), (vec![new], vec![old]));
    assert_eq!(ids(ended(Some(vec![first]), all).await), [old]);
    assert_eq!(multi_store.run_get(new).await.unwrap().workflow, own);
    multi_store.close().await;
    let alone = Database::open(&home).unwrap();
    let kept = alone.instance_list(InstanceQuery::All).await.unwrap();
    assert_eq!(kept.iter().map(|found| found.id).collect::<Vec<_>>(), [first]);
    alone.close().await;
    let again = MultiStore::open(&home).await.unwrap();
    assert_eq!(instance_tags(&again).await, ["a", "b"]);
    assert_eq!(again.run_get(new).await.unwrap().workflow, own);
    again.close().await;
}

#[tokio::test]
async fn one_file_has_one_daemon_and_one_team_one_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("team.db");
    let homes = ["one", "two"].map(|name| folder.path().join(name));
    for home in &homes {
        fs::create_dir(home).unwrap();
    }
    let one = MultiStore::open(&homes[0]).await.unwrap();
    let two = MultiStore::open(&homes[1]).await.unwrap();
    open_in_file(&one, &file, "a").await.unwrap();
    assert!(matches!(open_in_file(&two, &file, "a").await, Err(Error::InUse(_))));
    let elsewhere = |answer| match answer {
        Err(Error::InOtherDatabase(place)) => place,
        other => panic!("{other:?}"),
    };
    assert_eq!(elsewhere(open_in_home(&one, "a").await), file.to_str().unwrap());
    open_in_home(&one, "b").await.unwrap();
    assert_eq!(elsewhere(open_in_file(&one, &file, "b").await), "the daemon's own database");
    let own = homes[1].join("agent-worker.db");
    assert!(matches!(open_in_file(&one, &own, "c").await, Err(Error::NotTeamDatabase(_))));
    two.close().await;
    one.close().await;
    let two = MultiStore::open(&homes[1]).await.unwrap();
    open_in_file(&two, &file, "a").await.unwrap();
    assert_eq!(instance_tags(&two).await, ["a"], "a file may go from one home to another");
    two.close().await;
}

#[tokio::test]
async fn a_file_goes_with_its_last_team_and_a_team_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let (home, file) = (folder.path().join("home"), folder.path().join("p/team.db"));
    fs::create_dir(&home).unwrap();
    let multi_store = MultiStore::open(&home).await.unwrap();
    let (a, b) = (
        open_in_file(&multi_store, &file, "a").await.unwrap(),
        open_in_file(&multi_store, &file, "b").await.unwrap(),
    );
    multi_store.instance_remove(a).await.unwrap();
    assert_eq!(instance_tags(&multi_store).await, ["b"]);
    multi_store.instance_remove(b).await.unwrap();
    assert!(matches!(
        multi_store.run_list(RunQuery::OfInstance(b, 1)).await,
        Err(Error::NotFound(_))
    ));
    assert_eq!(fs::read_dir(folder.path().join("p")).unwrap().count(), 0, "nothing is left of it");
    let c = open_in_file(&multi_store, &file, "c").await.unwrap();
    assert_eq!((c.get() >> 40) << 40, c.get() - 1, "a new file begins anew");
    multi_store.close().await;
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_reported_and_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let (home, project) = (folder.path().join("home"), folder.path().join("p"));
    let file = project.join("team.db");
    fs::create_dir(&home).unwrap();
    let multi_store = MultiStore::open(&home).await.unwrap();
    open_in_file(&multi_store, &file, "a").await.unwrap();
    multi_store.close().await;
    // A disk that is not mounted hides the folder.
    fs::rename(&project, folder.path().join("away")).unwrap();
    let multi_store = MultiStore::open(&home).await.unwrap();
    assert!(instance_tags(&multi_store).await.is_empty());
    let problems = multi_store.integrity_check().await.unwrap().problems;
    assert!(problems.len() == 1 && problems[0].contains("team.db is not open: "), "{problems:?}");
    assert!(!project.exists(), "nothing is made anew in its place");
    fs::rename(folder.path().join("away"), &project).unwrap();
    open_in_file(&multi_store, &file, "a").await.unwrap();
    assert_eq!(
        (instance_tags(&multi_store).await, multi_store.integrity_check().await.unwrap().problems),
        (vec!["a".to_owned()], vec![])
    );
    multi_store.close().await;
}

#[tokio::test]
async fn a_deleted_file_is_forgotten_and_not_created_again() {
    let folder = tempfile::tempdir().unwrap();
    let (home, file) = (folder.path().join("home"), folder.path().join("team.db"));
    fs::create_dir(&home).unwrap();
    let multi_store = MultiStore::open(&home).await.unwrap();
    open_in_file(&multi_store, &file, "a").await.unwrap();
    multi_store.close().await;
    fs::remove_file(&file).unwrap();
    let multi_store = MultiStore::open(&home).await.unwrap();
    assert!(instance_tags(&multi_store).await.is_empty() && !file.exists());
    open_in_home(&multi_store, "a").await.unwrap();
    multi_store.close().await;
}
