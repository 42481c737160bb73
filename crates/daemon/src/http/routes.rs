//! Every route there is, a list per noun.

use agent_worker_protocol::{
    AttemptId, DocumentPath, EventsReply, EventsRequest,
    Permission::{Agents, Approve, Documents, Letters, Read, Run, Send, Shutdown},
    Proposal, ProposalId, QuestionId, ResourceId, RunId, Seq, Target,
    api::{
        AckReply, AckRequest, AgentDetail, AgentRequest, AgentStopped, AgentView, AnswerRequest,
        AttentionItem, CancelRequest, Cleared, DeadLetter, DeadReply, DeadRequest, DocumentDiff,
        DocumentEntry, DocumentNamed, DocumentRequest, DocumentText, DocumentWritten,
        FeedbackRequest, FeedbackView, Health, InboxReply, InstanceRequest, InstanceView, LogReply,
        MessagesReply, PermitReply, PermitRequest, ProposalOutcome, ProposalRequest,
        ProposalsReply, QuestionView, ReceiptsReply, Removed, ResourceEntry, ResourceKept,
        ResourceRequest, ResourceText, ResumeRequest, RunReport, RunRequest, RunStarted,
        RunStopped, RunView, SendReply, SendRequest, ShutdownRequest, StatsView, StoreReport,
        SuggestRequest, Suggested, SuggestionRequest, SuggestionView, TokenCreated, TokenRequest,
        TokenView, VoteRequest,
    },
};
use axum::http::StatusCode;
use serde_json::{Map, Value};

use super::{
    agents, approvals, attempts, attention, documents, events, feedback, follow, health, inbox,
    messages, openapi, proposals, request, resources,
    route::{
        May::{Anybody, Known, NeedsEither, User, Workers},
        Route,
        Verb::{Delete, Get, Post},
    },
    runs, tokens, workflows,
};

pub(super) fn routes() -> Vec<Route> {
    [
        daemon(),
        tokens(),
        agents(),
        agent(),
        runs(),
        following(),
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
        .gives::<Health>(),
        Route::new(User, Get, "/doctor", health::doctor, "Looks through the whole store.")
            .gives::<StoreReport>(),
        Route::new(Shutdown, Post, "/shutdown", health::shutdown, "Asks the daemon to stop.")
            .takes::<ShutdownRequest>()
            .says(StatusCode::ACCEPTED),
        Route::new(Known, Get, "/openapi.json", openapi::show, "This document."),
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
        .gives::<Vec<TokenView>>(),
        Route::new(
            User,
            Post,
            "/tokens",
            tokens::create,
            "Makes a token; the secret is shown this once.",
        )
        .takes::<TokenRequest>()
        .gives::<TokenCreated>(),
        Route::new(User, Delete, "/tokens/{name}", tokens::revoke, "Takes a token back.")
            .named::<String>()
            .says(StatusCode::NO_CONTENT),
        Route::new(
            User,
            Get,
            "/feedback",
            feedback::list,
            "What was said about the program itself.",
        )
        .gives::<Vec<FeedbackView>>(),
        Route::new(
            Send,
            Post,
            "/feedback",
            feedback::say,
            "Says something about the program itself.",
        )
        .takes::<FeedbackRequest>()
        .gives::<FeedbackView>(),
        Route::elsewhere(Known, Post, "/mcp", "A message of the Model Context Protocol.")
            .takes::<Map<String, Value>>()
            .gives_messages(),
        Route::elsewhere(Known, Get, "/mcp", "What a session is told besides its answers.")
            .tells_messages(),
        Route::elsewhere(Known, Delete, "/mcp", "Ends a session.").says(StatusCode::ACCEPTED),
    ]
}

