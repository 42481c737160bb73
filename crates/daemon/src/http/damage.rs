//! A response that had to leave out damaged rows names them in a header.
//!
//! A header, because lists are plain arrays and because it belongs to every response. An event stream has begun before its
//! events are read: there a damaged event is an event of its own (`row.damaged`).

use agent_worker_protocol::DAMAGED_HEADER;
use agent_worker_store::DamagedRow;
use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// More rows than this are only counted.
const MOST_NAMED: usize = 20;

/// Adds one header for each row.
pub(super) fn name(left_out: &[DamagedRow], headers: &mut HeaderMap) {
    let named = left_out.iter().take(MOST_NAMED).map(ToString::to_string);
    let rest = left_out.len().saturating_sub(MOST_NAMED);
    let more = (rest > 0).then(|| format!("{rest} more rows are damaged"));
    for text in named.chain(more) {
        // A key may be anything; a header is ASCII.
        let text: String = text.chars().flat_map(char::escape_default).collect();
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.append(HeaderName::from_static(DAMAGED_HEADER), value);
        }
    }
}
