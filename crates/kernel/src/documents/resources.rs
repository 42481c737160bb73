//! Content too long for a message: stored under its hash, read in parts.

use std::{cmp::Reverse, ops::Range};

use agent_worker_protocol::{
    Base64Bytes, Millis, Permission, ResourceId, ToolName,
    api::{ListPage, ResourceEncoding, ResourceEntry, ResourceKept, ResourceText},
    is_binary,
};
use agent_worker_store::{ResourceInfo, ResourceKey};

use crate::{
    access::instance_resolution::InstanceSelector,
    error::Result,
    kernel::{Kernel, Principal},
    messaging::size_limits,
    views::{agent_detail::complete_utf8_len, page::PageRequest},
};

/// Size of a read without a range.
const DEFAULT_READ_BYTES: u64 = 64 * 1024;
/// Maximum size of one read.
const MAX_READ_BYTES: u64 = 1024 * 1024;

/// Stores and reads resources: texts and files too large for a message.
#[derive(Clone, Copy)]
pub struct Resources<'k>(pub(crate) &'k Kernel);

impl Resources<'_> {
    /// Stores a resource under its hash.
    pub async fn create(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        kind: Option<String>,
        content: String,
    ) -> Result<ResourceKept> {
        who.require(Permission::Send)?;
        let by = who.author_with_key(None)?;
        self.0.pass_gate(who, ToolName::ResourceCreate).await?;
        size_limits::check("a resource", content.len(), size_limits::MAX_RESOURCE_BYTES)?;
        let (instance, _) = self.0.live_instance(who, selector).await?;
        let kind = kind.unwrap_or_else(|| "text/plain".into());
        let (bytes, now) = (content.len() as u64, self.0.now());
        let id = self
            .0
            .store
            .resource_put(by, instance.id, kind, content.into_bytes(), now.wall)
            .await?;
        Ok(ResourceKept { id, bytes })
    }

    /// Lists the resources of an instance, newest first.
    pub async fn list(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        page: &PageRequest,
    ) -> Result<ListPage<ResourceEntry>> {
        who.require(Permission::Read)?;
        let mut page = page.start::<(Reverse<Millis>, ResourceId), _>("resources")?;
        let instance = self.0.resolve_instance(who, selector).await?;
        let range = page.range(|&(Reverse(ts), id)| Some(ResourceKey { ts, id }));
        for info in self.0.store.resource_list(instance.id, range).await? {
            let ResourceInfo { id, kind, bytes, ts, created_by } = info;
            let entry = ResourceEntry { id, r#type: kind, bytes, kept: ts, created_by };
            page.push((Reverse(ts), id), entry);
        }
        page.finish()
    }

    /// Reads a part of a resource. If more of a text follows, the part ends with a whole character, so that all parts
    /// make up the text. Bytes of another media type are base64.
    pub async fn read(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        id: ResourceId,
        range: Option<Range<u64>>,
    ) -> Result<ResourceText> {
        who.require(Permission::Read)?;
        let instance = self.0.resolve_own_instance(who, selector).await?;
        let range = range.unwrap_or(0..DEFAULT_READ_BYTES);
        let start = range.start;
        let range = start..range.end.min(start.saturating_add(MAX_READ_BYTES));
        let mut part = self.0.store.resource_get(instance.id, id, range).await?;
        let start = start.min(part.total);
        let is_binary = is_binary(&part.kind);
        let kept = complete_utf8_len(&part.bytes);
        if !is_binary && kept > 0 && start + (part.bytes.len() as u64) < part.total {
            part.bytes.truncate(kept);
        }
        let end = start + part.bytes.len() as u64;
        let (encoding, content) = if is_binary {
            (Some(ResourceEncoding::Base64), Base64Bytes(part.bytes).into())
        } else {
            (None, String::from_utf8_lossy(&part.bytes).into_owned())
        };
        Ok(ResourceText {
            id,
            r#type: part.kind,
            created_by: part.created_by,
            total: part.total,
            start,
            end,
            encoding,
            content,
        })
    }
}
