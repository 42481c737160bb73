//! Tests of real processes and their chains of parents.

use std::cell::RefCell;

use super::*;
use crate::tests::process_family::{ProcessFamily, UNUSED_PID};

fn attempt(n: u128) -> AttemptId {
    AttemptId::new(uuid::Uuid::from_u128(n))
}

#[test]
fn who_it_is_follows_from_what_the_chain_shows() {
    let (one, two) = (MarkStatus::Live(attempt(1)), MarkStatus::Live(attempt(2)));
    let (left, doubt) =
        (Caller::Leftover { live: None }, Caller::Leftover { live: Some(attempt(1)) });
    for (statuses, top, expected) in [
        (&[][..], ChainTop::System, Caller::User),
        (&[], ChainTop::Daemon, left),
        (&[MarkStatus::Foreign], ChainTop::System, Caller::Foreign),
        (&[MarkStatus::Foreign; 2], ChainTop::System, Caller::Foreign),
        (&[MarkStatus::Foreign], ChainTop::Daemon, left),
        (&[one], ChainTop::Daemon, Caller::Attempt(attempt(1))),
        (&[one], ChainTop::System, Caller::Attempt(attempt(1))),
        (&[MarkStatus::Foreign, one], ChainTop::Daemon, doubt),
        (&[MarkStatus::Foreign, one], ChainTop::System, doubt),
        (&[MarkStatus::Foreign, MarkStatus::Ended], ChainTop::System, left),
        (&[MarkStatus::Ended], ChainTop::System, left),
        (&[one, MarkStatus::Ended], ChainTop::Daemon, left),
        (&[one, two], ChainTop::Daemon, left),
    ] {
        assert_eq!(decide_caller(statuses, top), expected, "{statuses:?} {top:?}");
    }
}

#[test]
fn a_child_that_sheds_its_environment_and_session_still_has_its_parents() {
    let mark = attempt(7).to_string();
    for script in [
        "echo $$; read",
        "env -i bash -c 'echo $$; read'; true",
        "env -i setsid --wait bash -c 'env -i bash -c \"echo \\$\\$; read\"; true'; true",
    ] {
        let family = ProcessFamily::new(script, Some(&mark));
        let lineage = read_lineage(family.observed_pid, UNUSED_PID).unwrap();
        assert_eq!(lineage.marks, BTreeSet::from([mark.clone()]), "{script}");
        assert_eq!(lineage.top, ChainTop::System, "{script}");
    }
}

#[test]
fn a_child_that_names_another_attempt_has_both_marks() {
    let script = format!("env {ATTEMPT_MARKER}={} bash -c 'echo $$; read'; true", attempt(8));
    let family = ProcessFamily::new(&script, Some(&attempt(7).to_string()));
    let lineage = read_lineage(family.observed_pid, UNUSED_PID).unwrap();
    assert_eq!(lineage.marks, BTreeSet::from([7, 8].map(|n| attempt(n).to_string())));
}

#[test]
fn processes_below_the_daemon_are_distinguished_from_the_user() {
    let family = ProcessFamily::new("bash -c 'echo $$; read'; true", None);
    let below_us = read_lineage(family.observed_pid, std::process::id()).unwrap();
    assert_eq!(below_us.top, ChainTop::Daemon);
    let beside = read_lineage(family.observed_pid, UNUSED_PID).unwrap();
    assert_eq!(beside.top, ChainTop::System);
}

#[test]
fn an_ended_process_has_no_lineage() {
    let mut family = ProcessFamily::new("echo $$", None);
    family.wait();
    assert_eq!(read_lineage(family.observed_pid, UNUSED_PID), None);
}

#[test]
fn marks_above_the_daemon_are_not_its_childrens() {
    let mark = attempt(7).to_string();
    let family = ProcessFamily::new("bash -c 'echo $$; read'; true", Some(&mark));
    let daemon = family.observed_pid;
    let lineage = read_lineage(family.observed_pid, daemon).unwrap();
    assert_eq!((lineage.marks, lineage.top), (BTreeSet::new(), ChainTop::Daemon));
}

/// Reads a chain that changes with each read as scripted; after the script the process is gone.
fn read_scripted_chains(looks: &[Option<&[u32]>]) -> Option<Vec<u32>> {
    let looks = RefCell::new(looks.iter());
    let process = |pid: &u32| Process { pid: *pid, start_time: 9 };
    let look = || looks.borrow_mut().next()?.map(|pids| pids.iter().map(process).collect());
    let read = |chain: &[Process]| Ok(chain.iter().map(|process| process.pid).collect());
    read_while_stable(look, read)
}

#[test]
fn a_chain_counts_only_when_it_stood_still_while_it_was_read() {
    let whole = Some(&[30, 20, 10, 1][..]);
    let adopted = Some(&[30, 10, 1][..]);
    for (looks, expected) in [
        (&[whole, whole][..], whole),
        // The parent ended before, between or after the two reads: the next walk finds the new one.
        (&[None, adopted, adopted], adopted),
        (&[whole, None, adopted, adopted], adopted),
        (&[whole, adopted, adopted, adopted], adopted),
        // The chain keeps changing, or the process is gone.
        (&[whole, adopted].repeat(MAX_CHAIN_READS), None),
        (&[None, None], None),
        (&[whole], None),
    ] {
        assert_eq!(read_scripted_chains(looks), expected.map(<[u32]>::to_vec), "{looks:?}");
    }
}

#[test]
fn an_environment_that_cannot_be_read_is_read_again_and_never_guessed() {
    let chain = || Some(vec![Process { pid: 30, start_time: 9 }]);
    let tries = RefCell::new(0);
    let read = |_: &[Process]| {
        *tries.borrow_mut() += 1;
        Err::<(), _>(io::ErrorKind::WouldBlock.into())
    };
    assert_eq!((read_while_stable(chain, read), *tries.borrow()), (None, MAX_CHAIN_READS));
}
