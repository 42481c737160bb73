//! `fetch_url`: a page by http or https, in the worker, because a sandbox has no network.
//!
//! Invariants: a request goes only to an address of the public internet or to a listed server, and the address that was
//! checked is the one that is used. A redirect to another host is not followed: rules name hosts.

use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use agent_worker_host::is_public;
use agent_worker_protocol::{Base64Bytes, NetworkHost, NetworkTarget};
use reqwest::{
    Client, ClientBuilder, Response,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{CONTENT_TYPE, LOCATION},
    redirect::Policy,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::{net::lookup_host, sync::OnceCell};
use url::{Host, Url};

use crate::{
    html_text::html_text,
    image_format::image_media_type,
    tool_output::{ToolError, ToolImage, ToolOutput, ToolStep, beginning, read_arguments},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 5;
/// Maximum size of a page that is read.
const MAX_PAGE_BYTES: usize = 5 * 1024 * 1024;
/// Maximum size of the text of a page.
const MAX_TEXT_BYTES: usize = 512 * 1024;
/// Maximum size of an image: providers accept 5 MB of Base64 for one.
const MAX_IMAGE_BYTES: usize = 3_750_000;
/// Maximum size of the shown body of an error.
const MAX_ERROR_BYTES: usize = 2 * 1024;

/// Fetches pages for one attempt. Clones share the clients.
#[derive(Clone, Default)]
pub struct PageFetcher(Arc<FetcherParts>);

#[derive(Default)]
struct FetcherParts {
    /// Servers that may have any address.
    listed: Vec<Url>,
    /// The only other hosts, if the network of the sandbox is a list.
    hosts: Option<Vec<NetworkHost>>,
    /// Client for all other servers.
    public: OnceCell<Client>,
    /// Client for listed servers.
    any: OnceCell<Client>,
}

/// Looks up names, and returns the addresses of the public internet alone.
struct PublicResolver;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FetchArguments {
    url: String,
}

/// The body of a response, at most [`MAX_PAGE_BYTES`] of it.
struct PageBody {
    content: Vec<u8>,
    is_whole: bool,
}

impl PageFetcher {
    /// Creates a fetcher that may also reach these servers, whatever their addresses: URLs of which scheme, host and port
    /// count. With a list of hosts it reaches no others.
    pub fn new<'a>(
        listed: impl IntoIterator<Item = &'a str>,
        hosts: Option<&[NetworkHost]>,
    ) -> Self {
        let listed = listed.into_iter().filter_map(|text| Url::parse(text).ok()).collect();
        let hosts = hosts.map(<[NetworkHost]>::to_vec);
        Self(Arc::new(FetcherParts { listed, hosts, ..FetcherParts::default() }))
    }

    /// Fetches a page.
    pub async fn fetch(&self, args: Map<String, Value>) -> ToolOutput {
        self.try_fetch(args).await.unwrap_or_else(|ToolError(why)| ToolOutput::Failed(why))
    }

    async fn try_fetch(&self, args: Map<String, Value>) -> ToolStep<ToolOutput> {
        let FetchArguments { url } = read_arguments(args)?;
        let mut url = Url::parse(&url).map_err(|error| format!("the URL is not valid: {error}"))?;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.request(&url).await?;
            let Some(next) = redirect_target(&url, &response)? else {
                return read_page(&url, response).await;
            };
            if next.host() != url.host() {
                return Err(format!(
                    "{url} redirects to another host, which is not followed; call fetch_url with {next} if you want it"
                )
                .into());
            }
            url = next;
        }
        Err(format!("{url}: more than {MAX_REDIRECTS} redirects").into())
    }

    async fn request(&self, url: &Url) -> ToolStep<Response> {
        let is_listed = self.0.listed.iter().any(|listed| listed.origin() == url.origin());
        if !is_listed {
            check_target(url)?;
            check_list(url, self.0.hosts.as_deref())?;
        }
        let client = if is_listed {
            self.0.any.get_or_try_init(|| async { client_builder().build() }).await
        } else {
            let public = || client_builder().dns_resolver(Arc::new(PublicResolver));
            self.0.public.get_or_try_init(|| async { public().build() }).await
        };
        let client = client.map_err(|error| cause_of(&error))?;
        let sent = client.get(url.clone()).send().await;
        sent.map_err(|error| ToolError(format!("could not fetch {url}: {}", cause_of(&error))))
    }
}

