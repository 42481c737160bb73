//! Texts of an agent itself among the chunks of its model's answer. Pure.
//!
//! The protocol has no field for them, so that they are recognized by the agent's fixed words. A model that writes such a chunk
//! can only fail its own turn.

/// The meaning of a text of the agent itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcpNotice {
    /// A remark that is not part of the answer.
    Remark,
    /// The agent repeats its request; the answer begins again.
    Retry,
    /// The request to the provider failed. The turn has failed if nothing follows.
    Failure,
    /// A request of the agent was refused.
    Refusal,
}

/// Recognizes a text of Codex behind the adapter of Zed. The other adapter reports these in updates of their own.
pub(super) fn codex_notice(text: &str) -> Option<AcpNotice> {
    text.starts_with("Model metadata for `").then_some(AcpNotice::Remark)
}

/// Recognizes a text of Copilot.
pub(super) fn copilot_notice(text: &str) -> Option<AcpNotice> {
    if text.starts_with("Info: Operation cancelled by user") {
        return Some(AcpNotice::Refusal);
    }
    if text.starts_with("Info: Disabled tools: ") {
        return Some(AcpNotice::Remark);
    }
    if text.starts_with("Info: ") {
        return text.ends_with("Retrying...").then_some(AcpNotice::Retry);
    }
    let failure = text.strip_prefix("Error: ")?;
    let is_failure = failure.starts_with("Failed to get response from the AI model")
        || failure.starts_with("Authentication failed with provider")
        || failure.starts_with(|c: char| c.is_ascii_digit());
    is_failure.then_some(AcpNotice::Failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_the_agent_itself_is_known_by_its_words() {
        let retry = "Info: Response was interrupted due to a server error. Retrying...";
        for (text, expected) in [
            ("Info: Operation cancelled by user", Some(AcpNotice::Refusal)),
            (retry, Some(AcpNotice::Retry)),
            ("Info: Disabled tools: task", Some(AcpNotice::Remark)),
            ("Info: about the project", None),
            ("Error: 503 scripted 503", Some(AcpNotice::Failure)),
            (
                "Error: Authentication failed with provider at http://x (HTTP 401).",
                Some(AcpNotice::Failure),
            ),
            (
                "Error: Failed to get response from the AI model; retried 5 times",
                Some(AcpNotice::Failure),
            ),
            ("Error: rate limit exceeded", None),
        ] {
            assert_eq!(copilot_notice(text), expected, "{text}");
        }
        assert_eq!(codex_notice("Model metadata for `m` not found."), Some(AcpNotice::Remark));
        assert_eq!(codex_notice("Model"), None);
    }
}
