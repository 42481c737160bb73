//! The channel, the inbox and the team, as tools.

use agent_worker_kernel::{Breadth, Kernel, Principal, Reading};
use agent_worker_protocol::{AgentName, Code, Priority, Problem, Seq, api::SendRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{Call, Failure, Given, give};
use crate::http::Since;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Send {
    message: String,
    #[serde(default)]
    to: Names,
    #[serde(default)]
    cc: Names,
    reply_to: Option<Seq>,
    #[serde(default)]
    priority: Priority,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    since: Option<Since>,
    limit: Option<u32>,
    search: Option<String>,
    thread: Option<Seq>,
    all_runs: Option<bool>,
    receipts: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ack {
    until: Since,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Agents, as models write them: a list or one name, with or without `@`.
#[derive(Default, Deserialize)]
#[serde(try_from = "Value")]
struct Names(Vec<AgentName>);

impl TryFrom<Value> for Names {
    type Error = String;
    fn try_from(value: Value) -> Result<Self, String> {
        let texts = match value {
            Value::Null => Vec::new(),
            Value::Array(texts) => texts,
            one => vec![one],
        };
        let name = |text: Value| {
            let text = text.as_str().ok_or_else(|| format!("{text} is not an agent's name"))?;
            let text = text.strip_prefix('@').unwrap_or(text);
            text.parse().map_err(|error: agent_worker_protocol::BadName| error.to_string())
        };
        texts.into_iter().map(name).collect::<Result<_, _>>().map(Self)
    }
}

/// `channel_send`
pub(super) async fn send(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Send { message, to: Names(to), cc: Names(cc), reply_to, priority } = call.args()?;
    let target = call.place.target;
    let request =
        SendRequest { target, project: None, message, to, cc, reply_to, alone: false, priority };
    give(kernel.send(who, call.key, request).await)
}

/// `channel_read`
pub(super) async fn read(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Read { since, limit, search, thread, all_runs, receipts } = call.args()?;
    let (all_runs, receipts) = (all_runs.unwrap_or_default(), receipts.unwrap_or_default());
    let since_seq = since.and_then(Since::seq);
    let reading = Reading { since: since_seq, limit, search, thread, all_runs, receipts };
    let mut reply = kernel.messages(who, &call.place, reading).await;
    if let (Some(since), Ok(reply)) = (since, &mut reply) {
        since.retain(reply);
    }
    give(reply)
}

/// `inbox_check`
pub(super) async fn inbox_check(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Nothing {} = call.args()?;
    give(kernel.inbox_check(who).await)
}

/// `inbox_ack`
pub(super) async fn inbox_ack(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Ack { until } = call.args()?;
    let unclear = "`until` is the seq of a message that `inbox_check` showed";
    let refusal = || Failure::Refused(Problem::new(Code::BadRequest, unclear));
    give(kernel.inbox_ack(who, until.seq().ok_or_else(refusal)?).await)
}

/// `workflow_agents`
pub(super) async fn agents(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Nothing {} = call.args()?;
    let agents = kernel.agent_views(who, &call.place, Breadth::All).await;
    give(agents.map(|agents| json!({ "agents": agents })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_however_a_model_writes_them() {
        for (value, expected) in [
            (json!(["coder", "@reviewer"]), Some(vec!["coder", "reviewer"])),
            (json!("@coder"), Some(vec!["coder"])),
            (json!(null), Some(vec![])),
            (json!([]), Some(vec![])),
            (json!(["co der"]), None),
            (json!([1]), None),
            (json!({"name": "coder"}), None),
        ] {
            let names = Names::try_from(value.clone()).ok();
            let names =
                names.map(|Names(names)| names.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(names, expected.map(|list| list.iter().map(ToString::to_string).collect()));
        }
    }
}
