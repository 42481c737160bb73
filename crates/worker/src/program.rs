//! A program that does the thinking, for one turn: started, listened to, judged.
//!
//! What differs between them is pure: how each is started, and what its lines mean. The outcome comes from its last
//! event and its exit status together; what stands in a text decides nothing.

mod acp;
mod claude;
mod codex;
mod command;
mod cursor;
mod ear;
mod endpoint;
mod files;
mod gemini;
mod lines;
mod opencode;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    pin::pin,
    process::{ExitStatus, Stdio},
};

use agent_worker_protocol::{
    Acp, AcpAgent, Cli, FailureClass, Mode, Native, Session, Usage, WorkerEvent, WorkerJob,
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
    command::Executable,
    cursor::Cursor,
    ear::Ear,
    endpoint::{Endpoint, endpoint},
    gemini::Gemini,
    opencode::Opencode,
};
use crate::{
    door::{Door, Entrance, SERVER},
    gate::Gate,
    log::Log,
    model::{Failure, ToolResult},
    models::{self, Bill, Share},
    report::Report,
    surroundings::{LINGER, Surroundings, Tail, in_words},
    text::start,
    toolbox::Toolbox,
};

/// How much of what a program complained about stands in a failure.
const COMPLAINT: usize = 500;
/// What a turn may leave for the next one: every later job has it in it.
const LONGEST_SESSION: usize = 64 * 1024;

/// What a turn is made of: the same for every vendor.
struct Turn<'a> {
    job: &'a WorkerJob,
    mode: Mode,
    endpoint: Endpoint,
    /// Where our tools are.
    door: &'a Entrance,
    /// Where the program asks whether it may.
    gate: &'a Entrance,
    /// What the last turn said its conversation is, if this one goes on with it.
    session: Option<Value>,
}

/// How a program is started.
#[derive(Debug, Default, PartialEq, Eq)]
struct Invocation {
    args: Vec<String>,
    /// On top of the job's environment.
    env: BTreeMap<String, String>,
    stdin: String,
}

/// What a line says.
#[derive(Debug, PartialEq)]
enum Heard {
    Text(String),
    Called {
        id: String,
        tool: String,
        args: Value,
    },
    Answered {
        id: String,
        tool: String,
        result: ToolResult,
    },
    /// With what it cost, if it says so.
    Usage(Usage),
    /// Of each model, where it never says what that cost.
    Spent(Vec<Share>),
    Retry(String),
    Session(Value),
    /// There is no point in waiting for the rest.
    GaveUp(Failure),
}

/// How a program ended.
struct Exit {
    status: ExitStatus,
    /// The end of what it complained about.
    complaint: String,
}

/// What came of it.
#[derive(Debug, PartialEq)]
enum Verdict {
    Answered(String),
    Failed(Failure),
    /// It does not know the conversation it was to go on with. Nothing was done.
    Forgot,
}

/// One vendor's agent, and what it has said so far.
trait Vendor: Send {
    fn invocation(&self, turn: &Turn<'_>) -> std::io::Result<Invocation>;
    fn hear(&mut self, line: &str) -> Vec<Heard>;
    fn verdict(&mut self, exit: &Exit) -> Verdict;
    /// What a line of its log says that its events do not. One that is no such line is a complaint.
    fn logs(&mut self, _line: &str) -> Option<Vec<Heard>> {
        None
    }
    /// Until when it may be waited for as it is now, and what has become of it then.
    fn waits(&self) -> Option<(Instant, Failure)> {
        None
    }
    /// Whether it did nothing for the team if it never asked for its tools.
    fn needs_tools(&self) -> bool {
        true
    }
}

/// How one talks to a program.
#[derive(Clone, Copy)]
enum Way {
    /// A vendor's own.
    Vendor(Cli),
    /// The Agent Client Protocol, with an agent whose ways are known or any.
    Acp(Option<AcpAgent>),
    /// Ours.
    Other,
}

/// Which program, and how it is used.
pub(crate) struct Program<'a> {
    way: Way,
    /// Its name or path, and what always comes first.
    command: Vec<&'a str>,
    /// What else it may be called.
    alias: Option<&'static str>,
    mode: Option<Mode>,
    session: Session,
}

