//! The daemon's end of the bridge: one session where there is one, begun anew when its daemon is gone.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agent_worker_host::{Daemon, DialError, EventStream, Heard, Saying, What};
use agent_worker_protocol::Problem;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, mpsc::Sender, watch},
    time::{Instant, sleep, timeout},
};

use super::message::Message;
use crate::{
    discovery,
    error::{CliError, Kind},
    settings::Settings,
};

const SESSION: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";
/// How long a message is held while the daemon is away, and how often it is looked for.
const HELD: Duration = Duration::from_secs(45);
const BETWEEN: Duration = Duration::from_millis(250);
/// How long a session's end may take to say: nobody waits for us any more.
const FAREWELL: Duration = Duration::from_secs(1);
const GONE: u16 = 404;

/// Where to, and as whom.
pub(crate) struct Host {
    /// Where the daemon is, or how to start it.
    pub(crate) settings: Settings,
    /// A client's token; without it we are who our process is.
    pub(crate) token: Option<String>,
}

/// The way to the daemon.
pub(super) struct FarEnd {
    settings: Settings,
    daemon: Daemon,
    out: Sender<String>,
    state: Mutex<State>,
    /// Rises with each session, so that whoever lost one knows whether it was begun anew meanwhile.
    begun: watch::Sender<u64>,
    /// One at a time begins it anew.
    turn: Semaphore,
}

/// What a client of the older revisions has said that the next daemon must be told again.
#[derive(Default)]
struct State {
    hello: Option<Message>,
    revision: Option<String>,
    session: Option<String>,
    watched: BTreeSet<String>,
}

impl FarEnd {
    pub(super) fn new(Host { settings, token }: Host, out: Sender<String>) -> Self {
        let daemon = Daemon::at(settings.socket());
        let daemon = match token {
            Some(token) => daemon.with_token(token),
            None => daemon,
        };
        let (begun, _) = watch::channel(0);
        let (state, turn) = (Mutex::default(), Semaphore::new(1));
        Self { settings, daemon, out, state, begun, turn }
    }

    /// Says something to whoever started us.
    pub(super) async fn tell(&self, line: String) {
        // Whoever does not listen any more has ended us.
        let _ = self.out.send(line).await;
    }

    pub(super) fn has_session(&self) -> bool {
        self.state().session.is_some()
    }

    /// Passes a request on, and its answer back, whatever becomes of the daemon meanwhile.
    pub(super) async fn answer(&self, message: Message) {
        let deadline = Instant::now() + HELD;
        loop {
            let generation = *self.begun.borrow();
            let why = match self.ask(&message).await {
                Ok(heard) => match self.pass_back(&message, heard).await {
                    Passed::Answered => return,
                    Passed::NoSession => match self.begin_anew(generation).await {
                        Ok(()) => continue,
                        Err(error) => error.into(),
                    },
                    Passed::BrokenOff(error) => error.into(),
                },
                Err(error) => error,
            };
            if Instant::now() >= deadline || !is_worth_another_try(&why) {
                let why = why.body();
                let data = serde_json::to_value(&why).unwrap_or_default();
                return self.tell(message.unanswered(&why.message, &data)).await;
            }
            sleep(BETWEEN).await;
        }
    }

    /// Passes on what is not answered.
    pub(super) async fn notify(&self, message: &Message) {
        // A daemon that did not hear it is gone, and the next one is told what it must know.
        let _ = self.say(message).await;
    }

    /// Tells what a session is told besides its answers, from the first on that is begun. A daemon that left is not
    /// started for that.
    pub(super) async fn listen(&self) {
        let mut begun = self.begun.subscribe();
        loop {
            let generation = *begun.borrow_and_update();
            if generation > 0
                && let Ok(Heard { what: What::Stream(stream), .. }) = self.open_stream().await
            {
                self.pass_on(*stream).await;
            }
            // It ended, or there was none: the daemon has left, or the session.
            if generation == 0 || !self.has_session() {
                if begun.changed().await.is_err() {
                    return;
                }
                continue;
            }
            sleep(BETWEEN).await;
            if let Ok(Some(_)) = discovery::look(&self.settings).await
                && self.begin_anew(generation).await.is_ok()
            {
                self.look_again().await;
            }
        }
    }

    /// Ends the session, where there is one.
    pub(super) async fn farewell(&self) {
        if self.has_session() {
            let headers = self.headers(None);
            let _ = timeout(FAREWELL, self.talk(&Saying::Farewell, &headers)).await;
        }
    }

    /// Says a message to the daemon, which is started if there is none.
    async fn ask(&self, message: &Message) -> Result<Heard, CliError> {
        match self.say(message).await {
            Err(DialError::Absent { .. }) => {
                discovery::open(&self.settings).await?;
                Ok(self.say(message).await?)
            }
            heard => Ok(heard?),
        }
    }

    async fn say(&self, message: &Message) -> Result<Heard, DialError> {
        let headers = self.headers(Some(message));
        self.talk(&Saying::Message(message.text()), &headers).await
    }

    async fn talk(&self, saying: &Saying, headers: &[(&str, String)]) -> Result<Heard, DialError> {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.daemon.talk(saying, &headers).await
    }

