//! Routes of the workers, for their own attempts.

use agent_worker_protocol::{
    AttemptId, EventsReply, EventsRequest, SpendReply, SpendRequest, TurnMessagesReply,
    TurnMessagesRequest,
    api::{PermitReply, PermitRequest},
};

use crate::http::{
    attempts,
    body::BodyLimit,
    route::{Route, RouteAccess::Workers, Verb::Post},
};

pub(super) fn attempts() -> Vec<Route> {
    vec![
        Route::new(
            Workers,
            Post,
            "/attempts/{id}/events",
            attempts::report,
            "Receives the events of a worker.",
        )
        .path_param::<AttemptId>()
        .json_body::<EventsRequest>()
        .body_limit(BodyLimit::Resource)
        .returns::<EventsReply>(),
        Route::new(
            Workers,
            Post,
            "/attempts/{id}/messages",
            attempts::messages,
            "Waits for up to 40 s for messages to the running turn, and receives the program's answers to earlier ones.",
        )
        .path_param::<AttemptId>()
        .json_body::<TurnMessagesRequest>()
        .returns::<TurnMessagesReply>(),
        Route::new(
            Workers,
            Post,
            "/attempts/{id}/spend",
            attempts::spend,
            "Reserves the most that the next call of a model can use; waits for up to 40 s for calls of other agents.",
        )
        .path_param::<AttemptId>()
        .json_body::<SpendRequest>()
        .returns::<SpendReply>(),
        Route::new(
            Workers,
            Post,
            "/attempts/{id}/approvals",
            attempts::permit,
            "Requests approval of a call, and waits for the decision for up to 40 s.",
        )
        .path_param::<AttemptId>()
        .json_body::<PermitRequest>()
        .body_limit(BodyLimit::Resource)
        .returns::<PermitReply>(),
    ]
}
