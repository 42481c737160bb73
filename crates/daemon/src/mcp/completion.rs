//! Completion of arguments: existing agents, documents, workflows and tags.

use std::collections::BTreeSet;

use agent_worker_kernel::{Error, InstanceSelector, Kernel, ListingScope, PageRequest, Principal};
use agent_worker_protocol::{InstanceRef, Target};
use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo};

use super::resource_catalog;

/// The kind of values of an argument, by its name, in prompts, templates and tools.
enum CompletionKind {
    Agents,
    Documents,
    Workflows,
    Tags,
    Unknown,
}

/// Returns the names that start with the argument's value.
pub(super) async fn complete(
    kernel: &Kernel,
    who: &Principal,
    request: &CompleteRequestParams,
) -> Result<CompleteResult, Error> {
    let begun = request.argument.value.to_lowercase();
    let names = candidate_names(kernel, who, request).await?;
    let mut fitting = names.into_iter().filter(|name| name.to_lowercase().starts_with(&begun));
    let values: Vec<String> = fitting.by_ref().take(CompletionInfo::MAX_VALUES).collect();
    let rest = fitting.count();
    let mut info = CompletionInfo::default();
    info.total = u32::try_from(values.len() + rest).ok();
    info.has_more = Some(rest > 0);
    info.values = values;
    Ok(CompleteResult::new(info))
}

async fn candidate_names(
    kernel: &Kernel,
    who: &Principal,
    request: &CompleteRequestParams,
) -> Result<BTreeSet<String>, Error> {
    let instances =
        matching_instances(resource_catalog::live_instances(kernel, who).await?, request);
    let mut names = BTreeSet::new();
    match completion_kind(&request.argument.name) {
        CompletionKind::Workflows => names.extend(instances.iter().map(|one| one.name.to_string())),
        CompletionKind::Tags => names.extend(instances.iter().map(|one| one.tag.to_string())),
        CompletionKind::Agents => {
            for instance in &instances {
                let agents = kernel
                    .agents()
                    .list(who, &instance_target(instance), ListingScope::All, &PageRequest::whole())
                    .await?;
                names.extend(agents.items.into_iter().map(|agent| agent.name.to_string()));
            }
        }
        CompletionKind::Documents => {
            for instance in &instances {
                let documents = kernel
                    .documents()
                    .list(who, &instance_target(instance), &PageRequest::whole())
                    .await?;
                names.extend(documents.items.into_iter().map(|document| document.file.to_string()));
            }
        }
        CompletionKind::Unknown => {}
    }
    Ok(names)
}

fn completion_kind(argument: &str) -> CompletionKind {
    match argument {
        "agent" | "to" | "cc" => CompletionKind::Agents,
        "file" | "path" => CompletionKind::Documents,
        "workflow" => CompletionKind::Workflows,
        "tag" => CompletionKind::Tags,
        _ => CompletionKind::Unknown,
    }
}

/// Returns the instances that match the arguments given before.
fn matching_instances(
    instances: Vec<InstanceRef>,
    request: &CompleteRequestParams,
) -> Vec<InstanceRef> {
    let before = |name: &str| request.context.as_ref()?.get_argument(name).cloned();
    let (workflow, tag) = (before("workflow"), before("tag"));
    let fits = |one: &InstanceRef| {
        workflow.as_ref().is_none_or(|name| one.name.as_str() == name)
            && tag.as_ref().is_none_or(|tag| one.tag.as_str() == tag)
    };
    instances.into_iter().filter(fits).collect()
}

fn instance_target(instance: &InstanceRef) -> InstanceSelector {
    InstanceSelector { target: Some(Target::instance(instance)), project: None }
}
