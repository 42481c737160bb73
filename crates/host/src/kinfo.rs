//! Entries of the process table of macOS: the structure `kinfo_proc` of `sys/sysctl.h`, the same on both processors.
//!
//! `scripts/check-macos` compares each offset with the headers of macOS.

use crate::process_tree::Stat;

/// Length of one entry.
const RECORD_BYTES: usize = 648; // sizeof(struct kinfo_proc)
const START_SECONDS: usize = 0; // offsetof(struct kinfo_proc, kp_proc.p_un.__p_starttime.tv_sec)
const START_MICROSECONDS: usize = 8; // offsetof(struct kinfo_proc, kp_proc.p_un.__p_starttime.tv_usec)
const STATE: usize = 36; // offsetof(struct kinfo_proc, kp_proc.p_stat)
const PID: usize = 40; // offsetof(struct kinfo_proc, kp_proc.p_pid)
const NAME: usize = 243; // offsetof(struct kinfo_proc, kp_proc.p_comm)
const NAME_BYTES: usize = 17; // sizeof(((struct kinfo_proc *)0)->kp_proc.p_comm)
const UID: usize = 420; // offsetof(struct kinfo_proc, kp_eproc.e_ucred.cr_uid)
const PARENT: usize = 560; // offsetof(struct kinfo_proc, kp_eproc.e_ppid)
/// The state of a dead process whose parent has not reaped it.
const ZOMBIE: u8 = 5; // SZOMB

/// One process in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessRecord {
    pub(crate) stat: Stat,
    /// The effective user.
    pub(crate) uid: u32,
    /// The first bytes of the program's name.
    pub(crate) name: String,
}

/// Parses the table. The kernel itself (pid 0) is left out.
pub(crate) fn parse_records(table: &[u8]) -> Vec<ProcessRecord> {
    table.chunks_exact(RECORD_BYTES).filter_map(parse_record).collect()
}

fn parse_record(record: &[u8]) -> Option<ProcessRecord> {
    let pid = word(record, PID)?;
    let name = record.get(NAME..NAME + NAME_BYTES)?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let seconds =
        u64::from_ne_bytes(record.get(START_SECONDS..START_SECONDS + 8)?.try_into().ok()?);
    let start_time =
        seconds.saturating_mul(1_000_000).saturating_add(word(record, START_MICROSECONDS)?.into());
    let stat = Stat {
        pid,
        parent: word(record, PARENT)?,
        start_time,
        is_zombie: *record.get(STATE)? == ZOMBIE,
        is_kernel_thread: false,
    };
    let name = String::from_utf8_lossy(name).into_owned();
    (pid != 0).then_some(ProcessRecord { stat, uid: word(record, UID)?, name })
}

fn word(record: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(record.get(offset..offset + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(pid: u32, parent: u32, state: u8, name: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; RECORD_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(START_SECONDS, &1_700_000_000_u64.to_ne_bytes());
        put(START_MICROSECONDS, &42_u32.to_ne_bytes());
        put(STATE, &[state]);
        put(PID, &pid.to_ne_bytes());
        put(NAME, name);
        put(UID, &501_u32.to_ne_bytes());
        put(PARENT, &parent.to_ne_bytes());
        bytes
    }

    #[test]
    fn the_table_is_read_without_the_kernel_and_without_a_part_of_an_entry() {
        let table = [
            record(0, 0, 2, b"kernel_task"),
            record(7, 1, 2, b"zsh"),
            record(9, 7, ZOMBIE, b"sixteen-letters-"),
            vec![1; RECORD_BYTES - 1],
        ];
        let expected = |pid, parent, is_zombie, name: &str| ProcessRecord {
            stat: Stat {
                pid,
                parent,
                start_time: 1_700_000_000_000_042,
                is_zombie,
                is_kernel_thread: false,
            },
            uid: 501,
            name: name.to_owned(),
        };
        let found = parse_records(&table.concat());
        assert_eq!(found, [expected(7, 1, false, "zsh"), expected(9, 7, true, "sixteen-letters-")]);
    }
}
