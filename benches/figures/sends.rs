//! Durable sends: through MCP over the Unix socket, and straight into a store on the same disk, in turns.
//!
//! The reader is at work the whole time, so each send is what it usually is: a message, a delivery that will wake
//! somebody later, an event, an fsync. The last lines show what becomes of it while nobody is at work.

use std::time::Duration;

use agent_worker_protocol::api::{TokenCreated, TokenRequest};
use anyhow::ensure;
use serde::Deserialize;
use serde_json::json;

use crate::{
    archive::{Archive, BODY},
    house::House,
    load::{Caller, Load, load},
    machine,
    mcp::{McpClient, McpRequest},
    processor::{ProcessorClock, rest},
    sample::{median, micros, millis},
    table::{Figure, Table, Unit},
    weight,
};

const CLIENTS: [usize; 3] = [1, 8, 32];
const MOST_CLIENTS: usize = 32;
const ROUNDS: usize = 3;
const TEAM: &str = "name: team\nagents:\n  reader:\n    backend: mock\n    mock: [{ sleep: 1h }]\n";
const LEAST_RATE: f64 = 5000.0;
const LEAST_SHARE: f64 = 0.5;
const MOST_P99: f64 = 15.0;

/// Measures sends by more and more clients, then what is different about 32 of another kind.
pub(crate) async fn figures(table: &mut Table) -> anyhow::Result<()> {
    let house = House::with_daemon()?;
    house.team(TEAM)?;
    let wake = json!({ "target": "@team", "message": "@reader go" });
    let wake = McpRequest::call("channel_send", &wake);
    Client::connect(&house, &wake).await?.send().await?;
    let request = TokenRequest { name: "bench".to_owned(), ..TokenRequest::default() };
    let TokenCreated { token, .. } = house.dial().post("/tokens", &request).await?;
    let folder = machine::folder()?;
    let archive = Archive::open(folder.path()).await?;
    let mention = json!({ "target": "@team", "message": BODY });
    let as_client = McpRequest::call_as(&token, "channel_send", &mention);
    let as_user = McpRequest::call("channel_send", &mention);
    for clients in CLIENTS {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds
                .push(round(&house, callers(clients, &house, &as_client).await?, &archive).await?);
        }
        tell(table, clients, &rounds)?;
    }
    archive.close().await;
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        rates.push(load(callers(MOST_CLIENTS, &house, &as_user).await?).await?.rate);
        rest(&house).await?;
    }
    let name = format!("the same without a token, {MOST_CLIENTS} at once");
    table.add(&Figure::new(name, Unit::PerSecond, median(rates)))?;
    table.add(&weight::memory("daemon's resident memory after these sends", &house)?)?;
    at_rest(table).await
}

/// One measurement of each kind, taken one right after the other.
struct Round {
    sent: Load,
    appended: Load,
    spent: Spent,
}

/// Processor time for one send or append.
struct Spent {
    daemon: Duration,
    clients: Duration,
    store: Duration,
}

/// A client of the daemon.
struct Client {
    mcp: McpClient,
    request: McpRequest,
    /// Where its last message stands in the channel.
    last: u64,
}

/// What must be in every answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sent {
    is_error: bool,
    structured_content: Place,
}

#[derive(Deserialize)]
struct Place {
    seq: u64,
}

impl Client {
    async fn connect(house: &House, request: &McpRequest) -> anyhow::Result<Self> {
        let mcp = McpClient::connect(&house.socket()).await?;
        Ok(Self { mcp, request: request.clone(), last: 0 })
    }
}

impl Caller for Client {
    async fn send(&mut self) -> anyhow::Result<()> {
        let sent: Sent = self.mcp.ask(&self.request).await?;
        let Place { seq } = sent.structured_content;
        ensure!(!sent.is_error && seq > self.last, "message {seq} came after {}", self.last);
        self.last = seq;
        Ok(())
    }
}

