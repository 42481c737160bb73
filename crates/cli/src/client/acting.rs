//! The endpoints of commands that act: agents that join and leave, documents, inboxes, feedback.

use agent_worker_protocol::{
    ApprovalId, Consent, DocumentPath, Proposal, ProposalId, QuestionId, Revision, Seq, Target,
    api::{
        AckReply, AckRequest, AgentRequest, AgentStopped, AgentView, AnswerRequest, ApprovalView,
        CancelRequest, ConsentRequest, DocumentDiff, DocumentEntry, DocumentNamed, DocumentRequest,
        DocumentText, DocumentWritten, FeedbackRequest, FeedbackView, InboxReply, ProposalOutcome,
        ProposalRequest, ProposalsReply, QuestionView, SendReply, StoreReport, SuggestRequest,
        Suggested, SuggestionRequest, SuggestionView, VoteRequest,
    },
};

use super::{Answer, Client, Query, Scope, escaped};

impl Client {
    /// `POST /agents`; asked again with the same key, it is still one agent.
    pub(crate) async fn agent_new(&self, key: &str, request: &AgentRequest) -> Answer<AgentView> {
        self.daemon.post_once("/agents", key, request).await
    }

    /// `DELETE /agents/{target}`
    pub(crate) async fn agent_remove(&self, who: &Target, scope: &Scope) -> Answer<AgentStopped> {
        let path = format!("/agents/{}", escaped(&who.to_string()));
        let query = Query::new(&path).with("project", scope.project.to_str());
        self.daemon.delete(&query.done()).await
    }

    /// `GET /inbox`; an agent that names nobody asks for its own.
    pub(crate) async fn inbox(&self, scope: &Scope) -> Answer<InboxReply> {
        self.daemon.get(&scope.query("/inbox").done()).await
    }

    /// `POST /inbox/ack`
    pub(crate) async fn inbox_ack(&self, until: Seq) -> Answer<AckReply> {
        self.daemon.post("/inbox/ack", &AckRequest { until }).await
    }

    /// `GET /documents`
    pub(crate) async fn documents(&self, scope: &Scope) -> Answer<Vec<DocumentEntry>> {
        self.daemon.get(&scope.query("/documents").done()).await
    }

    /// `GET /document`: the one that is meant when none is named.
    pub(crate) async fn document_named(&self, scope: &Scope) -> Answer<DocumentNamed> {
        self.daemon.get(&scope.query("/document").done()).await
    }

    /// `GET /documents/{path}`: its newest revision, or an older one.
    pub(crate) async fn document(
        &self,
        scope: &Scope,
        file: &DocumentPath,
        revision: Option<Revision>,
    ) -> Answer<DocumentText> {
        let revision = revision.map(|revision| revision.to_string());
        let query = scope.query(&format!("/documents/{file}"));
        self.daemon.get(&query.with("revision", revision.as_deref()).done()).await
    }

    /// `POST /documents/{path}`; asked again with the same key, it is still one revision.
    pub(crate) async fn document_write(
        &self,
        key: &str,
        file: &DocumentPath,
        request: &DocumentRequest,
    ) -> Answer<DocumentWritten> {
        self.daemon.post_once(&format!("/documents/{file}"), key, request).await
    }

    /// `GET /revisions/{path}`, newest first
    pub(crate) async fn revisions(
        &self,
        scope: &Scope,
        file: &DocumentPath,
    ) -> Answer<Vec<DocumentEntry>> {
        self.daemon.get(&scope.query(&format!("/revisions/{file}")).done()).await
    }

    /// `GET /diffs/{path}`
    pub(crate) async fn diff(
        &self,
        scope: &Scope,
        file: &DocumentPath,
        between: [Option<i64>; 2],
    ) -> Answer<DocumentDiff> {
        let [from, to] = between.map(|revision| revision.map(|revision| revision.to_string()));
        let query = scope.query(&format!("/diffs/{file}"));
        self.daemon.get(&query.with("from", from.as_deref()).with("to", to.as_deref()).done()).await
    }

