//! Values given to a workflow: parameters, environment, names, outputs.

use std::{collections::BTreeMap, path::Path};

use agent_worker_protocol::Tag;
use agent_worker_workflow::{Error, RenderStyle, TemplateScope, Workflow, load, unset_env};

use crate::read_with_agent;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn workflow() -> Workflow {
    read_with_agent(
        "params: [{ name: target, required: true }, { name: depth, default: '3' }, { name: note }]
setup: [{ shell: git diff, as: diff }]
kickoff: |
  ${{ params.target }}/${{ params.depth }}/${{ params.note }}/${{ env.CI }}
  ${{ workflow.name }}:${{ workflow.tag }}:${{ workflow.instance }}:${{ instance }}
  ${{ diff }}
  @a please
",
    )
    .unwrap()
}

fn scope(params: &[(&str, &str)], env: &[(&str, &str)]) -> Result<TemplateScope, Error> {
    let tag: Tag = "pr-1".parse().unwrap();
    workflow().scope(&map(params), &map(env), &tag, Path::new("/project"))
}

#[test]
fn a_kickoff_is_filled_in_and_every_value_in_it_is_data() {
    let mut scope = scope(&[("target", "main")], &[("CI", "yes"), ("OTHER", "x")]).unwrap();
    scope.insert_output("diff", "+@a ${{ params.target }}\n");
    let rendered = workflow().kickoff.unwrap().render(&scope).unwrap();
    assert_eq!(
        rendered.text,
        "main/3//yes\nteam:pr-1:pr-1:pr-1\n+@a ${{ params.target }}\n\n@a please\n"
    );
    let data: Vec<&str> = rendered.data.iter().map(|range| &rendered.text[range.clone()]).collect();
    let diff = "+@a ${{ params.target }}\n";
    assert_eq!(data, ["main", "3", "yes", "team", "pr-1", "pr-1", "pr-1", diff]);
}

#[test]
fn the_files_of_a_team_have_names_where_it_has_such_files() {
    let kickoff = "kickoff: '@a ${{ context.channel }} ${{ context.document }}'\n";
    let filled = |context: &str| {
        let workflow = read_with_agent(&format!("context: {context}\n{kickoff}"))?;
        let tag: Tag = "pr-1".parse().unwrap();
        let scope = workflow.scope(&map(&[]), &map(&[]), &tag, Path::new("/project")).unwrap();
        Ok::<_, Error>(workflow.kickoff.unwrap().render(&scope).unwrap().text)
    };
    assert_eq!(
        filled("{ provider: file }").unwrap(),
        "@a /project/.workflow/team/pr-1/channel.md /project/.workflow/team/pr-1/documents/notes.md"
    );
    let config = "{ provider: file, config: { dir: ., channel: talk.md, documentDir: d, document: p/q.md } }";
    assert_eq!(filled(config).unwrap(), "@a /project/talk.md /project/d/p/q.md");
    for (context, why) in [
        ("{ provider: sqlite }", &["the channel of this team is not kept in a file"][..]),
        (
            "{ provider: memory }",
            &[
                "the channel of this team is not kept in a file",
                "the documents of this team are not kept in files",
            ],
        ),
    ] {
        let Err(error) = filled(context) else { panic!("{context}") };
        let told: Vec<String> = error.mistakes().into_iter().map(|told| told.message).collect();
        assert_eq!(told, *why);
    }
}

#[test]
fn a_run_that_would_lack_a_value_is_refused_before_it_begins() {
    for (params, env, message, hint) in [
        (&[][..], &[("CI", "1")][..], "the parameter `target` is required", "add `--target VALUE`"),
        (
            &[("taget", "x")],
            &[("CI", "1")],
            "the workflow has no parameter `taget`",
            "did you mean `--target`?",
        ),
        (
            &[("zebra", "x")],
            &[("CI", "1")],
            "the workflow has no parameter `zebra`; the parameter `target` is required",
            "the parameters are: target, depth, note; add `--target VALUE`",
        ),
        (
            &[("target", "x")],
            &[],
            "the workflow uses `env.CI`, and CI is not set",
            "set CI before the run",
        ),
    ] {
        let error = scope(params, env).unwrap_err();
        assert_eq!((error.summary().as_str(), error.hint().as_deref()), (message, Some(hint)));
    }
}

#[test]
fn an_unset_variable_is_shown_where_the_file_uses_it() {
    let text = "\
agents:
  a: { backend: mock }
# ${{ env.CI }} is the number of the build
setup:
  - shell: echo ${{ env.CI }} ${{ env.EMPTY }}
kickoff: '@a build ${{env.CI}} for $${{ env.CI }}'
";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("team.yaml");
    std::fs::write(&file, text).unwrap();
    let workflow = load(&file).unwrap();
    let check = |env: &[(&str, &str)]| {
        let opened = std::fs::File::open(&file).unwrap();
        unset_env(opened, Path::new("team.yaml"), &workflow, &map(env))
    };
    assert!(check(&[("CI", "1"), ("EMPTY", "")]).is_none(), "an empty variable is set");
    let error = check(&[("EMPTY", "")]).unwrap();
    assert_eq!(error.summary(), "team.yaml:5:21: the variable CI is not set (and 1 more)");
    let hint = "set it: `export CI=…`; for a default use a parameter (`params:`)";
    assert_eq!(error.hint().as_deref(), Some(hint));
    let places: Vec<_> = error.mistakes().iter().map(|one| (one.line, one.column)).collect();
    assert_eq!(places, [(5, 21), (6, 23)]);
}

#[test]
fn a_heading_in_a_block_is_no_comment_and_an_alias_is_reported_once() {
    let text = "\
agents:
  a: { backend: mock }
setup:
  - shell: &line echo ${{ env.CI }}
  - shell: *line # ${{ env.CI }}
kickoff: |
  # Build ${{ env.CI }}
  @a go
";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("team.yaml");
    std::fs::write(&file, text).unwrap();
    let workflow = load(&file).unwrap();
    let opened = std::fs::File::open(&file).unwrap();
    let error = unset_env(opened, Path::new("team.yaml"), &workflow, &map(&[])).unwrap();
    let places: Vec<_> = error.mistakes().iter().map(|one| (one.line, one.column)).collect();
    assert_eq!(places, [(4, 27), (7, 15)]);
}

#[test]
fn an_error_without_a_position_is_rendered_in_the_same_way() {
    let error = scope(&[("taget", "x")], &[]).unwrap_err();
    insta::assert_snapshot!(error.render(RenderStyle::Plain), @r"
    error: the workflow has no parameter `taget`
     |
     = help: did you mean `--target`?
    ");
}
