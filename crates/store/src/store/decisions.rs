//! Proposals, elections, questions and approvals.

use agent_worker_protocol::{
    ApprovalId, GrantId, Proposal, ProposalId, ProposalState, QuestionId, RunId, Seq, WorkflowId,
};
use async_trait::async_trait;

use super::store_methods;
use crate::{
    database::Database,
    error::Result,
    model::{
        Approval, ApprovalDecision, ApprovalQuery, Fence, GrantQuery, NewApproval, NewBallot,
        NewCancellation, NewMessage, NewProposal, NewQuestion, Once, PermissionGrant,
        ProposalQuery, QuestionQuery, QuestionRow, TallyRule, WriteContext,
    },
    multi_store::MultiStore,
    sql::{approvals, binding, grants, proposal_rows, proposals, questions, runs},
    time::{Now, StoreTime},
};

/// Decisions: proposals, elections, questions and approvals.
#[async_trait]
pub trait DecisionStore: Send + Sync {
    /// Starts with an election in a run that is in `setup`; the transaction that ends the election writes the
    /// kickoff.
    async fn run_elect(
        &self,
        run: RunId,
        election: NewProposal,
        kickoff: Option<NewMessage>,
        now: Now,
    ) -> Result<()>;
    /// Makes a proposal and notifies its voters.
    async fn proposal_create(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        new: NewProposal,
        now: Now,
    ) -> Result<Once<ProposalId>>;
    /// Records a vote, counts, decides, binds and announces, in one transaction. Returns the state of the proposal.
    async fn ballot_cast(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        ballot: NewBallot,
        deciding: TallyRule,
        now: Now,
    ) -> Result<Once<ProposalState>>;
    /// Cancels an active proposal.
    async fn proposal_cancel(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        cancel: NewCancellation,
        now: Now,
    ) -> Result<Once<ProposalState>>;
    /// Decides every proposal whose deadline has passed; returns their numbers.
    async fn proposal_settle(
        &self,
        workflow: WorkflowId,
        deciding: TallyRule,
        now: Now,
    ) -> Result<Vec<ProposalId>>;
    /// Reads a proposal. An active one shows its deadline on the wall clock of `now`.
    async fn proposal_get(
        &self,
        workflow: WorkflowId,
        proposal: ProposalId,
        now: Now,
    ) -> Result<Option<Proposal>>;
    /// Lists proposals. Active ones show their deadlines on the wall clock of `now`.
    async fn proposal_list(
        &self,
        workflow: WorkflowId,
        which: ProposalQuery,
        now: Now,
    ) -> Result<Vec<Proposal>>;
    /// Returns the number of proposals that have ever ended, including deleted ones: it grows with each end.
    async fn proposal_ended(&self, workflow: WorkflowId) -> Result<u64>;
    /// Returns the deadline of the next proposal.
    async fn proposal_due(&self, workflow: WorkflowId) -> Result<Option<StoreTime>>;
    /// Lists the open gates of a run.
    async fn run_gates(&self, run: RunId) -> Result<Vec<String>>;
    /// Asks a person a question, as a live attempt.
    async fn question_ask(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        new: NewQuestion,
        now: Now,
    ) -> Result<Once<QuestionId>>;
    /// Answers a question and wakes the agent that asked. Returns the message with the answer.
    async fn question_answer(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        question: QuestionId,
        answer: String,
        now: Now,
    ) -> Result<Once<Seq>>;
    /// Lists questions, oldest first.
    async fn question_list(
        &self,
        workflow: WorkflowId,
        which: QuestionQuery,
    ) -> Result<Vec<QuestionRow>>;
    /// Makes or repeats a request for approval, as a live attempt. An answer is delivered to one call of one attempt.
    async fn approval_ask(&self, fence: Fence, new: NewApproval, now: Now) -> Result<Approval>;
    /// Answers an open request, and makes a grant if the decision names one. No agent can answer one.
    async fn approval_answer(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        approval: ApprovalId,
        decision: ApprovalDecision,
        reason: Option<String>,
        now: Now,
    ) -> Result<Once<()>>;
    /// Lists requests, oldest first.
    async fn approval_list(
        &self,
        workflow: WorkflowId,
        which: ApprovalQuery,
    ) -> Result<Vec<Approval>>;
    /// Lists grants of the live run, oldest first.
    async fn grant_list(
        &self,
        workflow: WorkflowId,
        which: GrantQuery,
    ) -> Result<Vec<PermissionGrant>>;
    /// Revokes a grant in force. No agent can revoke one.
    async fn grant_revoke(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        grant: GrantId,
        now: Now,
    ) -> Result<Once<()>>;
}

