//! The decisions of the proxy, and the proxy itself, with servers on loopback.

use std::net::SocketAddr;

use agent_worker_protocol::HostListing;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    refusal::{Refusal, check_addresses, find_listing},
    *,
};

fn hosts(entries: &[&str]) -> Vec<NetworkHost> {
    entries.iter().map(|entry| entry.parse().unwrap()).collect()
}

fn target(text: &str) -> NetworkTarget {
    NetworkTarget::parse(text, None).unwrap()
}

#[test]
fn a_name_is_connected_only_to_addresses_that_its_entry_allows() {
    let list = ["registry.example.org", "*.example.com", "localhost:8080", "10.0.0.9", "git.corp"];
    for (asked, addresses, expected) in [
        ("registry.example.org:443", &["93.184.216.34"][..], None),
        // A name that the list has in full may be in a private network, and never this machine or a service of a cloud.
        ("git.corp:443", &["10.1.2.3"], None),
        ("registry.example.org:443", &["127.0.0.1"], Some("127.0.0.1")),
        ("registry.example.org:80", &["169.254.169.254"], Some("169.254.169.254")),
        ("registry.example.org:443", &["::ffff:127.0.0.1"], Some("127.0.0.1")),
        ("registry.example.org:443", &["0.0.0.0"], Some("0.0.0.0")),
        // One bad address among good ones refuses the name.
        ("registry.example.org:443", &["93.184.216.34", "::1"], Some("::1")),
        // The agent may control a name that a pattern allows.
        ("a.example.com:443", &["93.184.216.34"], None),
        ("a.example.com:443", &["10.1.2.3"], Some("10.1.2.3")),
        ("a.example.com:443", &["127.0.0.1"], Some("127.0.0.1")),
        // The address is listed itself, at this port.
        ("a.example.com:443", &["10.0.0.9"], None),
        ("10.0.0.9:443", &["10.0.0.9"], None),
        ("localhost:8080", &["127.0.0.1", "::1"], None),
    ] {
        let (list, target) = (hosts(&list), target(asked));
        let listing = find_listing(&list, &target).unwrap();
        let found: Vec<SocketAddr> = addresses
            .iter()
            .map(|address| SocketAddr::new(address.parse().unwrap(), target.port))
            .collect();
        let refused = check_addresses(&list, &target, listing, &found).err();
        let expected = expected.map(|address| Refusal::Address {
            target: target.clone(),
            address: address.parse().unwrap(),
        });
        assert_eq!(refused, expected, "{asked} {addresses:?}");
    }
    let both = hosts(&["*.example.com", "a.example.com"]);
    assert_eq!(find_listing(&both, &target("a.example.com:443")), Ok(HostListing::Name));
}

/// Serves the proxy with a list on loopback, and returns its address and its reports.
async fn serve_proxy(list: &[&str]) -> (SocketAddr, mpsc::Receiver<String>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (send, reports) = mpsc::channel(MAX_WAITING_REPORTS);
    let proxy = Arc::new(HttpProxy::new(hosts(list), RefusalLog::new(send)));
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut tasks = JoinSet::new();
    tasks.spawn(accept_all(listener, places, move |stream| Arc::clone(&proxy).serve(stream)));
    (address, reports, tasks)
}

/// Answers each connection with what it received up to an empty line, and returns the address.
async fn serve_echo(tasks: &mut JoinSet<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { break };
                seen.push(byte);
            }
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", seen.len());
            let answer = [head.as_bytes(), &seen].concat();
            let _ = stream.write_all(&answer).await;
        }
    });
    address
}

/// Sends a text and returns everything that is sent back until the end.
async fn exchange(proxy: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // The proxy may close the connection while bytes are unread.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_listed_host_is_reached_by_a_tunnel_and_by_a_plain_request() {
    let mut servers = JoinSet::new();
    let server = serve_echo(&mut servers).await;
    let (proxy, _reports, _tasks) = serve_proxy(&[&server.to_string()]).await;
    let tunnelled = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\nhello\r\n\r\n");
    let answer = exchange(proxy, &tunnelled).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhello\r\n\r\n"), "{answer}");
    let plain = format!(
        "GET http://{server}/path?q=1 HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: x\r\n\
         Connection: X-Secret\r\nX-Secret: 1\r\nX-Kept: 1\r\n\r\n"
    );
    let answer = exchange(proxy, &plain).await.to_lowercase();
    assert!(answer.contains("get /path?q=1 http/1.1\r\n"), "{answer}");
    assert!(answer.contains(&format!("host: {server}\r\n")), "{answer}");
    assert!(answer.contains("x-kept: 1\r\n"), "{answer}");
    for part in ["evil.example", "proxy-authorization", "x-secret"] {
        assert!(!answer.contains(part), "{answer}");
    }
}

