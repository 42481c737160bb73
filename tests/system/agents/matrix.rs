//! The matrix of situations and programs in `docs/reference/matrix.md`: its rows and columns, the cells that tests prove,
//! and the cells that a program does not offer.
//!
//! `matrix_tests!` declares which cells a test proves. With `AW_MATRIX` set to a folder, each run of such a test writes one
//! file for each cell there. `scripts/matrix` runs all of them and makes the page. Invariant: no cell is true that was not
//! run.

mod cells;
mod not_offered;
mod page;
mod situation;

pub(super) use self::{
    cells::{Cells, DeclaredCells},
    situation::Situation,
};

/// Defines tests that prove cells, and lists their cells as `DECLARED`. The check gets the program and its open cells.
macro_rules! matrix_tests {
    (@clis [$($cli:ident),+]) => { [$($crate::agents::testbed::Cli::$cli),+] };
    (@clis $cli:ident) => { [$crate::agents::testbed::Cli::$cli] };
    (@argument [$($cli:ident),+]) => { [$($crate::agents::testbed::Cli::$cli),+] };
    (@argument $cli:ident) => { $crate::agents::testbed::Cli::$cli };
    (@situations [$($situation:ident),+]) => { [$($crate::agents::matrix::Situation::$situation),+] };
    ($($check:ident proves $situations:tt { $($name:ident: $cli:tt),+ $(,)? })+) => {
        $($(
            #[test]
            fn $name() {
                let mut cells = $crate::agents::matrix::Cells::open(
                    stringify!($name),
                    &matrix_tests!(@clis $cli),
                    &matrix_tests!(@situations $situations),
                );
                $check(matrix_tests!(@argument $cli), &mut cells);
            }
        )+)+

        /// The cells that the tests of this file prove.
        pub(crate) const DECLARED: &[$crate::agents::matrix::DeclaredCells] = &[$($(
            $crate::agents::matrix::DeclaredCells {
                clis: &matrix_tests!(@clis $cli),
                situations: &matrix_tests!(@situations $situations),
            },
        )+)+];
    };
}
pub(super) use matrix_tests;
