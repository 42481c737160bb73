//! A database with every kind of row, and a function that reads all of them.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use agent_worker_protocol::{
    ApprovalId, AttemptId, DocumentPath, EventBody, Finished, NumberedEvent, OnAsk, Outcome,
    Position, ProposalId, ProposalKind, ProposalOption, ResourceId, Revision, Role, Rule, RunId,
    Sender, Seq, TaskPath, TaskState, Terms, TieBreaker, VerdictOutcome, WorkerEvent,
    WorkerOutcome, WorkflowId,
};
use agent_worker_store::{
    ApprovalDecision, ApprovalQuery, DocumentBase, DocumentEdit, DocumentWrite, Error, EventQuery,
    GrantQuery, HopContext, Lease, ListRange, MessageOrder, MessageQuery, NewApproval,
    NewAttachment, NewBallot, NewGrant, NewMessage, NewProposal, NewQuestion, NewRun,
    NewSuggestion, NewTask, NewVerdict, OutputContent, OutputFormat, ProposalAuthority,
    ProposalQuery, QuestionQuery, RunQuery, Store, SuggestionAnswer, SuggestionVerdict, TaskEnd,
    TaskKey, TaskOutput,
};
use serde_json::json;

use crate::{
    rules,
    team::{NOW, Team, agent, answered, end, keyed, name, new_run, text, user},
};

/// The length of a resource with two blocks.
pub(crate) const SMALL: usize = 70_000;
/// Longer than a row may be, so that the resource is a file.
pub(crate) const LARGE: usize = (1 << 20) + 100_000;
const VOTING_PERIOD: Duration = Duration::from_secs(1);

/// The keys that [`read_everything`] needs.
#[derive(Clone)]
pub(crate) struct FilledStore {
    pub(crate) workflow: WorkflowId,
    runs: Vec<RunId>,
    attempts: Vec<AttemptId>,
    resource: ResourceId,
}

/// Writes at least one row of every kind that has a checksum, including a resource of this size.
pub(crate) async fn fill_store(store: &Arc<dyn Store>, size: usize) -> FilledStore {
    let mut team = Team::new(store, &["a", "b"]).await;
    let first = team.run;
    team.settle(end(Outcome::Done)).await;
    let roles = vec![(Role::DocumentOwner, name("b")), (Role::Coordinator, name("a"))];
    team.start(NewRun { roles, ..new_run(&["a", "b"]) }).await;
    team.say("work on it, both of you", &["a", "b"]).await;
    let (a, b) = (team.lease("a").await, team.lease("b").await);
    documents(&team).await;
    vote(&team, [&a, &b]).await;
    ask(&team, &a).await;
    suggest(&team, &a, &b).await;
    let verdict = NewVerdict { outcome: VerdictOutcome::Failed, summary: "no luck".into() };
    store.verdict_set(agent(&a), team.workflow, verdict, NOW).await.unwrap();
    run_task(&team).await;
    team.append(keyed(user(), "once", "x"), text("only once", &[])).await.unwrap();
    let content: Vec<u8> = (0..size).map(|n| b'a' + u8::try_from(n % 23).unwrap()).collect();
    let put = store.resource_put(user(), team.workflow, "text/plain".into(), content, NOW.wall);
    let resource = put.await.unwrap();
    let finished = Finished {
        outcome: WorkerOutcome::Ok,
        text: "what the agent answered".into(),
        session: None,
    };
    let event = NumberedEvent { no: 1, ts: NOW.wall, event: WorkerEvent::Finished(finished) };
    store.attempt_events(a.id, vec![event], NOW).await.unwrap();
    team.finish(&a, answered("what the agent answered")).await;
    let (name, media_type) = ("shot.png".parse().unwrap(), "image/png".into());
    let attachments = vec![NewAttachment { name, media_type, content: vec![1, 2, 3] }];
    team.post(NewMessage { attachments, ..text("one more, that nobody has read", &["a"]) }).await;
    FilledStore {
        workflow: team.workflow,
        runs: vec![first, team.run],
        attempts: vec![a.id, b.id],
        resource,
    }
}

