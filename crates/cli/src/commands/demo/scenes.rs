//! The scenes of the demo, in their order. Each scene acts through the same interface as every other client, and waits for
//! the events that it shows.

use std::time::Duration;

use agent_worker_protocol::{
    Event, EventBody,
    api::{AnswerRequest, QuestionView},
};
use uuid::Uuid;

use super::{
    captions::{self, NO_KEY_INPUT, NO_KEY_PRESSED},
    demo_home::DemoHome,
    evidence::{TeamCheck, final_checks},
    show::{Show, is_message_from, is_message_to},
    stage::{Halt, KeyOutcome, Stage},
};
use crate::{
    client::daemon_client::FeedSource,
    error::{CliError, CliErrorKind},
    output::{styled_line::Tone, text::one_line, verdict::RunVerdict},
};

/// Duration of an attempt of the coder, and its smallest value.
const WORK: Duration = Duration::from_millis(900);
const SHORTEST_WORK: Duration = Duration::from_millis(10);
/// Delay of an answer that no person gives.
const OWN_ANSWER_DELAY: Duration = Duration::from_millis(1_200);

/// Plays all scenes. The verdict is `failed` if a check does not hold.
pub(super) async fn play_scenes(
    home: &mut DemoHome,
    stage: &mut Stage<'_>,
) -> Result<RunVerdict, Halt> {
    let mut show = open_show(home, stage).await?;
    show.show_until(|event| is_message_to(event, "coder")).await?;
    show.show_until(|event| is_message_to(event, "writer")).await?;
    show.stage.heading(1).await?;
    show.show_until(|event| is_message_to(event, "reviewer")).await?;
    show.kill_the_daemon().await?;
    show.ask_the_user().await?;
    show.finish().await
}

/// Starts the daemon and the run.
async fn open_show<'a, 'c>(
    home: &'a mut DemoHome,
    stage: &'a mut Stage<'c>,
) -> Result<Show<'a, 'c>, Halt> {
    let (client, daemon_pid) = home.start_daemon().await?;
    stage.heading(0).await?;
    stage.say(Tone::Dim, &format!("The demo has its own daemon (pid {daemon_pid}).")).await?;
    let request = home.run_request(stage.paced(WORK).max(SHORTEST_WORK))?;
    let started = stage.wait(client.run_start(&request)).await?;
    let feed = stage.wait(client.events(&FeedSource::Run(started.run), None)).await?;
    let (events, checks) = (Vec::new(), Vec::new());
    Ok(Show { home, stage, client, daemon_pid, started, feed, events, checks })
}

impl Show<'_, '_> {
    /// Waits for the question of the lead, and answers it.
    async fn ask_the_user(&mut self) -> Result<(), Halt> {
        self.stage.heading(3).await?;
        let is_question = |event: &Event| matches!(event.body, EventBody::QuestionOpen(_));
        self.show_until(is_question).await?;
        self.show_until(|event| is_message_from(event, "lead")).await?;
        let scope = self.scope();
        let open = self.stage.wait(self.client.questions(&scope)).await?;
        let missing = || CliError::new(CliErrorKind::Failed, "the lead asked no question");
        let question = open.into_iter().next().ok_or_else(missing)?;
        let answer = self.choose_answer(&question).await?;
        let request = AnswerRequest { target: scope.target, project: Some(scope.project), answer };
        let key = Uuid::now_v7().to_string();
        self.stage.wait(self.client.question_answer(&key, question.id, &request)).await?;
        self.show_until(|event| is_message_from(event, "user")).await
    }

    /// Lets the user choose by a key, or chooses the first option.
    async fn choose_answer(&mut self, question: &QuestionView) -> Result<String, Halt> {
        let options: Vec<String> = question.options.iter().map(|option| one_line(option)).collect();
        let outcome = if self.stage.can_read_keys() {
            self.stage.say(Tone::Strong, &captions::keys_text(&options)).await?;
            self.stage.wait_for_key(options.len()).await?
        } else {
            KeyOutcome::Unavailable
        };
        let index = match outcome {
            KeyOutcome::Pressed(index) => index,
            KeyOutcome::TimedOut => {
                self.stage.say(Tone::Plain, NO_KEY_PRESSED).await?;
                0
            }
            KeyOutcome::Unavailable => {
                self.stage.say(Tone::Plain, NO_KEY_INPUT).await?;
                self.stage.pause(OWN_ANSWER_DELAY).await?;
                0
            }
        };
        Ok(question.options.get(index).cloned().unwrap_or_default())
    }

    /// Waits for the end of the run, checks all of it, and shows the document.
    async fn finish(&mut self) -> Result<RunVerdict, Halt> {
        self.show_until(|event| is_message_from(event, "lead")).await?;
        self.show_until(|event| matches!(event.body, EventBody::RunEnded(_))).await?;
        self.stage.heading(4).await?;
        let scope = self.scope();
        let file = self.stage.wait(self.client.document_default(&scope)).await?.file;
        let document = self.stage.wait(self.client.document(&scope, &file, None)).await?;
        let run = self.stage.wait(self.client.run(self.started.run)).await?;
        let end = self.read_team().await?;
        let checks = final_checks(&end, &self.events, &document.content);
        self.check_all(&checks).await?;
        let name = format!("{}, written by the team:", one_line(file.as_str()));
        self.stage.show_document(&name, &document.content).await?;
        let verdict = RunVerdict::of(&run).unwrap_or(RunVerdict::Failed);
        let holds = self.checks.iter().all(TeamCheck::holds);
        Ok(if holds { verdict } else { RunVerdict::Failed })
    }
}
