//! The HTTPS client of the models. The only file of this crate with I/O.
//!
//! Proxies and certificates come from the environment of the agent, not from that of this process. The client follows no
//! redirect, because a redirect would carry the key to another server.

use std::{collections::BTreeMap, fs, time::Duration};

use agent_worker_backends::ProviderErrorPhrase;
use agent_worker_protocol::FailureClass;
use jiff::Timestamp;
use reqwest::{
    Certificate, Client, NoProxy, Proxy, RequestBuilder, Response, StatusCode, header::LOCATION,
    redirect::Policy,
};

use crate::{
    answer::{AnswerDelta, ModelAnswer},
    endpoint::ProviderEndpoint,
    failure::{ErrorReport, ModelFailure, RequestSecrets, failure_of_error},
    retry_delay::retry_delay,
    sse::SseDecoder,
    wires::{WireRequest, wire_of},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of the probes that notice a lost peer.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum size of an answer, larger than any model writes.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// Maximum size of one line of an answer.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// Maximum size of an error body that is read.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// A client for the requests of one agent.
#[derive(Clone, Debug)]
pub struct ModelClient(Client);

/// A client that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file with certificates is not usable.
    #[error("could not read the certificates in `{path}` (SSL_CERT_FILE): {why}")]
    Certificates {
        /// Path of the file.
        path: String,
        /// Explanation for people.
        why: String,
    },
    /// The address of a proxy is not valid.
    #[error("the proxy in {variable} is not valid: {why}")]
    Proxy {
        /// Name of the variable.
        variable: &'static str,
        /// Explanation, without the address, which may contain a password.
        why: String,
    },
    /// The library refused its settings.
    #[error("could not prepare the HTTPS client: {0}")]
    Setup(String),
}

impl ModelClient {
    /// Creates a client with the proxies and the certificates of an environment.
    pub fn new(env: &BTreeMap<String, String>) -> Result<Self, ClientError> {
        // Fails if another client of this process was first, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(KEEPALIVE_INTERVAL)
            .user_agent(concat!("agent-worker/", env!("CARGO_PKG_VERSION")));
        for proxy in proxies(env)? {
            builder = builder.proxy(proxy);
        }
        if let Some(path) = value(env, &["SSL_CERT_FILE"]) {
            let unusable = |why: String| ClientError::Certificates { path: path.to_owned(), why };
            let pem = fs::read(path).map_err(|error| unusable(error.to_string()))?;
            let found =
                Certificate::from_pem_bundle(&pem).map_err(|error| unusable(error.to_string()))?;
            builder = builder.tls_certs_only(found);
        }
        builder.build().map(Self).map_err(|error| ClientError::Setup(error_text(&error)))
    }

    /// Sends a request and reads its answer. Passes each piece of the answer to `show` as it arrives.
    pub async fn ask(
        &self,
        endpoint: &ProviderEndpoint,
        request: WireRequest,
        mut show: impl FnMut(AnswerDelta) + Send,
    ) -> Result<ModelAnswer, ModelFailure> {
        let secrets = endpoint.secrets();
        let answer = self.exchange(endpoint, &secrets, request, &mut show).await;
        // Errors of the connection and redirects have texts of their own.
        answer.map_err(|failure| failure.without(&secrets))
    }

    async fn exchange(
        &self,
        endpoint: &ProviderEndpoint,
        secrets: &RequestSecrets,
        request: WireRequest,
        show: &mut (impl FnMut(AnswerDelta) + Send),
    ) -> Result<ModelAnswer, ModelFailure> {
        let url = format!("{}{}", endpoint.base_url, request.path);
        let fields = request.headers.iter().copied();
        let keys = endpoint.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let sent = with_headers(self.0.post(&url), fields.chain(keys))
            .header("content-type", "application/json")
            .header("accept", "text/event-stream")
            .body(request.body);
        let response = sent.send().await.map_err(|error| network_failure(&error))?;
        if response.status() != StatusCode::OK {
            return Err(read_error(response, endpoint.phrases, secrets).await);
        }
        show(AnswerDelta::Begun);
        read_answer(response, endpoint, secrets, show).await
    }
}

