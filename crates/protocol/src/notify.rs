//! Notifications for a person who is needed: the settings of their channels, their occasions, and their wire format.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::{id::RunId, name::AgentName, span::Span, target::InstanceRef, time::Millis};

/// Occasion of a notification.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum NotifyOccasion {
    /// An agent asked a person a question.
    Question,
    /// An agent waits for an approval.
    Approval,
    /// A proposal waits for the user's vote.
    Vote,
    /// A run is paused at a limit.
    Limit,
    /// A run is paused because it was interrupted too long ago.
    Interrupted,
    /// A run failed.
    Failed,
    /// A run is done.
    Done,
}

impl NotifyOccasion {
    /// All occasions, in the order of the documentation.
    pub const ALL: [Self; 7] = [
        Self::Question,
        Self::Approval,
        Self::Vote,
        Self::Limit,
        Self::Interrupted,
        Self::Failed,
        Self::Done,
    ];
}

/// Condition of a notification.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum NotifyWhen {
    /// No person follows the run at a terminal.
    #[default]
    Unwatched,
    /// Notifications are also sent while a person follows the run.
    Always,
}

/// Channel of a notification.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum NotifyChannel {
    /// The desktop of the user.
    Desktop,
    /// A command of the user.
    Command,
    /// A URL that gets a request.
    Webhook,
}

impl NotifyChannel {
    /// All channels, in the order of delivery.
    pub const ALL: [Self; 3] = [Self::Desktop, Self::Command, Self::Webhook];
}

/// Notifications of a run. An absent value is not set here: a lower level may set it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotifySettings {
    /// True to show a notification on the desktop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desktop: Option<bool>,
    /// Program and its arguments, which gets the notification as JSON on stdin; empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// URL that gets the notification as JSON in a POST request; empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// Condition of the notifications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<NotifyWhen>,
    /// Occasions of the notifications; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Vec<NotifyOccasion>>,
}

impl NotifySettings {
    /// Returns settings without any channel, which also hide those of a lower level.
    pub fn off() -> Self {
        Self {
            desktop: Some(false),
            command: Some(Vec::new()),
            webhook: Some(String::new()),
            ..Self::default()
        }
    }

    /// Fills the values that are not set from a lower level.
    #[must_use]
    pub fn or(self, lower: Self) -> Self {
        Self {
            desktop: self.desktop.or(lower.desktop),
            command: self.command.or(lower.command),
            webhook: self.webhook.or(lower.webhook),
            when: self.when.or(lower.when),
            on: self.on.or(lower.on),
        }
    }

    /// Returns true if nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if a notification goes to this channel.
    pub fn has_channel(&self, channel: NotifyChannel) -> bool {
        match channel {
            NotifyChannel::Desktop => self.desktop == Some(true),
            NotifyChannel::Command => self.command.as_ref().is_some_and(|words| !words.is_empty()),
            NotifyChannel::Webhook => self.webhook.as_ref().is_some_and(|url| !url.is_empty()),
        }
    }

    /// Returns true if a notification goes anywhere.
    pub fn has_any_channel(&self) -> bool {
        NotifyChannel::ALL.into_iter().any(|channel| self.has_channel(channel))
    }

    /// Returns true if the settings include this occasion.
    pub fn includes(&self, occasion: NotifyOccasion) -> bool {
        self.on.as_ref().is_none_or(|on| on.contains(&occasion))
    }
}

/// One notification, as a command and a webhook get it. `text` contains words of agents: cut, and without control
/// characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Id of the occurrence: the same if the notification is sent again.
    pub id: String,
    /// Occasion of the notification.
    pub occasion: NotifyOccasion,
    /// Instance of the run.
    pub instance: InstanceRef,
    /// Folder of the workflow file.
    pub project: String,
    /// Run that needs the person.
    pub run: RunId,
    /// Agent that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// One line without words of agents.
    pub title: String,
    /// Description of the occasion.
    pub text: String,
    /// Command that shows more.
    pub next: String,
    /// Time of the event.
    pub time: Millis,
}

/// A notification that could not be delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifyFailure {
    /// Time of the failure.
    pub at: Millis,
    /// Instance of the notification.
    pub instance: InstanceRef,
    /// Channel that failed.
    pub channel: NotifyChannel,
    /// Reason of the failure.
    pub why: String,
}

/// The newest failures, oldest first: the content of a file in the daemon's home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifyFailures {
    /// The last failure of each channel that has not worked since.
    pub failures: Vec<NotifyFailure>,
}

impl NotifyFailures {
    /// Name of the file, in the folder `notify` of the home.
    pub const FILE: &'static str = "failures.json";
}

/// Settings of the user for a new run. The command that starts the run reads them from the user's configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunDefaults {
    /// Backend of an agent whose keys imply none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Model of an agent that names none, by its backend.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, String>,
    /// Limits that the file does not set.
    #[serde(default)]
    pub limits: LimitDefaults,
    /// Notifications that the file does not set.
    #[serde(default)]
    pub notify: NotifySettings,
    /// Environment of the commands that notify the user.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notify_env: BTreeMap<String, String>,
}

/// Limits of a run. An absent value is not set here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitDefaults {
    /// Maximum number of messages in the chain that leads to a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    /// Maximum number of turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Maximum time in which the run can work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<Span>,
    /// Time for which live turns may continue after the wall limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_grace: Option<Span>,
    /// Maximum cost in millionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Maximum number of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_higher_level_sets_single_values_and_can_remove_every_channel() {
        let lower = NotifySettings {
            desktop: Some(true),
            webhook: Some("https://example.org/x".to_owned()),
            when: Some(NotifyWhen::Always),
            ..NotifySettings::default()
        };
        let higher = NotifySettings { webhook: Some(String::new()), ..NotifySettings::default() };
        let both = higher.or(lower.clone());
        assert!(both.has_channel(NotifyChannel::Desktop));
        assert!(!both.has_channel(NotifyChannel::Webhook));
        assert_eq!(both.when, Some(NotifyWhen::Always));
        assert!(!NotifySettings::off().or(lower).has_any_channel());
    }

    #[test]
    fn every_occasion_is_included_unless_some_are_named() {
        let some = |on| NotifySettings { on, ..NotifySettings::default() };
        assert!(NotifyOccasion::ALL.into_iter().all(|one| some(None).includes(one)));
        let questions = some(Some(vec![NotifyOccasion::Question]));
        assert!(questions.includes(NotifyOccasion::Question));
        assert!(!questions.includes(NotifyOccasion::Done));
    }
}
