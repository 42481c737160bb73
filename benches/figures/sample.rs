//! What a list of measurements says: the middle, and how far its tail goes.

use std::time::Duration;

/// Measurements of one thing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample(Vec<Duration>);

impl Sample {
    /// The one in the middle.
    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// The smallest that so many percent do not exceed; zero where nothing was measured.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or_default()
    }

    pub(crate) fn push(&mut self, measured: Duration) {
        self.0.push(measured);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Extend<Duration> for Sample {
    fn extend<I: IntoIterator<Item = Duration>>(&mut self, more: I) {
        self.0.extend(more);
    }
}

impl IntoIterator for Sample {
    type Item = Duration;
    type IntoIter = std::vec::IntoIter<Duration>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The middle of some numbers; zero where there are none.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = numbers.into_iter().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// As milliseconds.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// As microseconds.
pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
