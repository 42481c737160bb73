//! Tests of many connections to the port at once.

use std::{collections::BTreeSet, time::Duration};

use agent_worker_kernel::Principal;
use agent_worker_protocol::api::TokenRequest;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::fixture::{DaemonFixture, TestRequest};
use crate::listeners::{MAX_TCP_CONNECTIONS, MAX_TCP_CONNECTIONS_PER_TOKEN};

const DEADLINE: Duration = Duration::from_secs(20);
/// A timeout far longer than a response takes.
const NO_ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// A client with a token that sends one request and stays connected.
struct TcpVisitor(TcpStream);

impl TcpVisitor {
    async fn connect(fixture: &DaemonFixture, token: &str) -> Self {
        let mut stream = TcpStream::connect(fixture.address).await.unwrap();
        let question = format!(
            "GET /health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(question.as_bytes()).await.unwrap();
        Self(stream)
    }

    async fn read_answer(&mut self) -> String {
        let mut answer = vec![0; 4096];
        let length = self.0.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }

    /// Waits for the response.
    async fn wait_until_served(&mut self) {
        let answer = timeout(DEADLINE, self.read_answer()).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

async fn client_token(fixture: &DaemonFixture, name: &str) -> String {
    let request = TokenRequest {
        name: name.to_owned(),
        allow: None,
        instances: Vec::new(),
        env: BTreeSet::new(),
    };
    fixture.kernel.tokens().create(&Principal::User, request).await.unwrap().token
}

#[tokio::test]
async fn when_the_port_is_full_the_next_one_waits_and_the_socket_still_answers() {
    let fixture = DaemonFixture::open().await;
    let mut visitors = Vec::new();
    for client in 0..MAX_TCP_CONNECTIONS / MAX_TCP_CONNECTIONS_PER_TOKEN {
        let token = client_token(&fixture, &format!("ci{client}")).await;
        for _ in 0..MAX_TCP_CONNECTIONS_PER_TOKEN {
            let mut visitor = TcpVisitor::connect(&fixture, &token).await;
            visitor.wait_until_served().await;
            visitors.push(visitor);
        }
    }
    let token = client_token(&fixture, "next").await;
    let mut next = TcpVisitor::connect(&fixture, &token).await;
    assert!(
        timeout(NO_ANSWER_TIMEOUT, next.read_answer()).await.is_err(),
        "there is no room for it yet"
    );
    let health = fixture.as_ourselves(TestRequest::get("/health")).await;
    assert_eq!(health.status, 200);
    visitors.pop();
    next.wait_until_served().await;
    drop(visitors);
    for _ in 0..3 {
        TcpVisitor::connect(&fixture, &token).await.wait_until_served().await;
    }
}
