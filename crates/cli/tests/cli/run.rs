//! Tests of `run` and `start`, from a file to an exit code.

use agent_worker_cli::Console;
use serde_json::json;

use crate::{
    fake_daemon::{AfterEvents, CapturedStream, ClosedOutput, FakeReply, TestHome},
    sample_responses::{
        FILE, GET_RUN, RUN, a_conversation, done, event, run_view, running, runs, started,
    },
};

#[test]
fn run_shows_messages_on_stdout_and_its_outcome_on_stderr() {
    let world = running(a_conversation(), &done());
    let seen = world.run_command(&["run", "review.yaml", "--target", "main"]);
    assert!(seen.exits(0), "{seen:?}");
    insta::assert_snapshot!(seen.out, @r"
    #2 user → coder: @coder look at main
    #3 coder
      looks
      good
    ");
    insta::assert_snapshot!(seen.err, @r"
    done in 9.0s · 1 turn · 2 messages
    hint: read the whole channel: agent-worker peek @review
    ");
}

#[test]
fn run_sends_the_file_its_parameters_and_only_the_environment_it_needs() {
    let mut world = running(a_conversation(), &done());
    world.settings.env.insert("GITHUB_TOKEN".into(), "t0ken".into());
    world.run_command(&["run", "./review.yaml", "--tag", "pr-1", "--target", "main"]);
    let cwd = world.settings.cwd.to_str().unwrap();
    let expected = json!({
        "file": format!("{cwd}/review.yaml"), "cwd": cwd, "tag": "pr-1", "mode": "run",
        "params": {"target": "main"},
        "env": {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "GITHUB_TOKEN": "t0ken"},
    });
    assert_eq!(world.asked("POST /runs")[0].body, expected);
}

#[test]
fn run_with_json_answers_with_exactly_one_envelope() {
    let world = running(a_conversation(), &done());
    let seen = world.run_command(&["run", "review.yaml", "--target", "main", "--json"]);
    let unused = json!({"input_tokens": 0, "output_tokens": 0});
    let coder = json!({"turns": 2, "messages": 3, "usage": unused, "state": "idle"});
    let expected = json!({
        "outcome": "done", "workflow": "review", "tag": "main", "run": RUN, "duration_ms": 9000, "turns": 1,
        "messages": 2, "usage": unused, "dead_letters": [], "dropped": [], "unheard": [], "answers": {},
        "agents": {"coder": coder},
        "error": null,
    });
    assert_eq!(seen.json(), expected);
    assert!(seen.err.contains("#3 coder"), "{seen:?}");
}

#[test]
fn run_goes_on_where_it_was_when_the_connection_breaks() {
    let events = a_conversation();
    let world = TestHome::with_daemon(vec![
        ("POST /runs", started()),
        ("GET /events", FakeReply::Events(events[..2].to_vec(), AfterEvents::Break)),
        ("GET /events", FakeReply::Events(events[2..].to_vec(), AfterEvents::Close)),
        (GET_RUN, run_view(&done())),
    ]);
    world.file("review.yaml", FILE);
    let seen = world.run_command(&["run", "review.yaml", "--target", "main"]);
    assert!(seen.exits(0), "{seen:?}");
    assert_eq!(seen.out.matches('#').count(), 2, "{seen:?}");
    assert!(seen.err.contains("connected again"), "{seen:?}");
    let ids: Vec<_> =
        world.asked("GET /events").into_iter().map(|asked| asked.last_event_id).collect();
    assert_eq!(ids, [None, Some("2".to_owned())]);
}

#[test]
fn a_stream_that_ends_before_the_run_does_is_opened_again() {
    let events = a_conversation();
    let world = TestHome::with_daemon(vec![
        ("POST /runs", started()),
        ("GET /events", FakeReply::Events(events[..2].to_vec(), AfterEvents::Close)),
        ("GET /events", FakeReply::Events(events[2..].to_vec(), AfterEvents::Close)),
        (GET_RUN, run_view(&json!({"state": "running"}))),
        (GET_RUN, run_view(&done())),
    ]);
    world.file("review.yaml", FILE);
    let seen = world.run_command(&["run", "review.yaml", "--target", "main"]);
    assert!(seen.exits(0), "{seen:?}");
    assert_eq!(world.asked("GET /events").len(), 2);
}

#[test]
fn run_exits_3_at_a_limit_and_not_at_a_pause_that_is_over() {
    let cause = json!({"cause": "limit", "limit": "hops", "detail": "51 of 50"});
    let paused = json!({"state": "paused", "cause": cause, "ended": null});
    let pause = event(1, "run.paused", &paused);
    let world = running(vec![pause.clone()], &paused);
    let seen = world.run_command(&["run", "review.yaml", "--target", "main"]);
    assert!(seen.exits(3), "{seen:?}");
    assert!(seen.err.contains("paused: hop limit (51 of 50)"), "{seen:?}");

    let mut resumed = a_conversation();
    resumed.insert(0, pause);
    let world = TestHome::with_daemon(vec![
        ("POST /runs", started()),
        ("GET /events", FakeReply::Events(resumed, AfterEvents::Close)),
        (GET_RUN, run_view(&json!({"state": "running"}))),
        (GET_RUN, run_view(&done())),
    ]);
    world.file("review.yaml", FILE);
    let seen = world.run_command(&["run", "review.yaml", "--target", "main"]);
    assert!(seen.exits(0) && seen.out.contains("#3 coder"), "{seen:?}");
}

#[test]
fn run_detached_returns_at_once_and_says_how_to_come_back() {
    let world = TestHome::with_daemon(vec![("POST /runs", started())]);
    world.file("review.yaml", FILE);
    let seen = world.run_command(&["run", "review.yaml", "--target", "main", "--detach"]);
    assert!(seen.exits(0), "{seen:?}");
    insta::assert_snapshot!(seen.out + &seen.err, @r"
    @review runs in the background
    hint: follow it: agent-worker attach @review
    hint: stop it: agent-worker stop @review
    ");
}

#[test]
fn start_in_the_background_returns_when_the_agents_are_awake() {
    let world = TestHome::with_daemon(vec![
        ("POST /runs", started()),
        ("GET /events", FakeReply::Events(a_conversation()[..1].to_vec(), AfterEvents::Hang)),
    ]);
    world.file("review.yaml", FILE);
    let seen =
        world.run_command(&["start", "review.yaml", "--target", "main", "--background", "--json"]);
    assert!(seen.exits(0), "{seen:?}");
    assert_eq!(seen.json()["run"], RUN);
    assert_eq!(world.asked("POST /runs")[0].body["mode"], "start");
}

#[test]
fn attach_asks_for_what_came_after_the_last_thing_that_was_shown() {
    let rest = a_conversation()[1..].to_vec();
    let world = TestHome::with_daemon(vec![
        ("POST /runs", started()),
        ("GET /events", FakeReply::Events(a_conversation()[..1].to_vec(), AfterEvents::Hang)),
        ("GET /events", FakeReply::Events(rest, AfterEvents::Close)),
        ("GET /runs", runs(&json!({"state": "running"}))),
        (GET_RUN, run_view(&done())),
    ]);
    world.file("review.yaml", FILE);
    assert!(world.run_command(&["up", "review.yaml", "--target", "main"]).exits(0));
    let seen = world.run_command(&["attach", "@review"]);
    assert!(seen.exits(0), "{seen:?}");
    assert_eq!(seen.out, "#2 user → coder: @coder look at main\n#3 coder\n  looks\n  good\n");
    let asked = world.asked("GET /events");
    let after: Vec<_> = asked.iter().map(|asked| asked.last_event_id.as_deref()).collect();
    assert_eq!(after, [None, Some("1")]);
    // After its end the position is removed, and the next request is for all events.
    world.run_command(&["attach", "@review"]);
    assert_eq!(world.asked("GET /events")[2].last_event_id, None);
}

#[test]
fn a_bad_file_never_reaches_the_daemon() {
    let world = TestHome::without_daemon("exit 1");
    world.file("bad.yaml", "agents:\n  coder: { bakend: mock }\n");
    let seen = world.run_command(&["run", "bad.yaml"]);
    assert!(seen.exits(2), "{seen:?}");
    assert!(seen.err.contains("bakend") && seen.err.contains("bad.yaml:2"), "{}", seen.err);
    let json = world.run_command(&["run", "bad.yaml", "--target", "main", "--json"]);
    assert!(json.exits(2), "{json:?}");
    assert_eq!(json.json()["outcome"], "invalid");
    assert_eq!(json.json()["error"]["code"], "bad_file");
    assert!(!world.settings.home.exists());
}

#[test]
fn a_file_that_wakes_no_agent_never_reaches_the_daemon() {
    let world = TestHome::without_daemon("exit 1");
    world.file("silent.yaml", "agents: { coder: { backend: mock } }\nkickoff: '@codr go'\n");
    let seen = world.run_command(&["run", "silent.yaml"]);
    assert!(seen.exits(2), "{seen:?}");
    insta::assert_snapshot!(seen.err, @r"
    error: the kickoff mentions no agent, so none is woken; `@codr` is not an agent, did you mean `@coder`?
    hint: mention an agent in the kickoff's own text, such as `@coder`
    ");
    let json = world.run_command(&["run", "silent.yaml", "--json"]);
    assert!(json.exits(2), "{json:?}");
    assert_eq!(json.json()["outcome"], "invalid");
    assert_eq!(json.json()["error"]["code"], "nobody_woken");
    assert!(!world.settings.home.exists());
}

#[test]
fn a_file_that_wakes_no_agent_can_be_started() {
    let world = TestHome::with_daemon(vec![
        ("POST /runs", started()),
        ("GET /events", FakeReply::Events(a_conversation()[..1].to_vec(), AfterEvents::Hang)),
    ]);
    world.file("silent.yaml", "agents: { coder: { backend: mock } }\n");
    assert!(world.run_command(&["start", "silent.yaml", "--background"]).exits(0));
    assert_eq!(world.asked("POST /runs").len(), 1);
}

#[test]
fn help_behind_a_file_is_the_help_of_that_file() {
    let world = TestHome::without_daemon("exit 1");
    world.file("review.yaml", FILE);
    let first = world.run_command(&["run", "review.yaml", "--help"]);
    assert!(first.exits(0) && first.err.is_empty(), "{first:?}");
    assert!(first.out.contains("Usage: agent-worker run review.yaml"), "{first:?}");
    assert!(first.out.contains("--target <VALUE>  [required]"), "{first:?}");
    for words in [
        &["run", "review.yaml", "-h"][..],
        &["run", "--help", "review.yaml"],
        &["run", "review.yaml", "--target", "x", "--help"],
        &["run", "review.yaml", "--tarket", "x", "--help"],
        &["run", "--tag", "pr-1", "review.yaml", "--help", "--json"],
    ] {
        let seen = world.run_command(words);
        assert!(seen.exits(0), "{seen:?}");
        assert_eq!(seen.out, first.out, "{words:?}");
    }
    let start = world.run_command(&["start", "review.yaml", "--help"]);
    assert!(start.out.contains("Usage: agent-worker start review.yaml"), "{start:?}");
    let usual = world.run_command(&["run", "--help"]);
    assert!(usual.exits(0) && usual.out.contains("Exit codes"), "{usual:?}");
    let none = world.run_command(&["run", "nowhere.yaml", "--help"]);
    assert!(none.exits(2) && none.err.contains("nowhere.yaml"), "{none:?}");
    assert!(!world.settings.home.exists());
}

#[test]
fn a_refusal_of_the_daemon_is_shown_with_the_commands_to_type() {
    let details = json!({"reason": "already_running", "instance": "review"});
    let live = json!({
        "code": "conflict", "message": "review is already running", "hint": "`POST /runs/{id}/stop` ends it",
        "details": details,
    });
    let world = TestHome::with_daemon(vec![("POST /runs", FakeReply::Refusal(live))]);
    world.file("review.yaml", FILE);
    let seen = world.run_command(&["run", "review.yaml", "--target", "main"]);
    assert!(seen.exits(1), "{seen:?}");
    insta::assert_snapshot!(seen.err, @r"
    error: review is already running
    hint: end it with `agent-worker stop @review`, replace it with --replace, or start another instance with --tag NAME
    ");
    let json = world.run_command(&["run", "--json", "review.yaml", "--target", "main"]).json();
    assert_eq!((&json["outcome"], &json["error"]["code"]), (&json!("failed"), &json!("conflict")));
    assert_eq!(json["error"]["details"], details);
}

#[test]
fn a_reader_who_left_is_no_error_but_does_not_make_a_failed_run_green() {
    let gone =
        || Console::for_programs(Box::new(ClosedOutput), Box::new(CapturedStream::default()));
    let world = TestHome::with_daemon(vec![(
        "GET /agents",
        FakeReply::Json(json!({"items": [], "next": null})),
    )]);
    let code = world.run_with_console(&["ls", "--json"], &mut gone());
    assert_eq!(format!("{code:?}"), format!("{:?}", std::process::ExitCode::SUCCESS));

    let world = running(a_conversation(), &json!({"state": "ended", "outcome": "failed"}));
    let code = world.run_with_console(&["run", "review.yaml", "--target", "main"], &mut gone());
    assert_eq!(format!("{code:?}"), format!("{:?}", std::process::ExitCode::FAILURE));
}