/// Refuses a URL that names no public server.
fn check_target(url: &Url) -> ToolStep<()> {
    if !["http", "https"].contains(&url.scheme()) {
        return Err(format!("`{}` is not supported; use http or https", url.scheme()).into());
    }
    let address = match url.host() {
        Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
        Some(Host::Domain(_)) => None,
        None => return Err("the URL has no host".into()),
    };
    match address {
        Some(address) if !is_public(address) => Err(private_address(&address.to_string()).into()),
        Some(_) | None => Ok(()),
    }
}

/// Refuses a URL that the list of the sandbox does not name.
fn check_list(url: &Url, hosts: Option<&[NetworkHost]>) -> ToolStep<()> {
    let Some(hosts) = hosts else { return Ok(()) };
    let name = url.host_str().unwrap_or_default();
    let target = NetworkTarget::parse(name, url.port_or_known_default());
    match target.map(|target| hosts.iter().any(|host| host.listing(&target).is_some())) {
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => {
            Err(format!("`{name}` is not among the hosts of the sandbox's `network`").into())
        }
    }
}

/// Returns the reason for a refusal, with the rule that allows the server.
fn private_address(host: &str) -> String {
    format!(
        "`{host}` is this machine or in a private network, which is refused; a rule \
         `permissions: {{allow: [\"fetch_url(http://{host}/*)\"]}}` lists the server"
    )
}

