//! The paths that every policy is made of, as tables.

/// Folders of the system that exist inside, read-only.
pub(crate) const SYSTEM_FOLDERS: [&str; 11] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/run/current-system",
];

/// Keys and passwords in the folders of the system, which do not exist inside.
pub(crate) const SYSTEM_SECRETS: [&str; 8] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
];

/// Folders for temporary files: inside, a private folder is in their place.
pub(crate) const TEMPORARY_FOLDERS: [&str; 2] = ["/tmp", "/var/tmp"];

/// Toolchains, caches and settings without secrets in the home folder, which exist inside, read-only.
pub(crate) const HOME_ENTRIES: [&str; 31] = [
    ".asdf",
    ".bun",
    ".cache",
    ".cargo",
    ".config/git/attributes",
    ".config/git/config",
    ".config/git/ignore",
    ".deno",
    ".gitconfig",
    ".gitignore",
    ".gitignore_global",
    ".gradle",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pnpm",
    ".local/share/uv",
    ".m2",
    ".npm",
    ".npm-global",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
    "go",
    "sdk",
];

/// Secrets below those entries, which do not exist inside.
pub(crate) const HOME_SECRETS: [&str; 9] = [
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gradle/gradle.properties",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens",
    ".cache/keyring",
    ".local/share/uv/credentials",
];

/// Variables that name the folder of a toolchain.
pub(crate) const TOOLCHAIN_VARIABLES: [&str; 9] = [
    "CARGO_HOME",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "RUSTUP_HOME",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
];

/// Variables that lead to a service of the user, which are removed inside.
pub(crate) const SERVICE_VARIABLES: [&str; 8] = [
    "CONTAINER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "GPG_AGENT_INFO",
    "SSH_AUTH_SOCK",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
];

/// Variables that move a cache, with its folder below the private cache.
pub(crate) const CACHE_VARIABLES: [(&str, &str); 5] = [
    ("GOCACHE", "go-build"),
    ("PIP_CACHE_DIR", "pip"),
    ("PYTHONPYCACHEPREFIX", "pycache"),
    ("XDG_CACHE_HOME", "xdg"),
    ("npm_config_logs_dir", "npm-logs"),
];

/// Settings of agents in the working folder, which another agent or a person's next session would obey.
pub(crate) const AGENT_SETTINGS: [&str; 6] =
    [".agents", ".claude", ".codex", ".cursor", ".gemini", ".mcp.json"];

/// Files of the devices that every program may use at level `basic`.
pub(crate) const DEVICES: [&str; 8] = [
    "/dev/full",
    "/dev/null",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/random",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
];
