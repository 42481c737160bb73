//! Many at the port at once.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::house::{House, Question};
use crate::serve::MOST_VISITORS;

const DEADLINE: Duration = Duration::from_secs(20);
/// Far longer than an answer takes.
const A_WHILE: Duration = Duration::from_millis(500);

/// Somebody who asks once and stays.
struct Visitor(TcpStream);

impl Visitor {
    async fn knock(house: &House) -> Self {
        let mut stream = TcpStream::connect(house.address).await.unwrap();
        let question = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(question).await.unwrap();
        Self(stream)
    }

    async fn answer(&mut self) -> String {
        let mut answer = vec![0; 4096];
        let length = self.0.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }

    /// Waits to be served.
    async fn served(&mut self) {
        let answer = timeout(DEADLINE, self.answer()).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[tokio::test]
async fn when_the_port_is_full_the_next_one_waits_and_the_socket_still_answers() {
    let house = House::open().await;
    let mut visitors = Vec::new();
    for _ in 0..MOST_VISITORS {
        let mut visitor = Visitor::knock(&house).await;
        visitor.served().await;
        visitors.push(visitor);
    }
    let mut next = Visitor::knock(&house).await;
    assert!(timeout(A_WHILE, next.answer()).await.is_err(), "there is no room for it yet");
    let health = house.as_ourselves(Question::get("/health")).await;
    assert_eq!(health.status, 200);
    visitors.pop();
    next.served().await;
    drop(visitors);
    for _ in 0..3 {
        Visitor::knock(&house).await.served().await;
    }
}
