//! The live view of `run` in a real terminal: three agents at work at once, and a change of the terminal's width.

use crate::{terminal::Terminal, world::World};

/// Three agents that work until the file `go` exists.
const THREE_AGENTS: &str = "name: three\nagents:\n\
    \x20 lead: { backend: mock, mock: [{ run: 'until [ -e go ]; do sleep 0.05; done', say: Led. }] }\n\
    \x20 coder: { backend: mock, mock: [{ run: 'until [ -e go ]; do sleep 0.05; done', say: Coded. }] }\n\
    \x20 tester: { backend: mock, mock: [{ run: 'until [ -e go ]; do sleep 0.05; done', say: Tested. }] }\n\
    kickoff: '@all begin with a sentence that is long enough to be cut or wrapped in a narrow terminal'\n";

#[test]
fn three_at_work_are_shown_at_once_and_fit_a_terminal_that_becomes_narrow_and_wide() {
    let world = World::new();
    world.file("three.yaml", THREE_AGENTS);
    let run = Terminal::open(&world, 40, "run three.yaml");
    let working = |drawn: &[String]| {
        ["lead", "coder", "tester"].iter().all(|name| {
            let own = |line: &&String| line.trim_start().starts_with(name);
            drawn.iter().filter(own).any(|line| line.contains("shell until"))
        })
    };
    let usual = run.wait_until(working);
    let head = |drawn: &[String]| {
        drawn.iter().find(|line| line.contains("three · running · 0:")).cloned().unwrap_or_default()
    };
    assert!(head(&usual).ends_with("turns"), "40 columns are too few for more: {usual:#?}");

    run.resize("30");
    let fits = |drawn: &[String]| drawn.iter().all(|line| line.chars().count() < 30);
    let narrow = run.wait_until(|drawn| working(drawn) && fits(drawn));
    assert!(!head(&narrow).contains("turn"), "{narrow:#?}");
    let has_clock = |line: &String| line.contains("shell until") && line.contains("… · 0:");
    assert_eq!(narrow.iter().filter(|line| has_clock(line)).count(), 3, "{narrow:#?}");
    // The terminal becomes wider than at the start of the run.
    run.resize("120");
    let wide = run.wait_until(|drawn| working(drawn) && head(drawn).ends_with("message"));
    assert!(head(&wide).chars().count() > 40, "{wide:#?}");

    world.file("go", "");
    let (ended, all) = run.wait_exit();
    assert!(ended.success());
    for said in ["Led.", "Coded.", "Tested.", "done in"] {
        assert!(all.contains(said), "{all}");
    }
}
