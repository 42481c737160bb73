//! Backends that start a program for every turn, read its output and judge its end.
//!
//! `ProgramBackend` runs a program with an output stream of its own, through one adapter per program; `AcpBackend`
//! holds a conversation in the Agent Client Protocol. An adapter is pure except for its private files: it defines
//! the start of its program and the meaning of each line. The last event and the exit status together determine the
//! outcome; no text does. A program that asks during its turn is in a conversation (`conversation.rs`).

mod acp;
mod adapters;
mod conversation;
mod endpoint;
mod event_recorder;
mod executable;
mod file_mentions;
mod launch;
mod line_reader;
mod output_reader;
mod private_files;
mod process;
mod session_opener;
mod stream_errors;
#[cfg(test)]
mod tests;
mod version;

use std::{collections::BTreeMap, path::Path, process::ExitStatus};

use agent_worker_backends::{BackendSpec, find_backend};
use agent_worker_protocol::{
    CredentialMode, FailureClass, Native, TurnMessage, Usage, WorkerEvent,
};
use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;

pub(crate) use self::acp::AcpBackend;
use self::{
    adapters::{NewAdapter, find_adapter},
    conversation::{MessageStep, ProgramReply, ProgramStep},
    endpoint::ModelEndpoint,
    event_recorder::EventRecorder,
    executable::Executable,
    launch::{ProgramLaunch, open_tool_server, serve_tools},
    session_opener::SessionOpener,
    version::SupportedVersions,
};
use crate::{
    backend::AgentBackend,
    child_env::exit_status_text,
    model::ToolResult,
    pricing::{ModelTokenUsage, PricingContext},
    structured_answer::{rejection, repair_prompt},
    tool_server::ToolServerEndpoint,
    truncation::truncate,
    turn::{TurnAnswer, TurnContext, TurnFailure},
};

/// Maximum length of a program's error output in a failure.
const MAX_FAILURE_DETAIL_BYTES: usize = 500;

/// One turn of a program: the turn itself, and the endpoints and settings of the program.
struct ProgramTurn<'a> {
    context: &'a TurnContext,
    /// The model, in the program's own naming.
    model: Option<String>,
    mode: CredentialMode,
    endpoint: ModelEndpoint,
    /// Serves the team's tools.
    tool_server: &'a ToolServerEndpoint,
    /// Serves the program's requests for approval.
    gate: &'a ToolServerEndpoint,
    /// The conversation to continue.
    session: Option<Value>,
}

/// Arguments, environment and input of a program.
#[derive(Debug, Default, PartialEq, Eq)]
struct ProgramInvocation {
    args: Vec<String>,
    /// Added to the environment of the job.
    env: BTreeMap<String, String>,
    /// The prompt, or the first lines of a conversation.
    stdin: String,
    /// True for a conversation: the adapter closes the input.
    keeps_input_open: bool,
    /// True if the program takes messages during its turn.
    takes_messages: bool,
}

/// The meaning of a line.
#[derive(Debug, PartialEq)]
enum ProgramEvent {
    Text(String),
    ToolCalled {
        id: String,
        tool: String,
        args: Value,
    },
    ToolAnswered {
        id: String,
        tool: String,
        result: ToolResult,
    },
    /// Tokens, with their cost if the program reports it.
    Usage(Usage),
    /// Tokens of each model, where the program never reports a cost.
    UsageByModel(Vec<ModelTokenUsage>),
    /// A tool runs, which the program reports only together with its result.
    ToolsStarted,
    /// No such tool runs any more.
    ToolsEnded,
    Retry(String),
    Session(Value),
    /// The turn has failed; the rest of the output does not matter.
    GaveUp(TurnFailure),
}

/// The meaning of a line of stderr.
#[derive(Debug, PartialEq)]
enum StderrLine {
    /// A complaint, which explains a failure.
    Complaint,
    /// A line of the program's log that users may read.
    LogEntry(Vec<ProgramEvent>),
    /// A line of the program's log that only its developers need.
    RoutineEntry(Vec<ProgramEvent>),
}

