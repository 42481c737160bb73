//! Reads 50 messages, or a document of 1 MiB, a number of times and writes them as JSON, as the daemon does; or appends
//! messages under idempotency keys.
//!
//! `scripts/read-cost` counts the instructions of this program to find the share of the checksums.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a measurement")]

use std::sync::Arc;

use agent_worker_protocol::{
    DocumentPath, EffectKey, Limits, MessageKind, Millis, Priority, RunId, RunMode, Seq,
    WorkflowId, hash,
};
use agent_worker_store::{
    Database, DocumentBase, DocumentWrite, MessageOrder, MessageQuery, NewAgent, NewMessage,
    NewRun, Now, Recipient, Retention, Store, StoreTime, Wake, WriteActor, WriteContext,
};

const NOW: Now = Now { store: StoreTime::new(1), wall: Millis::new(1) };
const MESSAGES: u32 = 50;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap();
    let times: u32 = args.next().unwrap().parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Database::open(folder.path()).unwrap());
    let workflow = fill(&store).await;
    let mut bytes = 0;
    for _ in 0..times {
        bytes += match what.as_str() {
            "messages" => messages(&store, workflow).await,
            "document" => document(&store, workflow).await,
            "sends" => send(&store, workflow).await,
            other => panic!("`{other}` is none of messages, document and sends"),
        };
    }
    println!("{bytes} bytes");
}

/// Appends one message under an idempotency key.
async fn send(store: &Arc<dyn Store>, workflow: WorkflowId) -> usize {
    let key = uuid::Uuid::now_v7().to_string();
    let key =
        EffectKey { key, tool: "send".into(), args: hash(&[b"args"]), summary: String::new() };
    let by = WriteContext { actor: WriteActor::User, key: Some(key) };
    store.message_append(by, workflow, message(7), None, NOW).await.unwrap();
    1
}

async fn messages(store: &Arc<dyn Store>, workflow: WorkflowId) -> usize {
    let query = MessageQuery {
        run: None,
        after: Seq::new(0),
        before: None,
        search: None,
        to: None,
        order: MessageOrder::NewestFirst,
        limit: MESSAGES,
    };
    serde_json::to_vec(&store.message_list(workflow, query).await.unwrap()).unwrap().len()
}

async fn document(store: &Arc<dyn Store>, workflow: WorkflowId) -> usize {
    let newest = None;
    let found = store.document_get(workflow, DocumentPath::default(), newest).await.unwrap();
    serde_json::to_vec(&found.unwrap().content).unwrap().len()
}

async fn fill(store: &Arc<dyn Store>) -> WorkflowId {
    let workflow = store.instance_open("/p".into(), "w".parse().unwrap()).await.unwrap();
    let run = NewRun {
        id: RunId::new(uuid::Uuid::from_u64_pair(1, 1)),
        mode: RunMode::Start,
        limits: Limits {
            hops: 50,
            turns: None,
            wall: None,
            wall_grace: Limits::WALL_GRACE,
            spend: agent_worker_protocol::SpendLimits::NONE,
        },
        script: "s".repeat(4_000),
        agents: vec![NewAgent { name: "a".parse().unwrap(), settings: "{}".into() }],
        roles: Vec::new(),
        retention: Retention::Always,
    };
    store.run_create(workflow, run, NOW).await.unwrap();
    for n in 0..MESSAGES {
        store
            .message_append(WriteContext::new(WriteActor::User), workflow, message(n), None, NOW)
            .await
            .unwrap();
    }
    let content = "a line of a document, as people write them\n".repeat((1 << 20) / 43);
    let (path, base, most) = (DocumentPath::default(), DocumentBase::Absent, usize::MAX);
    let write = DocumentWrite { workflow, path, content, base, max_bytes: most };
    store.document_put(WriteContext::new(WriteActor::User), write, NOW).await.unwrap();
    workflow
}

fn message(n: u32) -> NewMessage {
    NewMessage {
        kind: MessageKind::Message,
        body: format!("message {n}: {}", "some words of it ".repeat(12)),
        data: Vec::new(),
        reply_to: None,
        hops: 0,
        priority: Priority::Normal,
        resource: None,
        recipients: vec![Recipient { agent: "a".parse().unwrap(), wake: Wake::Batched }],
        attachments: Vec::new(),
    }
}
