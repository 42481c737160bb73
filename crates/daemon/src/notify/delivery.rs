//! Delivery by a program: the desktop's own, or a command of the user. No shell: text is an argument behind `--`, or
//! JSON on stdin.

use std::{path::Path, time::Duration};

use agent_worker_host::find_program;
use agent_worker_kernel::NotifyPlan;
use agent_worker_protocol::{Notification, plain_line};

use crate::runner::{NotifyCommand, NotifyCommandEnd, ProcessRunner};

const DESKTOP_TIMEOUT: Duration = Duration::from_secs(5);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of characters of a command's error output in the reason of a failure.
const MAX_STDERR_CHARS: usize = 200;
/// The script that shows its two arguments.
const OSASCRIPT: &str =
    "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run";

/// Shows a notification on the desktop.
pub(super) async fn show_on_desktop(
    runner: &ProcessRunner,
    plan: &NotifyPlan,
    message: &Notification,
) -> Result<(), String> {
    let path = plan.env.get("PATH").map_or("", String::as_str);
    let is_found = |name: &&str| find_program(name, Path::new("/"), path).is_ok();
    let Some(program) = ["notify-send", "osascript"].into_iter().find(is_found) else {
        return Err("neither notify-send nor osascript is in PATH".to_owned());
    };
    let words = desktop_words(program, message);
    run(runner, plan, NotifyCommand { words, stdin: Vec::new(), timeout: DESKTOP_TIMEOUT }).await
}

/// Runs the command of the user.
pub(super) async fn run_command(
    runner: &ProcessRunner,
    plan: &NotifyPlan,
    message: &Notification,
) -> Result<(), String> {
    let stdin = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    let words = plan.settings.command.clone().unwrap_or_default();
    run(runner, plan, NotifyCommand { words, stdin, timeout: COMMAND_TIMEOUT }).await
}

async fn run(
    runner: &ProcessRunner,
    plan: &NotifyPlan,
    command: NotifyCommand,
) -> Result<(), String> {
    let program = command.words.first().cloned().unwrap_or_default();
    let timeout = command.timeout.as_secs();
    let failed = |why: String| Err(format!("{program} {why}"));
    match runner.run_notify_command(command, plan).await {
        Ok(NotifyCommandEnd::Exited { status: Some(0), .. }) => Ok(()),
        Ok(NotifyCommandEnd::Exited { status, stderr }) => {
            let how = status.map_or("was killed by a signal".to_owned(), |status| {
                format!("ended with status {status}")
            });
            match plain_line(&stderr, MAX_STDERR_CHARS) {
                printed if printed.is_empty() => failed(how),
                printed => failed(format!("{how}: {printed}")),
            }
        }
        Ok(NotifyCommandEnd::TimedOut) => failed(format!("did not end within {timeout} s")),
        Err(error) => failed(format!("could not be started: {error}")),
    }
}

/// Returns the command line that shows a notification. A desktop may interpret markup in the text.
fn desktop_words(program: &str, message: &Notification) -> Vec<String> {
    let text = match message.text.as_str() {
        "" => message.next.clone(),
        text => format!("{text}\n{}", message.next),
    };
    if program == "osascript" {
        let words = [program, "-e", OSASCRIPT, "--", &message.title, &text];
        return words.map(str::to_owned).to_vec();
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let words = [program, "--app-name=agent-worker", "--", &message.title, &text];
    words.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{Millis, NotifyOccasion, RunId};

    use super::*;

    #[test]
    fn the_text_of_an_agent_is_no_option_and_no_markup_of_the_desktop() {
        let message = Notification {
            id: "x/1".to_owned(),
            occasion: NotifyOccasion::Question,
            instance: "review".parse().unwrap(),
            project: "/p".to_owned(),
            run: RunId::new(uuid::Uuid::nil()),
            agent: None,
            title: "review: coder asks a question".to_owned(),
            text: "--icon=/x <a href=\"http://x\">go</a> & \" & do shell script".to_owned(),
            next: "agent-worker pending @review".to_owned(),
            time: Millis::new(0),
        };
        let words = desktop_words("notify-send", &message);
        assert_eq!(words[..3], ["notify-send", "--app-name=agent-worker", "--"]);
        assert_eq!(
            words[4],
            "--icon=/x &lt;a href=\"http://x\"&gt;go&lt;/a&gt; &amp; \" &amp; do shell script\n\
             agent-worker pending @review"
        );
        let words = desktop_words("osascript", &message);
        assert_eq!(words[..4], ["osascript", "-e", OSASCRIPT, "--"]);
        assert!(words[5].starts_with("--icon=/x <a"), "an argument of a fixed script");
    }
}
