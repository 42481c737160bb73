//! A program that does the thinking, for one turn: started, listened to, judged.
//!
//! What differs between them is pure: how each is started, and what its lines mean. The outcome comes from its last
//! event and its exit status together; what stands in a text decides nothing.

mod acp;
mod claude;
mod codex;
mod cursor;
mod endpoint;
mod executable;
mod gemini;
mod line_reader;
mod opencode;
mod output_reader;
mod private_files;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    pin::pin,
    process::{ExitStatus, Stdio},
};

use agent_worker_protocol::{
    Acp, AcpAgent, CredentialMode, FailureClass, Native, SessionPolicy, Usage, VendorCli,
    WorkerEvent, WorkerJob,
};
use serde_json::Value;
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, ChildStdin, Command},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    claude::Claude,
    codex::Codex,
    cursor::Cursor,
    endpoint::{ModelEndpoint, cli_endpoint},
    executable::Executable,
    gemini::Gemini,
    opencode::Opencode,
    output_reader::OutputReader,
};
use crate::{
    approval_gate::ToolApprovalGate,
    child_env::{ChildEnv, OutputTail, PIPE_DRAIN_TIMEOUT, exit_status_text},
    event_reporter::EventReporter,
    model::{ToolResult, TurnFailure},
    model_table::{self, ModelTokenUsage, PricingContext},
    tool_server::{TEAM_SERVER_NAME, ToolServer, ToolServerEndpoint},
    toolbox::Toolbox,
    truncation::truncate,
    worker_log::WorkerLog,
};

/// How much of what a program complained about stands in a failure.
const MAX_FAILURE_DETAIL_BYTES: usize = 500;
/// What a turn may leave for the next one: every later job has it in it.
const MAX_SESSION_BYTES: usize = 64 * 1024;

/// What a turn is made of: the same for every vendor.
struct ProgramTurn<'a> {
    job: &'a WorkerJob,
    mode: CredentialMode,
    endpoint: ModelEndpoint,
    /// Where our tools are.
    tool_server: &'a ToolServerEndpoint,
    /// Where the program asks whether it may.
    gate: &'a ToolServerEndpoint,
    /// What the last turn said its conversation is, if this one goes on with it.
    session: Option<Value>,
}

/// How a program is started.
#[derive(Debug, Default, PartialEq, Eq)]
struct BackendInvocation {
    args: Vec<String>,
    /// On top of the job's environment.
    env: BTreeMap<String, String>,
    stdin: String,
}

/// What a line says.
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
    /// With what it cost, if it says so.
    Usage(Usage),
    /// Of each model, where it never says what that cost.
    UsageByModel(Vec<ModelTokenUsage>),
    Retry(String),
    Session(Value),
    /// There is no point in waiting for the rest.
    GaveUp(TurnFailure),
}

/// How a program ended.
struct ProgramExit {
    status: ExitStatus,
    /// The end of what it complained about.
    stderr_tail: String,
}

/// What came of it.
#[derive(Debug, PartialEq)]
enum ProgramOutcome {
    Answered(String),
    Failed(TurnFailure),
    /// It does not know the conversation it was to go on with. Nothing was done.
    SessionLost,
}

/// One vendor's agent, and what it has said so far.
trait VendorAdapter: Send {
    fn invocation(&self, turn: &ProgramTurn<'_>) -> std::io::Result<BackendInvocation>;
    fn parse_line(&mut self, line: &str) -> Vec<ProgramEvent>;
    fn outcome(&mut self, exit: &ProgramExit) -> ProgramOutcome;
    /// What a line of its log says that its events do not. One that is no such line is a complaint.
    fn parse_log_line(&mut self, _line: &str) -> Option<Vec<ProgramEvent>> {
        None
    }
    /// Until when it may be waited for as it is now, and what has become of it then.
    fn wait_limit(&self) -> Option<(Instant, TurnFailure)> {
        None
    }
    /// Whether it did nothing for the team if it never asked for its tools.
    fn needs_tools(&self) -> bool {
        true
    }
}

/// How one talks to a program.
#[derive(Clone, Copy)]
enum ProgramProtocol {
    /// A vendor's own.
    Vendor(VendorCli),
    /// The Agent Client Protocol, with an agent whose ways are known or any.
    Acp(Option<AcpAgent>),
    /// Ours.
    Executable,
}

/// Which program, and how it is used.
pub(crate) struct JobProgram<'a> {
    protocol: ProgramProtocol,
    /// Its name or path, and what always comes first.
    command: Vec<&'a str>,
    /// What else it may be called.
    alias: Option<&'static str>,
    mode: Option<CredentialMode>,
    session: SessionPolicy,
}