impl Caller for Archive {
    async fn send(&mut self) -> anyhow::Result<()> {
        self.append().await
    }
}

/// So many clients, each with a connection of its own.
async fn callers(
    clients: usize,
    house: &House,
    request: &McpRequest,
) -> anyhow::Result<Vec<Client>> {
    let mut callers = Vec::with_capacity(clients);
    for _ in 0..clients {
        callers.push(Client::connect(house, request).await?);
    }
    Ok(callers)
}

/// Lets the clients send, then as many callers append.
async fn round(house: &House, clients: Vec<Client>, archive: &Archive) -> anyhow::Result<Round> {
    let callers = vec![archive.clone(); clients.len()];
    let (daemon, own) = (ProcessorClock::start(house.pid()?)?, ProcessorClock::own()?);
    let sent = load(clients).await?;
    let clients = own.spent()?.div_f64(sent.all);
    // What it does about these sends later is part of their price, and must not be paid by the appends.
    let daemon = daemon.spent_in_all().await?.div_f64(sent.all);
    let own = ProcessorClock::own()?;
    let appended = load(callers).await?;
    let store = own.spent()?.div_f64(appended.all);
    Ok(Round { sent, appended, spent: Spent { daemon, clients, store } })
}

fn tell(table: &mut Table, clients: usize, rounds: &[Round]) -> anyhow::Result<()> {
    let sends = format!("channel_send through MCP, {clients} at once");
    let appends = format!("store's own appends, {clients} at once");
    let (rate, own) =
        (middle(rounds, |round| round.sent.rate), middle(rounds, |round| round.appended.rate));
    let p50 = middle(rounds, |round| millis(round.sent.took.percentile(50)));
    let p99 = middle(rounds, |round| millis(round.sent.took.percentile(99)));
    let rate = Figure::new(&sends, Unit::PerSecond, rate);
    let p50 = Figure::new(format!("{sends}, p50"), Unit::Millis, p50);
    let p99 = Figure::new(format!("{sends}, p99"), Unit::Millis, p99);
    let own = Figure::new(&appends, Unit::PerSecond, own);
    if clients < MOST_CLIENTS {
        return table.add_all(&[rate, p50, p99, own]);
    }
    let own_p99 = middle(rounds, |round| millis(round.appended.took.percentile(99)));
    let share = middle(rounds, |round| round.sent.rate / round.appended.rate);
    let spent = |name, of: fn(&Spent) -> Duration| {
        Figure::new(name, Unit::Micros, middle(rounds, |round| micros(of(&round.spent))))
    };
    table.add_all(&[
        rate.at_least(LEAST_RATE),
        p50,
        p99.at_most(MOST_P99),
        own,
        Figure::new(format!("{appends}, p99"), Unit::Millis, own_p99),
        Figure::new("sends through MCP for each such append", Unit::Times, share)
            .at_least(LEAST_SHARE),
        spent("daemon's processor time for a send", |spent| spent.daemon),
        spent("client's processor time for a send", |spent| spent.clients),
        spent("store's processor time for an append", |spent| spent.store),
    ])
}

/// The middle of something over all rounds.
fn middle(rounds: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    median(rounds.iter().map(of))
}

/// While nobody works, every change makes the scheduler ask whether the run is over.
async fn at_rest(table: &mut Table) -> anyhow::Result<()> {
    let house = House::with_daemon()?;
    house.team(TEAM)?;
    let message = BODY.replace('@', "");
    let copy = json!({ "target": "@team", "message": message, "cc": ["reader"] });
    let copy = McpRequest::call("channel_send", &copy);
    for round in 1..=ROUNDS {
        let sent = load(callers(MOST_CLIENTS, &house, &copy).await?).await?;
        rest(&house).await?;
        let name = format!("cc to a team at rest, {MOST_CLIENTS} at once, round {round}");
        table.add(&Figure::new(name, Unit::PerSecond, sent.rate))?;
    }
    Ok(())
}
