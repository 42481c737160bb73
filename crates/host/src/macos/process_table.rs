//! The table of all processes (`kern.proc.all`).
//!
//! The crate `libproc` is not used: its build script cannot run on another system than macOS, so the code could not be
//! checked here. The crate `sysinfo` rounds start times to seconds.

use sysctl::{Ctl, CtlType, CtlValue, Sysctl as _};

use crate::{
    kinfo::{ProcessRecord, parse_records},
    process_tree::Stat,
};

/// Number of reads of a table that grows meanwhile.
const MAX_READS: usize = 5;

/// Returns every process of the system except the kernel.
pub(crate) fn all_processes() -> Vec<Stat> {
    all_records().into_iter().map(|record| record.stat).collect()
}

/// Returns one process, if it exists.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    record_of(pid).map(|record| record.stat)
}

/// Returns the name of a process: the first 16 bytes of its program's name, or the name that it gave itself.
pub fn process_name(pid: u32) -> Option<String> {
    record_of(pid).map(|record| record.name)
}

/// Returns none: no sandbox exists here, so the memory of its processes is not measured.
pub(crate) fn resident_memory(_pid: u32) -> Option<u64> {
    None
}

/// Returns none, for the same reason.
pub(crate) fn proportional_memory(_pid: u32) -> Option<u64> {
    None
}

/// Returns the entry of one process, if it exists.
pub(super) fn record_of(pid: u32) -> Option<ProcessRecord> {
    all_records().into_iter().find(|record| record.stat.pid == pid)
}

fn all_records() -> Vec<ProcessRecord> {
    // The type is given, because the kernel does not describe this value.
    let read = || Ctl::new_with_type("kern.proc.all", CtlType::Node, "")?.value();
    let table = (0..MAX_READS).find_map(|_| match read() {
        Ok(CtlValue::Node(table)) => Some(table),
        Ok(_) | Err(_) => None,
    });
    parse_records(&table.unwrap_or_default())
}
