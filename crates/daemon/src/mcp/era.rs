//! Which revision a request speaks, and whether its head says the same as its body. Pure: facts in, a verdict out.
//!
//! Until 2025-11-25 a client begins with `initialize` and then names the revision in a header. Since 2026-07-28 every
//! request says by itself what it is: in `_meta`, and again in its head, where whoever passes it on may read it.

use agent_worker_protocol::{Code, Problem};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::rpc::{Fault, Message};

/// The revisions that are spoken, oldest first. Their names sort by age.
const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", REQUESTS];
/// The first without it.
const REQUESTS: &str = "2026-07-28";

const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// How a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    /// After `initialize`.
    Initialized,
    /// Since 2026-07-28.
    Requests,
}

/// Why a request is not even looked into.
#[derive(Debug)]
pub(super) enum Objection {
    /// Told as every door does.
    Problem(Problem),
    /// Told as the protocol does.
    Fault(Fault),
}

impl Era {
    /// Finds out how a client speaks that sent `message` under `headers`.
    pub(super) fn of(headers: &HeaderMap, message: &Message) -> Result<Self, Objection> {
        let head = revision(headers)?;
        let body = message.meta("protocolVersion").and_then(Value::as_str);
        let unknown = |revision: &&str| !REVISIONS.contains(revision);
        if let (Some(other), None) = (head.filter(unknown), body) {
            let message = format!("the revision `{other}` of the protocol is not spoken here");
            return Err(Objection::Problem(Problem::new(Code::BadRequest, message)));
        }
        if head.is_some_and(|head| head >= REQUESTS) {
            agrees(headers, message)?;
        }
        match (head, body) {
            (head, None) if head.is_some_and(|head| head >= REQUESTS) => {
                Err(incomplete(message).into())
            }
            (_, None) => Ok(Self::Initialized),
            (None, Some(_)) => {
                Err(mismatch("`_meta` names a revision and the head does not").into())
            }
            (Some(head), Some(body)) if head != body => {
                Err(mismatch(format!("the head says {head}, `_meta` says {body}")).into())
            }
            (Some(_), Some(other)) if unknown(&other) => {
                let data = json!({ "requested": other, "supported": REVISIONS });
                let fault = Fault::new(
                    StatusCode::BAD_REQUEST,
                    Fault::UNKNOWN_REVISION,
                    "Unsupported protocol version",
                );
                Err(fault.data(data).into())
            }
            (Some(_), Some(body)) if body < REQUESTS => Ok(Self::Initialized),
            (Some(_), Some(_)) if is_complete(message) => Ok(Self::Requests),
            (Some(_), Some(_)) => Err(incomplete(message).into()),
        }
    }
}

impl From<Fault> for Objection {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

fn revision(headers: &HeaderMap) -> Result<Option<&str>, Objection> {
    let unreadable = |_| {
        let message = "`MCP-Protocol-Version` is not a text";
        Objection::Problem(Problem::new(Code::BadRequest, message))
    };
    headers.get(REVISION).map(HeaderValue::to_str).transpose().map_err(unreadable)
}

/// Whether the head names what the body asks for.
fn agrees(headers: &HeaderMap, message: &Message) -> Result<(), Fault> {
    let method = single(headers, &METHOD)?;
    if method != Some(&message.method) {
        let (head, body) = (method.unwrap_or("nothing"), &message.method);
        return Err(mismatch(format!("`Mcp-Method` says {head}, the body {body}")));
    }
    let key = match message.method.as_str() {
        "tools/call" => "name",
        _ => return Ok(()),
    };
    let Some(body) = message.params.get(key).and_then(Value::as_str) else { return Ok(()) };
    let head = single(headers, &NAME)?.and_then(plain);
    if head.as_deref() != Some(body) {
        let head = head.unwrap_or_else(|| "nothing".to_owned());
        return Err(mismatch(format!("`Mcp-Name` says {head}, the body {body}")));
    }
    Ok(())
}

/// Two of them could be read differently by whoever passes them on.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Fault> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value.and_then(|value| value.to_str().ok())),
        (_, Some(_)) => Err(mismatch(format!("there are two `{name}`"))),
    }
}

/// A value that does not fit into a header is written `=?base64?…?=`.
fn plain(value: &str) -> Option<String> {
    let wrapped = value.strip_prefix("=?base64?").and_then(|value| value.strip_suffix("?="));
    match wrapped {
        Some(wrapped) => String::from_utf8(BASE64_STANDARD.decode(wrapped).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

fn is_complete(message: &Message) -> bool {
    message.meta("clientCapabilities").is_some_and(Value::is_object)
}

fn incomplete(message: &Message) -> Fault {
    let version = message.meta("protocolVersion").is_some_and(Value::is_string);
    let missing = [("protocolVersion", version), ("clientCapabilities", is_complete(message))];
    let missing = missing.iter().filter(|(_, there)| !there);
    let missing: Vec<_> = missing.map(|(key, _)| format!("{}{key}", Message::META)).collect();
    let why = format!("`_meta` lacks {}", missing.join(" and "));
    Fault::new(StatusCode::BAD_REQUEST, Fault::INVALID_PARAMS, why)
}

fn mismatch(why: impl Into<String>) -> Fault {
    Fault::new(StatusCode::BAD_REQUEST, Fault::HEADER_MISMATCH, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::rpc;

    #[test]
    fn what_stands_twice_in_a_head_agrees_with_nothing() {
        let body = format!(
            r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{"name": "x", "_meta":
                {{"{meta}protocolVersion": "{REQUESTS}", "{meta}clientCapabilities": {{}}}}}}}}"#,
            meta = Message::META
        );
        let message = rpc::read(body.as_bytes()).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(REVISION, HeaderValue::from_static(REQUESTS));
        headers.insert(METHOD, HeaderValue::from_static("tools/call"));
        headers.insert(NAME, HeaderValue::from_static("x"));
        assert_eq!(Era::of(&headers, &message).unwrap(), Era::Requests);
        for name in [METHOD, NAME] {
            let mut headers = headers.clone();
            headers.append(&name, headers[&name].clone());
            let Err(Objection::Fault(fault)) = Era::of(&headers, &message) else {
                panic!("{name} may stand there twice")
            };
            assert_eq!(fault.error.code, Fault::HEADER_MISMATCH, "{name}");
        }
    }
}
