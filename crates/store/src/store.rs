//! The seam between what the system does and where it is kept.
//!
//! Not here: policy. The kernel decides recipients, hops, back-off and outcomes; the store keeps order, fences and counts.

use std::{ops::Range, path::PathBuf};

use agent_worker_protocol::{
    AgentName, ApprovalId, AttemptId, Consent, DocumentPath, Event, EventBody, Hash, InstanceRef,
    Limits, Message, Millis, NumberedEvent, PauseCause, Position, Proposal, ProposalId,
    ProposalState, QuestionId, Receipt, ResourceId, Revision, Role, RunId, Scopes, Seq, WorkflowId,
    api::{FeedbackView, SuggestionView, TokenView},
};
use async_trait::async_trait;

use crate::{
    damage::DamagedRow,
    error::{Error, Result},
    model::{
        AgentRow, Approval, ApprovalQuery, AttemptRow, BaseNumber, ChangeCursor, Document,
        DocumentConflict, DocumentInfo, DocumentWrite, EventQuery, Fence, FileImport, FileState,
        FileStep, FinishedAttempt, Instance, InstanceQuery, IntegrityReport, LeaseOutcome,
        LeaseRule, MessageQuery, NewAgent, NewApproval, NewAttempt, NewBallot, NewCancellation,
        NewMessage, NewProposal, NewQuestion, NewRun, NewSuggestion, Once, ProposalQuery,
        QuestionQuery, QuestionRow, ReadyAgent, ResourceInfo, ResourcePart, RunBlockers, RunQuery,
        RunRow, RunRule, RunSnapshot, RunStep, Settlement, ShownMessage, StoreFault,
        SuggestionAnswer, TallyRule, TurnRow, WriteContext,
    },
    time::{Now, StoreTime},
};

/// What the system remembers. Every method is one atomic operation; a write has reached the disk when it returns.
#[async_trait]
pub trait Store: Send + Sync {
    // Instances

    /// Finds the instance of (project, name, tag), making it if need be.
    async fn instance_open(&self, project: String, instance: InstanceRef) -> Result<WorkflowId>;
    /// The same in a database of its own, where there can be such.
    async fn instance_open_in(
        &self,
        _database: PathBuf,
        _project: String,
        _instance: InstanceRef,
    ) -> Result<WorkflowId> {
        Err(Error::SingleDatabaseOnly)
    }
    /// Lists instances, oldest first.
    async fn instance_list(&self, which: InstanceQuery) -> Result<Vec<Instance>>;
    /// Recomputes the hashes and looks for gaps; answers with the last seq, or names the message that does not fit.
    async fn instance_verify(&self, workflow: WorkflowId) -> Result<Seq>;
    /// Hides what its channel says so far; answers with the last message hidden. Nothing is deleted.
    async fn instance_clear(&self, by: WriteContext, workflow: WorkflowId, now: Now)
    -> Result<Seq>;
    /// Deletes an instance with everything in it. Refused while a run is live.
    async fn instance_remove(&self, workflow: WorkflowId) -> Result<()>;
    /// Deletes what an instance of [`crate::Keep::WhileLive`] wrote; its runs stay as rows without content. Refused while one is live.
    async fn instance_forget(&self, workflow: WorkflowId) -> Result<()>;

    // Runs

