//! Everything that an expression can reach: the language, and nothing of the host.

use std::time::{Duration, Instant};

use agent_worker_expressions::{EvaluationError, ExpressionValue, is_reserved};

use crate::{evaluate, evaluator, text};

/// Walks from the global object, and from a value of each kind of syntax, through all members and prototypes.
const WALK: &str = r#"(() => {
  const seen = new Set(), paths = [];
  const queue = [["globalThis", globalThis], ["function", () => 1], ["generator", (function* () {})()],
    ["async", (async () => {})], ["regexp", /a/g], ["iterator", [][Symbol.iterator]()], ["match", "a".matchAll(/a/g)],
    ["arguments", (function () { return arguments })()], ["error", new Error("a")]];
  while (queue.length > 0) {
    const [path, value] = queue.shift();
    if (value === null || (typeof value !== "object" && typeof value !== "function") || seen.has(value)) continue;
    seen.add(value);
    paths.push(path);
    queue.push([path + ".<prototype>", Object.getPrototypeOf(value)]);
    for (const key of Reflect.ownKeys(value)) {
      const member = path + "." + String(key);
      const { get, set } = Object.getOwnPropertyDescriptor(value, key);
      if (get || set) { queue.push([member + ".<get>", get], [member + ".<set>", set]); }
      try { queue.push([member, value[key]]) } catch {}
    }
  }
  return paths;
})()"#;

async fn reachable() -> Vec<String> {
    let found = evaluate(&mut evaluator(), WALK, &[]).await.unwrap();
    let as_text = |item: ExpressionValue| item.into_text();
    found.items("walk").unwrap().into_iter().map(as_text).collect()
}

#[tokio::test]
async fn nothing_of_the_host_is_reachable() {
    let paths = reachable().await;
    assert!(paths.len() > 400, "{}", paths.len());
    for path in &paths {
        let members = path.to_ascii_lowercase();
        for host in [
            "std",
            "os",
            "bjson",
            "process",
            "require",
            "fetch",
            "console",
            "print",
            "loadscript",
            "read",
            "import",
            "navigator",
            "performance",
            "timeout",
            "worker",
            "deno",
            "bun",
            "atomics",
            "sharedarray",
            "date",
            "promise",
            "proxy",
            "weakref",
            "finalization",
            "eval",
            "microtask",
            "random",
        ] {
            let is_named = members.split('.').any(|member| member == host);
            assert!(!is_named, "{path}");
        }
    }
}

#[tokio::test]
async fn the_global_names_are_those_that_no_value_may_have() {
    let source = "Reflect.ownKeys(globalThis).filter(x => typeof x == 'string').sort()";
    let globals = evaluate(&mut evaluator(), source, &[]).await.unwrap();
    let names: Vec<String> =
        globals.items("x").unwrap().into_iter().map(ExpressionValue::into_text).collect();
    for name in &names {
        assert!(is_reserved(name), "{name} is global, so that a value must not have this name");
    }
    assert!(names.contains(&"JSON".to_owned()), "{names:?}");
}

/// Calls the function at each path in an interpreter of its own, and reads the members of what it gives.
const CALLS: [&str; 6] = [
    "value(A)",
    "value.call('x', A, A)",
    "value.call([3, 1], A, A)",
    "value.call({length: 2}, A)",
    "new value(A, A)",
    "Reflect.ownKeys(Object.setPrototypeOf(value, A)).forEach(key => delete value[key])",
];
const ARGUMENTS: [&str; 10] =
    ["", "{}", "null", "-1", "2 ** 31", "'x'", "[[1]]", "() => 1", "globalThis", "Symbol.iterator"];

#[tokio::test]
async fn every_reachable_member_can_be_read_and_called_without_harm() {
    let mut evaluator = evaluator();
    let mut ended_by_limit = 0;
    for call in CALLS {
        for argument in ARGUMENTS {
            let call = call.replace('A', if argument.is_empty() { "undefined" } else { argument });
            let act = format!("const act = value => {{ try {{ return {call} }} catch {{}} }};");
            let collect =
                "const all = [...seen]; for (const value of all) act(value); return all.length;";
            let source = WALK
                .replacen("(() => {", &format!("(() => {{ {act}"), 1)
                .replace("return paths;", collect);
            let start = Instant::now();
            let first = evaluate(&mut evaluator, &source, &[]).await;
            assert!(start.elapsed() < Duration::from_secs(1), "{call}: {:?}", start.elapsed());
            match &first {
                Ok(ExpressionValue::Number(count)) => {
                    assert!(count.parse::<usize>().unwrap() > 400, "{call}: {count}");
                }
                Ok(other) => panic!("{call}: {other:?}"),
                Err(EvaluationError::Crashed | EvaluationError::Syntax { .. }) => {
                    panic!("{call}: {first:?}")
                }
                Err(_) => ended_by_limit += 1,
            }
            let source = "x.contains('b') && [1].contains(1) && json('[\"right\"]')[0]";
            let next = evaluate(&mut evaluator, source, &[("x", "abc")]).await;
            assert_eq!(next, Ok(text("right")), "after {call}: {first:?}");
        }
    }
    assert!(ended_by_limit < 30, "{ended_by_limit} of 60 did not reach their end");
}

#[tokio::test]
async fn code_made_of_a_value_reaches_nothing_more() {
    let mut evaluator = evaluator();
    let maker = "(() => {}).constructor('return typeof process + typeof require + typeof std + typeof os')()";
    assert_eq!(evaluate(&mut evaluator, maker, &[]).await, Ok(text("undefined".repeat(4))));
    let module = evaluate(&mut evaluator, "import('os')", &[]).await;
    assert!(module.is_err(), "{module:?}");
    assert!(evaluate(&mut evaluator, "eval('1')", &[]).await.is_err());
}
