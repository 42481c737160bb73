//! Statistics of measurements: the median and the percentiles.

use std::time::Duration;

/// Measurements of one quantity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample(Vec<Duration>);

impl Sample {
    /// Returns the median.
    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// Returns the percentile by the nearest-rank method; zero for an empty sample.
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

/// Returns the median of numbers; zero if there are none.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = numbers.into_iter().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Converts a duration to milliseconds.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Converts a duration to microseconds.
pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
