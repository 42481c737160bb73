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
fn a_stalled_body_of_a_client_leaves_room_for_others_and_is_refused() {
    let world = World::new();
    let mut daemon = world.daemon();
    let token = world.token("sender", &["--allow", "send"]);
    let other = world.token("other", &["--allow", "send"]);
    let part = vec![b' '; 90 * MIB];
    let stalled = begin(&world.address(), &token, "/resources", 91 * MIB, &part);
    let body = " ".repeat(8 * MIB);
    let (code, answer) = http_request(&world.address(), &token, "POST", "/resources", &body);
    assert!(code == 503 && answer.contains("unavailable"), "{answer}");
    let large = String::from_utf8(part).unwrap();
    let (code, answer) = http_request(&world.address(), &other, "POST", "/resources", &large);
    assert_eq!(code, 400, "the body is not JSON: {answer}");
    assert_eq!(world.as_user("POST", "/resources", &large).0, 400, "the body is not JSON");
    assert_eq!(status(stalled), 400, "the body stalled");
    let (code, answer) = http_request(&world.address(), &token, "POST", "/feedback", &body);
    assert!(code == 413 && answer.contains("4194304"), "{answer}");
    world.run(&["daemon", "stop", "--now"]);
    daemon.wait().unwrap();
}

/// Returns the maximum resident memory of a process so far.
fn peak_memory(pid: u32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[test]
fn a_tool_call_of_many_small_values_takes_little_memory() {
    let world = World::new();
    let mut daemon = world.daemon();
    let token = world.token("sender", &["--allow", "send"]);
    let values = r#"{"":0},"#.repeat(8 * MIB / 7);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"channel_send","arguments":{{"message":[{values}0]}}}}}}"#
    );
    let (code, answer) = http_request(&world.address(), &token, "POST", "/mcp", &body);
    let peak = peak_memory(daemon.id());
    assert!(peak < 200 * MIB, "{} MiB", peak / MIB);
    assert!(code == 413 && answer.contains("too_large"), "{answer}");
    world.run(&["daemon", "stop", "--now"]);
    daemon.wait().unwrap();
}
