//! Every route there is, a list per noun.

use agent_worker_protocol::{
    AttemptId, DocumentPath, EventsReply, EventsRequest, Proposal, ProposalId, QuestionId,
    ResourceId, RunId, Seq, Target,
    api::{
        AckReply, AckRequest, AgentDetail, AgentRequest, AgentStopped, AgentView, AnswerRequest,
        AttentionItem, CancelRequest, Cleared, DeadLetter, DeadReply, DeadRequest, DocumentDiff,
        DocumentEntry, DocumentRequest, DocumentText, DocumentWritten, FeedbackRequest,
        FeedbackView, Health, InboxReply, InstanceRequest, InstanceView, LogReply, MessagesReply,
        ProposalOutcome, ProposalRequest, ProposalsReply, QuestionView, ReceiptsReply, Removed,
        ResourceText, ResumeRequest, RunReport, RunRequest, RunStarted, RunStopped, RunView,
        SendReply, SendRequest, ShutdownRequest, StatsView, StoreReport, SuggestRequest, Suggested,
        SuggestionRequest, SuggestionView, TokenCreated, TokenRequest, TokenView, VoteRequest,
    },
};
use axum::http::StatusCode;
use serde_json::{Map, Value};

use super::{
    agents, attempts, attention, documents, events, feedback, follow, health, inbox, messages,
    openapi, proposals, request, resources,
    route::{
        May::{Agents, Anybody, User},
        Route,
        Verb::{Delete, Get, Post},
    },
    runs, tokens, workflows,
};

