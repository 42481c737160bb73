//! All routes, one list per noun.

use agent_worker_protocol::{
    AttemptId, DocumentPath, EventsReply, EventsRequest,
    Permission::{Agents, Approve, Documents, Letters, Read, Run, Send, Shutdown},
    Proposal, ProposalId, QuestionId, ResourceId, RunId, Seq, Target,
    api::{
        AckReply, AckRequest, AgentDetail, AgentRequest, AgentStopped, AgentView, AnswerRequest,
        AttentionItem, CancelRequest, DeadLetter, DeadReply, DeadRequest, DocumentDiff,
        DocumentEntry, DocumentNamed, DocumentRequest, DocumentText, DocumentWritten,
        FeedbackRequest, FeedbackView, Health, InboxReply, InstanceCleared, InstanceRemoved,
        InstanceRequest, InstanceView, LogReply, MessagesReply, PermitReply, PermitRequest,
        ProposalOutcome, ProposalRequest, ProposalsReply, QuestionView, ReceiptsReply,
        ResourceEntry, ResourceKept, ResourceRequest, ResourceText, ResumeRequest, RunReport,
        RunRequest, RunStarted, RunStopped, RunView, SendReply, SendRequest, ShutdownRequest,
        StatsView, StoreReport, SuggestReply, SuggestRequest, SuggestionRequest, SuggestionView,
        TokenCreated, TokenRequest, TokenView, VoteRequest,
    },
};
use axum::http::StatusCode;
use serde_json::{Map, Value};

use super::{
    agents, approvals, attempts, attention, documents, events, extractors, feedback, health, inbox,
    messages, openapi, proposals, resources,
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
        runs(),
        run_stream_routes(),
        messages(),
        attention(),
        documents(),
        suggestions(),
        resources(),
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
            "How the daemon is; more for the user.",
        )
        .returns::<Health>(),
        Route::new(User, Get, "/doctor", health::doctor, "Looks through the whole store.")
            .returns::<StoreReport>(),
        Route::new(Shutdown, Post, "/shutdown", health::shutdown, "Asks the daemon to stop.")
            .json_body::<ShutdownRequest>()
            .returns_status(StatusCode::ACCEPTED),
        Route::new(Identified, Get, "/openapi.json", openapi::show, "This document."),
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
        .returns::<Vec<TokenView>>(),
        Route::new(
            User,
            Post,
            "/tokens",
            tokens::create,
            "Makes a token; the secret is shown this once.",
        )
        .json_body::<TokenRequest>()
        .returns::<TokenCreated>(),
        Route::new(User, Delete, "/tokens/{name}", tokens::revoke, "Takes a token back.")
            .path_param::<String>()
            .returns_status(StatusCode::NO_CONTENT),
        Route::new(
            User,
            Get,
            "/feedback",
            feedback::list,
            "What was said about the program itself.",
        )
        .returns::<Vec<FeedbackView>>(),
        Route::new(
            Send,
            Post,
            "/feedback",
            feedback::submit,
            "Says something about the program itself.",
        )
        .json_body::<FeedbackRequest>()
        .returns::<FeedbackView>(),
        Route::documented_only(
            Identified,
            Post,
            "/mcp",
            "A message of the Model Context Protocol.",
        )
        .json_body::<Map<String, Value>>()
        .returns_messages(),
        Route::documented_only(
            Identified,
            Get,
            "/mcp",
            "What a session is told besides its answers.",
        )
        .streams_messages(),
        Route::documented_only(Identified, Delete, "/mcp", "Ends a session.")
            .returns_status(StatusCode::ACCEPTED),
    ]
}

fn agents() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/agents", agents::list, "Who is there, and what each is doing.")
            .query_params::<extractors::ScopeQuery>()
            .returns::<Vec<AgentView>>(),
        Route::new(
            Agents,
            Post,
            "/agents",
            agents::join,
            "Lets an agent join a live run, or stand alone.",
        )
        .idempotent_body::<AgentRequest>()
        .returns::<AgentView>(),
        Route::new(
            Read,
            Get,
            "/agents/{target}",
            agents::show,
            "One agent, with what explains it.",
        )
        .path_param::<Target>()
        .query_params::<extractors::ProjectQuery>()
        .returns::<AgentDetail>(),
    ]
}