async fn documents(team: &Team) {
    for content in ["a".repeat(200), "b".repeat(50), "c".repeat(9_000)] {
        let (path, base, most) = (DocumentPath::default(), DocumentBase::Append, usize::MAX);
        let write = DocumentWrite { workflow: team.workflow, path, content, base, max_bytes: most };
        team.store.document_put(user(), write, NOW).await.unwrap();
    }
}

async fn vote(team: &Team, voters: [&Lease; 2]) {
    for ballots in [1, 2] {
        let terms = Terms {
            kind: ProposalKind::Decision,
            title: "which way".into(),
            description: Some("there are two".into()),
            options: ["left", "right"].map(ProposalOption::new).into(),
            rule: Rule::Plurality,
            quorum: None,
            close_at_quorum: false,
            tie_breaker: TieBreaker::First,
            binding: false,
            role: None,
            work: None,
            gate: None,
            electorate: vec![Sender::Agent(name("a")), Sender::Agent(name("b"))],
            fallback: None,
        };
        let new = NewProposal {
            terms,
            voting_period: VOTING_PERIOD,
            recipients: rules::voters,
            hop_context: HopContext::default(),
        };
        let made = team.store.proposal_create(user(), team.workflow, new, NOW).await;
        let proposal = made.unwrap().value();
        for lease in voters.iter().take(ballots) {
            let (choice, reason, said) =
                ("left".into(), Some("it is nearer".into()), HopContext::default());
            let ballot = NewBallot {
                proposal,
                choice,
                reason,
                authority: ProposalAuthority::Own,
                hop_context: said,
            };
            let cast =
                team.store.ballot_cast(agent(lease), team.workflow, ballot, rules::TALLY_RULE, NOW);
            cast.await.unwrap();
        }
    }
}

async fn ask(team: &Team, lease: &Lease) {
    for answer in [None, Some("yes, do")] {
        let (question, options) = ("may I go left".into(), vec!["yes".into(), "no".into()]);
        let new = NewQuestion {
            question,
            options,
            text: rules::question_text,
            hop_context: HopContext::default(),
        };
        let asked = team.store.question_ask(agent(lease), team.workflow, new, NOW).await;
        if let Some(answer) = answer {
            let question = asked.unwrap().value();
            let told =
                team.store.question_answer(user(), team.workflow, question, answer.into(), NOW);
            told.await.unwrap();
        }
    }
    for (call, command) in [("1", "rm left"), ("2", "rm right")] {
        let args = json!({ "command": command });
        let new = NewApproval {
            call: call.into(),
            tool: "Bash".into(),
            args,
            on_ask: OnAsk::Wait,
            grant: None,
        };
        team.store.approval_ask(lease.fence.clone(), new, NOW).await.unwrap();
    }
    let (id, reason) = (ApprovalId::new(2), Some("it is in the way".to_owned()));
    let grant = NewGrant { pattern: "Bash(rm*)".parse().unwrap(), covers: Vec::new() };
    let decision = ApprovalDecision::ApproveForRun(grant);
    let answer = team.store.approval_answer(user(), team.workflow, id, decision, reason, NOW);
    answer.await.unwrap();
}

async fn suggest(team: &Team, author: &Lease, owner: &Lease) {
    let (workflow, path) = (team.workflow, DocumentPath::default());
    let mut made = Vec::new();
    for _ in 0..2 {
        let new = NewSuggestion {
            workflow,
            path: path.clone(),
            text: "say it better".into(),
            edit: Some(DocumentEdit::Append("better".into())),
            message: text("a suggestion", &[]),
            pause: None,
        };
        made.push(team.store.suggestion_put(agent(author), new, NOW).await.unwrap().value());
    }
    let answer = SuggestionAnswer {
        workflow,
        suggestion: made[1],
        verdict: SuggestionVerdict::Reject("it is good as it is".into()),
        message: text("no", &[]),
        pause: None,
        max_bytes: 1 << 20,
    };
    team.store.suggestion_answer(agent(owner), answer, NOW).await.unwrap();
}