/// The end of a process.
struct ProgramExit {
    status: ExitStatus,
    /// The end of its stderr.
    stderr_tail: String,
    /// True if the worker ended the program, which had reported its result and did not exit.
    ended_after_result: bool,
}

/// The outcome of one process.
#[derive(Debug, PartialEq)]
enum ProgramOutcome {
    Answered(String),
    Failed(TurnFailure),
    /// The program does not know the conversation that it had to continue, and did nothing.
    SessionLost,
}

/// One kind of program: the way to start it, and the state of reading its output. Created for each process.
trait ProgramAdapter: Send {
    fn invocation(&mut self, turn: &ProgramTurn<'_>) -> std::io::Result<ProgramInvocation>;
    /// Parses a line of a program that only writes.
    fn parse_line(&mut self, _line: &str) -> Vec<ProgramEvent> {
        Vec::new()
    }
    /// Interprets a line. A program in a conversation gets lines in return.
    fn handle_line(&mut self, line: &str) -> Vec<ProgramStep> {
        self.parse_line(line).into_iter().map(ProgramStep::Report).collect()
    }
    /// Continues a conversation with the reply to a question.
    fn handle_reply(&mut self, _question: &Value, _reply: ProgramReply) -> Vec<ProgramStep> {
        Vec::new()
    }
    /// Passes a message on to the running turn. Only for a program that takes messages.
    fn handle_message(&mut self, message: TurnMessage) -> Vec<ProgramStep> {
        vec![ProgramStep::Message(MessageStep::Refused(message.seq))]
    }
    /// Returns the steps that stop the turn, if the program can stop and report its usage.
    fn cancel_steps(&mut self) -> Vec<ProgramStep> {
        Vec::new()
    }
    fn outcome(&mut self, exit: &ProgramExit) -> ProgramOutcome;
    /// Returns true if stderr has routine entries, which the worker's log leaves out.
    fn has_routine_log(&self) -> bool {
        false
    }
    fn parse_stderr_line(&mut self, _line: &str) -> StderrLine {
        StderrLine::Complaint
    }
    /// Returns true once the program has reported the result of the turn: it has only its own end left.
    fn has_result(&self) -> bool {
        false
    }
    /// Returns the deadline for the next line, and the failure after that deadline.
    fn wait_limit(&self) -> Option<(Instant, TurnFailure)> {
        None
    }
}

/// Runs a vendor's agent, or any executable, as one process per turn.
pub(crate) struct ProgramBackend {
    launch: ProgramLaunch,
    new_adapter: NewAdapter,
    /// The row of a vendor's program; `None` for any executable.
    spec: Option<&'static BackendSpec>,
}

impl ProgramBackend {
    /// Returns the backend of a vendor's agent. Fails for a name that this version does not know.
    pub(crate) fn native(native: &Native) -> Result<Self, TurnFailure> {
        let Native { cli, command, args, mode, session } = native;
        let (Some(spec), Some(new_adapter)) = (find_backend(cli.word()), find_adapter(cli.word()))
        else {
            return Err(unknown_backend(cli.word()));
        };
        let launch = ProgramLaunch::new(command, spec.programs, *mode, *session)
            .with_args(args)
            .with_agent(Some(spec.name));
        Ok(Self { launch, new_adapter, spec: Some(spec) })
    }

    /// Returns the backend of an executable that speaks our own protocol.
    pub(crate) fn executable(command: &[String]) -> Self {
        Self {
            launch: ProgramLaunch::executable(command),
            new_adapter: |_| Box::new(Executable::default()),
            spec: None,
        }
    }

