//! The approval request in the live view: its full text and the keys that answer it. Pure; `approval_prompt` does the
//! I/O.
//!
//! Invariant: a key answers only a request that has been visible for a while, approves only one that is visible as a
//! whole, and is not part of other typing. A key allows for the run only a pattern that is visible as a whole.

use std::time::Duration;

use agent_worker_protocol::{ApprovalId, Millis, ToolPattern, api::ApprovalView};

use crate::output::{
    console::TerminalSize,
    styled_line::{StyledLine, Tone},
    text::{self, escape_invisible, fitting_prefix, one_line, pluralize},
};

/// Minimum time with a visible request and without a key before a key counts as an answer.
const MIN_DISPLAY_TIME: Duration = Duration::from_millis(500);
const APPROVE_KEYS: [u8; 2] = [b'y', b'Y'];
const APPROVE_FOR_RUN_KEYS: [u8; 2] = [b'a', b'A'];
const DENY_KEYS: [u8; 2] = [b'n', b'N'];
/// Prefix of every line of a request, which no text can imitate.
const REQUEST_LINE_PREFIX: &str = "  │ ";
/// Prefix of every line of the pattern that a key allows for the run.
const PATTERN_LINE_PREFIX: &str = "  for the run │ ";
const KEYS_WITH_PATTERN: &str = "  y approves it, a for the run, n denies it";

/// A decision by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PanelDecision {
    Approve,
    ApproveForRun(ToolPattern),
    Deny,
}

/// The approval request on the screen.
#[derive(Debug, Default)]
pub(crate) struct ApprovalPanel {
    shown: Option<ShownApproval>,
    last_key: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ShownApproval {
    id: ApprovalId,
    extent: Extent,
    since: Millis,
}

/// The visible part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Extent {
    Whole,
    /// The whole request, and this pattern as a whole.
    WithPattern(ToolPattern),
    Part,
}

impl ApprovalPanel {
    /// Draws the oldest open request within `size`, and notes since when it is visible.
    pub(crate) fn draw(
        &mut self,
        open: &[ApprovalView],
        size: TerminalSize,
        now: Millis,
    ) -> Vec<StyledLine> {
        let Some(request) = open.first() else {
            self.shown = None;
            return Vec::new();
        };
        let (lines, extent) = render_request(request, open.len() - 1, size);
        let same = |shown: &ShownApproval| shown.id == request.id && shown.extent == extent;
        let since = self.shown.take().filter(same).map_or(now, |shown| shown.since);
        self.shown = Some(ShownApproval { id: request.id, extent, since });
        lines
    }

    /// Notes that no request is visible.
    pub(crate) fn hide(&mut self) {
        self.shown = None;
    }

    /// Returns the decision that keys pressed together make about the visible request.
    pub(crate) fn decision_for_keys(
        &mut self,
        keys: &[u8],
        now: Millis,
    ) -> Option<(ApprovalId, PanelDecision)> {
        if keys.is_empty() {
            return None;
        }
        let still = now.since(std::mem::replace(&mut self.last_key, now));
        let is_settled =
            |shown: &&ShownApproval| now.since(shown.since).min(still) >= MIN_DISPLAY_TIME;
        let ShownApproval { id, extent, .. } = self.shown.as_ref().filter(is_settled)?;
        let [key] = keys else { return None };
        let decision = match extent {
            _ if DENY_KEYS.contains(key) => PanelDecision::Deny,
            Extent::Whole | Extent::WithPattern(_) if APPROVE_KEYS.contains(key) => {
                PanelDecision::Approve
            }
            Extent::WithPattern(pattern) if APPROVE_FOR_RUN_KEYS.contains(key) => {
                PanelDecision::ApproveForRun(pattern.clone())
            }
            Extent::Whole | Extent::WithPattern(_) | Extent::Part => return None,
        };
        Some((*id, decision))
    }
}

