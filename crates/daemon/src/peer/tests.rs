//! Real processes, and what their chains of parents show.

use std::cell::RefCell;

use super::*;
use crate::tests::family::{ELSEWHERE, Family};

fn attempt(n: u128) -> AttemptId {
    AttemptId::new(uuid::Uuid::from_u128(n))
}

#[test]
fn who_it_is_follows_from_what_the_chain_shows() {
    let (one, two) = (Standing::Lives(attempt(1)), Standing::Lives(attempt(2)));
    for (standings, top, expected) in [
        (&[][..], Top::System, Caller::User),
        (&[], Top::Daemon, Caller::Nobody),
        (&[Standing::Foreign], Top::System, Caller::Foreign),
        (&[Standing::Foreign; 2], Top::System, Caller::Foreign),
        (&[Standing::Foreign], Top::Daemon, Caller::Nobody),
        (&[one], Top::Daemon, Caller::Attempt(attempt(1))),
        (&[one], Top::System, Caller::Attempt(attempt(1))),
        (&[Standing::Foreign, one], Top::Daemon, Caller::Nobody),
        (&[Standing::Foreign, one], Top::System, Caller::Nobody),
        (&[Standing::Foreign, Standing::Over], Top::System, Caller::Nobody),
        (&[Standing::Over], Top::System, Caller::Nobody),
        (&[one, Standing::Over], Top::Daemon, Caller::Nobody),
        (&[one, two], Top::Daemon, Caller::Nobody),
    ] {
        assert_eq!(judge(standings, top), expected, "{standings:?} {top:?}");
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
        let family = Family::new(script, Some(&mark));
        let lineage = lineage(family.member, ELSEWHERE).unwrap();
        assert_eq!(lineage.marks, BTreeSet::from([mark.clone()]), "{script}");
        assert_eq!(lineage.top, Top::System, "{script}");
    }
}

#[test]
fn a_child_that_names_another_attempt_tells_two_stories() {
    let script = format!("env {ATTEMPT_MARKER}={} bash -c 'echo $$; read'; true", attempt(8));
    let family = Family::new(&script, Some(&attempt(7).to_string()));
    let lineage = lineage(family.member, ELSEWHERE).unwrap();
    assert_eq!(lineage.marks, BTreeSet::from([7, 8].map(|n| attempt(n).to_string())));
}

#[test]
fn what_runs_below_the_daemon_is_told_apart_from_the_user() {
    let family = Family::new("bash -c 'echo $$; read'; true", None);
    let below_us = lineage(family.member, std::process::id()).unwrap();
    assert_eq!(below_us.top, Top::Daemon);
    let beside = lineage(family.member, ELSEWHERE).unwrap();
    assert_eq!(beside.top, Top::System);
}

#[test]
fn whoever_is_gone_cannot_be_made_out() {
    let mut family = Family::new("echo $$", None);
    family.wait();
    assert_eq!(lineage(family.member, ELSEWHERE), None);
}

#[test]
fn marks_above_the_daemon_are_not_its_childrens() {
    let mark = attempt(7).to_string();
    let family = Family::new("bash -c 'echo $$; read'; true", Some(&mark));
    let daemon = family.member;
    let lineage = lineage(family.member, daemon).unwrap();
    assert_eq!(lineage, Lineage { marks: BTreeSet::new(), top: Top::Daemon });
}

/// What is made of a chain that looks like this, look after look, to the end of the script; after that nobody is there.
fn read_while(looks: &[Option<&[u32]>]) -> Option<Vec<u32>> {
    let looks = RefCell::new(looks.iter());
    let process = |pid: &u32| Process { pid: *pid, start_time: 9 };
    let look = || looks.borrow_mut().next()?.map(|pids| pids.iter().map(process).collect());
    let read = |chain: &[Process]| Ok(chain.iter().map(|process| process.pid).collect());
    steady(look, read)
}

#[test]
fn a_chain_counts_only_when_it_stood_still_while_it_was_read() {
    let whole = Some(&[30, 20, 10, 1][..]);
    let adopted = Some(&[30, 10, 1][..]);
    for (looks, expected) in [
        (&[whole, whole][..], whole),
        // The parent went before, between or after the two looks: the next walk finds the new one.
        (&[None, adopted, adopted], adopted),
        (&[whole, None, adopted, adopted], adopted),
        (&[whole, adopted, adopted, adopted], adopted),
        // It never stands still, or is gone.
        (&[whole, adopted].repeat(WALKS), None),
        (&[None, None], None),
        (&[whole], None),
    ] {
        assert_eq!(read_while(looks), expected.map(<[u32]>::to_vec), "{looks:?}");
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
    assert_eq!((steady(chain, read), *tries.borrow()), (None, WALKS));
}
