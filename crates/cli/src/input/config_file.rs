//! The user's configuration file: its path, the check that only the user can write it, and its content.
//!
//! A command reads the file, never the daemon: the daemon serves commands with different environments, and each run
//! has the settings of the command that started it. A command of an agent reads no file, because an agent may choose
//! its environment.

use std::{
    ffi::OsString,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Component, Path, PathBuf},
};

use agent_worker_protocol::{NotifyChannel, NotifySettings, RunDefaults};
use agent_worker_workflow::UserConfig;

use crate::{
    error::{CliError, CliErrorKind},
    input::settings::CliSettings,
};

/// Variable with the path of the file, or `none`.
pub(crate) const CONFIG_VARIABLE: &str = "AGENT_WORKER_CONFIG";
/// The word for no file.
const NO_FILE: &str = "none";
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;
/// Permission of the group or of others to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// In a folder with this bit, only the owners of a file and of the folder replace the file.
const STICKY: u32 = 0o1000;
/// Maximum number of links on the way to the file; the kernel follows as many.
const MAX_LINKS: usize = 40;
/// Variables through which a program reaches the user's desktop.
const DESKTOP_VARIABLES: [&str; 5] =
    ["DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR"];

/// The origin of a setting outside of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathOrigin {
    /// The option `--config` before the command.
    Flag,
    /// A variable with this name.
    Environment(&'static str),
    /// The default path.
    Default,
}

/// The path of the configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigPath {
    /// Absolute path; none if no file is read.
    pub(crate) path: Option<PathBuf>,
    /// Origin of the path.
    pub(crate) origin: PathOrigin,
}

/// The configuration file after it was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigFile {
    /// The file, if it exists.
    pub(crate) path: Option<PathBuf>,
    /// Its content; empty without a file.
    pub(crate) content: UserConfig,
}

impl ConfigPath {
    /// Returns the path that the flag names, else the variable, else the default one; none for a command of an agent.
    pub(crate) fn of(settings: &CliSettings) -> Self {
        if settings.is_inside_attempt() {
            return Self { path: None, origin: PathOrigin::Default };
        }
        let set = |name: &str| settings.env.get(name).filter(|value| !value.is_empty());
        let chosen = |value: OsString, origin| {
            let path = (value != NO_FILE).then(|| settings.cwd.join(value));
            Self { path, origin }
        };
        if let Some(flag) = &settings.config_flag {
            return chosen(flag.clone(), PathOrigin::Flag);
        }
        if let Some(value) = set(CONFIG_VARIABLE) {
            return chosen(value.into(), PathOrigin::Environment(CONFIG_VARIABLE));
        }
        // A relative folder is invalid and ignored, according to the specification of this variable.
        let xdg = set("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let (folder, origin) = if let Some(folder) = xdg {
            (Some(folder), PathOrigin::Environment("XDG_CONFIG_HOME"))
        } else {
            let home = set("HOME").map(|home| settings.cwd.join(home));
            (home.map(|home| home.join(".config")), PathOrigin::Default)
        };
        Self { path: folder.map(|folder| folder.join("agent-worker/config.toml")), origin }
    }

    /// Returns true if a file at this path may be missing.
    fn is_optional(&self) -> bool {
        match self.origin {
            PathOrigin::Flag | PathOrigin::Environment(CONFIG_VARIABLE) => false,
            PathOrigin::Environment(_) | PathOrigin::Default => true,
        }
    }
}

impl ConfigFile {
    /// Reads the file of a command. A missing default file is empty; any other problem is an error.
    pub(crate) fn read(settings: &CliSettings) -> Result<Self, CliError> {
        let place = ConfigPath::of(settings);
        let Some(path) = &place.path else { return Ok(Self::default()) };
        let text = match read_checked(path) {
            Ok(text) => text,
            Err(ConfigProblem::Io(error))
                if error.kind() == io::ErrorKind::NotFound && place.is_optional() =>
            {
                return Ok(Self::default());
            }
            Err(problem) => return Err(problem.into_error(path)),
        };
        Ok(Self { content: UserConfig::parse(&text, path)?, path: Some(path.clone()) })
    }

