//! The command of a task, from its job to `result.json`.
//!
//! Lock, run, end the processes or list those that stay, write the result, release the lock. The worker needs no daemon.
//! Invariants: the command starts only under the lock and only if no daemon has given the process up; the result is on
//! the disk before the lock is released.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    pin::{Pin, pin},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use agent_worker_host::{
    ATTEMPT_MARKER, CommandFolder, Durability, LockFile, TASK_MARKER, adopt_orphans, end_processes,
    own_descendants, write_atomically,
};
use agent_worker_protocol::{CommandEnded, CommandJob, CommandResult, LeftProcess, Span};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use crate::{
    attempt::{Error, WorkerSignals},
    child_env::{OutputTail, PIPE_DRAIN_TIMEOUT},
};

/// Interval between two tries of a write that a full disk refused.
const DISK_RETRY_INTERVAL: Duration = Duration::from_secs(1);
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// Carries out the job of a command.
pub(crate) async fn run_command(job: &CommandJob) -> Result<(), Error> {
    let failed = |doing| {
        let folder = job.folder.clone();
        move |source| Error::Folder { doing, folder, source }
    };
    let mut signals = WorkerSignals::catch().map_err(Error::Process)?;
    let files = CommandFolder::at(&job.folder);
    let lock = LockFile::acquire(&files.lock()).map_err(failed("lock"))?;
    if files.given_up().exists() || files.result().exists() {
        return Ok(());
    }
    // A descendant that loses its parent becomes a child of this process, so none leaves the tree.
    adopt_orphans().map_err(Error::Process)?;
    let mut command = prepare(job, &files).map_err(failed("write the script"))?;
    let result = match command.spawn() {
        Ok(child) => {
            let ended = attend(job, child, &files, &mut signals).await;
            CommandResult::Ended(ended.map_err(failed("write the output"))?)
        }
        Err(error) => {
            CommandResult::NotStarted { why: error.to_string(), errno: error.raw_os_error() }
        }
    };
    let text = serde_json::to_vec(&result)
        .map_err(|error| failed("write result.json")(io::Error::from(error)))?;
    let mut write = || write_atomically(&files.result(), &text, Durability::Machine);
    // This process has the only copy of the result, so only a signal to stop ends the tries.
    tokio::select! {
        biased;
        written = retry_while_full(&mut write) => written.map_err(failed("write result.json"))?,
        _ = signals.term.recv() => {}
    }
    files.remove_values();
    drop(lock);
    Ok(())
}

/// Writes the values and the script, and returns the command that runs it.
fn prepare(job: &CommandJob, files: &CommandFolder) -> io::Result<Command> {
    let mut command = Command::new(&job.program);
    command
        .args(&job.options)
        .arg(files.script())
        .current_dir(&job.cwd)
        .env_clear()
        .envs(&job.env)
        .env(ATTEMPT_MARKER, &job.mark)
        .env(TASK_MARKER, &job.task)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (number, value) in job.values.iter().enumerate() {
        write_atomically(&files.value(number), value.value.as_bytes(), Durability::Process)?;
        command.env(&value.variable, files.value(number));
    }
    write_atomically(&files.script(), job.script.as_bytes(), Durability::Process)?;
    Ok(command)
}

/// The reason why the worker stops waiting for a command.
enum CommandEnding {
    Exited(io::Result<ExitStatus>),
    TimedOut,
    Stopped,
    /// The output cannot be kept.
    Failed(io::Error),
}

