//! Tests of votes in whole runs: deadlines, binding decisions, elections before the kickoff, and questions to a
//! person.

use std::time::Duration;

use agent_worker_kernel::{
    AttentionNeed, DocumentBase, Error, InstanceSelector, ListingScope, PageRequest, Principal,
    ProposalFilter, WatchSubject,
};
use agent_worker_protocol::{
    Code, EventKind, Message, Outcome, PauseCause, Proposal, ProposalId, ProposalOption,
    ProposalState, QuestionId, ResolvedBy, Revision, Role, RunId, RunState, Span,
    api::{
        AnswerRequest, AskRequest, AttentionKind, CancelRequest, ProposalOutcome, ProposalRequest,
        ProposalView, SendReply, VoteRequest,
    },
};

use crate::{
    scripted_worker::{ScriptEnd, ScriptedWorker},
    world::{KernelWorld, code, instance_selector, problem, team, within},
};

const DONE: RunState = RunState::Ended { outcome: Outcome::Done };

pub(crate) fn asks(title: &str, options: &[&str]) -> ProposalRequest {
    let options: Vec<_> = options.iter().map(|id| ProposalOption::new(*id)).collect();
    let options = Some(options).filter(|options| !options.is_empty());
    ProposalRequest { title: title.into(), options, ..ProposalRequest::default() }
}

impl ScriptedWorker {
    pub(crate) async fn propose(&self, request: ProposalRequest) -> Result<ProposalOutcome, Error> {
        let (kernel, who) = self.principal().await?;
        kernel.proposals().create(&who, None, request).await
    }

    pub(crate) async fn vote(&self, id: i64, choice: &str) -> Result<ProposalOutcome, Error> {
        let (kernel, who) = self.principal().await?;
        let (choice, reason) = (choice.to_owned(), None);
        let request = VoteRequest { target: None, project: None, choice, reason };
        kernel.proposals().vote(&who, None, ProposalId::new(id), request).await
    }
}

impl KernelWorld {
    pub(crate) async fn propose(&self, request: ProposalRequest) -> Result<ProposalOutcome, Error> {
        let target = Some("@team".parse().unwrap());
        self.kernel
            .proposals()
            .create(&Principal::User, None, ProposalRequest { target, ..request })
            .await
    }

    pub(crate) async fn vote(&self, id: i64, choice: &str) -> Result<ProposalOutcome, Error> {
        let target = Some("@team".parse().unwrap());
        let (choice, reason) = (choice.to_owned(), None);
        let request = VoteRequest { target, project: None, choice, reason };
        self.kernel.proposals().vote(&Principal::User, None, ProposalId::new(id), request).await
    }

    pub(crate) async fn proposal_view(&self, id: i64) -> ProposalView {
        let (id, team) = (ProposalId::new(id), instance_selector("@team"));
        self.kernel.proposals().get(&Principal::User, &team, id).await.unwrap()
    }

    pub(crate) async fn proposal(&self, id: i64) -> Proposal {
        self.proposal_view(id).await.proposal
    }

    async fn answer(&self, id: i64, answer: &str) -> Result<SendReply, Error> {
        let target = Some("@team".parse().unwrap());
        let request = AnswerRequest { target, project: None, answer: answer.to_owned() };
        self.kernel.questions().answer(&Principal::User, None, QuestionId::new(id), request).await
    }

    async fn messages_starting_with(&self, start: &str) -> Vec<Message> {
        let mut said = self.channel().await;
        said.retain(|message| message.body.starts_with(start));
        said
    }

    async fn at(&self, run: RunId, kind: EventKind) -> i64 {
        let event = self.wait_for_event(run, |event| event.kind() == Some(kind)).await;
        self.wall_after(event.ts)
    }
}

/// Sets an agent that votes for `choice` on every proposal it gets, and otherwise does nothing.
pub(crate) fn votes(world: &KernelWorld, agent: &str, choice: &'static str) {
    world.machine.set_worker_script(agent, move |worker| async move {
        for line in worker.job.woken_by.lines() {
            if let Some(rest) = line.strip_prefix("[PROPOSAL] #") {
                let id = rest.split(' ').next().unwrap().parse().unwrap();
                worker.vote(id, choice).await.unwrap();
            }
        }
        ScriptEnd::quiet()
    });
}