    /// `GET /suggestions`, newest first
    pub(crate) async fn suggestions(&self, scope: &Scope) -> Answer<Vec<SuggestionView>> {
        self.daemon.get(&scope.query("/suggestions").done()).await
    }

    /// `POST /suggestions`; asked again with the same key, it is still one.
    pub(crate) async fn suggest(&self, key: &str, request: &SuggestRequest) -> Answer<Suggested> {
        self.daemon.post_once("/suggestions", key, request).await
    }

    /// `POST /suggestions/{seq}`; asked again with the same key, it has the same answer.
    pub(crate) async fn suggestion_answer(
        &self,
        key: &str,
        suggestion: Seq,
        request: &SuggestionRequest,
    ) -> Answer<SuggestionView> {
        self.daemon.post_once(&format!("/suggestions/{suggestion}"), key, request).await
    }

    /// `GET /proposals`
    pub(crate) async fn proposals(&self, scope: &Scope) -> Answer<ProposalsReply> {
        self.daemon.get(&scope.query("/proposals").done()).await
    }

    /// `GET /proposals/{id}`
    pub(crate) async fn proposal(&self, scope: &Scope, id: ProposalId) -> Answer<Proposal> {
        self.daemon.get(&scope.query(&format!("/proposals/{id}")).done()).await
    }

    /// `POST /proposals`; asked again with the same key, it is still one proposal.
    pub(crate) async fn propose(
        &self,
        key: &str,
        request: &ProposalRequest,
    ) -> Answer<ProposalOutcome> {
        self.daemon.post_once("/proposals", key, request).await
    }

    /// `POST /proposals/{id}/vote`
    pub(crate) async fn vote(
        &self,
        key: &str,
        id: ProposalId,
        request: &VoteRequest,
    ) -> Answer<ProposalOutcome> {
        self.daemon.post_once(&format!("/proposals/{id}/vote"), key, request).await
    }

    /// `POST /proposals/{id}/cancel`
    pub(crate) async fn proposal_cancel(
        &self,
        key: &str,
        id: ProposalId,
        request: &CancelRequest,
    ) -> Answer<ProposalOutcome> {
        self.daemon.post_once(&format!("/proposals/{id}/cancel"), key, request).await
    }

    /// `GET /questions`
    pub(crate) async fn questions(&self, scope: &Scope) -> Answer<Vec<QuestionView>> {
        self.daemon.get(&scope.query("/questions").done()).await
    }

    /// `POST /questions/{id}/answer`
    pub(crate) async fn answer(
        &self,
        key: &str,
        id: QuestionId,
        request: &AnswerRequest,
    ) -> Answer<SendReply> {
        self.daemon.post_once(&format!("/questions/{id}/answer"), key, request).await
    }

    /// `GET /approvals`
    pub(crate) async fn approvals(&self, scope: &Scope) -> Answer<Vec<ApprovalView>> {
        self.daemon.get(&scope.query("/approvals").done()).await
    }

    /// `POST /approvals/{id}/approve`, `POST /approvals/{id}/deny`
    pub(crate) async fn consent(
        &self,
        key: &str,
        id: ApprovalId,
        consent: Consent,
        request: &ConsentRequest,
    ) -> Answer<ApprovalView> {
        let verb = match consent {
            Consent::Approved => "approve",
            Consent::Denied => "deny",
        };
        self.daemon.post_once(&format!("/approvals/{id}/{verb}"), key, request).await
    }

    /// `GET /feedback`
    pub(crate) async fn feedback_list(&self) -> Answer<Vec<FeedbackView>> {
        self.daemon.get("/feedback").await
    }

    /// `POST /feedback`
    pub(crate) async fn feedback(&self, request: &FeedbackRequest) -> Answer<FeedbackView> {
        self.daemon.post("/feedback", request).await
    }

    /// `GET /doctor`
    pub(crate) async fn store_report(&self) -> Answer<StoreReport> {
        self.daemon.get("/doctor").await
    }
}