store_methods! {
    impl DecisionStore;
    both {
        write of_run(run) run_elect(run: RunId, election: NewProposal, kickoff: Option<NewMessage>, now: Now) -> ()
            = move |tx| runs::start_election(tx, run, &election, kickoff.clone(), now);
        write of_workflow(workflow) proposal_create(by: WriteContext, workflow: WorkflowId, new: NewProposal, now: Now) -> Once<ProposalId>
            = move |tx| proposals::create(tx, &by, workflow, &new, now);
        write of_workflow(workflow) ballot_cast(by: WriteContext, workflow: WorkflowId, ballot: NewBallot, deciding: TallyRule, now: Now) -> Once<ProposalState>
            = move |tx| proposals::cast_ballot(tx, &by, workflow, &ballot, &deciding, now);
        write of_workflow(workflow) proposal_settle(workflow: WorkflowId, deciding: TallyRule, now: Now) -> Vec<ProposalId>
            = move |tx| proposals::settle_due_proposals(tx, workflow, &deciding, now);
        read of_workflow(workflow) proposal_get(workflow: WorkflowId, proposal: ProposalId, now: Now) -> Option<Proposal>
            = move |db| proposal_rows::get(db, workflow, proposal, now);
        read of_workflow(workflow) proposal_list(workflow: WorkflowId, which: ProposalQuery, now: Now) -> Vec<Proposal>
            = move |db| proposal_rows::list(db, workflow, which, now);
        read of_workflow(workflow) proposal_ended(workflow: WorkflowId) -> u64
            = move |db| proposal_rows::count_ended(db, workflow);
        read of_run(run) run_gates(run: RunId) -> Vec<String> = move |db| binding::list_open_gates(db, run);
        write of_workflow(workflow) question_ask(by: WriteContext, workflow: WorkflowId, new: NewQuestion, now: Now) -> Once<QuestionId>
            = move |tx| questions::ask_question(tx, &by, workflow, &new, now);
        write of_workflow(workflow) question_answer(by: WriteContext, workflow: WorkflowId, question: QuestionId, answer: String, now: Now) -> Once<Seq>
            = move |tx| questions::answer_question(tx, &by, workflow, question, &answer, now);
        read of_workflow(workflow) question_list(workflow: WorkflowId, which: QuestionQuery) -> Vec<QuestionRow>
            = move |db| questions::list(db, workflow, which);
        write of_workflow(fence.workflow) approval_ask(fence: Fence, new: NewApproval, now: Now) -> Approval
            = move |tx| approvals::request_approval(tx, &fence, &new, now);
        write of_workflow(workflow) approval_answer(by: WriteContext, workflow: WorkflowId, approval: ApprovalId, decision: ApprovalDecision, reason: Option<String>, now: Now) -> Once<()>
            = move |tx| approvals::answer_approval(tx, &by, workflow, approval, (&decision, reason.as_deref()), now);
        read of_workflow(workflow) approval_list(workflow: WorkflowId, which: ApprovalQuery) -> Vec<Approval>
            = move |db| approvals::list(db, workflow, which);
        read of_workflow(workflow) grant_list(workflow: WorkflowId, which: GrantQuery) -> Vec<PermissionGrant>
            = move |db| grants::list(db, workflow, which);
        write of_workflow(workflow) grant_revoke(by: WriteContext, workflow: WorkflowId, grant: GrantId, now: Now) -> Once<()>
            = move |tx| grants::revoke(tx, &by, workflow, grant, now);
    }
    database {}
    multi_store {
        of_workflow(workflow) proposal_cancel(by: WriteContext, workflow: WorkflowId, cancel: NewCancellation, now: Now) -> Once<ProposalState>;
        of_workflow(workflow) proposal_due(workflow: WorkflowId) -> Option<StoreTime>;
    }
    impl Database {
        async fn proposal_cancel(
            &self,
            by: WriteContext,
            workflow: WorkflowId,
            cancel: NewCancellation,
            now: Now,
        ) -> Result<Once<ProposalState>> {
            self.write(move |tx| proposals::cancel(tx, &by, workflow, &cancel, now)).await
        }
        async fn proposal_due(&self, workflow: WorkflowId) -> Result<Option<StoreTime>> {
            let load = || self.read_inline(move |db| proposal_rows::next_due(db, workflow));
            self.changes.proposals_due.get_or_load(&workflow, load).await
        }
    }
    impl MultiStore {}
}
