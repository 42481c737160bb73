//! Matches URLs against patterns. Pure. Redirects of a server are unknown here.

use agent_worker_protocol::ArgumentPattern;

/// Returns true if a pattern covers a URL. `https://docs.rs*` covers that host alone, and not
/// `docs.rs.example.com`.
pub(super) fn covers(fit: &ArgumentPattern, url: &str) -> bool {
    match fit {
        ArgumentPattern::Any => true,
        ArgumentPattern::Exact(text) => url == text,
        ArgumentPattern::Prefix(start) => {
            let host_is_whole = start
                .split_once("://")
                .is_some_and(|(_, rest)| rest.is_empty() || rest.contains('/'));
            let ends = |rest: &str| rest.is_empty() || rest.starts_with(['/', '?', '#']);
            url.strip_prefix(start.as_str()).is_some_and(|rest| host_is_whole || ends(rest))
        }
    }
}

/// Returns true if a pattern may match a URL in any spelling.
pub(super) fn may_match(fit: &ArgumentPattern, url: &str) -> bool {
    let url = &normalize_url(url);
    match fit {
        ArgumentPattern::Any => true,
        ArgumentPattern::Exact(text) => *url == normalize_url(text),
        ArgumentPattern::Prefix(start) => url.starts_with(&normalize_url(start)),
    }
}

/// Normalizes a URL: lower case, forward slashes, no whitespace, and no user before the host.
fn normalize_url(url: &str) -> String {
    let kept = url.chars().filter(|c| !c.is_whitespace() && !c.is_control());
    let url = kept.collect::<String>().to_lowercase().replace('\\', "/");
    let Some((scheme, rest)) = url.split_once("://") else { return url };
    let rest = rest.trim_start_matches('/');
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let host = host.rsplit('@').next().unwrap_or(host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowed_beginning_is_no_other_host_and_a_denied_one_is_found_however_it_is_spelt() {
        let begins = |start: &str| ArgumentPattern::Prefix(start.to_owned());
        for (start, url, expected) in [
            ("https://docs.rs", "https://docs.rs/serde", true),
            ("https://docs.rs", "https://docs.rs", true),
            ("https://docs.rs", "https://docs.rs.example.com/", false),
            ("https://docs.rs", "https://docs.rs@example.com/", false),
            ("https://docs.rs", "https://docs.rs:8443/", false),
            ("https://docs.rs/", "https://docs.rs/serde", true),
            ("https://docs.rs/s", "https://docs.rs/serde", true),
            ("https://", "https://docs.rs", true),
        ] {
            assert_eq!(covers(&begins(start), url), expected, "{start}*: {url}");
        }
        for url in [
            "http://example.com/a",
            "HTTP://Example.COM/a",
            "http://me@example.com/a",
            "http:\\\\example.com/a",
            "ht\ntp://exam\tple.com/a",
            "http:///example.com/a",
        ] {
            assert!(may_match(&begins("http://example.com"), url), "{url}");
        }
        assert!(!may_match(&begins("http://example.com"), "https://docs.rs/http://example.com"));
    }
}