    /// Makes a run in state `setup`, with its agents; refused while another is live.
    async fn run_create(&self, workflow: WorkflowId, new: NewRun, now: Now) -> Result<()>;
    /// Lets a run that is in `setup` run, and writes its kickoff in the same step.
    async fn run_start(&self, run: RunId, kickoff: Option<NewMessage>, now: Now) -> Result<()>;
    /// Hands the facts about a run to `decide` and carries out its step. A run that has ended stays as it is.
    async fn run_settle(&self, run: RunId, decide: RunRule, now: Now) -> Result<RunStep>;
    /// Lets a paused run go on, within these limits from now on.
    async fn run_resume(
        &self,
        by: WriteContext,
        run: RunId,
        limits: Limits,
        now: Now,
    ) -> Result<()>;
    /// Reads a run.
    async fn run_get(&self, run: RunId) -> Result<RunRow>;
    /// Reads a run with everything its view is derived from, at one position of the event log.
    async fn run_snapshot(&self, run: RunId) -> Result<RunSnapshot>;
    /// Tells what keeps messages of a run from being acted upon.
    async fn run_blockers(&self, run: RunId) -> Result<RunBlockers>;
    /// Lists runs.
    async fn run_list(&self, which: RunQuery) -> Result<Vec<RunRow>>;
    /// Lists the deliveries of a run that are dead or dropped.
    async fn run_failures(&self, run: RunId) -> Result<Vec<Receipt>>;

    /// Lists the roles of a run and who has them.
    async fn run_roles(&self, run: RunId) -> Result<Vec<(Role, AgentName)>>;

    // Agents

    /// Lists the agents of an instance's live, else last, run.
    async fn agent_list(&self, workflow: WorkflowId) -> Result<Vec<AgentRow>>;
    /// Lets an agent join a live run; a name is given once in a run. Answers with the name: repeated under its key, with
    /// the one given then.
    async fn agent_add(
        &self,
        by: WriteContext,
        run: RunId,
        agent: NewAgent,
        now: Now,
    ) -> Result<AgentName>;
    /// Wakes an agent no more in the live run. A live attempt of it goes on until its worker is ended.
    async fn agent_stop(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        agent: AgentName,
        why: String,
        now: Now,
    ) -> Result<()>;
    /// Wakes a stopped agent again, and one that waits at once.
    async fn agent_resume(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        agent: AgentName,
        now: Now,
    ) -> Result<()>;
    /// Takes an agent out of the live run and drops its open mail. Refused while an attempt of it lives.
    async fn agent_remove(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        agent: AgentName,
        now: Now,
    ) -> Result<()>;
    /// Lists agents that have waking mail and no live attempt, in an instance whose run is running.
    async fn agent_ready(&self, workflow: WorkflowId) -> Result<Vec<ReadyAgent>>;

    // Messages

    /// Adds a message and a delivery for each recipient: the one way in, for both doors.
    /// With a `pause` the run is paused in the same step, so that nothing of it can be leased.
    async fn message_append(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        message: NewMessage,
        pause: Option<PauseCause>,
        now: Now,
    ) -> Result<Once<Seq>>;
    /// Reads the channel, oldest first.
    async fn message_list(&self, workflow: WorkflowId, query: MessageQuery)
    -> Result<Vec<Message>>;
    /// Reads a message and everything that replies to it, and to that, whichever run it was said in: after `after`, oldest
    /// first, at most so many.
    async fn message_thread(
        &self,
        workflow: WorkflowId,
        seq: Seq,
        after: Seq,
        limit: u32,
    ) -> Result<Vec<Message>>;
    /// Takes a short step to prepare what was said to be searched, at most so many messages of each instance; answers
    /// whether any is left to take. A search finds the same before and after, only faster.
    async fn message_index(&self, most: u32) -> Result<bool>;
    /// Tells where each delivery of a message stands.
    async fn message_receipts(&self, workflow: WorkflowId, seq: Seq) -> Result<Vec<Receipt>>;

    // Inboxes

