//! A conversation without a terminal: each line of stdin is a message, and its answer is printed before the next is sent.

use std::{io::BufRead as _, thread};

use agent_worker_protocol::Target;
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::{
    commands::ask,
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format},
        signals::InterruptSignals,
    },
    output::verdict::RunVerdict,
};

/// Number of lines read ahead: none is lost if the conversation ends early, except for these.
const LINE_BUFFER_CAPACITY: usize = 1;

/// Sends the lines until stdin ends or a message gets no answer, and returns the verdict of the last message.
pub(super) async fn converse(
    target: &Target,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let mut lines = spawn_line_reader();
    let mut signals = Some(InterruptSignals::listen_or_fail()?);
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            () = first_signal(&mut signals) => return Err(left_error()),
        };
        let Some(line) = line else { return Ok(RunVerdict::Done) };
        let text = line?;
        if text.trim().is_empty() {
            continue;
        }
        match ask::ask_agent(target, text, format, &mut signals, ctx).await? {
            RunVerdict::Done => {}
            without_answer => return Ok(without_answer),
        }
    }
}

async fn first_signal(signals: &mut Option<InterruptSignals>) {
    match signals {
        Some(signals) => signals.wait_for_first().await,
        None => std::future::pending().await,
    }
}

fn left_error() -> CliError {
    CliError::new(CliErrorKind::Detached, "interrupted; the messages so far were answered")
}

/// Reads the lines of stdin on a thread of its own, since a blocking read cannot be cancelled.
fn spawn_line_reader() -> Receiver<Result<String, CliError>> {
    let (sender, lines) = mpsc::channel(LINE_BUFFER_CAPACITY);
    thread::spawn(move || read_lines(&sender));
    lines
}

fn read_lines(sender: &Sender<Result<String, CliError>>) {
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| {
            CliError::with_source(CliErrorKind::Usage, "could not read the text from stdin", error)
        });
        let is_failed = line.is_err();
        if sender.blocking_send(line).is_err() || is_failed {
            return;
        }
    }
}