impl<'a> JobProgram<'a> {
    /// A vendor's own agent.
    pub(crate) fn native(native: &'a Native) -> Self {
        let Native { cli, command, mode, session } = native;
        let mut command: Vec<_> = command.iter().map(String::as_str).collect();
        let mut alias = None;
        if command.is_empty() {
            let names = cli.programs();
            command.extend(names.first());
            alias = names.get(1).copied();
        }
        Self {
            protocol: ProgramProtocol::Vendor(*cli),
            command,
            alias,
            mode: *mode,
            session: *session,
        }
    }

    /// An agent of the Agent Client Protocol.
    pub(crate) fn acp(acp: &'a Acp) -> Self {
        let Acp { agent, command, mode, session } = acp;
        let mut command: Vec<_> = command.iter().map(String::as_str).collect();
        if let (Some(agent), true) = (agent, command.is_empty()) {
            command.push(acp::default_program(*agent));
        }
        Self {
            protocol: ProgramProtocol::Acp(*agent),
            command,
            alias: None,
            mode: *mode,
            session: *session,
        }
    }

    /// Any other.
    pub(crate) fn executable(command: &'a [String]) -> Self {
        let command = command.iter().map(String::as_str).collect();
        Self {
            protocol: ProgramProtocol::Executable,
            command,
            alias: None,
            mode: None,
            session: SessionPolicy::Continue,
        }
    }

    /// Who reads its lines; nobody where they are a conversation.
    fn adapter(&self, session: Option<&Value>) -> Result<Box<dyn VendorAdapter>, Option<AcpAgent>> {
        Ok(match self.protocol {
            ProgramProtocol::Vendor(VendorCli::Claude) => Box::new(Claude::new(session)),
            ProgramProtocol::Vendor(VendorCli::Codex) => Box::new(Codex::new(session)),
            ProgramProtocol::Vendor(VendorCli::Gemini) => Box::new(Gemini::new(session)),
            ProgramProtocol::Vendor(VendorCli::Opencode) => Box::new(Opencode::new(session)),
            ProgramProtocol::Vendor(VendorCli::Cursor) => Box::new(Cursor::new(session)),
            ProgramProtocol::Executable => Box::new(Executable::default()),
            ProgramProtocol::Acp(agent) => return Err(agent),
        })
    }

    /// Where it reaches its model.
    fn model_endpoint(&self, job: &WorkerJob) -> ModelEndpoint {
        match self.protocol {
            ProgramProtocol::Vendor(cli) => cli_endpoint(cli, job.model.as_deref(), &job.env),
            ProgramProtocol::Acp(Some(agent)) => acp::model_endpoint(agent, job),
            ProgramProtocol::Acp(None) | ProgramProtocol::Executable => ModelEndpoint::default(),
        }
    }

    /// What is known of its costs before it begins.
    fn pricing_context(&self, job: &WorkerJob, mode: CredentialMode) -> PricingContext {
        let cli = match self.protocol {
            ProgramProtocol::Vendor(cli) => Some(cli),
            ProgramProtocol::Acp(_) | ProgramProtocol::Executable => None,
        };
        let model = cli.and_then(|cli| model_table::model_for(cli, job.model.as_deref()));
        let is_as_usual = mode == CredentialMode::Isolated;
        PricingContext {
            program: cli.map_or("", VendorCli::word),
            model,
            has_default_settings: is_as_usual,
        }
    }

    /// Where it is.
    /// The mode that the workflow file names; else a key decides.
    fn mode_for(&self, endpoint: &ModelEndpoint) -> CredentialMode {
        let default =
            if endpoint.key.is_some() { CredentialMode::Isolated } else { CredentialMode::Login };
        self.mode.unwrap_or(default)
    }

    fn resolve_path(&self, child_env: &ChildEnv) -> Result<PathBuf, TurnFailure> {
        let name = self.command.first().copied().unwrap_or_default();
        let found = child_env.find_program(name);
        found.or_else(|| child_env.find_program(self.alias?)).ok_or_else(|| {
            let why = format!("there is no program `{name}` on the agent's PATH");
            TurnFailure::new(FailureClass::Fatal, why)
        })
    }
}

