//! The user's configuration file, in TOML: defaults for new runs and agents. The same readers as for the workflow file
//! check it, so that a mistake has its line, a caret and a suggestion. Pure: the caller reads the file.

use std::{collections::BTreeMap, path::Path};

use agent_worker_backends::{BackendKind, BackendSpec};
use agent_worker_protocol::{NotifySettings, RunDefaults};

use crate::{
    agents::{agent_file::toml_tree, backend::backend_of_word},
    definition::{limits, notify},
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        report::LineIndex,
    },
    error::Error,
    yaml::{
        Node, Yaml,
        fields::{AllowedKeys, YamlField},
        text_file::{FileReadError, MAX_FILE_BYTES},
    },
};

const CONFIG_KEYS: AllowedKeys =
    AllowedKeys { known: &["backend", "models", "limits", "notify"], planned: &[] };
const NOTIFY_KEYS: AllowedKeys =
    AllowedKeys { known: &["bell", "desktop", "command", "webhook", "when", "on"], planned: &[] };

/// The content of the user's configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserConfig {
    /// Settings for new runs and agents.
    pub defaults: RunDefaults,
    /// False for a live view without a bell.
    pub bell: Option<bool>,
    /// Line of each key in the file, such as `limits.turns`.
    pub lines: BTreeMap<String, usize>,
}

impl UserConfig {
    /// Checks the text of a configuration file. `path` is its name in messages; the file is not read.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        if text.len() > MAX_FILE_BYTES {
            return Err(Error::unreadable(path, &FileReadError::TooLarge));
        }
        let mut diagnostics = Diagnostics::default();
        let root = diagnostics.ok_or_add(toml_tree::read(text));
        let config = root.and_then(|root| read(&root, text, &mut diagnostics));
        match config {
            Some(config) if diagnostics.is_empty() => Ok(config),
            Some(_) | None => Err(Error::invalid(path, text, diagnostics)),
        }
    }
}

fn read(root: &Node, text: &str, diagnostics: &mut Diagnostics) -> Option<UserConfig> {
    let fields = YamlField::root(root).fields(&CONFIG_KEYS, diagnostics)?;
    let backend = fields.read_with("backend", diagnostics, |field| read_backend(field));
    let models = fields.get("models").map(|field| read_models(&field, diagnostics));
    let limits = fields.get("limits").map(|field| limits::read_defaults(&field, diagnostics));
    let notify = fields.get("notify").map(|field| read_notify(&field, diagnostics));
    let (notify, bell) = notify.unwrap_or_default();
    let mut lines = BTreeMap::new();
    add_lines(root, "", &LineIndex::of(text), &mut lines);
    let (models, limits) = (models.unwrap_or_default(), limits.unwrap_or_default());
    let notify_env = BTreeMap::new();
    let defaults = RunDefaults { backend, models, limits, notify, notify_env };
    Some(UserConfig { defaults, bell, lines })
}

/// Reads a backend that needs no other key.
fn read_backend(field: &YamlField<'_>) -> Result<String, Diagnostic> {
    let spec = backend_of_word(field.text()?);
    let spec = spec.map_err(|(message, hint)| field.diagnostic(message).with_hint(hint))?;
    if is_default_backend(spec) {
        return Ok(spec.name.to_owned());
    }
    Err(field
        .diagnostic(format!("`{}` cannot be the default backend: it needs further keys", spec.name))
        .with_hint("name a program of a vendor, such as `claude`"))
}

/// Returns true for a backend that needs no other key.
pub(crate) fn is_default_backend(spec: &BackendSpec) -> bool {
    match spec.kind {
        BackendKind::Program | BackendKind::Mock => true,
        BackendKind::Api | BackendKind::Acp | BackendKind::Command | BackendKind::Planned => false,
    }
}

