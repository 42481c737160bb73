//! Instances: list, clear, remove; and feedback about the program itself.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    id::{RunId, Seq},
    target::{InstanceRef, Target},
    time::Millis,
};

/// One instance; `GET /workflows` returns a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceView {
    /// Workflow and tag of the instance.
    pub instance: InstanceRef,
    /// Folder of the workflow file.
    pub project: PathBuf,
    /// Live run of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<RunId>,
    /// Last run of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<RunId>,
}

/// Body of `POST /workflows/clear` and `POST /workflows/remove`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceRequest {
    /// Instance to change; absent: the only instance of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
}

/// Reply to a clear: the messages that are hidden from now on. The store keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Cleared")]
pub struct InstanceCleared {
    pub instance: InstanceRef,
    /// Last hidden message.
    pub until: Seq,
}

/// Reply to a removal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Removed")]
pub struct InstanceRemoved {
    /// Instance that was removed.
    pub instance: InstanceRef,
    /// Folder of the workflow file, which stays unchanged.
    pub project: PathBuf,
}

/// Body of `POST /feedback`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FeedbackRequest {
    /// Feedback about the program.
    pub message: String,
}

/// One piece of feedback about the program; `GET /feedback` returns a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FeedbackView {
    /// Time of the feedback.
    pub ts: Millis,
    /// Author of the feedback.
    pub by: String,
    /// Instance that the feedback came from, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<InstanceRef>,
    pub message: String,
}
