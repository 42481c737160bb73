//! Durable sends: through MCP over the Unix socket, and directly into a store on the same disk, alternately.
//!
//! The reader is at work the whole time, so each send is a usual one: a message, a delivery that wakes an agent
//! later, an event, an fsync. The last lines show the cost while no agent is at work.

use std::time::Duration;

use agent_worker_protocol::api::{TokenCreated, TokenRequest};
use anyhow::ensure;
use serde::Deserialize;
use serde_json::json;

use crate::{
    bench_env::BenchEnv,
    bench_store::{BODY, BenchStore},
    load::{LoadResult, LoadSender, run_load},
    machine,
    mcp::{McpClient, McpRequest},
    processor::{ProcessorClock, wait_until_idle},
    sample::{median, micros, millis},
    table::{Figure, Table, Unit},
    weight,
};

const CLIENTS: [usize; 3] = [1, 8, 32];
const MAX_CLIENTS: usize = 32;
const ROUNDS: usize = 3;
const TEAM: &str = "name: team\nagents:\n  reader:\n    backend: mock\n    mock: [{ sleep: 1h }]\n";
const MIN_RATE: f64 = 5000.0;
const MIN_SHARE: f64 = 0.5;
const MAX_P99_MILLIS: f64 = 15.0;

/// Measures sends by an increasing number of clients, then by 32 clients without a token, and sends to an idle
/// team.
pub(crate) async fn figures(table: &mut Table) -> anyhow::Result<()> {
    let bench_env = BenchEnv::with_daemon()?;
    bench_env.team(TEAM)?;
    let wake = json!({ "target": "@team", "message": "@reader go" });
    let wake = McpRequest::call("channel_send", &wake);
    Client::connect(&bench_env, &wake).await?.send().await?;
    let request = TokenRequest { name: "bench".to_owned(), ..TokenRequest::default() };
    let TokenCreated { token, .. } = bench_env.connect().post("/tokens", &request).await?;
    let folder = machine::folder()?;
    let bench_store = BenchStore::open(folder.path()).await?;
    let mention = json!({ "target": "@team", "message": BODY });
    let as_client = McpRequest::call_as(&token, "channel_send", &mention);
    let as_user = McpRequest::call("channel_send", &mention);
    for clients in CLIENTS {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push(
                round(
                    &bench_env,
                    connect_clients(clients, &bench_env, &as_client).await?,
                    &bench_store,
                )
                .await?,
            );
        }
        add_figures(table, clients, &rounds)?;
    }
    bench_store.close().await;
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        rates.push(run_load(connect_clients(MAX_CLIENTS, &bench_env, &as_user).await?).await?.rate);
        wait_until_idle(&bench_env).await?;
    }
    let name = format!("the same without a token, {MAX_CLIENTS} at once");
    table.add(&Figure::new(name, Unit::PerSecond, median(rates)))?;
    table.add(&weight::memory("daemon's resident memory after these sends", &bench_env)?)?;
    measure_idle_team(table).await
}

/// One measurement of each kind, taken in direct succession.
struct Round {
    sent: LoadResult,
    appended: LoadResult,
    spent: CpuTimes,
}

/// Processor time per send or append.
struct CpuTimes {
    daemon: Duration,
    clients: Duration,
    store: Duration,
}

/// A client of the daemon that sends messages.
struct Client {
    mcp: McpClient,
    request: McpRequest,
    /// Position of its last message in the channel.
    last: u64,
}

/// Required fields of every response.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SendReplyBody {
    is_error: bool,
    structured_content: SentMessage,
}

#[derive(Deserialize)]
struct SentMessage {
    seq: u64,
}

impl Client {
    async fn connect(bench_env: &BenchEnv, request: &McpRequest) -> anyhow::Result<Self> {
        let mcp = McpClient::connect(&bench_env.socket()).await?;
        Ok(Self { mcp, request: request.clone(), last: 0 })
    }
}

impl LoadSender for Client {
    async fn send(&mut self) -> anyhow::Result<()> {
        let sent: SendReplyBody = self.mcp.request(&self.request).await?;
        let SentMessage { seq } = sent.structured_content;
        ensure!(!sent.is_error && seq > self.last, "message {seq} came after {}", self.last);
        self.last = seq;
        Ok(())
    }
}

