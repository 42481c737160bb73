//! The table: a figure, its value, the bar it is held against, and whether it passes.

use std::io::{self, Stdout, Write as _};

/// What a number counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// So many each second.
    PerSecond,
    /// Mebibytes.
    Mebibytes,
    /// Bytes.
    Bytes,
    /// One of something as a multiple of another.
    Times,
    /// A number of things.
    Count,
}

/// One line of the table.
pub(crate) struct Figure {
    name: String,
    unit: Unit,
    value: f64,
    threshold: Threshold,
}

enum Threshold {
    /// It is told, and held against nothing.
    None,
    AtMost(f64),
    AtLeast(f64),
}

/// Lines are printed as they come, so that whoever waits sees how far it is.
pub(crate) struct Table {
    out: Stdout,
}

impl Figure {
    /// A figure that is told only.
    pub(crate) fn new(name: impl Into<String>, unit: Unit, value: f64) -> Self {
        Self { name: name.into(), unit, value, threshold: Threshold::None }
    }

    /// The same, held against the most it may be.
    pub(crate) fn at_most(self, most: f64) -> Self {
        Self { threshold: Threshold::AtMost(most), ..self }
    }

    /// The same, held against the least it may be.
    pub(crate) fn at_least(self, least: f64) -> Self {
        Self { threshold: Threshold::AtLeast(least), ..self }
    }

    fn threshold_text(&self) -> String {
        match self.threshold {
            Threshold::None => String::new(),
            Threshold::AtMost(most) => format!("≤ {}", self.unit.format_value(most)),
            Threshold::AtLeast(least) => format!("≥ {}", self.unit.format_value(least)),
        }
    }

    fn verdict(&self) -> &'static str {
        match self.threshold {
            Threshold::None => "",
            Threshold::AtMost(most) if self.value > most => "over",
            Threshold::AtLeast(least) if self.value < least => "under",
            Threshold::AtMost(_) | Threshold::AtLeast(_) => "ok",
        }
    }
}

impl Unit {
    fn format_value(self, value: f64) -> String {
        match self {
            Self::Millis => format!("{value:.1} ms"),
            Self::Micros => format!("{value:.0} µs"),
            Self::PerSecond => format!("{value:.0} /s"),
            Self::Mebibytes => format!("{value:.1} MiB"),
            Self::Bytes => format!("{value:.0} bytes"),
            Self::Times => format!("{value:.2} ×"),
            Self::Count => format!("{value:.0}"),
        }
    }
}

impl Table {
    /// Prints the head.
    pub(crate) fn print_head(out: Stdout) -> io::Result<Self> {
        let mut table = Self { out };
        table.line("figure", "value", "bar", "")?;
        let (name, number) = ("-".repeat(56), "-".repeat(12));
        table.line(&name, &number, &number, "-----")?;
        Ok(table)
    }

    /// Prints one line.
    pub(crate) fn add(&mut self, figure: &Figure) -> io::Result<()> {
        let value = figure.unit.format_value(figure.value);
        self.line(&figure.name, &value, &figure.threshold_text(), figure.verdict())
    }

    /// Prints several.
    pub(crate) fn add_all(&mut self, figures: &[Figure]) -> anyhow::Result<()> {
        figures.iter().try_for_each(|figure| Ok(self.add(figure)?))
    }

    fn line(&mut self, name: &str, value: &str, bar: &str, verdict: &str) -> io::Result<()> {
        writeln!(self.out, "| {name:<56} | {value:>12} | {bar:>12} | {verdict:<5} |")
    }
}