/// Every row as the store returns it, by its table and key. Mutable columns without a checksum are left out.
pub(crate) type RowsByLabel = BTreeMap<String, String>;

/// Reads everything that [`fill_store`] has written; returns the errors separately.
pub(crate) async fn read_everything(
    store: &Arc<dyn Store>,
    of: &FilledStore,
) -> (RowsByLabel, Vec<Error>) {
    let mut read = RowCollector::default();
    read.channel(store, of).await;
    read.votes(store, of).await;
    read.library(store, of).await;
    for run in &of.runs {
        let row = store.run_get(*run).await;
        read.add_row(
            format!("run {run}"),
            row.map(|run| (run.id, run.mode, run.script, run.limits, run.error)),
        );
    }
    if let Some(run) = of.runs.last() {
        let tasks = store.task_list(*run).await;
        read.add_rows(tasks, |row| (format!("task {}", row.key.path), format!("{row:?}")));
        let snapshot = store.run_snapshot(*run).await;
        let verdict = require_row(snapshot.map(|snapshot| snapshot.verdict));
        read.add_row(format!("verdict {run}"), verdict);
    }
    let runs = store.run_list(RunQuery::OfInstance(of.workflow, 10)).await;
    read.add_rows(runs, |run| (format!("listed run {}", run.id), run.script.clone()));
    for attempt in &of.attempts {
        let row = store.attempt_get(*attempt).await;
        read.add_row(
            format!("attempt {attempt}"),
            row.map(|row| (row.shown, row.finished, row.ended)),
        );
    }
    for who in ["a", "b"] {
        let attempts = store.attempt_list(of.workflow, name(who), 10).await;
        read.add_rows(attempts, |row| {
            (format!("listed attempt {}", row.id), format!("{:?}", (&row.finished, &row.ended)))
        });
    }
    // A repeated key reads the stored effect and does not repeat it.
    let again = store.message_append(
        keyed(user(), "once", "x"),
        of.workflow,
        text("only once", &[]),
        None,
        NOW,
    );
    read.add_row("effect once".into(), again.await);
    (read.everything, read.errors)
}

fn require_row<T>(row: Result<Option<T>, Error>) -> Result<T, Error> {
    row?.ok_or(Error::NotFound("row"))
}

#[derive(Default)]
struct RowCollector {
    everything: RowsByLabel,
    errors: Vec<Error>,
}

impl RowCollector {
    fn add_row<T: Debug>(&mut self, label: String, row: Result<T, Error>) {
        match row {
            Ok(row) => drop(self.everything.insert(label, format!("{row:?}"))),
            Err(error) => self.errors.push(error),
        }
    }

    fn add_rows<T, S: Debug>(
        &mut self,
        rows: Result<Vec<T>, Error>,
        label: impl Fn(&T) -> (String, S),
    ) {
        match rows {
            Ok(rows) => self.everything.extend(rows.iter().map(|row| {
                let (label, row) = label(row);
                (label, format!("{row:?}"))
            })),
            Err(error) => self.errors.push(error),
        }
    }

    async fn channel(&mut self, store: &Arc<dyn Store>, of: &FilledStore) {
        let query = |search: Option<&str>| MessageQuery {
            run: None,
            after: Seq::new(0),
            before: None,
            search: search.map(Into::into),
            to: None,
            order: MessageOrder::OldestFirst,
            limit: 100,
        };
        let content = |message: &agent_worker_protocol::Message| {
            let (to, cc) = (Vec::new(), Vec::new());
            agent_worker_protocol::Message { to, cc, ..message.clone() }
        };
        let messages = store.message_list(of.workflow, query(None)).await;
        self.add_rows(messages, |message| (format!("message {}", message.seq), content(message)));
        let found = store.message_list(of.workflow, query(Some("both of you"))).await;
        self.add_rows(found, |message| {
            (format!("found message {}", message.seq), content(message))
        });
        let inbox = store.inbox_pending(of.workflow, name("a"), ListRange::first(10)).await;
        self.add_rows(inbox, |shown| {
            (format!("inbox {}", shown.message.seq), content(&shown.message))
        });
        let receipts = store.message_receipts(of.workflow, Seq::new(1)).await;
        self.add_rows(receipts, |receipt| {
            (format!("receipt {}", receipt.agent), receipt.answer.clone())
        });
        let query =
            EventQuery { workflow: of.workflow, run: None, after: Position::new(0), limit: 1_000 };
        let events = store.event_list(query).await;
        self.add_rows(events, |event| {
            let mut event = event.clone();
            if let EventBody::Message(message) = &mut event.body {
                message.to.clear();
                message.cc.clear();
            }
            (format!("event {}", event.pos.unwrap()), event)
        });
    }

