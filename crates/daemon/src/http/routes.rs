//! All routes, one list per noun.

mod content;
mod history;
mod workers;

use agent_worker_protocol::{
    Permission::{Agents, Approve, Letters, Read, Run, Send, Shutdown},
    ProposalId, QuestionId, Receipt, RunId, Seq, Target,
    api::{
        AckReply, AckRequest, AgentDetail, AgentInterrupted, AgentMocks, AgentRequest,
        AgentStopped, AgentTools, AgentView, AnswerRequest, AttentionItem, CancelRequest,
        DeadLetter, DeadReply, DeadRequest, FeedbackRequest, FeedbackView, Health, InboxReply,
        InstanceCleared, InstanceRemoved, InstanceRequest, InstanceView, ListPage, LogReply,
        MessagesReply, MockRequest, ProposalOutcome, ProposalRequest, ProposalView, ProposalsReply,
        QuestionView, ResumeRequest, RunReport, RunRequest, RunStarted, RunStopped, RunView,
        SendReply, SendRequest, ShutdownRequest, StatsView, StoreReport, TokenCreated,
        TokenRequest, TokenView, VoteRequest,
    },
};
use axum::http::StatusCode;
use serde_json::{Map, Value};

use super::{
    agents, approvals, attention,
    body::BodyLimit,
    events, extractors, feedback, health, inbox, messages, openapi, proposals,
    route::{
        Route,
        RouteAccess::{Anybody, Identified, RequiresEither, User, Workers},
        Verb::{Delete, Get, Post},
    },
    run_streams, runs, tokens, workflows,
};

pub(super) fn routes() -> Vec<Route> {
    [
        daemon(),
        tokens(),
        agents(),
        agent(),
        workers::attempts(),
        history::turns(),
        runs(),
        run_stream_routes(),
        messages(),
        attention(),
        content::documents(),
        content::suggestions(),
        content::resources(),
        proposals(),
        approvals::routes(),
        workflows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn daemon() -> Vec<Route> {
    vec![
        Route::new(
            Anybody,
            Get,
            "/health",
            health::health,
            "Returns the health of the daemon, with more details for the user.",
        )
        .query_params::<health::HealthQuery>()
        .returns::<Health>(),
        Route::new(User, Get, "/doctor", health::doctor, "Checks the whole store.")
            .returns::<StoreReport>(),
        Route::new(Shutdown, Post, "/shutdown", health::shutdown, "Asks the daemon to stop.")
            .optional_json_body::<ShutdownRequest>()
            .returns_status(StatusCode::ACCEPTED),
        Route::new(
            Run,
            Post,
            "/release",
            health::release,
            "Ends the hold that a stop of the daemon left: the runs continue.",
        )
        .returns_status(StatusCode::NO_CONTENT),
        Route::new(Identified, Get, "/openapi.json", openapi::show, "Returns this document."),
    ]
}

fn tokens() -> Vec<Route> {
    vec![
        Route::new(
            User,
            Get,
            "/tokens",
            tokens::list,
            "Lists the clients' tokens, without the secrets.",
        )
        .query_params::<extractors::PageQuery>()
        .returns::<ListPage<TokenView>>(),
        Route::new(
            User,
            Post,
            "/tokens",
            tokens::create,
            "Creates a token; the secret is shown only once.",
        )
        .json_body::<TokenRequest>()
        .returns::<TokenCreated>(),
        Route::new(User, Delete, "/tokens/{name}", tokens::revoke, "Revokes a token.")
            .path_param::<String>()
            .returns_status(StatusCode::NO_CONTENT),
        Route::new(User, Get, "/feedback", feedback::list, "Lists the feedback about the program.")
            .query_params::<extractors::PageQuery>()
            .returns::<ListPage<FeedbackView>>(),
        Route::new(
            Send,
            Post,
            "/feedback",
            feedback::submit,
            "Submits feedback about the program.",
        )
        .json_body::<FeedbackRequest>()
        .returns::<FeedbackView>(),
        Route::documented_only(
            Identified,
            Post,
            "/mcp",
            "Handles a message of the Model Context Protocol.",
        )
        .json_body::<Map<String, Value>>()
        .returns_messages(),
        Route::documented_only(
            Identified,
            Get,
            "/mcp",
            "Streams the messages of a session that are not responses.",
        )
        .streams_messages(),
        Route::documented_only(Identified, Delete, "/mcp", "Ends a session.")
            .returns_status(StatusCode::ACCEPTED),
    ]
}

fn agents() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/agents", agents::list, "Lists the agents and their states.")
            .query_params::<extractors::ListQuery>()
            .returns::<ListPage<AgentView>>(),
        Route::new(
            Agents,
            Post,
            "/agents",
            agents::join,
            "Adds an agent to a live run, or as a standalone agent.",
        )
        .idempotent_body::<AgentRequest>()
        .returns::<AgentView>(),
        Route::new(
            Read,
            Get,
            "/agents/{target}",
            agents::show,
            "Returns one agent, with the facts that explain its state.",
        )
        .path_param::<Target>()
        .query_params::<extractors::ProjectQuery>()
        .returns::<AgentDetail>(),
        Route::new(
            Read,
            Get,
            "/agents/{target}/tools",
            agents::tools,
            "Lists the tools of an agent, or of each agent of an instance.",
        )
        .path_param::<Target>()
        .query_params::<agents::ToolPageQuery>()
        .returns::<ListPage<AgentTools>>(),
    ]
}

