//! Names the damaged rows that a response had to leave out, in a header.
//!
//! A header fits every response, also lists, which are plain arrays. An event stream starts before its events are
//! read: there a damaged event is an event of its own (`row.damaged`).

use agent_worker_protocol::DAMAGED_HEADER;
use agent_worker_store::DamagedRow;
use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// Maximum number of named rows; the rest are only counted.
const MAX_NAMED_ROWS: usize = 20;

/// Adds one header for each row.
pub(super) fn add_damage_headers(left_out: &[DamagedRow], headers: &mut HeaderMap) {
    let named = left_out.iter().take(MAX_NAMED_ROWS).map(ToString::to_string);
    let rest = left_out.len().saturating_sub(MAX_NAMED_ROWS);
    let more = (rest > 0).then(|| format!("{rest} more rows are damaged"));
    for text in named.chain(more) {
        // A key may contain any character; a header is ASCII.
        let text: String = text.chars().flat_map(char::escape_default).collect();
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.append(HeaderName::from_static(DAMAGED_HEADER), value);
        }
    }
}
