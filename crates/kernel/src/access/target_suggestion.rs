//! "Did you mean …?" for targets: the existing agent or instance whose name is nearest to a misspelt one.

use agent_worker_protocol::{AgentName, InstanceRef, Target};
use agent_worker_store::InstanceQuery;
use agent_worker_workflow::nearest;

use crate::{
    access::target,
    error::{Error, Result},
    kernel::{Kernel, Principal},
};

/// Maximum number of instances whose agents are compared with a misspelt name.
const MAX_SUGGESTION_INSTANCES: usize = 50;

impl Kernel {
    /// Returns the error for a target that matches nothing, with the nearest target that the caller may reach.
    pub(crate) async fn unknown_target(
        &self,
        who: &Principal,
        target: &Target,
        project: Option<&str>,
    ) -> Result<Error> {
        let mut known = self.store.instance_list(InstanceQuery::All).await?;
        who.retain_reachable(&mut known);
        known.sort_by_key(|one| (!target::is_near(one, project), one.live.is_none()));
        let instances: Vec<_> = known.iter().map(|one| one.instance.clone()).collect();
        let Some(name) = &target.workflow else {
            let Some(agent) = &target.agent else {
                return Ok(Error::NoInstance(format!("agent `{target}`")));
            };
            let mut members = Vec::new();
            for one in known.iter().take(MAX_SUGGESTION_INSTANCES) {
                let rows = self.store.agent_list(one.id).await?;
                members.extend(rows.into_iter().map(|row| (row.name, one.instance.clone())));
            }
            let suggestion = nearest_agent(agent, &members, &instances);
            return Ok(Error::UnknownTarget { wanted: format!("agent `{target}`"), suggestion });
        };
        let tag = target.tag.clone().unwrap_or_default();
        let wanted = InstanceRef { name: name.clone(), tag };
        let suggestion = nearest_instance(&wanted, &instances);
        let suggestion = suggestion.map(|instance| match &target.agent {
            Some(agent) => Target::agent(agent.clone(), instance),
            None => Target::instance(instance),
        });
        Ok(Error::UnknownTarget { wanted: format!("instance `{target}`"), suggestion })
    }
}

/// Returns the error for an agent that an instance does not have.
pub(crate) fn unknown_member<'a>(
    agent: &AgentName,
    instance: &InstanceRef,
    names: impl IntoIterator<Item = &'a AgentName>,
) -> Error {
    let near = nearest(agent.as_str(), names.into_iter().map(AgentName::as_str));
    let near = near.and_then(|near| near.parse().ok());
    Error::UnknownTarget {
        wanted: format!("agent `{agent}` in @{instance}"),
        suggestion: near.map(|near| Target::agent(near, instance)),
    }
}

/// Returns the agent with the nearest name; or the instance of that name, if the `@` was forgotten.
fn nearest_agent(
    agent: &AgentName,
    members: &[(AgentName, InstanceRef)],
    instances: &[InstanceRef],
) -> Option<Target> {
    if let Some(instance) = instances.iter().find(|one| one.name.as_str() == agent.as_str()) {
        return Some(Target::instance(instance));
    }
    let near = nearest(agent.as_str(), members.iter().map(|(name, _)| name.as_str()))?;
    let (name, instance) = members.iter().find(|(name, _)| name.as_str() == near)?;
    Some(Target::agent(name.clone(), instance))
}

/// Returns the instance with the nearest name: a tag of the same workflow, else a workflow.
fn nearest_instance<'a>(
    wanted: &InstanceRef,
    instances: &'a [InstanceRef],
) -> Option<&'a InstanceRef> {
    let of = |name: &str| -> Vec<&'a InstanceRef> {
        instances.iter().filter(|one| one.name.as_str() == name).collect()
    };
    let same_name = of(wanted.name.as_str());
    let candidates = if same_name.is_empty() {
        of(nearest(wanted.name.as_str(), instances.iter().map(|one| one.name.as_str()))?)
    } else {
        same_name
    };
    let near = nearest(wanted.tag.as_str(), candidates.iter().map(|one| one.tag.as_str()));
    match (near, candidates.as_slice()) {
        (Some(near), _) => candidates.iter().find(|one| one.tag.as_str() == near).copied(),
        (None, [only]) => Some(only),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instances() -> Vec<InstanceRef> {
        ["review", "review:pr-1", "docs:pr-2"].map(|text| text.parse().unwrap()).into()
    }

    #[test]
    fn the_nearest_instance_is_suggested() {
        for (wanted, expected) in [
            ("reveiw", Some("review")),
            ("reveiw:pr-1", Some("review:pr-1")),
            ("review:pr-9", Some("review:pr-1")),
            ("docs", Some("docs:pr-2")),
            ("dosc", Some("docs:pr-2")),
            ("review:release", None),
            ("other", None),
        ] {
            let expected = expected.map(|text| text.parse::<InstanceRef>().unwrap());
            let found = instances();
            let found = nearest_instance(&wanted.parse().unwrap(), &found);
            assert_eq!(found, expected.as_ref(), "{wanted}");
        }
    }

    #[test]
    fn the_nearest_agent_is_suggested_or_an_instance_without_its_sign() {
        let members = [("coder".parse().unwrap(), "review:pr-1".parse().unwrap())];
        for (wanted, expected) in
            [("codre", Some("coder@review:pr-1")), ("review", Some("@review")), ("zoe", None)]
        {
            let found = nearest_agent(&wanted.parse().unwrap(), &members, &instances());
            let found = found.map(|target| target.to_string());
            assert_eq!(found.as_deref(), expected, "{wanted}");
        }
    }
}
