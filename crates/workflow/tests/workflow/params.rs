//! Parameters: their declaration, the values of a request and of a file.

use std::{collections::BTreeMap, path::Path};

use agent_worker_protocol::Tag;
use agent_worker_workflow::{Error, Param, Workflow, parse_params};

use crate::read_with_agent;

const PARAMS: &str = "params:
  - { name: target, required: true, short: t, description: What to review }
  - { name: count, type: number, default: 3 }
  - { name: dry, type: boolean }
  - { name: depth, type: choice, choices: [quick, deep], default: quick }
  - { name: diff, type: file }
  - { name: plan, type: json, default: { steps: [1, \"a\\nb\", null], 'z z': 1.5 } }
  - { name: note, type: string }
";

fn workflow() -> Workflow {
    let all = ["target", "count", "dry", "depth", "diff", "plan", "note"];
    let all = all.map(|name| format!("[${{{{ params.{name} }}}}]")).join("");
    read_with_agent(&format!("{PARAMS}kickoff: '@a {all}'\n")).unwrap()
}

fn params() -> Vec<Param> {
    workflow().params
}

/// Returns the kickoff with the values.
fn kickoff(values: &[(&str, &str)]) -> Result<String, Error> {
    let values: BTreeMap<String, String> =
        values.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    let (workflow, tag): (_, Tag) = (workflow(), "t".parse().unwrap());
    let scope = workflow.scope(&values, &BTreeMap::new(), &tag, Path::new("/project"))?;
    Ok(workflow.kickoff.as_ref().unwrap().render(&scope)?.text)
}

#[test]
fn a_parameter_without_a_value_has_its_default_or_the_empty_value_of_its_type() {
    let plan = r#"{"steps":[1,"a\nb",null],"z z":1.5}"#;
    assert_eq!(
        kickoff(&[("target", "main")]).unwrap(),
        format!("@a [main][3][false][quick][][{plan}][]")
    );
    let values = [
        ("target", "${{ env.HOME }} $(id)"),
        ("count", "-1.5"),
        ("dry", "true"),
        ("depth", "deep"),
        ("diff", "+ a\n`id`\n"),
        ("plan", " [1, {\"b\": 2, \"a\": 1}] "),
        ("note", "@all"),
    ];
    let expected = values.map(|(_, text)| format!("[{text}]")).join("");
    assert_eq!(kickoff(&values).unwrap(), format!("@a {expected}"));
}

#[test]
fn all_problems_of_the_values_are_reported_at_once_and_without_the_values() {
    let error = kickoff(&[
        ("count", "hunter2"),
        ("depth", "dep"),
        ("dry", "hunter2"),
        ("plan", "{\"hunter2\": }"),
        ("taget", "hunter2"),
    ])
    .unwrap_err();
    assert_eq!(
        error.summary(),
        "the value of `params.count` must be a number; \
         the value of `params.depth` must be `quick` or `deep`; \
         the value of `params.dry` must be `true` or `false`; \
         the value of `params.plan` must be JSON (it is not at line 1, column 13); \
         the workflow has no parameter `taget`"
    );
    assert_eq!(
        error.hint().unwrap(),
        "give a number: `--count 5`; did you mean `deep`?; such as `--dry`; such as `--plan '{}'`; \
         did you mean `--target`?"
    );
    for value in ["TRUE", "yes", "1", ""] {
        let error = kickoff(&[("target", "x"), ("dry", value)]).unwrap_err();
        assert!(error.summary().contains("must be `true` or `false`"), "{value}");
    }
    let deep = "[".repeat(100_000);
    assert!(kickoff(&[("target", "x"), ("plan", &deep)]).is_err());
}

#[test]
fn a_declaration_with_a_mistake_is_refused_at_its_place() {
    for (params, part) in [
        ("[{ name: a, type: choice, default: x }]", "needs `choices`"),
        ("[{ name: a, type: choice, choices: [] , default: x }]", "a list of 1 to 100"),
        ("[{ name: a, type: choice, choices: [x, x], default: x }]", "`x` is there twice"),
        ("[{ name: a, type: choice, choices: [x] }]", "a choice has no empty value"),
        ("[{ name: a, type: choice, choices: [quick], default: quik }]", "must be `quick`"),
        ("[{ name: a, choices: [x] }]", "the values of `type: choice`"),
        ("[{ name: a, type: boolean, default: maybe }]", "`true` or `false`"),
        ("[{ name: a, type: file, default: x }]", "a file has no default"),
        ("[{ name: a, type: jsn }]", "not `jsn`"),
        ("[{ name: a, short: ab }]", "one letter"),
        ("[{ name: a, short: '1' }]", "one letter"),
        ("[{ name: a, short: h }]", "`-h` is an option of `run`"),
        ("[{ name: a, short: x }, { name: b, short: x }]", "two parameters with `short: x`"),
        ("[{ name: params-file }]", "cannot be a parameter's name"),
    ] {
        let error = read_with_agent(&format!("params: {params}\n")).unwrap_err();
        let shown = error.summary();
        assert!(shown.contains(part), "{params}: {shown}");
        assert_eq!(error.mistakes().len(), 1, "{params}: {shown}");
    }
}

#[test]
fn a_file_of_values_is_read_by_the_types() {
    for text in [
        "target: main\ncount: 5\ndry: true\ndepth: deep\ndiff: a/b.diff\nplan: [1, { b: x, a: null }]\n",
        "{\"target\": \"main\", \"count\": \"5\", \"dry\": \"true\", \"depth\": \"deep\", \"diff\": \"a/b.diff\", \
          \"plan\": [1, {\"b\": \"x\", \"a\": null}]}",
    ] {
        let values = parse_params(text, Path::new("values.yaml"), &params()).unwrap();
        let expected = [
            ("count", "5"),
            ("depth", "deep"),
            ("diff", "a/b.diff"),
            ("dry", "true"),
            ("plan", r#"[1,{"b":"x","a":null}]"#),
            ("target", "main"),
        ];
        assert_eq!(values, expected.map(|(name, text)| (name.into(), text.into())).into());
    }
    let hostile = r#"{"target": "$(id) `x` \"'\n\u0000\ud83d\ude00 ${{ env.HOME }}"}"#;
    let values = parse_params(hostile, Path::new("values.json"), &params()).unwrap();
    assert_eq!(values["target"], "$(id) `x` \"'\n\0😀 ${{ env.HOME }}");
}

#[test]
fn every_mistake_of_a_file_of_values_has_its_place() {
    let text = "taget: main\ncount: many\ndry: maybe\ndepth: dep\nnote: 5\n";
    let error = parse_params(text, Path::new("values.yaml"), &params()).unwrap_err();
    let shown: Vec<String> = error
        .mistakes()
        .into_iter()
        .map(|one| {
            let hint = one.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("{}:{} {}{hint}", one.line, one.column, one.message)
        })
        .collect();
    let expected = [
        "1:1 the workflow has no parameter `taget` (did you mean `target`?)",
        "2:8 `count` must be a number",
        "3:6 `dry` must be `true` or `false`, not text",
        "4:8 `depth` must be `quick` or `deep` (did you mean `deep`?)",
        "5:7 `note` must be text, not a number (put it in quotes)",
    ];
    assert_eq!(shown, expected);
    for (text, part) in [
        ("- target\n", "the file must be a mapping, not a list"),
        ("", "the file must be a mapping"),
        ("target: a\ntarget: b\n", "written twice"),
        ("target: [", "not valid YAML"),
    ] {
        let error = parse_params(text, Path::new("values.yaml"), &params()).unwrap_err();
        assert!(error.summary().contains(part), "{text}: {error}");
    }
}
