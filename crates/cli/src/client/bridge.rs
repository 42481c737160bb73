//! `agent-worker mcp`: connects a program that speaks MCP over stdin and stdout to the daemon.
//!
//! Every line is a message. If the daemon is away, the bridge starts it or waits for it, and repeats a message that the
//! daemon may have received: a tool call carries a key, so that it happens once. The daemon identifies the caller by
//! our process or by the given token; no input on stdin changes that.

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

/// Number of lines buffered in each direction.
const LINE_BUFFER_CAPACITY: usize = 64;

/// Forwards messages in both directions until stdin is closed and every request is answered.
pub(crate) async fn run(host: BridgeConfig, console: &mut Console) -> Result<(), CliError> {
    let (out, mut lines) = mpsc::channel(LINE_BUFFER_CAPACITY);
    let upstream = Arc::new(BridgeUpstream::new(host, out));
    let mut bridge = Bridge {
        upstream,
        pending_requests: JoinSet::new(),
        subscriptions: JoinSet::new(),
        tasks_by_id: HashMap::new(),
    };
    let mut input = spawn_stdin_reader();
    let mut open = true;
    while open || !bridge.pending_requests.is_empty() {
        tokio::select! {
            line = input.recv(), if open => match line {
                Some(line) => bridge.forward_line(&line).await,
                None => open = false,
            },
            Some(line) = lines.recv() => console.print_raw(&(line + "\n"))?,
            Some(_) = bridge.pending_requests.join_next() => {}
        }
    }
    // The last answers may still be in the channel.
    while let Ok(line) = lines.try_recv() {
        console.print_raw(&(line + "\n"))?;
    }
    bridge.upstream.close_session().await;
    Ok(())
}

/// The forwarding tasks of a bridge.
struct Bridge {
    upstream: Arc<BridgeUpstream>,
    /// Requests that will get an answer.
    pending_requests: JoinSet<()>,
    /// Streams that last as long as the client listens.
    subscriptions: JoinSet<()>,
    /// Tasks of both kinds by the client's request id.
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
            // Closing the connection cancels a request that has no session.
            if let Some(task) =
                self.tasks_by_id.remove(&id).filter(|_| !self.upstream.has_session())
            {
                task.abort();
            }
        }
        let Some(id) = message.id() else {
            // Awaited to keep the order: later messages may depend on it.
            return self.upstream.forward_notification(&message).await;
        };
        let upstream = Arc::clone(&self.upstream);
        if message.is_initialize() {
            // Awaited, since all later messages depend on it.
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

/// Reads the lines of stdin on a thread of its own, since a blocking read of a terminal or a pipe cannot be cancelled.
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
