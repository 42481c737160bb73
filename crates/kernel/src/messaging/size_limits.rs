//! Size limits of messages. Longer content becomes a resource, with a preview in its place.

use std::ops::Range;

use agent_worker_protocol::ResourceId;

use crate::error::{Error, Result};

/// Size above which a body or a value becomes a resource.
pub(crate) const MAX_INLINE_BYTES: usize = 32 * 1024;
/// Size of the preview that stays in the message.
pub(crate) const PREVIEW_BYTES: usize = 2 * 1024;
/// Maximum size of one message after that.
pub(crate) const MAX_MESSAGE_BYTES: usize = 256 * 1024;
/// Maximum size of one resource.
pub(crate) const MAX_RESOURCE_BYTES: usize = 64 * 1024 * 1024;

/// A text that may contain ranges of data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageText {
    /// The complete text.
    pub(crate) body: String,
    /// Byte ranges that came from data, in order.
    pub(crate) data: Vec<Range<usize>>,
}

impl MessageText {
    /// Creates a text that is entirely its author's.
    pub(crate) fn authored(body: String) -> Self {
        Self { body, data: Vec::new() }
    }

    /// Returns the ranges of values that are too long for a message, in order.
    pub(crate) fn long_values(&self) -> Vec<Range<usize>> {
        self.data.iter().filter(|range| range.len() > MAX_INLINE_BYTES).cloned().collect()
    }

    /// Replaces each long value by a preview; `ids` are their resources, in order.
    #[must_use]
    pub(crate) fn with_previews(&self, ids: &[ResourceId]) -> Self {
        let mut ids = ids.iter();
        let (mut short, mut from) = (Self::default(), 0);
        for range in &self.data {
            short.body.push_str(&self.body[from..range.start]);
            let start = short.body.len();
            let value = &self.body[range.clone()];
            match ids.as_slice().first().filter(|_| value.len() > MAX_INLINE_BYTES) {
                Some(id) => {
                    short.body.push_str(&preview(value, *id));
                    ids.next();
                }
                None => short.body.push_str(value),
            }
            short.data.push(start..short.body.len());
            from = range.end;
        }
        short.body.push_str(&self.body[from..]);
        short
    }
}

/// Returns the first part of a long text, with a reference to the rest.
pub(crate) fn preview(text: &str, id: ResourceId) -> String {
    let head = &text[..text.floor_char_boundary(PREVIEW_BYTES)];
    format!("{head}\n… [{} bytes in all; read the rest with resource_read, id {id}]\n", text.len())
}

/// Refuses a value larger than `most`.
pub(crate) fn check(what: &'static str, size: usize, most: usize) -> Result<()> {
    if size <= most { Ok(()) } else { Err(Error::TooLarge { what, size, most }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_leaves_a_preview_and_its_data_range_behind() {
        let long = "é".repeat(MAX_INLINE_BYTES);
        let body = format!("diff:{long}|name:bob|");
        let from = 5 + long.len();
        let text = MessageText { body, data: vec![5..from, from + 6..from + 9] };
        assert_eq!(text.long_values().first(), Some(&(5..from)));
        let id = ResourceId::new([7; 32]);
        let short = text.with_previews(&[id]);
        assert!(short.body.starts_with("diff:éé") && short.body.ends_with("|name:bob|"));
        assert!(short.body.len() < PREVIEW_BYTES + 300, "{}", short.body.len());
        assert!(short.body.contains(&id.to_string()));
        assert_eq!(&short.body[short.data[1].clone()], "bob");
        assert!(short.body[short.data[0].clone()].starts_with("éé"));
    }
}
