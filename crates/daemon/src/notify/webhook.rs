//! Delivery to a URL: a POST request with the notification as JSON, over https, or over http to this machine.
//!
//! No redirect is followed and no proxy is used, so that the request goes to the host that the user wrote. The reason of
//! a failure has no URL: its path may be a secret.

use std::{error::Error as _, time::Duration};

use agent_worker_host::run_blocking;
use agent_worker_kernel::webhook_problem;
use agent_worker_protocol::Notification;
use reqwest::{Client, StatusCode, header::CONTENT_TYPE, redirect::Policy};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Delays before the tries after the first one.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];

/// The result of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PostResult {
    Delivered,
    /// A later try may succeed.
    Retry(String),
    Refused(String),
}

/// Posts a notification; tries again if the receiver is not reachable or overloaded.
pub(super) async fn post(url: &str, message: &Notification) -> Result<(), String> {
    if let Some(problem) = webhook_problem(url) {
        return Err(format!("the URL must be {problem}"));
    }
    let body = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    // The client reads the certificates of the machine.
    let client = run_blocking(build_client).await.ok_or("the daemon is stopping")?;
    let client = client.map_err(|error| reason_of(&error))?;
    let mut delays = RETRY_DELAYS.into_iter();
    loop {
        match post_once(&client, url, body.clone()).await {
            PostResult::Delivered => return Ok(()),
            PostResult::Refused(why) => return Err(why),
            PostResult::Retry(why) => match delays.next() {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(format!("{why}, {} times", RETRY_DELAYS.len() + 1)),
            },
        }
    }
}

fn build_client() -> reqwest::Result<Client> {
    // Another delivery may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        .user_agent("agent-worker")
        .build()
}

async fn post_once(client: &Client, url: &str, body: Vec<u8>) -> PostResult {
    let request = client.post(url).header(CONTENT_TYPE, "application/json").body(body);
    match request.send().await {
        Ok(response) => result_of(response.status()),
        Err(error) => PostResult::Retry(reason_of(&error.without_url())),
    }
}

fn result_of(status: StatusCode) -> PostResult {
    let why = format!("the receiver answered with status {}", status.as_u16());
    match status.as_u16() {
        200..300 => PostResult::Delivered,
        300..400 => PostResult::Refused(format!("{why}, and redirects are not followed")),
        408 | 429 | 500.. => PostResult::Retry(why),
        _ => PostResult::Refused(why),
    }
}

/// Returns the innermost cause, which names the failure best.
fn reason_of(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    let mut words = error.to_string();
    while let Some(inner) = cause {
        words = inner.to_string();
        cause = inner.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_broken_connection_is_tried_again_and_its_reason_has_no_url() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/secret", listener.local_addr().unwrap());
        // Receives the first bytes of the encrypted connection and closes it.
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut first = [0; 3];
            std::io::Read::read_exact(&mut stream, &mut first).unwrap();
            first
        });
        let client = build_client().unwrap();
        let PostResult::Retry(why) = post_once(&client, &url, Vec::new()).await else {
            panic!("a broken connection is no answer");
        };
        assert!(!why.contains("secret"), "{why}");
        // A handshake of TLS.
        assert_eq!(server.join().unwrap()[..2], [0x16, 0x03]);
    }

    #[test]
    fn only_an_overloaded_receiver_is_asked_again() {
        let word = |status: u16| match result_of(StatusCode::from_u16(status).unwrap()) {
            PostResult::Delivered => "delivered",
            PostResult::Retry(_) => "retry",
            PostResult::Refused(_) => "refused",
        };
        for (status, expected) in [
            (200, "delivered"),
            (204, "delivered"),
            (302, "refused"),
            (404, "refused"),
            (408, "retry"),
            (429, "retry"),
            (500, "retry"),
            (503, "retry"),
        ] {
            assert_eq!(word(status), expected, "{status}");
        }
    }
}