fn agent() -> Vec<Route> {
    vec![
        Route::new(
            Agents,
            Delete,
            "/agents/{target}",
            agents::remove,
            "Takes an agent out of its run.",
        )
        .path_param::<Target>()
        .query_params::<extractors::ProjectQuery>()
        .returns::<AgentStopped>(),
        Route::new(Agents, Post, "/agents/{target}/stop", agents::stop, "Wakes an agent no more.")
            .path_param::<Target>()
            .query_params::<extractors::AgentStopQuery>()
            .returns::<AgentStopped>(),
        Route::new(
            Agents,
            Post,
            "/agents/{target}/resume",
            agents::resume,
            "Wakes an agent again.",
        )
        .path_param::<Target>()
        .query_params::<extractors::ProjectQuery>()
        .returns::<AgentView>(),
        Route::new(
            User,
            Get,
            "/logs",
            agents::log,
            "What the worker of an agent's attempt printed, else of its last one.",
        )
        .query_params::<agents::LogPageQuery>()
        .returns::<LogReply>(),
        Route::new(
            Workers,
            Post,
            "/attempts/{id}/events",
            attempts::report,
            "What a worker reports.",
        )
        .path_param::<AttemptId>()
        .json_body::<EventsRequest>()
        .returns::<EventsReply>(),
        Route::new(
            Workers,
            Post,
            "/attempts/{id}/approvals",
            attempts::permit,
            "Asks whether a call may happen, and waits for the answer for up to 40 s.",
        )
        .path_param::<AttemptId>()
        .json_body::<PermitRequest>()
        .returns::<PermitReply>(),
    ]
}

fn runs() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/runs", runs::list, "Runs: live ones first, then newest first.")
            .query_params::<extractors::ScopeQuery>()
            .returns::<Vec<RunView>>(),
        Route::new(Run, Post, "/runs", runs::start, "Starts a run, and answers when it exists.")
            .json_body::<RunRequest>()
            .returns::<RunStarted>(),
        Route::new(Read, Get, "/runs/{id}", runs::show, "One run.")
            .path_param::<RunId>()
            .returns::<RunView>(),
        Route::new(Run, Post, "/runs/{id}/stop", runs::stop, "Ends a run and every process of it.")
            .path_param::<RunId>()
            .query_params::<runs::RunStopQuery>()
            .returns::<RunStopped>(),
        Route::new(Run, Post, "/runs/{id}/pause", runs::pause, "Starts no more turns of a run.")
            .path_param::<RunId>()
            .returns::<RunView>(),
        Route::new(Run, Post, "/runs/{id}/resume", runs::resume, "Lets a paused run go on.")
            .path_param::<RunId>()
            .idempotent_body::<ResumeRequest>()
            .returns::<RunView>(),
        Route::new(Read, Get, "/stats", runs::stats, "What agents did, and how long it took.")
            .query_params::<extractors::ScopeQuery>()
            .returns::<Vec<StatsView>>(),
    ]
}

fn run_stream_routes() -> Vec<Route> {
    vec![
        Route::new(
            Read,
            Get,
            "/events",
            events::watch_events,
            "A run to its end, or an instance from now on.",
        )
        .query_params::<events::EventWatchQuery>()
        .streams_events(),
        Route::new(
            Run,
            Post,
            "/run",
            run_streams::run,
            "Starts a run and tells its events until it rests.",
        )
        .json_body::<RunRequest>()
        .streams_events(),
        Route::new(
            Run,
            Post,
            "/serve",
            run_streams::serve,
            "Starts a run and answers with what it came to.",
        )
        .json_body::<RunRequest>()
        .returns::<RunReport>(),
    ]
}

fn messages() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/messages", messages::list, "The newest messages, oldest first.")
            .query_params::<messages::MessagePageQuery>()
            .returns::<MessagesReply>(),
        Route::new(
            Send,
            Post,
            "/messages",
            messages::send,
            "Sends a message; answers once it is stored.",
        )
        .idempotent_body::<SendRequest>()
        .returns::<SendReply>(),
        Route::new(
            Read,
            Get,
            "/messages/{seq}/receipts",
            messages::receipts,
            "Where a message is.",
        )
        .path_param::<Seq>()
        .query_params::<extractors::ScopeQuery>()
        .returns::<ReceiptsReply>(),
        Route::new(
            Read,
            Get,
            "/inbox",
            inbox::show,
            "What waits for an agent; looking acks nothing.",
        )
        .query_params::<extractors::ScopeQuery>()
        .returns::<InboxReply>(),
        Route::new(
            Workers,
            Post,
            "/inbox/ack",
            inbox::ack,
            "Lets mail that was shown be done this turn.",
        )
        .json_body::<AckRequest>()
        .returns::<AckReply>(),
    ]
}

fn attention() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/attention", attention::list, "What waits for a person.")
            .query_params::<extractors::ScopeQuery>()
            .returns::<Vec<AttentionItem>>(),
        Route::new(Read, Get, "/dead", attention::dead, "Deliveries whose attempts are used up.")
            .query_params::<extractors::ScopeQuery>()
            .returns::<Vec<DeadLetter>>(),
        Route::new(Letters, Post, "/dead/redrive", attention::redrive, "Tries dead letters again.")
            .idempotent_body::<DeadRequest>()
            .returns::<DeadReply>(),
        Route::new(Letters, Post, "/dead/drop", attention::drop, "Gives dead letters up.")
            .idempotent_body::<DeadRequest>()
            .returns::<DeadReply>(),
    ]
}

