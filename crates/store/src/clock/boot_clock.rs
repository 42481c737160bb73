//! The clock of the machine's current boot, and the id of that boot.

/// Returns the microseconds since the machine's boot, including the time it was suspended.
#[cfg(target_os = "linux")]
pub(super) fn boottime_us() -> i64 {
    let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    microseconds(since.tv_sec, since.tv_nsec)
}

/// Returns the microseconds since an instant of this boot, including the time the machine was suspended.
#[cfg(target_os = "macos")]
pub(super) fn boottime_us() -> i64 {
    use nix::{libc::CLOCK_MONOTONIC_RAW, time::ClockId};
    // Of the clocks of macOS that run during a suspension, only this one is independent of the wall clock.
    let clock = ClockId::from_raw(CLOCK_MONOTONIC_RAW);
    clock.now().map_or(0, |since| microseconds(since.tv_sec(), since.tv_nsec()))
}

fn microseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000).saturating_add(nanoseconds / 1_000)
}

/// Returns the id of the machine's current boot.
#[cfg(target_os = "linux")]
pub(super) fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// Returns the id of the machine's current boot.
#[cfg(target_os = "macos")]
pub(super) fn boot_id() -> Option<String> {
    use sysctl::{Ctl, CtlType, CtlValue, Sysctl as _};
    match Ctl::new_with_type("kern.bootsessionuuid", CtlType::String, "A").ok()?.value().ok()? {
        CtlValue::String(id) => Some(id),
        _ => None,
    }
}
