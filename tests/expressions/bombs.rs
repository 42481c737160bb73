//! Expressions that never end, or that take all the memory.

use std::{
    fs, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use agent_worker_expressions::{
    EvaluationError, EvaluatorHost, ExpressionEvaluator, ExpressionValue,
};
use tokio::process::{Child, Command};

use crate::{evaluate, evaluator, program, text};

/// Time within which every expression is answered or killed.
const ANSWER_TIME: Duration = Duration::from_millis(300);
/// Memory that a child without values may take at most: the program's, the interpreter's 16 MiB, and the result.
const MAX_CHILD_KIB: u64 = 100 * 1024;

const LOOPS: [&str; 10] = [
    "(() => { while (true); })()",
    "(() => { for (;;) { try { while (true); } catch {} } })()",
    "(() => { while (true) try { (() => { while (true); })() } finally { continue } })()",
    "[1].flatMap(function f(x) { return [1, 2].flatMap(f) })",
    "'x'.repeat(3e5).indexOf('x'.repeat(1.5e5) + 'y')",
    "/^(a+)+$/.test('a'.repeat(40) + '!')",
    "/(?:a|a)*b/.test('a'.repeat(5e4))",
    "/(.*)*x/.test('a'.repeat(1e5))",
    "'a'.repeat(1e6).replace(/a/g, () => 'b'.repeat(100)).length > 0 && (() => { for (;;); })()",
    "[...(function* () { for (;;) yield 1 })()]",
];

const NATIVE: [&str; 6] = [
    "Array.from({length: 1e9}).join()",
    "'x'.repeat(1e6).split('').sort(() => 1).reverse().sort(() => -1).length < 0 || 'x'.repeat(3e5).lastIndexOf('x'.repeat(1.5e5) + 'y')",
    "(7n ** 7n ** 7n).toString()",
    "(1n << 20000000n) * (1n << 20000000n) % 3n == 0n",
    "new Array(5e7).fill(1).map(x => x).length",
    "JSON.stringify('\"'.repeat(1e6)).split('').map(JSON.stringify).join('').length < 0 || (() => { while (1); })()",
];

const MEMORY: [&str; 10] = [
    "'x'.repeat(2 ** 29)",
    "(() => { let x = 'x'; for (;;) x += x; })()",
    "(() => { const x = []; for (;;) x.push(x.slice()); })()",
    "(() => { const x = []; for (;;) x.push(new Array(1e5).fill('a')); })()",
    "new Array(1e9).fill('a')",
    "(() => { const x = {}; for (let i = 0;; i++) x['k' + i] = i; })()",
    "(() => { const x = new Map(); for (let i = 0;; i++) x.set(i, [i]); })()",
    "(() => { const x = []; for (;;) try { x.push('y'.repeat(1e6) + x.length) } catch {} })()",
    "'x'.repeat(1e7).split('')",
    "'a,'.repeat(3e6).replace(/,/g, ',,,,,,,,,,').length",
];

const RECURSION: [&str; 5] = [
    "(function f() { return f() })()",
    "(function f() { try { f() } finally { f() } })()",
    "json('['.repeat(1e6))",
    "(() => { let x = []; for (let i = 0; i < 1e6; i++) x = [x]; return x })()",
    "RegExp('('.repeat(1e5) + ')'.repeat(1e5))",
];

/// Evaluates a bomb; the best of three times counts, because other processes use the machine too.
async fn time_of(
    evaluator: &mut ExpressionEvaluator,
    source: &str,
) -> (Duration, Option<EvaluationError>) {
    let mut best = (Duration::MAX, None);
    for _ in 0..3 {
        let start = Instant::now();
        let result = evaluate(evaluator, source, &[]).await;
        best = best.min_by_time((start.elapsed(), result.err()));
        if best.0 <= ANSWER_TIME {
            break;
        }
    }
    best
}

trait MinByTime {
    fn min_by_time(self, other: Self) -> Self;
}

impl<T> MinByTime for (Duration, T) {
    fn min_by_time(self, other: Self) -> Self {
        if other.0 < self.0 { other } else { self }
    }
}

/// Records the largest memory that a child ever had.
#[derive(Default)]
struct MeasuringHost {
    peak_kib: Arc<AtomicU64>,
}

impl EvaluatorHost for MeasuringHost {
    fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let child = command.spawn()?;
        let (process, peak) = (child.id().unwrap().to_string(), self.peak_kib.clone());
        thread::spawn(move || {
            while let Some(kib) = memory_kib(&process, "VmHWM") {
                peak.fetch_max(kib, Ordering::Relaxed);
                thread::park_timeout(Duration::from_millis(3));
            }
        });
        Ok(child)
    }

    fn release(&self, _pid: u32) {}
}

