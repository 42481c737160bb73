//! Client of a small daemon on a real socket, and the results that callers get.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agent_worker_host::{DaemonSocket, DialError};
use agent_worker_protocol::{Code, Event, EventBody, Millis, Problem, ProblemDetails};
use axum::{
    Json, Router,
    body::Body,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{delete, get, post},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    time::timeout,
};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// Socket in a folder of its own, with a task that listens on it.
struct TestSocket {
    folder: TempDir,
    task: Option<AbortOnDropHandle<()>>,
}

impl TestSocket {
    fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), task: None }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("daemon.sock")
    }

    fn daemon(&self) -> DaemonSocket {
        DaemonSocket::at(self.socket())
    }

    /// Ends the current listener and starts `next`.
    async fn replace_listener(&mut self, next: impl Future<Output = ()> + Send + 'static) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
        self.task = Some(AbortOnDropHandle::new(TaskTracker::new().spawn(next)));
    }

    fn listener(&self) -> UnixListener {
        let _ = std::fs::remove_file(self.socket());
        UnixListener::bind(self.socket()).unwrap()
    }

    async fn with_router(router: Router) -> Self {
        let mut served = Self::empty();
        let listener = served.listener();
        served.replace_listener(async move { axum::serve(listener, router).await.unwrap() }).await;
        served
    }
}

/// Reads the head and body of one request from a raw connection; false if there was none.
async fn read_request(stream: &mut UnixStream) -> bool {
    let mut seen = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&seen).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1);
            let length = length.map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
            if body.len() >= length {
                return true;
            }
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return false,
            Ok(n) => seen.extend_from_slice(&chunk[..n]),
        }
    }
}

#[tokio::test]
async fn a_request_says_who_asks_and_what_it_is() {
    async fn echo(headers: HeaderMap, Json(body): Json<Value>) -> Json<Value> {
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        Json(json!({
            "host": header("host"), "type": header("content-type"), "body": body,
            "authorization": header("authorization"), "key": header("idempotency-key"),
        }))
    }
    let served = TestSocket::with_router(Router::new().route("/echo", post(echo))).await;
    let daemon = served.daemon();
    let seen: Value = daemon.post("/echo", &json!({"a": 1})).await.unwrap();
    let expected = json!({
        "host": "localhost", "type": "application/json", "body": {"a": 1},
        "authorization": null, "key": null,
    });
    assert_eq!(seen, expected);
    let daemon = daemon.with_token("s3cret".into());
    let seen: Value = daemon.post_once("/echo", "k1", &json!(2)).await.unwrap();
    let seen = (&seen["authorization"], &seen["key"], &seen["body"]);
    assert_eq!(seen, (&json!("Bearer s3cret"), &json!("k1"), &json!(2)));
}

#[tokio::test]
async fn a_refusal_is_the_daemons_own_words() {
    let no_run = || ProblemDetails::NoRun { instance: "review".parse().unwrap() };
    let refuse = async move || {
        let problem = Problem::new(Code::NoRun, "`review` has no live run").with_details(no_run());
        (StatusCode::CONFLICT, Json(problem.into_body(Some("start one".to_owned()))))
    };
    let router = Router::new()
        .route("/refuse", get(refuse))
        .route("/gone", delete(|| async { StatusCode::NO_CONTENT }))
        .route("/odd", get(|| async { (StatusCode::BAD_GATEWAY, "<html>") }))
        .route("/text", get(|| async { "not json" }));
    let served = TestSocket::with_router(router).await;
    let daemon = served.daemon();
    let refused = daemon.get::<Value>("/refuse").await.unwrap_err();
    assert_eq!(refused.to_string(), "`review` has no live run");
    let DialError::Refused(problem) = refused else { unreachable!() };
    assert_eq!((problem.code, problem.details), (Code::NoRun, Some(Box::new(no_run()))));
    daemon.delete::<()>("/gone").await.unwrap();
    for path in ["/odd", "/text"] {
        let error = daemon.get::<Value>(path).await.unwrap_err();
        assert!(matches!(error, DialError::Garbled { .. }), "{path}: {error}");
    }
}

#[tokio::test]
async fn an_absent_daemon_is_distinguished_from_one_that_left_its_socket() {
    let served = TestSocket::empty();
    let ask = async || served.daemon().get::<Value>("/health").await.unwrap_err();
    assert!(matches!(ask().await, DialError::Absent { .. }));
    drop(served.listener());
    let error = ask().await;
    assert!(matches!(error, DialError::Absent { .. }));
    assert!(error.to_string().starts_with("no daemon answers at "), "{error}");
}

