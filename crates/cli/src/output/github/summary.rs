//! The summary of a step: the outcome of a run, its figures, and the last answer of each agent, in Markdown. Pure.
//!
//! An answer is the text of an agent. It is shown as Markdown inside a quotation, which it cannot leave; HTML in it is shown
//! as text, since an unclosed comment would hide the rest of the page.

use std::{fmt::Write as _, time::Duration};

use agent_worker_protocol::{
    Keyword as _, Usage,
    api::{AnswerView, RunReport, RunVerdict},
};
use pulldown_cmark::{Event, Parser};

use super::annotation::undelivered_text;
use crate::output::{
    state_text,
    text::{self, one_line, pluralize, sanitize_for_display},
};

/// Maximum length of all shown answers, in bytes; GitHub refuses a summary of more than 1 MiB.
const MAX_ANSWERS_BYTES: usize = 512 * 1024;

/// Returns the section of a run.
pub(super) fn markdown(report: &RunReport) -> String {
    let mark = match report.outcome {
        RunVerdict::Done => "✅",
        RunVerdict::Limit | RunVerdict::Human | RunVerdict::Interrupted => "⏸️",
        RunVerdict::Failed | RunVerdict::Invalid | RunVerdict::Stopped => "❌",
    };
    let name = escape_text(report.workflow.as_str());
    let mut page = format!("### {mark} {name}: {}\n\n", report.outcome.word());
    let mut figures = vec![
        text::format_elapsed(Duration::from_millis(report.duration_ms)),
        pluralize(report.turns as usize, "turn"),
        pluralize(report.messages as usize, "message"),
    ];
    figures.extend(cost(&report.usage));
    let _ = writeln!(page, "{}\n", figures.join(" · "));
    let reasons = reasons(report);
    for line in &reasons {
        let _ = writeln!(page, "- {}", escape_text(&one_line(line)));
    }
    if !reasons.is_empty() {
        page.push('\n');
    }
    page.push_str("| agent | turns | messages | tokens in | tokens out | cost |\n");
    page.push_str("|---|--:|--:|--:|--:|--:|\n");
    for (agent, part) in &report.agents {
        let Usage { input_tokens, output_tokens, .. } = part.usage;
        let cost = state_text::cost_text(&part.usage).unwrap_or_else(|| "–".to_owned());
        let (agent, cost) = (escape_text(agent.as_str()), escape_text(&cost));
        let (turns, messages) = (part.turns, part.messages);
        let _ = writeln!(
            page,
            "| {agent} | {turns} | {messages} | {input_tokens} | {output_tokens} | {cost} |"
        );
    }
    page.push('\n');
    append_answers(&mut page, report);
    page
}

fn cost(usage: &Usage) -> Option<String> {
    let cost = state_text::cost_text(usage)?;
    Some(match usage.cost_micros {
        Some(_) => escape_text(&cost),
        None => format!("cost {cost}"),
    })
}

/// Returns the verdict of the team, the reason of the outcome, failures and undelivered messages, a line each.
fn reasons(report: &RunReport) -> Vec<String> {
    let verdict = report.verdict.iter().map(|verdict| {
        format!("verdict of {}: {}: {}", verdict.by, verdict.outcome.word(), verdict.summary)
    });
    let error = report.error.iter().map(|error| error.message.clone());
    let failures = report.agents.iter().filter_map(|(name, agent)| {
        let failure = agent.last_failure.as_ref().filter(|failure| !failure.recovered)?;
        Some(format!("{name} failed ({}): {}", failure.class, failure.message))
    });
    let undelivered = report.dead_letters.iter().chain(&report.dropped).map(undelivered_text);
    let unheard = report.unheard.iter().map(state_text::unheard_text);
    verdict.chain(error).chain(failures).chain(undelivered).chain(unheard).collect()
}

