//! Tests of files in messages: the paths that an agent gets, and limits.

use agent_worker_kernel::Principal;
use agent_worker_protocol::{
    Base64Bytes, Code, JobAttachment, WorkerJob,
    api::{AttachmentRequest, ResourceEncoding, SendRequest},
};
use tokio::sync::mpsc;

use crate::{
    scripted_worker::ScriptEnd,
    world::{KernelWorld, code, instance_selector, send_request, team, within},
};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\xff";

fn request(message: &str, files: &[(&str, &[u8])]) -> SendRequest {
    let file = |(name, content): &(&str, &[u8])| AttachmentRequest {
        name: name.parse().unwrap(),
        content: Base64Bytes(content.to_vec()),
    };
    SendRequest {
        attachments: files.iter().map(file).collect(),
        ..send_request(Some("@team"), message)
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_gets_the_files_of_its_messages_in_each_attempt() {
    let world = KernelWorld::on_disk().await;
    let (jobs, mut seen) = mpsc::unbounded_channel();
    world.machine.set_worker_script("coder", move |worker| {
        jobs.send((*worker.job).clone()).unwrap();
        async move { if worker.nth == 1 { ScriptEnd::Crashes } else { ScriptEnd::quiet() } }
    });
    world.start(&team("coder", "")).await;
    let files = [("shot 1.png", PNG), ("log.txt", b"hello".as_slice())];
    let sent = world.kernel.messages().send(&Principal::User, None, request("@coder look", &files));
    sent.await.unwrap();
    let jobs = [within(seen.recv()).await.unwrap(), within(seen.recv()).await.unwrap()];
    for job in &jobs {
        let [image, log] = job.attachments.as_slice() else { panic!("{:?}", job.attachments) };
        let folder = job.folder.join("attachments");
        assert_eq!(image.path, folder.join("1-1-shot_1.png"));
        assert_eq!(log.path, folder.join("1-2-log.txt"));
        let line = format!(
            "</message-{}>\nFile attached to message 1: {} (image/png, 10 B)\n",
            &job.attempt.to_string()[28..],
            image.path.display()
        );
        assert!(job.prompt.contains(&line), "{line} is not in {}", job.prompt);
    }
    assert!(jobs[0].folder != jobs[1].folder);
    let files = |job: &WorkerJob| -> Vec<_> {
        job.attachments.iter().map(|JobAttachment { attachment, .. }| attachment.clone()).collect()
    };
    assert_eq!(files(&jobs[0]), files(&jobs[1]));
    let (image, here) = (files(&jobs[0]).remove(0), instance_selector("@team"));
    let read = world.kernel.resources().read(&Principal::User, &here, image.resource, Some(2..6));
    let read = read.await.unwrap();
    assert_eq!((read.encoding, read.end), (Some(ResourceEncoding::Base64), 6));
    assert_eq!(read.content_bytes().unwrap(), PNG[2..6]);
}

#[tokio::test(start_paused = true)]
async fn a_message_with_too_many_files_or_a_too_large_one_is_not_sent() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "")).await;
    let send = |request| world.kernel.messages().send(&Principal::User, None, request);
    let many = vec![("a", b"".as_slice()); 21];
    assert_eq!(code(send(request("@coder look", &many)).await), Some(Code::BadRequest));
    let large = vec![0; 10 * 1024 * 1024 + 1];
    let large = [("a", large.as_slice())];
    assert_eq!(code(send(request("@coder look", &large)).await), Some(Code::TooLarge));
    assert_eq!(world.channel().await, []);
}
