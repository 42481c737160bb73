//! One request to the proxy, and its answer.

use std::sync::Mutex;

use agent_worker_protocol::{NetworkTarget, sync};
use http_body_util::{Either, Full};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Uri,
    body::{Bytes, Incoming},
    client::conn::http1::handshake,
    header::{
        CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    },
    upgrade::OnUpgrade,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinSet};

use super::proxy::{HttpProxy, ProxyError};

/// The port of `http` without a port.
const HTTP_PORT: u16 = 80;
/// Headers that are for the next hop alone. The library writes the length of a body.
const HOP_HEADERS: [HeaderName; 7] =
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
/// Such headers without a name in the library.
const FURTHER_HOP_HEADERS: [&str; 2] = ["keep-alive", "proxy-connection"];

/// The body of an answer: that of the target, or a text.
type AnswerBody = Either<Incoming, Full<Bytes>>;

/// The parts of a request that outlive its handler.
#[derive(Default)]
pub(super) struct Exchange {
    /// Both ends of a tunnel.
    tunnel: Option<(OnUpgrade, TcpStream)>,
    /// Drives the connection to the target of a plain request.
    driver: JoinSet<()>,
}

impl Exchange {
    pub(super) fn take_tunnel(&mut self) -> Option<(OnUpgrade, TcpStream)> {
        self.tunnel.take()
    }
}

impl HttpProxy {
    /// Answers a request. Every failure is an answer.
    pub(super) async fn handle(
        &self,
        request: Request<Incoming>,
        exchange: &Mutex<Exchange>,
    ) -> Response<AnswerBody> {
        let answered = match *request.method() {
            Method::CONNECT => self.open_tunnel(request, exchange).await,
            _ => self.pass_on(request, exchange).await,
        };
        answered.unwrap_or_else(|error| error_answer(&error))
    }

    async fn open_tunnel(
        &self,
        request: Request<Incoming>,
        exchange: &Mutex<Exchange>,
    ) -> Result<Response<AnswerBody>, ProxyError> {
        let target = read_target(request.uri(), None)?;
        let outside = self.connect(&target).await?;
        sync::lock(exchange).tunnel = Some((hyper::upgrade::on(request), outside));
        Ok(Response::new(Either::Right(Full::default())))
    }

    async fn pass_on(
        &self,
        mut request: Request<Incoming>,
        exchange: &Mutex<Exchange>,
    ) -> Result<Response<AnswerBody>, ProxyError> {
        if request.uri().scheme_str() != Some("http") {
            return Err(bad_request("send the whole URL with `http`, and use CONNECT for https"));
        }
        let target = read_target(request.uri(), Some(HTTP_PORT))?;
        rewrite(&mut request)?;
        let outside = self.connect(&target).await?;
        let failed = |error: hyper::Error| {
            ProxyError::new(StatusCode::BAD_GATEWAY, format!("no answer of `{target}`: {error}"))
        };
        let (mut sender, connection) = handshake(TokioIo::new(outside)).await.map_err(failed)?;
        sync::lock(exchange).driver.spawn(async move {
            // The sender has the error.
            let _ = connection.await;
        });
        let mut answer = sender.send_request(request).await.map_err(failed)?;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            let why = format!("`{target}` changes the protocol, which needs CONNECT");
            return Err(ProxyError::new(StatusCode::BAD_GATEWAY, why));
        }
        remove_hop_headers(answer.headers_mut());
        Ok(answer.map(Either::Left))
    }
}

fn read_target(uri: &Uri, usual_port: Option<u16>) -> Result<NetworkTarget, ProxyError> {
    let authority = uri.authority().ok_or_else(|| bad_request("the request names no host"))?;
    NetworkTarget::parse(authority.as_str(), usual_port)
        .map_err(|error| bad_request(&error.to_string()))
}

/// Makes a request for its target of one for a proxy: a path, and the host of the URL.
fn rewrite(request: &mut Request<Incoming>) -> Result<(), ProxyError> {
    let uri = request.uri().clone();
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let host = HeaderValue::from_str(authority).map_err(|_| bad_request("the host is invalid"))?;
    remove_hop_headers(request.headers_mut());
    request.headers_mut().insert(HOST, host);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|_| bad_request("the path is invalid"))?;
    Ok(())
}

fn remove_hop_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_HEADERS) {
        headers.remove(name);
    }
    for name in FURTHER_HOP_HEADERS {
        headers.remove(name);
    }
}

fn bad_request(why: &str) -> ProxyError {
    ProxyError::new(StatusCode::BAD_REQUEST, why)
}

fn error_answer(error: &ProxyError) -> Response<AnswerBody> {
    let text = format!("agent-worker: {}\n", error.text);
    let mut answer = Response::new(Either::Right(Full::from(text)));
    *answer.status_mut() = error.status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
