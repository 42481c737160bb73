//! Tests of the team's documents: size limits and history.

use agent_worker_kernel::{DocumentBase, Error, InstanceSelector, PageRequest, Principal};
use agent_worker_protocol::{
    Code, EventKind, Problem, Revision,
    api::{DocumentWritten, SuggestRequest, SuggestionRequest},
};

use crate::{
    scripted_worker::ScriptEnd,
    world::{KernelWorld, code, instance_selector, problem, team},
};

const MOST: usize = 4 * 1024 * 1024;

async fn write(
    world: &KernelWorld,
    content: String,
    base: DocumentBase,
) -> Result<DocumentWritten, Error> {
    let (place, file) = (instance_selector("@team"), "notes.md".parse().unwrap());
    world.kernel.documents().write(&Principal::User, None, &place, file, content, base).await
}

#[tokio::test(start_paused = true)]
async fn an_append_that_would_make_a_document_too_large_is_refused_and_writes_nothing() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "")).await;
    write(&world, "x".repeat(MOST - 2), DocumentBase::Absent).await.unwrap();
    assert_eq!(
        code(write(&world, "yyy".to_owned(), DocumentBase::Append).await),
        Some(Code::TooLarge)
    );
    let (place, file) = (instance_selector("@team"), "notes.md".parse().unwrap());
    let read = world.kernel.documents().read(&Principal::User, &place, file, None).await.unwrap();
    assert_eq!((read.revision, read.content.len()), (Revision::new(1), MOST - 2));
    let written = write(&world, "yy".to_owned(), DocumentBase::Append).await.unwrap();
    assert_eq!(written.revision, Revision::new(2), "what fits is taken");
}

#[tokio::test(start_paused = true)]
async fn every_revision_of_a_document_can_be_read_also_when_its_run_is_over() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        let (kernel, who) = worker.principal().await.unwrap();
        let (own, file) = (InstanceSelector::default(), "notes.md".parse().unwrap());
        let two = "two".to_owned();
        kernel.documents().write(&who, None, &own, file, two, DocumentBase::Append).await.unwrap();
        let history = kernel
            .documents()
            .history(&who, &own, "notes.md".parse().unwrap(), &PageRequest::whole())
            .await;
        assert_eq!(history.unwrap().items.len(), 2);
        ScriptEnd::quiet()
    });
    let run = world.start(&team("coder", "")).await;
    write(&world, "one".to_owned(), DocumentBase::Absent).await.unwrap();
    world.send_to_team("@coder go").await;
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    world.stop(run).await.unwrap();
    let user = &Principal::User;
    let history = async |file: &str| {
        world
            .kernel
            .documents()
            .history(
                user,
                &instance_selector("@team"),
                file.parse().unwrap(),
                &PageRequest::whole(),
            )
            .await
    };
    let told: Vec<_> = history("notes.md")
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|entry| (entry.revision.get(), entry.author, entry.bytes))
        .collect();
    assert_eq!(told, [(2, "coder".to_owned(), 6), (1, "user".to_owned(), 3)], "newest first");
    assert_eq!(code(history("other.md").await), Some(Code::NotFound));
    let read = async |at: Option<i64>| {
        let (at, file) = (at.map(Revision::new), "notes.md".parse().unwrap());
        world.kernel.documents().read(user, &instance_selector("@team"), file, at).await
    };
    let texts = [read(None).await.unwrap(), read(Some(1)).await.unwrap()];
    assert_eq!(
        texts.map(|text| (text.content, text.author)),
        [("onetwo".to_owned(), "coder".to_owned()), ("one".to_owned(), "user".to_owned()),]
    );
    assert_eq!(code(read(Some(3)).await), Some(Code::NotFound));
    let late = write(&world, "three".to_owned(), DocumentBase::Append).await;
    assert_eq!(code(late), Some(Code::NoRun));
}

#[tokio::test(start_paused = true)]
async fn the_owner_in_the_file_writes_and_another_agent_is_referred_to_the_owner() {
    let world = KernelWorld::new().await;
    for name in ["scribe", "coder"] {
        world.machine.set_worker_script(name, |worker| async move {
            let (kernel, who) = worker.principal().await.unwrap();
            let (own, file) = (InstanceSelector::default(), "notes.md".parse().unwrap());
            let line = "line".to_owned();
            match kernel.documents().write(&who, None, &own, file, line, DocumentBase::Append).await
            {
                Ok(_) => ScriptEnd::done("written"),
                Err(error) => {
                    let problem = Problem::from(&error);
                    ScriptEnd::done(&format!("{}; {:?}", problem.message, problem.details))
                }
            }
        });
    }
    let rest = "context: { documentOwner: Scribe }\nkickoff: '@all go'";
    let run = world.run(&team("scribe coder", rest)).await;
    world.wait_until_ended(run).await;
    let mut said: Vec<_> = world.channel().await.into_iter().skip(1).collect();
    said.sort_by_key(|message| message.from.to_string());
    let said: Vec<_> = said.iter().map(|message| message.body.as_str()).collect();
    let refused =
        r#"scribe owns the documents of this run; Some(NotOwner { owner: AgentName("scribe") })"#;
    assert_eq!(said, [refused, "written"]);
}

