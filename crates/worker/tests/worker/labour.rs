//! What a script does when nothing goes wrong.

use agent_worker_protocol::{Backend, MockRule, WorkerOutcome};
use serde_json::json;

use crate::{
    daemon::Daemon,
    process::{job, run},
};

#[tokio::test]
async fn the_first_rule_that_fits_what_woke_the_agent_is_carried_out() {
    let rules: Vec<MockRule> = serde_json::from_value(json!([
        {"on": "review", "say": "one"}, {"on": "fix", "say": "two"}, {"say": "three"},
    ]))
    .unwrap();
    for (woken_by, count, said) in [
        ("please review and fix", 3, "one"),
        ("fix it", 3, "two"),
        ("hello", 3, "three"),
        ("hello", 2, ""),
    ] {
        let daemon = Daemon::willing();
        let mut job = job(&daemon, json!({}));
        job.woken_by = woken_by.to_owned();
        job.backend = Backend::Mock { rules: rules[..count].to_vec() };
        let finished = run(&job).await;
        assert_eq!((finished.text.as_str(), finished.outcome), (said, WorkerOutcome::Ok));
    }
}

#[tokio::test]
async fn a_command_has_the_jobs_environment_and_folder_and_nothing_else() {
    let daemon = Daemon::willing();
    let mut job = job(&daemon, json!({"run": "pwd; exec env"}));
    job.env.insert("GITHUB_TOKEN".into(), "x y".into());
    let text = run(&job).await.text;
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.remove(0), daemon.folder.path().to_str().unwrap());
    // A shell adds these by itself.
    lines.retain(|line| {
        !["PWD=", "SHLVL=", "_=", "OLDPWD="].iter().any(|own| line.starts_with(own))
    });
    lines.sort_unstable();
    let attempt = format!("AGENT_WORKER_ATTEMPT={}", job.attempt);
    let activation = "AGENT_WORKER_ACTIVATION=coder/7";
    assert_eq!(lines, [activation, &attempt, "GITHUB_TOKEN=x y", "PATH=/usr/bin:/bin"]);
}

#[tokio::test]
async fn what_is_said_wins_over_what_a_command_wrote() {
    let daemon = Daemon::willing();
    assert_eq!(run(&job(&daemon, json!({"run": "echo a", "say": "b"}))).await.text, "b");
}
