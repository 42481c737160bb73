//! Documents as files under `kill -9`: a person saves a file in three ways and agents append to it while the daemon is
//! killed at random moments. Every line must be in the newest revision exactly once.
//!
//! Excluded: an editor that holds the file open for longer than two exchanges. Here every program that opens the file
//! writes at once.
//!
//! `AW_FILE_KILLS` is the number of kills.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use agent_worker_host::DaemonSocket;
use agent_worker_protocol::api::{DocumentMode, DocumentRequest, DocumentWritten};

use crate::world::{TEST_TIMEOUT, World, kill, wait_for};

const WRITERS: u64 = 2;
/// Number of kills per document.
const KILLS_PER_DOCUMENT: usize = 10;
/// A document is quiet once it has not changed for this long: longer than a text stays in either slot.
const QUIET_TIME: Duration = Duration::from_millis(1_500);

#[expect(
    clippy::disallowed_methods,
    reason = "how long the nightly runs is a setting of the test itself"
)]
fn kills() -> usize {
    std::env::var("AW_FILE_KILLS").map_or(6, |text| text.parse().unwrap())
}

/// A pseudo-random sequence, which is the same for the same seed.
struct Random(u64);

impl Random {
    fn next_below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn pause(&mut self, most: u64) {
        thread::park_timeout(Duration::from_millis(self.next_below(most)));
    }
}

/// One document under test.
#[derive(Clone)]
struct Document {
    world: Arc<World>,
    name: String,
    over: Arc<AtomicBool>,
}

impl Document {
    fn file(&self) -> PathBuf {
        self.world.project().join(".workflow/team/main/documents").join(&self.name)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Saves lines as one person does, in alternating ways. Returns the lines.
    fn save(&self, mut random: Random) -> Vec<String> {
        let (file, mut lines) = (self.file(), Vec::new());
        while !self.is_over() {
            let line = format!("person {}", lines.len());
            match lines.len() % 3 {
                0 => append(&file, &line),
                1 => fs::write(&file, text_with_line(&file, &line)).unwrap(),
                _ => {
                    let temporary = file.with_file_name(".person.tmp");
                    fs::write(&temporary, text_with_line(&file, &line)).unwrap();
                    fs::rename(&temporary, &file).unwrap();
                }
            }
            lines.push(line);
            random.pause(700);
        }
        lines
    }

    /// Appends lines through the daemon, each until it is acknowledged. Returns the lines.
    fn append_acknowledged_lines(&self, writer: u64, mut random: Random) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let daemon = DaemonSocket::at(self.world.home().join("daemon.sock"));
        let mut lines = Vec::new();
        while !self.is_over() {
            let line = format!("agent {writer}-{}", lines.len());
            let request = DocumentRequest {
                target: Some("@team".parse().unwrap()),
                project: Some(self.world.project()),
                content: format!("{line}\n"),
                mode: DocumentMode::Append,
                base_revision: None,
            };
            let (path, key) =
                (format!("/documents/{}", self.name), format!("{} {line}", self.name));
            let deadline = Instant::now() + TEST_TIMEOUT;
            while let Err(error) =
                runtime.block_on(daemon.post_once::<_, DocumentWritten>(&path, &key, &request))
            {
                assert!(Instant::now() < deadline, "{error}");
                thread::park_timeout(Duration::from_millis(5));
            }
            lines.push(line);
            random.pause(250);
        }
        lines
    }

    fn newest(&self) -> String {
        let text = self.world.json(&["doc", "read", &self.name, "--json"]);
        text["content"].as_str().unwrap().to_owned()
    }

    /// Waits until the document is quiet, and returns the newest revision.
    fn wait_until_quiet(&self) -> String {
        let (mut before, mut since) = (self.newest(), Instant::now());
        wait_for("the document to be quiet and in its file", || {
            let text = self.newest();
            if text != before || fs::read_to_string(self.file()).unwrap_or_default() != text {
                (before, since) = (text, Instant::now());
                return None;
            }
            (since.elapsed() > QUIET_TIME).then_some(text)
        })
    }

    /// Returns the lines that do not occur exactly once, with their counts.
    fn wrong_lines(&self, lines: &[String]) -> BTreeMap<String, usize> {
        let text = self.wait_until_quiet();
        let count = |line: &String| text.lines().filter(|found| found == line).count();
        let wrong = lines.iter().map(|line| (line.clone(), count(line)));
        wrong.filter(|(_, count)| *count != 1).collect()
    }
}

fn text_with_line(file: &Path, line: &str) -> String {
    format!("{}{line}\n", fs::read_to_string(file).unwrap())
}

fn append(file: &Path, line: &str) {
    let mut open = fs::OpenOptions::new().append(true).open(file).unwrap();
    open.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Kills the daemon while a person and agents write one document. Returns the lines that they wrote.
fn write_and_kill(document: &Document, daemon: &mut Child, kills: usize, seed: u64) -> Vec<String> {
    let Document { world, name, .. } = document;
    assert_eq!(world.run(&["doc", "append", name, "start"]).code, 0);
    wait_for("the file", || document.file().exists().then_some(()));
    let mut people = Vec::new();
    let saving = document.clone();
    people.push(thread::spawn(move || saving.save(Random(seed))));
    for writer in 0..WRITERS {
        let writing = document.clone();
        people.push(thread::spawn(move || {
            writing.append_acknowledged_lines(writer, Random(seed + 1 + writer))
        }));
    }
    let mut random = Random(seed + 100);
    for _ in 0..kills {
        random.pause(900);
        kill(daemon.id(), "KILL");
        daemon.wait().unwrap();
        *daemon = world.daemon();
    }
    document.over.store(true, Ordering::Relaxed);
    people.into_iter().flat_map(|one| one.join().unwrap()).collect()
}

#[test]
fn a_persons_line_and_an_acknowledged_append_are_there_once_however_often_the_daemon_is_killed() {
    let world = Arc::new(World::new());
    let mut daemon = world.daemon();
    world.file("team.yaml", "agents: { a: { mock: [] }, b: { mock: [] } }\n");
    assert_eq!(world.run(&["start", "team.yaml", "--background"]).code, 0);
    let (mut left, mut all, mut wrong) = (kills(), 0, Vec::new());
    for number in 0_u64.. {
        let now = left.min(KILLS_PER_DOCUMENT);
        if now == 0 {
            break;
        }
        left -= now;
        let (name, over) = (format!("notes-{number}.md"), Arc::default());
        let document = Document { world: Arc::clone(&world), name, over };
        let lines = write_and_kill(&document, &mut daemon, now, 2026 + 1_000 * number);
        all += lines.len();
        wrong.extend(document.wrong_lines(&lines).into_iter().map(|line| (number, line)));
    }
    let folder = world.project().join(".workflow/team/main/documents");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let conflicts: Vec<_> =
        names.filter(|name| name.to_string_lossy().ends_with(".conflict")).collect();
    assert!(wrong.is_empty(), "{} of {all} lines are not there once: {wrong:?}", wrong.len());
    assert!(conflicts.is_empty(), "nothing conflicts: {conflicts:?}");
    assert!(all > kills(), "they wrote: {all}");
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}
