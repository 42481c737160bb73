//! What an agent says about the program itself, as a tool.

use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::api::FeedbackRequest;
use serde_json::json;

use super::call::{Call, Given, give};

/// `feedback_submit`
pub(super) async fn submit(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let request: FeedbackRequest = call.args()?;
    let said = kernel.feedback(who, call.key, request).await;
    give(said.map(|said| json!({ "ts": said.ts })))
}
