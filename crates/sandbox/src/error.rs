//! Errors of the sandbox: the cause, and the next step where there is one.

use std::{io, path::PathBuf};

use thiserror::Error as ThisError;

/// The reason why a sandbox cannot be used.
#[derive(Debug, ThisError)]
pub enum SandboxError {
    /// The kernel has no Landlock.
    #[error(
        "this kernel has no Landlock, so no sandbox is possible: {why}; use Linux 5.13 or later with Landlock enabled, \
         or `sandbox: off`"
    )]
    NoLandlock {
        /// The report of the kernel.
        why: String,
    },
    /// The level `full` is required and impossible.
    #[error(
        "the sandbox level `full` is not possible here: {why}; correct that, or use `sandbox: on`"
    )]
    NotFull {
        /// The missing part.
        why: String,
    },
    /// A list of hosts is required and impossible.
    #[error(
        "a list of hosts for the network needs the sandbox level `full`: {why}; correct that, or use `network: true` for the \
         whole network or `network: false` for none"
    )]
    NoHostList {
        /// The missing part.
        why: String,
    },
    /// A port of this machine that the list names cannot be offered inside.
    #[error("could not offer the port {port} of this machine in the sandbox: {error}")]
    Forward {
        /// Number of the port.
        port: u16,
        /// The report of the system.
        error: io::Error,
    },
    /// The working folder would expose the files that the sandbox hides.
    #[error(
        "the working folder `{folder}` cannot be in a sandbox: {why}; use a folder of the project"
    )]
    UnsafeFolder {
        /// The working folder.
        folder: PathBuf,
        /// Conflict with the sandbox.
        why: &'static str,
    },
    /// A path in the settings cannot be used.
    #[error("the path `{path}` in `sandbox` cannot be used: {why}")]
    BadPath {
        /// The path, as resolved.
        path: PathBuf,
        /// Conflict with the sandbox.
        why: &'static str,
    },
    /// A file that runs outside of the sandbox cannot be protected.
    #[error("the path `{path}` of the `notify` command cannot be protected from the agent: {why}")]
    Unprotected {
        /// The path, as resolved.
        path: PathBuf,
        /// Reason and next step.
        why: &'static str,
    },
    /// A protected path is a link, which no mount can hold.
    #[error("`{path}` is a link, which the sandbox cannot protect; replace it with its target")]
    Link {
        /// Path of the link.
        path: PathBuf,
    },
    /// Landlock cannot leave out a path of a writable folder.
    #[error(
        "`{hidden}` is inside the writable folder `{folder}`, which only the level `full` can hide; install bubblewrap, \
         or move it"
    )]
    NotHidden {
        /// The path to hide.
        hidden: PathBuf,
        /// The writable folder.
        folder: PathBuf,
    },
    /// The program cannot be started inside.
    #[error(
        "`{program}` cannot start inside the sandbox: {error}; add the folders that it needs to `sandbox: {{read: […]}}`"
    )]
    Start {
        /// Path or name of the program.
        program: String,
        /// The report of the system.
        error: io::Error,
    },
    /// A step of the system failed.
    #[error("could not {doing}: {error}")]
    System {
        /// Step, as a verb phrase.
        doing: &'static str,
        /// The report of the system.
        error: io::Error,
    },
}

impl SandboxError {
    /// Returns a function that wraps an error of the step `doing`.
    pub(crate) fn during<E: Into<io::Error>>(doing: &'static str) -> impl Fn(E) -> Self {
        move |error| Self::System { doing, error: error.into() }
    }

    /// Returns a function that wraps an error of a library in the step `doing`.
    pub(crate) fn of_library<E: std::fmt::Display>(doing: &'static str) -> impl Fn(E) -> Self {
        move |error| Self::System { doing, error: io::Error::other(error.to_string()) }
    }
}
