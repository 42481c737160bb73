//! One process of a program, from its start to its end.

use std::{pin::pin, process::Stdio, time::Duration};

use serde_json::Value;

use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, ChildStdin, Command},
    sync::mpsc,
    time::{sleep, timeout},
};

use super::{
    ProgramAdapter, ProgramExit, ProgramInvocation, ProgramOutcome,
    conversation::ProgramConversation, event_recorder::EventRecorder, io_failure,
    launch::start_failure, output_reader::OutputReader,
};
use crate::{
    child_env::{OutputTail, PIPE_DRAIN_TIMEOUT},
    turn::{TurnContext, TurnFailure},
};

/// Time in which a program that was told to stop may report its usage.
const STOP_GRACE: Duration = Duration::from_millis(1500);

/// Starts the program, reads its output and returns its outcome.
pub(super) async fn run_program(
    mut command: Command,
    invocation: ProgramInvocation,
    adapter: &mut dyn ProgramAdapter,
    context: &TurnContext,
    recorder: &EventRecorder<'_>,
) -> Result<ProgramOutcome, TurnFailure> {
    if context.cancelled.is_cancelled() {
        return Err(TurnFailure::cancelled());
    }
    command.args(&invocation.args).envs(&invocation.env).stdin(Stdio::piped());
    let mut child = command.spawn().map_err(start_failure(&command))?;
    let stdin = child.stdin.take();
    let (input, lines) = mpsc::unbounded_channel();
    let is_conversation = invocation.keeps_input_open;
    let conversation =
        ProgramConversation::new(context, recorder, is_conversation.then_some(input))
            .with_messages(invocation.takes_messages.then(|| context.new_messages()));
    let told = async {
        write_input(stdin, &invocation.stdin, lines).await;
        std::future::pending().await
    };
    let cancelled = async {
        context.cancelled.cancelled().await;
        if is_conversation {
            sleep(STOP_GRACE).await;
        }
    };
    // A program may end without reading its whole input.
    let read = tokio::select! {
        read = read_output(&mut child, adapter, conversation) => read,
        never = told => never,
        () = cancelled => return Err(TurnFailure::cancelled()),
    };
    let exit = match read? {
        Ok(exit) => exit,
        Err(failure) => return Ok(ProgramOutcome::Failed(failure)),
    };
    Ok(adapter.outcome(&exit))
}

/// Writes the first text, then the lines of a conversation until it ends. A program that does not read its input shows
/// that by its outcome.
async fn write_input(
    stdin: Option<ChildStdin>,
    first: &str,
    mut lines: mpsc::UnboundedReceiver<Value>,
) {
    let Some(mut stdin) = stdin else { return };
    let mut written = stdin.write_all(first.as_bytes()).await;
    while written.is_ok() {
        let Some(line) = lines.recv().await else { return };
        written = stdin.write_all(format!("{line}\n").as_bytes()).await;
    }
}

/// Reads the output until the program ends or gives up. The inner result is the program's, the outer one the system's.
async fn read_output(
    child: &mut Child,
    adapter: &mut dyn ProgramAdapter,
    conversation: ProgramConversation<'_>,
) -> Result<Result<ProgramExit, TurnFailure>, TurnFailure> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut errors = OutputTail::default();
    let reader = OutputReader::new(adapter, conversation.recorder());
    let mut ended_after_result = false;
    let ended = {
        // The worker does not wait for a program that gave up.
        let mut reading = pin!(async {
            tokio::try_join!(
                reader.read_events(stdout, conversation),
                reader.read_stderr(stderr, &mut errors)
            )
        });
        tokio::select! {
            read = &mut reading => match read {
                Err(failure) => Err(failure),
                Ok(((), ())) => Ok(child.wait().await),
            },
            () = reader.wait_past_result() => {
                ended_after_result = true;
                child.start_kill().map_err(io_failure("end the program"))?;
                Ok(child.wait().await)
            }
            status = child.wait() => {
                // The pipe already holds everything that the program itself wrote.
                match timeout(PIPE_DRAIN_TIMEOUT, reading).await {
                    Ok(Err(failure)) => Err(failure),
                    Ok(Ok(((), ()))) | Err(_) => Ok(status),
                }
            }
        }
    };
    match ended {
        Err(failure) => Ok(Err(failure)),
        Ok(status) => {
            let status = status.map_err(io_failure("wait for the program"))?;
            Ok(Ok(ProgramExit { status, stderr_tail: errors.text(), ended_after_result }))
        }
    }
}