impl LoadSender for BenchStore {
    async fn send(&mut self) -> anyhow::Result<()> {
        self.append().await
    }
}

/// Connects a number of clients, each with its own connection.
async fn connect_clients(
    clients: usize,
    bench_env: &BenchEnv,
    request: &McpRequest,
) -> anyhow::Result<Vec<Client>> {
    let mut callers = Vec::with_capacity(clients);
    for _ in 0..clients {
        callers.push(Client::connect(bench_env, request).await?);
    }
    Ok(callers)
}

/// Runs the sends of the clients, then the appends of as many callers.
async fn round(
    bench_env: &BenchEnv,
    clients: Vec<Client>,
    archive: &BenchStore,
) -> anyhow::Result<Round> {
    let callers = vec![archive.clone(); clients.len()];
    let (daemon, own) = (ProcessorClock::start(bench_env.pid()?)?, ProcessorClock::own()?);
    let sent = run_load(clients).await?;
    let clients = own.cpu_time()?.div_f64(sent.total);
    // The deferred work for these sends is part of their cost, and must not count for the appends.
    let daemon = daemon.cpu_time_when_idle().await?.div_f64(sent.total);
    let own = ProcessorClock::own()?;
    let appended = run_load(callers).await?;
    let store = own.cpu_time()?.div_f64(appended.total);
    Ok(Round { sent, appended, spent: CpuTimes { daemon, clients, store } })
}

fn add_figures(table: &mut Table, clients: usize, rounds: &[Round]) -> anyhow::Result<()> {
    let sends = format!("channel_send through MCP, {clients} at once");
    let appends = format!("store's own appends, {clients} at once");
    let (rate, own) = (
        median_of(rounds, |round| round.sent.rate),
        median_of(rounds, |round| round.appended.rate),
    );
    let p50 = median_of(rounds, |round| millis(round.sent.took.percentile(50)));
    let p99 = median_of(rounds, |round| millis(round.sent.took.percentile(99)));
    let rate = Figure::new(&sends, Unit::PerSecond, rate);
    let p50 = Figure::new(format!("{sends}, p50"), Unit::Millis, p50);
    let p99 = Figure::new(format!("{sends}, p99"), Unit::Millis, p99);
    let own = Figure::new(&appends, Unit::PerSecond, own);
    if clients < MAX_CLIENTS {
        return table.add_all(&[rate, p50, p99, own]);
    }
    let own_p99 = median_of(rounds, |round| millis(round.appended.took.percentile(99)));
    let share = median_of(rounds, |round| round.sent.rate / round.appended.rate);
    let spent = |name, of: fn(&CpuTimes) -> Duration| {
        Figure::new(name, Unit::Micros, median_of(rounds, |round| micros(of(&round.spent))))
    };
    table.add_all(&[
        rate.at_least(MIN_RATE),
        p50,
        p99.at_most(MAX_P99_MILLIS),
        own,
        Figure::new(format!("{appends}, p99"), Unit::Millis, own_p99),
        Figure::new("sends through MCP for each such append", Unit::Times, share)
            .at_least(MIN_SHARE),
        spent("daemon's processor time for a send", |spent| spent.daemon),
        spent("client's processor time for a send", |spent| spent.clients),
        spent("store's processor time for an append", |spent| spent.store),
    ])
}

/// Returns the median of a value over all rounds.
fn median_of(rounds: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    median(rounds.iter().map(of))
}

/// Measures sends to an idle team, where every change makes the scheduler check if the run is over.
async fn measure_idle_team(table: &mut Table) -> anyhow::Result<()> {
    let bench_env = BenchEnv::with_daemon()?;
    bench_env.team(TEAM)?;
    let message = BODY.replace('@', "");
    let copy = json!({ "target": "@team", "message": message, "cc": ["reader"] });
    let copy = McpRequest::call("channel_send", &copy);
    for round in 1..=ROUNDS {
        let sent = run_load(connect_clients(MAX_CLIENTS, &bench_env, &copy).await?).await?;
        wait_until_idle(&bench_env).await?;
        let name = format!("cc to a team at rest, {MAX_CLIENTS} at once, round {round}");
        table.add(&Figure::new(name, Unit::PerSecond, sent.rate))?;
    }
    Ok(())
}
