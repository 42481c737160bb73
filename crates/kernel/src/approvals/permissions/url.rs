//! Matches addresses against patterns. Pure. Redirects of a server are unknown here.
//!
//! Addresses are parsed as browsers do (WHATWG). `allow` accepts an address that every program reads in the same way:
//! no user, no backslash, no encoded separator. `deny` and `ask` compare all spellings of a host and a path.

use agent_worker_protocol::ArgumentPattern;
use url::{Host, Url};

/// Encoded `.`, `/`, `\` and `%`, which a server may decode to another path.
const AMBIGUOUS_ESCAPES: [&str; 4] = ["%2e", "%2f", "%5c", "%25"];

/// Returns true if a pattern covers a URL. `https://docs.rs*` covers that host alone, and not
/// `docs.rs.example.com`.
pub(super) fn covers(fit: &ArgumentPattern, text: &str) -> bool {
    let (named, is_prefix) = match fit {
        ArgumentPattern::Any => return true,
        ArgumentPattern::Exact(named) => (named, false),
        ArgumentPattern::Prefix(start) => (start, true),
    };
    if !is_prefix && named == text {
        return true;
    }
    let Some(url) = parse_unambiguous(text) else { return false };
    let Some((scheme, rest)) = named.split_once("://") else { return false };
    if is_prefix && rest.is_empty() {
        return url.scheme().eq_ignore_ascii_case(scheme);
    }
    let Ok(pattern) = Url::parse(named) else { return false };
    let names_path = rest.contains(['/', '?', '#']);
    // `http://localhost:*` covers all ports of that host.
    let any_port = is_prefix && !names_path && rest.ends_with(':');
    let same_place = url.scheme() == pattern.scheme()
        && url.host() == pattern.host()
        && (any_port || url.port_or_known_default() == pattern.port_or_known_default());
    let (path, named_path) = (path_and_query(&url), path_and_query(&pattern));
    same_place
        && if is_prefix { !names_path || path.starts_with(&named_path) } else { path == named_path }
}

/// Returns true if a pattern may match a URL in any spelling. A text that is no URL may be any address.
pub(super) fn may_match(fit: &ArgumentPattern, text: &str) -> bool {
    let (named, is_prefix) = match fit {
        ArgumentPattern::Any => return true,
        ArgumentPattern::Exact(named) => (named, false),
        ArgumentPattern::Prefix(start) => (start, true),
    };
    let Ok(url) = Url::parse(text) else { return true };
    if url.cannot_be_a_base() {
        return true;
    }
    let Some((scheme, rest)) = named.split_once("://") else {
        // Part of a scheme, such as `http*`.
        let whole = url.as_str();
        let named = named.to_lowercase();
        return if is_prefix { whole.starts_with(&named) } else { whole == named };
    };
    if !url.scheme().eq_ignore_ascii_case(scheme) {
        return false;
    }
    if is_prefix && !rest.contains(['/', '?', '#']) {
        return host_begins(&url, scheme, rest);
    }
    let Ok(pattern) = Url::parse(named) else { return true };
    let same_place = comparable_host(&url) == comparable_host(&pattern)
        && url.port_or_known_default() == pattern.port_or_known_default();
    let (path, named_path) = (comparable_path(&url), comparable_path(&pattern));
    same_place && if is_prefix { path.starts_with(&named_path) } else { path == named_path }
}

/// Returns a URL that every program reads in the same way.
fn parse_unambiguous(text: &str) -> Option<Url> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
    let url = Url::parse(text).ok().filter(|_| !text.contains(is_odd))?;
    let (_, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let lower = url.path().to_ascii_lowercase();
    let is_plain = url.has_host()
        && authority.is_ascii()
        && !authority.contains(['@', '%'])
        && !AMBIGUOUS_ESCAPES.iter().any(|escape| lower.contains(escape));
    // The parser has removed `%2e` segments: they are ambiguous in the text, too.
    let named = rest.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    (is_plain && !named.contains("%2e")).then_some(url)
}

fn path_and_query(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

/// Returns true if host and port of a URL begin with `start`, in any spelling.
fn host_begins(url: &Url, scheme: &str, start: &str) -> bool {
    let host = comparable_host(url);
    let port = url.port_or_known_default().unwrap_or_default();
    let whole = format!("{host}:{port}");
    let named = start.rsplit('@').next().unwrap_or(start).to_lowercase();
    if whole.starts_with(&named) {
        return true;
    }
    // A whole host in another spelling than that of the parser.
    Url::parse(&format!("{scheme}://{start}")).is_ok_and(|pattern| {
        let port_fits = start.ends_with(':')
            || pattern.port().is_none()
            || pattern.port_or_known_default() == url.port_or_known_default();
        let named = comparable_host(&pattern);
        port_fits && !named.is_empty() && host.starts_with(&named)
    })
}

/// Returns the host without differences that mean nothing: a final dot, and IPv4 in IPv6.
fn comparable_host(url: &Url) -> String {
    match url.host() {
        None => String::new(),
        Some(Host::Domain(name)) => name.trim_end_matches('.').to_lowercase(),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => match address.to_ipv4_mapped() {
            Some(inner) => inner.to_string(),
            None => format!("[{address}]"),
        },
    }
}

/// Returns path and query decoded, in lower case, without repeated slashes and dot segments.
fn comparable_path(url: &Url) -> String {
    let path = percent_decode(url.path()).replace('\\', "/");
    let mut segments: Vec<&str> = Vec::new();
    let ends_in_folder = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    for segment in path.split('/').filter(|segment| !segment.is_empty() && *segment != ".") {
        if segment == ".." {
            segments.pop();
        } else {
            segments.push(segment);
        }
    }
    let mut plain = format!("/{}", segments.join("/"));
    if ends_in_folder && plain != "/" {
        plain.push('/');
    }
    if let Some(query) = url.query() {
        plain = format!("{plain}?{}", percent_decode(query));
    }
    plain.to_lowercase()
}

fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests;
