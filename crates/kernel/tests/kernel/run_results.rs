//! Tests of the results of a run for programs: answers, the document's file, the verdict.

use agent_worker_kernel::{DocumentBase, InstanceSelector, ListingScope, PageRequest, Principal};
use agent_worker_protocol::{
    Code, Outcome, RunState, VerdictOutcome,
    api::{FinishReply, FinishRequest, RunError, RunErrorCode, RunReport},
};

use crate::{
    scripted_worker::{ScriptEnd, ScriptedWorker},
    world::{KernelWorld, instance_selector, problem, team},
};

const DONE: RunState = RunState::Ended { outcome: Outcome::Done };
const FAILED: RunState = RunState::Ended { outcome: Outcome::Failed };

async fn finish(
    worker: &ScriptedWorker,
    outcome: VerdictOutcome,
    summary: &str,
) -> Result<FinishReply, agent_worker_kernel::Error> {
    let (kernel, who) = worker.principal().await?;
    let request = FinishRequest { outcome, summary: summary.to_owned() };
    kernel.runs().finish(&who, None, request).await
}

#[tokio::test(start_paused = true)]
async fn a_run_reports_the_newest_answer_of_each_agent_and_the_file_of_its_document() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("lead", |worker| async move {
        if worker.nth == 1 {
            worker.send("@coder write it").await.unwrap();
            return ScriptEnd::done("asked coder");
        }
        ScriptEnd::done(&"long ".repeat(8 * 1024))
    });
    world.machine.set_worker_script("coder", |worker| async move {
        let (kernel, who) = worker.principal().await.unwrap();
        let (own, file) = (InstanceSelector::default(), "notes.md".parse().unwrap());
        let text = "a note\n".to_owned();
        let base = DocumentBase::Append;
        kernel.documents().write(&who, None, &own, file, text, base).await.unwrap();
        worker.send("@lead done").await.unwrap();
        ScriptEnd::done("written")
    });
    let run = world.run(&team("lead coder quiet", "kickoff: '@lead go'")).await;
    assert_eq!(world.view(run).await.document, None, "there is no document yet");
    let view = world.wait_until_ended(run).await;
    let report = RunReport::of(&view).unwrap();
    let names: Vec<_> = report.answers.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["coder", "lead"]);
    assert_eq!(report.answers[&"coder".parse().unwrap()].text, "written");
    let long = &report.answers[&"lead".parse().unwrap()];
    assert!(long.resource.is_some() && long.text.len() < 4096, "{} bytes", long.text.len());
    let folder = world.folder().canonicalize().unwrap();
    let expected = folder.join(".workflow/team/main/documents/notes.md");
    assert_eq!(report.document, Some(expected));
    let place = instance_selector("@team");
    let user = &Principal::User;
    let listed = world
        .kernel
        .runs()
        .list(user, &place, ListingScope::All, &PageRequest::default())
        .await
        .unwrap();
    assert!(listed.items[0].answers.is_empty(), "a list has no answers");
}

#[tokio::test(start_paused = true)]
async fn a_verdict_makes_an_outcome_worse_and_never_better() {
    for (finisher, outcome, fails, expected) in [
        ("lead", VerdictOutcome::Failed, false, FAILED),
        ("lead", VerdictOutcome::Done, false, DONE),
        ("lead", VerdictOutcome::Done, true, FAILED),
    ] {
        let world = KernelWorld::new().await;
        world.machine.set_worker_script("lead", move |worker| async move {
            let reply = finish(&worker, outcome, "  two tests fail ").await.unwrap();
            assert_eq!(reply.verdict.summary, "two tests fail");
            worker.send("@coder last").await.unwrap();
            ScriptEnd::quiet()
        });
        world.machine.set_worker_script("coder", move |worker| async move {
            let refused = problem(finish(&worker, outcome, "mine").await);
            assert_eq!(refused.code, Code::Forbidden);
            assert_eq!(refused.message, "only `lead` may set the verdict of this run");
            if fails {
                ScriptEnd::fails(agent_worker_protocol::FailureClass::Fatal)
            } else {
                ScriptEnd::done("worked on")
            }
        });
        let rest = format!("finisher: {finisher}\nkickoff: '@lead go'");
        let run = world.run(&team("lead coder", &rest)).await;
        let view = world.wait_until_ended(run).await;
        assert_eq!(view.state, expected, "{outcome} {fails}");
        let verdict = view.verdict.clone().unwrap();
        assert_eq!((verdict.outcome, verdict.by.as_str()), (outcome, "lead"));
        let message = "two tests fail".to_owned();
        let error = Some(RunError { code: RunErrorCode::Verdict, message });
        assert_eq!(view.error, error.filter(|_| outcome == VerdictOutcome::Failed));
        if !fails {
            assert_eq!(
                view.answers[&"coder".parse().unwrap()].text,
                "worked on",
                "the work continues"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_verdict_needs_a_summary_and_an_agent_with_the_role() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("lead", |worker| async move {
        let done = VerdictOutcome::Done;
        let nobody = problem(finish(&worker, done, "x").await);
        let why =
            "the run has neither a coordinator nor a finisher, so no agent may set its verdict";
        assert_eq!((nobody.code, nobody.message.as_str()), (Code::Forbidden, why));
        assert_eq!(problem(finish(&worker, done, " ").await).code, Code::BadRequest);
        let long = "x".repeat(9 * 1024);
        assert_eq!(problem(finish(&worker, done, &long).await).code, Code::TooLarge);
        ScriptEnd::quiet()
    });
    let run = world.run(&team("lead", "kickoff: '@lead go'")).await;
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    let request = FinishRequest { outcome: VerdictOutcome::Failed, summary: "x".into() };
    let user = world.kernel.runs().finish(&Principal::User, None, request).await;
    assert_eq!(problem(user).code, Code::Forbidden);
}