#[tokio::test]
async fn an_impossible_socket_path_is_reported_as_too_long() {
    let daemon = DaemonSocket::at(PathBuf::from(format!("/tmp/{}", "x".repeat(103))));
    let error = daemon.get::<Value>("/health").await.unwrap_err();
    assert!(matches!(error, DialError::PathTooLong { .. }), "{error}");
    let daemon = DaemonSocket::at(PathBuf::from(format!("/tmp/{}", "x".repeat(102))));
    let error = daemon.get::<Value>("/health").await.unwrap_err();
    assert!(matches!(error, DialError::Absent { .. }), "{error}");
}

#[tokio::test]
async fn requests_in_a_row_share_a_connection_and_survive_a_restart() {
    let mut served = TestSocket::empty();
    let connections = Arc::new(AtomicUsize::new(0));
    let (listener, counter) = (served.listener(), connections.clone());
    served.replace_listener(answer_forever(listener, counter)).await;
    let daemon = served.daemon();
    for _ in 0..3 {
        daemon.post::<_, Value>("/", &json!({})).await.unwrap();
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1, "one connection for all");
    let (listener, counter) = (served.listener(), connections.clone());
    served.replace_listener(answer_forever(listener, counter)).await;
    daemon.post::<_, Value>("/", &json!({})).await.unwrap();
    assert_eq!(
        connections.load(Ordering::SeqCst),
        2,
        "the free one had died; a fresh one was used"
    );
}

/// Answers `1` to every request and counts connections, which end with the task.
async fn answer_forever(listener: UnixListener, connections: Arc<AtomicUsize>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        connections.fetch_add(1, Ordering::SeqCst);
        while read_request(&mut stream).await {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1").await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_request_whose_answer_got_lost_is_not_sent_again() {
    // Over a new connection, and over a used one.
    for answered in [0, 1] {
        let mut served = TestSocket::empty();
        let listener = served.listener();
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = requests.clone();
        let lose_the_last = async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                while read_request(&mut stream).await {
                    if counter.fetch_add(1, Ordering::SeqCst) >= answered {
                        break;
                    }
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1";
                    stream.write_all(answer).await.unwrap();
                }
            }
        };
        served.replace_listener(lose_the_last).await;
        let daemon = served.daemon();
        for _ in 0..answered {
            daemon.post::<_, Value>("/", &json!({})).await.unwrap();
        }
        let error = daemon.post::<_, Value>("/", &json!({})).await.unwrap_err();
        assert!(matches!(error, DialError::Lost { .. }), "{error}");
        assert_eq!(requests.load(Ordering::SeqCst), answered + 1);
    }
}

#[tokio::test]
async fn a_body_of_64_mebibytes_goes_there_and_back() {
    let echo = |body: String| async move { body };
    let router = Router::new().route("/echo", post(echo)).layer(DefaultBodyLimit::disable());
    let served = TestSocket::with_router(router).await;
    let text = "x".repeat(64 << 20);
    let back: String = served.daemon().post("/echo", &text).await.unwrap();
    assert!(back == text);
}

#[tokio::test]
async fn events_come_with_the_id_to_resume_after() {
    async fn events(headers: HeaderMap, State(event): State<String>) -> Response {
        let after = headers.get("last-event-id").map_or("none", |id| id.to_str().unwrap());
        let text = format!(
            ": hello\n\nid: {after}+1\ndata: {event}\n\ndata: {event}\n\nretry: 5\n\nid: end\n\n"
        );
        ([("content-type", "text/event-stream")], Body::from(text)).into_response()
    }
    let body = EventBody::Other { kind: "text".into(), data: json!("zwölf") };
    let event = Event::new(Millis::new(0), "review:pr-1".parse().unwrap(), body);
    let state = serde_json::to_string(&event).unwrap();
    let served =
        TestSocket::with_router(Router::new().route("/events", get(events)).with_state(state))
            .await;
    for (after, id) in [(None, "none+1"), (Some("7"), "7+1")] {
        let mut stream = served.daemon().events("/events", after.map(str::to_owned)).await.unwrap();
        for _ in 0..2 {
            assert_eq!(stream.next().await.unwrap(), Some((id.to_owned(), event.clone())));
        }
        assert_eq!(stream.next().await.unwrap(), None);
    }
    let error = served.daemon().events("/nowhere", None).await.err().unwrap();
    assert!(matches!(error, DialError::Garbled { .. }), "{error}");
}

#[tokio::test]
async fn a_stream_that_breaks_is_lost_and_not_over() {
    let mut served = TestSocket::empty();
    let listener = served.listener();
    served
        .replace_listener(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n: hi\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
        })
        .await;
    let mut events = served.daemon().events("/events", None).await.unwrap();
    let next = timeout(Duration::from_secs(10), events.next()).await.unwrap();
    assert!(matches!(next, Err(DialError::Lost { .. })));
}