#[tokio::test(start_paused = true)]
async fn a_proposal_without_votes_holds_its_run_until_its_deadline_and_its_creator_is_notified() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("lead", |worker| async move {
        if worker.nth == 1 {
            let request = ProposalRequest {
                deadline: Some(Span::from_secs(90)),
                fallback: Some("wait".into()),
                ..asks("Ship it?", &["ship", "wait"])
            };
            worker.propose(request).await.unwrap();
        }
        ScriptEnd::quiet()
    });
    let run = world.run(&team("lead coder", "kickoff: '@lead go'")).await;
    let expired = world.at(run, EventKind::ProposalExpired).await;
    assert_eq!(expired, 90_000, "neither before nor after");
    let view = world.wait_until_ended(run).await;
    assert_eq!((view.state, view.turns), (DONE, 4), "lead, both voters, and lead again");
    assert_eq!(world.proposal(1).await.resolved_by, Some(ResolvedBy::Deadline));
    let state = world.proposal(1).await.state;
    assert_eq!(state, ProposalState::Expired { fallback: Some("wait".into()), effect: None });
    let told = world.messages_starting_with("[EXPIRED]").await;
    assert_eq!(told[0].to, ["lead".parse().unwrap()]);
    assert_eq!(told[0].hops, 2, "one more than what it follows");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passed_while_no_daemon_was_there_is_kept_when_one_comes() {
    let mut world = KernelWorld::on_disk().await;
    let run = world.start(&team("lead coder", "")).await;
    world.propose(asks("Ship it?", &[])).await.unwrap();
    world.pass_time(Duration::from_mins(1)).await;
    world.stop_daemon().await;
    world.pass_time(Duration::from_mins(30)).await;
    let back = world.after(world.now());
    world.restart_daemon().await;
    assert_eq!(world.at(run, EventKind::ProposalExpired).await, back);
    assert_eq!(code(world.vote(1, "approve").await), Some(Code::Conflict));
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_stands_before_every_later_prompt() {
    let world = KernelWorld::new().await;
    votes(&world, "coder", "sqlite");
    votes(&world, "lead", "sqlite");
    let run = world.start(&team("lead coder", "")).await;
    let database = ProposalRequest { binding: true, ..asks("Which database?", &["sqlite", "pg"]) };
    world.propose(database).await.unwrap();
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::ProposalResolved)).await;
    world.send_to_team("@coder go on").await;
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    world.pass_time(Duration::from_secs(1)).await;
    let turns = world.machine.turns();
    let last = turns.iter().find(|turn| turn.woken_by == "@coder go on").unwrap();
    let line = "Decided by the team:\n- #1 Which database?: sqlite (resolved, binding)\n";
    assert!(last.prompt.starts_with(line), "{}", last.prompt);
    assert!(!turns[0].prompt.contains("Decided"), "{}", turns[0].prompt);
    let (user, at) = (&Principal::User, &instance_selector("@team"));
    let file = || "decisions.md".parse().unwrap();
    let read = world.kernel.documents().read(user, at, file(), None).await.unwrap();
    assert!(read.content.contains("## #1 Which database?\n\nresolved: sqlite"), "{}", read.content);
    assert!(read.content.contains("- coder sqlite"), "{}", read.content);
    let documents = world.kernel.documents().list(user, at, &PageRequest::whole()).await.unwrap();
    let listed = documents.items.iter().find(|entry| entry.file == file()).unwrap();
    assert_eq!((listed.author.as_str(), listed.revision), ("system", read.revision));
    assert_eq!(listed.bytes, read.content.len() as u64);
    let newest = Some(read.revision);
    let again = world.kernel.documents().read(user, at, file(), newest).await.unwrap();
    assert_eq!(again.content, read.content);
    let other = Some(Revision::new(read.revision.get() + 1));
    let other = world.kernel.documents().read(user, at, file(), other).await;
    assert_eq!(code(other), Some(Code::NotFound), "it has one revision");
    let base = DocumentBase::Append;
    let write = world.kernel.documents().write(user, None, at, file(), "x".into(), base).await;
    assert_eq!(code(write), Some(Code::Forbidden));
}