pub(super) fn routes() -> Vec<Route> {
    [
        daemon(),
        agents(),
        runs(),
        following(),
        messages(),
        attention(),
        documents(),
        proposals(),
        workflows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn daemon() -> Vec<Route> {
    vec![
        Route::new(Get, "/health", health::health, "How the daemon is; more for the user.")
            .may(Anybody)
            .gives::<Health>(),
        Route::new(Get, "/doctor", health::doctor, "Looks through the whole store.")
            .may(User)
            .gives::<StoreReport>(),
        Route::new(Post, "/shutdown", health::shutdown, "Asks the daemon to stop.")
            .may(User)
            .takes::<ShutdownRequest>()
            .says(StatusCode::ACCEPTED),
        Route::new(Get, "/openapi.json", openapi::show, "This document."),
        Route::new(Get, "/tokens", tokens::list, "Lists the clients' tokens, without the secrets.")
            .may(User)
            .gives::<Vec<TokenView>>(),
        Route::new(
            Post,
            "/tokens",
            tokens::create,
            "Makes a token; the secret is shown this once.",
        )
        .may(User)
        .takes::<TokenRequest>()
        .gives::<TokenCreated>(),
        Route::new(Delete, "/tokens/{name}", tokens::revoke, "Takes a token back.")
            .may(User)
            .named::<String>()
            .says(StatusCode::NO_CONTENT),
        Route::new(Get, "/feedback", feedback::list, "What was said about the program itself.")
            .may(User)
            .gives::<Vec<FeedbackView>>(),
        Route::new(Post, "/feedback", feedback::say, "Says something about the program itself.")
            .takes::<FeedbackRequest>()
            .gives::<FeedbackView>(),
        Route::elsewhere(Post, "/mcp", "A message of the Model Context Protocol.")
            .takes::<Map<String, Value>>()
            .gives_messages(),
        Route::elsewhere(Get, "/mcp", "What a session is told besides its answers.")
            .tells_messages(),
        Route::elsewhere(Delete, "/mcp", "Ends a session.").says(StatusCode::ACCEPTED),
    ]
}

fn agents() -> Vec<Route> {
    vec![
        Route::new(Get, "/agents", agents::list, "Who is there, and what each is doing.")
            .asks::<request::Scope>()
            .gives::<Vec<AgentView>>(),
        Route::new(Post, "/agents", agents::join, "Lets an agent join a live run, or stand alone.")
            .may(User)
            .takes_once::<AgentRequest>()
            .gives::<AgentView>(),
        Route::new(Get, "/agents/{target}", agents::show, "One agent, with what explains it.")
            .named::<Target>()
            .asks::<request::Near>()
            .gives::<AgentDetail>(),
        Route::new(Delete, "/agents/{target}", agents::remove, "Takes an agent out of its run.")
            .may(User)
            .named::<Target>()
            .asks::<request::Near>()
            .gives::<AgentStopped>(),
        Route::new(Post, "/agents/{target}/stop", agents::stop, "Wakes an agent no more.")
            .may(User)
            .named::<Target>()
            .asks::<request::NearStop>()
            .gives::<AgentStopped>(),
        Route::new(Post, "/agents/{target}/resume", agents::resume, "Wakes an agent again.")
            .may(User)
            .named::<Target>()
            .asks::<request::Near>()
            .gives::<AgentView>(),
        Route::new(
            Get,
            "/logs",
            agents::log,
            "What the worker of an agent's attempt printed, else of its last one.",
        )
        .may(User)
        .asks::<agents::LogPage>()
        .gives::<LogReply>(),
        Route::new(Post, "/attempts/{id}/events", attempts::report, "What a worker reports.")
            .may(Agents)
            .named::<AttemptId>()
            .takes::<EventsRequest>()
            .gives::<EventsReply>(),
    ]
}

fn runs() -> Vec<Route> {
    vec![
        Route::new(Get, "/runs", runs::list, "Runs: live ones first, then newest first.")
            .asks::<request::Scope>()
            .gives::<Vec<RunView>>(),
        Route::new(Post, "/runs", runs::start, "Starts a run, and answers when it exists.")
            .may(User)
            .takes::<RunRequest>()
            .gives::<RunStarted>(),
        Route::new(Get, "/runs/{id}", runs::show, "One run.").named::<RunId>().gives::<RunView>(),
        Route::new(Post, "/runs/{id}/stop", runs::stop, "Ends a run and every process of it.")
            .may(User)
            .named::<RunId>()
            .asks::<runs::Stop>()
            .gives::<RunStopped>(),
        Route::new(Post, "/runs/{id}/pause", runs::pause, "Starts no more turns of a run.")
            .may(User)
            .named::<RunId>()
            .gives::<RunView>(),
        Route::new(Post, "/runs/{id}/resume", runs::resume, "Lets a paused run go on.")
            .may(User)
            .named::<RunId>()
            .takes_once::<ResumeRequest>()
            .gives::<RunView>(),
        Route::new(Get, "/stats", runs::stats, "What agents did, and how long it took.")
            .asks::<request::Scope>()
            .gives::<Vec<StatsView>>(),
    ]
}

fn following() -> Vec<Route> {
    vec![
        Route::new(Get, "/events", events::watch, "A run to its end, or an instance from now on.")
            .asks::<events::Watch>()
            .tells_events(),
        Route::new(Post, "/run", follow::run, "Starts a run and tells its events until it rests.")
            .may(User)
            .takes::<RunRequest>()
            .tells_events(),
        Route::new(Post, "/serve", follow::serve, "Starts a run and answers with what it came to.")
            .may(User)
            .takes::<RunRequest>()
            .gives::<RunReport>(),
    ]
}

fn messages() -> Vec<Route> {
    vec![
        Route::new(Get, "/messages", messages::list, "The newest messages, oldest first.")
            .asks::<messages::Page>()
            .gives::<MessagesReply>(),
        Route::new(
            Post,
            "/messages",
            messages::send,
            "Sends a message; answers once it is stored.",
        )
        .takes_once::<SendRequest>()
        .gives::<SendReply>(),
        Route::new(Get, "/messages/{seq}/receipts", messages::receipts, "Where a message is.")
            .named::<Seq>()
            .asks::<request::Scope>()
            .gives::<ReceiptsReply>(),
        Route::new(Get, "/inbox", inbox::look, "What waits for an agent; looking acks nothing.")
            .asks::<request::Scope>()
            .gives::<InboxReply>(),
        Route::new(Post, "/inbox/ack", inbox::ack, "Lets mail that was shown be done this turn.")
            .may(Agents)
            .takes::<AckRequest>()
            .gives::<AckReply>(),
    ]
}

fn attention() -> Vec<Route> {
    vec![
        Route::new(Get, "/attention", attention::list, "What waits for a person.")
            .asks::<request::Scope>()
            .gives::<Vec<AttentionItem>>(),
        Route::new(Get, "/dead", attention::dead, "Deliveries whose attempts are used up.")
            .asks::<request::Scope>()
            .gives::<Vec<DeadLetter>>(),
        Route::new(Post, "/dead/redrive", attention::redrive, "Tries dead letters again.")
            .may(User)
            .takes_once::<DeadRequest>()
            .gives::<DeadReply>(),
        Route::new(Post, "/dead/drop", attention::drop, "Gives dead letters up.")
            .may(User)
            .takes_once::<DeadRequest>()
            .gives::<DeadReply>(),
    ]
}

fn documents() -> Vec<Route> {
    vec![
        Route::new(Get, "/documents", documents::list, "The team's documents.")
            .asks::<request::Scope>()
            .gives::<Vec<DocumentEntry>>(),
        Route::new(Get, "/documents/{*path}", documents::read, "A document, or an older revision.")
            .named::<DocumentPath>()
            .asks::<documents::Which>()
            .gives::<DocumentText>(),
        Route::new(Post, "/documents/{*path}", documents::write, "Writes a document.")
            .named::<DocumentPath>()
            .takes_once::<DocumentRequest>()
            .gives::<DocumentWritten>(),
        Route::new(Get, "/revisions/{*path}", documents::history, "A document's revisions.")
            .named::<DocumentPath>()
            .asks::<request::Scope>()
            .gives::<Vec<DocumentEntry>>(),
        Route::new(Get, "/diffs/{*path}", documents::diff, "What changed between two revisions.")
            .named::<DocumentPath>()
            .asks::<documents::Between>()
            .gives::<DocumentDiff>(),
        Route::new(Get, "/suggestions", documents::suggestions, "Suggestions, newest first.")
            .asks::<request::Scope>()
            .gives::<Vec<SuggestionView>>(),
        Route::new(Post, "/suggestions", documents::suggest, "Suggests a change to the owner.")
            .takes_once::<SuggestRequest>()
            .gives::<Suggested>(),
        Route::new(Post, "/suggestions/{seq}", documents::answer, "Accepts or rejects one.")
            .named::<Seq>()
            .takes_once::<SuggestionRequest>()
            .gives::<SuggestionView>(),
        Route::new(
            Get,
            "/resources/{id}",
            resources::read,
            "A part of a text that was too long for a message.",
        )
        .named::<ResourceId>()
        .asks::<resources::Part>()
        .gives::<ResourceText>(),
    ]
}

fn proposals() -> Vec<Route> {
    vec![
        Route::new(Get, "/proposals", proposals::list, "What is voted on.")
            .asks::<proposals::Which>()
            .gives::<ProposalsReply>(),
        Route::new(Post, "/proposals", proposals::create, "Makes a proposal.")
            .takes_once::<ProposalRequest>()
            .gives::<ProposalOutcome>(),
        Route::new(Get, "/proposals/{id}", proposals::show, "A proposal with its votes.")
            .named::<ProposalId>()
            .asks::<request::Scope>()
            .gives::<Proposal>(),
        Route::new(Post, "/proposals/{id}/vote", proposals::vote, "Votes, or votes anew.")
            .named::<ProposalId>()
            .takes_once::<VoteRequest>()
            .gives::<ProposalOutcome>(),
        Route::new(Post, "/proposals/{id}/cancel", proposals::cancel, "Takes a proposal back.")
            .named::<ProposalId>()
            .takes_once::<CancelRequest>()
            .gives::<ProposalOutcome>(),
        Route::new(Get, "/questions", proposals::questions, "What agents ask a person.")
            .asks::<request::Scope>()
            .gives::<Vec<QuestionView>>(),
        Route::new(Post, "/questions/{id}/answer", proposals::answer, "Answers a question.")
            .may(User)
            .named::<QuestionId>()
            .takes_once::<AnswerRequest>()
            .gives::<SendReply>(),
    ]
}

fn workflows() -> Vec<Route> {
    vec![
        Route::new(Get, "/workflows", workflows::list, "Instances.")
            .asks::<request::Scope>()
            .gives::<Vec<InstanceView>>(),
        Route::new(Post, "/workflows/clear", workflows::clear, "Hides what a channel says so far.")
            .may(User)
            .takes_once::<InstanceRequest>()
            .gives::<Cleared>(),
        Route::new(Post, "/workflows/remove", workflows::remove, "Deletes an instance.")
            .may(User)
            .takes::<InstanceRequest>()
            .gives::<Removed>(),
    ]
}
