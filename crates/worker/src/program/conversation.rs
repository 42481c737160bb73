//! The conversation with a program that reads more than its prompt: lines to its stdin, and the replies to its questions.
//!
//! An adapter decides each step and holds the state; this file carries the steps out. Every question is a task of its
//! own, so that the program may continue to write while a person decides.

use agent_worker_protocol::{Seq, TurnMessage, api::PermitRequest};
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{ProgramEvent, event_recorder::EventRecorder};
use crate::{
    turn::{TurnContext, TurnFailure},
    turn_messages::TurnMessages,
};

/// The next action of the worker.
#[derive(Debug, PartialEq)]
pub(super) enum ProgramStep {
    Report(ProgramEvent),
    /// Writes the value as one line to the program's stdin.
    Send(Value),
    Ask(ProgramQuestion),
    Message(MessageStep),
    /// Closes the program's stdin: the program has only its own end left.
    EndInput,
}

/// Progress of a message to the running turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageStep {
    /// The program has it and passes it to the model with the next step.
    Accepted(Seq),
    /// The program does not take it.
    Refused(Seq),
    /// The model has it.
    Joined(Seq),
}

/// A question of the program, which waits for the reply.
#[derive(Debug, PartialEq)]
pub(super) struct ProgramQuestion {
    /// The id of the program's request.
    pub(super) id: Value,
    pub(super) subject: QuestionSubject,
}

/// The subject of a question.
#[derive(Debug, PartialEq)]
pub(super) enum QuestionSubject {
    /// Permission for a call. The worker assigns the id of the call.
    Call(PermitRequest),
    /// Questions to the program's own user, in the format of `user_question.rs`.
    User(Value),
}

/// The reply to a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProgramReply {
    /// The call may happen, once.
    Allowed,
    /// The call may not happen, for this reason.
    Denied(String),
    /// A text for the model.
    Text(String),
}

/// Input for the adapter that does not come from the program.
pub(super) enum ConversationInput {
    /// The reply to the question with this id.
    Reply(Value, ProgramReply),
    /// A message to the running turn.
    Message(TurnMessage),
}

/// Carries out the steps of one process.
pub(super) struct ProgramConversation<'a> {
    context: &'a TurnContext,
    recorder: &'a EventRecorder<'a>,
    /// Lines for the program's stdin; `None` once it is closed.
    input: Option<mpsc::UnboundedSender<Value>>,
    open_questions: JoinSet<(Value, ProgramReply)>,
    /// Messages to the running turn, if the program takes them.
    messages: Option<TurnMessages>,
}

impl<'a> ProgramConversation<'a> {
    /// Creates the conversation with a program; without an input the program only writes.
    pub(super) fn new(
        context: &'a TurnContext,
        recorder: &'a EventRecorder<'a>,
        input: Option<mpsc::UnboundedSender<Value>>,
    ) -> Self {
        Self { context, recorder, input, open_questions: JoinSet::new(), messages: None }
    }

    /// Adds the messages to the running turn.
    pub(super) fn with_messages(self, messages: Option<TurnMessages>) -> Self {
        Self { messages, ..self }
    }

    pub(super) fn recorder(&self) -> &'a EventRecorder<'a> {
        self.recorder
    }

    /// Carries out steps in order, up to the first that fails the turn.
    pub(super) fn perform(&mut self, steps: Vec<ProgramStep>) -> Result<(), TurnFailure> {
        steps.into_iter().try_for_each(|step| self.perform_step(step))
    }

    fn perform_step(&mut self, step: ProgramStep) -> Result<(), TurnFailure> {
        match step {
            ProgramStep::Report(event) => return self.recorder.record(event),
            ProgramStep::Send(line) => {
                // A program that is gone shows that by its exit.
                let _ = self.input.as_ref().map(|input| input.send(line));
            }
            ProgramStep::Ask(question) => self.ask(question),
            ProgramStep::Message(step) => self.answer_message(step),
            ProgramStep::EndInput => {
                self.input = None;
                self.messages = None;
            }
        }
        Ok(())
    }

    fn answer_message(&mut self, step: MessageStep) {
        let Some(messages) = &mut self.messages else { return };
        match step {
            MessageStep::Accepted(seq) => messages.accept(seq),
            MessageStep::Refused(seq) => messages.refuse(seq),
            MessageStep::Joined(seq) => messages.record_joined(seq),
        }
    }

    /// Waits for the next reply or message to the running turn.
    pub(super) async fn next_input(&mut self) -> ConversationInput {
        let message = async {
            match &mut self.messages {
                Some(messages) => messages.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            (question, reply) = next_reply(&mut self.open_questions) => {
                ConversationInput::Reply(question, reply)
            }
            message = message => ConversationInput::Message(message),
        }
    }

    fn ask(&mut self, question: ProgramQuestion) {
        let gate = self.context.approvals.clone();
        let ProgramQuestion { id, subject } = question;
        self.open_questions.spawn(async move {
            let reply = match subject {
                QuestionSubject::Call(request) => {
                    // A program may give two calls the same id.
                    let request = PermitRequest { call: gate.next_call_id(), ..request };
                    match gate.request_permit(&request).await {
                        Ok(()) => ProgramReply::Allowed,
                        Err(why) => ProgramReply::Denied(why),
                    }
                }
                QuestionSubject::User(questions) => {
                    ProgramReply::Text(gate.pass_on_question(&questions).await)
                }
            };
            (id, reply)
        });
    }

    /// Returns the token that fires when the turn has to end.
    pub(super) fn cancellation(&self) -> CancellationToken {
        self.context.cancelled.clone()
    }

    /// Withdraws the open questions.
    pub(super) async fn withdraw_questions(&mut self) {
        self.open_questions.shutdown().await;
    }
}

/// Waits for the next reply, with the id of its question.
async fn next_reply(questions: &mut JoinSet<(Value, ProgramReply)>) -> (Value, ProgramReply) {
    loop {
        match questions.join_next().await {
            Some(Ok(replied)) => return replied,
            Some(Err(_)) => {}
            None => std::future::pending().await,
        }
    }
}
