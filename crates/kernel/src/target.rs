//! Which instance a target means. Pure: the daemon knows who is there, this decides.

use std::path::Path;

use agent_worker_protocol::{InstanceRef, Tag, Target};
use agent_worker_store::Instance;

use crate::error::{Error, Result};

/// Finds the one instance meant by `target`, asked from the folder `project`; that folder's instances come first.
/// `holds` tells whether an instance has the agent a target names.
pub(crate) fn resolve<'a>(
    target: &Target,
    project: Option<&str>,
    instances: &'a [Instance],
    holds: impl Fn(&Instance) -> bool,
) -> Result<&'a Instance> {
    let named: Vec<&Instance> =
        instances.iter().filter(|instance| matches(target, instance)).collect();
    let named = if target.workflow.is_some() {
        named
    } else {
        named.into_iter().filter(|instance| holds(instance)).collect()
    };
    let near = named.iter().copied().filter(|instance| is_near(instance, project));
    // Closest first: here and live, here at all, anywhere and live, anywhere.
    let live = |instance: &&Instance| instance.live.is_some();
    let circles: [Vec<&Instance>; 4] = [
        near.clone().filter(live).collect(),
        near.collect(),
        named.iter().copied().filter(live).collect(),
        named.clone(),
    ];
    match circles.into_iter().find(|circle| !circle.is_empty()).as_deref() {
        Some([one]) => Ok(one),
        Some(several) => Err(Error::Ambiguous {
            target: target.to_string(),
            candidates: several
                .iter()
                .map(|instance| place(&instance.instance, &instance.project))
                .collect(),
        }),
        None => Err(Error::NoInstance(match &target.workflow {
            Some(_) => format!("instance `{target}`"),
            None => format!("agent `{target}`"),
        })),
    }
}

/// The only live instance of `project`, for a command that names none.
pub(crate) fn only<'a>(project: Option<&str>, instances: &'a [Instance]) -> Result<&'a Instance> {
    let here = |instance: &&Instance| is_near(instance, project);
    let live: Vec<&Instance> = instances.iter().filter(|one| one.live.is_some()).collect();
    let near: Vec<&Instance> = live.iter().copied().filter(here).collect();
    let last: Vec<&Instance> = instances.iter().filter(here).collect();
    match [near, live, last].into_iter().find(|circle| !circle.is_empty()).as_deref() {
        Some([one]) => Ok(one),
        Some(several) => Err(Error::Several(
            several.iter().map(|one| place(&one.instance, &one.project)).collect(),
        )),
        None => Err(Error::NoInstance("run in this folder".into())),
    }
}

/// Whether an instance belongs to where the caller stands: its file lies there, beneath it or above it.
pub(crate) fn is_near(instance: &Instance, folder: Option<&str>) -> bool {
    let file = Path::new(&instance.project);
    folder.is_some_and(|folder| file.starts_with(folder) || Path::new(folder).starts_with(file))
}

fn matches(target: &Target, instance: &Instance) -> bool {
    let InstanceRef { name, tag } = &instance.instance;
    let named = target.workflow.as_ref().is_none_or(|wanted| wanted == name);
    let tagged = match (&target.workflow, &target.tag) {
        (_, Some(wanted)) => wanted == tag,
        (Some(_), None) => *tag == Tag::default(),
        (None, None) => true,
    };
    named && tagged
}

fn place(instance: &InstanceRef, project: &str) -> String {
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
        ];
        let run = RunId::new(uuid::Uuid::nil());
        rows.map(|(id, project, name, live)| Instance {
            id: WorkflowId::new(id),
            project: project.into(),
            instance: name.parse().unwrap(),
            live: live.then_some(run),
            last: Some(run),
        })
        .into()
    }

    fn meant(target: &str, project: &str, holders: &[i64]) -> String {
        let holds = |instance: &Instance| holders.contains(&instance.id.get());
        match resolve(&target.parse().unwrap(), Some(project), &instances(), holds) {
            Ok(instance) => instance.id.to_string(),
            Err(Error::Ambiguous { candidates, .. }) => format!("{} candidates", candidates.len()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_callers_own_project_comes_first_and_doubt_is_told() {
        for (target, project, holders, expected) in [
            ("@review", "/a", &[][..], "1"),
            ("@review:pr-1", "/a", &[], "2"),
            ("@review:pr-1", "/x", &[], "2"),
            ("@review", "/b", &[], "3"),
            ("@review", "/x", &[], "1"),
            ("@docs", "/x", &[], "2 candidates"),
            ("@docs", "/c", &[], "5"),
            ("coder@docs", "/b", &[], "4"),
            ("coder", "/a", &[2], "2"),
            ("coder", "/a", &[1, 2], "2 candidates"),
            ("coder", "/x", &[4], "4"),
            ("coder", "/x", &[], "there is no agent `coder`"),
            ("@nothing", "/a", &[], "there is no instance `@nothing`"),
            ("@docs", "/b/src/deep", &[], "4"),
            ("@docs", "/bb", &[], "2 candidates"),
            ("@docs", "/", &[], "2 candidates"),
        ] {
            assert_eq!(meant(target, project, holders), expected, "{target} from {project}");
        }
    }

    #[test]
    fn without_a_target_the_only_live_run_here_is_meant() {
        let all = instances();
        assert_eq!(only(Some("/b"), &all).unwrap().id, WorkflowId::new(4));
        assert!(matches!(only(Some("/a"), &all), Err(Error::Several(_))));
        assert!(matches!(only(Some("/x"), &all[..0]), Err(Error::NoInstance(_))));
    }
}
