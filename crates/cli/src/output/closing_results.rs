//! The results of a run in its closing lines: the written documents, the last answer of each agent, the next commands.
//! Pure.

use agent_worker_protocol::{
    Target,
    api::{DocumentEntry, RunView},
};

use super::{
    styled_line::{StyledLine, Tone},
    text::{self, one_line},
};

/// Number of documents that are named.
const MAX_DOCUMENTS: usize = 5;
/// Number of agents whose answers are shown.
const MAX_ANSWERS: usize = 8;

/// Returns the lines about the results of a run, each answer cut to `columns`.
pub(super) fn result_lines(view: &RunView, columns: usize) -> Vec<StyledLine> {
    let mut lines: Vec<_> = documents_line(&view.documents).into_iter().collect();
    let answers: Vec<_> = view
        .agents
        .iter()
        .enumerate()
        .filter_map(|(colour, agent)| Some((colour, &agent.name, view.answers.get(&agent.name)?)))
        .collect();
    let shown = answers.iter().take(MAX_ANSWERS);
    let names = shown.clone().map(|(_, name, _)| text::width(name.as_str())).max().unwrap_or(0);
    lines.extend(shown.map(|(colour, name, answer)| {
        let name = format!("  {:names$}  ", name.as_str());
        StyledLine::new(Tone::Agent(*colour), name)
            .with(Tone::Plain, one_line(&answer.text))
            .cut(columns)
    }));
    if answers.len() > MAX_ANSWERS {
        let more = answers.len() - MAX_ANSWERS;
        lines.push(StyledLine::new(Tone::Dim, format!("  … and {more} more")));
    }
    lines
}

fn documents_line(documents: &[DocumentEntry]) -> Option<StyledLine> {
    let named = documents.iter().take(MAX_DOCUMENTS);
    let named =
        named.map(|it| format!("{} (revision {})", one_line(it.file.as_str()), it.revision));
    let mut named: Vec<_> = named.collect();
    if documents.len() > MAX_DOCUMENTS {
        named.push(format!("{} more", documents.len() - MAX_DOCUMENTS));
    }
    let line = StyledLine::new(Tone::Strong, "  wrote ");
    (!named.is_empty()).then(|| line.with(Tone::Plain, named.join(", ")))
}

/// Returns the commands that read the results of a run that is done.
pub(super) fn reading_steps(view: &RunView) -> Vec<String> {
    let target = Target::instance(&view.instance);
    let document = view.documents.first().map(|document| {
        let file = one_line(document.file.as_str());
        format!("read {file}: agent-worker doc read {file} {target}")
    });
    let channel =
        (view.messages > 0).then(|| format!("read the whole channel: agent-worker peek {target}"));
    document.into_iter().chain(channel).collect()
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{Revision, Seq, api::AnswerView};

    use super::*;
    use crate::output::{
        samples::{self, agent_name, at},
        styled_line::Colour,
    };

    fn document(file: &str, revision: i64) -> DocumentEntry {
        DocumentEntry {
            file: file.parse().unwrap(),
            revision: Revision::new(revision),
            author: "coder".into(),
            attempt: None,
            bytes: 7,
            written: at(5),
        }
    }

    fn with_answers(answers: &[(&str, &str)]) -> RunView {
        let answers = answers.iter().map(|(who, text)| {
            let (seq, text) = (Seq::new(1), (*text).to_owned());
            (agent_name(who), AnswerView { seq, text, resource: None })
        });
        RunView { answers: answers.collect(), ..samples::run() }
    }

    fn shown(view: &RunView, columns: usize) -> String {
        result_lines(view, columns).iter().map(|line| line.paint(Colour::Off) + "\n").collect()
    }

    #[test]
    fn the_results_are_the_documents_and_the_last_answer_of_each_agent() {
        let answers =
            [("coder", "The check\nis added."), ("reviewer", "@lead the change is fine.")];
        let documents = vec![document("notes.md", 5), document("plan.md", 1)];
        let view = RunView { documents, ..with_answers(&answers) };
        insta::assert_snapshot!(shown(&view, 79), @r"
          wrote notes.md (revision 5), plan.md (revision 1)
          coder     The check is added.
          reviewer  @lead the change is fine.
        ");
        insta::assert_snapshot!(shown(&view, 30), @r"
        wrote notes.md (revision 5), plan.md (revision 1)
        coder     The check is adde…
        reviewer  @lead the change …
        ");
        assert_eq!(
            reading_steps(&view),
            [
                "read notes.md: agent-worker doc read notes.md @review:pr-1",
                "read the whole channel: agent-worker peek @review:pr-1"
            ]
        );
    }

    #[test]
    fn a_run_without_results_has_no_lines_and_many_results_are_counted() {
        assert_eq!(shown(&samples::run(), 79), "");
        let documents = (0..7).map(|n| document(&format!("{n}.md"), 1)).collect();
        let many = RunView { documents, ..samples::run() };
        assert!(shown(&many, 79).ends_with("4.md (revision 1), 2 more\n"));
    }
}
