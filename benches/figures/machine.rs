//! The machine that was measured: a figure means nothing without it.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Context as _;

use crate::sample::{Sample, millis};

/// How the store keeps what it was told. Set in `crates/store/src/sqlite/connection.rs`; never loosened for a figure.
const DURABILITY: &str =
    "SQLite WAL, synchronous=FULL: fsync before each reply, shared by whoever waits";
const SYNCS: usize = 200;
/// A page of the database, which is what a commit writes at least.
const PAGE: [u8; 4096] = [7; 4096];

/// What the disk takes to say that something is on it.
pub(crate) struct Disk {
    /// The middle of many.
    pub(crate) fdatasync: Duration,
}

/// Measures the disk that everything else here is measured on.
pub(crate) fn disk() -> anyhow::Result<Disk> {
    let folder = folder()?;
    let mut file = File::create(folder.path().join("page"))?;
    let mut sample = Sample::default();
    for _ in 0..SYNCS {
        file.write_all(&PAGE)?;
        let began = Instant::now();
        file.sync_data()?;
        sample.push(began.elapsed());
    }
    Ok(Disk { fdatasync: sample.median() })
}

/// A fresh folder beside the build, which lies on a real disk where `/tmp` may be memory.
pub(crate) fn folder() -> anyhow::Result<tempfile::TempDir> {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).context("no folder to measure in")
}

/// Says where, when and under what circumstances.
pub(crate) fn description(disk: &Disk) -> String {
    let date = first_line(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]).output());
    let commit = first_line(Command::new("git").args(["describe", "--always", "--dirty"]).output());
    let kernel = read("/proc/sys/kernel/osrelease");
    let cpu = cpu().unwrap_or_else(|| "unknown processor".to_owned());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    let sync = millis(disk.fdatasync);
    format!(
        "{date}, commit {commit}\n\
         {cores} × {cpu}, Linux {kernel}, load {load} before the start\n\
         durability: {DURABILITY}\n\
         fdatasync of 4 KiB, p50: {sync:.2} ms"
    )
}

fn cpu() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let model = info.lines().find(|line| line.starts_with("model name"))?;
    Some(model.split_once(':')?.1.trim().to_owned())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn first_line(output: io::Result<std::process::Output>) -> String {
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().next().unwrap_or("unknown").to_owned()
}