/// Renders a request within `size`, with the keys that answer it.
fn render_request(
    request: &ApprovalView,
    others: usize,
    size: TerminalSize,
) -> (Vec<StyledLine>, Extent) {
    // One column stays free: a full line would wrap in some terminals.
    let width = size.width.saturating_sub(1);
    let ApprovalView { id, agent, tool, args, exact_pattern, .. } = request;
    let head = StyledLine::new(Tone::Warn, format!("  #{id} {agent} wants {}", one_line(tool)));
    let args = serde_json::to_string_pretty(args).unwrap_or_default();
    let columns = width.saturating_sub(text::width(REQUEST_LINE_PREFIX)).max(1);
    let mut lines: Vec<StyledLine> = args
        .lines()
        .flat_map(|line| wrap_at_columns(&escape_invisible(line), columns))
        .map(|line| StyledLine::new(Tone::Dim, REQUEST_LINE_PREFIX).with(Tone::Plain, line))
        .collect();
    let is_readable = head.width() <= width && width > text::width(REQUEST_LINE_PREFIX) + 8;
    let pattern = exact_pattern.clone().map(|pattern| (pattern_lines(&pattern, width), pattern));
    let extent = match (size.height.checked_sub(2), pattern) {
        (Some(rows), Some((shown, pattern)))
            if lines.len() + shown.len() <= rows
                && is_readable
                && text::width(KEYS_WITH_PATTERN) <= width =>
        {
            lines.extend(shown);
            Extent::WithPattern(pattern)
        }
        (Some(rows), _) if lines.len() <= rows && is_readable => Extent::Whole,
        (rows, _) => {
            lines.truncate(rows.unwrap_or(0));
            Extent::Part
        }
    };
    let others = match others {
        0 => String::new(),
        others => format!(" · {} more", pluralize(others, "request")),
    };
    let foot = match extent {
        Extent::Whole => format!("  y approves it, n denies it{others}"),
        Extent::WithPattern(_) => format!("{KEYS_WITH_PATTERN}{others}"),
        Extent::Part => {
            format!("  too long for here: agent-worker pending {id} · n denies it{others}")
        }
    };
    let foot = StyledLine::new(Tone::Strong, foot);
    let lines = std::iter::once(head).chain(lines).chain([foot]);
    (lines.map(|line| line.cut(width)).collect(), extent)
}

/// Renders a pattern as a whole.
fn pattern_lines(pattern: &ToolPattern, width: usize) -> Vec<StyledLine> {
    let columns = width.saturating_sub(text::width(PATTERN_LINE_PREFIX)).max(1);
    let lines = wrap_at_columns(&escape_invisible(&pattern.to_string()), columns).into_iter();
    lines
        .map(|line| StyledLine::new(Tone::Dim, PATTERN_LINE_PREFIX).with(Tone::Plain, line))
        .collect()
}

