//! A model on loopback that calls one tool again and again, and measures the time between its answers and the next
//! requests.
//!
//! Each connection belongs to one client. The answer needs a constant time, so that a client's own time is visible: it is the
//! time from the last byte of an answer to the last byte of the next request.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::sample::Sample;

/// A running model, which serves until this process ends.
pub(crate) struct SteppingModel {
    address: SocketAddr,
    record: Arc<Mutex<StepRecord>>,
}

/// The requests that a model got.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepRecord {
    /// Time of the clients between an answer and the next request.
    pub(crate) between: Sample,
    /// Requests of each client in their order.
    pub(crate) requests: Vec<Vec<Vec<u8>>>,
}

impl SteppingModel {
    /// Starts a model that calls a tool `steps` times after `answer_time` each, and then says that it is done.
    pub(crate) fn start(steps: usize, answer_time: Duration) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let model = Self { address: listener.local_addr()?, record: Arc::default() };
        let record = Arc::clone(&model.record);
        thread::spawn(move || {
            for visitor in listener.incoming().flatten() {
                let record = Arc::clone(&record);
                // A client that disconnects has ended its turn.
                thread::spawn(move || serve(visitor, steps, answer_time, &record));
            }
        });
        Ok(model)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of requests so far.
    pub(crate) fn request_count(&self) -> usize {
        self.record
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .requests
            .iter()
            .map(Vec::len)
            .sum()
    }

    /// Returns the record, and begins a new one.
    pub(crate) fn take_record(&self) -> StepRecord {
        std::mem::take(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn serve(
    mut visitor: TcpStream,
    steps: usize,
    answer_time: Duration,
    record: &Mutex<StepRecord>,
) -> anyhow::Result<()> {
    visitor.set_nodelay(true)?;
    let mut reader = BufReader::new(visitor.try_clone()?);
    let (mut place, mut answered) = (None, None);
    while let Some(body) = read_request(&mut reader)? {
        let waited = answered.map(|at: Instant| at.elapsed());
        let parsed: Value = serde_json::from_slice(&body)?;
        let results = count_results(&parsed);
        {
            let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
            record.between.extend(waited);
            let place = *place.get_or_insert_with(|| {
                record.requests.push(Vec::new());
                record.requests.len() - 1
            });
            record.requests[place].push(body);
        }
        thread::sleep(answer_time);
        let text = events(&parsed["model"], (results < steps).then_some(results));
        write!(
            visitor,
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        )?;
        answered = Some(Instant::now());
    }
    Ok(())
}

/// Returns the body of the next request; none after the last one.
fn read_request(reader: &mut BufReader<TcpStream>) -> anyhow::Result<Option<Vec<u8>>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(body))
}

fn count_results(request: &Value) -> usize {
    let messages = request["messages"].as_array().into_iter().flatten();
    let blocks = messages.filter_map(|message| message["content"].as_array()).flatten();
    blocks.filter(|block| block["type"] == "tool_result").count()
}

/// Returns the events of an answer: a call with this number, or the end.
fn events(model: &Value, call: Option<usize>) -> String {
    let usage = json!({"input_tokens": 100, "output_tokens": 10});
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": usage,
    });
    let (block, delta, reason) = match call {
        Some(number) => (
            json!({"type": "tool_use", "id": format!("toolu_{number}"), "name": "document_list", "input": {}}),
            json!({"type": "input_json_delta", "partial_json": "{}"}),
            "tool_use",
        ),
        None => (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": "Done."}),
            "end_turn",
        ),
    };
    let end = json!({"stop_reason": reason, "stop_sequence": null});
    let events = [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": end, "usage": {"output_tokens": 10}}),
        json!({"type": "message_stop"}),
    ];
    let line = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    events.iter().map(line).collect::<Vec<_>>().concat()
}