fn read_models(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> BTreeMap<String, String> {
    let mut models = BTreeMap::new();
    for (key, field) in diagnostics.ok_or_add(field.named_entries()).unwrap_or_default() {
        let spec = backend_of_word(key.text);
        let spec = spec.map_err(|(message, hint)| key.diagnostic(message).with_hint(hint));
        let spec = diagnostics.ok_or_add(spec);
        if let Some(spec) = spec.filter(|spec| !is_default_backend(spec)) {
            let message = format!("backend `{}` has no default model", spec.name);
            diagnostics.add(key.diagnostic(message));
        }
        let model = diagnostics.ok_or_add(field.text().and_then(|model| match model {
            "" => Err(field.must_be("the name of a model")),
            model => Ok(model.to_owned()),
        }));
        if let (Some(spec), Some(model)) = (spec, model)
            && models.insert(spec.name.to_owned(), model).is_some()
        {
            diagnostics.add(key.diagnostic(format!("the model of `{}` is set twice", spec.name)));
        }
    }
    models
}

fn read_notify(
    field: &YamlField<'_>,
    diagnostics: &mut Diagnostics,
) -> (NotifySettings, Option<bool>) {
    let Some(fields) = field.fields(&NOTIFY_KEYS, diagnostics) else { return Default::default() };
    let bell = fields.read_with("bell", diagnostics, YamlField::boolean);
    let settings = notify::read_keys(&fields, diagnostics);
    let program = settings.command.as_ref().and_then(|words| words.first());
    if let Some(field) = fields.get("command")
        && program.is_some_and(|program| program.contains('/') && !program.starts_with('/'))
    {
        let diagnostic = field.diagnostic("the program must be an absolute path or a plain name");
        diagnostics.add(diagnostic.with_hint("a plain name is searched for in PATH"));
    }
    (settings, bell)
}

/// Adds the line of every value that is no table.
fn add_lines(node: &Node, path: &str, index: &LineIndex, lines: &mut BTreeMap<String, usize>) {
    let Yaml::Map(entries) = &node.value else {
        lines.insert(path.to_owned(), index.number(node.at.start));
        return;
    };
    for entry in entries {
        let dot = if path.is_empty() { "" } else { "." };
        add_lines(&entry.value, &format!("{path}{dot}{}", entry.key), index, lines);
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{LimitDefaults, NotifyOccasion, NotifyWhen, Span};

    use super::*;
    use crate::error::RenderStyle;

    fn parse(text: &str) -> Result<UserConfig, Error> {
        UserConfig::parse(text, Path::new("config.toml"))
    }

    #[test]
    fn every_setting_is_read_with_its_line() {
        let text = "# mine\nbackend = \"claude\"\n\n[models]\nclaude = \"opus\"\n\n[limits]\nhops = 9\nturns = 20\n\
                    wall = \"1h\"\nwall_grace = \"5s\"\n\n[notify]\nbell = false\ndesktop = true\ncommand = [\"say\", \"x y\"]\n\
                    webhook = \"https://example.org/x\"\nwhen = \"always\"\non = [\"question\"]\n";
        let UserConfig { defaults, bell, lines } = parse(text).unwrap();
        assert_eq!((defaults.backend.as_deref(), bell), (Some("claude"), Some(false)));
        assert_eq!(defaults.models, [("claude".to_owned(), "opus".to_owned())].into());
        let expected = LimitDefaults {
            hops: Some(9),
            turns: Some(20),
            wall: Some(Span::from_secs(3600)),
            wall_grace: Some(Span::from_secs(5)),
            cost_micros: None,
            tokens: None,
        };
        assert_eq!(defaults.limits, expected);
        let expected = NotifySettings {
            desktop: Some(true),
            command: Some(vec!["say".to_owned(), "x y".to_owned()]),
            webhook: Some("https://example.org/x".to_owned()),
            when: Some(NotifyWhen::Always),
            on: Some(vec![NotifyOccasion::Question]),
        };
        assert_eq!(defaults.notify, expected);
        assert_eq!((lines["backend"], lines["limits.turns"], lines["notify.on"]), (2, 9, 19));
        assert_eq!(parse("").unwrap(), UserConfig::default());
    }

    #[test]
    fn a_mistake_has_its_place_and_a_suggestion() {
        let cases = [
            "backnd = \"claude\"\n",
            "[limits]\nturn = 5\n",
            "[limits]\nworkers = 5\n",
            "[models]\ncluade = \"opus\"\n",
            "backend = \"acp\"\n",
            "[notify]\ncommand = \"rm -rf /\"\n",
            "[notify]\ncommand = [\"./x\"]\n",
            "[notify]\nwebhook = \"http://example.org\"\n",
            "[notify]\non = [\"qustion\"]\n",
            "backend = \n",
        ];
        let shown: Vec<String> = cases
            .iter()
            .map(|text| {
                let error = parse(text).unwrap_err();
                let hint = error.hint().map(|hint| format!("\n  {hint}")).unwrap_or_default();
                format!("{}{hint}", error.summary())
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r"
        config.toml:1:1: unknown key `backnd`
          did you mean `backend`?
        config.toml:2:1: unknown key `limits.turn`
          did you mean `turns`?
        config.toml:2:1: unknown key `limits.workers`
          the keys here are: hops, turns, wall, wall_grace, cost_usd, tokens
        config.toml:2:1: there is no backend `cluade`
          did you mean `claude`?
        config.toml:1:11: `acp` cannot be the default backend: it needs further keys
          name a program of a vendor, such as `claude`
        config.toml:2:11: `notify.command` must be a list of words, such as `[./notify.sh, --fast]`
        config.toml:2:11: the program must be an absolute path or a plain name
          a plain name is searched for in PATH
        config.toml:2:11: `notify.webhook` must be an https URL, or an http URL of this machine (127.0.0.1)
        config.toml:2:7: `notify.on[0]` must be `question` or `approval` or `vote` or `limit` or `interrupted` or `failed` or `done`, not `qustion`
          did you mean `question`?
        config.toml:1:11: not valid TOML: string values must be quoted, expected literal string
        ");
        let rendered = parse(cases[1]).unwrap_err().render(RenderStyle::Plain);
        insta::assert_snapshot!(rendered, @r"
        error: unknown key `limits.turn`
         --> config.toml:2:1
          |
        2 | turn = 5
          | ^^^^
          |
          = help: did you mean `turns`?
        ");
    }
}