#[tokio::test]
async fn every_other_target_and_every_unclear_request_is_refused() {
    let mut servers = JoinSet::new();
    let server = serve_echo(&mut servers).await;
    let (proxy, mut reports, _tasks) =
        serve_proxy(&["example.org", "10.0.0.1:8080", &server.to_string()]).await;
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let long = "x".repeat(20 * 1024);
    for (request, status) in [
        (format!("CONNECT {other} HTTP/1.1\r\n\r\n"), 403),
        (format!("CONNECT localhost:{} HTTP/1.1\r\n\r\n", server.port()), 403),
        (format!("CONNECT [::ffff:7f00:1]:{} HTTP/1.1\r\n\r\n", other.port()), 403),
        ("CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n".to_owned(), 403),
        ("CONNECT example.org:22 HTTP/1.1\r\n\r\n".to_owned(), 403),
        ("CONNECT example.org.evil.net:443 HTTP/1.1\r\n\r\n".to_owned(), 403),
        (format!("CONNECT 2130706433:{} HTTP/1.1\r\n\r\n", server.port()), 400),
        (format!("CONNECT 0x7f.1:{} HTTP/1.1\r\n\r\n", server.port()), 400),
        (format!("CONNECT 0177.0.0.1:{} HTTP/1.1\r\n\r\n", server.port()), 400),
        ("CONNECT example.org HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("CONNECT user@example.org:443 HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("CONNECT /x HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET http://169.254.169.254/latest/meta-data HTTP/1.1\r\n\r\n".to_owned(), 403),
        (format!("GET http://example.org@{other}/ HTTP/1.1\r\n\r\n"), 400),
        (format!("GET http://{server}@{other}/ HTTP/1.1\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\nHost: {server}\r\n\r\n"), 400),
        (format!("GET https://{server}/ HTTP/1.1\r\n\r\n"), 400),
        (format!("GET ftp://{server}/ HTTP/1.1\r\n\r\n"), 400),
        (format!("GET http://{server}/ HTTP/1.1\r\nX: {long}\r\n\r\n"), 431),
        ("nonsense\r\n\r\n".to_owned(), 400),
    ] {
        let answer = exchange(proxy, &request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }
    let answer = exchange(proxy, "CONNECT evil.example:443 HTTP/1.1\r\n\r\n").await;
    let why = "agent-worker: `evil.example:443` is not among the hosts that this sandbox may reach; to allow it, add \
               `evil.example` to the hosts of the sandbox's `network`\n";
    assert!(answer.ends_with(why), "{answer}");
    // The same target again is no second report.
    exchange(proxy, "CONNECT evil.example:443 HTTP/1.1\r\n\r\n").await;
    let mut lines = Vec::new();
    while let Ok(line) = reports.try_recv() {
        lines.push(line);
    }
    let about_evil = lines.iter().filter(|line| line.contains("`evil.example:443`")).count();
    assert_eq!((lines.len(), about_evil), (6, 1), "{lines:#?}");
}

#[tokio::test]
async fn a_second_request_on_one_connection_reaches_nobody() {
    let mut servers = JoinSet::new();
    let (listed, other) = (serve_echo(&mut servers).await, serve_echo(&mut servers).await);
    let (proxy, _reports, _tasks) = serve_proxy(&[&listed.to_string()]).await;
    let second = format!("GET http://{other}/second HTTP/1.1\r\nHost: {other}\r\n\r\n");
    for first in [
        format!("GET http://{listed}/first HTTP/1.1\r\nConnection: keep-alive\r\n\r\n"),
        format!("POST http://{listed}/first HTTP/1.1\r\nContent-Length: 0\r\n\r\n"),
    ] {
        let answer = exchange(proxy, &(first + &second)).await;
        assert!(answer.contains("/first"), "{answer}");
        assert!(!answer.contains("second"), "{answer}");
    }
    // Two lengths could be read in two ways.
    let unclear = format!(
        "POST http://{listed}/first HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 9\r\n\r\n{second}"
    );
    let answer = exchange(proxy, &unclear).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn many_refused_hosts_are_few_reports() {
    let (proxy, mut reports, _tasks) = serve_proxy(&["example.org"]).await;
    for number in 0..50 {
        exchange(proxy, &format!("CONNECT h{number}.example:443 HTTP/1.1\r\n\r\n")).await;
    }
    let mut lines = Vec::new();
    while let Ok(line) = reports.try_recv() {
        lines.push(line);
    }
    assert_eq!(lines.len(), 33);
    assert_eq!(lines[32], "the sandbox refused further connections, which are not reported");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_loses_its_connection() {
    let (proxy, _reports, _tasks) = serve_proxy(&["example.org"]).await;
    for start in ["", "CONNECT example.org:443 HTTP/1.1\r\nX: "] {
        let mut stream = TcpStream::connect(proxy).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        let began = tokio::time::Instant::now();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(began.elapsed() <= Duration::from_secs(30), "{start}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_on_which_nothing_moves_ends() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    let (proxy, _reports, _tasks) = serve_proxy(&[&address.to_string()]).await;
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    let request = format!("CONNECT {address} HTTP/1.1\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let _accepted = server.accept().await.unwrap();
    let began = tokio::time::Instant::now();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
    let waited = began.elapsed();
    assert!((Duration::from_mins(9)..Duration::from_mins(12)).contains(&waited), "{waited:?}");
}