fn client_builder() -> ClientBuilder {
    // Fails if another client of this process was first, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        // A proxy would look names up by itself.
        .no_proxy()
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        .user_agent(concat!("agent-worker/", env!("CARGO_PKG_VERSION")))
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = lookup_host((name.as_str(), 0)).await?.collect();
            // One private address is enough: a name of the public internet has none.
            if found.is_empty() || found.iter().any(|address| !is_public(address.ip())) {
                return Err(io::Error::other(private_address(name.as_str())).into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

/// Returns the target of a redirect; none for another response.
fn redirect_target(url: &Url, response: &Response) -> ToolStep<Option<Url>> {
    let location = response.headers().get(LOCATION).filter(|_| response.status().is_redirection());
    let Some(location) = location else { return Ok(None) };
    let next = location.to_str().ok().and_then(|location| url.join(location).ok());
    next.map(Some).ok_or_else(|| ToolError(format!("{url} redirects to an invalid address")))
}

async fn read_page(url: &Url, response: Response) -> ToolStep<ToolOutput> {
    let status = response.status();
    let media_type = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let media_type = media_type.unwrap_or_default().split(';').next().unwrap_or_default();
    let media_type = media_type.trim().to_ascii_lowercase();
    let body = read_body(url, response).await?;
    if let Some(media_type) = image_media_type(&body.content).filter(|_| status.is_success()) {
        if !body.is_whole || body.content.len() > MAX_IMAGE_BYTES {
            return Err(format!("{url} is an image of more than {MAX_IMAGE_BYTES} bytes").into());
        }
        let text = format!("{url}: {media_type}, {} bytes", body.content.len());
        let (media_type, base64) = (media_type.to_owned(), Base64Bytes(body.content).into());
        return Ok(ToolOutput::Image(ToolImage { text, media_type, base64 }));
    }
    if body.content.contains(&0) {
        return Err(format!("{url} is no text ({media_type})").into());
    }
    let text = String::from_utf8_lossy(&body.content);
    let is_html = media_type.contains("html") || media_type.is_empty() && text.contains("<html");
    let text = if is_html { html_text(&text) } else { text.into_owned() };
    if !status.is_success() {
        let shown = beginning(&text, MAX_ERROR_BYTES);
        return Err(format!("{url}: status {}\n{shown}", status.as_u16()).into());
    }
    let shown = beginning(&text, MAX_TEXT_BYTES);
    let note = match (body.is_whole, shown.len() < text.len()) {
        (true, false) => String::new(),
        _ => "\n[the rest of the page was left out]\n".to_owned(),
    };
    Ok(ToolOutput::Done(format!("[{url}]\n{shown}{note}")))
}

async fn read_body(url: &Url, mut response: Response) -> ToolStep<PageBody> {
    let mut content = Vec::new();
    loop {
        let piece = response.chunk().await;
        let piece = piece.map_err(|error| format!("could not read {url}: {}", cause_of(&error)))?;
        let Some(piece) = piece else { return Ok(PageBody { content, is_whole: true }) };
        if content.len() + piece.len() > MAX_PAGE_BYTES {
            content.extend_from_slice(&piece[..MAX_PAGE_BYTES - content.len()]);
            return Ok(PageBody { content, is_whole: false });
        }
        content.extend_from_slice(&piece);
    }
}

/// Returns the innermost cause, which names the failure best.
fn cause_of(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// Answers each request with the next response, and returns the address.
    async fn serve(responses: Vec<String>) -> (String, impl Future<Output = ()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = async move {
            for response in responses {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 4096]).await.unwrap();
                // The client may stop reading.
                let _ = stream.write_all(response.as_bytes()).await;
            }
        };
        (url, served)
    }

    fn response(head: &str, body: &str) -> String {
        format!(
            "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    async fn fetch(fetcher: &PageFetcher, url: &str) -> ToolOutput {
        fetcher.fetch(Map::from_iter([("url".to_owned(), url.into())])).await
    }

    #[tokio::test]
    async fn a_server_of_this_machine_is_refused_unless_it_is_listed() {
        let body = "<html><body><p>Hello</p></body></html>";
        let (url, served) = serve(vec![response("200 OK\r\ncontent-type: text/html", body)]).await;
        let page = format!("{url}/page");
        let refused = fetch(&PageFetcher::default(), &page).await;
        let ToolOutput::Failed(why) = refused else { panic!("{refused:?}") };
        assert!(why.starts_with("`127.0.0.1` is this machine"), "{why}");
        let named = page.replace("127.0.0.1", "localhost");
        let refused = fetch(&PageFetcher::default(), &named).await;
        let ToolOutput::Failed(why) = refused else { panic!("{refused:?}") };
        assert!(why.contains("`localhost` is this machine"), "{why}");
        let listed = PageFetcher::new([page.as_str()], None);
        let (done, ()) = tokio::join!(fetch(&listed, &page), served);
        assert_eq!(done, ToolOutput::Done(format!("[{page}]\nHello\n")));
    }

    #[tokio::test]
    async fn a_redirect_is_followed_to_the_same_host_alone_and_checked_again() {
        let same = response("302 Found\r\nlocation: /there", "");
        let (url, served) = serve(vec![same, response("200 OK", "text")]).await;
        let listed = PageFetcher::new([url.as_str()], None);
        let (done, ()) = tokio::join!(fetch(&listed, &url), served);
        assert_eq!(done, ToolOutput::Done(format!("[{url}/there]\ntext")));
        for (target, part) in [
            ("http://example.com/x", "redirects to another host"),
            // The same host, and a port that is not listed.
            ("http://127.0.0.1:1/x", "is this machine"),
        ] {
            let (url, served) =
                serve(vec![response(&format!("302 Found\r\nlocation: {target}"), "")]).await;
            let listed = PageFetcher::new([url.as_str()], None);
            let (done, ()) = tokio::join!(fetch(&listed, &url), served);
            let ToolOutput::Failed(why) = done else { panic!("{done:?}") };
            assert!(why.contains(part), "{why}");
        }
    }

    #[tokio::test]
    async fn a_long_page_is_cut_and_an_error_has_its_status() {
        let long = "x".repeat(MAX_PAGE_BYTES + 1);
        let (url, served) =
            serve(vec![response("200 OK", &long), response("404 Not Found", "gone")]).await;
        let listed = PageFetcher::new([url.as_str()], None);
        let client = async { (fetch(&listed, &url).await, fetch(&listed, &url).await) };
        let ((done, failed), ()) = tokio::join!(client, served);
        let ToolOutput::Done(text) = done else { panic!("{done:?}") };
        assert!(text.ends_with("x\n[the rest of the page was left out]\n"));
        assert!(text.len() < MAX_TEXT_BYTES + 200, "{}", text.len());
        assert_eq!(failed, ToolOutput::Failed(format!("{url}/: status 404\ngone")));
    }

    #[tokio::test]
    async fn other_schemes_are_refused() {
        for url in ["file:///etc/passwd", "ftp://example.com/x", "data:text/plain,x", "x"] {
            let done = fetch(&PageFetcher::default(), url).await;
            assert!(matches!(done, ToolOutput::Failed(_)), "{url}: {done:?}");
        }
    }
}