fn documents() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/documents", documents::list, "The team's documents.")
            .query_params::<extractors::ScopeQuery>()
            .returns::<Vec<DocumentEntry>>(),
        Route::new(
            Read,
            Get,
            "/document",
            documents::default_document,
            "The document that is meant when none is named.",
        )
        .query_params::<extractors::ScopeQuery>()
        .returns::<DocumentNamed>(),
        Route::new(
            Read,
            Get,
            "/diffs/{*path}",
            documents::diff,
            "What changed between two revisions.",
        )
        .path_param::<DocumentPath>()
        .query_params::<documents::DocumentDiffQuery>()
        .returns::<DocumentDiff>(),
        Route::new(
            Read,
            Get,
            "/documents/{*path}",
            documents::read,
            "A document, or an older revision.",
        )
        .path_param::<DocumentPath>()
        .query_params::<documents::DocumentReadQuery>()
        .returns::<DocumentText>(),
        Route::new(Documents, Post, "/documents/{*path}", documents::write, "Writes a document.")
            .path_param::<DocumentPath>()
            .idempotent_body::<DocumentRequest>()
            .returns::<DocumentWritten>(),
        Route::new(Read, Get, "/revisions/{*path}", documents::history, "A document's revisions.")
            .path_param::<DocumentPath>()
            .query_params::<extractors::ScopeQuery>()
            .returns::<Vec<DocumentEntry>>(),
    ]
}

fn suggestions() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/suggestions", documents::suggestions, "Suggestions, newest first.")
            .query_params::<extractors::ScopeQuery>()
            .returns::<Vec<SuggestionView>>(),
        Route::new(
            Documents,
            Post,
            "/suggestions",
            documents::suggest,
            "Suggests a change to the owner.",
        )
        .idempotent_body::<SuggestRequest>()
        .returns::<SuggestReply>(),
        Route::new(
            Documents,
            Post,
            "/suggestions/{seq}",
            documents::answer_suggestion,
            "Accepts or rejects one.",
        )
        .path_param::<Seq>()
        .idempotent_body::<SuggestionRequest>()
        .returns::<SuggestionView>(),
    ]
}

fn resources() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/resources", resources::list, "Long texts that are kept.")
            .query_params::<extractors::ScopeQuery>()
            .returns::<Vec<ResourceEntry>>(),
        Route::new(Send, Post, "/resources", resources::create, "Keeps a long text.")
            .json_body::<ResourceRequest>()
            .returns::<ResourceKept>(),
        Route::new(
            Read,
            Get,
            "/resources/{id}",
            resources::read,
            "A part of a text that was too long for a message.",
        )
        .path_param::<ResourceId>()
        .query_params::<resources::ResourceRangeQuery>()
        .returns::<ResourceText>(),
    ]
}

fn proposals() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/proposals", proposals::list, "What is voted on.")
            .query_params::<proposals::ProposalListQuery>()
            .returns::<ProposalsReply>(),
        Route::new(Send, Post, "/proposals", proposals::create, "Makes a proposal.")
            .idempotent_body::<ProposalRequest>()
            .returns::<ProposalOutcome>(),
        Route::new(Read, Get, "/proposals/{id}", proposals::show, "A proposal with its votes.")
            .path_param::<ProposalId>()
            .query_params::<extractors::ScopeQuery>()
            .returns::<Proposal>(),
        Route::new(Approve, Post, "/proposals/{id}/vote", proposals::vote, "Votes, or votes anew.")
            .path_param::<ProposalId>()
            .idempotent_body::<VoteRequest>()
            .returns::<ProposalOutcome>(),
        Route::new(
            RequiresEither(Send, Approve),
            Post,
            "/proposals/{id}/cancel",
            proposals::cancel,
            "Takes a proposal back.",
        )
        .path_param::<ProposalId>()
        .idempotent_body::<CancelRequest>()
        .returns::<ProposalOutcome>(),
        Route::new(Read, Get, "/questions", proposals::questions, "What agents ask a person.")
            .query_params::<extractors::ScopeQuery>()
            .returns::<Vec<QuestionView>>(),
        Route::new(
            Approve,
            Post,
            "/questions/{id}/answer",
            proposals::answer_question,
            "Answers a question.",
        )
        .path_param::<QuestionId>()
        .idempotent_body::<AnswerRequest>()
        .returns::<SendReply>(),
    ]
}

fn workflows() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/workflows", workflows::list, "Instances.")
            .query_params::<extractors::ScopeQuery>()
            .returns::<Vec<InstanceView>>(),
        Route::new(
            User,
            Post,
            "/workflows/clear",
            workflows::clear,
            "Hides what a channel says so far.",
        )
        .idempotent_body::<InstanceRequest>()
        .returns::<InstanceCleared>(),
        Route::new(User, Post, "/workflows/remove", workflows::remove, "Deletes an instance.")
            .json_body::<InstanceRequest>()
            .returns::<InstanceRemoved>(),
    ]
}
