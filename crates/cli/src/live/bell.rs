//! The bell of the terminal: a sound when the followed run needs its person, or has ended.

use agent_worker_protocol::{Event, EventBody, PauseCause};

use crate::{
    error::CliError,
    input::{config_file::ConfigFile, context::CommandContext},
    output::clock,
};

/// Age from which an event is history that a person reads later.
const MAX_AGE_MS: i64 = 10_000;

/// The setting `notify.bell`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BellSetting {
    On,
    Off,
}

impl BellSetting {
    /// Returns the setting of the configuration file.
    pub(crate) fn of(config: &ConfigFile) -> Self {
        if config.content.bell.unwrap_or(true) { Self::On } else { Self::Off }
    }

    /// Reads the setting for a command that needs nothing else of the file, which therefore works with a broken file.
    pub(crate) fn read_or_warn(ctx: &mut CommandContext<'_>) -> Result<Self, CliError> {
        match ConfigFile::read(ctx.settings) {
            Ok(config) => Ok(Self::of(&config)),
            Err(error) => {
                ctx.console.warn(&error.to_report_error().message)?;
                Ok(Self::of(&ConfigFile::default()))
            }
        }
    }

    /// Rings for an event that has just happened.
    pub(crate) fn ring_for(
        self,
        event: &Event,
        ctx: &mut CommandContext<'_>,
    ) -> Result<(), CliError> {
        let age = clock::now().get().saturating_sub(event.ts.get());
        match self {
            Self::On if needs_person(&event.body) && age < MAX_AGE_MS => ctx.console.ring_bell(),
            Self::On | Self::Off => Ok(()),
        }
    }
}

fn needs_person(body: &EventBody) -> bool {
    match body {
        EventBody::QuestionOpen(_) | EventBody::ApprovalOpen(_) | EventBody::RunEnded(_) => true,
        EventBody::RunPaused(paused) => match paused.cause {
            PauseCause::Limit { .. } | PauseCause::Interrupted => true,
            PauseCause::Human | PauseCause::User => false,
        },
        _ => false,
    }
}
