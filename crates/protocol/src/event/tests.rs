//! The wire format of events: every kind as the version before wrote it, and what other versions write.

use serde_json::json;

use super::*;
use crate::{
    api::{RunError, RunErrorCode},
    approval::Consent,
    id::{ApprovalId, GrantId, ProposalId, QuestionId, Revision, Seq},
    message::{Message, MessageKind, Priority, Sender, Usage},
    notify::{NotifyChannel, NotifyOccasion},
    proposal::{ProposalState, VoteOutcome},
    state::{AttemptEnd, FailureClass, LimitKind, Outcome, PauseCause, RunMode, VerdictOutcome},
    task::{TaskPath, TaskState},
};

/// A kind, its recorded data as text (empty: none), and its body.
type Recorded = (&'static str, &'static str, EventBody);

fn seq(number: i64) -> Seq {
    Seq::new(number)
}

fn runs() -> Vec<Recorded> {
    let limit = PauseCause::limit(LimitKind::Turns, "1 allowed".to_owned());
    let error = RunError { code: RunErrorCode::SetupFailed, message: "make failed".into() };
    let ended = |outcome, error| EventBody::RunEnded(RunEndedData { outcome, error });
    let ran = |name: Option<&str>, status| {
        let name = name.map(str::to_owned);
        EventBody::SetupRan(SetupRanData { line: 3, name, status, bytes: 6, ms: 9 })
    };
    vec![
        (
            "run.setup",
            r#"{"mode":"run","state":"setup"}"#,
            EventBody::RunSetup(RunSetupData { mode: RunMode::Run }),
        ),
        ("run.electing", r#"{"state":"electing"}"#, EventBody::RunElecting(RunElectingData {})),
        ("run.running", r#"{"state":"running"}"#, EventBody::RunRunning(RunRunningData {})),
        (
            "run.paused",
            r#"{"cause":{"cause":"limit","detail":"1 allowed","limit":"turns"},"state":"paused"}"#,
            EventBody::RunPaused(RunPausedData { cause: limit }),
        ),
        (
            "run.paused",
            r#"{"cause":{"cause":"user"},"state":"paused"}"#,
            EventBody::RunPaused(RunPausedData { cause: PauseCause::User }),
        ),
        ("run.ended", r#"{"outcome":"done","state":"ended"}"#, ended(Outcome::Done, None)),
        (
            "run.verdict",
            r#"{"outcome":"failed","summary":"two tests fail"}"#,
            EventBody::RunVerdict(RunVerdictData {
                outcome: VerdictOutcome::Failed,
                summary: "two tests fail".into(),
            }),
        ),
        (
            "run.ended",
            r#"{"error":{"code":"setup_failed","message":"make failed"},"outcome":"failed","state":"ended"}"#,
            ended(Outcome::Failed, Some(error)),
        ),
        (
            "setup.ran",
            r#"{"as":"who","bytes":6,"line":3,"ms":9,"status":0}"#,
            ran(Some("who"), Some(0)),
        ),
        ("setup.ran", r#"{"as":null,"bytes":6,"line":3,"ms":9,"status":null}"#, ran(None, None)),
        (
            "clock.jumped",
            r#"{"by_ms":-5000}"#,
            EventBody::ClockJumped(ClockJumpedData { by_ms: -5_000 }),
        ),
        (
            "notification.failed",
            r#"{"channel":"webhook","occasion":"question","why":"status 500"}"#,
            EventBody::NotificationFailed(NotificationFailedData {
                occasion: NotifyOccasion::Question,
                channel: NotifyChannel::Webhook,
                why: "status 500".into(),
            }),
        ),
    ]
}

fn attempts() -> Vec<Recorded> {
    let ended = |end, deliveries| EventBody::AttemptEnded(AttemptEndedData { end, deliveries });
    let deliveries =
        |acted, pending, answer| Some(AttemptDeliveries { acted, pending, dead: vec![], answer });
    let failed = AttemptEnd::Failed { class: FailureClass::Crash, why: "gone".into() };
    let cut = AttemptEnd::Interrupted { why: "cut".into() };
    vec![
        (
            "attempt.starting",
            r#"{"number":1,"seqs":[1,2]}"#,
            EventBody::AttemptStarting(AttemptStartingData {
                seqs: vec![seq(1), seq(2)],
                number: 1,
            }),
        ),
        (
            "attempt.running",
            r#"{"pid":7}"#,
            EventBody::AttemptRunning(AttemptRunningData { pid: 7, sandbox: None }),
        ),
        (
            "attempt.ended",
            r#"{"acted":[1],"answer":2,"dead":[],"end":"ok","pending":[]}"#,
            ended(AttemptEnd::Ok, deliveries(vec![seq(1)], vec![], Some(seq(2)))),
        ),
        (
            "attempt.ended",
            r#"{"acted":[],"class":"crash","dead":[],"end":"failed","pending":[1],"why":"gone"}"#,
            ended(failed, deliveries(vec![], vec![seq(1)], None)),
        ),
        (
            "attempt.ended",
            r#"{"acted":[],"dead":[],"end":"interrupted","pending":[1],"why":"cut"}"#,
            ended(cut, deliveries(vec![], vec![seq(1)], None)),
        ),
        ("attempt.ended", r#"{"end":"stopped"}"#, ended(AttemptEnd::Stopped, None)),
        (
            "delivery.joined",
            r#"{"seq":1}"#,
            EventBody::DeliveryJoined(DeliveryData { seq: seq(1) }),
        ),
        ("delivery.dead", r#"{"seq":1}"#, EventBody::DeliveryDead(DeliveryData { seq: seq(1) })),
        (
            "delivery.dropped",
            r#"{"seq":1}"#,
            EventBody::DeliveryDropped(DeliveryData { seq: seq(1) }),
        ),
        (
            "delivery.pending",
            r#"{"seq":1}"#,
            EventBody::DeliveryPending(DeliveryData { seq: seq(1) }),
        ),
        (
            "mention.unheard",
            r#"{"agent":"reviewer","seq":1}"#,
            EventBody::MentionUnheard(MentionUnheardData {
                seq: seq(1),
                agent: "reviewer".parse().unwrap(),
            }),
        ),
    ]
}

fn worker_reports() -> Vec<Recorded> {
    let call = ToolCallData {
        id: "c1".into(),
        tool: "document_read".into(),
        args: json!({"file": "x", "all": [1, null]}),
    };
    let result =
        ToolResultData { id: "c1".into(), tool: "shell".into(), ok: false, summary: "no".into() };
    let usage = |cost_micros| Usage {
        input_tokens: 9,
        output_tokens: 4,
        cost_micros,
        cost_reckoned: cost_micros.is_some(),
    };
    vec![
        (
            "tool_call",
            r#"{"args":{"all":[1,null],"file":"x"},"id":"c1","tool":"document_read"}"#,
            EventBody::ToolCall(call),
        ),
        (
            "tool_result",
            r#"{"id":"c1","ok":false,"summary":"no","tool":"shell"}"#,
            EventBody::ToolResult(result),
        ),
        ("usage", r#"{"input_tokens":9,"output_tokens":4}"#, EventBody::Usage(usage(None))),
        (
            "usage",
            r#"{"cost_micros":12,"cost_reckoned":true,"input_tokens":9,"output_tokens":4}"#,
            EventBody::Usage(usage(Some(12))),
        ),
        ("retry", r#"{"why":"busy"}"#, EventBody::Retry(RetryData { why: "busy".into() })),
        ("note", r#"{"text":"shorter"}"#, EventBody::Note(NoteData { text: "shorter".into() })),
        ("text", r#"{"text":"zwölf"}"#, EventBody::Text(TextData { text: "zwölf".into() })),
        ("heartbeat", "", EventBody::Heartbeat),
        ("row.damaged", "", EventBody::RowDamaged),
        ("agent.added", "", EventBody::AgentAdded),
        ("agent.stopped", "", EventBody::AgentStopped),
        ("agent.resumed", "", EventBody::AgentResumed),
        ("agent.mock_changed", "", EventBody::AgentMockChanged),
        ("agent.removed", "", EventBody::AgentRemoved),
    ]
}

fn documents() -> Vec<Recorded> {
    let path = || "notes.md".parse().unwrap();
    let written = |removed| {
        let revision = Revision::new(1);
        EventBody::DocumentWritten(DocumentWrittenData { path: path(), revision, removed })
    };
    let conflict =
        |revisions| EventBody::DocumentConflict(DocumentConflictData { path: path(), revisions });
    let revisions = ConflictRevisions { revision: Revision::new(2), stays: Revision::new(3) };
    let answered = |revision| SuggestionAnsweredData { suggestion: seq(1), path: path(), revision };
    vec![
        ("document.written", r#"{"path":"notes.md","revision":1}"#, written(None)),
        ("document.written", r#"{"path":"notes.md","removed":0,"revision":1}"#, written(Some(0))),
        (
            "document.conflict",
            r#"{"path":"notes.md","revision":2,"stays":3}"#,
            conflict(Some(revisions)),
        ),
        ("document.conflict", r#"{"path":"notes.md"}"#, conflict(None)),
        (
            "suggestion.open",
            r#"{"path":"notes.md","suggestion":1}"#,
            EventBody::SuggestionOpen(SuggestionOpenData { suggestion: seq(1), path: path() }),
        ),
        (
            "suggestion.accepted",
            r#"{"path":"notes.md","revision":4,"suggestion":1}"#,
            EventBody::SuggestionAccepted(answered(Some(Revision::new(4)))),
        ),
        (
            "suggestion.rejected",
            r#"{"path":"notes.md","revision":null,"suggestion":1}"#,
            EventBody::SuggestionRejected(answered(None)),
        ),
    ]
}

fn proposals() -> Vec<Recorded> {
    let proposal = ProposalId::new(1);
    let ended = |state| ProposalEndedData { proposal, state };
    let won = VoteOutcome::Winner { winner: "b".into() };
    let effect = Some("b is coordinator".to_owned());
    let resolved = |verdict, effect| {
        EventBody::ProposalResolved(ended(ProposalState::Resolved { verdict, effect }))
    };
    let expired = ProposalState::Expired { fallback: Some("wait".into()), effect: None };
    let cancelled = ProposalState::Cancelled { by: Sender::User, why: Some("no need".into()) };
    vec![
        (
            "proposal.active",
            r#"{"proposal":1}"#,
            EventBody::ProposalActive(ProposalActiveData { proposal }),
        ),
        (
            "ballot.cast",
            r#"{"choice":"b","proposal":1}"#,
            EventBody::BallotCast(BallotCastData { proposal, choice: "b".into() }),
        ),
        (
            "proposal.resolved",
            r#"{"effect":"b is coordinator","proposal":1,"result":"winner","state":"resolved","winner":"b"}"#,
            resolved(won, effect),
        ),
        (
            "proposal.resolved",
            r#"{"proposal":1,"result":"no_decision","state":"resolved"}"#,
            resolved(VoteOutcome::NoDecision, None),
        ),
        (
            "proposal.expired",
            r#"{"fallback":"wait","proposal":1,"state":"expired"}"#,
            EventBody::ProposalExpired(ended(expired)),
        ),
        (
            "proposal.cancelled",
            r#"{"by":"user","proposal":1,"state":"cancelled","why":"no need"}"#,
            EventBody::ProposalCancelled(ended(cancelled)),
        ),
    ]
}

fn requests() -> Vec<Recorded> {
    let question = QuestionData { question: QuestionId::new(3) };
    let open = ApprovalOpenData {
        approval: ApprovalId::new(2),
        tool: "Bash".into(),
        args: r#"{"command":"ls"}"#.into(),
    };
    let answered = |answer, reason: Option<&str>| {
        EventBody::ApprovalAnswered(ApprovalAnsweredData {
            approval: ApprovalId::new(2),
            tool: "Bash".into(),
            answer,
            reason: reason.map(str::to_owned),
            grant: None,
        })
    };
    vec![
        ("question.open", r#"{"question":3}"#, EventBody::QuestionOpen(question.clone())),
        ("question.answered", r#"{"question":3}"#, EventBody::QuestionAnswered(question)),
        (
            "approval.open",
            r#"{"approval":2,"args":"{\"command\":\"ls\"}","tool":"Bash"}"#,
            EventBody::ApprovalOpen(open),
        ),
        (
            "approval.answered",
            r#"{"answer":"approved","approval":2,"reason":null,"tool":"Bash"}"#,
            answered(Consent::Approved, None),
        ),
        (
            "approval.answered",
            r#"{"answer":"denied","approval":2,"reason":"so","tool":"Bash"}"#,
            answered(Consent::Denied, Some("so")),
        ),
    ]
}

fn tasks() -> Vec<Recorded> {
    let task = TaskPath::new("reviews/2");
    vec![
        (
            "task.started",
            r#"{"attempt":2,"item":3,"message":7,"task":"reviews/2"}"#,
            EventBody::TaskStarted(TaskStartedData {
                task: task.clone(),
                item: Some(3),
                attempt: 2,
                message: Some(seq(7)),
            }),
        ),
        (
            "task.ended",
            r#"{"error":"so","exit_code":1,"item":null,"ms":9,"state":"failed","task":"reviews/2"}"#,
            EventBody::TaskEnded(TaskEndedData {
                task,
                item: None,
                state: TaskState::Failed,
                exit_code: Some(1),
                error: Some("so".into()),
                ms: Some(9),
            }),
        ),
    ]
}

fn grants() -> Vec<Recorded> {
    let (grant, approval) = (GrantId::new(1), ApprovalId::new(2));
    let granted = PermissionGrantData { grant, pattern: "Bash(git push*)".parse().unwrap() };
    let covered = ApprovalAnsweredData {
        approval,
        tool: "Bash".into(),
        answer: Consent::Approved,
        reason: None,
        grant: Some(grant),
    };
    let used = PermissionUsedData { grant, approval, tool: "Bash".into(), args: "{}".into() };
    vec![
        (
            "permission.granted",
            r#"{"grant":1,"pattern":"Bash(git push*)"}"#,
            EventBody::PermissionGranted(granted.clone()),
        ),
        (
            "permission.revoked",
            r#"{"grant":1,"pattern":"Bash(git push*)"}"#,
            EventBody::PermissionRevoked(granted),
        ),
        (
            "permission.used",
            r#"{"approval":2,"args":"{}","grant":1,"tool":"Bash"}"#,
            EventBody::PermissionUsed(used),
        ),
        (
            "approval.answered",
            r#"{"answer":"approved","approval":2,"grant":1,"reason":null,"tool":"Bash"}"#,
            EventBody::ApprovalAnswered(covered),
        ),
    ]
}

fn messages() -> Vec<Recorded> {
    let message = Message {
        seq: seq(3),
        run: "019b76da-a800-7473-9abb-fd53c426b90f".parse().unwrap(),
        ts: Millis::new(1_767_225_600_000),
        from: Sender::User,
        kind: MessageKind::Message,
        body: "blue".into(),
        reply_to: Some(seq(2)),
        hops: 0,
        priority: Priority::Normal,
        to: vec!["coder".parse().unwrap()],
        cc: Vec::new(),
        acts_on: Vec::new(),
        resource: None,
        attachments: Vec::new(),
    };
    vec![
        (
            "message",
            concat!(
                r#"{"body":"blue","from":"user","hops":0,"kind":"message","reply_to":2,"#,
                r#""run":"019b76da-a800-7473-9abb-fd53c426b90f","seq":3,"to":["coder"],"#,
                r#""ts":"2026-01-01T00:00:00.000Z"}"#
            ),
            EventBody::Message(Box::new(message)),
        ),
        (
            "channel.cleared",
            r#"{"seq":9}"#,
            EventBody::ChannelCleared(ChannelClearedData { seq: seq(9) }),
        ),
    ]
}

/// An event with as few fields as possible.
fn line(kind: &str, data: &str) -> String {
    let data = if data.is_empty() { String::new() } else { format!(r#","data":{data}"#) };
    format!(r#"{{"ts":"2026-01-01T00:00:00.000Z","instance":"review:pr-1","kind":"{kind}"{data}}}"#)
}

fn event(body: EventBody) -> Event {
    Event::new(Millis::new(1_767_225_600_000), "review:pr-1".parse().unwrap(), body)
}

#[test]
fn every_kind_is_written_and_read_as_by_the_version_before() {
    let tables = [
        runs(),
        attempts(),
        worker_reports(),
        documents(),
        proposals(),
        requests(),
        grants(),
        tasks(),
        messages(),
    ];
    let recorded: Vec<_> = tables.into_iter().flatten().collect();
    for (kind, data, body) in &recorded {
        let (line, event) = (line(kind, data), event(body.clone()));
        assert_eq!(serde_json::to_string(&event).unwrap(), line);
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    }
    for kind in EventKind::ALL {
        assert!(recorded.iter().any(|(word, ..)| *word == kind.word()), "{kind} is not recorded");
        assert_eq!(EventKind::from_word(kind.word()), Some(*kind));
    }
}

#[test]
fn the_fields_of_an_event_keep_their_order() {
    let recorded = concat!(
        r#"{"pos":8,"ts":"2026-01-01T00:00:00.000Z","instance":"team","#,
        r#""run":"019b76da-a800-7473-9abb-fd53c426b90f","kind":"attempt.ended","agent":"coder","#,
        r#""attempt":"019b76da-a800-7709-a1ad-9e11ba671a56","cause":"failed (crash): gone","by":"user","#,
        r#""next":"2026-01-01T00:00:01.000Z","data":{"end":"stopped"}}"#
    );
    let event: Event = serde_json::from_str(recorded).unwrap();
    assert_eq!(serde_json::to_string(&event).unwrap(), recorded);
}

#[test]
fn an_unknown_kind_and_data_that_does_not_fit_are_passed_on_unchanged() {
    for (kind, data) in [
        ("agent.dreamt", r#"{"of":["sheep",{"legs":4}],"when":1.5}"#),
        ("agent.dreamt", ""),
        ("message", ""),
        ("message", r#"{"body":"no number"}"#),
        ("run.paused", r#"{"cause":{"cause":"budget"},"state":"paused"}"#),
        ("attempt.ended", r#"{"acted":[1],"class":"overheated","end":"failed","why":"hot"}"#),
        ("document.written", r#"{"path":"../x","revision":1}"#),
        ("text", r#""zwölf""#),
    ] {
        let line = line(kind, data);
        let read: Event = serde_json::from_str(&line).unwrap();
        let EventBody::Other { kind: word, .. } = &read.body else { panic!("{read:?}") };
        assert_eq!((word.as_str(), read.kind()), (kind, EventKind::from_word(kind)));
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
    }
}

#[test]
fn a_field_of_a_newer_version_is_passed_on_and_the_others_are_typed() {
    let retry = EventBody::Retry(RetryData { why: "busy".into() });
    let paused = EventBody::RunPaused(RunPausedData { cause: PauseCause::User });
    for (kind, data, body) in [
        ("retry", r#"{"wait_ms":12,"why":"busy"}"#, retry),
        ("run.paused", r#"{"cause":{"cause":"user","name":"ann"},"state":"paused"}"#, paused),
        ("agent.added", r#"{"backend":"mock"}"#, EventBody::AgentAdded),
    ] {
        let line = line(kind, data);
        let read: Event = serde_json::from_str(&line).unwrap();
        assert_eq!(read.body, body);
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
    }
}
