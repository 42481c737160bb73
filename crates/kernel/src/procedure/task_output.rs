//! Outputs of tasks: their formats, and their place in the row or in a resource.

use agent_worker_store::{OutputContent, OutputFormat, TaskOutput, WriteActor, WriteContext};
use agent_worker_workflow::TaskFormat;
use serde::de::IgnoredAny;

use super::task_error::TaskError;
use crate::{
    kernel::{Kernel, RunContext},
    messaging::size_limits,
};

impl Kernel {
    /// Stores the text of an output for the row of its task.
    pub(crate) async fn task_output(
        &self,
        run_context: &RunContext,
        text: String,
        format: TaskFormat,
    ) -> Result<TaskOutput, TaskError> {
        let (text, format) = formatted(text, format).map_err(TaskError::Failed)?;
        let size = text.len();
        if size <= size_limits::MAX_INLINE_BYTES {
            return Ok(TaskOutput { format, content: OutputContent::Inline(text) });
        }
        size_limits::check("the output of a task", size, size_limits::MAX_RESOURCE_BYTES)
            .map_err(|error| TaskError::Failed(error.to_string()))?;
        let by = WriteContext::new(WriteActor::User);
        let kind = match format {
            OutputFormat::Text => "text/plain",
            OutputFormat::Json => "application/json",
        };
        let (workflow, at) = (run_context.workflow, self.now().wall);
        let id =
            self.store.resource_put(by, workflow, kind.to_owned(), text.into_bytes(), at).await?;
        Ok(TaskOutput { format, content: OutputContent::Resource(id) })
    }
}

/// Returns the text of an output in its format, or the reason why it is not in that format.
fn formatted(text: String, format: TaskFormat) -> Result<(String, OutputFormat), String> {
    match format {
        TaskFormat::Text => Ok((text, OutputFormat::Text)),
        TaskFormat::Json => match serde_json::from_str::<IgnoredAny>(&text) {
            Ok(_) => Ok((compact(&text), OutputFormat::Json)),
            Err(error) => Err(format!("the output is not JSON (`format: json`): {error}")),
        },
        TaskFormat::Lines => {
            let lines: Vec<&str> = text.lines().collect();
            let json = serde_json::to_string(&lines).map_err(|error| error.to_string())?;
            Ok((json, OutputFormat::Json))
        }
    }
}

/// Removes the white space between the tokens of valid JSON: keys keep their order, and numbers their digits.
fn compact(json: &str) -> String {
    let (mut in_text, mut escaped) = (false, false);
    let keep = |c: &char| {
        if in_text {
            (in_text, escaped) = match c {
                _ if escaped => (true, false),
                '\\' => (true, true),
                '"' => (false, false),
                _ => (true, false),
            };
            return true;
        }
        in_text = *c == '"';
        !c.is_ascii_whitespace()
    };
    json.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_text_unless_its_format_says_otherwise() {
        let text = |text: &str, format| formatted(text.to_owned(), format);
        let json = |json: &str| Ok((json.to_owned(), OutputFormat::Json));
        let given = "{ \"b\" : [1, 2.50],\n \"a\": \" x \\\" y \" }";
        assert_eq!(text(given, TaskFormat::Text), Ok((given.to_owned(), OutputFormat::Text)));
        assert_eq!(text(given, TaskFormat::Json), json(r#"{"b":[1,2.50],"a":" x \" y "}"#));
        assert_eq!(text("a\n b\r\n\nc", TaskFormat::Lines), json(r#"["a"," b","","c"]"#));
        assert_eq!(text("", TaskFormat::Lines), json("[]"));
        for bad in ["", "{", "true false", "NaN", "'a'"] {
            let error = text(bad, TaskFormat::Json).unwrap_err();
            assert!(error.starts_with("the output is not JSON"), "{bad}: {error}");
        }
    }
}
