//! The table: a figure, its value, its threshold, and the verdict.

use std::io::{self, Stdout, Write as _};

/// The unit of a number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// A duration in milliseconds.
    Millis,
    /// A duration in microseconds.
    Micros,
    /// A rate per second.
    PerSecond,
    /// A size in mebibytes.
    Mebibytes,
    /// A size in bytes.
    Bytes,
    /// A multiple of another quantity.
    Times,
    /// A plain count.
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
    /// The figure has no threshold.
    None,
    AtMost(f64),
    AtLeast(f64),
}

/// Prints each line at once, so that the user sees the progress.
pub(crate) struct Table {
    out: Stdout,
}

impl Figure {
    /// Creates a figure without a threshold.
    pub(crate) fn new(name: impl Into<String>, unit: Unit, value: f64) -> Self {
        Self { name: name.into(), unit, value, threshold: Threshold::None }
    }

    /// Sets the maximum of the figure.
    pub(crate) fn at_most(self, most: f64) -> Self {
        Self { threshold: Threshold::AtMost(most), ..self }
    }

    /// Sets the minimum of the figure.
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
    /// Prints the head of the table.
    pub(crate) fn print_head(out: Stdout) -> io::Result<Self> {
        let mut table = Self { out };
        table.line("figure", "value", "bar", "")?;
        let (name, number) = ("-".repeat(56), "-".repeat(12));
        table.line(&name, &number, &number, "-----")?;
        Ok(table)
    }

    /// Prints one line of the table.
    pub(crate) fn add(&mut self, figure: &Figure) -> io::Result<()> {
        let value = figure.unit.format_value(figure.value);
        self.line(&figure.name, &value, &figure.threshold_text(), figure.verdict())
    }

    /// Prints several lines of the table.
    pub(crate) fn add_all(&mut self, figures: &[Figure]) -> anyhow::Result<()> {
        figures.iter().try_for_each(|figure| Ok(self.add(figure)?))
    }

    fn line(&mut self, name: &str, value: &str, bar: &str, verdict: &str) -> io::Result<()> {
        writeln!(self.out, "| {name:<56} | {value:>12} | {bar:>12} | {verdict:<5} |")
    }
}
