//! The client against a server on loopback.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    thread::{self, JoinHandle},
};

use agent_worker_backends::WireShape;
use agent_worker_models::{
    AnswerDelta, ClientError, ConversationEntry, ModelAnswer, ModelClient, ModelFailure,
    ModelPrompt, ProviderEndpoint, ProviderOverrides, RequestSettings, UserPart, wire_of,
};
use agent_worker_protocol::FailureClass;

use crate::streams::recorded;

type Env = BTreeMap<String, String>;

fn env(pairs: &[(&str, &str)]) -> Env {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Answers one request with these bytes, and returns the request.
fn serve_once(response: String) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let count = stream.read(&mut piece).unwrap();
            request.extend_from_slice(&piece[..count]);
            let text = String::from_utf8_lossy(&request).into_owned();
            if count == 0 || text.ends_with("]}") || text.starts_with("CONNECT") {
                stream.write_all(response.as_bytes()).unwrap();
                return text;
            }
        }
    });
    (address, served)
}

async fn ask(url: &str, more: &[(&str, &str)]) -> (Result<ModelAnswer, ModelFailure>, String) {
    let mut env = env(&[("ANTHROPIC_API_KEY", "s3cret"), ("ANTHROPIC_BASE_URL", url)]);
    env.extend(self::env(more));
    let none = ProviderOverrides::default();
    let endpoint = ProviderEndpoint::resolve("anthropic", &none, &env).unwrap();
    let entries = [ConversationEntry::User(vec![UserPart::Text("hi".to_owned())])];
    let settings = RequestSettings::default();
    let prompt =
        ModelPrompt { model: "m", system: "", tools: &[], entries: &entries, settings: &settings };
    let request = wire_of(endpoint.shape).write_request(&prompt);
    let mut shown = String::new();
    let client = ModelClient::new(&env).unwrap();
    let answer = client.ask(&endpoint, request, |delta| {
        if let AnswerDelta::Text(text) = delta {
            shown.push_str(&text);
        }
    });
    let answer = answer.await;
    (answer, shown)
}

fn ok_response() -> String {
    let stream = recorded(WireShape::Messages);
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{stream}"
    )
}

#[tokio::test]
async fn a_request_carries_the_key_and_its_answer_is_shown_while_it_arrives() {
    let (address, served) = serve_once(ok_response());
    let (answer, shown) = ask(&format!("http://{address}"), &[]).await;
    assert_eq!(shown, answer.unwrap().text());
    let request = served.join().unwrap();
    assert!(request.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nx-api-key: s3cret\r\n"), "{request}");
    assert!(request.contains("\r\nanthropic-version: 2023-06-01\r\n"), "{request}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_an_error_does_not_repeat_the_key() {
    let redirect =
        "HTTP/1.1 307 Moved\r\nlocation: http://127.0.0.1:1/x\r\ncontent-length: 0\r\n\r\n";
    let (address, _) = serve_once(redirect.to_owned());
    let failure = ask(&format!("http://{address}"), &[]).await.0.unwrap_err();
    assert_eq!(failure.class, FailureClass::Fatal);
    assert_eq!(
        failure.why,
        "the endpoint redirects to http://127.0.0.1:1/x, and the key is sent to no other server; \
         set `provider.base_url` to the right endpoint"
    );
    let body = r#"{"error":{"message":"the key s3cret is wrong"}}"#;
    let refused = format!("HTTP/1.1 401 No\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let (address, _) = serve_once(refused);
    let failure = ask(&format!("http://{address}"), &[]).await.0.unwrap_err();
    assert_eq!(failure.class, FailureClass::Auth);
    assert_eq!(failure.why, "the provider answered 401: the key [key] is wrong");
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_or_breaks_off_is_transient() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let failure = ask(&format!("http://{free}"), &[]).await.0.unwrap_err();
    assert_eq!(failure.class, FailureClass::Transient);
    assert_eq!(failure.why, "could not connect to the provider: Connection refused (os error 111)");
    let cut = ok_response().split("event: message_delta").next().unwrap().to_owned();
    let (address, _) = serve_once(cut);
    let failure = ask(&format!("http://{address}"), &[]).await.0.unwrap_err();
    assert_eq!(
        (failure.class, failure.why.as_str()),
        (FailureClass::Transient, "the response ended early")
    );
}

#[tokio::test]
async fn proxies_of_the_environment_are_used_and_exempt_hosts_are_not() {
    let refused = "HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n";
    let (proxy, served) = serve_once(refused.to_owned());
    let proxy = format!("http://{proxy}");
    let failure = ask("https://models.invalid", &[("HTTPS_PROXY", &proxy)]).await.0.unwrap_err();
    assert_eq!(failure.class, FailureClass::Transient, "{failure}");
    let request = served.join().unwrap();
    assert!(request.starts_with("CONNECT models.invalid:443 "), "{request}");
    let (address, _) = serve_once(ok_response());
    let exempt = [("http_proxy", "http://127.0.0.1:1"), ("no_proxy", "127.0.0.1")];
    assert!(ask(&format!("http://{address}"), &exempt).await.0.is_ok());
}

#[test]
fn a_client_whose_certificates_cannot_be_read_says_so() {
    let error = ModelClient::new(&env(&[("SSL_CERT_FILE", "/nowhere.pem")])).unwrap_err();
    assert!(matches!(error, ClientError::Certificates { .. }), "{error:?}");
    let why = "could not read the certificates in `/nowhere.pem` (SSL_CERT_FILE): No such file or directory (os error 2)";
    assert_eq!(error.to_string(), why);
}
