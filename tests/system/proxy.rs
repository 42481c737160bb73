//! A way to the daemon for programs that cannot send a token: adds it to everything that passes.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
};

/// Listens on loopback until the test is over.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
}

impl Proxy {
    /// Passes everything on to `daemon`, in the name of `token`.
    pub(crate) fn to(daemon: &str, token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (daemon, token) = (daemon.to_owned(), token.to_owned());
        thread::spawn(move || {
            for visitor in listener.incoming().flatten() {
                let (daemon, token) = (daemon.clone(), token.clone());
                // Whoever hangs up in the middle is no concern of a proxy.
                thread::spawn(move || pass(&visitor, address, &daemon, &token).ok());
            }
        });
        Self { address }
    }
}

/// One request and its answer, as it comes.
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
            // What was meant for us is meant for the daemon; what was meant for others is not made better.
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

/// Whoever leaves before the answer is whole leaves the daemon too.
fn close_both(visitor: &TcpStream, daemon: &TcpStream) -> io::Result<()> {
    let (mut visitor, daemon) = (visitor.try_clone()?, daemon.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut visitor, &mut io::sink());
        daemon.shutdown(Shutdown::Both)
    });
    Ok(())
}