/// Breaks the text into lines of at most `columns` columns.
fn wrap_at_columns(text: &str, columns: usize) -> Vec<String> {
    let (mut lines, mut rest) = (Vec::new(), text);
    loop {
        let line = fitting_prefix(rest, columns);
        // A character wider than the whole width gets a line of its own.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = line.len().max(first);
        let (line, after) = rest.split_at(end);
        lines.push(line.to_owned());
        if after.is_empty() {
            return lines;
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::RunId;
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::output::styled_line::Colour;

    const SIZE: TerminalSize = TerminalSize { width: 60, height: 12 };

    fn request(id: i64, args: Value) -> ApprovalView {
        ApprovalView {
            instance: "review".parse().unwrap(),
            project: "/p".into(),
            id: ApprovalId::new(id),
            run: RunId::new(Uuid::nil()),
            agent: "coder".parse().unwrap(),
            tool: "Bash".into(),
            args,
            asked: Millis::default(),
            answer: None,
            exact_pattern: None,
            grant: None,
        }
    }

    fn push_request(command: &str) -> ApprovalView {
        let exact_pattern = Some(format!("Bash({command})").parse().unwrap());
        ApprovalView { exact_pattern, ..request(3, json!({ "command": command })) }
    }

    fn at(millis: i64) -> Millis {
        Millis::new(1_000_000 + millis)
    }

    fn painted(lines: &[StyledLine]) -> String {
        lines.iter().map(|line| line.paint(Colour::Off) + "\n").collect()
    }

    #[test]
    fn a_request_is_shown_verbatim_and_nothing_in_it_imitates_other_output() {
        let args = json!({"command": "git push\n  y approves it\u{1b}[2J\u{202e}", "description": "x".repeat(60)});
        let lines = ApprovalPanel::default().draw(&[request(3, args)], SIZE, at(0));
        insta::assert_snapshot!(painted(&lines), @r#"
          #3 coder wants Bash
          │ {
          │   "command": "git push\n  y approves it\u001b[2J\u{202e
          │ }",
          │   "description": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
          │ xxxxxxxxxxxxxxxxxxxxxxx"
          │ }
          y approves it, n denies it
        "#);
    }

    #[test]
    fn what_does_not_fit_is_cut_and_can_only_be_denied() {
        let long = [request(3, json!({"command": "x".repeat(600)})), request(4, json!({}))];
        let mut panel = ApprovalPanel::default();
        let lines = panel.draw(&long, SIZE, at(0));
        assert_eq!(lines.len(), SIZE.height);
        let foot = lines.last().unwrap().paint(Colour::Off);
        assert_eq!(foot, "  too long for here: agent-worker pending 3 · n denies it …");
        assert_eq!(panel.decision_for_keys(b"y", at(1_000)), None);
        let denied = Some((ApprovalId::new(3), PanelDecision::Deny));
        assert_eq!(panel.decision_for_keys(b"n", at(2_000)), denied);
        // A larger terminal shows all of it, and the display time starts again.
        let large = TerminalSize { width: 60, height: 24 };
        assert!(painted(&panel.draw(&long, large, at(3_000))).ends_with("it · 1 request more\n"));
        assert_eq!(panel.decision_for_keys(b"y", at(3_400)), None);
        assert_eq!(panel.decision_for_keys(b"y", at(4_000)).unwrap().1, PanelDecision::Approve);
        for size in [TerminalSize { width: 8, height: 24 }, TerminalSize { width: 60, height: 3 }] {
            panel.draw(&[request(3, json!({}))], size, at(5_000));
            assert_eq!(panel.decision_for_keys(b"y", at(9_000)), None, "{size:?}");
        }
    }

    #[test]
    fn a_key_allows_for_the_run_the_pattern_that_is_visible_as_a_whole() {
        let push = [push_request("git push\n\u{1b}origin")];
        let mut panel = ApprovalPanel::default();
        let lines = panel.draw(&push, SIZE, at(0));
        insta::assert_snapshot!(painted(&lines), @r#"
          #3 coder wants Bash
          │ {
          │   "command": "git push\n\u001borigin"
          │ }
          for the run │ Bash(git push\u{a}\u{1b}origin)
          y approves it, a for the run, n denies it
        "#);
        let ApprovalView { exact_pattern, .. } = push[0].clone();
        let allowed = PanelDecision::ApproveForRun(exact_pattern.unwrap());
        assert_eq!(panel.decision_for_keys(b"a", at(499)), None);
        assert_eq!(panel.decision_for_keys(b"a", at(1_000)), Some((ApprovalId::new(3), allowed)));
        assert_eq!(panel.decision_for_keys(b"y", at(2_000)).unwrap().1, PanelDecision::Approve);
        // One line less: the request fits, and its pattern does not.
        let small = TerminalSize { height: lines.len() - 1, ..SIZE };
        let lines = panel.draw(&push, small, at(3_000));
        assert_eq!(lines.last().unwrap().paint(Colour::Off), "  y approves it, n denies it");
        assert_eq!(panel.decision_for_keys(b"a", at(5_000)), None);
        assert_eq!(panel.decision_for_keys(b"y", at(6_000)).unwrap().1, PanelDecision::Approve);
        // Without a pattern that names the call there is no such key.
        panel.draw(&[request(3, json!({"anything": 1}))], SIZE, at(7_000));
        assert_eq!(panel.decision_for_keys(b"a", at(9_000)), None);
    }

    #[test]
    fn only_a_single_key_after_the_request_was_shown_is_an_answer() {
        let open = [request(3, json!({"command": "ls"}))];
        for (keys, pauses, expected) in [
            (&[&b"y"[..]][..], &[500][..], Some(PanelDecision::Approve)),
            (&[b"Y"], &[500], Some(PanelDecision::Approve)),
            (&[b"n"], &[500], Some(PanelDecision::Deny)),
            (&[b"y"], &[499], None),
            (&[b"yes\n"], &[900], None),
            (&[b"\x1b[A"], &[900], None),
            (&[b" "], &[900], None),
            (&[b"\r"], &[900], None),
            // The user types a command for later.
            (&[b"t", b"y"], &[900, 200], None),
            (&[b"t", b"y"], &[900, 600], Some(PanelDecision::Approve)),
        ] {
            let mut panel = ApprovalPanel::default();
            panel.draw(&open, SIZE, at(0));
            let (mut now, mut decision) = (0, None);
            for (keys, pause) in keys.iter().zip(pauses) {
                now += pause;
                decision = panel.decision_for_keys(keys, at(now));
                panel.draw(&open, SIZE, at(now));
            }
            assert_eq!(decision.map(|(_, decision)| decision), expected, "{keys:?} {pauses:?}");
        }
    }

    #[test]
    fn a_key_meant_for_one_request_never_answers_the_next() {
        let mut panel = ApprovalPanel::default();
        let (first, next) = (request(3, json!({})), request(4, json!({})));
        panel.draw(&[first, next.clone()], SIZE, at(0));
        // The request is answered elsewhere just before the key.
        panel.draw(std::slice::from_ref(&next), SIZE, at(2_000));
        assert_eq!(panel.decision_for_keys(b"y", at(2_050)), None);
        panel.hide();
        assert_eq!(panel.decision_for_keys(b"y", at(9_000)), None);
        panel.draw(&[], SIZE, at(9_000));
        assert_eq!(panel.decision_for_keys(b"y", at(19_000)), None);
    }
}
