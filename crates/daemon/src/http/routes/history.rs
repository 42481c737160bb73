//! Routes of turns and their history.

use agent_worker_protocol::{
    Permission::Read,
    api::{ListPage, TurnDetail, TurnView},
};

use crate::http::{
    extractors,
    route::{Route, RouteAccess::User, Verb::Get},
    turns,
};

pub(super) fn turns() -> Vec<Route> {
    vec![
        Route::new(
            Read,
            Get,
            "/turns",
            turns::list,
            "Lists the turns of an instance or of one agent, newest first; an agent gets its own.",
        )
        .query_params::<extractors::InstanceListQuery>()
        .returns::<ListPage<TurnView>>(),
        Route::new(
            User,
            Get,
            "/turns/{id}",
            turns::show,
            "Returns one turn with a page of its history: prompts, words, calls and results.",
        )
        .path_param::<String>()
        .query_params::<extractors::PageQuery>()
        .returns::<TurnDetail>(),
    ]
}
