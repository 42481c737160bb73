//! A model on loopback that gives the same answer at once, so that no measurement includes a model.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

use serde_json::{Value, json};

/// Starts the model, which serves until this process ends.
pub(crate) fn start() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for visitor in listener.incoming().flatten() {
            // A client that disconnects early is no error.
            thread::spawn(move || serve(visitor));
        }
    });
    Ok(address)
}

fn serve(mut visitor: TcpStream) -> anyhow::Result<()> {
    let mut reader = BufReader::new(visitor.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
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
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let is_asked = first.starts_with("POST") && first.contains("/v1/messages");
    let (kind, text) = match (is_asked, body["stream"] == true) {
        (true, true) => ("text/event-stream", events(&body["model"])),
        (true, false) => ("application/json", full_response(&body["model"]).to_string()),
        (false, _) => ("application/json", "{}".to_owned()),
    };
    write!(
        visitor,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    )?;
    Ok(())
}

fn full_response(model: &Value) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [{"type": "text", "text": "Done."}],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 100, "output_tokens": 10},
    })
}

fn events(model: &Value) -> String {
    let mut message = full_response(model);
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    let text = |text: &str| json!({"type": "text", "text": text});
    let end = json!({"stop_reason": "end_turn", "stop_sequence": null});
    let events = [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": text("")}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Done."}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": end, "usage": {"output_tokens": 10}}),
        json!({"type": "message_stop"}),
    ];
    let line = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    events.iter().map(line).collect::<Vec<_>>().concat()
}
