//! The examples with `tasks:`, as they are, with the scripted model in place of the vendor's.

use std::fs;

use super::worlds::{states, task_rows};
use crate::{
    api_agents::ApiWorld,
    world::{CommandOutput, World},
};

/// Makes the project a git repository whose diff has `script` as its context: the model takes it for its script.
fn commit_and_change(world: &World, script: &str) {
    world.git(&["init", "--quiet"]);
    world.file("code.txt", &format!("{script}\nold\n"));
    world.git(&["add", "code.txt"]);
    world.git(&["commit", "--quiet", "-m", "one"]);
    world.file("code.txt", &format!("{script}\nnew\n"));
}

fn run_example(name: &str, script: &str) -> (ApiWorld, CommandOutput) {
    let api = ApiWorld::new();
    commit_and_change(&api.world, script);
    let file = api.world.example(name);
    let valid = api.world.run(&["validate", &file]);
    assert_eq!((valid.code, valid.stderr.as_str()), (0, ""), "{valid:?}");
    api.world.git(&["add", "code.txt"]);
    let said = api.world.run(&["run", &file]);
    assert_eq!(said.code, 0, "{said:?}\n{}", api.world.log());
    (api, said)
}

#[test]
fn the_example_of_a_changeset_writes_what_its_generator_says() {
    let (api, _) =
        run_example("changeset.yaml", "SAY SAY patch: $(touch pwned) `touch pwned` \"fix\"");
    assert_eq!(states(&api.world), "1:done 2:done 3:done 4:done");
    let project = api.world.project();
    let files: Vec<_> = fs::read_dir(project.join(".changeset")).unwrap().flatten().collect();
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let changeset = fs::read_to_string(file.path()).unwrap();
    assert_eq!(changeset, "patch: $(touch pwned) `touch pwned` \"fix\"\n");
    assert!(!project.join("pwned").exists());
    let prompts: Vec<_> = api.models.requests().into_iter().map(|asked| asked.text).collect();
    assert!(prompts[0].contains("+new") && prompts[0].contains("search_code"), "{prompts:?}");
    assert!(prompts[1].contains("Generate a changeset"), "{prompts:?}");
}

#[test]
fn the_example_of_a_changeset_fails_before_any_model_if_nothing_is_staged() {
    let api = ApiWorld::new();
    api.world.git(&["init", "--quiet"]);
    let said = api.world.run(&["run", &api.world.example("changeset.yaml")]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("no change is staged"), "{said:?}");
    assert_eq!(states(&api.world), "1:failed 2:skipped 3:skipped 4:skipped");
    assert_eq!(api.models.request_count(), 0);
}

#[test]
fn the_example_of_a_security_review_asks_its_specialist_only_about_security() {
    let (api, _) = run_example("security-review.yaml", "SAY Security: a path is not checked");
    let rows = task_rows(&api.world);
    assert_eq!(rows["3"].state, "done");
    assert_eq!(rows["3"].output.as_deref(), Some("Security: a path is not checked"));
    assert_eq!(api.models.request_count(), 2);
    let (api, _) = run_example("security-review.yaml", "SAY The change is fine");
    assert_eq!(states(&api.world), "1:done 2:done 3:skipped 3/else/1:done");
    assert_eq!(api.models.request_count(), 1, "the specialist was not asked");
}

#[test]
fn the_example_of_parallel_reviewers_sums_up_both_of_them() {
    let (api, _) = run_example("parallel-review.yaml", "SAY SAY SAY all is fine");
    assert_eq!(states(&api.world), "1:done 2:done 3:done 3/1:done 3/2:done 4:done");
    let rows = task_rows(&api.world);
    let output = |path: &str| rows[path].output.as_deref();
    assert_eq!(output("2"), Some("SAY SAY all is fine"));
    assert_eq!(["3/1", "3/2"].map(output), [Some("SAY all is fine"); 2]);
    assert_eq!(output("4"), Some("all is fine"));
    let prompts: Vec<_> = api.models.requests().into_iter().map(|asked| asked.text).collect();
    let summary = &prompts[3];
    assert!(prompts.len() == 4 && summary.contains("review of the security"), "{prompts:?}");
}