    /// Reads what waits for an agent: waking first, urgent first, then by age. Acks nothing.
    async fn inbox_pending(
        &self,
        workflow: WorkflowId,
        agent: AgentName,
        limit: u32,
    ) -> Result<Vec<ShownMessage>>;
    /// The same for a live attempt, remembering what it was shown.
    async fn inbox_show(&self, fence: Fence, limit: u32) -> Result<Vec<ShownMessage>>;
    /// Lets mail this attempt was shown join it: acked if it succeeds, pending again if not. Answers with what joined.
    async fn inbox_ack(&self, fence: Fence, until: Seq) -> Result<Vec<Seq>>;
    /// Makes a dead letter pending again, its counts anew, its effects and journal kept.
    async fn delivery_redrive(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        agent: AgentName,
        seq: Seq,
        now: Now,
    ) -> Result<()>;
    /// Gives up a pending or dead delivery.
    async fn delivery_drop(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        agent: AgentName,
        seq: Seq,
        why: String,
        now: Now,
    ) -> Result<()>;

    // Attempts

    /// Starts an attempt if the run runs, `rule` has no objection, and the agent is free, due, not stopped and has waking mail.
    async fn attempt_lease(
        &self,
        workflow: WorkflowId,
        agent: AgentName,
        new: NewAttempt,
        rule: LeaseRule,
        now: Now,
    ) -> Result<LeaseOutcome>;
    /// Finds the live attempt a token belongs to.
    async fn attempt_by_token(&self, token: Hash) -> Result<Option<AttemptRow>>;
    /// Reads an attempt, live or ended.
    async fn attempt_get(&self, attempt: AttemptId) -> Result<AttemptRow>;
    /// Lists an agent's attempts, newest first.
    async fn attempt_list(
        &self,
        workflow: WorkflowId,
        agent: AgentName,
        limit: u32,
    ) -> Result<Vec<AttemptRow>>;
    /// Lists the turns of a run, newest first.
    async fn turn_list(&self, run: RunId, limit: u32) -> Result<Vec<TurnRow>>;
    /// Lists every live attempt.
    async fn attempt_live(&self) -> Result<Vec<AttemptRow>>;
    /// Stores a live attempt's events, each number once; answers with the highest number stored.
    async fn attempt_events(
        &self,
        attempt: AttemptId,
        events: Vec<NumberedEvent>,
        now: Now,
    ) -> Result<i64>;
    /// Ends an attempt: fence, ack or count, answer, dead letters and their notes, in one step.
    async fn attempt_finish(
        &self,
        fence: Fence,
        settlement: Settlement,
        now: Now,
    ) -> Result<FinishedAttempt>;

    // Proposals and questions

    /// Lets the agents of a run that is in `setup` elect first; its kickoff is written in the step that ends the election.
    async fn run_elect(
        &self,
        run: RunId,
        election: NewProposal,
        kickoff: Option<NewMessage>,
        now: Now,
    ) -> Result<()>;
    /// Makes a proposal and tells those who vote.
    async fn proposal_create(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        new: NewProposal,
        now: Now,
    ) -> Result<Once<ProposalId>>;
    /// Takes a vote, counts, decides, binds and tells, in one step. Answers with where the proposal stands then.
    async fn ballot_cast(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        ballot: NewBallot,
        deciding: TallyRule,
        now: Now,
    ) -> Result<Once<ProposalState>>;
    /// Takes a proposal back.
    async fn proposal_cancel(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        cancel: NewCancellation,
        now: Now,
    ) -> Result<Once<ProposalState>>;
    /// Decides every proposal whose time is up; answers with which those were.
    async fn proposal_settle(
        &self,
        workflow: WorkflowId,
        deciding: TallyRule,
        now: Now,
    ) -> Result<Vec<ProposalId>>;
    /// Reads a proposal. The deadline of an active one is shown on the wall clock of `now`.
    async fn proposal_get(
        &self,
        workflow: WorkflowId,
        proposal: ProposalId,
        now: Now,
    ) -> Result<Option<Proposal>>;
    /// Lists proposals. The deadlines of active ones are shown on the wall clock of `now`.
    async fn proposal_list(
        &self,
        workflow: WorkflowId,
        which: ProposalQuery,
        now: Now,
    ) -> Result<Vec<Proposal>>;
    /// How many proposals were ever over, also those that are forgotten: grows whenever one more is.
    async fn proposal_ended(&self, workflow: WorkflowId) -> Result<u64>;
    /// When the time of the next proposal is up.
    async fn proposal_due(&self, workflow: WorkflowId) -> Result<Option<StoreTime>>;
    /// Lists the gates of a run that are open.
    async fn run_gates(&self, run: RunId) -> Result<Vec<String>>;
    /// Asks a person something, as a live attempt.
    async fn question_ask(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        new: NewQuestion,
        now: Now,
    ) -> Result<Once<QuestionId>>;
    /// Answers a question and wakes whoever asked. Answers with the message that says so.
    async fn question_answer(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        question: QuestionId,
        answer: String,
        now: Now,
    ) -> Result<Once<Seq>>;
    /// Lists questions.
    async fn question_list(
        &self,
        workflow: WorkflowId,
        which: QuestionQuery,
    ) -> Result<Vec<QuestionRow>>;

