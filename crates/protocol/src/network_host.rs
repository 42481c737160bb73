//! The hosts that a sandbox may reach, as a workflow file lists them, and the target of a connection. Pure: no name is
//! looked up.
//!
//! Invariant: a name is in lower case, has no dot at its end, and is never another form of an address, such as `0x7f.1`.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ports of an entry without a port: those of HTTP and HTTPS.
const USUAL_PORTS: [u16; 2] = [80, 443];
/// The name of this machine for itself.
const LOCALHOST: &str = "localhost";
/// First port that a program without rights can open, as inside a sandbox.
const FIRST_FREE_PORT: u16 = 1024;
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;
/// Maximum length of a text that an error shows.
const MAX_SHOWN_CHARS: usize = 80;

/// An entry of the list: a name, the names below a name (`*.example.com`), or an address; with a port or without.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct NetworkHost {
    host: ListedHost,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ListedHost {
    Name(String),
    /// Every name that ends in a dot and this one.
    Below(String),
    Address(IpAddr),
}

/// The host of a connection: a name that is not looked up yet, or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetHost {
    /// Name in lower case.
    Name(String),
    /// Address; an IPv4 address inside an IPv6 one is the IPv4 address.
    Address(IpAddr),
}

/// The target of a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NetworkTarget {
    /// Host of the target.
    pub host: TargetHost,
    /// Port of the target.
    pub port: u16,
}

/// The way in which a list names a target, from the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostListing {
    /// By a pattern with `*`.
    Pattern,
    /// By its name.
    Name,
    /// By its address, or as `localhost`.
    Address,
}

/// Error for a text that names no host.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{text}` names no host: {why}")]
pub struct BadHost {
    text: String,
    why: &'static str,
}

impl NetworkHost {
    /// Returns the way in which this entry names a target; none if it names another.
    pub fn listing(&self, target: &NetworkTarget) -> Option<HostListing> {
        let has_port = match self.port {
            Some(port) => port == target.port,
            None => USUAL_PORTS.contains(&target.port),
        };
        match (&self.host, &target.host) {
            _ if !has_port => None,
            (ListedHost::Name(own), TargetHost::Name(name)) if own == name => {
                let is_local = name == LOCALHOST;
                Some(if is_local { HostListing::Address } else { HostListing::Name })
            }
            (ListedHost::Below(parent), TargetHost::Name(name)) => {
                let label = name.strip_suffix(parent.as_str())?.strip_suffix('.')?;
                (!label.is_empty()).then_some(HostListing::Pattern)
            }
            (ListedHost::Address(own), TargetHost::Address(address)) if own == address => {
                Some(HostListing::Address)
            }
            (ListedHost::Name(_) | ListedHost::Address(_), _)
            | (ListedHost::Below(_), TargetHost::Address(_)) => None,
        }
    }

    /// Returns the target of an entry for this machine.
    pub fn loopback_target(&self) -> Option<NetworkTarget> {
        let host = match &self.host {
            ListedHost::Name(name) => TargetHost::Name(name.clone()),
            ListedHost::Address(address) => TargetHost::Address(*address),
            ListedHost::Below(_) => return None,
        };
        self.port.filter(|_| self.is_loopback()).map(|port| NetworkTarget { host, port })
    }

    fn is_loopback(&self) -> bool {
        match &self.host {
            ListedHost::Name(name) => name == LOCALHOST,
            ListedHost::Below(_) => false,
            ListedHost::Address(address) => address.is_loopback(),
        }
    }
}

impl FromStr for NetworkHost {
    type Err = BadHost;
    fn from_str(text: &str) -> Result<Self, BadHost> {
        let (host, port) = split_port(text).map_err(|why| bad(text, why))?;
        let host = match host.strip_prefix("*.") {
            Some(parent) => {
                let parent = read_name(parent).map_err(|why| bad(text, why))?;
                if !parent.contains('.') {
                    return Err(bad(text, "a pattern needs two names, as in `*.example.com`"));
                }
                ListedHost::Below(parent)
            }
            None => match read_host(host).map_err(|why| bad(text, why))? {
                TargetHost::Name(name) => ListedHost::Name(name),
                TargetHost::Address(address) => ListedHost::Address(address),
            },
        };
        let entry = Self { host, port };
        if entry.is_loopback() && port.is_none_or(|port| port < FIRST_FREE_PORT) {
            return Err(bad(text, "this machine needs a port from 1024, as in `localhost:8080`"));
        }
        Ok(entry)
    }
}

impl fmt::Display for NetworkHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            ListedHost::Name(name) => f.write_str(name)?,
            ListedHost::Below(parent) => write!(f, "*.{parent}")?,
            ListedHost::Address(address) => write_address(f, *address)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl TryFrom<String> for NetworkHost {
    type Error = BadHost;
    fn try_from(text: String) -> Result<Self, BadHost> {
        text.parse()
    }
}

impl From<NetworkHost> for String {
    fn from(host: NetworkHost) -> Self {
        host.to_string()
    }
}

impl NetworkTarget {
    /// Reads `host:port`; a text without a port has the usual one.
    pub fn parse(text: &str, usual_port: Option<u16>) -> Result<Self, BadHost> {
        let (host, port) = split_port(text).map_err(|why| bad(text, why))?;
        let port = port.or(usual_port).ok_or_else(|| bad(text, "the port is missing"))?;
        Ok(Self { host: read_host(host).map_err(|why| bad(text, why))?, port })
    }
}

impl fmt::Display for NetworkTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            TargetHost::Name(name) => f.write_str(name)?,
            TargetHost::Address(address) => write_address(f, *address)?,
        }
        write!(f, ":{}", self.port)
    }
}

