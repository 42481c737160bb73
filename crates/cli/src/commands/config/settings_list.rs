//! The list of all settings with their effective values: those of the configuration file, and those of the command line
//! and the environment. Pure. A test compares it with `docs/reference/config.md`.

use std::path::Path;

use agent_worker_backends::{BackendKind, available_backends};
use agent_worker_protocol::{Limits, NotifyOccasion, RunMode};
use agent_worker_workflow::LimitSettings;
use clap::Args as _;
use serde::Serialize;
use serde_json::{Value, json};

use crate::input::{
    config_file::{ConfigFile, ConfigPath, PathOrigin},
    invocation::DaemonFlags,
    settings::CliSettings,
};

/// One setting with its effective value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SettingView {
    pub(super) key: String,
    /// The value; an object if it depends on the mode of a run; null for none.
    pub(super) value: Value,
    pub(super) from: SettingOrigin,
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "origin", rename_all = "snake_case")]
pub(super) enum SettingOrigin {
    /// An option of the command line.
    Flag { flag: String },
    /// A variable.
    Environment { variable: String },
    /// A line of the configuration file.
    File { file: String, line: usize },
    /// The built-in value.
    Default,
}

impl SettingView {
    /// Formats the value for people.
    pub(super) fn value_text(&self) -> String {
        match &self.value {
            Value::Object(modes) => {
                let of = |mode: &str| modes.get(mode).map(plain_text).unwrap_or_default();
                match (of("run"), of("start")) {
                    (run, start) if run == start => run,
                    (run, start) => format!("{run} (start: {start})"),
                }
            }
            value => plain_text(value),
        }
    }

    /// Formats the origin for people; a file by its name.
    pub(super) fn origin_text(&self) -> String {
        match &self.from {
            SettingOrigin::Flag { flag } => flag.clone(),
            SettingOrigin::Environment { variable } => variable.clone(),
            SettingOrigin::File { file, line } => {
                let name = Path::new(file).file_name().unwrap_or_default();
                format!("{}:{line}", name.to_string_lossy())
            }
            SettingOrigin::Default => "default".to_owned(),
        }
    }
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain_text).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// Returns every setting, in the order of the documentation.
pub(super) fn effective_settings(file: &ConfigFile, settings: &CliSettings) -> Vec<SettingView> {
    let mut all = file_settings(file);
    all.extend(place_settings(settings));
    all.extend(daemon_settings(settings));
    all
}

/// Returns the settings that the configuration file can set.
fn file_settings(file: &ConfigFile) -> Vec<SettingView> {
    let defaults = &file.content.defaults;
    let path = file.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let setting = |key: &str, value: Option<Value>, otherwise: Value| {
        let from = match file.content.lines.get(key) {
            Some(line) if value.is_some() => {
                SettingOrigin::File { file: path.clone(), line: *line }
            }
            _ => SettingOrigin::Default,
        };
        SettingView { key: key.to_owned(), value: value.unwrap_or(otherwise), from }
    };
    let mut all = vec![setting("backend", json_of(defaults.backend.as_ref()), Value::Null)];
    for spec in available_backends().filter(|spec| spec.kind == BackendKind::Program) {
        let model = defaults.models.get(spec.name).map(|model| json!(model));
        all.push(setting(&format!("models.{}", spec.name), model, Value::Null));
    }
    let (limits, built_in) = (&defaults.limits, |mode| LimitSettings::default().for_mode(mode));
    let by_mode = |get: fn(&Limits) -> Value| json!({ "run": get(&built_in(RunMode::Run)), "start": get(&built_in(RunMode::Start)) });
    all.extend([
        setting("limits.hops", json_of(limits.hops), by_mode(|one| json!(one.hops))),
        setting("limits.turns", json_of(limits.turns), by_mode(|one| json!(one.turns))),
        setting("limits.wall", json_of(limits.wall), by_mode(|one| json!(one.wall))),
        setting(
            "limits.wall_grace",
            json_of(limits.wall_grace),
            by_mode(|one| json!(one.wall_grace)),
        ),
        setting(
            "limits.cost_usd",
            json_of(limits.cost_micros.map(dollars)),
            by_mode(|one| json!(one.spend.cost_micros.map(dollars))),
        ),
        setting("limits.tokens", json_of(limits.tokens), by_mode(|one| json!(one.spend.tokens))),
    ]);
    let notify = &defaults.notify;
    let command = notify.command.as_ref().filter(|words| !words.is_empty());
    let webhook = notify.webhook.as_ref().filter(|url| !url.is_empty());
    all.extend([
        setting("notify.bell", json_of(file.content.bell.as_ref()), json!(true)),
        setting("notify.desktop", json_of(notify.desktop.as_ref()), json!(false)),
        setting("notify.command", command.map(|words| json!(words)), Value::Null),
        setting("notify.webhook", webhook.map(|url| json!(url)), Value::Null),
        setting("notify.when", json_of(notify.when.as_ref()), json!("unwatched")),
        setting("notify.on", json_of(notify.on.as_ref()), json!(NotifyOccasion::ALL)),
    ]);
    all
}

