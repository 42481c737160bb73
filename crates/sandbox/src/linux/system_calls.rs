//! The system calls that are refused inside, as a table, and the filter that refuses them.

use std::collections::BTreeMap;

use agent_worker_protocol::{SandboxLevel, SandboxNetwork};
use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use crate::error::SandboxError;

/// Calls that reach other processes, the kernel, its keys, mounts or namespaces.
const FORBIDDEN_CALLS: [c_long; 35] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
];

/// Calls that a program must believe to be absent, so that it uses an older one: `clone3` has its flags in memory, where
/// no filter sees them, and `io_uring` would bypass the filter.
const ABSENT_CALLS: [c_long; 4] = [
    libc::SYS_clone3,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
];

/// Flags of `clone` and `unshare` that create a namespace.
const NAMESPACE_FLAGS: [u64; 7] =
    [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

/// Requests to a terminal that type for its user.
const TERMINAL_INPUT_REQUESTS: [u64; 2] = [0x5412, 0x541C];

const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;
/// The part of a socket's type that is not a flag.
const SOCKET_TYPE_MASK: u64 = 0xf;
const SOCK_RAW: u64 = 3;
const SOCK_PACKET: u64 = 10;
const NETLINK_ROUTE: u64 = 0;

/// Bit of the numbers of the x32 calls, which x86-64 kernels may have in addition.
#[cfg(target_arch = "x86_64")]
const X32_BIT: c_long = 0x4000_0000;
/// Those of the forbidden calls that x32 numbers differently: ptrace, `kexec_load` and the memory of other processes.
#[cfg(target_arch = "x86_64")]
const X32_CALLS: [c_long; 4] = [521, 528, 539, 540];

type CallTable = BTreeMap<i64, Vec<SeccompRule>>;

/// Refuses the calls in the calling thread and in everything that it starts.
pub(crate) fn restrict_calls(
    network: &SandboxNetwork,
    level: SandboxLevel,
) -> Result<(), SandboxError> {
    let failed = SandboxError::of_library("build the filter of system calls");
    let forbidden = forbidden_calls(allowed_families(network, level)).map_err(&failed)?;
    let absent = absent_calls();
    for (table, errno) in [(forbidden, libc::EPERM), (absent, libc::ENOSYS)] {
        let filter = filter_program(table, errno).map_err(&failed)?;
        apply_filter(&filter)
            .map_err(SandboxError::of_library("apply the filter of system calls"))?;
    }
    Ok(())
}

/// Returns the families of sockets that a program may create.
fn allowed_families(network: &SandboxNetwork, level: SandboxLevel) -> &'static [u64] {
    match (network, level) {
        // Internet sockets would reach the network of the machine.
        (SandboxNetwork::Off, SandboxLevel::Basic) => &[AF_UNIX, AF_NETLINK],
        (SandboxNetwork::Off | SandboxNetwork::Hosts(_) | SandboxNetwork::Open, _) => {
            &[AF_UNIX, AF_INET, AF_INET6, AF_NETLINK]
        }
    }
}

fn filter_program(table: CallTable, errno: i32) -> Result<BpfProgram, BackendError> {
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    let refused = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(table, SeccompAction::Allow, refused, arch)?.try_into()
}

fn absent_calls() -> CallTable {
    let mut table = CallTable::new();
    for call in ABSENT_CALLS {
        refuse(&mut table, call, Vec::new());
    }
    table
}

fn forbidden_calls(families: &[u64]) -> Result<CallTable, BackendError> {
    let mut table = CallTable::new();
    for call in FORBIDDEN_CALLS {
        refuse(&mut table, call, Vec::new());
    }
    #[cfg(target_arch = "x86_64")]
    for call in X32_CALLS {
        table.insert(call | X32_BIT, Vec::new());
    }
    let mut flags = Vec::new();
    for flag in NAMESPACE_FLAGS {
        flags.push(rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)])?);
    }
    refuse(&mut table, libc::SYS_clone, flags.clone());
    refuse(&mut table, libc::SYS_unshare, flags);
    let typing =
        TERMINAL_INPUT_REQUESTS.iter().map(|request| rule(&[(1, SeccompCmpOp::Eq, *request)]));
    refuse(&mut table, libc::SYS_ioctl, typing.collect::<Result<_, _>>()?);
    refuse(&mut table, libc::SYS_socket, socket_rules(families)?);
    let others: Vec<_> = families.iter().map(|family| (0, SeccompCmpOp::Ne, *family)).collect();
    refuse(&mut table, libc::SYS_socketpair, vec![rule(&others)?]);
    Ok(table)
}

/// Refuses other families of sockets (such as vsock), raw and packet sockets, and netlink except for reading addresses.
fn socket_rules(families: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    let others: Vec<_> = families.iter().map(|family| (0, SeccompCmpOp::Ne, *family)).collect();
    let mut rules = vec![rule(&others)?];
    for family in [AF_INET, AF_INET6] {
        for kind in [SOCK_RAW, SOCK_PACKET] {
            let is_kind = SeccompCmpOp::MaskedEq(SOCKET_TYPE_MASK);
            rules.push(rule(&[(0, SeccompCmpOp::Eq, family), (1, is_kind, kind)])?);
        }
    }
    rules.push(rule(&[(0, SeccompCmpOp::Eq, AF_NETLINK), (2, SeccompCmpOp::Ne, NETLINK_ROUTE)])?);
    Ok(rules)
}

/// Returns a rule that matches a call whose arguments meet every condition.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    let conditions = conditions.iter().map(|(argument, operator, value)| {
        SeccompCondition::new(*argument, Dword, operator.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

/// Refuses a call: always, or if one of the rules matches.
fn refuse(table: &mut CallTable, call: c_long, rules: Vec<SeccompRule>) {
    #[cfg(target_arch = "x86_64")]
    table.insert(call | X32_BIT, rules.clone());
    table.insert(call, rules);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internet_sockets_exist_unless_they_would_reach_the_network_of_the_machine() {
        for (network, level, internet) in [
            (SandboxNetwork::Off, SandboxLevel::Full, true),
            (SandboxNetwork::Open, SandboxLevel::Full, true),
            (SandboxNetwork::Off, SandboxLevel::Basic, false),
            (SandboxNetwork::Open, SandboxLevel::Basic, true),
        ] {
            let families = allowed_families(&network, level);
            assert_eq!(families.contains(&AF_INET), internet, "{network:?} {level:?}");
            assert_eq!(families.contains(&AF_INET6), internet, "{network:?} {level:?}");
            assert!(!families.contains(&40), "vsock");
        }
    }

    #[test]
    fn every_table_becomes_a_program_of_the_kernel() {
        for network in [SandboxNetwork::Off, SandboxNetwork::Open] {
            let families = allowed_families(&network, SandboxLevel::Basic);
            let table = forbidden_calls(families).unwrap();
            assert!(filter_program(table, libc::EPERM).unwrap().len() < 4096);
        }
        assert!(filter_program(absent_calls(), libc::ENOSYS).is_ok());
    }
}
