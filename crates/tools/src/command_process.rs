//! A shell command in a process group of its own, whose two streams are one pipe: the order of their pieces is kept.
//!
//! Invariant: the group is killed when its value is dropped. Processes that leave the group end with the turn, because the
//! worker ends every process of the attempt.

use std::{
    io,
    os::fd::OwnedFd,
    path::Path,
    pin::pin,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe::Receiver,
    process::{Child, Command},
    time::timeout,
};

/// Time to read the output after the command has ended, if a process that it left behind holds the pipe open.
const PIPE_DRAIN_TIMEOUT: Duration = Duration::from_millis(250);
/// Time between TERM and KILL.
const KILL_GRACE: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 64 * 1024;

/// A running command.
pub(crate) struct CommandProcess {
    child: Child,
    output: Receiver,
    group: ProcessGroup,
}

/// The processes of a command. Killed with this value.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // The group may have ended.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl CommandProcess {
    /// Starts a command line in a folder.
    pub(crate) fn start(line: &str, folder: &Path) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let output = Receiver::from_owned_fd(OwnedFd::from(reader))?;
        let shell =
            ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists());
        let child = Command::new(shell.unwrap_or("/bin/sh"))
            .args(["-c", line])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0)
            .spawn()?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        Ok(Self { child, output, group: ProcessGroup(pid) })
    }

    /// Reads the output until the command has ended, and passes each piece on.
    pub(crate) async fn wait(&mut self, mut piece: impl FnMut(&[u8])) -> io::Result<ExitStatus> {
        let Self { child, output, .. } = self;
        let mut buffer = vec![0; READ_BYTES];
        let mut ended = pin!(child.wait());
        loop {
            tokio::select! {
                read = output.read(&mut buffer) => match read {
                    Ok(0) | Err(_) => return ended.await,
                    Ok(n) => piece(&buffer[..n]),
                },
                status = &mut ended => {
                    let drain = async {
                        while let Ok(n @ 1..) = output.read(&mut buffer).await {
                            piece(&buffer[..n]);
                        }
                    };
                    // The pipe already holds everything that the command itself wrote.
                    let _ = timeout(PIPE_DRAIN_TIMEOUT, drain).await;
                    return status;
                }
            }
        }
    }

    /// Ends the group: TERM, then KILL. Passes the last pieces of the output on.
    pub(crate) async fn end(&mut self, piece: impl FnMut(&[u8])) {
        self.group.signal(Signal::TERM);
        let _ = timeout(KILL_GRACE, self.wait(piece)).await;
        self.group.signal(Signal::KILL);
        let _ = self.child.wait().await;
    }

    /// Leaves the processes that the command has started in the background alone; they end with the turn.
    pub(crate) fn release(mut self) {
        self.group.0 = None;
    }
}
