//! Endpoints for collaboration: agents, inboxes, documents, suggestions, proposals, questions, approvals and feedback.

use agent_worker_protocol::{
    ApprovalId, Consent, DocumentPath, GrantId, ProposalId, QuestionId, Revision, Seq, Target,
    api::{
        AckReply, AckRequest, AgentRequest, AgentStopped, AgentView, AnswerRequest, ApprovalView,
        CancelRequest, ConsentRequest, DocumentDiff, DocumentEntry, DocumentNamed, DocumentRequest,
        DocumentText, DocumentWritten, FeedbackRequest, FeedbackView, GrantView, InboxReply,
        ProposalOutcome, ProposalRequest, ProposalView, ProposalsReply, QuestionView,
        RevokeRequest, SendReply, StoreReport, SuggestReply, SuggestRequest, SuggestionRequest,
        SuggestionView, VoteRequest,
    },
};

use super::{
    ClientResult, CommandScope, DaemonClient, ListExtent, ProposalSelection, UrlBuilder,
    pages::ALL_PAGES, percent_encode,
};

impl DaemonClient {
    /// Sends `POST /agents`; a repetition with the same key creates no second agent.
    pub(crate) async fn agent_create(
        &self,
        key: &str,
        request: &AgentRequest,
    ) -> ClientResult<AgentView> {
        self.daemon.post_once("/agents", key, request).await
    }

    /// Sends `DELETE /agents/{target}`.
    pub(crate) async fn agent_remove(
        &self,
        who: &Target,
        scope: &CommandScope,
    ) -> ClientResult<AgentStopped> {
        let path = format!("/agents/{}", percent_encode(&who.to_string()));
        let query = UrlBuilder::new(&path).with_param("project", scope.project.to_str());
        self.daemon.delete(&query.build()).await
    }

    /// Sends `GET /inbox`, page by page; an agent without a target gets its own inbox.
    pub(crate) async fn inbox(&self, scope: &CommandScope) -> ClientResult<InboxReply> {
        self.get_pages(&scope.url_for("/inbox"), ALL_PAGES).await
    }

    /// Sends `GET /inbox` for one message, to learn whether the caller may read the inbox.
    pub(crate) async fn inbox_first(&self, scope: &CommandScope) -> ClientResult<InboxReply> {
        self.daemon.get(&scope.url_for("/inbox").with_param("limit", Some("1")).build()).await
    }

    /// Sends `POST /inbox/ack`.
    pub(crate) async fn inbox_ack(&self, until: Seq) -> ClientResult<AckReply> {
        self.daemon.post("/inbox/ack", &AckRequest { until }).await
    }

    /// Sends `GET /documents`.
    pub(crate) async fn documents(&self, scope: &CommandScope) -> ClientResult<Vec<DocumentEntry>> {
        self.get_list(scope.url_for("/documents")).await
    }

    /// Sends `GET /document`, which names the default document.
    pub(crate) async fn document_default(
        &self,
        scope: &CommandScope,
    ) -> ClientResult<DocumentNamed> {
        self.daemon.get(&scope.url_for("/document").build()).await
    }

    /// Sends `GET /documents/{path}` for the newest revision or an older one.
    pub(crate) async fn document(
        &self,
        scope: &CommandScope,
        file: &DocumentPath,
        revision: Option<Revision>,
    ) -> ClientResult<DocumentText> {
        let revision = revision.map(|revision| revision.to_string());
        let query = scope.url_for(&format!("/documents/{file}"));
        self.daemon.get(&query.with_param("revision", revision.as_deref()).build()).await
    }

    /// Sends `POST /documents/{path}`; a repetition with the same key creates no second revision.
    pub(crate) async fn document_write(
        &self,
        key: &str,
        file: &DocumentPath,
        request: &DocumentRequest,
    ) -> ClientResult<DocumentWritten> {
        self.daemon.post_once(&format!("/documents/{file}"), key, request).await
    }

    /// Sends `GET /revisions/{path}`; the newest revision comes first.
    pub(crate) async fn revisions(
        &self,
        scope: &CommandScope,
        file: &DocumentPath,
    ) -> ClientResult<Vec<DocumentEntry>> {
        self.get_list(scope.url_for(&format!("/revisions/{file}"))).await
    }

    /// Sends `GET /diffs/{path}`.
    pub(crate) async fn diff(
        &self,
        scope: &CommandScope,
        file: &DocumentPath,
        between: [Option<i64>; 2],
    ) -> ClientResult<DocumentDiff> {
        let [from, to] = between.map(|revision| revision.map(|revision| revision.to_string()));
        let query = scope.url_for(&format!("/diffs/{file}"));
        self.daemon
            .get(&query.with_param("from", from.as_deref()).with_param("to", to.as_deref()).build())
            .await
    }

    /// Sends `GET /suggestions`; the newest suggestion comes first.
    pub(crate) async fn suggestions(
        &self,
        scope: &CommandScope,
    ) -> ClientResult<Vec<SuggestionView>> {
        self.get_list(scope.url_for("/suggestions")).await
    }