#[tokio::test(start_paused = true)]
async fn an_elected_coordinator_gets_messages_without_a_mention() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("lead", |worker| async move {
        if worker.job.woken_by.contains("[PROPOSAL]") {
            worker.vote(1, "@Coder").await.unwrap();
        } else {
            assert_eq!(worker.send("a remark").await.unwrap().woken, ["coder".parse().unwrap()]);
        }
        ScriptEnd::quiet()
    });
    world.machine.set_worker_script("coder", |worker| async move {
        if worker.job.woken_by.contains("[PROPOSAL]") {
            worker.vote(1, "coder").await.unwrap();
        } else {
            let own = worker.send("a note to myself").await.unwrap();
            assert!(own.woken.is_empty(), "its own remarks do not wake it");
        }
        ScriptEnd::quiet()
    });
    let run = world.start(&team("lead coder", "")).await;
    assert!(world.send_to_team("anybody?").await.woken.is_empty());
    let role = Some(Role::Coordinator);
    world.propose(ProposalRequest { role, binding: true, ..asks("Who?", &[]) }).await.unwrap();
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::ProposalResolved)).await;
    assert_eq!(world.send_to_team("anybody?").await.woken, ["coder".parse().unwrap()]);
    assert_eq!(world.send_to_team("@lead you").await.woken, ["lead".parse().unwrap()]);
    world.pass_time(Duration::from_secs(1)).await;
    assert_eq!(
        world.messages_starting_with("a note").await.len(),
        2,
        "for the question, and for the remark"
    );
}

#[tokio::test(start_paused = true)]
async fn the_team_elects_who_owns_its_documents_before_the_kickoff() {
    let world = KernelWorld::new().await;
    for agent in ["lead", "coder", "critic"] {
        world.machine.set_worker_script(agent, |worker| async move {
            let (kernel, who) = worker.principal().await.unwrap();
            if worker.job.woken_by.contains("[PROPOSAL]") {
                // Two of three votes are enough: the last voter gets a conflict.
                let late = code(worker.vote(1, "critic").await);
                assert!(matches!(late, None | Some(Code::Conflict)), "{late:?}");
                return ScriptEnd::quiet();
            }
            let (own, file) = (InstanceSelector::default(), "notes.md".parse().unwrap());
            let text = "mine\n".to_owned();
            let wrote =
                kernel.documents().write(&who, None, &own, file, text, DocumentBase::Append).await;
            ScriptEnd::done(if wrote.is_ok() { "wrote" } else { "refused" })
        });
    }
    let file = team("lead coder critic", "context: { documentOwner: elect }\nkickoff: '@all go'");
    let run = world.run(&file).await;
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::RunElecting)).await;
    let view = world.wait_until_ended(run).await;
    assert_eq!(view.state, DONE);
    let said: Vec<_> = world
        .channel()
        .await
        .into_iter()
        .map(|message| format!("{}: {}", message.from, message.body.lines().next().unwrap()))
        .collect();
    assert_eq!(
        said[..3],
        [
            "system: [PROPOSAL] #1 Who owns the team's documents?",
            "system: [RESOLVED] #1 Who owns the team's documents?: critic (critic is document_owner)",
            "user: @all go",
        ]
    );
    let mut answers = said[3..].to_vec();
    answers.sort();
    assert_eq!(answers, ["coder: refused", "critic: wrote", "lead: refused"]);
}

