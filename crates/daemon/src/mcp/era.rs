//! Detects the protocol revision of a request and checks that its headers match its body. Pure: facts in, a verdict
//! out.
//!
//! Until 2025-11-25 a client starts with `initialize` and then names the revision in a header. Since 2026-07-28
//! every request describes itself: in `_meta`, and again in its headers, for intermediaries that read only headers.

use agent_worker_protocol::{
    Code, Problem,
    mcp_wire::{
        self, HEADER_MISMATCH, INITIALIZED_REVISIONS, INVALID_PARAMS, META_PREFIX, McpRpcRequest,
        STATELESS_REVISION, UNKNOWN_REVISION,
    },
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::rpc::McpRpcError;

const REVISION_HEADER: HeaderName = HeaderName::from_static(mcp_wire::REVISION_HEADER);
const METHOD_HEADER: HeaderName = HeaderName::from_static(mcp_wire::METHOD_HEADER);
const NAME_HEADER: HeaderName = HeaderName::from_static(mcp_wire::NAME_HEADER);

/// The protocol era of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtocolEra {
    /// Starts with `initialize`, until 2025-11-25.
    Initialized,
    /// Sends self-contained requests, since 2026-07-28.
    Stateless,
}

/// The reason why a request is refused before its method is considered.
#[derive(Debug)]
pub(super) enum EraError {
    /// Reported as a problem, as in the HTTP interface.
    Problem(Problem),
    /// Reported as an error of JSON-RPC.
    RpcError(McpRpcError),
}

impl ProtocolEra {
    /// Detects the era of a client that sent `message` with `headers`.
    pub(super) fn of(headers: &HeaderMap, message: &McpRpcRequest) -> Result<Self, EraError> {
        let head = revision_header(headers)?;
        let body = message.meta("protocolVersion").and_then(Value::as_str);
        let unknown = |revision: &&str| !supported_revisions().any(|one| one == *revision);
        if let (Some(other), None) = (head.filter(unknown), body) {
            let message = format!("the protocol revision `{other}` is not supported");
            return Err(EraError::Problem(Problem::new(Code::BadRequest, message)));
        }
        if head.is_some_and(|head| head >= STATELESS_REVISION) {
            check_headers_match_body(headers, message)?;
        }
        match (head, body) {
            (head, None) if head.is_some_and(|head| head >= STATELESS_REVISION) => {
                Err(incomplete_meta_error(message).into())
            }
            (_, None) => Ok(Self::Initialized),
            (None, Some(_)) => Err(header_mismatch_error(
                "`_meta` names a protocol revision but the headers do not",
            )
            .into()),
            (Some(head), Some(body)) if head != body => Err(header_mismatch_error(format!(
                "the header names revision {head}, but `_meta` names {body}"
            ))
            .into()),
            (Some(_), Some(other)) if unknown(&other) => {
                let data = json!({ "requested": other, "supported": supported_revisions().collect::<Vec<_>>() });
                let fault = McpRpcError::new(
                    StatusCode::BAD_REQUEST,
                    UNKNOWN_REVISION,
                    "Unsupported protocol version",
                );
                Err(fault.data(data).into())
            }
            (Some(_), Some(body)) if body < STATELESS_REVISION => Ok(Self::Initialized),
            (Some(_), Some(_)) if has_complete_meta(message) => Ok(Self::Stateless),
            (Some(_), Some(_)) => Err(incomplete_meta_error(message).into()),
        }
    }
}

impl From<McpRpcError> for EraError {
    fn from(fault: McpRpcError) -> Self {
        Self::RpcError(fault)
    }
}

/// The revisions that are spoken here, oldest first.
fn supported_revisions() -> impl Iterator<Item = &'static str> {
    INITIALIZED_REVISIONS.into_iter().chain([STATELESS_REVISION])
}

