//! Options of the vendors' programs: further arguments, and models to use instead of an overloaded one.

use agent_worker_protocol::{Backend, FailureClass, WorkerEvent};

use crate::{
    process::{WorkerProcess, run_worker},
    programs::{LIST_TOOLS_SCRIPT, failure_of, has_posted_event, native_job},
    stub_daemon::StubDaemon,
};

#[tokio::test]
async fn a_vendors_program_gets_the_further_arguments_of_the_file() {
    let daemon = StubDaemon::accepting();
    let text = r#"echo "args: $*" >&2
        echo '{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s","num_turns":1}'"#;
    let mut job = native_job(&daemon, "claude", &format!("{LIST_TOOLS_SCRIPT}{text}"));
    let Backend::Native(native) = &mut job.backend else { panic!("{:?}", job.backend) };
    native.args = ["--add-dir", "/srv/more data"].map(str::to_owned).to_vec();
    let mut worker = WorkerProcess::start(&job).await;
    assert_eq!(worker.wait_finished().await.text, "Done.");
    let log = worker.log();
    assert!(log.contains("args: --add-dir /srv/more data -p "), "{log}");
}

#[tokio::test]
async fn an_overloaded_model_is_replaced_by_the_next_one_unless_the_turn_has_called_a_tool() {
    let script = |call: &str| {
        format!(
            r#"{LIST_TOOLS_SCRIPT}
            case "$*" in
            *"--model second"*) echo '{{"type":"result","subtype":"success","is_error":false,"result":"By the second.","session_id":"s","num_turns":1}}' ;;
            *) {call}
               echo '{{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"overloaded","session_id":"s","num_turns":1}}'
               exit 1 ;;
            esac"#
        )
    };
    let with_fallback = |daemon: &StubDaemon, call: &str| {
        let mut job = native_job(daemon, "claude", &script(call));
        job.model = Some("first".to_owned());
        job.fallback = vec!["second".to_owned(), "third".to_owned()];
        job
    };
    let daemon = StubDaemon::accepting();
    assert_eq!(run_worker(&with_fallback(&daemon, "")).await.text, "By the second.");
    let why = "first failed (overloaded); using second".to_owned();
    assert!(has_posted_event(&daemon, |event| *event == WorkerEvent::Retry { why: why.clone() }));
    let called = r#"echo '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}'"#;
    let daemon = StubDaemon::accepting();
    let (class, _) = failure_of(run_worker(&with_fallback(&daemon, called)).await.outcome);
    assert_eq!(class, FailureClass::Transient);
}
