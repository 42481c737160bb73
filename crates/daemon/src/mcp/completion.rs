//! How what a person began to type goes on: agents, documents, workflows and tags that are there.

use std::collections::BTreeSet;

use agent_worker_kernel::{Breadth, Error, Kernel, Place, Principal};
use agent_worker_protocol::{InstanceRef, Target};
use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo};

use super::shelf;

/// What an argument of this name stands for, in prompts, templates and tools alike.
enum Means {
    Agents,
    Documents,
    Workflows,
    Tags,
    Nothing,
}

/// The names that begin as the argument does.
pub(super) async fn complete(
    kernel: &Kernel,
    who: &Principal,
    request: &CompleteRequestParams,
) -> Result<CompleteResult, Error> {
    let begun = request.argument.value.to_lowercase();
    let names = names(kernel, who, request).await?;
    let mut fitting = names.into_iter().filter(|name| name.to_lowercase().starts_with(&begun));
    let values: Vec<String> = fitting.by_ref().take(CompletionInfo::MAX_VALUES).collect();
    let rest = fitting.count();
    let mut info = CompletionInfo::default();
    info.total = u32::try_from(values.len() + rest).ok();
    info.has_more = Some(rest > 0);
    info.values = values;
    Ok(CompleteResult::new(info))
}

async fn names(
    kernel: &Kernel,
    who: &Principal,
    request: &CompleteRequestParams,
) -> Result<BTreeSet<String>, Error> {
    let instances = meant(shelf::instances(kernel, who).await?, request);
    let mut names = BTreeSet::new();
    match means(&request.argument.name) {
        Means::Workflows => names.extend(instances.iter().map(|one| one.name.to_string())),
        Means::Tags => names.extend(instances.iter().map(|one| one.tag.to_string())),
        Means::Agents => {
            for instance in &instances {
                let agents = kernel.agent_views(who, &place(instance), Breadth::All).await?;
                names.extend(agents.into_iter().map(|agent| agent.name.to_string()));
            }
        }
        Means::Documents => {
            for instance in &instances {
                let documents = kernel.document_list(who, &place(instance)).await?;
                names.extend(documents.into_iter().map(|document| document.file.to_string()));
            }
        }
        Means::Nothing => {}
    }
    Ok(names)
}

fn means(argument: &str) -> Means {
    match argument {
        "agent" | "to" | "cc" => Means::Agents,
        "file" | "path" => Means::Documents,
        "workflow" => Means::Workflows,
        "tag" => Means::Tags,
        _ => Means::Nothing,
    }
}

/// Those instances that agree with what was filled in before.
fn meant(instances: Vec<InstanceRef>, request: &CompleteRequestParams) -> Vec<InstanceRef> {
    let before = |name: &str| request.context.as_ref()?.get_argument(name).cloned();
    let (workflow, tag) = (before("workflow"), before("tag"));
    let fits = |one: &InstanceRef| {
        workflow.as_ref().is_none_or(|name| one.name.as_str() == name)
            && tag.as_ref().is_none_or(|tag| one.tag.as_str() == tag)
    };
    instances.into_iter().filter(fits).collect()
}

fn place(instance: &InstanceRef) -> Place {
    Place { target: Some(Target::instance(instance)), project: None }
}
