//! The endpoints of commands that act: agents that join and leave, documents, inboxes, feedback.

use agent_worker_protocol::{
    ApprovalId, Consent, DocumentPath, Proposal, ProposalId, QuestionId, Revision, Seq, Target,
    api::{
        AckReply, AckRequest, AgentRequest, AgentStopped, AgentView, AnswerRequest, ApprovalView,
        CancelRequest, ConsentRequest, DocumentDiff, DocumentEntry, DocumentNamed, DocumentRequest,
        DocumentText, DocumentWritten, FeedbackRequest, FeedbackView, InboxReply, ProposalOutcome,
        ProposalRequest, ProposalsReply, QuestionView, SendReply, StoreReport, SuggestReply,
        SuggestRequest, SuggestionRequest, SuggestionView, VoteRequest,
    },
};

use super::{ClientResult, CommandScope, DaemonClient, UrlBuilder, percent_encode};

impl DaemonClient {
    /// `POST /agents`; asked again with the same key, it is still one agent.
    pub(crate) async fn agent_create(
        &self,
        key: &str,
        request: &AgentRequest,
    ) -> ClientResult<AgentView> {
        self.daemon.post_once("/agents", key, request).await
    }

    /// `DELETE /agents/{target}`
    pub(crate) async fn agent_remove(
        &self,
        who: &Target,
        scope: &CommandScope,
    ) -> ClientResult<AgentStopped> {
        let path = format!("/agents/{}", percent_encode(&who.to_string()));
        let query = UrlBuilder::new(&path).with_param("project", scope.project.to_str());
        self.daemon.delete(&query.build()).await
    }

    /// `GET /inbox`; an agent that names nobody asks for its own.
    pub(crate) async fn inbox(&self, scope: &CommandScope) -> ClientResult<InboxReply> {
        self.daemon.get(&scope.url_for("/inbox").build()).await
    }

    /// `POST /inbox/ack`
    pub(crate) async fn inbox_ack(&self, until: Seq) -> ClientResult<AckReply> {
        self.daemon.post("/inbox/ack", &AckRequest { until }).await
    }

    /// `GET /documents`
    pub(crate) async fn documents(&self, scope: &CommandScope) -> ClientResult<Vec<DocumentEntry>> {
        self.daemon.get(&scope.url_for("/documents").build()).await
    }

    /// `GET /document`: the one that is meant when none is named.
    pub(crate) async fn document_default(
        &self,
        scope: &CommandScope,
    ) -> ClientResult<DocumentNamed> {
        self.daemon.get(&scope.url_for("/document").build()).await
    }

    /// `GET /documents/{path}`: its newest revision, or an older one.
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

    /// `POST /documents/{path}`; asked again with the same key, it is still one revision.
    pub(crate) async fn document_write(
        &self,
        key: &str,
        file: &DocumentPath,
        request: &DocumentRequest,
    ) -> ClientResult<DocumentWritten> {
        self.daemon.post_once(&format!("/documents/{file}"), key, request).await
    }

    /// `GET /revisions/{path}`, newest first
    pub(crate) async fn revisions(
        &self,
        scope: &CommandScope,
        file: &DocumentPath,
    ) -> ClientResult<Vec<DocumentEntry>> {
        self.daemon.get(&scope.url_for(&format!("/revisions/{file}")).build()).await
    }

    /// `GET /diffs/{path}`
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

    /// `GET /suggestions`, newest first
    pub(crate) async fn suggestions(
        &self,
        scope: &CommandScope,
    ) -> ClientResult<Vec<SuggestionView>> {
        self.daemon.get(&scope.url_for("/suggestions").build()).await
    }

    /// `POST /suggestions`; asked again with the same key, it is still one.
    pub(crate) async fn suggest(
        &self,
        key: &str,
        request: &SuggestRequest,
    ) -> ClientResult<SuggestReply> {
        self.daemon.post_once("/suggestions", key, request).await
    }

    /// `POST /suggestions/{seq}`; asked again with the same key, it has the same answer.
    pub(crate) async fn suggestion_answer(
        &self,
        key: &str,
        suggestion: Seq,
        request: &SuggestionRequest,
    ) -> ClientResult<SuggestionView> {
        self.daemon.post_once(&format!("/suggestions/{suggestion}"), key, request).await
    }

    /// `GET /proposals`
    pub(crate) async fn proposals(&self, scope: &CommandScope) -> ClientResult<ProposalsReply> {
        self.daemon.get(&scope.url_for("/proposals").build()).await
    }

    /// `GET /proposals/{id}`
    pub(crate) async fn proposal(
        &self,
        scope: &CommandScope,
        id: ProposalId,
    ) -> ClientResult<Proposal> {
        self.daemon.get(&scope.url_for(&format!("/proposals/{id}")).build()).await
    }

    /// `POST /proposals`; asked again with the same key, it is still one proposal.
    pub(crate) async fn propose(
        &self,
        key: &str,
        request: &ProposalRequest,
    ) -> ClientResult<ProposalOutcome> {
        self.daemon.post_once("/proposals", key, request).await
    }

    /// `POST /proposals/{id}/vote`
    pub(crate) async fn vote(
        &self,
        key: &str,
        id: ProposalId,
        request: &VoteRequest,
    ) -> ClientResult<ProposalOutcome> {
        self.daemon.post_once(&format!("/proposals/{id}/vote"), key, request).await
    }

    /// `POST /proposals/{id}/cancel`
    pub(crate) async fn proposal_cancel(
        &self,
        key: &str,
        id: ProposalId,
        request: &CancelRequest,
    ) -> ClientResult<ProposalOutcome> {
        self.daemon.post_once(&format!("/proposals/{id}/cancel"), key, request).await
    }

    /// `GET /questions`
    pub(crate) async fn questions(&self, scope: &CommandScope) -> ClientResult<Vec<QuestionView>> {
        self.daemon.get(&scope.url_for("/questions").build()).await
    }

    /// `POST /questions/{id}/answer`
    pub(crate) async fn question_answer(
        &self,
        key: &str,
        id: QuestionId,
        request: &AnswerRequest,
    ) -> ClientResult<SendReply> {
        self.daemon.post_once(&format!("/questions/{id}/answer"), key, request).await
    }

    /// `GET /approvals`
    pub(crate) async fn approvals(&self, scope: &CommandScope) -> ClientResult<Vec<ApprovalView>> {
        self.daemon.get(&scope.url_for("/approvals").build()).await
    }

    /// `POST /approvals/{id}/approve`, `POST /approvals/{id}/deny`
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

    /// `GET /feedback`
    pub(crate) async fn feedback_list(&self) -> ClientResult<Vec<FeedbackView>> {
        self.daemon.get("/feedback").await
    }

    /// `POST /feedback`
    pub(crate) async fn feedback_create(
        &self,
        request: &FeedbackRequest,
    ) -> ClientResult<FeedbackView> {
        self.daemon.post("/feedback", request).await
    }

    /// `GET /doctor`
    pub(crate) async fn store_report(&self) -> ClientResult<StoreReport> {
        self.daemon.get("/doctor").await
    }
}
