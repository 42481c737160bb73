//! Instances: listed, cleared, removed; and what is said about the program itself.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    id::{RunId, Seq},
    target::{InstanceRef, Target},
    time::Millis,
};

/// `GET /workflows` gives a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceView {
    /// What it is called.
    pub instance: InstanceRef,
    /// The folder its file lies in.
    pub project: PathBuf,
    /// Its live run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<RunId>,
    /// Its last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<RunId>,
}

/// `POST /workflows/clear`, `POST /workflows/remove`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceRequest {
    /// Which; absent: the caller's only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
}

/// The answer to a clear: what is hidden from now on. It is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Cleared")]
pub struct InstanceCleared {
    /// Where.
    pub instance: InstanceRef,
    /// The last message that is hidden.
    pub until: Seq,
}

/// The answer to a removal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Removed")]
pub struct InstanceRemoved {
    /// What is gone.
    pub instance: InstanceRef,
    /// The folder its file lies in, which is left alone.
    pub project: PathBuf,
}

/// `POST /feedback`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FeedbackRequest {
    /// What to say about the program.
    pub message: String,
}

/// `GET /feedback` gives a list of them: what somebody said about the program itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FeedbackView {
    /// When.
    pub ts: Millis,
    /// Who.
    pub by: String,
    /// Where, if it was in an instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<InstanceRef>,
    /// What.
    pub message: String,
}