    // Approvals
    /// Asks a person for something, or asks again, as a live attempt. An answer is told to one call of one attempt.
    async fn approval_ask(&self, fence: Fence, new: NewApproval, now: Now) -> Result<Approval>;
    /// Answers a request that is open. No agent can.
    async fn approval_answer(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        approval: ApprovalId,
        consent: Consent,
        reason: Option<String>,
        now: Now,
    ) -> Result<Once<()>>;
    /// Lists requests.
    async fn approval_list(
        &self,
        workflow: WorkflowId,
        which: ApprovalQuery,
    ) -> Result<Vec<Approval>>;

    // Documents and resources

    /// Writes a document's next revision.
    async fn document_put(
        &self,
        by: WriteContext,
        write: DocumentWrite,
        now: Now,
    ) -> Result<Once<Revision>>;
    /// Reads a document, its newest revision or an older one.
    async fn document_get(
        &self,
        workflow: WorkflowId,
        path: DocumentPath,
        at: Option<Revision>,
    ) -> Result<Option<Document>>;
    /// Lists the newest revision of every document.
    async fn document_list(&self, workflow: WorkflowId) -> Result<Vec<DocumentInfo>>;
    /// Lists the revisions of a document, newest first.
    async fn document_history(
        &self,
        workflow: WorkflowId,
        path: DocumentPath,
        limit: u32,
    ) -> Result<Vec<DocumentInfo>>;
    /// Reads a document's newest revision for a live attempt, remembering that it did.
    async fn document_show(&self, fence: Fence, path: DocumentPath) -> Result<Option<Document>>;
    /// Keeps a suggestion and tells the documents' owner; its number is that message's.
    async fn suggestion_put(
        &self,
        by: WriteContext,
        suggestion: NewSuggestion,
        now: Now,
    ) -> Result<Once<Seq>>;
    /// Answers an open suggestion and tells its author; accepted, it is carried out in the same step. Answers with the
    /// revision that wrote.
    async fn suggestion_answer(
        &self,
        by: WriteContext,
        answer: SuggestionAnswer,
        now: Now,
    ) -> Result<Once<Option<Revision>>>;
    /// Lists suggestions, newest first.
    async fn suggestion_list(
        &self,
        workflow: WorkflowId,
        limit: u32,
    ) -> Result<Vec<SuggestionView>>;
    /// Reads one suggestion.
    async fn suggestion_get(
        &self,
        workflow: WorkflowId,
        suggestion: Seq,
    ) -> Result<Option<SuggestionView>>;
    /// Reads what is known about the file of a document.
    async fn file_get(&self, workflow: WorkflowId, path: DocumentPath) -> Result<FileState>;
    /// Reads the text of a base; none if its revision was deleted.
    async fn file_base(
        &self,
        workflow: WorkflowId,
        path: DocumentPath,
        base: BaseNumber,
    ) -> Result<Option<String>>;
    /// Takes a person's text: writes its revision and makes the text the base of its slot. Refused if the newest revision
    /// is not the one it was merged with.
    async fn file_take(&self, take: FileImport, now: Now) -> Result<FileState>;
    /// Records a step of writing a document's file.
    async fn file_step(
        &self,
        workflow: WorkflowId,
        path: DocumentPath,
        step: FileStep,
    ) -> Result<FileState>;
    /// Lists what a person wrote and could not be merged.
    async fn conflict_list(&self, workflow: WorkflowId) -> Result<Vec<DocumentConflict>>;
    /// Takes one off that list.
    async fn conflict_close(&self, workflow: WorkflowId, path: DocumentPath) -> Result<()>;
    /// Keeps a resource under its hash, once.
    async fn resource_put(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        kind: String,
        content: Vec<u8>,
        now: Millis,
    ) -> Result<ResourceId>;
    /// Reads a range of a resource's bytes; what lies beyond its end is left out.
    async fn resource_get(
        &self,
        workflow: WorkflowId,
        id: ResourceId,
        range: Range<u64>,
    ) -> Result<ResourcePart>;

