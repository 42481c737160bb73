//! Checks of the user's configuration file, and of the notifications that could not be delivered.

use std::{fs, time::Duration};

use agent_worker_protocol::{NotifyFailure, NotifyFailures, Target};

use super::DoctorFinding;
use crate::{
    input::{config_file::ConfigFile, settings::CliSettings},
    output::{clock, text::format_age, text::one_line},
};

/// Checks that the configuration file can be used. Returns no finding without a file.
pub(super) fn check_config(settings: &CliSettings) -> Option<DoctorFinding> {
    match ConfigFile::read(settings) {
        Err(error) => Some(DoctorFinding::failed("config", &error)),
        Ok(ConfigFile { path, .. }) => path.map(|path| {
            DoctorFinding::ok("config", format!("{}, writable only by you", path.display()))
        }),
    }
}

/// Returns the last failure of each channel that has not worked since.
pub(super) fn check_notifications(settings: &CliSettings) -> Vec<DoctorFinding> {
    let file = settings.home.join("notify").join(NotifyFailures::FILE);
    let text = fs::read(file).unwrap_or_default();
    let list: NotifyFailures = serde_json::from_slice(&text).unwrap_or_default();
    list.failures.iter().map(failure_finding).collect()
}

fn failure_finding(failure: &NotifyFailure) -> DoctorFinding {
    let NotifyFailure { at, instance, channel, why } = failure;
    let age = u64::try_from(clock::now().get().saturating_sub(at.get())).unwrap_or_default();
    let (target, age) = (Target::instance(instance), format_age(Duration::from_millis(age)));
    let message = format!("{channel} of {target} failed {age} ago: {}", one_line(why));
    DoctorFinding::note("notify", message).with_hint("see the settings: agent-worker config")
}
