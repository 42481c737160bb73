//! The tool host: reads calls from stdin, carries them out at the same time, and writes their results to stdout.
//!
//! Invariant: it ends when stdin is closed, and its commands end with it.

use std::{
    collections::HashMap,
    future::pending,
    io,
    os::fd::AsFd as _,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_backends::{BuiltinTool, builtin_tool};
use agent_worker_host::run_blocking;
use agent_worker_protocol::sync;
use serde_json::{Map, Value};
use tokio::time::timeout;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::unix::pipe::{Receiver, Sender},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    background::BackgroundCommands,
    bash::run_bash,
    edit_file::edit_file,
    file_access::WorkFiles,
    list_files::list_files,
    messages::{HostCall, HostReply, HostRequest},
    read_file::read_file,
    search_code::search_code,
    tool_output::{ToolError, ToolOutput},
    write_file::write_file,
};

/// Number of results that may wait for the worker to read them.
const MAX_WAITING_REPLIES: usize = 4;
/// Timeout of a tool that works on files, which may be huge, slow or pipes.
const FILE_TIMEOUT: Duration = Duration::from_mins(2);

/// The tools of one attempt.
struct ToolHost {
    files: WorkFiles,
    background: BackgroundCommands,
    /// Cancels each running call.
    running: Mutex<HashMap<u64, CancellationToken>>,
}

/// Serves the calls on stdin, which must be a pipe like stdout, until it ends. Paths are relative to `folder`.
pub async fn serve_tools(folder: PathBuf) -> io::Result<()> {
    hide_from_commands()?;
    let input = Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let output = Sender::from_owned_fd(io::stdout().as_fd().try_clone_to_owned()?)?;
    serve(folder, BufReader::new(input), output).await
}

/// Hides the descriptors, the memory and the environment of this process from its commands, which have the same user: one of them
/// could otherwise read calls from the input and write replies to the output.
fn hide_from_commands() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

async fn serve(
    folder: PathBuf,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let host = Arc::new(ToolHost {
        files: WorkFiles::new(folder),
        background: BackgroundCommands::default(),
        running: Mutex::default(),
    });
    let (replies, waiting) = mpsc::channel(MAX_WAITING_REPLIES);
    let written = write_replies(waiting, output);
    tokio::select! {
        ended = host.read_requests(input, replies) => ended,
        ended = written => ended,
    }
}

async fn write_replies(
    mut waiting: mpsc::Receiver<HostReply>,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    while let Some(reply) = waiting.recv().await {
        let mut line = serde_json::to_vec(&reply)?;
        drop(reply);
        line.push(b'\n');
        output.write_all(&line).await?;
        output.flush().await?;
    }
    pending().await
}

impl ToolHost {
    async fn read_requests(
        self: &Arc<Self>,
        mut input: impl AsyncBufRead + Unpin,
        replies: mpsc::Sender<HostReply>,
    ) -> io::Result<()> {
        // Ends every call with this function.
        let mut calls = JoinSet::new();
        let mut line = String::new();
        loop {
            line.clear();
            if input.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            while calls.try_join_next().is_some() {}
            match serde_json::from_str(&line)? {
                HostRequest::Cancel(id) => {
                    if let Some(cancelled) = sync::lock(&self.running).remove(&id) {
                        cancelled.cancel();
                    }
                }
                HostRequest::Call(HostCall { id, tool, args }) => {
                    let cancelled = CancellationToken::new();
                    sync::lock(&self.running).insert(id, cancelled.clone());
                    let (host, replies) = (Arc::clone(self), replies.clone());
                    calls.spawn(async move {
                        let work = host.carry_out(&tool, args, &cancelled);
                        if let Some(output) = cancelled.run_until_cancelled(work).await {
                            sync::lock(&host.running).remove(&id);
                            // The worker is gone if nobody receives it.
                            let _ = replies.send(HostReply { id, output }).await;
                        }
                    });
                }
            }
        }
    }

    async fn carry_out(
        self: &Arc<Self>,
        tool: &str,
        args: Map<String, Value>,
        cancelled: &CancellationToken,
    ) -> ToolOutput {
        match builtin_tool(tool).map(|row| row.tool) {
            Some(BuiltinTool::Bash) => {
                run_bash(args, self.files.folder(), &self.background).await.into()
            }
            Some(BuiltinTool::BashOutput) => self.background.read(args).await.into(),
            Some(BuiltinTool::BashKill) => self.background.kill(args).await.into(),
            Some(tool) => {
                let (host, cancelled) = (Arc::clone(self), cancelled.clone());
                let token = cancelled.clone();
                let work = run_blocking(move || host.use_files(tool, args, &token));
                within(FILE_TIMEOUT, work, &cancelled).await
            }
            None => ToolOutput::Failed(format!("there is no tool `{tool}`")),
        }
    }