fn agent() -> Vec<Route> {
    vec![
        Route::new(
            Agents,
            Delete,
            "/agents/{target}",
            agents::remove,
            "Removes an agent from its run.",
        )
        .path_param::<Target>()
        .query_params::<extractors::ProjectQuery>()
        .returns::<AgentStopped>(),
        Route::new(
            Agents,
            Post,
            "/agents/{target}/stop",
            agents::stop,
            "Stops an agent until it is resumed.",
        )
        .path_param::<Target>()
        .query_params::<extractors::AgentStopQuery>()
        .returns::<AgentStopped>(),
        Route::new(
            Agents,
            Post,
            "/agents/{target}/interrupt",
            agents::interrupt,
            "Ends the current turn of an agent; its messages start the next one.",
        )
        .path_param::<Target>()
        .query_params::<extractors::ProjectQuery>()
        .returns::<AgentInterrupted>(),
        Route::new(
            Agents,
            Post,
            "/agents/{target}/resume",
            agents::resume,
            "Resumes a stopped agent.",
        )
        .path_param::<Target>()
        .query_params::<extractors::ProjectQuery>()
        .returns::<AgentView>(),
        Route::new(
            Agents,
            Post,
            "/agents/{target}/mock",
            agents::mock,
            "Gives an agent another script or other mock tools, which its next turn uses.",
        )
        .path_param::<Target>()
        .query_params::<extractors::ProjectQuery>()
        .idempotent_body::<MockRequest>()
        .returns::<AgentMocks>(),
        Route::new(User, Get, "/logs", agents::log, "Returns the output of an agent's worker.")
            .query_params::<agents::LogPageQuery>()
            .returns::<LogReply>(),
    ]
}

fn runs() -> Vec<Route> {
    vec![
        Route::new(
            Read,
            Get,
            "/runs",
            runs::list,
            "Lists runs: live ones first, then newest first.",
        )
        .query_params::<extractors::ListQuery>()
        .returns::<ListPage<RunView>>(),
        Route::new(Run, Post, "/runs", runs::start, "Starts a run, and responds when it exists.")
            .json_body::<RunRequest>()
            .body_limit(BodyLimit::Text)
            .returns::<RunStarted>(),
        Route::new(Read, Get, "/runs/{id}", runs::show, "Returns one run.")
            .path_param::<RunId>()
            .returns::<RunView>(),
        Route::new(Run, Post, "/runs/{id}/stop", runs::stop, "Ends a run and every process of it.")
            .path_param::<RunId>()
            .query_params::<runs::RunStopQuery>()
            .returns::<RunStopped>(),
        Route::new(Run, Post, "/runs/{id}/pause", runs::pause, "Pauses a run: no new turns start.")
            .path_param::<RunId>()
            .returns::<RunView>(),
        Route::new(Run, Post, "/runs/{id}/resume", runs::resume, "Resumes a paused run.")
            .path_param::<RunId>()
            .idempotent_body::<ResumeRequest>()
            .returns::<RunView>(),
        Route::new(
            Read,
            Get,
            "/stats",
            runs::stats,
            "Returns statistics about the agents' work and its duration.",
        )
        .query_params::<extractors::ListQuery>()
        .returns::<ListPage<StatsView>>(),
    ]
}

fn run_stream_routes() -> Vec<Route> {
    vec![
        Route::new(
            Read,
            Get,
            "/events",
            events::watch_events,
            "Streams the events of a run until its end, or of an instance from now on.",
        )
        .query_params::<events::EventWatchQuery>()
        .streams_events(),
        Route::new(
            Run,
            Post,
            "/run",
            run_streams::run,
            "Starts a run and streams its events until it is idle.",
        )
        .json_body::<RunRequest>()
        .body_limit(BodyLimit::Text)
        .streams_events(),
        Route::new(
            Run,
            Post,
            "/serve",
            run_streams::serve,
            "Starts a run and returns its outcome.",
        )
        .json_body::<RunRequest>()
        .body_limit(BodyLimit::Text)
        .returns::<RunReport>(),
    ]
}

