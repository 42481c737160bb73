//! Values, functions and errors.

use agent_worker_expressions::{
    EvaluationError, EvaluationRequest, Expression, ExpressionValue, ValueContent, ValueType,
};

use crate::{evaluate, evaluate_with, evaluator, text};

#[tokio::test]
async fn expressions_give_the_values_of_javascript() {
    let mut evaluator = evaluator();
    let plan = r#"{"steps":[{"b":1,"a":"x"},2],"done":true,"none":null}"#;
    let values = [
        ("diff", ValueContent::Text("+ fn auth()\n- old\n")),
        ("plan", ValueContent::Json(plan)),
        ("params.depth", ValueContent::Text("007")),
        ("tasks.build.state", ValueContent::Text("done")),
        ("tasks.build.output", ValueContent::Text("ok")),
    ];
    let number = |text: &str| ExpressionValue::Number(text.to_owned());
    let boolean = ExpressionValue::Boolean;
    let array = |json: &str| ExpressionValue::Array(json.to_owned());
    for (source, expected) in [
        ("1 + 2", number("3")),
        ("0.1 + 0.2", number("0.30000000000000004")),
        ("1e21", number("1e+21")),
        ("-0", number("0")),
        ("0 / 0", number("NaN")),
        ("null", ExpressionValue::Null),
        ("diff.contains('auth')", boolean(true)),
        ("diff.contains('Auth')", boolean(false)),
        ("['a', 'b'].contains('b')", boolean(true)),
        ("['ab'].contains('b')", boolean(false)),
        ("plan.steps.contains(2) && plan.done", boolean(true)),
        ("plan.steps", array(r#"[{"b":1,"a":"x"},2]"#)),
        ("plan", ExpressionValue::Object(plan.to_owned())),
        ("plan.none", ExpressionValue::Null),
        ("success()", boolean(true)),
        ("failure()", boolean(false)),
        ("always()", boolean(true)),
        ("json('[1, {\"a\": \"b\"}]')[1].a", text("b")),
        ("lines(diff)", array(r#"["+ fn auth()","- old"]"#)),
        ("lines('')", array("[]")),
        ("lines('a\\r\\n\\r\\nb\\r\\n')", array(r#"["a","","b"]"#)),
        ("lines('\\n')", array("[]")),
        ("lines('a').length", number("1")),
        ("hash('abc')", text("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")),
        ("hash('')", text("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")),
        ("hash('ü')", text("607474ca475a9724d7360aba71a56d5df77e61350e3f724cfa1f46e857e2d85f")),
        ("int(params.depth) + 1", number("8")),
        ("int(' -12\\n')", number("-12")),
        ("tasks.build.state == 'done' ? tasks.build.output : 'no'", text("ok")),
        ("tasks.toString === undefined", boolean(true)),
        ("lines(diff).filter(line => line.startsWith('+')).length", number("1")),
        ("[...new Set(['b', 'a', 'b'])]", array(r#"["b","a"]"#)),
        ("{a: {b: 1}}", ExpressionValue::Object(r#"{"a":{"b":1}}"#.to_owned())),
        ("`${diff.length} ${'}}'}`", text("18 }}")),
        ("/^\\+/m.test(diff)", boolean(true)),
        ("diff // a comment", text("+ fn auth()\n- old\n")),
    ] {
        let found = evaluate_with(&mut evaluator, source, &values).await;
        assert_eq!(found, Ok(expected), "{source}");
    }
}

#[tokio::test]
async fn success_and_failure_follow_the_tasks_before() {
    let mut evaluator = evaluator();
    for (has_failed, expected) in [(false, "true,false,true"), (true, "false,true,true")] {
        let expression = Expression::parse("'' + [success(), failure(), always()]").unwrap();
        let request = EvaluationRequest { expression: &expression, values: &[], has_failed };
        assert_eq!(evaluator.evaluate(request).await, Ok(text(expected)));
    }
}

#[tokio::test]
async fn a_result_that_is_no_value_is_refused_with_its_type() {
    let mut evaluator = evaluator();
    for (source, found) in [
        ("undefined", ValueType::Undefined),
        ("x.y", ValueType::Undefined),
        ("() => 1", ValueType::Function),
        ("Symbol('a')", ValueType::Symbol),
        ("10n", ValueType::BigInt),
        ("new Set([1])", ValueType::Set),
        ("new Map()", ValueType::Map),
        ("/a/", ValueType::OtherObject),
        ("new Error('a')", ValueType::OtherObject),
        ("({toJSON: () => 1})", ValueType::OtherObject),
    ] {
        let result = evaluate(&mut evaluator, source, &[("x", "text")]).await;
        assert_eq!(result, Err(EvaluationError::NoValue { found }), "{source}");
    }
    for source in ["'😀'.slice(0, 1)", "String.fromCharCode(0xdfff)"] {
        let result = evaluate(&mut evaluator, source, &[]).await;
        assert_eq!(result, Err(EvaluationError::LoneSurrogate), "{source}");
    }
    let long = evaluate(
        &mut evaluator,
        "'x'.repeat(17 * 1024 * 1024 - 1)",
        &[("x", &"x".repeat(9 << 20))],
    )
    .await;
    assert!(matches!(long, Err(EvaluationError::ResultTooLarge { .. })), "{long:?}");
}

#[tokio::test]
async fn an_error_has_its_type_and_place_and_no_part_of_a_value() {
    let mut evaluator = evaluator();
    let mut wrong = Vec::new();
    for (source, message, offset) in [
        ("1 +", "not a JavaScript expression: it ends too early", Some(3)),
        ("1 +\n  * 2", "not a JavaScript expression", Some(6)),
        ("if (x) 1", "not a JavaScript expression", Some(0)),
        ("x = 'a'", "failed with TypeError: 'x' is read-only", Some(0)),
        ("x.y.z", "failed with TypeError: cannot read property 'z' of undefined", Some(0)),
        ("1 &&\n itms.length", "failed with ReferenceError: itms is not defined", Some(6)),
        ("json(x)", "failed with TypeError: json(): the text is not JSON", Some(5)),
        ("1 + lines([])", "failed with TypeError: lines() takes text", Some(4)),
        ("int(x)", "failed with TypeError: int(): the value is not a whole number", Some(4)),
        ("x.contains(/a/)", "contains() takes text or a number here", Some(2)),
        ("x()", "failed with TypeError: not a function", Some(0)),
        ("JSON.parse(x)", "failed with SyntaxError", None),
        ("(() => { throw Error(x) })()", "failed with Error", None),
        ("(() => { throw x })()", "a value that is not an error", None),
        ("null[x].y", "failed with TypeError", None),
        ("({[x]: 1})[x].y.z", "failed with TypeError", None),
        ("[][x](1)", "failed with TypeError", None),
        ("new RegExp('(' + x)", "failed with SyntaxError", None),
        ("(() => {}).constructor(x)()", "failed with ReferenceError", None),
        (
            "(() => { const e = Error(); e.name = x; e.stack = x; throw e })()",
            "failed with Error",
            None,
        ),
        ("{a: 1n}", "failed with TypeError", None),
    ] {
        let error = evaluate(&mut evaluator, source, &[("x", "hunter2")]).await.unwrap_err();
        let shown = error.to_string();
        let is_right = shown.contains(message) && (offset.is_none() || error.offset() == offset);
        if !is_right || format!("{error:?}").contains("hunter2") {
            wrong.push(format!("{source}: {error:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn the_syntax_is_checked_without_running_the_expression() {
    let mut evaluator = evaluator();
    let check = async |evaluator: &mut agent_worker_expressions::ExpressionEvaluator, source| {
        evaluator.check(&Expression::parse(source).unwrap()).await
    };
    assert_eq!(check(&mut evaluator, "(() => { while (true); })()").await, Ok(()));
    assert_eq!(check(&mut evaluator, "unknown.name").await, Ok(()));
    let wrong = check(&mut evaluator, "a b").await;
    assert!(matches!(wrong, Err(EvaluationError::Syntax { offset: 2, .. })), "{wrong:?}");
}
