//! Chooses the instance of a target. Pure: the caller provides the candidates.

use std::path::Path;

use agent_worker_protocol::{self as protocol, InstanceRef, Target};
use agent_worker_store::Instance;

use crate::error::{Error, Result};

/// The instances that a request may mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstanceChoice {
    /// To read, or to act in a live run. Instances of the caller's folder come first, and among them a live one. Of
    /// several ended instances the newest is meant; an action then reports that it has no live run.
    ///
    /// An ended instance of the caller's folder comes before a live one of another folder: a message must not reach the
    /// team of another project because the caller's own has ended.
    Nearest,
    /// To change or delete the instance itself: like `Nearest`, but an instance of exactly the caller's folder comes first,
    /// and several ended instances are ambiguous.
    Exact,
}

/// Chooses the instance of `target` among the candidates, seen from the folder `project`: instances of that folder
/// come first. A bare name selects a live standalone agent before any other agent.
pub(crate) fn choose_instance(
    target: &Target,
    project: Option<&str>,
    choice: InstanceChoice,
    candidates: Vec<Instance>,
) -> Result<Instance> {
    let bare = target.workflow.is_none();
    let standalone =
        candidates.iter().position(|one| bare && one.instance.is_global() && one.live.is_some());
    let is_here = |one: &Instance| is_near(one, project);
    let is_live = |one: &Instance| one.live.is_some();
    let is_live_here = |one: &Instance| is_here(one) && is_live(one);
    let is_own =
        |one: &Instance| choice == InstanceChoice::Exact && project == Some(one.project.as_str());
    let nearest = match standalone {
        Some(at) => candidates.into_iter().skip(at).take(1).collect(),
        None => closest(candidates, &[&is_own, &is_live_here, &is_here, &is_live, &|_| true]),
    };
    single(nearest, choice).map_err(|several| match (&several[..], &target.workflow) {
        ([], Some(_)) => Error::NoInstance(format!("instance `{target}`")),
        ([], None) => Error::NoInstance(format!("agent `{target}`")),
        (several, _) => {
            let candidates =
                several.iter().map(|one| describe_instance(&one.instance, &one.project)).collect();
            let same_instance = several.windows(2).all(|pair| pair[0].instance == pair[1].instance);
            Error::Ambiguous { target: target.to_string(), candidates, same_instance }
        }
    })
}

/// Returns the instance of `project` that a command without a target means: the only live one, else an ended one; if
/// there is none, the only live instance anywhere.
pub(crate) fn only_instance(
    project: Option<&str>,
    choice: InstanceChoice,
    known: Vec<Instance>,
) -> Result<Instance> {
    let nearest = closest(
        known,
        &[
            &|one| is_near(one, project) && one.live.is_some(),
            &|one| is_near(one, project),
            &|one| one.live.is_some(),
        ],
    );
    single(nearest, choice).map_err(|several| match &several[..] {
        [] => no_instance_here(),
        several => {
            let places = several.iter().map(|one| describe_instance(&one.instance, &one.project));
            Error::AmbiguousDefault(places.collect())
        }
    })
}

/// Returns the error for a folder without a run.
pub(crate) fn no_instance_here() -> Error {
    Error::NoInstance("run in this folder".into())
}

/// Returns the instances of the first circle that has any.
fn closest(known: Vec<Instance>, circles: &[&dyn Fn(&Instance) -> bool]) -> Vec<Instance> {
    let first = circles.iter().find(|circle| known.iter().any(circle));
    match first {
        Some(circle) => known.into_iter().filter(circle).collect(),
        None => Vec::new(),
    }
}

/// Returns the only instance; of several ended ones the newest, if the choice allows it. Run ids begin with the time.
fn single(
    mut known: Vec<Instance>,
    choice: InstanceChoice,
) -> std::result::Result<Instance, Vec<Instance>> {
    let takes_newest = match choice {
        InstanceChoice::Nearest => known.iter().all(|one| one.live.is_none()),
        InstanceChoice::Exact => false,
    };
    if takes_newest {
        known.sort_by_key(|one| one.last);
        return known.pop().ok_or_else(Vec::new);
    }
    match (known.pop(), known.is_empty()) {
        (Some(one), true) => Ok(one),
        (last, _) => {
            known.extend(last);
            Err(known)
        }
    }
}

/// Returns true if an instance belongs to the caller's folder, one above it or one below it.
pub(crate) fn is_near(instance: &Instance, folder: Option<&str>) -> bool {
    let file = Path::new(&instance.project);
    folder.is_some_and(|folder| protocol::is_ancestor_or_descendant(file, Path::new(folder)))
}

