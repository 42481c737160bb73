//! The result of a tool: a text for the model, or the reason of a failure.

use std::{fmt::Display, io};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Maximum size of the result of a tool that reads files. A longer one would become a resource.
pub(crate) const MAX_RESULT_BYTES: usize = 30 * 1024;

/// Result of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutput {
    /// Text for the model.
    Done(String),
    /// An image for the model.
    Image(ToolImage),
    /// The reason of a failure, for the model.
    Failed(String),
}

/// An image with its description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolImage {
    /// Description of the image.
    pub text: String,
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Content of the file in Base64.
    pub base64: String,
}

/// The reason of a failed call, for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolError(pub(crate) String);

/// Result of a step of a tool.
pub(crate) type ToolStep<T> = Result<T, ToolError>;

impl ToolError {
    /// Returns a function that makes a failure of an error of the system at `place`.
    pub(crate) fn at<P: Display>(doing: &str, place: P) -> impl Fn(io::Error) -> Self {
        move |error| Self(format!("could not {doing} {place}: {error}"))
    }
}

impl<T: Into<String>> From<T> for ToolError {
    fn from(why: T) -> Self {
        Self(why.into())
    }
}

impl From<ToolStep<String>> for ToolOutput {
    fn from(done: ToolStep<String>) -> Self {
        match done {
            Ok(text) => Self::Done(text),
            Err(ToolError(why)) => Self::Failed(why),
        }
    }
}

/// Reads the arguments of a call.
pub(crate) fn read_arguments<T: DeserializeOwned>(args: Map<String, Value>) -> ToolStep<T> {
    // Some models write null for an argument that they omit.
    let args = args.into_iter().filter(|(_, value)| !value.is_null()).collect();
    serde_json::from_value(Value::Object(args))
        .map_err(|error| ToolError(format!("the arguments are not valid: {error}")))
}

/// Returns the beginning of a text, at most `most` bytes.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