fn append_answers(page: &mut String, report: &RunReport) {
    let mut remaining = MAX_ANSWERS_BYTES;
    for (agent, AnswerView { text, resource, .. }) in &report.answers {
        let quoted = quote(text);
        let _ = writeln!(page, "#### {}\n", escape_text(agent.as_str()));
        match remaining.checked_sub(quoted.len()) {
            Some(rest) => {
                remaining = rest;
                page.push_str(&quoted);
                if resource.is_some() {
                    page.push_str("\n_This is the beginning of a longer answer._\n");
                }
            }
            None => page.push_str("_This answer is too long for the summary._\n"),
        }
        page.push('\n');
    }
}

/// Returns Markdown of an agent as a quotation.
fn quote(text: &str) -> String {
    let shown = escape_html(&sanitize_for_display(text));
    shown.lines().flat_map(|line| ["> ", line, "\n"]).collect()
}

/// Escapes HTML in Markdown, and leaves code as it is.
fn escape_html(markdown: &str) -> String {
    let html = Parser::new(markdown).into_offset_iter().filter_map(|(event, range)| match event {
        Event::Html(_) | Event::InlineHtml(_) => Some(range),
        _ => None,
    });
    let (mut escaped, mut end) = (String::with_capacity(markdown.len()), 0);
    for range in html.filter(|range| !range.is_empty()) {
        escaped.push_str(&markdown[end..range.start.max(end)]);
        escaped.push_str(&markdown[range.start.max(end)..range.end].replace('<', "&lt;"));
        end = range.end.max(end);
    }
    escaped.push_str(&markdown[end..]);
    escaped
}

/// Escapes text that Markdown would format.
fn escape_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\`*_{}[]<>()#|~!&$@:".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{
        DeliveryState, Outcome, RunState,
        api::{RunReport, RunView},
    };

    use super::*;
    use crate::output::samples;

    fn answer(text: &str) -> AnswerView {
        serde_json::from_value(serde_json::json!({ "seq": 3, "text": text })).unwrap()
    }

    fn page(view: &RunView) -> String {
        markdown(&RunReport::of(view).unwrap())
    }

    #[test]
    fn a_summary_has_the_outcome_the_figures_and_the_answers() {
        let mut view = samples::run();
        view.usage = Usage {
            input_tokens: 10,
            output_tokens: 2,
            cost_micros: Some(120_000),
            cost_reckoned: false,
        };
        view.answers = [(samples::agent_name("coder"), answer("**Done**\nsee `Vec<T>`"))].into();
        insta::assert_snapshot!(page(&view), @r"
        ### ✅ review: done

        1m 23s · 4 turns · 9 messages · \$0.12

        | agent | turns | messages | tokens in | tokens out | cost |
        |---|--:|--:|--:|--:|--:|
        | coder | 2 | 3 | 0 | 0 | – |
        | reviewer | 2 | 3 | 0 | 0 | – |

        #### coder

        > **Done**
        > see `Vec<T>`
        ");
    }

    #[test]
    fn a_summary_of_a_failed_run_names_the_reasons() {
        let dead = agent_worker_protocol::Receipt {
            why: Some("failed: <b>|x|\n# no heading".into()),
            ..samples::receipt(7, "coder", DeliveryState::Dead)
        };
        let state = RunState::Ended { outcome: Outcome::Failed };
        let page = page(&RunView { state, dead_letters: vec![dead], ..samples::run() });
        assert!(page.starts_with("### ❌ review: failed\n"), "{page}");
        let line = "- message \\#7 for coder is dead\\: failed\\: \\<b\\>\\|x\\| \\# no heading\n";
        assert!(page.contains(line), "{page}");
    }

    #[test]
    fn an_answer_cannot_leave_its_quotation_or_hide_the_rest() {
        for (text, quoted) in [
            ("# Title\n\n```\nopen", "> # Title\n> \n> ```\n> open\n"),
            ("a <!-- hidden\n\n</blockquote>", "> a <!-- hidden\n> \n> &lt;/blockquote>\n"),
            ("<!-- hidden", "> &lt;!-- hidden\n"),
            ("see <details> and `<T>`", "> see &lt;details> and `<T>`\n"),
            ("```\n<b>\n```", "> ```\n> <b>\n> ```\n"),
            ("a\u{1b}[2Jb\rc", "> a␛[2Jb␍c\n"),
        ] {
            assert_eq!(quote(text), quoted);
        }
    }
}