#[tokio::test(start_paused = true)]
async fn a_team_that_does_not_vote_begins_with_the_first_of_the_file_also_after_a_restart() {
    let mut world = KernelWorld::on_disk().await;
    let file = team("lead coder", "context: { documentOwner: elect }\nkickoff: '@coder go'");
    let run = world.run(&file).await;
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::RunElecting)).await;
    world.pass_time(Duration::from_mins(1)).await;
    assert_eq!(world.view(run).await.state, RunState::Electing);
    world.stop_daemon().await;
    world.pass_time(Duration::from_mins(1)).await;
    world.restart_daemon().await;
    let begun =
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::RunRunning)).await;
    assert_eq!(world.wall_after(begun.ts), 600_000);
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    let told = world.messages_starting_with("[EXPIRED]").await;
    assert!(told[0].body.contains("fallback lead (lead is document_owner)"), "{told:?}");
    assert_eq!(world.messages_starting_with("@coder go").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_the_turn_and_the_answer_wakes_who_asked() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        if worker.nth > 1 {
            return ScriptEnd::done(&format!("so it is {}", worker.job.woken_by));
        }
        let (kernel, who) = worker.principal().await.unwrap();
        let options = Some(vec!["red".to_owned(), "blue".to_owned()]);
        let request = AskRequest { question: "Which colour?".into(), options };
        let asked = kernel.questions().ask(&who, None, request).await.unwrap();
        assert_eq!(asked.question, QuestionId::new(1));
        ScriptEnd::quiet()
    });
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    let paused = world.wait_until_paused(run).await;
    assert_eq!(paused.cause.as_deref(), Some("waiting for a person"));
    assert_eq!(world.view(run).await.state, RunState::Paused { cause: PauseCause::Human });
    let (user, at) = (&Principal::User, &instance_selector("@team"));
    let items = world
        .kernel
        .attention()
        .list(user, at, ListingScope::Live, &PageRequest::whole())
        .await
        .unwrap()
        .items;
    let asked = items.iter().find(|item| item.need.kind() == AttentionKind::Question).unwrap();
    assert_eq!(asked.what, "asks #1: Which colour? (red | blue)");
    assert_eq!(asked.need, AttentionNeed::Answer(QuestionId::new(1)));
    let told = problem(world.answer(1, "rad").await);
    assert_eq!(told.code, Code::BadRequest);
    assert!(told.message.contains("did you mean `red`?"), "{}", told.message);
    let reply = world.answer(1, "Blue").await.unwrap();
    assert_eq!(reply.woken, ["coder".parse().unwrap()]);
    assert_eq!((reply.paused, reply.stopped), (None, vec![]), "the answer lets it go on");
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    assert_eq!(world.messages_starting_with("so it is blue").await.len(), 1);
    let open = world
        .kernel
        .questions()
        .list(user, at, ListingScope::Live, &PageRequest::whole())
        .await
        .unwrap()
        .items;
    assert_eq!(open, []);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_a_person_goes_on_when_one_says_something_else() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        if worker.nth == 1 {
            let (kernel, who) = worker.principal().await.unwrap();
            let request = AskRequest { question: "Which colour?".into(), options: None };
            kernel.questions().ask(&who, None, request).await.unwrap();
        }
        ScriptEnd::quiet()
    });
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_until_paused(run).await;
    world.send_to_team("@coder never mind the colour").await;
    world.wait_for_report(run, "coder", 2).await;
    world.pass_time(Duration::from_secs(1)).await;
    assert_eq!(world.view(run).await.state, RunState::Paused { cause: PauseCause::Human });
}

#[tokio::test(start_paused = true)]
async fn a_run_pauses_for_a_person_only_while_none_is_there() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        if worker.nth == 1 {
            let (kernel, who) = worker.principal().await.unwrap();
            let request = AskRequest { question: "Which colour?".into(), options: None };
            kernel.questions().ask(&who, None, request).await.unwrap();
        }
        ScriptEnd::quiet()
    });
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    let watch = async |who: &Principal| {
        let feed = world
            .kernel
            .runs()
            .watch(&Principal::User, WatchSubject::RunUntilIdle(run), None)
            .await;
        feed.unwrap().with_presence_of(who)
    };
    let person = watch(&Principal::User).await;
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    world.pass_time(Duration::from_mins(1)).await;
    let view = world.view(run).await;
    assert_eq!(view.state, RunState::Running, "somebody is there");
    assert_eq!(view.agents[0].state.to_string(), "waiting for an answer (#1)");
    let left = world.after(world.now());
    drop(person);
    let paused = world.wait_until_paused(run).await;
    assert!(world.wall_after(paused.ts) - left < 1_000, "at once, and not at the next sweep");
    let waits = RunState::Paused { cause: PauseCause::Human };
    assert_eq!(world.view(run).await.state, waits);
    let nobody = watch(&Principal::Anonymous).await;
    world.pass_time(Duration::from_mins(1)).await;
    assert_eq!(world.view(run).await.state, waits, "who may not answer is nobody to wait for");
    drop(nobody);
    // A later watcher does not see the run at rest: it continues.
    let mut person = watch(&Principal::User).await;
    let mut runs = 0;
    while runs < 2 {
        let event = within(person.next()).await.unwrap().unwrap();
        runs += usize::from(event.kind() == Some(EventKind::RunRunning));
    }
    assert_eq!(world.view(run).await.state, RunState::Running);
    world.answer(1, "blue").await.unwrap();
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
}

