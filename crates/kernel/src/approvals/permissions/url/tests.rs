//! Tables of addresses and their spellings.

use super::*;

fn begins(start: &str) -> ArgumentPattern {
    ArgumentPattern::Prefix(start.to_owned())
}

#[test]
fn an_allowed_beginning_covers_no_other_host_and_no_other_path() {
    for (start, url, expected) in [
        ("https://docs.rs", "https://docs.rs/serde", true),
        ("https://docs.rs", "https://docs.rs", true),
        ("https://docs.rs", "https://DOCS.rs?q", true),
        ("https://docs.rs", "https://docs.rs:443/", true),
        ("https://docs.rs", "https://docs.rs.example.com/", false),
        ("https://docs.rs", "https://docs.rs@example.com/", false),
        ("https://docs.rs", "https://me@docs.rs/", false),
        ("https://docs.rs", "https://docs.rs:8443/", false),
        ("https://docs.rs", "https://docs.rs./", false),
        ("https://docs.rs", "http://docs.rs/", false),
        ("https://docs.rs", "https:docs.rs/", false),
        ("https://docs.rs", "https:\\\\docs.rs/", false),
        ("https://docs.rs", "https://docs\t.rs/", false),
        ("https://docs.rs", "docs.rs", false),
        ("https://docs.rs/", "https://docs.rs/serde", true),
        ("https://docs.rs/s", "https://docs.rs/serde", true),
        ("https://docs.rs/s", "https://docs.rs/a/../serde", true),
        ("https://docs.rs/s", "https://docs.rs/s/../a", false),
        ("https://docs.rs/s", "https://docs.rs/S", false),
        ("https://x.org/my-org/", "https://x.org/my-org/a", true),
        ("https://x.org/my-org/", "https://x.org/my-org", false),
        ("https://x.org/my-org/", "https://x.org/my-org/../evil", false),
        ("https://x.org/my-org/", "https://x.org/my-org/%2e%2e/evil", false),
        ("https://x.org/my-org/", "https://x.org/my-org/.%2E/evil", false),
        ("https://x.org/my-org/", "https://x.org/my-org/..%2fevil", false),
        ("https://x.org/my-org/", "https://x.org/my-org/%252e%252e/evil", false),
        ("https://x.org/my-org/", "https://x.org/my-org/..\\evil", false),
        ("https://x.org/a?q=", "https://x.org/a?q=%2e", true),
        ("https://x.org/a?q=", "https://x.org/a?r=", false),
        ("http://localhost:", "http://localhost:3000/a", true),
        ("http://localhost:", "http://localhost.evil:3000/a", false),
        ("https://", "https://docs.rs", true),
        ("https://", "http://docs.rs", false),
        ("http", "https://docs.rs", false),
    ] {
        assert_eq!(covers(&begins(start), url), expected, "{start}*: {url}");
    }
    let exactly = ArgumentPattern::Exact("https://x.org/a".to_owned());
    assert!(covers(&exactly, "https://x.org/a") && covers(&exactly, "https://x.org/b/../a"));
    assert!(!covers(&exactly, "https://x.org/a/") && !covers(&exactly, "https://x.org/a?b"));
}

#[test]
fn a_denied_address_is_found_in_every_spelling() {
    for url in [
        "http://example.com/private",
        "HTTP://Example.COM/private",
        "http://me@example.com/private",
        "http://me:you@example.com/private",
        "http://@example.com/private",
        "http:\\\\example.com\\private",
        "ht\ntp://exam\tple.com/private",
        "  http://example.com/private",
        "http:///example.com/private",
        "http:/example.com/private",
        "http:example.com/private",
        "http://example.com:80/private",
        "http://example.com:/private",
        "http://example.com:0080/private",
        "http://example.com./private",
        "http://%65xample.com/private",
        "http://ｅxample.com/private",
        "http://ex\u{ad}ample.com/private",
        "http://example\u{3002}com/private",
        "http://example.com/./private",
        "http://example.com/a/../private",
        "http://example.com/a/%2e%2E/private",
        "http://example.com/a%2f..%2fprivate",
        "http://example.com/%70rivate",
        "http://example.com//private",
        "http://example.com/Private",
        "http://example.com/private/a?b#c",
        "//example.com/private",
        "example.com/private",
        "view-source:http://example.com/private",
    ] {
        assert!(may_match(&begins("http://example.com/private"), url), "{url}");
    }
    for url in [
        "http://example.com/public",
        "http://example.com:81/private",
        "http://example.org/private",
        "https://example.com/private",
        "http://docs.rs/http://example.com/private",
        "http://docs.rs/?http://example.com/private",
    ] {
        assert!(!may_match(&begins("http://example.com/private"), url), "{url}");
    }
}

#[test]
fn a_denied_host_is_found_by_its_beginning_and_as_a_number() {
    for (start, url, expected) in [
        ("http://exam", "http://example.com/", true),
        ("http://example.com", "http://example.com.evil/", true),
        ("http://EXAMPLE.com", "http://example.com/", true),
        ("http://b\u{fc}cher.de", "http://xn--bcher-kva.de/", true),
        ("http://localhost:", "http://localhost/", true),
        ("http://localhost:", "http://localhost:3000/", true),
        ("http://localhost:3", "http://localhost:3000/", true),
        ("http://localhost:3000", "http://localhost:4000/", false),
        ("http://127.0.0.1", "http://2130706433/", true),
        ("http://127.0.0.1", "http://0x7f.1/", true),
        ("http://127.0.0.1", "http://0177.0.0.1/", true),
        ("http://127.0.0.1", "http://[::ffff:127.0.0.1]/", true),
        ("http://127.0.0.1/a", "http://[::ffff:7f00:1]/a", true),
        ("http://[::1]", "http://[0:0:0:0:0:0:0:1]/", true),
        ("http://", "http:x", true),
        ("http://", "https://x", false),
        ("http", "https://x", true),
        ("ftp", "https://x", false),
    ] {
        assert_eq!(may_match(&begins(start), url), expected, "{start}*: {url}");
    }
    let exactly = ArgumentPattern::Exact("https://x.org".to_owned());
    assert!(may_match(&exactly, "https://X.org:443/#a") && !may_match(&exactly, "https://x.org/a"));
}