fn write_address(f: &mut fmt::Formatter<'_>, address: IpAddr) -> fmt::Result {
    match address {
        IpAddr::V4(address) => write!(f, "{address}"),
        IpAddr::V6(address) => write!(f, "[{address}]"),
    }
}

/// Splits a text into its host, which has no brackets any more only if it is a name, and its port.
fn split_port(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    let end = text.rfind(']').map_or(0, |bracket| bracket + 1);
    let Some(colon) = text[end..].find(':').map(|place| end + place) else {
        return Ok((text, None));
    };
    let (host, port) = (&text[..colon], &text[colon + 1..]);
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port @ 1..) if is_number => Ok((host, Some(port))),
        Ok(_) | Err(_) => {
            Err("after a colon there must be a port; an IPv6 address needs brackets, as in `[::1]`")
        }
    }
}

fn read_host(text: &str) -> Result<TargetHost, &'static str> {
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address: Ipv6Addr = inner.parse().map_err(|_| "the brackets have no IPv6 address")?;
        return Ok(TargetHost::Address(IpAddr::V6(address).to_canonical()));
    }
    match text.parse() {
        Ok(address) => Ok(TargetHost::Address(IpAddr::V4(address))),
        Err(_) => read_name(text).map(TargetHost::Name),
    }
}

fn read_name(text: &str) -> Result<String, &'static str> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label =
        |label: &str| (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(is_part);
    if name.len() > MAX_NAME_BYTES || !name.split('.').all(is_label) {
        return Err(
            "write a name such as `example.org`, names below it as `*.example.org`, or an address",
        );
    }
    // A system takes such a name for an address in another form.
    let last = name.rsplit('.').next().unwrap_or_default();
    if last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("an address has four numbers, as in `192.0.2.1`");
    }
    Ok(name)
}

fn bad(text: &str, why: &'static str) -> BadHost {
    let shown = text.chars().take(MAX_SHOWN_CHARS);
    BadHost { text: shown.map(|c| if c.is_control() { ' ' } else { c }).collect(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> NetworkTarget {
        NetworkTarget::parse(text, None).unwrap()
    }

    #[test]
    fn an_entry_names_its_host_at_its_port_alone() {
        use HostListing::{Address, Name, Pattern};
        for (entry, asked, expected) in [
            ("example.org", "example.org:443", Some(Name)),
            ("example.org", "EXAMPLE.org.:80", Some(Name)),
            ("Example.ORG.", "example.org:80", Some(Name)),
            ("example.org", "example.org:22", None),
            ("example.org:22", "example.org:22", Some(Name)),
            ("example.org:22", "example.org:443", None),
            ("example.org", "a.example.org:443", None),
            ("example.org", "example.org.evil.net:443", None),
            ("*.example.org", "a.example.org:443", Some(Pattern)),
            ("*.example.org", "a.b.example.org:443", Some(Pattern)),
            ("*.example.org", "example.org:443", None),
            ("*.example.org", "badexample.org:443", None),
            ("*.example.org:8443", "a.example.org:8443", Some(Pattern)),
            ("localhost:8080", "LOCALHOST:8080", Some(Address)),
            ("localhost:8080", "127.0.0.1:8080", None),
            ("127.0.0.1:8080", "127.0.0.1:8080", Some(Address)),
            ("127.0.0.1:8080", "[::ffff:127.0.0.1]:8080", Some(Address)),
            ("[::1]:8080", "[0:0::1]:8080", Some(Address)),
            ("10.0.0.1", "10.0.0.1:443", Some(Address)),
            ("10.0.0.1", "10.0.0.2:443", None),
        ] {
            let host: NetworkHost = entry.parse().unwrap();
            assert_eq!(host.listing(&target(asked)), expected, "{entry} {asked}");
            let again: NetworkHost = host.to_string().parse().unwrap();
            assert_eq!(again, host);
        }
    }

    #[test]
    fn a_text_that_could_be_read_in_two_ways_names_no_host() {
        for text in [
            "",
            ".",
            "*",
            "*.org",
            "a.*.org",
            "**.example.org",
            "http://example.org",
            "example.org/x",
            "user@example.org",
            "user:word@example.org:443",
            "example.org:0",
            "example.org:+80",
            "example.org:65536",
            "example.org:",
            "example.org:443:80",
            "::1",
            "[::1",
            "[::1]x",
            "[127.0.0.1]",
            "[fe80::1%eth0]",
            "2130706433",
            "0x7f000001",
            "127.1",
            "0177.0.0.1",
            "127.0.0.0x1",
            "exam ple.org",
            "example..org",
            "exämple.org",
            "a\0.org",
        ] {
            assert!(text.parse::<NetworkHost>().is_err(), "{text:?}");
            assert!(NetworkTarget::parse(text, Some(443)).is_err(), "{text:?}");
        }
        assert!(NetworkTarget::parse("example.org", None).is_err());
        assert!(NetworkTarget::parse("*.example.org", Some(80)).is_err());
    }

    #[test]
    fn an_entry_for_this_machine_needs_a_port_and_is_a_loopback_target() {
        let of = |text: &str| text.parse::<NetworkHost>().unwrap().loopback_target();
        assert_eq!(of("localhost:8080"), Some(target("localhost:8080")));
        assert_eq!(of("[::1]:8080"), Some(target("[::1]:8080")));
        for text in ["localhost", "localhost:80", "127.0.0.1:1023", "[::1]"] {
            let why = text.parse::<NetworkHost>().unwrap_err().to_string();
            assert!(why.ends_with("needs a port from 1024, as in `localhost:8080`"), "{why}");
        }
        for text in ["10.0.0.1:80", "example.org:8080", "*.example.org:8080"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
