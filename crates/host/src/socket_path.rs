//! The limit of a Unix socket's path.

/// Maximum length of the path: the capacity of `sockaddr_un` without the final zero.
pub const MAX_SOCKET_PATH_BYTES: usize = if cfg!(target_os = "macos") { 103 } else { 107 };
