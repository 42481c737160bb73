//! The child process: reads requests from its standard input and writes answers to its standard output.
//!
//! Each expression has an interpreter of its own. After an expression that failed or used much memory the process
//! ends instead of cleaning up, because cleaning up takes time that the next expression would pay for.

mod engine;
mod exception;
mod functions;
mod limits;
mod outcome;

use std::io::{self, BufRead, Read as _, Write};

use crate::{
    child::engine::Engine,
    error::EvaluationError,
    frame::{AnswerFrame, AnswerOutcome, RequestFrame, ValueFormat, ValueFrame},
};

/// Maximum length of the line of a request; a source has at most 64 KiB, which JSON may escape.
const MAX_REQUEST_LINE_BYTES: u64 = 4 * 1024 * 1024;

/// Value with its content, as the child holds it.
struct ReceivedValue {
    path: Vec<String>,
    format: ValueFormat,
    text: String,
}

/// Outcome with the content of the value.
struct ChildAnswer {
    outcome: AnswerOutcome,
    content: String,
    is_last: bool,
}

impl ChildAnswer {
    fn failed(error: EvaluationError) -> Self {
        Self { outcome: AnswerOutcome::Failed(error), content: String::new(), is_last: true }
    }
}

/// Serves requests until the standard input ends. The process should have no descriptors but the standard ones, and no
/// environment.
pub fn run_evaluator(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    limits::restrict_process()?;
    while let Some((request, values)) = read_request(&mut input)? {
        limits::restrict_processor_time()?;
        let is_last = {
            let mut engine = Engine::new(&request);
            let answer = match &mut engine {
                Ok(engine) => engine.answer(&request, values),
                Err(error) => ChildAnswer::failed(error.clone()),
            };
            write_answer(&mut output, &answer)?;
            if answer.is_last {
                std::mem::forget(engine);
            }
            answer.is_last
        };
        if is_last {
            break;
        }
    }
    Ok(())
}

fn read_request(
    input: &mut impl BufRead,
) -> io::Result<Option<(RequestFrame, Vec<ReceivedValue>)>> {
    let mut line = Vec::new();
    input.by_ref().take(MAX_REQUEST_LINE_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let mut request: RequestFrame = serde_json::from_slice(&line)?;
    let mut values = Vec::new();
    for ValueFrame { path, format, bytes } in request.values.drain(..) {
        let mut content = vec![0; bytes];
        input.read_exact(&mut content)?;
        let text = String::from_utf8(content).map_err(io::Error::other)?;
        values.push(ReceivedValue { path, format, text });
    }
    Ok(Some((request, values)))
}

fn write_answer(output: &mut impl Write, answer: &ChildAnswer) -> io::Result<()> {
    let frame = AnswerFrame { outcome: answer.outcome.clone(), is_last: answer.is_last };
    let mut line = serde_json::to_vec(&frame)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.write_all(answer.content.as_bytes())?;
    output.flush()
}