#[tokio::test(start_paused = true)]
async fn a_suggestion_reaches_the_owner_as_data_and_its_author_is_notified_of_the_outcome() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        let (kernel, who) = worker.principal().await.unwrap();
        if worker.nth == 1 {
            let request = SuggestRequest {
                target: None,
                project: None,
                file: Some("notes.md".parse().unwrap()),
                suggestion: "name @third here".into(),
                old: Some("nobody".into()),
                new: Some("@third".into()),
            };
            let made = kernel.suggestions().create(&who, None, request).await.unwrap();
            assert_eq!(made.owner.as_str(), "scribe");
        }
        ScriptEnd::quiet()
    });
    world.machine.set_worker_script("scribe", |worker| async move {
        let (kernel, who) = worker.principal().await.unwrap();
        let list = kernel
            .suggestions()
            .list(&who, &InstanceSelector::default(), &PageRequest::whole())
            .await
            .unwrap()
            .items;
        let request = SuggestionRequest {
            target: None,
            project: None,
            accept: false,
            reason: Some("not yet, @third".into()),
        };
        kernel.suggestions().answer(&who, None, list[0].suggestion, request).await.unwrap();
        ScriptEnd::quiet()
    });
    world.machine.set_worker_script("third", |_| async { ScriptEnd::done("nobody called me") });
    let rest = "context: { documentOwner: scribe }";
    let run = world.start(&team("scribe coder third", rest)).await;
    write(&world, "ask nobody\n".to_owned(), DocumentBase::Absent).await.unwrap();
    world.send_to_team("@coder go").await;
    world.wait_for_report(run, "coder", 2).await;
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    let said: Vec<_> =
        world.channel().await.into_iter().map(|m| (m.from.to_string(), m.to, m.body)).collect();
    let to = |name: &str| vec![name.parse().unwrap()];
    let told = "Suggestion for notes.md:\nname @third here\n\nInstead of:\nnobody\n\nthis:\n@third\n\n\
        Answer it with suggestion_answer; `suggestion` is this message's seq.";
    let rejected = "Rejected for notes.md: not yet, @third";
    assert_eq!(
        said,
        [
            ("user".to_owned(), to("coder"), "@coder go".to_owned()),
            ("coder".to_owned(), to("scribe"), told.to_owned()),
            ("scribe".to_owned(), to("coder"), rejected.to_owned()),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn changes_between_two_revisions_are_shown_line_by_line() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "")).await;
    write(&world, "one\n".to_owned(), DocumentBase::Absent).await.unwrap();
    write(&world, "two\n".to_owned(), DocumentBase::Append).await.unwrap();
    let diff = async |from: Option<i64>, to: Option<i64>| {
        let (from, to) = (from.map(Revision::new), to.map(Revision::new));
        let (place, file) = (instance_selector("@team"), "notes.md".parse().unwrap());
        world.kernel.documents().diff(&Principal::User, &place, file, (from, to)).await
    };
    let newest = diff(None, None).await.unwrap();
    let expected = "--- notes.md 1\n+++ notes.md 2\n@@ -1 +1,2 @@\n one\n+two\n";
    assert_eq!((newest.from, newest.to), (Revision::new(1), Revision::new(2)));
    assert_eq!(newest.diff, expected);
    let first = diff(None, Some(1)).await.unwrap();
    assert_eq!(first.diff, "--- notes.md 0\n+++ notes.md 1\n@@ -0,0 +1 @@\n+one\n");
    assert_eq!(diff(Some(2), Some(2)).await.unwrap().diff, "");
    assert_eq!(code(diff(Some(1), Some(7)).await), Some(Code::NotFound));
    assert_eq!(code(diff(Some(7), None).await), Some(Code::NotFound));
}

#[tokio::test(start_paused = true)]
async fn a_gate_before_writing_is_before_accepting_too() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("scribe", |worker| async move {
        let (kernel, who) = worker.principal().await.unwrap();
        let open = kernel
            .suggestions()
            .list(&who, &InstanceSelector::default(), &PageRequest::whole())
            .await
            .unwrap()
            .items[0]
            .suggestion;
        let answer = async |accept: bool| {
            let reason = (!accept).then(|| "not yet".to_owned());
            let request = SuggestionRequest { target: None, project: None, accept, reason };
            kernel.suggestions().answer(&who, None, open, request).await
        };
        let refused = problem(answer(true).await);
        assert_eq!(refused.code, Code::Forbidden, "{refused:?}");
        answer(false).await.unwrap();
        ScriptEnd::done("rejected")
    });
    let file = "agents:\n  scribe: { backend: mock, requires: { document_write: release } }\n  \
        coder: { backend: mock }\ncontext: { documentOwner: scribe }\n";
    let run = world.start(file).await;
    let request = SuggestRequest {
        target: Some("@team".parse().unwrap()),
        project: None,
        file: None,
        suggestion: "a line".into(),
        old: None,
        new: Some("line\n".into()),
    };
    world.kernel.suggestions().create(&Principal::User, None, request).await.unwrap();
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    assert_eq!(world.channel().await.last().unwrap().body, "rejected");
}