fn describe_instance(instance: &InstanceRef, project: &str) -> String {
    format!("`@{instance}` in {project}")
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{RunId, WorkflowId};

    use super::*;

    fn instances() -> Vec<Instance> {
        let rows = [
            (1, "/a", "review", true),
            (2, "/a", "review:pr-1", true),
            (3, "/b", "review", false),
            (4, "/b", "docs", true),
            (5, "/c", "docs", true),
            (6, "/", "global", true),
            (7, "/", "global", false),
            (8, "/b", "review:old", false),
            (9, "/c", "review", false),
        ];
        let run = |id: i64| RunId::new(uuid::Uuid::from_u128(id.unsigned_abs().into()));
        rows.map(|(id, project, name, live)| Instance {
            id: WorkflowId::new(id),
            project: project.into(),
            instance: name.parse().unwrap(),
            live: live.then(|| run(id)),
            last: Some(run(id)),
        })
        .into()
    }

    fn meant(target: &str, project: &str, candidates: &[i64]) -> String {
        chosen(target, project, InstanceChoice::Nearest, candidates)
    }

    fn chosen(target: &str, project: &str, choice: InstanceChoice, candidates: &[i64]) -> String {
        let mut known = instances();
        known.retain(|one| candidates.contains(&one.id.get()));
        match choose_instance(&target.parse().unwrap(), Some(project), choice, known) {
            Ok(instance) => instance.id.to_string(),
            Err(Error::Ambiguous { candidates, .. }) => format!("{} candidates", candidates.len()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_callers_own_project_comes_first_and_an_ambiguous_target_is_reported() {
        for (target, project, candidates, expected) in [
            ("@review", "/a", &[1, 3][..], "1"),
            ("@review", "/b", &[1, 3], "3"),
            ("@review", "/x", &[1, 3], "1"),
            ("@docs", "/x", &[4, 5], "2 candidates"),
            ("@docs", "/c", &[4, 5], "5"),
            ("coder@docs", "/b", &[4, 5], "4"),
            ("coder", "/a", &[2], "2"),
            ("coder", "/a", &[1, 2], "2 candidates"),
            ("coder", "/x", &[4], "4"),
            ("coder", "/x", &[], "there is no agent `coder`"),
            ("@nothing", "/a", &[], "there is no instance `@nothing`"),
            ("@docs", "/b/src/deep", &[4, 5], "4"),
            ("@docs", "/bb", &[4, 5], "2 candidates"),
            ("@docs", "/", &[4, 5], "2 candidates"),
            ("coder", "/a", &[1, 6], "6"),
            ("coder@review", "/a", &[1, 6], "2 candidates"),
            ("coder", "/a", &[1, 7], "1"),
            ("coder", "/x", &[7], "7"),
        ] {
            assert_eq!(meant(target, project, candidates), expected, "{target} from {project}");
        }
    }

    #[test]
    fn ended_instances_are_no_candidates_beside_a_live_one_of_the_same_folder() {
        use InstanceChoice::{Exact, Nearest};
        for (target, project, choice, candidates, expected) in [
            // A live instance here comes before the ended ones here.
            ("coder", "/b", Nearest, &[3, 4, 8][..], "4"),
            // Two ended instances here, a live one elsewhere, which is not meant.
            ("coder", "/b", Nearest, &[1, 3, 8], "8"),
            ("coder", "/b", Exact, &[1, 3, 8], "2 candidates"),
            // Only ended instances: here, then anywhere.
            ("coder", "/x", Nearest, &[3, 8, 9], "9"),
            ("coder", "/x", Nearest, &[1, 3, 8, 9], "1"),
            ("@review", "/x", Nearest, &[3, 9], "9"),
            ("@review", "/x", Exact, &[3, 9], "2 candidates"),
            // Several live instances stay ambiguous.
            ("coder", "/a", Nearest, &[1, 2, 3], "2 candidates"),
        ] {
            let found = chosen(target, project, choice, candidates);
            assert_eq!(found, expected, "{target} from {project}, {choice:?} of {candidates:?}");
        }
    }

    #[test]
    fn without_a_target_the_only_live_run_here_is_meant() {
        let all = || instances().into_iter().take(5).collect::<Vec<_>>();
        let only_instance = |project, known| only_instance(project, InstanceChoice::Nearest, known);
        assert_eq!(only_instance(Some("/b"), all()).unwrap().id, WorkflowId::new(4));
        assert!(matches!(only_instance(Some("/a"), all()), Err(Error::AmbiguousDefault(_))));
        assert!(matches!(only_instance(Some("/x"), Vec::new()), Err(Error::NoInstance(_))));
        let some =
            |ids: &[i64]| all().into_iter().filter(|one| ids.contains(&one.id.get())).collect();
        // An instance of this folder comes first, even if its run has ended.
        assert_eq!(only_instance(Some("/b"), some(&[3, 5])).unwrap().id, WorkflowId::new(3));
        assert_eq!(only_instance(Some("/x"), some(&[3, 5])).unwrap().id, WorkflowId::new(5));
        let ended: Vec<_> = instances().into_iter().filter(|one| one.live.is_none()).collect();
        let newest = only_instance(Some("/b"), ended.clone()).unwrap();
        assert_eq!(newest.id, WorkflowId::new(8));
        let exact = super::only_instance(Some("/b"), InstanceChoice::Exact, ended);
        assert!(matches!(exact, Err(Error::AmbiguousDefault(_))));
    }
}
