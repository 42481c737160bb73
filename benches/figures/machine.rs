//! A description of the measured machine, without which a figure has no meaning.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::FileExt as _,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tempfile::TempDir;

use crate::sample::{Sample, millis};

/// Durability settings of the store. Set in `crates/store/src/sqlite/connection.rs`; never weakened for a figure.
const DURABILITY: &str = "SQLite WAL, synchronous=FULL: one fsync before the replies of a batch";
/// A database page, the minimum that a commit writes.
const PAGE: [u8; 4096] = [7; 4096];
const PAGES: usize = 1000;

/// The disk of all measurements, and the duration of an fdatasync on it.
///
/// Overwrites pages in place, as SQLite does with its log: a growing file would be slower, and a more lenient
/// reference.
pub(crate) struct Disk {
    file: File,
    next: usize,
    took: Sample,
    _folder: TempDir,
}

impl Disk {
    /// Creates a file for the measurement.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let folder = folder()?;
        let mut file = File::create(folder.path().join("pages"))?;
        file.write_all(&PAGE.repeat(PAGES))?;
        file.sync_all()?;
        Ok(Self { file, next: 0, took: Sample::default(), _folder: folder })
    }

    /// Writes a page and measures its fdatasync.
    pub(crate) fn sync(&mut self) -> anyhow::Result<()> {
        self.file.write_all_at(&PAGE, (self.next * PAGE.len()).try_into()?)?;
        self.next = (self.next + 1) % PAGES;
        let began = Instant::now();
        self.file.sync_data()?;
        self.took.push(began.elapsed());
        Ok(())
    }

    /// Returns the median of the measurements.
    pub(crate) fn fdatasync(&self) -> Duration {
        self.took.median()
    }
}

/// Returns a new folder next to the build, which is on a real disk, while `/tmp` may be in memory.
pub(crate) fn folder() -> anyhow::Result<TempDir> {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).context("no folder to measure in")
}

/// Describes machine, time and conditions of the measurement.
pub(crate) fn description() -> anyhow::Result<String> {
    let mut disk = Disk::open()?;
    for _ in 0..PAGES {
        disk.sync()?;
    }
    let date = first_line(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]).output());
    let commit = first_line(Command::new("git").args(["describe", "--always", "--dirty"]).output());
    let kernel = read("/proc/sys/kernel/osrelease");
    let cpu = cpu().unwrap_or_else(|| "unknown processor".to_owned());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    let sync = millis(disk.fdatasync());
    Ok(format!(
        "{date}, commit {commit}\n\
         {cores} × {cpu}, Linux {kernel}, load {load} before the start\n\
         durability: {DURABILITY}\n\
         fdatasync of 4 KiB, p50: {sync:.2} ms"
    ))
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