/// Lets a program do what the job asks for.
pub(crate) async fn run_turn(
    program: &JobProgram<'_>,
    job: &WorkerJob,
    (tools, gate): (Toolbox, ToolApprovalGate),
    (report, log): (&EventReporter, &WorkerLog),
    stopping: &CancellationToken,
) -> Result<String, TurnFailure> {
    let child_env = ChildEnv::new(job);
    let path = program.resolve_path(&child_env)?;
    // Asked for before it starts, so that a daemon that is away holds up nobody who waits for tools only so long.
    let listed =
        tools.list_tools().await.map_err(|why| TurnFailure::new(FailureClass::Transient, why))?;
    let tool_server = ToolServer::open(tools, gate.clone(), listed, report.clone())
        .await
        .map_err(io_failure("open a port on loopback"))?;
    let tools_endpoint = tool_server.endpoint.clone();
    let gate_endpoint = tool_server.gate_endpoint.clone();
    let endpoint = program.model_endpoint(job);
    let mode = program.mode_for(&endpoint);
    let session = job.session.clone().filter(|_| program.session == SessionPolicy::Continue);
    let pricing = program.pricing_context(job, mode);
    let (tools_at, gate_at) = (&tools_endpoint, &gate_endpoint);
    let mut turn =
        ProgramTurn { job, mode, endpoint, tool_server: tools_at, gate: gate_at, session };
    let mut needs_tools = true;
    let work = async {
        loop {
            let mut command = child_env.command(&path);
            command.args(program.command.iter().skip(1));
            let mut vendor = match program.adapter(turn.session.as_ref()) {
                Ok(vendor) => vendor,
                Err(agent) => {
                    let (gate, pricing) = (&gate, &pricing);
                    let context = acp::AcpContext { gate, pricing, report, log, stopping };
                    return acp::run_agent(agent, &turn, command, &context).await;
                }
            };
            needs_tools = vendor.needs_tools();
            let invocation = vendor.invocation(&turn).map_err(io_failure("write its settings"))?;
            let verdict =
                run_program(command, invocation, vendor.as_mut(), &pricing, report, log).await?;
            match verdict {
                ProgramOutcome::Answered(text) => return Ok(text),
                ProgramOutcome::Failed(failure) => return Err(failure),
                ProgramOutcome::SessionLost if turn.session.take().is_some() => {
                    let why = "its conversation is gone; it begins a new one".to_owned();
                    report.record(WorkerEvent::Retry { why });
                }
                ProgramOutcome::SessionLost => {
                    return Err(TurnFailure::new(FailureClass::Fatal, "it began no conversation"));
                }
            }
        }
    };
    let work = async {
        tokio::select! {
            done = work => done,
            failure = gate.wait_for_failure() => Err(failure),
        }
    };
    let (done, has_looked) = Box::pin(tool_server.serve(work)).await;
    if !needs_tools || has_looked {
        return done;
    }
    require_tool_listing(program.command.first().copied().unwrap_or_default(), done)
}

/// What came of a program that never asked for the team's tools.
fn require_tool_listing(
    name: &str,
    done: Result<String, TurnFailure>,
) -> Result<String, TurnFailure> {
    let why = format!("`{name}` has never asked for the team's tools");
    match done {
        // Many go on as if nothing were missing. Then nothing it did for the team has arrived.
        Ok(_) => Err(TurnFailure::new(FailureClass::Fatal, why)),
        // One that ends then says so only among much else.
        Err(failure) if failure.class == FailureClass::Crash => {
            Err(TurnFailure { why: format!("{why}; {}", failure.why), ..failure })
        }
        Err(failure) => Err(failure),
    }
}

fn io_failure(doing: &str) -> impl Fn(std::io::Error) -> TurnFailure {
    move |error| TurnFailure::from_io_error(doing, &error)
}

/// Starts the program and listens to its end.
async fn run_program(
    mut command: Command,
    invocation: BackendInvocation,
    vendor: &mut dyn VendorAdapter,
    pricing: &PricingContext,
    report: &EventReporter,
    log: &WorkerLog,
) -> Result<ProgramOutcome, TurnFailure> {
    let mut child = command
        .args(&invocation.args)
        .envs(&invocation.env)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(io_failure("start it"))?;
    let stdin = child.stdin.take();
    let told = async {
        write_prompt(stdin, &invocation.stdin).await;
        std::future::pending().await
    };
    // Who has ended need not have read to the end.
    let heard = tokio::select! {
        heard = read_output(&mut child, vendor, pricing, report, log) => heard,
        never = told => never,
    };
    let exit = match heard? {
        Ok(exit) => exit,
        Err(failure) => return Ok(ProgramOutcome::Failed(failure)),
    };
    Ok(vendor.outcome(&exit))
}

/// Gives it its prompt. One that does not read it shows that by its end.
async fn write_prompt(stdin: Option<ChildStdin>, prompt: &str) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(prompt.as_bytes()).await;
    }
}

