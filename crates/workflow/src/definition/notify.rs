//! `notify:` section: the channels that tell a person when a run needs them. The user's configuration file has the same
//! section. Pure.

use std::net::IpAddr;

use agent_worker_protocol::{Keyword as _, NotifyOccasion, NotifySettings, NotifyWhen};
use url::{Host, Url};

use crate::{
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    yaml::{
        Yaml,
        fields::{AllowedKeys, YamlField, YamlFields},
    },
};

const NOTIFY_KEYS: AllowedKeys =
    AllowedKeys { known: &["desktop", "command", "webhook", "when", "on"], planned: &[] };

/// Reads the section of a workflow file; `false` removes every channel, also those of the user's configuration.
pub(crate) fn read(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> NotifySettings {
    if matches!(field.node.value, Yaml::Bool(false)) {
        return NotifySettings::off();
    }
    match field.fields(&NOTIFY_KEYS, diagnostics) {
        Some(fields) => read_keys(&fields, diagnostics),
        None => NotifySettings::default(),
    }
}

/// Reads the keys that both files have.
pub(crate) fn read_keys(fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) -> NotifySettings {
    let whens = [NotifyWhen::Unwatched, NotifyWhen::Always].map(|when| (when.word(), when));
    NotifySettings {
        desktop: fields.read_with("desktop", diagnostics, YamlField::boolean),
        command: fields.read_with("command", diagnostics, read_command),
        webhook: fields.read_with("webhook", diagnostics, read_webhook),
        when: fields.read_with("when", diagnostics, |field| field.one_of(&whens, &[])),
        on: fields.read_with("on", diagnostics, read_occasions),
    }
}

/// Reads a program with its arguments as words. No shell reads them, so that one text with blanks is a mistake.
fn read_command(field: &YamlField<'_>) -> Result<Vec<String>, Diagnostic> {
    let example = || field.must_be("a list of words, such as `[./notify.sh, --fast]`");
    if let Ok(word) = field.literal_text() {
        let is_word = !word.is_empty() && !word.contains(char::is_whitespace);
        return if is_word { Ok(vec![word.to_owned()]) } else { Err(example()) };
    }
    let items = field.list().map_err(|_| example())?;
    let words: Vec<String> = items
        .iter()
        .map(|item| item.literal_text().map(str::to_owned))
        .collect::<Result<_, _>>()?;
    if words.first().is_some_and(String::is_empty) || words.iter().any(|word| word.contains('\0')) {
        return Err(example());
    }
    Ok(words)
}

fn read_webhook(field: &YamlField<'_>) -> Result<String, Diagnostic> {
    let text = field.literal_text()?;
    match webhook_problem(text) {
        None => Ok(text.to_owned()),
        Some(problem) => Err(field.must_be(problem)),
    }
}

fn read_occasions(field: &YamlField<'_>) -> Result<Vec<NotifyOccasion>, Diagnostic> {
    let words = NotifyOccasion::ALL.map(|one| (one.word(), one));
    field.list()?.iter().map(|item| item.one_of(&words, &[])).collect()
}

/// Returns the form that a webhook's URL must have, if `text` has another one. An empty text is no webhook.
pub fn webhook_problem(text: &str) -> Option<&'static str> {
    let is_valid = text.is_empty() || is_encrypted_or_local(text);
    (!is_valid).then_some("an https URL, or an http URL of this machine (127.0.0.1)")
}

/// Returns true for an https URL, and for an http URL of this machine.
pub(crate) fn is_encrypted_or_local(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| match url.scheme() {
        "https" => url.has_host(),
        "http" => url.host().is_some_and(|host| is_loopback(&host)),
        _ => false,
    })
}

/// Returns true for an address of this machine. A name is none, even `localhost`: the machine may resolve it otherwise.
fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Ipv4(address) => IpAddr::from(*address).is_loopback(),
        Host::Ipv6(address) => IpAddr::from(*address).is_loopback(),
        Host::Domain(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_encrypted_or_on_this_machine() {
        for (text, is_valid) in [
            ("https://example.org/hook?x=1", true),
            ("http://127.0.0.1:8080/x", true),
            ("http://[::1]/x", true),
            ("", true),
            ("http://localhost/x", false),
            ("http://example.org/x", false),
            ("http://127.0.0.1.example.org/", false),
            ("http://0x7f000001/", true),
            ("http://169.254.169.254/", false),
            ("ftp://example.org", false),
            ("file:///etc/passwd", false),
            ("example.org", false),
        ] {
            assert_eq!(webhook_problem(text).is_none(), is_valid, "{text}");
        }
    }
}