    /// Lists the resources, newest first.
    async fn resource_list(&self, workflow: WorkflowId, limit: u32) -> Result<Vec<ResourceInfo>>;

    // Events

    /// Notes something that happened to a live run and is no row of its own: nothing follows the end of a run.
    async fn event_append(
        &self,
        run: RunId,
        body: EventBody,
        cause: Option<String>,
        now: Now,
    ) -> Result<()>;
    /// Reads an instance's events, with the text of what they point at.
    async fn event_list(&self, query: EventQuery) -> Result<Vec<Event>>;
    /// The position of an instance's newest event.
    async fn event_last(&self, workflow: WorkflowId) -> Result<Position>;
    /// Waits until something of this instance was committed after `seen`. A hint: it says "look", never at what.
    async fn change_wait(&self, workflow: WorkflowId, seen: ChangeCursor) -> ChangeCursor;

    // Clients

    /// Adds a client's token; a name is given once.
    async fn token_put(&self, name: String, hash: Hash, scopes: Scopes, now: Millis) -> Result<()>;
    /// Finds the client a token belongs to.
    async fn token_find(&self, hash: Hash) -> Result<Option<TokenView>>;
    /// Lists the tokens, without their secrets.
    async fn token_list(&self) -> Result<Vec<TokenView>>;
    /// Takes a token back.
    async fn token_remove(&self, name: String) -> Result<()>;

    // Feedback

    /// Keeps what somebody says about the program itself.
    async fn feedback_put(&self, said: FeedbackView) -> Result<()>;
    /// The same for an agent of an instance, once per key.
    async fn feedback_submit(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        said: FeedbackView,
        now: Now,
    ) -> Result<Once<FeedbackView>>;
    /// Lists it, newest first.
    async fn feedback_list(&self, limit: u32) -> Result<Vec<FeedbackView>>;

    // The store itself

    /// The current time on the store's clock and on the wall clock.
    fn now(&self) -> Now;
    /// Both clocks as they were when the previous process last wrote; none in a new store.
    fn now_saved(&self) -> Option<Now>;
    /// Checks the whole database: its structure and every row that has a checksum.
    async fn integrity_check(&self) -> Result<IntegrityReport>;
    /// Returns the damaged rows that were met since the store was opened, or that the last check found.
    async fn damage_list(&self) -> Result<Vec<DamagedRow>>;
    /// The databases that refuse writes at the moment, without trying one.
    async fn fault_list(&self) -> Result<Vec<StoreFault>>;
    /// Writes the time to disk: proof that writes go through, and for the next start when this one was last alive.
    async fn heartbeat_put(&self, now: StoreTime) -> Result<()>;
    /// When the last pulse was.
    async fn heartbeat_last(&self) -> Result<Option<StoreTime>>;
    /// Forgets the keys of users and clients from before `before`.
    async fn effect_expire(&self, before: StoreTime) -> Result<u32>;
}
