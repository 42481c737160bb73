//! Calls a tool by its name, in time.

use std::time::Duration;

use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::{Code, Problem, ToolName};
use agent_worker_store::{DamagedRow, observe_damage};
use serde_json::Value;

use super::{
    call::{Call, Failure, Given},
    rpc::JsonObject,
    tools,
};

/// Clients give up after a minute; an answer must come before that.
const PATIENCE: Duration = Duration::from_secs(50);

/// Calls the tool that is called `name`.
pub(super) async fn call(
    kernel: &Kernel,
    who: &Principal,
    name: &str,
    arguments: Option<JsonObject>,
) -> Given {
    let Some(tool) = ToolName::find(name) else {
        return Err(Failure::Malformed(unknown(name, who)));
    };
    let call = Call::new(tool.word(), arguments.unwrap_or_default())?;
    let called = Box::pin(in_time(tools::call(tool, kernel, who, call)));
    let (given, left_out) = observe_damage(called).await;
    given.map(|answer| with_damage(answer, &left_out))
}

/// Adds the damaged rows that had to be left out of the answer.
fn with_damage(mut answer: Value, left_out: &[DamagedRow]) -> Value {
    if let (Value::Object(fields), false) = (&mut answer, left_out.is_empty()) {
        let named: Vec<String> = left_out.iter().map(ToString::to_string).collect();
        fields.insert("damaged".to_owned(), named.into());
    }
    answer
}

/// The answer, or that there was none in time.
async fn in_time(given: impl Future<Output = Given>) -> Given {
    match tokio::time::timeout(PATIENCE, given).await {
        Ok(given) => given,
        Err(_) => Err(Failure::Refused(late())),
    }
}

fn late() -> Problem {
    let message = format!("this took more than {PATIENCE:?} and may or may not have happened");
    Problem::new(Code::Unavailable, message).hint("ask again with the same idempotency_key")
}

fn unknown(word: &str, who: &Principal) -> String {
    let listed = tools::list(who);
    let near = tools::near(word, &listed);
    if near.is_empty() {
        let all: Vec<_> = listed.iter().map(|tool| tool.name).collect();
        return format!("there is no such tool; there are {}", all.join(", "));
    }
    format!("there is no such tool; did you mean {}?", near.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_call_outlasts_a_clients_patience() {
        let begun = tokio::time::Instant::now();
        let Err(Failure::Refused(problem)) = in_time(std::future::pending()).await else {
            panic!("it waited for ever")
        };
        assert_eq!((problem.code, begun.elapsed()), (Code::Unavailable, PATIENCE));
        assert!(in_time(async { Ok(true.into()) }).await.is_ok());
    }
}
