//! A minimal HTTP client: one request on the daemon's socket, in HTTP/1.0 so that the body ends with the
//! connection.
//!
//! The client shares no code with the product, so that a change of the product's client cannot hide a change on the
//! wire.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::net::UnixStream,
};

use serde_json::Value;

use crate::world::{TEST_TIMEOUT, World};

/// One request to the daemon.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) body: &'a str,
    /// Complete header lines, without line ends.
    pub(crate) headers: &'a [&'a str],
}

/// Status, content type and body of a reply.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    pub(crate) body: String,
}

impl Ask<'_> {
    fn send(&self, mut to: impl std::io::Write) {
        let Self { method, path, body, headers } = self;
        let mut lines = vec![format!("{method} {path} HTTP/1.0"), "Host: localhost".to_owned()];
        lines.push(format!("Content-Length: {}", body.len()));
        if !headers.iter().any(|header| header.starts_with("Content-Type:")) {
            lines.push("Content-Type: application/json".to_owned());
        }
        lines.extend(headers.iter().map(|header| (*header).to_owned()));
        // A reply may arrive before the server has read the whole body.
        let _ = to.write_all(format!("{}\r\n\r\n{body}", lines.join("\r\n")).as_bytes());
    }

    /// Sends the request on the daemon's socket and reads the whole reply.
    pub(crate) fn reply(&self, world: &World) -> Reply {
        let mut stream = connect(world);
        self.send(&mut stream);
        read(stream)
    }

    /// Sends the request on the loopback port, where only a token identifies the caller.
    pub(crate) fn reply_on_port(&self, world: &World) -> Reply {
        let card = fs::read_to_string(world.home().join("daemon.json")).unwrap();
        let card: Value = serde_json::from_str(&card).unwrap();
        let port = u16::try_from(card["port"].as_u64().unwrap()).unwrap();
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        self.send(&mut stream);
        read(stream)
    }

    /// Reads the events of a stream up to and including the first that `is_last` accepts.
    pub(crate) fn events(&self, world: &World, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut stream = connect(world);
        self.send(&mut stream);
        let mut events = Vec::new();
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        let status = lines.next().unwrap_or_default();
        assert!(status.contains(" 200 "), "{}: {status}", self.path);
        for line in lines {
            let Some(data) = line.strip_prefix("data: ") else { continue };
            events.push(serde_json::from_str(data).unwrap());
            if events.last().is_some_and(&is_last) {
                break;
            }
        }
        events
    }
}

fn connect(world: &World) -> UnixStream {
    let stream = UnixStream::connect(world.home().join("daemon.sock")).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

fn read(mut stream: impl std::io::Read) -> Reply {
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no reply: {text}"));
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    let content_type = head.lines().find_map(|line| line.strip_prefix("content-type: "));
    Reply { status, content_type: content_type.map(str::to_owned), body: body.to_owned() }
}
