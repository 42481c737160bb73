//! Content too long for a message: kept under its hash, read in parts.

use std::ops::Range;

use agent_worker_protocol::ResourceId;
use serde::{Deserialize, Serialize};

use crate::{
    error::Result,
    kernel::{Kernel, Principal},
    place::Place,
    sizes,
};

/// How much one read gives when nothing is asked for.
const PART: u64 = 64 * 1024;
/// The most one read gives.
const MOST: u64 = 1024 * 1024;

/// A resource that is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResourceKept {
    /// What to read it by.
    pub id: ResourceId,
    /// How long it is.
    pub bytes: u64,
}

/// A part of a resource, as text; bytes that are not text are replaced.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResourceText {
    /// Which.
    pub id: ResourceId,
    /// What its maker said it is.
    pub r#type: String,
    /// How long the whole is.
    pub total: u64,
    /// The first byte of this part.
    pub start: u64,
    /// The first byte after it; ask from here for more.
    pub end: u64,
    /// The part.
    pub content: String,
}

impl Kernel {
    /// Keeps a resource.
    pub async fn resource_create(
        &self,
        who: &Principal,
        place: &Place,
        kind: Option<String>,
        content: String,
    ) -> Result<ResourceKept> {
        let by = who.by(None)?;
        sizes::check("a resource", content.len(), sizes::RESOURCE)?;
        let (instance, _) = self.instance(who, place).await?;
        let kind = kind.unwrap_or_else(|| "text/plain".into());
        let (bytes, now) = (content.len() as u64, self.clock.now());
        let id = self.store.resource_put(by, instance.id, kind, content.into_bytes(), now).await?;
        Ok(ResourceKept { id, bytes })
    }

    /// Reads a part of a resource.
    pub async fn resource_read(
        &self,
        who: &Principal,
        place: &Place,
        id: ResourceId,
        range: Option<Range<u64>>,
    ) -> Result<ResourceText> {
        who.require_known()?;
        let instance = self.instance_of(who, place).await?;
        let range = range.unwrap_or(0..PART);
        let start = range.start;
        let range = start..range.end.min(start.saturating_add(MOST));
        let part = self.store.resource_get(instance.id, id, range).await?;
        let end = start.min(part.total) + part.bytes.len() as u64;
        let content = String::from_utf8_lossy(&part.bytes).into_owned();
        Ok(ResourceText { id, r#type: part.kind, total: part.total, start, end, content })
    }
}