fn revision_header(headers: &HeaderMap) -> Result<Option<&str>, EraError> {
    let unreadable = |_| {
        let message = "`MCP-Protocol-Version` is not ASCII text";
        EraError::Problem(Problem::new(Code::BadRequest, message))
    };
    headers.get(REVISION_HEADER).map(HeaderValue::to_str).transpose().map_err(unreadable)
}

/// Checks that the headers name the method and the target of the body.
fn check_headers_match_body(
    headers: &HeaderMap,
    message: &McpRpcRequest,
) -> Result<(), McpRpcError> {
    let method = single_header(headers, &METHOD_HEADER)?;
    if method != Some(&message.method) {
        let (head, body) = (method.unwrap_or("nothing"), &message.method);
        return Err(header_mismatch_error(format!(
            "`Mcp-Method` names {head}, but the body names {body}"
        )));
    }
    let key = match message.method.as_str() {
        "tools/call" => "name",
        _ => return Ok(()),
    };
    let Some(body) = message.params.get(key).and_then(Value::as_str) else { return Ok(()) };
    let head = single_header(headers, &NAME_HEADER)?.and_then(decode_header_value);
    if head.as_deref() != Some(body) {
        let head = head.unwrap_or_else(|| "nothing".to_owned());
        return Err(header_mismatch_error(format!(
            "`Mcp-Name` names {head}, but the body names {body}"
        )));
    }
    Ok(())
}

/// Returns the value of a header; refuses two of them, which intermediaries could read differently.
fn single_header<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, McpRpcError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value.and_then(|value| value.to_str().ok())),
        (_, Some(_)) => {
            Err(header_mismatch_error(format!("there is more than one `{name}` header")))
        }
    }
}

/// Decodes a header value; one that does not fit into a header is written `=?base64?…?=`.
fn decode_header_value(value: &str) -> Option<String> {
    let wrapped = value.strip_prefix("=?base64?").and_then(|value| value.strip_suffix("?="));
    match wrapped {
        Some(wrapped) => String::from_utf8(BASE64_STANDARD.decode(wrapped).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

fn has_complete_meta(message: &McpRpcRequest) -> bool {
    message.meta("clientCapabilities").is_some_and(Value::is_object)
}

fn incomplete_meta_error(message: &McpRpcRequest) -> McpRpcError {
    let version = message.meta("protocolVersion").is_some_and(Value::is_string);
    let missing =
        [("protocolVersion", version), ("clientCapabilities", has_complete_meta(message))];
    let missing = missing.iter().filter(|(_, there)| !there);
    let missing: Vec<_> = missing.map(|(key, _)| format!("{META_PREFIX}{key}")).collect();
    let why = format!("`_meta` lacks {}", missing.join(" and "));
    McpRpcError::new(StatusCode::BAD_REQUEST, INVALID_PARAMS, why)
}

fn header_mismatch_error(why: impl Into<String>) -> McpRpcError {
    McpRpcError::new(StatusCode::BAD_REQUEST, HEADER_MISMATCH, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::rpc;

    #[test]
    fn a_repeated_header_agrees_with_nothing() {
        let body = format!(
            r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{"name": "x", "_meta":
                {{"{META_PREFIX}protocolVersion": "{STATELESS_REVISION}", "{META_PREFIX}clientCapabilities": {{}}}}}}}}"#
        );
        let message = rpc::parse_request(body.as_bytes()).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(REVISION_HEADER, HeaderValue::from_static(STATELESS_REVISION));
        headers.insert(METHOD_HEADER, HeaderValue::from_static("tools/call"));
        headers.insert(NAME_HEADER, HeaderValue::from_static("x"));
        assert_eq!(ProtocolEra::of(&headers, &message).unwrap(), ProtocolEra::Stateless);
        for name in [METHOD_HEADER, NAME_HEADER] {
            let mut headers = headers.clone();
            headers.append(&name, headers[&name].clone());
            let Err(EraError::RpcError(fault)) = ProtocolEra::of(&headers, &message) else {
                panic!("{name} may stand there twice")
            };
            assert_eq!(fault.error.code, HEADER_MISMATCH, "{name}");
        }
    }
}
