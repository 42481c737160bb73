//! One route: how it is asked for, who may, what it takes and gives. The router and `/openapi.json` are made from the
//! same list of them, so that neither knows a route the other does not.

use std::sync::Arc;

use agent_worker_protocol::Permission;
use axum::{
    Router,
    handler::Handler,
    http::StatusCode,
    middleware::from_fn_with_state,
    routing::{MethodFilter, MethodRouter, on},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

use super::{AppState, admission};

/// One route.
pub(super) struct Route {
    pub(super) verb: Verb,
    /// As the router spells it: `/runs/{id}`, `/documents/{*path}`.
    pub(super) path: &'static str,
    /// What it is for.
    pub(super) summary: &'static str,
    pub(super) access: RouteAccess,
    /// What stands for the name in the path.
    pub(super) path_schema: Option<SchemaFn>,
    /// What may follow `?`.
    pub(super) query_schema: Option<SchemaFn>,
    pub(super) idempotency: IdempotencySupport,
    pub(super) body_schema: Option<SchemaFn>,
    pub(super) response: ResponseKind,
    /// Who answers; none where another room does.
    handler: Option<MethodRouter<Arc<AppState>>>,
}

/// How a type is described.
pub(super) type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

/// What is done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Delete,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteAccess {
    /// Whoever comes.
    Anybody,
    /// Whoever has a name: the user, clients, agents. What they get depends on it.
    Identified,
    /// The user, clients whose token allows it, and agents as far as it goes for them in their own instance.
    Requires(Permission),
    /// The same with a token that allows one of the two; which of them decides what is done.
    RequiresEither(Permission, Permission),
    /// The user alone.
    User,
    /// Agents alone: those at work.
    Workers,
}

/// Whether an `Idempotency-Key` makes it happen once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdempotencySupport {
    Supported,
    Ignored,
}

/// What is answered.
#[derive(Clone, Copy)]
pub(super) enum ResponseKind {
    /// A status and no more.
    Status(StatusCode),
    /// A document.
    Json(SchemaFn),
    /// Server-sent events.
    Events,
    /// Messages of the Model Context Protocol, as server-sent events.
    Messages,
    /// One such message as a document, or several as server-sent events.
    JsonOrMessages,
}

impl Route {
    /// A route. What it gives is an object of no particular shape until told otherwise.
    pub(super) fn new<H, T>(
        may: impl Into<RouteAccess>,
        verb: Verb,
        path: &'static str,
        handler: H,
        about: &'static str,
    ) -> Self
    where
        H: Handler<T, Arc<AppState>>,
        T: 'static,
    {
        let handler = Some(on(verb.filter(), handler));
        Self { handler, ..Self::documented_only(may, verb, path, about) }
    }

    /// A route that another room answers.
    pub(super) fn documented_only(
        may: impl Into<RouteAccess>,
        verb: Verb,
        path: &'static str,
        summary: &'static str,
    ) -> Self {
        Self {
            verb,
            path,
            summary,
            access: may.into(),
            path_schema: None,
            query_schema: None,
            idempotency: IdempotencySupport::Ignored,
            body_schema: None,
            response: ResponseKind::Json(schema::<Map<String, Value>>),
            handler: None,
        }
    }

    pub(super) fn path_param<T: JsonSchema>(self) -> Self {
        Self { path_schema: Some(schema::<T>), ..self }
    }

    pub(super) fn query_params<T: JsonSchema>(self) -> Self {
        Self { query_schema: Some(T::json_schema), ..self }
    }

    /// Takes a body, once for each `Idempotency-Key`.
    pub(super) fn idempotent_body<T: JsonSchema>(self) -> Self {
        Self { idempotency: IdempotencySupport::Supported, ..self.json_body::<T>() }
    }

    pub(super) fn json_body<T: JsonSchema>(self) -> Self {
        Self { body_schema: Some(schema::<T>), ..self }
    }

    pub(super) fn returns<T: JsonSchema>(self) -> Self {
        Self { response: ResponseKind::Json(schema::<T>), ..self }
    }

    pub(super) fn streams_events(self) -> Self {
        Self { response: ResponseKind::Events, ..self }
    }

    pub(super) fn streams_messages(self) -> Self {
        Self { response: ResponseKind::Messages, ..self }
    }

    pub(super) fn returns_messages(self) -> Self {
        Self { response: ResponseKind::JsonOrMessages, ..self }
    }

    pub(super) fn returns_status(self, status: StatusCode) -> Self {
        Self { response: ResponseKind::Status(status), ..self }
    }

    /// Opens it, for those who may.
    pub(super) fn mount(self, router: Router<Arc<AppState>>) -> Router<Arc<AppState>> {
        match (self.handler, self.access) {
            (Some(handler), RouteAccess::Requires(what)) => router.route(
                self.path,
                handler.layer(from_fn_with_state(what, admission::require_permission)),
            ),
            // The kernel says by itself what is for the user or for agents alone, and what for either of two.
            (
                Some(handler),
                RouteAccess::Anybody
                | RouteAccess::Identified
                | RouteAccess::RequiresEither(..)
                | RouteAccess::User
                | RouteAccess::Workers,
            ) => router.route(self.path, handler),
            (None, _) => router,
        }
    }
}

impl From<Permission> for RouteAccess {
    fn from(what: Permission) -> Self {
        Self::Requires(what)
    }
}

impl Verb {
    /// Its spelling in a request.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }

    const fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}
