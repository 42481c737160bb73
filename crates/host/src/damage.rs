//! Damaged rows that the daemon's responses leave out.

use std::cell::RefCell;

use agent_worker_protocol::DAMAGED_HEADER;
use hyper::HeaderMap;

tokio::task_local! {
    static LEFT_OUT: RefCell<Vec<String>>;
}

/// Runs `work` and returns its output with the damaged rows that the responses to its requests left out.
pub async fn observe_damage<F: Future>(work: F) -> (F::Output, Vec<String>) {
    LEFT_OUT
        .scope(RefCell::default(), async {
            let output = work.await;
            (output, LEFT_OUT.with(RefCell::take))
        })
        .await
}

/// Records the rows that a response leaves out.
pub(crate) fn record_damage(headers: &HeaderMap) {
    // Outside of `observe_damage`, no caller collects them.
    let _ = LEFT_OUT.try_with(|left_out| {
        let mut left_out = left_out.borrow_mut();
        for row in headers.get_all(DAMAGED_HEADER).iter().filter_map(|value| value.to_str().ok()) {
            if !left_out.iter().any(|known| known == row) {
                left_out.push(row.to_owned());
            }
        }
    });
}