    /// Carries out a tool that works on files. Blocks.
    fn use_files(
        &self,
        tool: BuiltinTool,
        args: Map<String, Value>,
        cancelled: &CancellationToken,
    ) -> ToolOutput {
        let files = &self.files;
        match tool {
            BuiltinTool::ReadFile => {
                read_file(args, files).unwrap_or_else(|ToolError(why)| ToolOutput::Failed(why))
            }
            BuiltinTool::WriteFile => write_file(args, files).into(),
            BuiltinTool::EditFile => edit_file(args, files).into(),
            BuiltinTool::ListFiles => list_files(args, files, cancelled).into(),
            BuiltinTool::SearchCode => search_code(args, files, cancelled).into(),
            BuiltinTool::Bash
            | BuiltinTool::BashOutput
            | BuiltinTool::BashKill
            | BuiltinTool::FetchUrl => {
                ToolOutput::Failed("this tool does not run in the tool host".to_owned())
            }
        }
    }
}

/// Waits for work with files, and cancels it at its timeout.
async fn within(
    most: Duration,
    work: impl Future<Output = Option<ToolOutput>>,
    cancelled: &CancellationToken,
) -> ToolOutput {
    let why = match timeout(most, work).await {
        Ok(Some(output)) => return output,
        Ok(None) => "the tool host is ending".to_owned(),
        Err(_) => {
            cancelled.cancel();
            let secs = most.as_secs();
            format!(
                "ended after {secs} s by its timeout; name a smaller folder or file, and no pipe"
            )
        }
    };
    ToolOutput::Failed(why)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use serde_json::json;

    #[tokio::test]
    async fn work_with_files_ends_at_its_timeout_and_is_cancelled() {
        let cancelled = CancellationToken::new();
        let token = cancelled.clone();
        let work = run_blocking(move || {
            while !token.is_cancelled() {
                std::thread::yield_now();
            }
            ToolOutput::Done("late".to_owned())
        });
        let done = within(Duration::from_millis(1), work, &cancelled).await;
        assert!(matches!(&done, ToolOutput::Failed(why) if why.contains("timeout")), "{done:?}");
    }

    #[tokio::test]
    async fn calls_run_at_the_same_time_and_a_cancelled_one_ends_without_a_reply() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x"), "text\n").unwrap();
        let lines = [
            json!({"call": {"id": 1, "tool": "bash", "args": {"command": "sleep 600"}}}),
            json!({"call": {"id": 2, "tool": "read_file", "args": {"path": "x"}}}),
            json!({"call": {"id": 3, "tool": "nosuch", "args": {}}}),
            json!({"cancel": 1}),
            json!({"call": {"id": 4, "tool": "bash", "args": {"command": "echo late"}}}),
        ];
        let input = lines.map(|line| line.to_string()).join("\n") + "\n";
        let (began, (near, far)) = (Instant::now(), tokio::io::duplex(64 * 1024));
        // The input stays open after its lines.
        let (mut writer, reader) = tokio::io::duplex(64 * 1024);
        writer.write_all(input.as_bytes()).await.unwrap();
        let mut replies = BufReader::new(far).lines();
        let client = async {
            let mut found = Vec::new();
            for _ in 0..3 {
                let line = replies.next_line().await.unwrap().unwrap();
                let reply: HostReply = serde_json::from_str(&line).unwrap();
                found.push((reply.id, reply.output));
            }
            drop(writer);
            found.sort_by_key(|(id, _)| *id);
            found
        };
        let served = serve(folder.path().to_owned(), BufReader::new(reader), near);
        let (served, found) = tokio::join!(served, client);
        served.unwrap();
        assert_eq!(found[0], (2, ToolOutput::Done("     1\ttext\n".to_owned())));
        assert_eq!(found[1], (3, ToolOutput::Failed("there is no tool `nosuch`".to_owned())));
        let ToolOutput::Done(late) = &found[2].1 else { panic!("{found:?}") };
        assert!(found[2].0 == 4 && late.ends_with("]\nlate\n"), "{late}");
        assert!(began.elapsed() < Duration::from_mins(1));
    }
}