fn messages() -> Vec<Route> {
    vec![
        Route::new(
            Read,
            Get,
            "/messages",
            messages::list,
            "Lists the newest messages, oldest first.",
        )
        .query_params::<messages::MessagePageQuery>()
        .returns::<MessagesReply>(),
        Route::new(
            Send,
            Post,
            "/messages",
            messages::send,
            "Sends a message; responds once it is stored.",
        )
        .idempotent_body::<SendRequest>()
        .body_limit(BodyLimit::Resource)
        .returns::<SendReply>(),
        Route::new(
            Read,
            Get,
            "/messages/{seq}/receipts",
            messages::receipts,
            "Returns the receipts of a message.",
        )
        .path_param::<Seq>()
        .query_params::<extractors::InstanceListQuery>()
        .returns::<ListPage<Receipt>>(),
        Route::new(
            Read,
            Get,
            "/inbox",
            inbox::show,
            "Lists the pending messages of an agent; this acks nothing.",
        )
        .query_params::<extractors::InstanceListQuery>()
        .returns::<InboxReply>(),
        Route::new(
            Workers,
            Post,
            "/inbox/ack",
            inbox::ack,
            "Marks messages that the agent was shown as handled in this turn.",
        )
        .json_body::<AckRequest>()
        .returns::<AckReply>(),
    ]
}

fn attention() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/attention", attention::list, "Lists the items that need a person.")
            .query_params::<extractors::ListQuery>()
            .returns::<ListPage<AttentionItem>>(),
        Route::new(
            Read,
            Get,
            "/dead",
            attention::dead,
            "Lists the dead letters: deliveries without attempts left.",
        )
        .query_params::<extractors::ListQuery>()
        .returns::<ListPage<DeadLetter>>(),
        Route::new(Letters, Post, "/dead/redrive", attention::redrive, "Redrives dead letters.")
            .idempotent_body::<DeadRequest>()
            .returns::<DeadReply>(),
        Route::new(Letters, Post, "/dead/drop", attention::drop, "Drops dead letters.")
            .idempotent_body::<DeadRequest>()
            .returns::<DeadReply>(),
    ]
}

fn proposals() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/proposals", proposals::list, "Lists the open proposals, or all.")
            .query_params::<proposals::ProposalListQuery>()
            .returns::<ProposalsReply>(),
        Route::new(Send, Post, "/proposals", proposals::create, "Creates a proposal.")
            .idempotent_body::<ProposalRequest>()
            .returns::<ProposalOutcome>(),
        Route::new(
            Read,
            Get,
            "/proposals/{id}",
            proposals::show,
            "Returns a proposal with its votes.",
        )
        .path_param::<ProposalId>()
        .query_params::<extractors::ScopeQuery>()
        .returns::<ProposalView>(),
        Route::new(
            Approve,
            Post,
            "/proposals/{id}/vote",
            proposals::vote,
            "Casts or changes a vote.",
        )
        .path_param::<ProposalId>()
        .idempotent_body::<VoteRequest>()
        .returns::<ProposalOutcome>(),
        Route::new(
            RequiresEither(Send, Approve),
            Post,
            "/proposals/{id}/cancel",
            proposals::cancel,
            "Cancels a proposal.",
        )
        .path_param::<ProposalId>()
        .idempotent_body::<CancelRequest>()
        .returns::<ProposalOutcome>(),
        Route::new(
            Read,
            Get,
            "/questions",
            proposals::questions,
            "Lists the questions of agents to a person.",
        )
        .query_params::<extractors::ListQuery>()
        .returns::<ListPage<QuestionView>>(),
        Route::new(
            Approve,
            Post,
            "/questions/{id}/answer",
            proposals::answer_question,
            "Answers a question.",
        )
        .path_param::<QuestionId>()
        .idempotent_body::<AnswerRequest>()
        .body_limit(BodyLimit::Resource)
        .returns::<SendReply>(),
    ]
}

fn workflows() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/workflows", workflows::list, "Lists instances.")
            .query_params::<extractors::ListQuery>()
            .returns::<ListPage<InstanceView>>(),
        Route::new(
            User,
            Post,
            "/workflows/clear",
            workflows::clear,
            "Hides the current messages of a channel.",
        )
        .idempotent_body::<InstanceRequest>()
        .returns::<InstanceCleared>(),
        Route::new(User, Post, "/workflows/remove", workflows::remove, "Deletes an instance.")
            .json_body::<InstanceRequest>()
            .returns::<InstanceRemoved>(),
    ]
}