    /// What a request says of itself in its headers: since 2026-07-28 everything, before that the session's.
    fn headers(&self, message: Option<&Message>) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if let Some((message, version)) = message.and_then(|one| Some((one, one.version()?))) {
            headers.push((REVISION, version.to_owned()));
            headers.extend(message.method().map(|method| ("mcp-method", method.to_owned())));
            headers.extend(message.name().map(|name| ("mcp-name", name.to_owned())));
            return headers;
        }
        if message.is_some_and(Message::begins) {
            return headers;
        }
        let state = self.state();
        headers.extend(state.revision.clone().map(|revision| (REVISION, revision)));
        headers.extend(state.session.clone().map(|session| (SESSION, session)));
        headers
    }

    async fn pass_back(&self, message: &Message, heard: Heard) -> Passed {
        let session = heard.header(SESSION).map(str::to_owned);
        match heard.what {
            What::Whole(_) if heard.status == GONE && self.has_session() => Passed::NoSession,
            What::Whole(text) => {
                let line = match serde_json::from_str::<Value>(&text) {
                    Ok(line) if line.get("jsonrpc").is_some() => line.to_string(),
                    // The door's own words: there is no such caller, or nothing can be asked now.
                    Ok(problem) => message.unanswered(&said(&problem), &problem),
                    Err(_) => message.unanswered(&format!("status {}", heard.status), &Value::Null),
                };
                self.note(message, &line, session);
                self.tell(line).await;
                Passed::Answered
            }
            What::Stream(mut stream) => loop {
                match stream.next_data().await {
                    Ok(Some(line)) => {
                        let is_answer = message.is_answered_by(&line);
                        if is_answer {
                            self.note(message, &line, session.clone());
                        }
                        self.tell(line).await;
                        if is_answer {
                            return Passed::Answered;
                        }
                    }
                    Ok(None) => {
                        let source = "it ended without an answer".into();
                        return Passed::BrokenOff(DialError::Lost { source });
                    }
                    Err(error) => return Passed::BrokenOff(error),
                }
            },
        }
    }

    /// Remembers what the next daemon must be told again.
    fn note(&self, message: &Message, answer: &str, session: Option<String>) {
        let answer: Value = serde_json::from_str(answer).unwrap_or_default();
        let Some(result) = answer.get("result") else { return };
        let mut state = self.state();
        if message.begins() {
            let revision = result["protocolVersion"].as_str().map(str::to_owned);
            let hello = Some(message.clone());
            *state = State { hello, revision, session, watched: BTreeSet::new() };
            drop(state);
            self.begun.send_modify(|begun| *begun += 1);
        } else if let Some((uri, begins)) = message.watches() {
            if begins {
                state.watched.insert(uri.to_owned());
            } else {
                state.watched.remove(uri);
            }
        }
    }

    /// Introduces the client to a daemon that does not know it, as it introduced itself, and asks for what it watches.
    async fn begin_anew(&self, generation: u64) -> Result<(), DialError> {
        let Ok(_turn) = self.turn.acquire().await else { return Ok(()) };
        if *self.begun.borrow() != generation {
            return Ok(());
        }
        let Some(hello) = self.state().hello.clone() else { return Ok(()) };
        let heard = self.say(&hello).await?;
        self.state().session = heard.header(SESSION).map(str::to_owned);
        drain(heard).await;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let watched: Vec<_> = self.state().watched.iter().cloned().collect();
        let again = |uri: &String| {
            let id = format!("again {uri}");
            json!({"jsonrpc": "2.0", "id": id, "method": "resources/subscribe", "params": {"uri": uri}})
        };
        for line in std::iter::once(initialized).chain(watched.iter().map(again)) {
            if let Ok(message) = Message::read(&line.to_string()) {
                drain(self.say(&message).await?).await;
            }
        }
        self.begun.send_modify(|begun| *begun += 1);
        Ok(())
    }

    /// What is watched may have changed while nobody could tell.
    async fn look_again(&self) {
        let watched: Vec<_> = self.state().watched.iter().cloned().collect();
        for uri in watched {
            let params = json!({ "uri": uri });
            let method = "notifications/resources/updated";
            self.tell(json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string())
                .await;
        }
    }

    async fn open_stream(&self) -> Result<Heard, DialError> {
        let headers = self.headers(None);
        self.talk(&Saying::Listen, &headers).await
    }

    async fn pass_on(&self, mut stream: EventStream) {
        while let Ok(Some(line)) = stream.next_data().await {
            self.tell(line).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of an answer.
enum Passed {
    Answered,
    /// The daemon does not know our session.
    NoSession,
    /// The daemon went away before it was whole.
    BrokenOff(DialError),
}

/// Reads an answer nobody asked for to its end, so that what it answers has happened.
async fn drain(heard: Heard) {
    if let What::Stream(mut stream) = heard.what {
        while let Ok(Some(_)) = stream.next_data().await {}
    }
}

fn said(problem: &Value) -> String {
    let problem = serde_json::from_value::<Problem>(problem.clone());
    problem.map_or_else(|_| "the daemon's answer was not understood".to_owned(), |one| one.message)
}

/// Whether the daemon may be there the next time.
fn is_worth_another_try(error: &CliError) -> bool {
    matches!(error.kind(), Kind::NoDaemon | Kind::Lost)
}
