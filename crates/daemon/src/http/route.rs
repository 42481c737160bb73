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

use super::{Doors, gate};

/// One route.
pub(super) struct Route {
    pub(super) verb: Verb,
    /// As the router spells it: `/runs/{id}`, `/documents/{*path}`.
    pub(super) path: &'static str,
    /// What it is for.
    pub(super) about: &'static str,
    pub(super) may: May,
    /// What stands for the name in the path.
    pub(super) name: Option<SchemaOf>,
    /// What may follow `?`.
    pub(super) query: Option<SchemaOf>,
    pub(super) key: Key,
    pub(super) body: Option<SchemaOf>,
    pub(super) gives: Gives,
    /// Who answers; none where another room does.
    handler: Option<MethodRouter<Arc<Doors>>>,
}

/// How a type is described.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What is done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Delete,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum May {
    /// Whoever comes.
    Anybody,
    /// Whoever has a name: the user, clients, agents. What they get depends on it.
    Known,
    /// The user, clients whose token allows it, and agents as far as it goes for them in their own instance.
    Needs(Permission),
    /// The same with a token that allows one of the two; which of them decides what is done.
    NeedsEither(Permission, Permission),
    /// The user alone.
    User,
    /// Agents alone: those at work.
    Workers,
}

/// Whether an `Idempotency-Key` makes it happen once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Taken,
    Ignored,
}

/// What is answered.
#[derive(Clone, Copy)]
pub(super) enum Gives {
    /// A status and no more.
    Status(StatusCode),
    /// A document.
    Json(SchemaOf),
    /// Server-sent events.
    Events,
    /// Messages of the Model Context Protocol, as server-sent events.
    Messages,
    /// One such message as a document, or several as server-sent events.
    MessageOrMessages,
}

impl Route {
    /// A route. What it gives is an object of no particular shape until told otherwise.
    pub(super) fn new<H, T>(
        may: impl Into<May>,
        verb: Verb,
        path: &'static str,
        handler: H,
        about: &'static str,
    ) -> Self
    where
        H: Handler<T, Arc<Doors>>,
        T: 'static,
    {
        let handler = Some(on(verb.filter(), handler));
        Self { handler, ..Self::elsewhere(may, verb, path, about) }
    }

    /// A route that another room answers.
    pub(super) fn elsewhere(
        may: impl Into<May>,
        verb: Verb,
        path: &'static str,
        about: &'static str,
    ) -> Self {
        Self {
            verb,
            path,
            about,
            may: may.into(),
            name: None,
            query: None,
            key: Key::Ignored,
            body: None,
            gives: Gives::Json(schema::<Map<String, Value>>),
            handler: None,
        }
    }

    pub(super) fn named<T: JsonSchema>(self) -> Self {
        Self { name: Some(schema::<T>), ..self }
    }

    pub(super) fn asks<T: JsonSchema>(self) -> Self {
        Self { query: Some(T::json_schema), ..self }
    }

    /// Takes a body, once for each `Idempotency-Key`.
    pub(super) fn takes_once<T: JsonSchema>(self) -> Self {
        Self { key: Key::Taken, ..self.takes::<T>() }
    }

    pub(super) fn takes<T: JsonSchema>(self) -> Self {
        Self { body: Some(schema::<T>), ..self }
    }

    pub(super) fn gives<T: JsonSchema>(self) -> Self {
        Self { gives: Gives::Json(schema::<T>), ..self }
    }

    pub(super) fn tells_events(self) -> Self {
        Self { gives: Gives::Events, ..self }
    }

    pub(super) fn tells_messages(self) -> Self {
        Self { gives: Gives::Messages, ..self }
    }

    pub(super) fn gives_messages(self) -> Self {
        Self { gives: Gives::MessageOrMessages, ..self }
    }

    pub(super) fn says(self, status: StatusCode) -> Self {
        Self { gives: Gives::Status(status), ..self }
    }

    /// Opens it, for those who may.
    pub(super) fn mount(self, router: Router<Arc<Doors>>) -> Router<Arc<Doors>> {
        match (self.handler, self.may) {
            (Some(handler), May::Needs(what)) => {
                router.route(self.path, handler.layer(from_fn_with_state(what, gate::granted)))
            }
            // The kernel says by itself what is for the user or for agents alone, and what for either of two.
            (
                Some(handler),
                May::Anybody | May::Known | May::NeedsEither(..) | May::User | May::Workers,
            ) => router.route(self.path, handler),
            (None, _) => router,
        }
    }
}

impl From<Permission> for May {
    fn from(what: Permission) -> Self {
        Self::Needs(what)
    }
}

impl Verb {
    /// Its spelling in a request.
    pub(super) const fn word(self) -> &'static str {
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
