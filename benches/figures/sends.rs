//! Durable sends: through MCP over the Unix socket, and straight into a store on the same disk, in turns.
//!
//! The reader is at work the whole time, so each send is what it usually is: a message, a delivery that will wake
//! somebody later, an event, an fsync. The last lines show what becomes of it while nobody is at work.

use std::time::Duration;

use agent_worker_host::Daemon;
use agent_worker_protocol::api::{TokenCreated, TokenRequest};
use serde_json::{Value, json};

use crate::{
    archive::{Archive, BODY},
    house::{House, own_processor_time},
    load::{Caller, Load, load},
    machine,
    mcp::McpRequest,
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
    McpRequest::call("channel_send", &wake).ask(&house.dial()).await?;
    let request = TokenRequest { name: "bench".to_owned() };
    let TokenCreated { token, .. } = house.dial().post("/tokens", &request).await?;
    let folder = machine::folder()?;
    let archive = Archive::open(folder.path()).await?;
    let mention = json!({ "target": "@team", "message": BODY });
    let as_client = || house.dial().with_token(token.clone());
    for clients in CLIENTS {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let (sent, spent) = timed(&house, callers(clients, &as_client, &mention)).await?;
            let appended = load(vec![archive.clone(); clients]).await?;
            rounds.push(Round { sent, spent, appended });
        }
        tell(table, clients, &rounds)?;
    }
    archive.close().await;
    let (sent, _) = timed(&house, callers(MOST_CLIENTS, || house.dial(), &mention)).await?;
    let name = format!("the same as the user, {MOST_CLIENTS} clients");
    table.add(&Figure::new(name, Unit::PerSecond, sent.rate))?;
    table.add(&weight::memory("daemon's resident memory after these sends", &house)?)?;
    at_rest(table).await
}

/// One measurement of each kind, taken one right after the other.
struct Round {
    sent: Load,
    spent: Spent,
    appended: Load,
}

/// Processor time for each send.
struct Spent {
    daemon: Duration,
    clients: Duration,
}

/// A client of the daemon.
struct Client {
    daemon: Daemon,
    request: McpRequest,
}

impl Caller for Client {
    async fn send(&mut self) -> anyhow::Result<()> {
        self.request.ask(&self.daemon).await.map(drop)
    }
}

impl Caller for Archive {
    async fn send(&mut self) -> anyhow::Result<()> {
        self.append().await
    }
}

/// So many clients, each with a connection of its own.
fn callers(clients: usize, dial: impl Fn() -> Daemon, args: &Value) -> Vec<Client> {
    let request = McpRequest::call("channel_send", args);
    (0..clients).map(|_| Client { daemon: dial(), request: request.clone() }).collect()
}

async fn timed(house: &House, callers: Vec<Client>) -> anyhow::Result<(Load, Spent)> {
    let (daemon, clients) = (house.processor_time()?, own_processor_time()?);
    let sent = load(callers).await?;
    let each = |all: Duration| all.div_f64(sent.all.max(1.0));
    let spent = Spent {
        daemon: each(house.processor_time()? - daemon),
        clients: each(own_processor_time()? - clients),
    };
    Ok((sent, spent))
}

fn tell(table: &mut Table, clients: usize, rounds: &[Round]) -> anyhow::Result<()> {
    let middle = |of: &dyn Fn(&Round) -> f64| median(rounds.iter().map(of));
    let held = clients == MOST_CLIENTS;
    let sends = format!("channel_send through MCP, {clients} clients");
    let rate = Figure::new(&sends, Unit::PerSecond, middle(&|round| round.sent.rate));
    table.add(&if held { rate.at_least(LEAST_RATE) } else { rate })?;
    let p50 = middle(&|round| millis(round.sent.took.percentile(50)));
    table.add(&Figure::new(format!("{sends}, p50"), Unit::Millis, p50))?;
    let p99 = middle(&|round| millis(round.sent.took.percentile(99)));
    let p99 = Figure::new(format!("{sends}, p99"), Unit::Millis, p99);
    table.add(&if held { p99.at_most(MOST_P99) } else { p99 })?;
    let name = format!("store's own appends, {clients} callers");
    table.add(&Figure::new(name, Unit::PerSecond, middle(&|round| round.appended.rate)))?;
    let share = middle(&|round| round.sent.rate / round.appended.rate);
    let share = Figure::new(format!("MCP's share of that, {clients} clients"), Unit::Times, share);
    table.add(&if held { share.at_least(LEAST_SHARE) } else { share })?;
    let daemon = middle(&|round| micros(round.spent.daemon));
    table.add(&Figure::new("daemon's processor time for each", Unit::Micros, daemon))?;
    let own = middle(&|round| micros(round.spent.clients));
    table.add(&Figure::new("the clients' own for each", Unit::Micros, own))?;
    Ok(())
}

/// While nobody works, every change makes the scheduler ask whether the run is over.
async fn at_rest(table: &mut Table) -> anyhow::Result<()> {
    let house = House::with_daemon()?;
    house.team(TEAM)?;
    let message = BODY.replace('@', "");
    let copy = json!({ "target": "@team", "message": message, "cc": ["reader"] });
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let (sent, _) = timed(&house, callers(MOST_CLIENTS, || house.dial(), &copy)).await?;
        rates.push(sent.rate);
    }
    for (round, rate) in (1..).zip(rates) {
        let name = format!("cc to a team at rest, {MOST_CLIENTS} clients, round {round}");
        table.add(&Figure::new(name, Unit::PerSecond, rate))?;
    }
    Ok(())
}
