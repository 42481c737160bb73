//! Runs, as tools.

use std::path::PathBuf;

use agent_worker_kernel::{Breadth, Kernel, Principal};
use agent_worker_protocol::{
    Code, Problem, RunId, RunMode, Span, Tag,
    api::{ResumeRequest, RunRequest},
};
use serde::Deserialize;
use serde_json::json;

use super::call::{Call, Failure, Given, give, pairs};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    file: PathBuf,
    tag: Option<Tag>,
    cwd: Option<PathBuf>,
    #[serde(default)]
    params: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    run: RunId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resume {
    run: RunId,
    turns: Option<u32>,
    hops: Option<u32>,
    wall: Option<Span>,
}

/// `workflow_list`
pub(super) async fn workflows(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Nothing {} = call.args()?;
    let list = kernel.instance_views(who, &call.place, Breadth::All).await;
    give(list.map(|workflows| json!({ "workflows": workflows })))
}

/// `run_list`
pub(super) async fn list(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Nothing {} = call.args()?;
    let list = kernel.run_views(who, &call.place, Breadth::All).await;
    give(list.map(|runs| json!({ "runs": runs })))
}

/// `run_status`
pub(super) async fn status(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Which { run } = call.args()?;
    give(kernel.run_view(who, run).await)
}

/// `run_start`
pub(super) async fn start(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Start { file, tag, cwd, params, env } = call.args()?;
    if call.key.is_some() {
        let message = "a run is begun by every call; while it lives another is refused";
        return Err(Failure::Refused(Problem::new(Code::BadRequest, message)));
    }
    let cwd = cwd.or_else(|| file.parent().map(PathBuf::from)).unwrap_or_default();
    let (params, env, mode) = (pairs(&params)?, pairs(&env)?, RunMode::Run);
    let request = RunRequest { file, cwd, tag, mode, params, env, replace: false };
    give(kernel.run_new(who, request).await)
}

/// `run_stop`
pub(super) async fn stop(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Which { run } = call.args()?;
    give(kernel.run_stop(who, run).await)
}

/// `run_resume`
pub(super) async fn resume(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Resume { run, turns, hops, wall } = call.args()?;
    give(kernel.run_resume(who, call.key, run, ResumeRequest { hops, turns, wall }).await)
}
