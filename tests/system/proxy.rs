//! A proxy to the daemon for programs that cannot send a token: adds the token to every request.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
};

/// Listens on loopback until the end of the test.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
}

impl Proxy {
    /// Forwards every request to `daemon`, with `token`.
    pub(crate) fn to(daemon: &str, token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (daemon, token) = (daemon.to_owned(), token.to_owned());
        thread::spawn(move || {
            for visitor in listener.incoming().flatten() {
                let (daemon, token) = (daemon.clone(), token.clone());
                // The proxy ignores a client that disconnects early.
                thread::spawn(move || pass(&visitor, address, &daemon, &token).ok());
            }
        });
        Self { address }
    }
}

/// Forwards one request and streams its response.
fn pass(visitor: &TcpStream, own: SocketAddr, daemon: &str, token: &str) -> io::Result<()> {
    let mut from = BufReader::new(visitor.try_clone()?);
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "connection" => continue,
            // Replaces the proxy's own address by the daemon's; other values stay as they are, valid or not.
            "host" | "origin" => line = line.replace(&own.to_string(), daemon),
            _ => {}
        }
        if line.trim().is_empty() {
            break;
        }
        head += &line;
    }
    let ours = format!("Authorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    let mut to = TcpStream::connect(daemon)?;
    to.write_all((head + &ours).as_bytes())?;
    to.write_all(&body)?;
    close_both(visitor, &to)?;
    io::copy(&mut to, &mut &*visitor)?;
    visitor.shutdown(Shutdown::Both)
}

/// Closes the daemon's connection once the client has disconnected.
fn close_both(visitor: &TcpStream, daemon: &TcpStream) -> io::Result<()> {
    let (mut visitor, daemon) = (visitor.try_clone()?, daemon.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut visitor, &mut io::sink());
        daemon.shutdown(Shutdown::Both)
    });
    Ok(())
}