    /// Changes the turn so that it asks once more for a structured answer, in the same conversation. Returns false if the answer
    /// is valid, or if the program has no conversation.
    fn begin_repair(&mut self, turn: &mut TurnContext, answer: &TurnAnswer) -> bool {
        let read = turn.answer_schema.as_ref().map(|schema| schema.read(&answer.text));
        let (Some(Err(why)), Some(_)) = (read, self.spec) else { return false };
        let Some(session) = turn.take_session() else { return false };
        let retried = format!("{}; asking once more", rejection(&why));
        turn.reporter.record(WorkerEvent::Retry { why: retried });
        turn.request.prompt = repair_prompt(&why);
        turn.request.attachments.clear();
        turn.request.session = Some(session);
        self.launch.continue_session();
        true
    }

    async fn run(&self, context: &TurnContext) -> Result<TurnAnswer, TurnFailure> {
        let path = self.launch.resolve_path(&context.child_env)?;
        self.check_version(&path, context).await?;
        let tools = context.until_cancelled(open_tool_server(context)).await?;
        let endpoints = (tools.endpoint.clone(), tools.gate_endpoint.clone());
        let work = self.run_models(&path, context, &endpoints);
        let served = serve_tools(tools, context, work).await;
        // A vendor's agent that never listed the tools did nothing for the team. An executable need not use them.
        match self.spec {
            Some(_) => served.require_tool_listing(self.launch.name()),
            None => served.done,
        }
    }

    /// Runs the turn with its model, and with the next fallback while a model is overloaded or used up. A turn that has
    /// called a tool or got a further message is not repeated here: the next attempt gets the results and the message.
    async fn run_models(
        &self,
        path: &Path,
        context: &TurnContext,
        endpoints: &(ToolServerEndpoint, ToolServerEndpoint),
    ) -> Result<TurnAnswer, TurnFailure> {
        let mut model = context.request.model.as_deref();
        for next in &context.request.fallback {
            let failure = match self.run_model(path, context, endpoints, model).await {
                Err(failure) if failure.is_of_provider() => failure,
                done => return done,
            };
            if context.reporter.has_effects() {
                return Err(failure);
            }
            let used = model.unwrap_or("the default model");
            let why = format!("{used} failed ({}); using {next}", failure.why);
            context.reporter.record(WorkerEvent::Retry { why });
            model = Some(next);
        }
        self.run_model(path, context, endpoints, model).await
    }

    async fn run_model(
        &self,
        path: &Path,
        context: &TurnContext,
        (tool_server, gate): &(ToolServerEndpoint, ToolServerEndpoint),
        model: Option<&str>,
    ) -> Result<TurnAnswer, TurnFailure> {
        let model = self.spec.and_then(|spec| spec.model_name(model));
        let variables = self.spec.map(|spec| spec.endpoint.variables(model.as_deref()));
        let endpoint =
            ModelEndpoint::from_env(&variables.unwrap_or_default(), &context.child_env.env);
        let mode = self.launch.mode_for(&endpoint);
        let pricing = PricingContext {
            backend: self.spec.map_or("", |spec| spec.name),
            model: model.clone(),
            has_default_settings: mode == CredentialMode::Isolated,
        };
        let turn = ProgramTurn {
            context,
            model,
            mode,
            endpoint,
            tool_server,
            gate,
            session: self.launch.session(context),
        };
        let (keep, cwd) = (&context.folders.keep, &context.child_env.cwd);
        let opener = self.spec.and_then(|spec| SessionOpener::new(spec, mode, keep, cwd));
        let recorder = EventRecorder::new(context, pricing).with_opener(opener);
        self.run_processes(path, turn, &recorder).await
    }

    /// Checks the version of a vendor's program before the agent's first turn in the run, and after an update.
    async fn check_version(&self, path: &Path, context: &TurnContext) -> Result<(), TurnFailure> {
        let Some(spec) = self.spec else { return Ok(()) };
        let Some(oldest) = spec.oldest_version else { return Ok(()) };
        let checked = version::CheckedProgram::new(path, &context.folders.keep);
        if checked.is_recorded() {
            return Ok(());
        }
        let supported = SupportedVersions { program: spec.name, oldest, install: spec.install };
        let mut command = self.launch.command(path, &context.child_env);
        // Some programs write into the home of the user even for this.
        let home = context.folders.keep.join("version-check");
        command.env("HOME", &home);
        command.envs(spec.isolated_homes.iter().map(|(name, folder)| (name, home.join(folder))));
        context.until_cancelled(supported.check(command)).await?;
        checked.record();
        Ok(())
    }

