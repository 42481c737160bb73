//! The port of the daemon: a port that another program holds, and the proof that the daemon itself answers.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::world::{CommandOutput, World, kill, record_skip};

#[test]
fn a_requested_port_that_is_taken_is_an_error_that_names_its_holder() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let world = World::with(&[("AGENT_WORKER_PORT", &port)]);
    let holder = format!("pid {}", std::process::id());
    let binary = env!("CARGO_BIN_EXE_agent-worker");
    for words in [&["daemon"][..], &["daemon", "--port", &port], &["new", "owl", "-b", "mock"]] {
        // A daemon that starts would run until the time limit.
        let words = [&["20", binary], words].concat();
        let output = world.command_of(Path::new("/usr/bin/timeout"), &words).output().unwrap();
        let said = CommandOutput::from(output);
        assert_ne!(said.code, 0, "{words:?}: {said:?}");
        let error = said.stderr.replace('\n', " ");
        assert!(error.contains(&port) && error.contains(&holder), "{words:?}: {said:?}");
    }
    let doctor = world.run(&["doctor"]);
    assert!(doctor.stdout.contains(&holder), "{doctor:?}");
    drop(taken);
    let mut daemon = world.daemon();
    assert_eq!(world.port(), port);
    kill(daemon.id(), "TERM");
    daemon.wait().unwrap();
}

/// Computes the proof as `docs/reference/api.md` describes it.
const PROOF: &str = "
import hashlib, hmac, struct, sys
token, nonce, address = (word.encode() for word in sys.argv[1:])
part = lambda data: struct.pack('<Q', len(data)) + data
key = hashlib.sha256(part(b'token') + part(token)).digest()
print(hmac.new(key, nonce + b'\\n' + address, hashlib.sha256).hexdigest())
";

fn expected_proof(token: &str, nonce: &str, address: &str) -> String {
    let output =
        Command::new("python3").args(["-c", PROOF, token, nonce, address]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Requests the proof at `address`; `host` is the name of the daemon.
fn proof(address: &str, host: &str, query: &str) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(stream, "GET /health?{query} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let health: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    health["proof"].clone()
}

/// Listens at a port of its own and passes one connection on to the daemon.
fn relay(daemon: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(daemon).unwrap();
        let mut request = vec![0; 4096];
        let length = client.read(&mut request).unwrap();
        server.write_all(&request[..length]).unwrap();
        let mut answer = Vec::new();
        server.read_to_end(&mut answer).unwrap();
        client.write_all(&answer).unwrap();
    });
    address
}

#[test]
fn a_client_can_verify_the_daemon_before_it_sends_its_token() {
    if !Path::new("/usr/bin/python3").exists() {
        record_skip("the proof of the daemon (needs python3)");
        return;
    }
    let world = World::new();
    let mut daemon = world.daemon();
    let created = world.json(&["token", "create", "ci", "--json"]);
    let token = created["token"].as_str().unwrap();
    let address = format!("127.0.0.1:{}", world.port());
    let query = "nonce=0123456789abcdef&client=ci";
    let expected = expected_proof(token, "0123456789abcdef", &address);
    assert_eq!(proof(&address, &address, query), expected.as_str());
    // A program at another port that passes the nonce on gets a proof for the daemon's own address only.
    let squatter = relay(address.clone());
    let passed_on = proof(&squatter, &address, query);
    assert_eq!(passed_on, expected.as_str());
    assert_ne!(passed_on, expected_proof(token, "0123456789abcdef", &squatter).as_str());
    // Another token, an unknown token and no nonce.
    assert_ne!(proof(&address, &address, "nonce=0123456789abcdee&client=ci"), expected.as_str());
    assert_eq!(proof(&address, &address, "nonce=0123456789abcdef&client=other"), Value::Null);
    assert_eq!(proof(&address, &address, "client=ci"), Value::Null);
    kill(daemon.id(), "TERM");
    daemon.wait().unwrap();
}