async fn defuse(bombs: &[&str]) {
    let host = Arc::new(MeasuringHost::default());
    let mut evaluator = ExpressionEvaluator::new(program(), host.clone());
    let before = own_memory_kib("VmRSS");
    for source in bombs {
        let (time, error) = time_of(&mut evaluator, source).await;
        assert!(time <= ANSWER_TIME, "{source}: {time:?}");
        let limited = matches!(
            error,
            Some(
                EvaluationError::TimedOut { .. }
                    | EvaluationError::OutOfMemory { .. }
                    | EvaluationError::StackOverflow
                    | EvaluationError::ResultTooLarge { .. }
                    | EvaluationError::Thrown { .. }
                    | EvaluationError::Crashed
            )
        );
        assert!(limited, "{source}: {error:?}");
        let peak = host.peak_kib.load(Ordering::Relaxed);
        assert!(peak > 0 && peak < MAX_CHILD_KIB, "{source}: {peak} KiB");
        let next = evaluate(&mut evaluator, "x + 1", &[("x", "a")]).await;
        assert_eq!(next, Ok(text("a1")), "after {source}");
    }
    let grown = own_memory_kib("VmRSS").saturating_sub(before);
    assert!(grown < 4 * 1024, "the parent grew by {grown} KiB");
}

fn own_memory_kib(field: &str) -> u64 {
    memory_kib("self", field).unwrap()
}

/// Returns a figure of a process; none if the process has ended.
fn memory_kib(process: &str, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

#[tokio::test]
async fn a_loop_is_answered_in_time_and_the_next_expression_is_right() {
    defuse(&LOOPS).await;
}

#[tokio::test]
async fn a_long_native_call_is_answered_in_time_and_the_next_expression_is_right() {
    defuse(&NATIVE).await;
}

#[tokio::test]
async fn a_memory_bomb_is_answered_in_time_and_the_next_expression_is_right() {
    defuse(&MEMORY).await;
}

#[tokio::test]
async fn a_recursion_is_answered_in_time_and_the_next_expression_is_right() {
    defuse(&RECURSION).await;
}

#[tokio::test]
async fn ten_megabytes_are_searched() {
    let mut evaluator = evaluator();
    let diff = "+ some line of a change\n".repeat(10 * 1024 * 1024 / 24) + "x";
    for (source, expected) in [
        ("diff.contains('x')", ExpressionValue::Boolean(true)),
        ("diff.contains('yy')", ExpressionValue::Boolean(false)),
        ("diff.length", ExpressionValue::Number(diff.len().to_string())),
        ("diff", text(diff.clone())),
    ] {
        let found = evaluate(&mut evaluator, source, &[("diff", &diff)]).await;
        assert!(found == Ok(expected), "{source}: {:?}", found.err());
    }
    let wide = "é😀".repeat(1024 * 1024);
    let found = evaluate(&mut evaluator, "diff.contains('😀é')", &[("diff", &wide)]).await;
    assert_eq!(found, Ok(ExpressionValue::Boolean(true)));
    let huge = "x".repeat(61 << 20);
    let found = evaluate(&mut evaluator, "diff.length", &[("diff", &huge)]).await;
    assert!(matches!(found, Err(EvaluationError::ValuesTooLarge { .. })), "{found:?}");
}
