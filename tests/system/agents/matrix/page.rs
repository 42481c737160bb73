//! The page of the matrix: made from the results of a run, and compared with the tables of this folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use super::{
    super::{DECLARED_CELLS, testbed::Cli},
    Situation,
    cells::{offered_cells, results_folder},
    not_offered::{NOT_OFFERED, not_offered},
};

const BEGIN: &str = "<!-- scripts/matrix writes the following lines -->\n";
const END: &str = "<!-- scripts/matrix wrote the lines above -->\n";

type Results = BTreeMap<(Situation, Cli), bool>;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page_path() -> PathBuf {
    repository().join("docs/reference/matrix.md")
}

/// Returns all cells, row by row.
fn all_cells() -> impl Iterator<Item = (Situation, Cli)> {
    Situation::ALL.into_iter().flat_map(|situation| Cli::ALL.map(|cli| (situation, cli)))
}

/// Returns the cells that some test proves.
fn declared_cells() -> BTreeSet<(Situation, Cli)> {
    let declared = DECLARED_CELLS.iter().copied().flatten();
    declared.flat_map(|test| offered_cells(test.clis, test.situations)).collect()
}

/// Returns the heading of a column.
fn heading(cli: Cli) -> String {
    match (cli, cli.name().strip_prefix("acp-")) {
        (Cli::AcpZedCodex, _) => "`acp` codex (Zed)".to_owned(),
        (_, Some(agent)) => format!("`acp` {agent}"),
        (_, None) => format!("`{}`", cli.name()),
    }
}

/// Returns the number of a reason on the page.
fn reason_number(reason: &str) -> usize {
    let mut reasons: Vec<&str> = Vec::new();
    for (_, _, reason) in NOT_OFFERED {
        if !reasons.contains(reason) {
            reasons.push(reason);
        }
    }
    reasons.iter().position(|known| *known == reason).unwrap() + 1
}

/// Returns the packages with their versions that `scripts/agents` installs.
fn packages() -> Vec<String> {
    let script = fs::read_to_string(repository().join("scripts/agents")).unwrap();
    let lines = script.lines().map(str::trim);
    let is_package = |line: &&str| {
        line.rsplit_once('@')
            .is_some_and(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit()))
            && !line.contains(' ')
    };
    lines.filter(is_package).map(|line| format!("`{line}`")).collect()
}

/// Makes the generated part of the page.
fn render(date: &str, results: &Results) -> String {
    let cell = |situation, cli| match (not_offered(situation, cli), results.get(&(situation, cli)))
    {
        (Some(reason), _) => format!("not offered ({})", reason_number(reason)),
        (None, Some(true)) => "true".to_owned(),
        (None, Some(false)) => "**false**".to_owned(),
        (None, None) => "not run".to_owned(),
    };
    let count = |wanted: &str| {
        all_cells().filter(|(situation, cli)| cell(*situation, *cli).starts_with(wanted)).count()
    };
    let mut page = format!(
        "Run on {date}. Of {} cells {} are true, {} not offered, {} false, {} not run. Programs: {}.\n\n",
        all_cells().count(),
        count("true"),
        count("not offered"),
        count("**false"),
        count("not run"),
        packages().join(", "),
    );
    let headings = Cli::ALL.map(heading).join(" | ");
    let _ = writeln!(page, "| situation | {headings} |\n|---|{}", "---|".repeat(Cli::ALL.len()));
    for situation in Situation::ALL {
        let cells = Cli::ALL.map(|cli| cell(situation, cli)).join(" | ");
        let _ = writeln!(page, "| {} | {cells} |", situation.words());
    }
    page += "\nNot offered:\n\n";
    let mut last = 0;
    for (_, _, reason) in NOT_OFFERED {
        let number = reason_number(reason);
        if number > last {
            last = number;
            let _ = writeln!(page, "{number}. {reason}");
        }
    }
    page
}

