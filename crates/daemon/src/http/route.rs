//! One route: method, path, access, input and output. The router and `/openapi.json` are built from the same list
//! of routes, so that they cannot differ.

use std::sync::Arc;

use agent_worker_kernel::{Error, Principal};
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

use super::{
    AppState,
    admission::{BodyResources, RoutePolicy, enforce_policy},
    body::BodyLimit,
};

/// One route of the HTTP interface.
pub(super) struct Route {
    pub(super) verb: Verb,
    /// The path in the router's syntax: `/runs/{id}`, `/documents/{*path}`.
    pub(super) path: &'static str,
    /// The summary in `/openapi.json`.
    pub(super) summary: &'static str,
    pub(super) access: RouteAccess,
    /// Schema of the parameter in the path.
    pub(super) path_schema: Option<SchemaFn>,
    /// Schema of the query string.
    pub(super) query_schema: Option<SchemaFn>,
    pub(super) idempotency: IdempotencySupport,
    pub(super) body_schema: Option<SchemaFn>,
    pub(super) is_body_required: bool,
    pub(super) body_limit: BodyLimit,
    pub(super) response: ResponseKind,
    /// The handler; none if another router serves the route.
    handler: Option<MethodRouter<Arc<AppState>>>,
}

/// A function that returns the schema of a type.
pub(super) type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

/// The HTTP method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Delete,
}

/// The callers that may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteAccess {
    /// Every caller, also an anonymous one.
    Anybody,
    /// Every identified caller: the user, clients and agents. The response depends on the caller.
    Identified,
    /// The user, clients whose token has the permission, and agents within their own instance.
    Requires(Permission),
    /// The same, with a token that has one of the two permissions; the one it has decides what is allowed.
    RequiresEither(Permission, Permission),
    /// Only the user.
    User,
    /// Only agents with a live attempt.
    Workers,
}

/// Selects whether an `Idempotency-Key` makes the effect happen once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdempotencySupport {
    Supported,
    Ignored,
}

/// The kind of a response.
#[derive(Clone, Copy)]
pub(super) enum ResponseKind {
    /// A status without a body.
    Status(StatusCode),
    /// A JSON document of this schema.
    Json(SchemaFn),
    /// A stream of server-sent events.
    Events,
    /// Messages of the Model Context Protocol, as server-sent events.
    Messages,
    /// One such message as JSON, or several as server-sent events.
    JsonOrMessages,
}

impl Route {
    /// Creates a route. Its response is an unspecified object until another method sets it.
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

    /// Creates a route that another router serves.
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
            is_body_required: true,
            body_limit: BodyLimit::Small,
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

    /// Takes a JSON body and honours `Idempotency-Key`.
    pub(super) fn idempotent_body<T: JsonSchema>(self) -> Self {
        Self { idempotency: IdempotencySupport::Supported, ..self.json_body::<T>() }
    }

    pub(super) fn json_body<T: JsonSchema>(self) -> Self {
        Self { body_schema: Some(schema::<T>), ..self }
    }

    pub(super) fn optional_json_body<T: JsonSchema>(self) -> Self {
        Self { is_body_required: false, ..self.json_body::<T>() }
    }

    pub(super) fn body_limit(self, body_limit: BodyLimit) -> Self {
        Self { body_limit, ..self }
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

    /// Adds the route to a router, with the check of its callers and of its body.
    pub(super) fn mount(
        self,
        router: Router<Arc<AppState>>,
        bodies: &BodyResources,
    ) -> Router<Arc<AppState>> {
        let policy =
            RoutePolicy { access: self.access, limit: self.body_limit, bodies: bodies.clone() };
        match (self.handler, self.access) {
            (Some(handler), RouteAccess::Anybody) => router.route(self.path, handler),
            (Some(handler), _) => {
                router.route(self.path, handler.layer(from_fn_with_state(policy, enforce_policy)))
            }
            (None, _) => router,
        }
    }
}

impl RouteAccess {
    /// Refuses a caller that may not use the route. The kernel checks again, with the objects that the request names.
    pub(super) fn check(self, who: &Principal) -> Result<(), Error> {
        match self {
            Self::Anybody => Ok(()),
            Self::Identified => who.require_authenticated(),
            Self::Requires(what) => who.require(what),
            Self::RequiresEither(one, other) => who.require_either(one, other),
            Self::User => who.require_user("only the user may do this"),
            Self::Workers => match who {
                Principal::Agent(_) => Ok(()),
                Principal::Anonymous => Err(Error::Unauthorized),
                Principal::User | Principal::Client(_) => {
                    Err(Error::Forbidden("only an agent may do this, for its own attempt"))
                }
            },
        }
    }
}

impl From<Permission> for RouteAccess {
    fn from(what: Permission) -> Self {
        Self::Requires(what)
    }
}

impl Verb {
    /// Returns the method as in a request.
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