    async fn votes(&mut self, store: &Arc<dyn Store>, of: &FilledStore) {
        for id in [1, 2] {
            let proposal = store.proposal_get(of.workflow, ProposalId::new(id), NOW).await;
            self.add_row(format!("proposal {id}"), require_row(proposal));
            let approval =
                store.approval_list(of.workflow, ApprovalQuery::One(ApprovalId::new(id))).await;
            self.add_row(format!("approval {id}"), require_row(approval.map(|mut one| one.pop())));
        }
        let proposals =
            store.proposal_list(of.workflow, ProposalQuery::All(ListRange::all()), NOW).await;
        self.add_rows(proposals, |proposal| {
            (format!("listed proposal {}", proposal.id), proposal.clone())
        });
        let open = store.approval_list(of.workflow, ApprovalQuery::Open).await;
        self.add_rows(open, |approval| {
            (format!("open approval {}", approval.id), approval.clone())
        });
        let grants = store.grant_list(of.workflow, GrantQuery::InForce).await;
        self.add_rows(grants, |grant| (format!("grant {}", grant.id), grant.clone()));
        let questions = store.question_list(of.workflow, QuestionQuery::All).await;
        self.add_rows(questions, |question| {
            (format!("question {}", question.id), question.clone())
        });
        let suggestions = store.suggestion_list(of.workflow, ListRange::first(10)).await;
        self.add_rows(suggestions, |one| (format!("suggestion {}", one.suggestion), one.clone()));
    }

    async fn library(&mut self, store: &Arc<dyn Store>, of: &FilledStore) {
        let path = DocumentPath::default();
        let documents = store.document_list(of.workflow, ListRange::all()).await;
        self.add_rows(documents, |info| {
            (format!("listed document {}", info.revision), info.clone())
        });
        let history = store.document_history(of.workflow, path.clone(), ListRange::first(10)).await;
        self.add_rows(history, |info| (format!("revision {}", info.revision), info.clone()));
        for revision in 1..=3 {
            let at = Some(Revision::new(revision));
            let document = store.document_get(of.workflow, path.clone(), at).await;
            self.add_row(format!("document {revision}"), require_row(document));
        }
        let resources = store.resource_list(of.workflow, ListRange::first(10)).await;
        self.add_rows(resources, |info| (format!("listed resource {}", info.id), info.clone()));
        for range in [0..u64::MAX, 10..20, 65_530..65_540, 190_000..u64::MAX] {
            let part = store.resource_get(of.workflow, of.resource, range.clone()).await;
            self.add_row(format!("resource {range:?}"), part);
        }
    }
}

async fn run_task(team: &Team) {
    let key = TaskKey::of(TaskPath::new("build"));
    let new = NewTask { key: key.clone(), condition: Some(true), items: None, message: None };
    team.store.task_start(team.run, new, NOW).await.unwrap();
    let content = OutputContent::Inline("what the command printed".into());
    let end = TaskEnd {
        key,
        state: TaskState::Done,
        condition: None,
        output: Some(TaskOutput { format: OutputFormat::Text, content }),
        exit_code: Some(0),
        error: None,
        stderr: None,
    };
    team.store.task_finish(team.run, end, NOW).await.unwrap();
}