/// Waits for the end of a command. After a timeout or a stop nothing of it runs any more.
async fn attend(
    job: &CommandJob,
    mut child: Child,
    files: &CommandFolder,
    signals: &mut WorkerSignals,
) -> io::Result<CommandEnded> {
    let began = Instant::now();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut errors = OutputTail::default();
    let (ending, read) = {
        let output = async {
            tokio::try_join!(
                keep_output(stdout, files.stdout(), job.max_stdout),
                keep_tail(stderr, &mut errors)
            )
        };
        let mut output = OutputTask { reading: pin!(output), end: None };
        let ending = tokio::select! {
            biased;
            _ = signals.term.recv() => CommandEnding::Stopped,
            status = child.wait() => CommandEnding::Exited(status),
            () = expire(job.timeout) => CommandEnding::TimedOut,
            error = output.wait_failed() => CommandEnding::Failed(error),
        };
        if !matches!(ending, CommandEnding::Exited(_)) {
            let ended = end_processes(own_descendants, job.kill_grace.duration());
            output.read_during(ended).await;
        }
        (ending, output.finish().await)
    };
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    read?;
    let (status, timed_out, stopped) = match ending {
        CommandEnding::Exited(status) => (status?.code(), false, false),
        CommandEnding::TimedOut => (None, true, false),
        CommandEnding::Stopped => (None, false, true),
        CommandEnding::Failed(error) => return Err(error),
    };
    if files.stdout().exists() {
        File::open(files.stdout())?.sync_all()?;
    }
    let left = own_descendants().into_iter();
    let left = left.map(|left| LeftProcess { pid: left.pid, start_time: left.start_time });
    Ok(CommandEnded { status, timed_out, stopped, ms, stderr: errors.text(), left: left.collect() })
}

/// Waits until a command has used up its time; forever without a limit.
async fn expire(limit: Option<Span>) {
    match limit {
        Some(limit) => sleep(limit.duration()).await,
        None => std::future::pending().await,
    }
}

/// The reading of a command's output.
struct OutputTask<'a, F> {
    reading: Pin<&'a mut F>,
    end: Option<io::Result<()>>,
}

impl<F: Future<Output = io::Result<((), ())>>> OutputTask<'_, F> {
    /// Reads. Completes only if the output cannot be kept.
    async fn wait_failed(&mut self) -> io::Error {
        self.read().await;
        match self.end.replace(Ok(())) {
            Some(Err(error)) => error,
            Some(Ok(())) | None => std::future::pending().await,
        }
    }

    /// Reads until `work` has completed.
    async fn read_during(&mut self, work: impl Future) {
        let mut work = pin!(work);
        tokio::select! {
            _ = &mut work => return,
            () = self.read() => {}
        }
        work.await;
    }

    /// Reads the rest: all of it, or the part up to the timeout if a background process holds the pipe open.
    async fn finish(mut self) -> io::Result<()> {
        // An elapsed timeout is no error.
        let _ = timeout(PIPE_DRAIN_TIMEOUT, self.read()).await;
        self.end.unwrap_or(Ok(()))
    }

    async fn read(&mut self) {
        if self.end.is_none() {
            self.end = Some(self.reading.as_mut().await.map(|_| ()));
        }
    }
}

/// Copies a stream into a file that gets at most `most` bytes. Without output there is no file.
async fn keep_output(
    stream: Option<impl AsyncRead + Unpin>,
    path: PathBuf,
    most: u64,
) -> io::Result<()> {
    let Some(mut stream) = stream else { return Ok(()) };
    let mut file: Option<File> = None;
    let mut room = usize::try_from(most).unwrap_or(usize::MAX);
    let mut buffer = vec![0; READ_BUFFER_BYTES];
    // Read to the end in any case: a command whose pipe is closed dies without a message.
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        let mut part = &buffer[..n.min(room)];
        room -= part.len();
        while !part.is_empty() {
            let mut write = || {
                if let Some(file) = &mut file {
                    return file.write(part);
                }
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(true).mode(0o600);
                file.insert(options.open(&path)?).write(part)
            };
            let written = retry_while_full(&mut write).await?;
            part = &part[written..];
        }
    }
    Ok(())
}

/// Reads a stream to its end and keeps the last part of it.
async fn keep_tail(
    stream: Option<impl AsyncRead + Unpin>,
    tail: &mut OutputTail,
) -> io::Result<()> {
    let Some(mut stream) = stream else { return Ok(()) };
    let mut buffer = vec![0; READ_BUFFER_BYTES];
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        tail.push(&buffer[..n]);
    }
    Ok(())
}

/// Calls `work` until its result is another than a full disk.
async fn retry_while_full<T>(work: &mut impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match work() {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                ) =>
            {
                sleep(DISK_RETRY_INTERVAL).await;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
