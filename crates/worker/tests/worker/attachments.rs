//! Files of messages: fetched before the turn, private, and complete.

use agent_worker_protocol::{
    Attachment, Base64Bytes, Code, FailureClass, JobAttachment, ResourceId, WorkerJob,
    WorkerOutcome,
};
use serde_json::{Value, json};

use crate::{
    process::run_worker,
    programs::{executable_job, failure_of},
    stub_daemon::{READ_RESOURCE, ReceivedRequest, ScriptedReply, StubDaemon},
};

/// Returns a job with one file, whose program prints the mode and the content of the file.
fn job_with_file(daemon: &StubDaemon, size: u64) -> WorkerJob {
    let mut job = executable_job(
        daemon,
        r#"path=$(grep -o '"path":"[^"]*"' | cut -d'"' -f4); echo "$(stat -c '%a %n' "$path") $(cat "$path")""#,
    );
    let path = job.folder.join("attachments/7-1-note.txt");
    let attachment = Attachment {
        name: "note.txt".parse().unwrap(),
        media_type: "application/octet-stream".into(),
        size,
        resource: ResourceId::new([7; 32]),
    };
    job.attachments = vec![JobAttachment { attachment, path }];
    job
}

fn part(start: u64, content: &str, total: u64) -> Value {
    let end = start + content.len() as u64;
    let content = String::from(Base64Bytes(content.into()));
    json!({
        "id": ResourceId::new([7; 32]), "type": "application/octet-stream", "total": total, "start": start,
        "end": end, "encoding": "base64", "content": content,
    })
}

#[tokio::test]
async fn a_file_is_fetched_in_parts_before_the_turn_also_from_a_daemon_that_was_away() {
    let mut refusals = 1;
    let daemon = StubDaemon::new(move |request| match request {
        ReceivedRequest::Call { tool, head, .. } if tool == READ_RESOURCE => {
            let id = ResourceId::new([7; 32]);
            let starts = |from| head.starts_with(&format!("GET /resources/{id}?range={from}.. "));
            match (starts(0), refusals) {
                (true, 1) => {
                    refusals = 0;
                    ScriptedReply::Refuse(Code::Unavailable)
                }
                (true, _) => ScriptedReply::Result(part(0, "hel", 5)),
                (false, _) if starts(3) => ScriptedReply::Result(part(3, "lo", 5)),
                (false, _) => ScriptedReply::Refuse(Code::BadRequest),
            }
        }
        _ => ScriptedReply::Accept,
    });
    let job = job_with_file(&daemon, 5);
    let finished = run_worker(&job).await;
    let expected = format!("600 {} hello", job.attachments[0].path.display());
    assert_eq!((finished.text, finished.outcome), (expected, WorkerOutcome::Ok));
}

#[tokio::test]
async fn a_file_that_the_daemon_does_not_have_fails_the_turn() {
    for (reply, why) in [
        (
            ScriptedReply::Refuse(Code::NotFound),
            "could not fetch an attached file: scripted".to_owned(),
        ),
        (
            ScriptedReply::Result(part(0, "", 5)),
            "the daemon returned an invalid part of note.txt".to_owned(),
        ),
    ] {
        let daemon = StubDaemon::new(move |request| match request {
            ReceivedRequest::Call { tool, .. } if tool == READ_RESOURCE => reply.clone(),
            _ => ScriptedReply::Accept,
        });
        let finished = run_worker(&job_with_file(&daemon, 5)).await;
        assert_eq!(failure_of(finished.outcome), (FailureClass::Fatal, why));
    }
}