/// Adds headers to a request.
fn with_headers<'a>(
    mut request: RequestBuilder,
    headers: impl Iterator<Item = (&'a str, &'a str)>,
) -> RequestBuilder {
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request
}

async fn read_answer(
    mut response: Response,
    endpoint: &ProviderEndpoint,
    secrets: &RequestSecrets,
    show: &mut (impl FnMut(AnswerDelta) + Send),
) -> Result<ModelAnswer, ModelFailure> {
    let mut reader = wire_of(endpoint.shape).reader(secrets);
    let mut decoder = SseDecoder::default();
    let mut total = 0;
    while let Some(bytes) = response.chunk().await.map_err(|error| network_failure(&error))? {
        total += bytes.len();
        let events = decoder.push(&bytes);
        if total > MAX_ANSWER_BYTES || decoder.pending_bytes() > MAX_LINE_BYTES {
            return Err(ModelFailure::new(FailureClass::Fatal, "the answer is too large"));
        }
        for data in events {
            if let Some(delta) = reader.read_event(&data)? {
                show(delta);
            }
        }
    }
    if let Some(data) = decoder.finish() {
        reader.read_event(&data)?.into_iter().for_each(show);
    }
    reader.finish()
}

async fn read_error(
    mut response: Response,
    phrases: &[ProviderErrorPhrase],
    secrets: &RequestSecrets,
) -> ModelFailure {
    let status = response.status();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let retry_after = retry_delay(header, Timestamp::now());
    if status.is_redirection() {
        let target = header(LOCATION.as_str()).unwrap_or("another address");
        let why = format!(
            "the endpoint redirects to {target}, and the key is sent to no other server; \
             set `provider.base_url` to the right endpoint"
        );
        return ModelFailure::new(FailureClass::Fatal, why);
    }
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        body.extend_from_slice(&bytes);
        if body.len() > MAX_ERROR_BYTES {
            break;
        }
    }
    let body = String::from_utf8_lossy(&body);
    let status = Some(status.as_u16());
    failure_of_error(ErrorReport { status, body: &body, retry_after, phrases, secrets })
}

/// Returns the failure of a connection. Addresses of a request and of a proxy stay out of the message: they may contain a key.
fn network_failure(error: &reqwest::Error) -> ModelFailure {
    let what = if error.is_connect() {
        "could not connect to the provider"
    } else {
        "the connection to the provider broke"
    };
    let why = format!("{what}: {}", root_cause(error));
    ModelFailure::new(FailureClass::Transient, why)
}

fn error_text(error: &reqwest::Error) -> String {
    root_cause(error)
}

/// Returns the message of the innermost error.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match cause.downcast_ref::<reqwest::Error>() {
        Some(_) => "no further explanation".to_owned(),
        None => cause.to_string(),
    }
}

fn value<'a>(env: &'a BTreeMap<String, String>, names: &[&str]) -> Option<&'a str> {
    let mut values = names.iter().filter_map(|name| env.get(*name));
    values.find(|value| !value.is_empty()).map(String::as_str)
}

type MakeProxy = fn(&str) -> reqwest::Result<Proxy>;

/// Returns the proxies of an environment, as `curl` reads it: the lower-case name first, and no upper-case `HTTP_PROXY`.
fn proxies(env: &BTreeMap<String, String>) -> Result<Vec<Proxy>, ClientError> {
    let exempt = value(env, &["no_proxy", "NO_PROXY"]).and_then(NoProxy::from_string);
    let mut proxies = Vec::new();
    let kinds: [(&[&str], &'static str, MakeProxy); 3] = [
        (&["https_proxy", "HTTPS_PROXY"], "HTTPS_PROXY", |url| Proxy::https(url)),
        (&["http_proxy"], "http_proxy", |url| Proxy::http(url)),
        (&["all_proxy", "ALL_PROXY"], "ALL_PROXY", |url| Proxy::all(url)),
    ];
    for (names, variable, make) in kinds {
        let Some(url) = value(env, names) else { continue };
        let proxy =
            make(url).map_err(|error| ClientError::Proxy { variable, why: error_text(&error) })?;
        proxies.push(proxy.no_proxy(exempt.clone()));
    }
    Ok(proxies)
}
