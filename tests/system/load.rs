//! Many clients at once, clients that do not read, and clients that never complete a request.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use agent_worker_host::DaemonSocket;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::world::{World, kill};

const CLIENTS: usize = 1000;
const MAX_THREADS: usize = 64;
const READERS: usize = 200;
/// The idle limit of a connection, and the additional delay that a busy machine may cause.
const LIMIT: Duration = Duration::from_secs(15);
/// The same for a connection to the port that has sent no token.
const ANONYMOUS_LIMIT: Duration = Duration::from_secs(10);
/// Time after which a body that has stalled is refused.
const STALL_LIMIT: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(10);

/// Raises the descriptor limit of this process, and of the daemon that it starts, to the system's maximum.
fn allow_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

/// Returns the processor time of a process so far, including ended threads.
fn processor_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

#[test]
fn a_thousand_clients_at_once_are_served_by_few_threads() {
    allow_descriptors();
    let world = World::new();
    let mut daemon = world.daemon();
    let (pid, socket) = (daemon.id(), world.home().join("daemon.sock"));
    let (most, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                most.fetch_max(threads(pid), Ordering::Relaxed);
            }
        });
        // The daemon is stopped, so that all clients are waiting when it continues.
        let clients: Vec<UnixStream> = (0..CLIENTS / 100)
            .flat_map(|_| {
                kill(pid, "STOP");
                let some: Vec<UnixStream> = (0..100)
                    .map(|_| {
                        let mut client = UnixStream::connect(&socket).unwrap();
                        let request = "GET /agents HTTP/1.1\r\nHost: localhost\r\n\r\n";
                        client.write_all(request.as_bytes()).unwrap();
                        client
                    })
                    .collect();
                kill(pid, "CONT");
                some
            })
            .collect();
        for mut client in clients {
            client.set_read_timeout(Some(crate::world::TEST_TIMEOUT)).unwrap();
            let mut answer = [0; 15];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200 OK");
        }
        over.store(true, Ordering::Relaxed);
    });
    let most = most.into_inner();
    assert!((2..=MAX_THREADS).contains(&most), "{most} threads");
    kill(pid, "TERM");
    assert!(daemon.wait().unwrap().success());
}

/// Returns the daemon's processor time for one send.
async fn cost_of_a_send(client: &DaemonSocket, world: &World, pid: u32, sends: u32) -> Duration {
    let body = json!({"target": "@team", "project": world.project(), "message": "to nobody"});
    let before = processor_time(pid);
    for _ in 0..sends {
        let _: Value = client.post("/messages", &body).await.unwrap();
    }
    processor_time(pid).saturating_sub(before) / sends
}

#[test]
fn readers_of_events_that_have_stalled_cost_a_send_nothing() {
    allow_descriptors();
    let world = World::new();
    world.file("team.yaml", "name: team\nagents:\n  a: { backend: mock, mock: [{}] }\n");
    assert_eq!(world.run(&["start", "team.yaml", "--background"]).code, 0);
    let (pid, socket) = (world.daemon_pid().unwrap(), world.home().join("daemon.sock"));
    let path = format!("/events?target=@team&project={}", world.project().display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = DaemonSocket::at(socket.clone());
        cost_of_a_send(&client, &world, pid, 50).await;
        let mut ratios = Vec::new();
        for _ in 0..3 {
            let alone = cost_of_a_send(&client, &world, pid, 150).await;
            let readers: Vec<UnixStream> = (0..READERS)
                .map(|_| {
                    let mut reader = UnixStream::connect(&socket).unwrap();
                    write!(reader, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
                    // The response has begun, so the stream is open.
                    reader.read_exact(&mut [0; 15]).unwrap();
                    reader
                })
                .collect();
            // Enough sends to fill the system's buffers for a reader.
            cost_of_a_send(&client, &world, pid, 30).await;
            let watched = cost_of_a_send(&client, &world, pid, 150).await;
            drop(readers);
            ratios.push(watched.as_secs_f64() / alone.as_secs_f64());
        }
        ratios.sort_by(f64::total_cmp);
        // The target is at most a tenth more; the rest allows for the noise of such a short measurement.
        assert!(ratios[0] < 1.25, "{ratios:?}");
    });
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
}

/// Returns the time that a connection stays open after this input.
fn time_until_closed(mut connection: impl std::io::Read + std::io::Write, sent: &str) -> Duration {
    connection.write_all(sent.as_bytes()).unwrap();
    let begun = Instant::now();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    begun.elapsed()
}

#[test]
fn a_connection_without_a_complete_request_is_closed_after_its_time() {
    let world = World::new();
    let mut daemon = world.daemon();
    let health = world.json(&["daemon", "status", "--json"]);
    let address = health["address"].as_str().unwrap().to_owned();
    let header = "POST /messages HTTP/1.1\r\nHost: localhost\r\n";
    let body =
        format!("{header}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"mess");
    std::thread::scope(|scope| {
        let socket = || UnixStream::connect(world.home().join("daemon.sock")).unwrap();
        let port = || TcpStream::connect(&address).unwrap();
        let closing = [
            (ANONYMOUS_LIMIT, scope.spawn(move || time_until_closed(port(), ""))),
            (ANONYMOUS_LIMIT, scope.spawn(move || time_until_closed(port(), header))),
            (LIMIT, scope.spawn(move || time_until_closed(socket(), header))),
            (STALL_LIMIT, scope.spawn(move || time_until_closed(socket(), &body))),
        ];
        for (limit, closing) in closing {
            let after = closing.join().unwrap();
            assert!(after > limit * 9 / 10 && after < limit + SLACK, "{after:?}");
        }
    });
    kill(daemon.id(), "TERM");
    assert!(daemon.wait().unwrap().success());
}
