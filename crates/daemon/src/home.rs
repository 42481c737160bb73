//! The daemon's home folder: its permissions and its paths.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use agent_worker_host::{HoldMark, MAX_SOCKET_PATH_BYTES};
use agent_worker_protocol::{AttemptId, RunId};

/// The folder `~/.agent-worker`, checked: owned by us and closed to other users.
#[derive(Clone, Debug)]
pub(crate) struct DaemonHome {
    root: PathBuf,
}

/// The reason why a folder cannot be the home.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The folder cannot be created or read.
    #[error("cannot use {path} as home")]
    Io {
        /// Path of the home folder.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        error: io::Error,
    },
    /// The folder belongs to another user.
    #[error(
        "{path} belongs to user {owner}, not to you; set AGENT_WORKER_HOME to a folder of your own"
    )]
    NotOurs {
        /// Path of the home folder.
        path: PathBuf,
        /// Uid of the owner.
        owner: u32,
    },
    /// The path of the socket would be longer than the system allows.
    #[error(
        "{path} is too long for a socket's path by {over} bytes; set AGENT_WORKER_HOME to a shorter one"
    )]
    TooLong {
        /// Path of the socket.
        path: PathBuf,
        /// Number of bytes above the limit.
        over: usize,
    },
}

impl DaemonHome {
    /// Opens the home at `root`, and creates it if needed. Its mode becomes 0700.
    pub(crate) fn open(root: &Path) -> Result<Self, HomeError> {
        let failed = |error| HomeError::Io { path: root.to_owned(), error };
        create_private_folder(root).map_err(failed)?;
        let root = root.canonicalize().map_err(failed)?;
        let owner = fs::metadata(&root).map_err(failed)?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            return Err(HomeError::NotOurs { path: root, owner });
        }
        if fs::metadata(&root).map_err(failed)?.permissions().mode() & 0o777 != 0o700 {
            fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        }
        let home = Self { root };
        let socket = home.socket();
        let length = socket.as_os_str().len();
        if length > MAX_SOCKET_PATH_BYTES {
            return Err(HomeError::TooLong { path: socket, over: length - MAX_SOCKET_PATH_BYTES });
        }
        for name in ["logs", "runs"] {
            match create_private_folder(&home.root.join(name)) {
                // A daemon on a full disk can still answer reads.
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                made => made.map_err(failed)?,
            }
        }
        Ok(home)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }
    pub(crate) fn hold_mark(&self) -> HoldMark {
        HoldMark::of_home(&self.root)
    }
    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("daemon.lock")
    }
    pub(crate) fn info_file(&self) -> PathBuf {
        self.root.join("daemon.json")
    }
    pub(crate) fn socket(&self) -> PathBuf {
        self.root.join("daemon.sock")
    }
    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("logs/daemon.log")
    }
    pub(crate) fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }
    pub(crate) fn run(&self, run: RunId) -> PathBuf {
        self.runs().join(run.to_string())
    }
    /// Returns the folder of the processes of a run's tasks.
    pub(crate) fn tasks(&self, run: RunId) -> PathBuf {
        self.run(run).join("tasks")
    }
    pub(crate) fn attempt(&self, run: RunId, attempt: AttemptId) -> PathBuf {
        self.run(run).join(attempt.to_string())
    }
}

/// Creates a folder that only we can enter; an existing folder stays unchanged.
pub(crate) fn create_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