    /// Starts the program, and once more without its conversation if the program has lost that conversation.
    async fn run_processes(
        &self,
        path: &Path,
        mut turn: ProgramTurn<'_>,
        recorder: &EventRecorder<'_>,
    ) -> Result<TurnAnswer, TurnFailure> {
        loop {
            let (command, sandbox) = self.launch.sandboxed_command(path, &turn)?;
            let mut adapter = (self.new_adapter)(turn.session.as_ref());
            let invocation =
                adapter.invocation(&turn).map_err(io_failure("write the program's settings"))?;
            let work =
                process::run_program(command, invocation, adapter.as_mut(), turn.context, recorder);
            let outcome = match sandbox {
                Some(sandbox) => Box::pin(sandbox.run(&turn.context.reporter, work)).await?,
                None => work.await?,
            };
            match outcome {
                ProgramOutcome::Answered(text) => return Ok(text.into()),
                ProgramOutcome::Failed(failure) => return Err(failure),
                ProgramOutcome::SessionLost if turn.session.take().is_some() => {
                    turn.context.reporter.forget_open_calls();
                    let why = "the program lost its conversation; starting a new one".to_owned();
                    turn.context.reporter.record(WorkerEvent::Retry { why });
                }
                ProgramOutcome::SessionLost => {
                    return Err(TurnFailure::new(
                        FailureClass::Fatal,
                        "the program started no conversation",
                    ));
                }
            }
        }
    }
}

#[async_trait]
impl AgentBackend for ProgramBackend {
    async fn turn(&mut self, mut turn: TurnContext) -> Result<TurnAnswer, TurnFailure> {
        let answer = self.run(&turn).await?;
        if self.begin_repair(&mut turn, &answer) { self.run(&turn).await } else { Ok(answer) }
    }
}

fn unknown_backend(name: &str) -> TurnFailure {
    let why = format!("this version has no backend `{name}`");
    TurnFailure::new(FailureClass::Fatal, why)
}

fn io_failure(doing: &str) -> impl Fn(std::io::Error) -> TurnFailure {
    move |error| TurnFailure::from_io_error(doing, &error)
}

impl ProgramInvocation {
    fn args<const N: usize>(&mut self, args: [&str; N]) {
        self.args.extend(args.map(str::to_owned));
    }

    fn env(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }
}

impl ProgramExit {
    /// Returns true if the program exited with success, or had only its own end left.
    fn is_clean(&self) -> bool {
        self.status.success() || self.ended_after_result
    }

    /// Returns the failure of a program that ended without a result.
    fn crash_failure(&self) -> TurnFailure {
        TurnFailure::new(
            FailureClass::Crash,
            format!("the program ended without a result: {}", self.description()),
        )
    }

    /// Returns true if the program exited by itself and wrote `complaint` to stderr.
    fn stderr_contains(&self, complaint: &str) -> bool {
        self.status.code().is_some() && self.stderr_tail.contains(complaint)
    }

    fn description(&self) -> String {
        let status = exit_status_text(self.status);
        match self.stderr_tail.trim() {
            "" => status,
            complaint => format!("{status}: {}", truncate(complaint, MAX_FAILURE_DETAIL_BYTES)),
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn usd_to_micros(dollars: f64) -> u64 {
    (dollars * 1e6).round().clamp(0.0, 1e15) as u64
}

/// Returns the class of a failure with this HTTP status of the provider.
fn class_of_status(status: u64) -> FailureClass {
    match status {
        401 | 403 => FailureClass::Auth,
        402 => FailureClass::Billing,
        429 => FailureClass::RateLimited,
        408 | 409 | 500.. => FailureClass::Transient,
        _ => FailureClass::Fatal,
    }
}
