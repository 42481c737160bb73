//! The idempotency key of a request: the `Idempotency-Key` header, or a tool's `idempotency_key`.

use std::convert::Infallible;

use agent_worker_protocol::{Code, EffectKey, Problem};
use axum::{
    extract::FromRequestParts,
    http::{HeaderValue, request::Parts},
};
use serde_json::Value;

const IDEMPOTENCY_HEADER: &str = "idempotency-key";
const MAX_KEY_BYTES: usize = 200;

/// The `Idempotency-Key` header, if the client sent one.
pub(super) struct IdempotencyKey(Option<HeaderValue>);

impl IdempotencyKey {
    /// Returns the key of a call of `tool`; calls `args` only if there is a key.
    pub(super) fn effect(
        self,
        tool: &str,
        args: impl FnOnce() -> Value,
    ) -> Result<Option<EffectKey>, Problem> {
        let Some(header) = self.0 else { return Ok(None) };
        let key = header.to_str().unwrap_or_default().to_owned();
        effect_key(key, tool, &args()).map(Some)
    }
}

/// Returns the key of a call, or a problem if the key is empty or too long.
pub(crate) fn effect_key(key: String, tool: &str, args: &Value) -> Result<EffectKey, Problem> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let message = format!("an idempotency key must have 1 to {MAX_KEY_BYTES} characters");
        return Err(Problem::new(Code::BadRequest, message));
    }
    Ok(EffectKey::new(key, tool, args))
}

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.headers.get(IDEMPOTENCY_HEADER).cloned()))
    }
}