/// Splits a page into the parts before, within and after the markers.
fn parts(page: &str) -> (&str, &str, &str) {
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (within, after) = rest.split_once(END).unwrap();
    (before, within, after)
}

/// Reads date and results from the generated part of a page.
fn parse(block: &str) -> (String, Results) {
    let date = block.strip_prefix("Run on ").and_then(|rest| rest.split('.').next()).unwrap();
    let mut results = Results::new();
    for situation in Situation::ALL {
        let start = format!("| {} | ", situation.words());
        let row = block.lines().find_map(|line| line.strip_prefix(&start));
        let row = row.unwrap_or_else(|| panic!("no row `{}`", situation.words()));
        for (cli, cell) in Cli::ALL.into_iter().zip(row.split(" | ")) {
            match cell.trim_end_matches(" |") {
                "true" => drop(results.insert((situation, cli), true)),
                "**false**" => drop(results.insert((situation, cli), false)),
                _ => {}
            }
        }
    }
    (date.to_owned(), results)
}

/// Reads the results of a run. A cell that several tests prove is true only if it is true in all of them.
fn read_results(folder: &Path) -> Results {
    let declared = declared_cells();
    let mut results = Results::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let mut words = name.split('.');
        let (id, program) = (words.next().unwrap(), words.next().unwrap());
        let is_it = |cell: &&(Situation, Cli)| cell.0.id() == id && cell.1.name() == program;
        let cell =
            *declared.iter().find(is_it).unwrap_or_else(|| panic!("no test declares {name}"));
        let is_true = fs::read_to_string(entry.path()).unwrap() == "true";
        let so_far = results.entry(cell).or_insert(true);
        *so_far = *so_far && is_true;
    }
    results
}

/// Compares the committed page with the tables. Writes it instead if `AW_MATRIX_DATE` names the day of the run in `AW_MATRIX`.
#[test]
#[expect(clippy::disallowed_methods, reason = "the day of the run is a setting of the test itself")]
fn the_page_of_the_matrix_has_every_cell_and_a_test_for_each_that_is_true() {
    let page = fs::read_to_string(page_path()).unwrap();
    let (before, block, after) = parts(&page);
    if let Ok(date) = std::env::var("AW_MATRIX_DATE") {
        let results = read_results(&results_folder().expect("AW_MATRIX is set"));
        let page = format!("{before}{BEGIN}{}{END}{after}", render(&date, &results));
        fs::write(page_path(), page).unwrap();
        return;
    }
    let (date, results) = parse(block);
    assert_eq!(block, render(&date, &results), "run `scripts/matrix`");
    let declared = declared_cells();
    let unproven: Vec<_> = results.keys().filter(|cell| !declared.contains(cell)).collect();
    assert!(unproven.is_empty(), "no test proves {unproven:?}");
}

#[test]
fn each_reason_of_the_matrix_stands_for_cells_that_no_other_reason_has() {
    let mut seen = BTreeSet::new();
    for (situation, clis, reason) in NOT_OFFERED {
        assert!(reason.len() > 20, "{reason}");
        for cli in *clis {
            assert!(seen.insert((*situation, *cli)), "{situation:?} {cli:?}");
        }
    }
}

#[test]
fn a_cell_of_the_matrix_is_true_only_if_it_was_run_and_never_failed() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("answer.claude.one", "true");
    write("answer.codex.one", "true");
    write("answer.codex.two", "false");
    let results = read_results(folder.path());
    let of = |cli| results.get(&(Situation::FinalAnswer, cli)).copied();
    assert_eq!([Cli::Claude, Cli::Codex, Cli::Gemini].map(of), [Some(true), Some(false), None]);
    let page = render("2026-01-01", &results);
    assert!(page.contains("1 are true, "), "{page}");
    assert!(page.contains("last text | true | **false** | not run | "), "{page}");
    assert_eq!(parse(&page), ("2026-01-01".to_owned(), results));
}
