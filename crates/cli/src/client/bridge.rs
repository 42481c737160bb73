//! `agent-worker mcp`: a program that starts us speaks MCP over stdin and stdout, and means the daemon.
//!
//! Every line is a message. A daemon that is away is started or waited for, and a message it may have heard is said again:
//! a tool call carries a key, so that it happens once. Who speaks is decided by the daemon, from our process or the token
//! we were given; nothing that comes in over stdin changes that.

mod message;
mod upstream;

use std::{
    collections::HashMap,
    io::{self, BufRead as _},
    sync::Arc,
    thread,
};

use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::{AbortHandle, JoinSet},
};

use self::{message::BridgeMessage, upstream::BridgeUpstream};
use crate::{error::CliError, output::console::Console};

pub(crate) use self::upstream::BridgeConfig;

/// Lines read and written ahead.
const LINE_BUFFER_CAPACITY: usize = 64;

/// Passes messages on, both ways, until nothing more can come in and everything was answered.
pub(crate) async fn run(host: BridgeConfig, console: &mut Console) -> Result<(), CliError> {
    let (out, mut lines) = mpsc::channel(LINE_BUFFER_CAPACITY);
    let upstream = Arc::new(BridgeUpstream::new(host, out));
    let mut bridge = Bridge {
        upstream,
        pending_requests: JoinSet::new(),
        subscriptions: JoinSet::new(),
        tasks_by_id: HashMap::new(),
    };
    let mut said = spawn_stdin_reader();
    let mut open = true;
    while open || !bridge.pending_requests.is_empty() {
        tokio::select! {
            line = said.recv(), if open => match line {
                Some(line) => bridge.forward_line(&line).await,
                None => open = false,
            },
            Some(line) = lines.recv() => console.print_raw(&(line + "\n"))?,
            Some(_) = bridge.pending_requests.join_next() => {}
        }
    }
    // What was answered last is on its way out.
    while let Ok(line) = lines.try_recv() {
        console.print_raw(&(line + "\n"))?;
    }
    bridge.upstream.close_session().await;
    Ok(())
}

/// What is being said.
struct Bridge {
    upstream: Arc<BridgeUpstream>,
    /// Requests that will be answered.
    pending_requests: JoinSet<()>,
    /// What is told for as long as somebody listens.
    subscriptions: JoinSet<()>,
    /// Both, by how the other side calls them.
    tasks_by_id: HashMap<String, AbortHandle>,
}

impl Bridge {
    async fn forward_line(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        let message = match BridgeMessage::parse(line) {
            Ok(message) => message,
            Err(refusal) => return self.upstream.write_to_client(refusal).await,
        };
        if let Some(id) = message.cancelled_request_id() {
            // Hanging up is how a request without a session is cancelled.
            if let Some(task) =
                self.tasks_by_id.remove(&id).filter(|_| !self.upstream.has_session())
            {
                task.abort();
            }
        }
        let Some(id) = message.id() else {
            // In order: what follows may depend on it.
            return self.upstream.forward_notification(&message).await;
        };
        let upstream = Arc::clone(&self.upstream);
        if message.is_initialize() {
            // Everything that follows depends on it.
            upstream.forward_request(message).await;
            self.subscriptions.shutdown().await;
            self.subscriptions.spawn(async move { upstream.forward_server_stream().await });
            return;
        }
        let tasks = if message.is_subscription_stream() {
            &mut self.subscriptions
        } else {
            &mut self.pending_requests
        };
        let task = tasks.spawn(async move { upstream.forward_request(message).await });
        self.tasks_by_id.retain(|_, task| !task.is_finished());
        self.tasks_by_id.insert(id, task);
    }
}

/// The lines of stdin, read by a thread of their own: a process that waits for a terminal's or a pipe's next line cannot
/// be told to do anything else.
fn spawn_stdin_reader() -> Receiver<String> {
    let (sender, lines) = mpsc::channel(LINE_BUFFER_CAPACITY);
    thread::spawn(move || read_stdin_lines(&sender));
    lines
}

fn read_stdin_lines(sender: &Sender<String>) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        if sender.blocking_send(line).is_err() {
            return;
        }
    }
}