#[tokio::test(start_paused = true)]
async fn votes_that_lead_to_votes_are_a_chain_and_a_chain_has_an_end() {
    let world = KernelWorld::new().await;
    votes(&world, "coder", "approve");
    world.machine.set_worker_script("lead", |worker| async move {
        let electorate = Some(vec!["coder".to_owned().into()]);
        let _ = worker.propose(ProposalRequest { electorate, ..asks("Again?", &[]) }).await;
        ScriptEnd::quiet()
    });
    let run = world.run(&team("lead coder", "kickoff: '@lead go'\nlimits: { hops: 6 }")).await;
    let paused = world.wait_until_paused(run).await;
    assert!(paused.cause.unwrap().starts_with("hop limit (a chain of 7"));
}

#[tokio::test(start_paused = true)]
async fn a_tool_waits_until_its_gate_is_opened_by_a_vote() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        let (kernel, who) = worker.principal().await.unwrap();
        let (own, file) = (InstanceSelector::default(), "notes.md".parse().unwrap());
        let text = "x".to_owned();
        let wrote =
            kernel.documents().write(&who, None, &own, file, text, DocumentBase::Append).await;
        ScriptEnd::done(&wrote.map_or_else(|error| error.to_string(), |_| "wrote".to_owned()))
    });
    let file = "agents:\n  coder: { backend: mock, requires: { document_append: release } }\n";
    let run = world.start(file).await;
    let ended = async |nth: usize| {
        let seen = std::cell::Cell::new(0);
        world
            .wait_for_event(run, |event| {
                seen.set(seen.get() + usize::from(event.kind() == Some(EventKind::AttemptEnded)));
                seen.get() == nth
            })
            .await
    };
    let gate = || ProposalRequest {
        gate: Some("release".into()),
        binding: true,
        electorate: Some(vec![agent_worker_protocol::Sender::User]),
        ..asks("Release it?", &[])
    };
    world.send_to_team("@coder go").await;
    ended(1).await;
    world.propose(gate()).await.unwrap();
    world.vote(1, "reject").await.unwrap();
    world.send_to_team("@coder go").await;
    ended(2).await;
    world.propose(gate()).await.unwrap();
    world.vote(2, "approve").await.unwrap();
    world.send_to_team("@coder go").await;
    ended(3).await;
    let answers: Vec<_> = world
        .channel()
        .await
        .into_iter()
        .filter(|message| message.kind == agent_worker_protocol::MessageKind::Answer)
        .map(|message| message.body)
        .collect();
    let shut = "`document_append` is blocked: the gate `release` is closed";
    assert_eq!(answers, [shut, shut, "wrote"]);
}

#[tokio::test(start_paused = true)]
async fn a_tie_waits_for_the_creator_of_the_proposal_and_a_veto_ends_it() {
    let world = KernelWorld::new().await;
    votes(&world, "a", "x");
    votes(&world, "b", "y");
    world.machine.set_worker_script("lead", |worker| async move {
        if worker.job.woken_by.contains("a tie") {
            worker.vote(1, "y").await.unwrap();
        } else if worker.nth == 1 {
            let request = ProposalRequest {
                electorate: Some(["a", "b"].map(|name| name.to_owned().into()).into()),
                tie_breaker: Some(agent_worker_protocol::TieBreaker::CreatorDecides),
                ..asks("Which?", &["x", "y"])
            };
            worker.propose(request).await.unwrap();
        }
        ScriptEnd::quiet()
    });
    let run = world.start(&team("lead a b", "")).await;
    world.send_to_team("@lead go").await;
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::ProposalResolved)).await;
    assert_eq!(world.proposal(1).await.state.decided_option(), Some("y"));
    world.propose(asks("Veto me", &[])).await.unwrap();
    let target = Some("@team".parse().unwrap());
    let why = Some("not now".to_owned());
    let request = CancelRequest { target, project: None, why };
    let id = ProposalId::new(2);
    let vetoed =
        world.kernel.proposals().cancel(&Principal::User, None, id, request).await.unwrap();
    assert_eq!(vetoed.state.to_string(), "cancelled by user: not now");
    let (user, at) = (&Principal::User, &instance_selector("@team"));
    let open = world
        .kernel
        .proposals()
        .list(user, at, ProposalFilter::Open, &PageRequest::whole())
        .await
        .unwrap();
    assert_eq!(open.items, []);
    let all = world
        .kernel
        .proposals()
        .list(user, at, ProposalFilter::All, &PageRequest::whole())
        .await
        .unwrap();
    assert_eq!(all.items.len(), 2);
}
