//! What can be read by address: channels, documents, an agent's inbox. Everything is asked of the kernel in the name of
//! whoever reads, so that knowing an address opens nothing.

use agent_worker_kernel::{Breadth, Kernel, Place, Principal, Reading};
use agent_worker_protocol::{Code, InstanceRef, Problem, api::InstanceView};
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};

use super::{
    address::{Address, TEMPLATES, Thing},
    call::{Failure, give},
};
use crate::http::problem;

/// So many are listed at a time.
const PAGE: usize = 100;
const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown";
const PLAIN: &str = "text/plain";

/// Lists what there is, from the place `cursor` names on.
pub(super) async fn list(
    kernel: &Kernel,
    who: &Principal,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, Failure> {
    let unclear = || Failure::Malformed("`cursor` is none that was given".to_owned());
    let from: usize = cursor.map_or(Ok(0), |cursor| cursor.parse().map_err(|_| unclear()))?;
    let all = everything(kernel, who).await.map_err(|error| Failure::Refused(problem(&error)))?;
    let next = (all.len() > from.saturating_add(PAGE)).then(|| (from + PAGE).to_string());
    let page = all.into_iter().skip(from).take(PAGE).collect();
    let mut result = ListResourcesResult::with_all_items(page);
    result.next_cursor = next;
    Ok(result)
}

/// How addresses look.
pub(super) fn templates(who: &Principal) -> ListResourceTemplatesResult {
    let theirs = TEMPLATES.iter().filter(|(name, ..)| *name != "inbox" || is_agent(who));
    let templates = theirs
        .map(|(name, template, about)| {
            let template = ResourceTemplate::new(*template, *name).with_description(*about);
            if *name == "document" { template } else { template.with_mime_type(JSON) }
        })
        .collect();
    ListResourceTemplatesResult::with_all_items(templates)
}

/// Reads one.
pub(super) async fn read(
    kernel: &Kernel,
    who: &Principal,
    uri: &str,
) -> Result<ReadResourceResult, Failure> {
    let address: Address = uri.parse().map_err(|error| missing(uri, &error))?;
    let place = address.place();
    let (text, kind) = match &address.thing {
        Thing::Channel => {
            let messages = kernel.messages(who, &place, Reading::default()).await;
            (give(messages)?.to_string(), JSON)
        }
        Thing::Proposal(id) => (give(kernel.proposal(who, &place, *id).await)?.to_string(), JSON),
        Thing::Inbox => (give(kernel.inbox_look(who, &place).await)?.to_string(), JSON),
        Thing::Document(path) => {
            let document = kernel.document_read(who, &place, path.clone(), None).await;
            (
                document.map_err(|error| Failure::Refused(problem(&error)))?.content,
                kind(path.as_str()),
            )
        }
    };
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(kind)]))
}

fn missing(uri: &str, error: &dyn std::error::Error) -> Failure {
    let problem = Problem::new(Code::NotFound, format!("there is nothing at `{uri}`: {error}"));
    Failure::Refused(problem)
}

async fn everything(
    kernel: &Kernel,
    who: &Principal,
) -> Result<Vec<Resource>, agent_worker_kernel::Error> {
    let mut found = Vec::new();
    for instance in instances(kernel, who).await? {
        let named = |thing| Address { instance: instance.clone(), thing };
        found.push(
            Resource::new(named(Thing::Channel).to_string(), format!("channel of {instance}"))
                .with_mime_type(JSON),
        );
        if is_agent(who) {
            found.push(
                Resource::new(named(Thing::Inbox).to_string(), "your inbox").with_mime_type(JSON),
            );
        }
        let place = named(Thing::Channel).place();
        for entry in kernel.document_list(who, &place).await? {
            let (name, kind) = (entry.file.to_string(), kind(entry.file.as_str()));
            let uri = named(Thing::Document(entry.file)).to_string();
            found.push(Resource::new(uri, name).with_mime_type(kind).with_size(entry.bytes));
        }
    }
    Ok(found)
}

/// The live instances whose name means one of them; an agent's own.
pub(super) async fn instances(
    kernel: &Kernel,
    who: &Principal,
) -> Result<Vec<InstanceRef>, agent_worker_kernel::Error> {
    let views = kernel.instance_views(who, &Place::default(), Breadth::All).await?;
    let alone = |one: &InstanceRef| views.iter().filter(|view| view.instance == *one).count() == 1;
    let theirs = views.iter().filter(|view: &&InstanceView| view.live.is_some());
    Ok(theirs.filter(|view| alone(&view.instance)).map(|view| view.instance.clone()).collect())
}

fn is_agent(who: &Principal) -> bool {
    matches!(who, Principal::Agent(_))
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.') {
        Some((_, "md")) => MARKDOWN,
        Some((_, "json")) => JSON,
        Some(_) | None => PLAIN,
    }
}