fn agents() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/agents", agents::list, "Who is there, and what each is doing.")
            .asks::<request::Scope>()
            .gives::<Vec<AgentView>>(),
        Route::new(
            Agents,
            Post,
            "/agents",
            agents::join,
            "Lets an agent join a live run, or stand alone.",
        )
        .takes_once::<AgentRequest>()
        .gives::<AgentView>(),
        Route::new(
            Read,
            Get,
            "/agents/{target}",
            agents::show,
            "One agent, with what explains it.",
        )
        .named::<Target>()
        .asks::<request::Near>()
        .gives::<AgentDetail>(),
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
        .named::<Target>()
        .asks::<request::Near>()
        .gives::<AgentStopped>(),
        Route::new(Agents, Post, "/agents/{target}/stop", agents::stop, "Wakes an agent no more.")
            .named::<Target>()
            .asks::<request::NearStop>()
            .gives::<AgentStopped>(),
        Route::new(
            Agents,
            Post,
            "/agents/{target}/resume",
            agents::resume,
            "Wakes an agent again.",
        )
        .named::<Target>()
        .asks::<request::Near>()
        .gives::<AgentView>(),
        Route::new(
            User,
            Get,
            "/logs",
            agents::log,
            "What the worker of an agent's attempt printed, else of its last one.",
        )
        .asks::<agents::LogPage>()
        .gives::<LogReply>(),
        Route::new(
            Workers,
            Post,
            "/attempts/{id}/events",
            attempts::report,
            "What a worker reports.",
        )
        .named::<AttemptId>()
        .takes::<EventsRequest>()
        .gives::<EventsReply>(),
        Route::new(
            Workers,
            Post,
            "/attempts/{id}/approvals",
            attempts::permit,
            "Asks whether a call may happen, and waits for the answer for up to 40 s.",
        )
        .named::<AttemptId>()
        .takes::<PermitRequest>()
        .gives::<PermitReply>(),
    ]
}

fn runs() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/runs", runs::list, "Runs: live ones first, then newest first.")
            .asks::<request::Scope>()
            .gives::<Vec<RunView>>(),
        Route::new(Run, Post, "/runs", runs::start, "Starts a run, and answers when it exists.")
            .takes::<RunRequest>()
            .gives::<RunStarted>(),
        Route::new(Read, Get, "/runs/{id}", runs::show, "One run.")
            .named::<RunId>()
            .gives::<RunView>(),
        Route::new(Run, Post, "/runs/{id}/stop", runs::stop, "Ends a run and every process of it.")
            .named::<RunId>()
            .asks::<runs::Stop>()
            .gives::<RunStopped>(),
        Route::new(Run, Post, "/runs/{id}/pause", runs::pause, "Starts no more turns of a run.")
            .named::<RunId>()
            .gives::<RunView>(),
        Route::new(Run, Post, "/runs/{id}/resume", runs::resume, "Lets a paused run go on.")
            .named::<RunId>()
            .takes_once::<ResumeRequest>()
            .gives::<RunView>(),
        Route::new(Read, Get, "/stats", runs::stats, "What agents did, and how long it took.")
            .asks::<request::Scope>()
            .gives::<Vec<StatsView>>(),
    ]
}

fn following() -> Vec<Route> {
    vec![
        Route::new(
            Read,
            Get,
            "/events",
            events::watch,
            "A run to its end, or an instance from now on.",
        )
        .asks::<events::Watch>()
        .tells_events(),
        Route::new(
            Run,
            Post,
            "/run",
            follow::run,
            "Starts a run and tells its events until it rests.",
        )
        .takes::<RunRequest>()
        .tells_events(),
        Route::new(
            Run,
            Post,
            "/serve",
            follow::serve,
            "Starts a run and answers with what it came to.",
        )
        .takes::<RunRequest>()
        .gives::<RunReport>(),
    ]
}

fn messages() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/messages", messages::list, "The newest messages, oldest first.")
            .asks::<messages::Page>()
            .gives::<MessagesReply>(),
        Route::new(
            Send,
            Post,
            "/messages",
            messages::send,
            "Sends a message; answers once it is stored.",
        )
        .takes_once::<SendRequest>()
        .gives::<SendReply>(),
        Route::new(
            Read,
            Get,
            "/messages/{seq}/receipts",
            messages::receipts,
            "Where a message is.",
        )
        .named::<Seq>()
        .asks::<request::Scope>()
        .gives::<ReceiptsReply>(),
        Route::new(
            Read,
            Get,
            "/inbox",
            inbox::look,
            "What waits for an agent; looking acks nothing.",
        )
        .asks::<request::Scope>()
        .gives::<InboxReply>(),
        Route::new(
            Workers,
            Post,
            "/inbox/ack",
            inbox::ack,
            "Lets mail that was shown be done this turn.",
        )
        .takes::<AckRequest>()
        .gives::<AckReply>(),
    ]
}

fn attention() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/attention", attention::list, "What waits for a person.")
            .asks::<request::Scope>()
            .gives::<Vec<AttentionItem>>(),
        Route::new(Read, Get, "/dead", attention::dead, "Deliveries whose attempts are used up.")
            .asks::<request::Scope>()
            .gives::<Vec<DeadLetter>>(),
        Route::new(Letters, Post, "/dead/redrive", attention::redrive, "Tries dead letters again.")
            .takes_once::<DeadRequest>()
            .gives::<DeadReply>(),
        Route::new(Letters, Post, "/dead/drop", attention::drop, "Gives dead letters up.")
            .takes_once::<DeadRequest>()
            .gives::<DeadReply>(),
    ]
}

