//! A minimal HTTP server for the scripted model: one request and one response per connection.

use std::{
    collections::HashMap,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
};

use crate::world::TEST_TIMEOUT;

/// Maximum size of a body, larger than a long conversation.
const MAX_BODY_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum size of a request head.
const MAX_HEAD_BYTES: u64 = 64 * 1024;

/// The head of a request.
pub(super) struct RequestHead {
    pub(super) method: String,
    /// The path without the query.
    pub(super) path: String,
    /// Header fields with lower-case names.
    pub(super) fields: HashMap<String, String>,
}

/// The body of a request.
pub(super) struct RequestBody(pub(super) String);

/// Reads a request. Returns `None` if the client sends nothing.
pub(super) fn read_request(visitor: &TcpStream) -> io::Result<Option<(RequestHead, RequestBody)>> {
    visitor.set_read_timeout(Some(TEST_TIMEOUT))?;
    let mut from = BufReader::new(visitor).take(MAX_HEAD_BYTES);
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default().to_owned();
    let mut fields = HashMap::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        fields.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = fields.get("content-length").map_or(Ok(0), |length| length.parse());
    let length: u64 = length.map_err(io::Error::other)?;
    if length > MAX_BODY_BYTES || fields.contains_key("transfer-encoding") {
        return Err(io::Error::other("a body of known length up to 16 MiB, please"));
    }
    from.set_limit(length);
    let mut body = String::new();
    from.read_to_string(&mut body)?;
    Ok(Some((RequestHead { method, path, fields }, RequestBody(body))))
}

/// Writes a complete response.
pub(super) fn write_response(
    mut visitor: &TcpStream,
    status: u16,
    fields: &[(&str, &str)],
    body: &str,
) -> io::Result<()> {
    let field = |(name, value): &(&str, &str)| [*name, ": ", *value, "\r\n"].concat();
    let fields: String = fields.iter().map(field).collect();
    let length = body.len();
    write!(
        visitor,
        "HTTP/1.1 {status} scripted\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n{fields}\r\n{body}"
    )
}

/// Closes the connection in the middle of a response.
pub(super) fn write_truncated_response(mut visitor: &TcpStream, body: &str) -> io::Result<()> {
    let length = body.len() * 2;
    write!(
        visitor,
        "HTTP/1.1 200 scripted\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

/// Starts a chunked response.
pub(super) fn begin_stream(mut visitor: &TcpStream) -> io::Result<()> {
    visitor.set_nodelay(true)?;
    visitor.write_all(
        b"HTTP/1.1 200 scripted\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
          connection: close\r\n\r\n",
    )
}

/// Writes the next chunk. An empty chunk is the end; without it the response counts as broken off.
pub(super) fn chunk(mut visitor: &TcpStream, text: &str) -> io::Result<()> {
    visitor.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
}
