//! Resources by URI: channels, documents, proposals, an agent's inbox. The kernel checks every read for its caller,
//! so that a URI alone grants nothing.

use agent_worker_kernel::{
    ChannelQuery, InstanceSelector, Kernel, ListingScope, PageRequest, Principal,
};
use agent_worker_protocol::{Code, InstanceRef, Problem, api::InstanceView};
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};

use super::{
    call::{McpFailure, to_tool_result},
    resource_uri::{ResourceKind, ResourceUri, URI_TEMPLATES},
};
use crate::http::client_problem;

/// Number of resources per page of a list.
const PAGE_SIZE: usize = 100;
const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown";
const PLAIN: &str = "text/plain";

/// Lists the resources from the position `cursor` on.
pub(super) async fn list(
    kernel: &Kernel,
    who: &Principal,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, McpFailure> {
    let unclear =
        || McpFailure::Malformed("`cursor` is not one that this server returned".to_owned());
    let from: usize = cursor.map_or(Ok(0), |cursor| cursor.parse().map_err(|_| unclear()))?;
    let all = all_resources(kernel, who)
        .await
        .map_err(|error| McpFailure::Refused(client_problem(&error)))?;
    let next = (all.len() > from.saturating_add(PAGE_SIZE)).then(|| (from + PAGE_SIZE).to_string());
    let page = all.into_iter().skip(from).take(PAGE_SIZE).collect();
    let mut result = ListResourcesResult::with_all_items(page);
    result.next_cursor = next;
    Ok(result)
}

/// Returns the URI templates that the caller may use.
pub(super) fn templates(who: &Principal) -> ListResourceTemplatesResult {
    let theirs = URI_TEMPLATES.iter().filter(|(name, ..)| *name != "inbox" || is_agent(who));
    let templates = theirs
        .map(|(name, template, about)| {
            let template = ResourceTemplate::new(*template, *name).with_description(*about);
            if *name == "document" { template } else { template.with_mime_type(JSON) }
        })
        .collect();
    ListResourceTemplatesResult::with_all_items(templates)
}

/// Reads one resource.
pub(super) async fn read(
    kernel: &Kernel,
    who: &Principal,
    uri: &str,
) -> Result<ReadResourceResult, McpFailure> {
    let address: ResourceUri = uri.parse().map_err(|error| not_found(uri, &error))?;
    let place = address.instance_target();
    let (text, kind) = match &address.resource {
        ResourceKind::Channel => {
            let messages = kernel.messages().list(who, &place, ChannelQuery::default()).await;
            (to_tool_result(messages)?.to_string(), JSON)
        }
        ResourceKind::Proposal(id) => {
            (to_tool_result(kernel.proposals().get(who, &place, *id).await)?.to_string(), JSON)
        }
        ResourceKind::Inbox => (
            to_tool_result(kernel.inbox().peek(who, &place, &PageRequest::default()).await)?
                .to_string(),
            JSON,
        ),
        ResourceKind::Document(path) => {
            let document = kernel.documents().read(who, &place, path.clone(), None).await;
            (
                document.map_err(|error| McpFailure::Refused(client_problem(&error)))?.content,
                mime_type(path.as_str()),
            )
        }
    };
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(kind)]))
}

fn not_found(uri: &str, error: &dyn std::error::Error) -> McpFailure {
    let problem = Problem::new(Code::NotFound, format!("there is nothing at `{uri}`: {error}"));
    McpFailure::Refused(problem)
}

async fn all_resources(
    kernel: &Kernel,
    who: &Principal,
) -> Result<Vec<Resource>, agent_worker_kernel::Error> {
    let mut found = Vec::new();
    for instance in live_instances(kernel, who).await? {
        let named = |thing| ResourceUri { instance: instance.clone(), resource: thing };
        found.push(
            Resource::new(
                named(ResourceKind::Channel).to_string(),
                format!("channel of {instance}"),
            )
            .with_mime_type(JSON),
        );
        if is_agent(who) {
            found.push(
                Resource::new(named(ResourceKind::Inbox).to_string(), "your inbox")
                    .with_mime_type(JSON),
            );
        }
        let place = named(ResourceKind::Channel).instance_target();
        for entry in kernel.documents().list(who, &place, &PageRequest::whole()).await?.items {
            let (name, kind) = (entry.file.to_string(), mime_type(entry.file.as_str()));
            let uri = named(ResourceKind::Document(entry.file)).to_string();
            found.push(Resource::new(uri, name).with_mime_type(kind).with_size(entry.bytes));
        }
    }
    Ok(found)
}

/// Returns the live instances whose name is unambiguous; for an agent, its own.
pub(super) async fn live_instances(
    kernel: &Kernel,
    who: &Principal,
) -> Result<Vec<InstanceRef>, agent_worker_kernel::Error> {
    let (anywhere, whole) = (InstanceSelector::default(), PageRequest::whole());
    let views = kernel.instances().list(who, &anywhere, ListingScope::All, &whole).await?.items;
    let alone = |one: &InstanceRef| views.iter().filter(|view| view.instance == *one).count() == 1;
    let theirs = views.iter().filter(|view: &&InstanceView| view.live.is_some());
    Ok(theirs.filter(|view| alone(&view.instance)).map(|view| view.instance.clone()).collect())
}

fn is_agent(who: &Principal) -> bool {
    matches!(who, Principal::Agent(_))
}

fn mime_type(path: &str) -> &'static str {
    match path.rsplit_once('.') {
        Some((_, "md")) => MARKDOWN,
        Some((_, "json")) => JSON,
        Some(_) | None => PLAIN,
    }
}
