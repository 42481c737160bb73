//! `agent-worker mcp`: a program that starts us speaks MCP over stdin and stdout, and means the daemon.
//!
//! Every line is a message. A daemon that is away is started or waited for, and a message it may have heard is said again:
//! a tool call carries a key, so that it happens once. Who speaks is decided by the daemon, from our process or the token
//! we were given; nothing that comes in over stdin changes that.

mod far_end;
mod message;

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

use self::{far_end::FarEnd, message::Message};
use crate::{console::Console, error::CliError};

pub(crate) use self::far_end::Host;

/// Lines read and written ahead.
const AHEAD: usize = 64;

/// Passes messages on, both ways, until nothing more can come in and everything was answered.
pub(crate) async fn run(host: Host, console: &mut Console) -> Result<(), CliError> {
    let (out, mut lines) = mpsc::channel(AHEAD);
    let far = Arc::new(FarEnd::new(host, out));
    let mut bridge =
        Bridge { far, answering: JoinSet::new(), listening: JoinSet::new(), by_id: HashMap::new() };
    let mut said = stdin();
    let mut open = true;
    while open || !bridge.answering.is_empty() {
        tokio::select! {
            line = said.recv(), if open => match line {
                Some(line) => bridge.pass(&line).await,
                None => open = false,
            },
            Some(line) = lines.recv() => console.raw(&(line + "\n"))?,
            Some(_) = bridge.answering.join_next() => {}
        }
    }
    // What was answered last is on its way out.
    while let Ok(line) = lines.try_recv() {
        console.raw(&(line + "\n"))?;
    }
    bridge.far.farewell().await;
    Ok(())
}

/// What is being said.
struct Bridge {
    far: Arc<FarEnd>,
    /// Requests that will be answered.
    answering: JoinSet<()>,
    /// What is told for as long as somebody listens.
    listening: JoinSet<()>,
    /// Both, by how the other side calls them.
    by_id: HashMap<String, AbortHandle>,
}

impl Bridge {
    async fn pass(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        let message = match Message::read(line) {
            Ok(message) => message,
            Err(refusal) => return self.far.tell(refusal).await,
        };
        if let Some(id) = message.cancels() {
            // Hanging up is how a request without a session is cancelled.
            if let Some(task) = self.by_id.remove(&id).filter(|_| !self.far.has_session()) {
                task.abort();
            }
        }
        let Some(id) = message.id() else {
            // In order: what follows may depend on it.
            return self.far.notify(&message).await;
        };
        let far = Arc::clone(&self.far);
        if message.begins() {
            // Everything that follows depends on it.
            far.answer(message).await;
            self.listening.shutdown().await;
            self.listening.spawn(async move { far.listen().await });
            return;
        }
        let tasks = if message.is_endless() { &mut self.listening } else { &mut self.answering };
        let task = tasks.spawn(async move { far.answer(message).await });
        self.by_id.retain(|_, task| !task.is_finished());
        self.by_id.insert(id, task);
    }
}

/// The lines of stdin, read by a thread of their own: a process that waits for a terminal's or a pipe's next line cannot
/// be told to do anything else.
fn stdin() -> Receiver<String> {
    let (sender, lines) = mpsc::channel(AHEAD);
    thread::spawn(move || read(&sender));
    lines
}

fn read(sender: &Sender<String>) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        if sender.blocking_send(line).is_err() {
            return;
        }
    }
}