    /// Returns the defaults of a new run, whose file sets `of_file`; none if there are none.
    pub(crate) fn run_defaults(
        &self,
        of_file: &NotifySettings,
        settings: &CliSettings,
    ) -> Option<Box<RunDefaults>> {
        let mut defaults = self.content.defaults.clone();
        let notify = of_file.clone().or(defaults.notify.clone());
        let runs_programs =
            [NotifyChannel::Desktop, NotifyChannel::Command].map(|one| notify.has_channel(one));
        if runs_programs.contains(&true) {
            defaults.notify_env = settings.filtered_env(|name| DESKTOP_VARIABLES.contains(&name));
        }
        let is_set = defaults != RunDefaults::default() && !settings.is_inside_attempt();
        is_set.then(|| Box::new(defaults))
    }
}

/// The reason why the file is not used.
#[derive(Debug)]
enum ConfigProblem {
    Io(io::Error),
    NotAFile,
    TooLong,
    /// The owner of the file or a folder is another user.
    Foreign(PathBuf, u32),
    /// Others can change the file or a folder of its path.
    OpenToOthers(PathBuf, u32),
}

impl ConfigProblem {
    fn into_error(self, path: &Path) -> CliError {
        let file = path.display();
        let refused = |why: String| {
            CliError::new(
                CliErrorKind::BadFile,
                format!("the configuration {file} is refused: {why}"),
            )
        };
        match self {
            Self::Io(error) => {
                let what = format!("cannot read the configuration {file}");
                CliError::with_source(CliErrorKind::BadFile, what, error)
                    .with_hint("choose another file with --config, or none: --config none")
            }
            Self::NotAFile => refused("it is not a regular file".to_owned()),
            Self::TooLong => refused("it is longer than 1 MiB".to_owned()),
            Self::Foreign(place, owner) => {
                refused(format!("{} belongs to another user (uid {owner})", place.display()))
                    .with_hint(
                        "use a file and a folder of your own, because the file names commands",
                    )
            }
            Self::OpenToOthers(place, mode) => {
                let shown = place.display();
                refused(format!("other users can write {shown} (mode {:o})", mode & 0o7777))
                    .with_hint(format!("chmod go-w {shown}"))
            }
        }
    }
}

impl From<io::Error> for ConfigProblem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads a file that nobody else can change. The open file is checked, not its name; then the folders that lead to it.
fn read_checked(path: &Path) -> Result<String, ConfigProblem> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let flags = i32::try_from(flags).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(ConfigProblem::NotAFile);
    }
    let us = rustix::process::geteuid().as_raw();
    check(path, &found, us)?;
    // The name may be a link: both folders decide which file is read.
    let real = path.canonicalize()?;
    for folder in [path, real.as_path()].into_iter().filter_map(Path::parent) {
        check(folder, &fs::metadata(folder)?, us)?;
    }
    check_way(path, us)?;
    read_text(file)
}

fn read_text(file: File) -> Result<String, ConfigProblem> {
    let mut text = String::new();
    file.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 {
        ..=MAX_CONFIG_BYTES => Ok(text),
        _ => Err(ConfigProblem::TooLong),
    }
}

/// Refuses a file or a folder of another user, or one that others can write. The administrator can change every file.
fn check(place: &Path, found: &Metadata, us: u32) -> Result<(), ConfigProblem> {
    check_owner(place, found, us)?;
    if found.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(ConfigProblem::OpenToOthers(place.to_owned(), found.mode()));
    }
    Ok(())
}

fn check_owner(place: &Path, found: &Metadata, us: u32) -> Result<(), ConfigProblem> {
    match found.uid() {
        owner if owner != us && owner != 0 => Err(ConfigProblem::Foreign(place.to_owned(), owner)),
        _ => Ok(()),
    }
}

