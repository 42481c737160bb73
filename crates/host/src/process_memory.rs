//! The memory of a set of processes. Reads files of the system, and blocks.

use crate::{process_tree::Process, system};

/// Returns the memory of these processes in bytes, for a comparison with `limit`.
///
/// Up to the limit the result is the sum of their resident memory, which counts a shared page once for each process and is
/// cheap to read. Only a larger sum is measured exactly: then a shared page counts once. A process that hides its pages
/// counts with its resident memory.
pub fn tree_memory(processes: &[Process], limit: u64) -> u64 {
    let resident = |process: &Process| system::resident_memory(process.pid).unwrap_or_default();
    let most = processes.iter().map(resident).sum();
    if most <= limit {
        return most;
    }
    let exact = |process: &Process| {
        system::proportional_memory(process.pid).unwrap_or_else(|| resident(process))
    };
    processes.iter().map(exact).sum()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_exact_memory_of_this_process_is_not_more_than_the_resident_one() {
        let own = [Process::of(std::process::id()).unwrap()];
        let resident = tree_memory(&own, u64::MAX);
        assert!(resident > 1 << 20, "{resident}");
        let exact = tree_memory(&own, 0);
        // Memory may be allocated between the two reads.
        assert!((1 << 19..resident + (64 << 20)).contains(&exact), "{exact} of {resident}");
        let both = tree_memory(&[own[0], own[0]], u64::MAX);
        assert!(both > resident, "{both}");
    }
}