impl<'a> Program<'a> {
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
        Self { way: Way::Vendor(*cli), command, alias, mode: *mode, session: *session }
    }

    /// An agent of the Agent Client Protocol.
    pub(crate) fn acp(acp: &'a Acp) -> Self {
        let Acp { agent, command, mode, session } = acp;
        let mut command: Vec<_> = command.iter().map(String::as_str).collect();
        if let (Some(agent), true) = (agent, command.is_empty()) {
            command.push(acp::program_of(*agent));
        }
        Self { way: Way::Acp(*agent), command, alias: None, mode: *mode, session: *session }
    }

    /// Any other.
    pub(crate) fn other(command: &'a [String]) -> Self {
        let command = command.iter().map(String::as_str).collect();
        Self { way: Way::Other, command, alias: None, mode: None, session: Session::Continue }
    }

    /// Who reads its lines; nobody where they are a conversation.
    fn vendor(&self, session: Option<&Value>) -> Result<Box<dyn Vendor>, Option<AcpAgent>> {
        Ok(match self.way {
            Way::Vendor(Cli::Claude) => Box::new(Claude::new(session)),
            Way::Vendor(Cli::Codex) => Box::new(Codex::new(session)),
            Way::Vendor(Cli::Gemini) => Box::new(Gemini::new(session)),
            Way::Vendor(Cli::Opencode) => Box::new(Opencode::new(session)),
            Way::Vendor(Cli::Cursor) => Box::new(Cursor::new(session)),
            Way::Other => Box::new(Executable::default()),
            Way::Acp(agent) => return Err(agent),
        })
    }

    /// Where it reaches its model.
    fn endpoint(&self, job: &WorkerJob) -> Endpoint {
        match self.way {
            Way::Vendor(cli) => endpoint(cli, job.model.as_deref(), &job.env),
            Way::Acp(Some(agent)) => acp::endpoint_of(agent, job),
            Way::Acp(None) | Way::Other => Endpoint::default(),
        }
    }

    /// What is known of its costs before it begins.
    fn bill(&self, job: &WorkerJob, mode: Mode) -> Bill {
        let cli = match self.way {
            Way::Vendor(cli) => Some(cli),
            Way::Acp(_) | Way::Other => None,
        };
        let model = cli.and_then(|cli| models::model_for(cli, job.model.as_deref()));
        let is_as_usual = mode == Mode::Isolated;
        Bill { program: cli.map_or("", Cli::word), model, is_as_usual }
    }

    /// Where it is.
    fn find(&self, surroundings: &Surroundings) -> Result<PathBuf, Failure> {
        let name = self.command.first().copied().unwrap_or_default();
        let found = surroundings.find(name);
        found.or_else(|| surroundings.find(self.alias?)).ok_or_else(|| {
            let why = format!("there is no program `{name}` on the agent's PATH");
            Failure::new(FailureClass::Fatal, why)
        })
    }
}

/// Lets a program do what the job asks for.
pub(crate) async fn turn(
    program: &Program<'_>,
    job: &WorkerJob,
    (tools, gate): (Toolbox, Gate),
    (report, log): (&Report, &Log),
    stopping: &CancellationToken,
) -> Result<String, Failure> {
    let surroundings = Surroundings::new(job);
    let path = program.find(&surroundings)?;
    // Asked for before it starts, so that a daemon that is away holds up nobody who waits for tools only so long.
    let listed = tools.list().await.map_err(|why| Failure::new(FailureClass::Transient, why))?;
    let door = Door::open(tools, gate.clone(), listed, report.clone())
        .await
        .map_err(broken("open a port on loopback"))?;
    let (entrance, gate_entrance) = (door.entrance.clone(), door.gate.clone());
    let endpoint = program.endpoint(job);
    let usual = if endpoint.key.is_some() { Mode::Isolated } else { Mode::Login };
    let mode = program.mode.unwrap_or(usual);
    let session = job.session.clone().filter(|_| program.session == Session::Continue);
    let bill = program.bill(job, mode);
    let mut turn = Turn { job, mode, endpoint, door: &entrance, gate: &gate_entrance, session };
    let mut needs_tools = true;
    let work = async {
        loop {
            let mut command = surroundings.command(&path);
            command.args(program.command.iter().skip(1));
            let mut vendor = match program.vendor(turn.session.as_ref()) {
                Ok(vendor) => vendor,
                Err(agent) => {
                    let company = acp::Company { gate: &gate, bill: &bill, report, log, stopping };
                    return acp::converse(agent, &turn, command, &company).await;
                }
            };
            needs_tools = vendor.needs_tools();
            let invocation = vendor.invocation(&turn).map_err(broken("write its settings"))?;
            let verdict = listen(command, invocation, vendor.as_mut(), &bill, report, log).await?;
            match verdict {
                Verdict::Answered(text) => return Ok(text),
                Verdict::Failed(failure) => return Err(failure),
                Verdict::Forgot if turn.session.take().is_some() => {
                    let why = "its conversation is gone; it begins a new one".to_owned();
                    report.record(WorkerEvent::Retry { why });
                }
                Verdict::Forgot => {
                    return Err(Failure::new(FailureClass::Fatal, "it began no conversation"));
                }
            }
        }
    };
    let work = async {
        tokio::select! {
            done = work => done,
            failure = gate.failed() => Err(failure),
        }
    };
    let (done, has_looked) = Box::pin(door.serve(work)).await;
    if !needs_tools || has_looked {
        return done;
    }
    alone(program.command.first().copied().unwrap_or_default(), done)
}

/// What came of a program that never asked for the team's tools.
fn alone(name: &str, done: Result<String, Failure>) -> Result<String, Failure> {
    let why = format!("`{name}` has never asked for the team's tools");
    match done {
        // Many go on as if nothing were missing. Then nothing it did for the team has arrived.
        Ok(_) => Err(Failure::new(FailureClass::Fatal, why)),
        // One that ends then says so only among much else.
        Err(failure) if failure.class == FailureClass::Crash => {
            Err(Failure { why: format!("{why}; {}", failure.why), ..failure })
        }
        Err(failure) => Err(failure),
    }
}