/// Checks that no other user can replace a folder or a link on the way to a file: neither as the owner of it or of the
/// folder above it, nor because that folder is open to others. `us` is the uid of the user.
fn check_way(file: &Path, us: u32) -> Result<(), ConfigProblem> {
    let (mut at, mut rest) = (PathBuf::from("/"), file.to_owned());
    for _ in 0..MAX_LINKS {
        let mut components = rest.components();
        let mut target = None;
        while let Some(component) = components.next() {
            match component {
                Component::RootDir => at = PathBuf::from("/"),
                Component::ParentDir => drop(at.pop()),
                Component::CurDir | Component::Prefix(_) => {}
                Component::Normal(name) => {
                    check_folder(&at, us)?;
                    at.push(name);
                    let found = at.symlink_metadata()?;
                    check_owner(&at, &found, us)?;
                    if found.is_symlink() {
                        target = Some(fs::read_link(&at)?.join(components.as_path()));
                        break;
                    }
                }
            }
        }
        let Some(next) = target else { return Ok(()) };
        at.pop();
        rest = next;
    }
    Err(io::Error::from(rustix::io::Errno::LOOP).into())
}

/// Refuses a folder whose entries another user can rename.
fn check_folder(folder: &Path, us: u32) -> Result<(), ConfigProblem> {
    let found = fs::metadata(folder)?;
    check_owner(folder, &found, us)?;
    if found.mode() & WRITABLE_BY_OTHERS != 0 && found.mode() & STICKY == 0 {
        return Err(ConfigProblem::OpenToOthers(folder.to_owned(), found.mode()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs::Permissions, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn settings(flag: Option<&str>, env: &[(&str, &str)]) -> CliSettings {
        CliSettings {
            home: "/h".into(),
            cwd: "/project".into(),
            env: env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            inside_attempt: false,
            exe: "/x".into(),
            config_flag: flag.map(Into::into),
        }
    }

    #[test]
    fn a_flag_has_priority_over_a_variable_and_a_variable_over_the_default() {
        let variable = (CONFIG_VARIABLE, "env.toml");
        let (xdg, home) = (("XDG_CONFIG_HOME", "/xdg"), ("HOME", "/home/me"));
        let environment = PathOrigin::Environment(CONFIG_VARIABLE);
        for (flag, env, path, origin) in [
            (Some("a.toml"), &[variable, home][..], Some("/project/a.toml"), PathOrigin::Flag),
            (Some("none"), &[variable, home], None, PathOrigin::Flag),
            (None, &[variable, home], Some("/project/env.toml"), environment),
            (None, &[(CONFIG_VARIABLE, "none"), home], None, environment),
            (
                None,
                &[(CONFIG_VARIABLE, ""), xdg, home],
                Some("/xdg/agent-worker/config.toml"),
                PathOrigin::Environment("XDG_CONFIG_HOME"),
            ),
            (
                None,
                &[("XDG_CONFIG_HOME", "relative"), home],
                Some("/home/me/.config/agent-worker/config.toml"),
                PathOrigin::Default,
            ),
            (None, &[], None, PathOrigin::Default),
        ] {
            let found = ConfigPath::of(&settings(flag, env));
            assert_eq!(
                found,
                ConfigPath { path: path.map(PathBuf::from), origin },
                "{flag:?} {env:?}"
            );
        }
    }

    #[test]
    fn a_file_that_others_can_change_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("agent-worker");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("config.toml");
        fs::write(&file, "backend = \"claude\"\n").unwrap();
        let chmod =
            |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let read = || {
            let settings = settings(Some(&file.to_string_lossy()), &[]);
            ConfigFile::read(&settings).map(|read| read.content.defaults.backend)
        };
        let refusal = || read().unwrap_err().to_report_error().message;
        chmod(&folder, 0o755);
        chmod(&file, 0o644);
        assert_eq!(read().unwrap().as_deref(), Some("claude"));
        for mode in [0o664, 0o646, 0o666] {
            chmod(&file, mode);
            assert!(refusal().contains("config.toml (mode"), "{}", refusal());
        }
        chmod(&file, 0o600);
        for mode in [0o775, 0o757, 0o1777] {
            chmod(&folder, mode);
            assert!(refusal().contains("agent-worker (mode"), "{}", refusal());
        }
        chmod(&folder, 0o700);
        chmod(home.path(), 0o777);
        assert!(refusal().contains("other users can write"), "{}", refusal());
        chmod(home.path(), 0o1777);
        assert!(read().is_ok(), "others rename nothing in a folder with the sticky bit");
    }

    #[test]
    fn a_link_is_followed_if_nobody_else_can_change_its_target() {
        let home = tempfile::tempdir().unwrap();
        let (open, link) = (home.path().join("open"), home.path().join("config.toml"));
        fs::create_dir(&open).unwrap();
        fs::write(open.join("real.toml"), "").unwrap();
        std::os::unix::fs::symlink(open.join("real.toml"), &link).unwrap();
        let read = || ConfigFile::read(&settings(Some(&link.to_string_lossy()), &[]));
        fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        assert!(read().is_ok());
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        assert!(read().unwrap_err().to_report_error().message.contains("open (mode"));
    }

    #[test]
    fn a_file_below_a_folder_or_a_link_of_another_user_is_refused() {
        const NOBODY: u32 = 65_534;
        let root = tempfile::tempdir().unwrap();
        let (above, folder) = (root.path().join("above"), root.path().join("above/sub/own"));
        let link = root.path().join("link");
        fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink("above/sub/own", &link).unwrap();
        let file = folder.join("config.toml");
        fs::write(&file, "").unwrap();
        let us = rustix::process::geteuid();
        let places = [(above.as_path(), &file), (link.as_path(), &link.join("config.toml"))];
        for (foreign, path) in places {
            assert!(check_way(path, us.as_raw()).is_ok(), "{}", path.display());
            let refused = if us.is_root() {
                std::os::unix::fs::lchown(foreign, Some(NOBODY), None).unwrap();
                let refused = read_checked(path);
                std::os::unix::fs::lchown(foreign, Some(0), None).unwrap();
                refused.map(drop)
            } else {
                // For another user, the folders of this test belong to somebody else.
                check_way(path, us.as_raw() + 1)
            };
            assert!(matches!(refused, Err(ConfigProblem::Foreign(..))), "{refused:?}");
        }
    }

    #[test]
    fn a_missing_file_is_an_error_only_if_somebody_named_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().to_string_lossy().into_owned();
        let default = settings(None, &[("HOME", &path)]);
        assert_eq!(ConfigFile::read(&default).unwrap().path, None);
        let named = settings(Some("missing.toml"), &[("HOME", &path)]);
        let error = ConfigFile::read(&named).unwrap_err();
        assert_eq!(error.verdict().exit_code(), 2);
        let folder = settings(Some(&path), &[]);
        assert!(
            ConfigFile::read(&folder).unwrap_err().to_report_error().message.contains("regular")
        );
    }

    #[test]
    fn a_run_gets_the_desktop_variables_only_if_a_program_notifies() {
        let env = [("DISPLAY", ":0"), ("API_KEY", "x")];
        let settings = settings(None, &env);
        let config = ConfigFile::default();
        let none = config.run_defaults(&NotifySettings::default(), &settings);
        assert_eq!(none, None);
        let desktop = NotifySettings { desktop: Some(true), ..NotifySettings::default() };
        let defaults = config.run_defaults(&desktop, &settings).unwrap();
        let expected: BTreeMap<_, _> = [("DISPLAY".to_owned(), ":0".to_owned())].into();
        assert_eq!(defaults.notify_env, expected);
    }
}
