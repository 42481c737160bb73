//! The words of a notification. The words of an agent are text in every channel: one line, cut, without control
//! characters. Pure.

use agent_worker_kernel::PersonNotice;
use agent_worker_protocol::{Notification, NotifyOccasion, Target, plain_line};

/// Maximum number of characters of an agent's words.
const MAX_DETAIL_CHARS: usize = 300;

/// Words a notice; `left_out` notifications of the run before it were not delivered.
pub(super) fn notification_of(notice: &PersonNotice, left_out: u32) -> Notification {
    let target = Target::instance(&notice.instance).to_string();
    let instance = target.trim_start_matches('@');
    let who = notice.agent.as_ref().map_or("an agent", |agent| agent.as_str());
    let (what, next) = match notice.occasion {
        NotifyOccasion::Question => (format!("{who} asks a question"), "answer"),
        NotifyOccasion::Approval => (format!("{who} needs an approval"), "pending"),
        NotifyOccasion::Vote => ("a proposal waits for your vote".to_owned(), "proposals"),
        NotifyOccasion::Interrupted => ("paused after an interruption".to_owned(), "status"),
        NotifyOccasion::Limit => ("paused at a limit".to_owned(), "status"),
        NotifyOccasion::Failed => ("failed".to_owned(), "status"),
        NotifyOccasion::Done => ("done".to_owned(), "status"),
    };
    let more = match left_out {
        0 => String::new(),
        more => format!(" ({more} more before)"),
    };
    Notification {
        id: format!("{}/{}", notice.run, notice.position),
        occasion: notice.occasion,
        instance: notice.instance.clone(),
        project: notice.project.clone(),
        run: notice.run,
        agent: notice.agent.clone(),
        title: format!("{instance}: {what}{more}"),
        text: plain_line(&notice.detail, MAX_DETAIL_CHARS),
        next: format!("agent-worker {next} {target}"),
        time: notice.time,
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{Millis, Position, RunId};

    use super::*;

    #[test]
    fn the_words_of_an_agent_are_one_cut_line_without_control_characters() {
        let notice = PersonNotice {
            position: Position::new(7),
            occasion: NotifyOccasion::Question,
            instance: "review:pr-1".parse().unwrap(),
            project: "/project".to_owned(),
            run: RunId::new(uuid::Uuid::nil()),
            agent: Some("coder".parse().unwrap()),
            detail: format!("ship\u{1b}]0;owned\u{7} it\u{202e}?\r\n{}", "x".repeat(1000)),
            time: Millis::new(0),
        };
        let shown = notification_of(&notice, 2);
        assert_eq!(shown.title, "review:pr-1: coder asks a question (2 more before)");
        assert!(shown.text.starts_with("ship]0;owned it? xxx"), "{}", shown.text);
        assert_eq!(shown.text.chars().count(), MAX_DETAIL_CHARS);
        assert!(shown.text.ends_with('…') && !shown.text.contains(char::is_control));
        assert_eq!(shown.next, "agent-worker answer @review:pr-1");
        assert_eq!(shown.id, "00000000-0000-0000-0000-000000000000/7");
    }
}