/// Listens until it is gone or gives up.
async fn read_output(
    child: &mut Child,
    vendor: &mut dyn VendorAdapter,
    pricing: &PricingContext,
    report: &EventReporter,
    log: &WorkerLog,
) -> Result<Result<ProgramExit, TurnFailure>, TurnFailure> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut errors = OutputTail::default();
    let ear = OutputReader::new(vendor, pricing, report, log);
    let ended = {
        // Who has given up is not waited for.
        let mut reading = pin!(async {
            tokio::try_join!(ear.read_events(stdout), ear.read_stderr(stderr, &mut errors))
        });
        tokio::select! {
            read = &mut reading => match read {
                Err(failure) => Err(failure),
                Ok(((), ())) => Ok(child.wait().await),
            },
            status = child.wait() => {
                // What it wrote itself is in the pipe already.
                match timeout(PIPE_DRAIN_TIMEOUT, reading).await {
                    Ok(Err(failure)) => Err(failure),
                    Ok(Ok(((), ()))) | Err(_) => Ok(status),
                }
            }
        }
    };
    match ended {
        Err(failure) => Ok(Err(failure)),
        Ok(status) => {
            let status = status.map_err(io_failure("wait for it"))?;
            Ok(Ok(ProgramExit { status, stderr_tail: errors.text() }))
        }
    }
}

/// Passes on what was heard, up to where it gave up.
fn report_events(
    heard: Vec<ProgramEvent>,
    pricing: &PricingContext,
    report: &EventReporter,
    log: &WorkerLog,
) -> Result<(), TurnFailure> {
    for heard in heard {
        match heard {
            ProgramEvent::Text(text) => {
                log.write_output(text.as_bytes());
                report.stream_text(&text);
            }
            // Our own tools are told of where they are called.
            ProgramEvent::ToolCalled { tool, .. } | ProgramEvent::ToolAnswered { tool, .. }
                if is_team_tool(&tool) => {}
            ProgramEvent::ToolCalled { id, tool, args } => {
                report.record_tool_call(&id, &tool, args);
            }
            ProgramEvent::ToolAnswered { id, tool, result } => {
                report.record_tool_result(&id, &tool, &result);
            }
            ProgramEvent::Usage(usage) => {
                report.record(WorkerEvent::Usage(usage));
            }
            ProgramEvent::UsageByModel(shares) => {
                report.record(WorkerEvent::Usage(pricing.usage(&shares)));
            }
            ProgramEvent::Retry(why) => {
                report.record(WorkerEvent::Retry { why: truncate(&why, MAX_FAILURE_DETAIL_BYTES) });
            }
            ProgramEvent::Session(session) => {
                if session.to_string().len() > MAX_SESSION_BYTES {
                    let why = "what it says of its conversation is longer than 64 KiB";
                    return Err(TurnFailure::new(FailureClass::Fatal, why));
                }
                report.record(WorkerEvent::Session { session });
            }
            ProgramEvent::GaveUp(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Whether a vendor's name for a tool means one of ours.
fn is_team_tool(tool: &str) -> bool {
    tool.strip_prefix("mcp__").is_some_and(|tool| {
        tool.strip_prefix(TEAM_SERVER_NAME).is_some_and(|tool| tool.starts_with("__"))
    })
}

impl BackendInvocation {
    fn args<const N: usize>(&mut self, args: [&str; N]) {
        self.args.extend(args.map(str::to_owned));
    }

    fn env(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }
}

impl ProgramExit {
    /// It ended and never said how.
    fn crash_failure(&self) -> TurnFailure {
        TurnFailure::new(
            FailureClass::Crash,
            format!("it ended without a result: {}", self.description()),
        )
    }

    /// Whether it ended by itself and complained of this.
    fn stderr_contains(&self, complaint: &str) -> bool {
        self.status.code().is_some() && self.stderr_tail.contains(complaint)
    }

    fn description(&self) -> String {
        format!(
            "{}: {}",
            exit_status_text(self.status),
            truncate(self.stderr_tail.trim(), MAX_FAILURE_DETAIL_BYTES)
        )
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn usd_to_micros(dollars: f64) -> u64 {
    (dollars * 1e6).round().clamp(0.0, 1e15) as u64
}

/// The class of a failure that a provider's status stands for.
fn class_of_status(status: u64) -> FailureClass {
    match status {
        401 | 403 => FailureClass::Auth,
        402 => FailureClass::Billing,
        429 => FailureClass::RateLimited,
        408 | 409 | 500.. => FailureClass::Transient,
        _ => FailureClass::Fatal,
    }
}