    /// Sends `POST /suggestions`; a repetition with the same key creates no second suggestion.
    pub(crate) async fn suggest(
        &self,
        key: &str,
        request: &SuggestRequest,
    ) -> ClientResult<SuggestReply> {
        self.daemon.post_once("/suggestions", key, request).await
    }

    /// Sends `POST /suggestions/{seq}`; a repetition with the same key gets the same answer.
    pub(crate) async fn suggestion_answer(
        &self,
        key: &str,
        suggestion: Seq,
        request: &SuggestionRequest,
    ) -> ClientResult<SuggestionView> {
        self.daemon.post_once(&format!("/suggestions/{suggestion}"), key, request).await
    }

    /// Sends `GET /proposals`, page by page.
    pub(crate) async fn proposals(
        &self,
        scope: &CommandScope,
        which: ProposalSelection,
    ) -> ClientResult<ProposalsReply> {
        let all = match which {
            ProposalSelection::Open => None,
            ProposalSelection::All => Some("true"),
        };
        self.get_pages(&scope.url_for("/proposals").with_param("all", all), ALL_PAGES).await
    }

    /// Sends `GET /proposals/{id}`.
    pub(crate) async fn proposal(
        &self,
        scope: &CommandScope,
        id: ProposalId,
    ) -> ClientResult<ProposalView> {
        self.daemon.get(&scope.url_for(&format!("/proposals/{id}")).build()).await
    }

    /// Sends `POST /proposals`; a repetition with the same key creates no second proposal.
    pub(crate) async fn propose(
        &self,
        key: &str,
        request: &ProposalRequest,
    ) -> ClientResult<ProposalOutcome> {
        self.daemon.post_once("/proposals", key, request).await
    }

    /// Sends `POST /proposals/{id}/vote`.
    pub(crate) async fn vote(
        &self,
        key: &str,
        id: ProposalId,
        request: &VoteRequest,
    ) -> ClientResult<ProposalOutcome> {
        self.daemon.post_once(&format!("/proposals/{id}/vote"), key, request).await
    }

    /// Sends `POST /proposals/{id}/cancel`.
    pub(crate) async fn proposal_cancel(
        &self,
        key: &str,
        id: ProposalId,
        request: &CancelRequest,
    ) -> ClientResult<ProposalOutcome> {
        self.daemon.post_once(&format!("/proposals/{id}/cancel"), key, request).await
    }

    /// Sends `GET /questions`.
    pub(crate) async fn questions(&self, scope: &CommandScope) -> ClientResult<Vec<QuestionView>> {
        self.get_list(scope.list_url("/questions", ListExtent::LiveRuns)).await
    }

    /// Sends `POST /questions/{id}/answer`.
    pub(crate) async fn question_answer(
        &self,
        key: &str,
        id: QuestionId,
        request: &AnswerRequest,
    ) -> ClientResult<SendReply> {
        self.daemon.post_once(&format!("/questions/{id}/answer"), key, request).await
    }

    /// Sends `GET /approvals`.
    pub(crate) async fn approvals(&self, scope: &CommandScope) -> ClientResult<Vec<ApprovalView>> {
        self.get_list(scope.list_url("/approvals", ListExtent::LiveRuns)).await
    }

    /// Sends `POST /approvals/{id}/approve` or `POST /approvals/{id}/deny`.
    pub(crate) async fn approval_decide(
        &self,
        key: &str,
        id: ApprovalId,
        consent: Consent,
        request: &ConsentRequest,
    ) -> ClientResult<ApprovalView> {
        let verb = match consent {
            Consent::Approved => "approve",
            Consent::Denied => "deny",
        };
        self.daemon.post_once(&format!("/approvals/{id}/{verb}"), key, request).await
    }

    /// Sends `GET /grants`.
    pub(crate) async fn grants(&self, scope: &CommandScope) -> ClientResult<Vec<GrantView>> {
        self.get_list(scope.list_url("/grants", ListExtent::LiveRuns)).await
    }

    /// Sends `POST /grants/{id}/revoke`.
    pub(crate) async fn grant_revoke(
        &self,
        key: &str,
        id: GrantId,
        request: &RevokeRequest,
    ) -> ClientResult<GrantView> {
        self.daemon.post_once(&format!("/grants/{id}/revoke"), key, request).await
    }

    /// Sends `GET /feedback`.
    pub(crate) async fn feedback_list(&self) -> ClientResult<Vec<FeedbackView>> {
        self.get_list(UrlBuilder::new("/feedback")).await
    }

    /// Sends `POST /feedback`.
    pub(crate) async fn feedback_create(
        &self,
        request: &FeedbackRequest,
    ) -> ClientResult<FeedbackView> {
        self.daemon.post("/feedback", request).await
    }

    /// Sends `GET /doctor`.
    pub(crate) async fn store_report(&self) -> ClientResult<StoreReport> {
        self.daemon.get("/doctor").await
    }
}