#[expect(clippy::cast_precision_loss, reason = "a limit is less than a million dollars")]
fn dollars(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// Returns the paths of the configuration file and the home.
fn place_settings(settings: &CliSettings) -> Vec<SettingView> {
    let ConfigPath { path, origin } = ConfigPath::of(settings);
    let from = match origin {
        PathOrigin::Flag => SettingOrigin::Flag { flag: "--config".to_owned() },
        PathOrigin::Environment(name) => SettingOrigin::Environment { variable: name.to_owned() },
        PathOrigin::Default => SettingOrigin::Default,
    };
    let value = path.map_or(Value::Null, |path| json!(path.display().to_string()));
    let config = SettingView { key: "config".to_owned(), value, from };
    let home = SettingView {
        key: "home".to_owned(),
        value: json!(settings.home.display().to_string()),
        from: origin_of_variable("AGENT_WORKER_HOME", settings),
    };
    vec![config, home]
}

/// Returns the settings of a daemon that this command would start.
fn daemon_settings(settings: &CliSettings) -> Vec<SettingView> {
    let grammar = DaemonFlags::augment_args(clap::Command::new("daemon"));
    let shown = grammar.get_arguments().filter(|arg| !arg.is_hide_set());
    shown
        .filter_map(|arg| {
            let (long, variable) = (arg.get_long()?, arg.get_env()?.to_str()?);
            let set = settings.env.get(variable).filter(|value| !value.is_empty());
            let default = arg.get_default_values().first().and_then(|value| value.to_str());
            let value = set.map(String::as_str).or(default).map_or(Value::Null, |text| json!(text));
            let from = origin_of_variable(variable, settings);
            Some(SettingView { key: format!("daemon.{long}"), value, from })
        })
        .collect()
}

fn origin_of_variable(variable: &str, settings: &CliSettings) -> SettingOrigin {
    match settings.env.get(variable).filter(|value| !value.is_empty()) {
        Some(_) => SettingOrigin::Environment { variable: variable.to_owned() },
        None => SettingOrigin::Default,
    }
}

fn json_of(value: Option<impl Serialize>) -> Option<Value> {
    // Plain data always has a JSON form.
    value.map(|value| serde_json::to_value(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use agent_worker_workflow::UserConfig;

    use super::*;

    const PAGE: &str = include_str!("../../../../../docs/reference/config.md");

    fn settings(env: &[(&str, &str)]) -> CliSettings {
        CliSettings {
            home: "/home/me/.agent-worker".into(),
            cwd: "/work".into(),
            env: env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            inside_attempt: false,
            exe: "/x".into(),
            config_flag: None,
        }
    }

    #[test]
    fn the_reference_lists_exactly_the_settings_that_exist() {
        let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
        let documented: Vec<&str> = rows
            .filter_map(|row| row.split('`').next())
            .filter(|key| key.contains('.') || ["backend", "config", "home"].contains(key))
            .collect();
        let found = effective_settings(&ConfigFile::default(), &settings(&[]));
        // The page has one row for the models of all backends.
        let mut found: Vec<_> = found
            .iter()
            .map(|one| match one.key.strip_prefix("models.") {
                Some(_) => "models.BACKEND",
                None => &one.key,
            })
            .collect();
        found.dedup();
        assert_eq!(documented, found);
    }

    #[test]
    fn a_setting_of_the_file_is_accepted_by_its_reader() {
        for one in file_settings(&ConfigFile::default()) {
            let (table, key) = one.key.split_once('.').unwrap_or(("", &one.key));
            let value = match one.key.as_str() {
                "notify.bell" | "notify.desktop" => "true",
                "notify.on" => "[\"done\"]",
                "notify.when" => "\"always\"",
                "notify.webhook" => "\"https://example.org\"",
                "limits.hops" | "limits.turns" | "limits.cost_usd" | "limits.tokens" => "5",
                "limits.wall" | "limits.wall_grace" => "\"5m\"",
                _ => "\"claude\"",
            };
            let text = match table {
                "" => format!("{key} = {value}\n"),
                table => format!("# 1\n[{table}]\n{key} = {value}\n"),
            };
            let content = UserConfig::parse(&text, Path::new("c.toml"));
            let content = content.unwrap_or_else(|error| panic!("{}: {error}", one.key));
            let file = ConfigFile { path: Some("/c.toml".into()), content };
            let read = file_settings(&file).into_iter().find(|read| read.key == one.key).unwrap();
            let line = text.lines().count();
            assert_eq!(read.origin_text(), format!("c.toml:{line}"), "{}", one.key);
        }
    }

    #[test]
    fn a_value_has_its_origin() {
        let content = UserConfig::parse("[limits]\nturns = 9\n", Path::new("/c.toml")).unwrap();
        let file = ConfigFile { path: Some("/c.toml".into()), content };
        let env = [("AGENT_WORKER_WORKERS", "3"), ("HOME", "/home/me")];
        let all = effective_settings(&file, &settings(&env));
        for (key, value, origin) in [
            ("limits.turns", "9", "c.toml:2"),
            ("limits.wall", "2h (start: none)", "default"),
            ("limits.hops", "50", "default"),
            ("notify.on", "question approval vote limit interrupted failed done", "default"),
            ("config", "/home/me/.config/agent-worker/config.toml", "default"),
            ("daemon.workers", "3", "AGENT_WORKER_WORKERS"),
            ("daemon.sweep", "5s", "default"),
        ] {
            let found = all.iter().find(|one| one.key == key).unwrap();
            assert_eq!(
                (found.value_text().as_str(), found.origin_text().as_str()),
                (value, origin)
            );
        }
    }
}
