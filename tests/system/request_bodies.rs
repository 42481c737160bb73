//! The daemon keeps no body of a caller that may not send it, and bodies in memory have a limit in total.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use crate::world::{World, http_request};

const MIB: usize = 1024 * 1024;

/// Sends the head of a request with a body of `length` bytes, and the first part of the body.
fn begin(address: &str, token: &str, path: &str, length: usize, part: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
    .unwrap();
    stream.write_all(part).unwrap();
    stream
}

/// Returns the status of the response, which must come sooner than the daemon gives up on a body (15 s).
fn status(mut stream: TcpStream) -> u16 {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    String::from_utf8_lossy(&head[9..]).parse().unwrap()
}

#[test]
fn a_caller_without_the_permission_is_refused_before_its_body_arrives() {
    let world = World::new();
    let mut daemon = world.daemon();
    let token = world.token("reader", &["--allow", "read"]);
    for path in ["/resources", "/messages", "/runs", "/shutdown", "/tokens", "/proposals/1/cancel"]
    {
        let stream = begin(&world.address(), &token, path, 90 * MIB, b"{");
        assert_eq!(status(stream), 403, "{path}");
    }
    // The client may finish its body; the response is not lost.
    let body = format!("\"{}\"", "x".repeat(20 * MIB));
    assert_eq!(http_request(&world.address(), &token, "POST", "/resources", &body).0, 403);
    // A token that can store no text has no use for a large tool call.
    let (code, answer) = http_request(&world.address(), &token, "POST", "/mcp", &body);
    assert!(code == 413 && answer.contains("4194304"), "{answer}");
    world.run(&["daemon", "stop", "--now"]);
    daemon.wait().unwrap();
}

#[test]
fn the_bodies_of_all_clients_together_have_a_limit_that_does_not_concern_the_user() {
    let world = World::new();
    let mut daemon = world.daemon();
    let token = world.token("sender", &["--allow", "send"]);
    let part = vec![b' '; 70 * MIB];
    let held = begin(&world.address(), &token, "/resources", 90 * MIB, &part);
    let body = String::from_utf8(part).unwrap();
    let (code, answer) = http_request(&world.address(), &token, "POST", "/resources", &body);
    assert!(code == 503 && answer.contains("unavailable"), "{answer}");
    assert_eq!(world.as_user("POST", "/resources", &body).0, 400, "the body is not JSON");
    drop(held);
    let (code, answer) = http_request(&world.address(), &token, "POST", "/feedback", &body);
    assert!(code == 413 && answer.contains("4194304"), "{answer}");
    world.run(&["daemon", "stop", "--now"]);
    daemon.wait().unwrap();
}