fn documents() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/documents", documents::list, "The team's documents.")
            .asks::<request::Scope>()
            .gives::<Vec<DocumentEntry>>(),
        Route::new(
            Read,
            Get,
            "/document",
            documents::named,
            "The document that is meant when none is named.",
        )
        .asks::<request::Scope>()
        .gives::<DocumentNamed>(),
        Route::new(
            Read,
            Get,
            "/diffs/{*path}",
            documents::diff,
            "What changed between two revisions.",
        )
        .named::<DocumentPath>()
        .asks::<documents::Between>()
        .gives::<DocumentDiff>(),
        Route::new(
            Read,
            Get,
            "/documents/{*path}",
            documents::read,
            "A document, or an older revision.",
        )
        .named::<DocumentPath>()
        .asks::<documents::Which>()
        .gives::<DocumentText>(),
        Route::new(Documents, Post, "/documents/{*path}", documents::write, "Writes a document.")
            .named::<DocumentPath>()
            .takes_once::<DocumentRequest>()
            .gives::<DocumentWritten>(),
        Route::new(Read, Get, "/revisions/{*path}", documents::history, "A document's revisions.")
            .named::<DocumentPath>()
            .asks::<request::Scope>()
            .gives::<Vec<DocumentEntry>>(),
    ]
}

fn suggestions() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/suggestions", documents::suggestions, "Suggestions, newest first.")
            .asks::<request::Scope>()
            .gives::<Vec<SuggestionView>>(),
        Route::new(
            Documents,
            Post,
            "/suggestions",
            documents::suggest,
            "Suggests a change to the owner.",
        )
        .takes_once::<SuggestRequest>()
        .gives::<Suggested>(),
        Route::new(
            Documents,
            Post,
            "/suggestions/{seq}",
            documents::answer,
            "Accepts or rejects one.",
        )
        .named::<Seq>()
        .takes_once::<SuggestionRequest>()
        .gives::<SuggestionView>(),
    ]
}

fn resources() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/resources", resources::list, "Long texts that are kept.")
            .asks::<request::Scope>()
            .gives::<Vec<ResourceEntry>>(),
        Route::new(Send, Post, "/resources", resources::create, "Keeps a long text.")
            .takes::<ResourceRequest>()
            .gives::<ResourceKept>(),
        Route::new(
            Read,
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
        Route::new(Read, Get, "/proposals", proposals::list, "What is voted on.")
            .asks::<proposals::Which>()
            .gives::<ProposalsReply>(),
        Route::new(Send, Post, "/proposals", proposals::create, "Makes a proposal.")
            .takes_once::<ProposalRequest>()
            .gives::<ProposalOutcome>(),
        Route::new(Read, Get, "/proposals/{id}", proposals::show, "A proposal with its votes.")
            .named::<ProposalId>()
            .asks::<request::Scope>()
            .gives::<Proposal>(),
        Route::new(Approve, Post, "/proposals/{id}/vote", proposals::vote, "Votes, or votes anew.")
            .named::<ProposalId>()
            .takes_once::<VoteRequest>()
            .gives::<ProposalOutcome>(),
        Route::new(
            NeedsEither(Send, Approve),
            Post,
            "/proposals/{id}/cancel",
            proposals::cancel,
            "Takes a proposal back.",
        )
        .named::<ProposalId>()
        .takes_once::<CancelRequest>()
        .gives::<ProposalOutcome>(),
        Route::new(Read, Get, "/questions", proposals::questions, "What agents ask a person.")
            .asks::<request::Scope>()
            .gives::<Vec<QuestionView>>(),
        Route::new(
            Approve,
            Post,
            "/questions/{id}/answer",
            proposals::answer,
            "Answers a question.",
        )
        .named::<QuestionId>()
        .takes_once::<AnswerRequest>()
        .gives::<SendReply>(),
    ]
}

fn workflows() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/workflows", workflows::list, "Instances.")
            .asks::<request::Scope>()
            .gives::<Vec<InstanceView>>(),
        Route::new(
            User,
            Post,
            "/workflows/clear",
            workflows::clear,
            "Hides what a channel says so far.",
        )
        .takes_once::<InstanceRequest>()
        .gives::<Cleared>(),
        Route::new(User, Post, "/workflows/remove", workflows::remove, "Deletes an instance.")
            .takes::<InstanceRequest>()
            .gives::<Removed>(),
    ]
}