fn broken(doing: &str) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::of_system(doing, &error)
}

/// Starts the program and listens to its end.
async fn listen(
    mut command: Command,
    invocation: Invocation,
    vendor: &mut dyn Vendor,
    bill: &Bill,
    report: &Report,
    log: &Log,
) -> Result<Verdict, Failure> {
    let mut child = command
        .args(&invocation.args)
        .envs(&invocation.env)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(broken("start it"))?;
    let stdin = child.stdin.take();
    let told = async {
        tell(stdin, &invocation.stdin).await;
        std::future::pending().await
    };
    // Who has ended need not have read to the end.
    let heard = tokio::select! {
        heard = hear(&mut child, vendor, bill, report, log) => heard,
        never = told => never,
    };
    let exit = match heard? {
        Ok(exit) => exit,
        Err(failure) => return Ok(Verdict::Failed(failure)),
    };
    Ok(vendor.verdict(&exit))
}

/// Gives it its prompt. One that does not read it shows that by its end.
async fn tell(stdin: Option<ChildStdin>, prompt: &str) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(prompt.as_bytes()).await;
    }
}

/// Listens until it is gone or gives up.
async fn hear(
    child: &mut Child,
    vendor: &mut dyn Vendor,
    bill: &Bill,
    report: &Report,
    log: &Log,
) -> Result<Result<Exit, Failure>, Failure> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut errors = Tail::default();
    let ear = Ear::new(vendor, bill, report, log);
    let ended = {
        // Who has given up is not waited for.
        let mut reading = pin!(async {
            tokio::try_join!(ear.events(stdout), ear.complaints(stderr, &mut errors))
        });
        tokio::select! {
            read = &mut reading => match read {
                Err(failure) => Err(failure),
                Ok(((), ())) => Ok(child.wait().await),
            },
            status = child.wait() => {
                // What it wrote itself is in the pipe already.
                match timeout(LINGER, reading).await {
                    Ok(Err(failure)) => Err(failure),
                    Ok(Ok(((), ()))) | Err(_) => Ok(status),
                }
            }
        }
    };
    match ended {
        Err(failure) => Ok(Err(failure)),
        Ok(status) => {
            let status = status.map_err(broken("wait for it"))?;
            Ok(Ok(Exit { status, complaint: errors.text() }))
        }
    }
}

/// Passes on what was heard, up to where it gave up.
fn pass_on(heard: Vec<Heard>, bill: &Bill, report: &Report, log: &Log) -> Result<(), Failure> {
    for heard in heard {
        match heard {
            Heard::Text(text) => {
                log.printed(text.as_bytes());
                report.say(&text);
            }
            // Our own tools are told of where they are called.
            Heard::Called { tool, .. } | Heard::Answered { tool, .. } if is_ours(&tool) => {}
            Heard::Called { id, tool, args } => report.called(&id, &tool, args),
            Heard::Answered { id, tool, result } => report.answered(&id, &tool, &result),
            Heard::Usage(usage) => {
                report.record(WorkerEvent::Usage(usage));
            }
            Heard::Spent(shares) => {
                report.record(WorkerEvent::Usage(bill.usage(&shares)));
            }
            Heard::Retry(why) => {
                report.record(WorkerEvent::Retry { why: start(&why, COMPLAINT) });
            }
            Heard::Session(session) => {
                if session.to_string().len() > LONGEST_SESSION {
                    let why = "what it says of its conversation is longer than 64 KiB";
                    return Err(Failure::new(FailureClass::Fatal, why));
                }
                report.record(WorkerEvent::Session { session });
            }
            Heard::GaveUp(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Whether a vendor's name for a tool means one of ours.
fn is_ours(tool: &str) -> bool {
    tool.strip_prefix("mcp__")
        .is_some_and(|tool| tool.strip_prefix(SERVER).is_some_and(|tool| tool.starts_with("__")))
}

impl Invocation {
    fn args<const N: usize>(&mut self, args: [&str; N]) {
        self.args.extend(args.map(str::to_owned));
    }

    fn env(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }
}

impl Exit {
    /// It ended and never said how.
    fn wordless(&self) -> Failure {
        Failure::new(FailureClass::Crash, format!("it ended without a result: {}", self.words()))
    }

    /// Whether it ended by itself and complained of this.
    fn says(&self, complaint: &str) -> bool {
        self.status.code().is_some() && self.complaint.contains(complaint)
    }

    fn words(&self) -> String {
        format!("{}: {}", in_words(self.status), start(self.complaint.trim(), COMPLAINT))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn micros(dollars: f64) -> u64 {
    (dollars * 1e6).round().clamp(0.0, 1e15) as u64
}

/// The class of a failure that a provider's status stands for.
fn class_of(status: u64) -> FailureClass {
    match status {
        401 | 403 => FailureClass::Auth,
        402 => FailureClass::Billing,
        429 => FailureClass::RateLimited,
        408 | 409 | 500.. => FailureClass::Transient,
        _ => FailureClass::Fatal,
    }
}
