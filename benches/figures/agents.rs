//! The overhead of a worker: the same program alone and as an agent's turn, alternately, against a model that
//! answers at once.

use std::{
    collections::BTreeMap,
    env, fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use agent_worker_host::{DaemonSocket, EventStream};
use agent_worker_protocol::EventKind;
use anyhow::{Context as _, ensure};

use crate::{
    bench_env::BenchEnv,
    machine,
    sample::{median, millis},
    scripted_model,
    table::{Figure, Table, Unit},
    turns::{send, wait_for_event},
};

const QUICK_ROUNDS: usize = 41;
const SLOW_ROUNDS: usize = 9;
const KIBIBYTES: f64 = 1024.0;
/// Interval of reading the memory. The kernel keeps the peak of each process, so little is missed.
const MEMORY_POLL_INTERVAL: Duration = Duration::from_millis(4);

/// A program that is measured alone and as an agent.
struct Subject {
    name: &'static str,
    /// The agent's entry in the workflow file.
    entry: String,
    words: Vec<String>,
    variables: Vec<(&'static str, String)>,
    rounds: usize,
}

/// Duration of one run, and the peak memory of its processes in MiB.
#[derive(Clone, Copy)]
struct TurnCost {
    millis: f64,
    mebibytes: f64,
}

/// Measures `true`, and Claude Code if `scripts/agents` has installed it.
pub(crate) async fn figures(table: &mut Table) -> anyhow::Result<()> {
    let nothing = Subject {
        name: "`true`",
        entry: "{ backend: command, command: [\"true\"] }".to_owned(),
        words: vec!["true".to_owned()],
        variables: Vec::new(),
        rounds: QUICK_ROUNDS,
    };
    nothing.figures(table).await?;
    match claude() {
        Some(path) => claude_code(&path)?.figures(table).await,
        None => Ok(writeln!(std::io::stderr(), "no Claude Code: scripts/agents gets it")?),
    }
}

fn claude_code(path: &Path) -> anyhow::Result<Subject> {
    let path = path.to_str().context("a path that is no text")?;
    let words = [path, "-p", "--output-format", "stream-json", "--verbose", "--model", "sonnet"];
    let base = format!("http://{}", scripted_model::start()?);
    Ok(Subject {
        name: "Claude Code",
        entry: format!("{{ backend: claude, command: {path:?}, model: sonnet, session: fresh }}"),
        words: words.map(str::to_owned).to_vec(),
        variables: vec![
            ("ANTHROPIC_BASE_URL", base),
            ("ANTHROPIC_API_KEY", "test-key".to_owned()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ],
        rounds: SLOW_ROUNDS,
    })
}

/// Returns the path at which `scripts/agents` installs Claude Code.
#[expect(clippy::disallowed_methods, reason = "where it is is a setting of the benchmark itself")]
fn claude() -> Option<PathBuf> {
    let cache = || {
        let cache =
            env::var("XDG_CACHE_HOME").or_else(|_| env::var("HOME").map(|home| home + "/.cache"));
        cache.map(|cache| cache + "/agent-worker/agents")
    };
    let arch = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        _ => return None,
    };
    let folder = PathBuf::from(env::var("AW_AGENTS").or_else(|_| cache()).ok()?);
    let file = format!("npm/node_modules/@anthropic-ai/claude-code-linux-{arch}/claude");
    Some(folder.join(file)).filter(|file| file.exists())
}

impl Subject {
    async fn figures(&self, table: &mut Table) -> anyhow::Result<()> {
        let bench_env = BenchEnv::with_daemon()?;
        bench_env.file("team.yaml", &format!("name: team\nagents:\n  reader: {}\n", self.entry))?;
        let mut start = bench_env.command(&["start", "team.yaml", "--background", "--json"]);
        let started = start.envs(self.variables.clone()).output()?;
        ensure!(started.status.success(), "no team: {started:?}");
        let started: serde_json::Value = serde_json::from_slice(&started.stdout)?;
        let run = started["run"].as_str().context("a run without an id")?;
        let daemon = bench_env.connect();
        let mut events = daemon.events(&format!("/events?run={run}&after=0"), None).await?;
        let folder = machine::folder()?;
        let (mut alone, mut turns) = (Vec::new(), Vec::new());
        // The first round is a warm-up: it reads and creates files that later rounds reuse.
        for round in 0..=self.rounds {
            let pair =
                (self.measure_alone(folder.path())?, measure_turn(&daemon, &mut events).await?);
            if round > 0 {
                alone.push(pair.0);
                turns.push(pair.1);
            }
        }
        let middle = |took: &[TurnCost], part: fn(&TurnCost) -> f64| median(took.iter().map(part));
        let (bare, with) = (middle(&alone, |took| took.millis), middle(&turns, |took| took.millis));
        let name = self.name;
        table.add(&Figure::new(format!("{name}, alone"), Unit::Millis, bare))?;
        table.add(&Figure::new(format!("{name}, an agent's turn"), Unit::Millis, with))?;
        table.add(&Figure::new(format!("added to {name} by us"), Unit::Millis, with - bare))?;
        let (bare, with) =
            (middle(&alone, |took| took.mebibytes), middle(&turns, |took| took.mebibytes));
        let name = format!("memory added to {name} by us, at most");
        Ok(table.add(&Figure::new(name, Unit::Mebibytes, with - bare))?)
    }

    fn measure_alone(&self, folder: &Path) -> anyhow::Result<TurnCost> {
        let began = Instant::now();
        let (program, args) = self.words.split_first().context("no program")?;
        let mut child = Command::new(program)
            .args(args)
            .current_dir(folder)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", folder)
            .envs(self.variables.clone())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // `true` does not read its input.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(b"please look"));
        let pid = child.id();
        let watch = thread::spawn(move || peak(pid));
        let status = child.wait()?;
        let millis = millis(began.elapsed());
        ensure!(status.success(), "{program} failed: {status}");
        Ok(TurnCost { millis, mebibytes: watch.join().unwrap_or_default() })
    }
}

/// Measures from a mention to the end of the attempt.
async fn measure_turn(daemon: &DaemonSocket, events: &mut EventStream) -> anyhow::Result<TurnCost> {
    let began = Instant::now();
    send(daemon).await?;
    let running = wait_for_event(events, EventKind::AttemptRunning).await?;
    let pid = running.data()["pid"].as_u64();
    let pid = u32::try_from(pid.context("an attempt without a process")?)?;
    let watch = thread::spawn(move || peak(pid));
    let ended = wait_for_event(events, EventKind::AttemptEnded).await?;
    let millis = millis(began.elapsed());
    ensure!(ended.cause.as_deref() == Some("ok"), "a turn failed: {ended:?}");
    Ok(TurnCost { millis, mebibytes: watch.join().unwrap_or_default() })
}

/// Returns the sum of the peak memory of a process and all its descendants, each at its own time, until the process
/// exits.
fn peak(root: u32) -> f64 {
    let mut highest: BTreeMap<u32, f64> = BTreeMap::new();
    loop {
        let mut open = vec![root];
        while let Some(pid) = open.pop() {
            if let Some(kibibytes) = peak_kibibytes(pid) {
                highest.insert(pid, kibibytes);
            }
            open.extend(children(pid));
        }
        if peak_kibibytes(root).is_none() {
            return highest.values().sum::<f64>() / KIBIBYTES;
        }
        thread::sleep(MEMORY_POLL_INTERVAL);
    }
}

/// Returns `None` for a process that has ended or is about to end.
fn peak_kibibytes(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<_>>())
        .collect()
}
