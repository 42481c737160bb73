//! Everything that is printed: the console, tables, reports, state words and styled text.

pub(crate) mod call_text;
pub(crate) mod clock;
mod closing_results;
pub(crate) mod console;
pub(crate) mod exit_report;
pub(crate) mod failure_text;
pub(crate) mod github;
pub(crate) mod hint;
pub(crate) mod manual_text;
pub(crate) mod next_steps;
pub(crate) mod report;
pub(crate) mod request_text;
pub(crate) mod restart_method;
#[cfg(test)]
pub(crate) mod samples;
pub(crate) mod state_text;
pub(crate) mod styled_line;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod turn_text;
pub(crate) mod verdict;
pub(crate) mod wrapped_line;
