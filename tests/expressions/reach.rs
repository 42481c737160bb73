//! Everything that an expression can reach: the language, and nothing of the host.

use agent_worker_expressions::{ExpressionValue, is_reserved};

use crate::{evaluate, evaluator, text};

/// Walks from the global object, and from a value of each kind of syntax, through all members and prototypes.
const WALK: &str = r#"(() => {
  const seen = new Set(), paths = [], failures = [];
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
      try { queue.push([member, value[key]]) } catch (error) { failures.push(member) }
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
            "std", "os", "bjson", "process", "require", "fetch", "console", "print", "loadscript", "read",
            "import", "navigator", "performance", "timeout", "worker", "deno", "bun", "atomics", "sharedarray",
            "date", "promise", "proxy", "weakref", "finalization", "eval", "microtask", "random",
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

#[tokio::test]
async fn every_reachable_member_can_be_read_and_called_without_harm() {
    let mut evaluator = evaluator();
    // Each in an interpreter of its own, with arguments that surprise.
    let act = |act: &str| WALK.replace("return paths;", "").replace("paths.push(path);", &format!("paths.push(path); try {{ {act} }} catch {{}}"));
    for arguments in ["", "{}", "null", "-1", "2 ** 31", "'x'", "[[1]]", "() => 1", "globalThis", "Symbol.iterator"] {
        for call in ["value(A)", "value.call(A)", "value.call({}, A)", "new value(A)", "value.call('x', A)", "value.call([1], A, A)", "Object.getPrototypeOf(value).x = A; delete value[A]; value[A]"] {
            let source = act(&call.replace('A', if arguments.is_empty() { "undefined" } else { arguments }));
            let source = source.replace("failures.push(member) }", "}").replace("})()", "return 1 })()");
            let first = evaluate(&mut evaluator, &source, &[]).await;
            let next = evaluate(&mut evaluator, "x.contains('b') && [1].contains(1) && json('{}').x", &[("x", "abc")]).await;
            assert!(next.is_err(), "{call} {arguments}: {first:?} {next:?}");
            let next = evaluate(&mut evaluator, "x.contains('b') && [1].contains(1) && 'right'", &[("x", "abc")]).await;
            assert_eq!(next, Ok(text("right")), "after {call} {arguments}: {first:?}");
        }
    }
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
