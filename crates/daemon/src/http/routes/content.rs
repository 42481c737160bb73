//! Routes of documents, suggestions and resources.

use agent_worker_protocol::{
    DocumentPath,
    Permission::{Documents, Read, Send},
    ResourceId, Seq,
    api::{
        DocumentDiff, DocumentEntry, DocumentNamed, DocumentRequest, DocumentText, DocumentWritten,
        ListPage, ResourceEntry, ResourceKept, ResourceRequest, ResourceText, SuggestReply,
        SuggestRequest, SuggestionRequest, SuggestionView,
    },
};

use crate::http::{
    body::BodyLimit,
    documents, extractors, resources,
    route::{
        Route,
        Verb::{Get, Post},
    },
};

pub(super) fn documents() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/documents", documents::list, "Lists the team's documents.")
            .query_params::<extractors::InstanceListQuery>()
            .returns::<ListPage<DocumentEntry>>(),
        Route::new(
            Read,
            Get,
            "/document",
            documents::default_document,
            "Returns the path of the default document.",
        )
        .query_params::<extractors::ScopeQuery>()
        .returns::<DocumentNamed>(),
        Route::new(
            Read,
            Get,
            "/diffs/{*path}",
            documents::diff,
            "Returns the diff between two revisions.",
        )
        .path_param::<DocumentPath>()
        .query_params::<documents::DocumentDiffQuery>()
        .returns::<DocumentDiff>(),
        Route::new(
            Read,
            Get,
            "/documents/{*path}",
            documents::read,
            "Returns a document, or an older revision of it.",
        )
        .path_param::<DocumentPath>()
        .query_params::<documents::DocumentReadQuery>()
        .returns::<DocumentText>(),
        Route::new(Documents, Post, "/documents/{*path}", documents::write, "Writes a document.")
            .path_param::<DocumentPath>()
            .idempotent_body::<DocumentRequest>()
            .body_limit(BodyLimit::Text)
            .returns::<DocumentWritten>(),
        Route::new(
            Read,
            Get,
            "/revisions/{*path}",
            documents::history,
            "Lists the revisions of a document.",
        )
        .path_param::<DocumentPath>()
        .query_params::<extractors::InstanceListQuery>()
        .returns::<ListPage<DocumentEntry>>(),
    ]
}

pub(super) fn suggestions() -> Vec<Route> {
    vec![
        Route::new(
            Read,
            Get,
            "/suggestions",
            documents::suggestions,
            "Lists suggestions, newest first.",
        )
        .query_params::<extractors::InstanceListQuery>()
        .returns::<ListPage<SuggestionView>>(),
        Route::new(
            Documents,
            Post,
            "/suggestions",
            documents::suggest,
            "Suggests a change to the owner.",
        )
        .idempotent_body::<SuggestRequest>()
        .body_limit(BodyLimit::Text)
        .returns::<SuggestReply>(),
        Route::new(
            Documents,
            Post,
            "/suggestions/{seq}",
            documents::answer_suggestion,
            "Accepts or rejects a suggestion.",
        )
        .path_param::<Seq>()
        .idempotent_body::<SuggestionRequest>()
        .returns::<SuggestionView>(),
    ]
}

pub(super) fn resources() -> Vec<Route> {
    vec![
        Route::new(
            Read,
            Get,
            "/resources",
            resources::list,
            "Lists the resources: stored long texts.",
        )
        .query_params::<extractors::InstanceListQuery>()
        .returns::<ListPage<ResourceEntry>>(),
        Route::new(
            Send,
            Post,
            "/resources",
            resources::create,
            "Stores a long text as a resource.",
        )
        .json_body::<ResourceRequest>()
        .body_limit(BodyLimit::Resource)
        .returns::<ResourceKept>(),
        Route::new(
            Read,
            Get,
            "/resources/{id}",
            resources::read,
            "Returns a part of a resource, a text that was too long for a message.",
        )
        .path_param::<ResourceId>()
        .query_params::<resources::ResourceRangeQuery>()
        .returns::<ResourceText>(),
    ]
}
