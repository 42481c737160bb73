//! The recorder: a test opens its cells, and each check that passed makes one of them true.
//!
//! A panic makes the first open cell false; the later ones were not run.

use std::{fs, path::PathBuf, thread};

use super::{super::testbed::Cli, Situation, not_offered::not_offered};

/// The cells that one test proves.
pub(crate) struct DeclaredCells {
    pub(crate) clis: &'static [Cli],
    pub(crate) situations: &'static [Situation],
}

/// The result of a cell that was run.
#[derive(Clone, Copy)]
enum CellResult {
    True,
    False,
}

/// The cells of a running test that are not proven yet, in the order in which its check passes them.
pub(crate) struct Cells {
    test: &'static str,
    open: Vec<(Situation, Cli)>,
    has_passed: bool,
}

impl Cells {
    pub(crate) fn open(test: &'static str, clis: &[Cli], situations: &[Situation]) -> Self {
        Self { test, open: offered_cells(clis, situations).collect(), has_passed: false }
    }

    /// Makes a situation true for the programs of this test that offer it.
    pub(crate) fn passed(&mut self, situation: Situation) {
        let (passed, open) = self.open.drain(..).partition(|cell| cell.0 == situation);
        self.open = open;
        self.has_passed = true;
        for cell in passed {
            self.record(cell, CellResult::True);
        }
    }

    /// Writes the result of a cell. Several tests may prove the same cell.
    fn record(&self, (situation, cli): (Situation, Cli), result: CellResult) {
        let Some(folder) = results_folder() else { return };
        let name = format!("{}.{}.{}", situation.id(), cli.name(), self.test);
        fs::write(
            folder.join(name),
            match result {
                CellResult::True => "true",
                CellResult::False => "false",
            },
        )
        .unwrap();
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        if thread::panicking() {
            if let Some(cell) = self.open.first() {
                self.record(*cell, CellResult::False);
            }
        } else if self.has_passed {
            // A test without its program passes none.
            assert!(self.open.is_empty(), "declared and not passed: {:?}", self.open);
        }
    }
}

/// Returns the cells of these programs and situations, without those that are not offered.
pub(super) fn offered_cells(
    clis: &[Cli],
    situations: &[Situation],
) -> impl Iterator<Item = (Situation, Cli)> {
    let of = |situation: &Situation| clis.iter().map(|cli| (*situation, *cli)).collect::<Vec<_>>();
    let all = situations.iter().flat_map(of).collect::<Vec<_>>();
    all.into_iter().filter(|(situation, cli)| not_offered(*situation, *cli).is_none())
}

/// Returns the folder of the results, if this run makes the matrix.
#[expect(
    clippy::disallowed_methods,
    reason = "where the results go is a setting of the test itself"
)]
pub(super) fn results_folder() -> Option<PathBuf> {
    std::env::var_os("AW_MATRIX").map(PathBuf::from)
}
