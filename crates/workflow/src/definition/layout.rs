//! Paths of an instance's files. Two forms are accepted: `context.config`, and the legacy form with `context.dir`,
//! `context.channel` and `context.document`.

use agent_worker_protocol::{BadName, DocumentPath, Tag, WorkflowName};
use serde::{Deserialize, Serialize};

use crate::{
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    template::Template,
    template::reference::{KnownNames, Reference},
    yaml::fields::{AllowedKeys, YamlField, YamlFields},
};

const CONFIG_KEYS: AllowedKeys =
    AllowedKeys { known: &["dir", "channel", "documentDir", "document", "db"], planned: &[] };
const FILE_KEYS: AllowedKeys = AllowedKeys { known: &["file"], planned: &[] };
/// Folder in which the daemon writes the current state.
const STATE_FOLDER: &str = "_state";
/// Maximum length of a folder's name.
const MAX_FOLDER_NAME_BYTES: usize = 200;

/// Paths of an instance's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Folder of all files, beneath the workflow file's; absent: `.workflow/<workflow>/<tag>`.
    dir: Option<Template>,
    /// File of the channel, in that folder.
    pub channel: DocumentPath,
    /// Folder of the documents, in that folder.
    document_dir: DocumentPath,
    /// Document that a request without a path addresses.
    pub document: DocumentPath,
    /// Database of the team, beneath the workflow file's folder.
    #[serde(default)]
    db: Option<Template>,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            dir: None,
            channel: fixed_path("channel.md"),
            document_dir: fixed_path("documents"),
            document: DocumentPath::default(),
            db: None,
        }
    }
}

impl Layout {
    /// Returns the path components of an instance's folder.
    pub fn folder(&self, name: &WorkflowName, tag: &Tag) -> Vec<String> {
        match &self.dir {
            None => vec![".workflow".to_owned(), name.to_string(), tag.to_string()],
            Some(dir) => path_components(&dir.render_names(name, tag)),
        }
    }

    /// Returns the path components of the instance's own database, if it has one.
    pub fn database(&self, name: &WorkflowName, tag: &Tag) -> Option<Vec<String>> {
        self.db.as_ref().map(|db| path_components(&db.render_names(name, tag)))
    }

    /// Returns the path components of the documents' folder.
    pub fn document_folder(&self, name: &WorkflowName, tag: &Tag) -> Vec<String> {
        let mut folder = self.folder(name, tag);
        folder.extend(self.document_dir.as_str().split('/').map(str::to_owned));
        folder
    }
}

/// Reads the section `context.config`.
pub(crate) fn read_config(
    field: &YamlField<'_>,
    diagnostics: &mut Diagnostics,
) -> (Layout, Vec<&'static str>) {
    let Some(fields) = field.fields(&CONFIG_KEYS, diagnostics) else { return Default::default() };
    let given = CONFIG_KEYS.known.iter().copied().filter(|key| fields.get(key).is_some());
    let usual = Layout::default();
    let layout = Layout {
        dir: fields.read_with("dir", diagnostics, read_dir),
        channel: fields.read_with("channel", diagnostics, read_path).unwrap_or(usual.channel),
        document_dir: fields
            .read_with("documentDir", diagnostics, read_folder)
            .unwrap_or(usual.document_dir),
        document: fields.read_with("document", diagnostics, read_path).unwrap_or(usual.document),
        db: fields.read_with("db", diagnostics, read_database),
    };
    check_disjoint(&layout, field, diagnostics);
    (layout, given.collect())
}

/// Reads `dir`, `channel` and `document` in the legacy form.
pub(crate) fn read_legacy_layout(
    whole: &YamlField<'_>,
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Layout {
    let mut named = |key: &str| {
        let one = fields.get(key)?.fields(&FILE_KEYS, diagnostics)?;
        one.read_with("file", diagnostics, read_path)
    };
    let (channel, document) = (named("channel"), named("document"));
    let usual = Layout::default();
    let layout = Layout {
        dir: fields.read_with("dir", diagnostics, read_dir),
        channel: channel.unwrap_or(usual.channel),
        document: document.unwrap_or(usual.document),
        document_dir: usual.document_dir,
        db: None,
    };
    check_disjoint(&layout, whole, diagnostics);
    layout
}

/// Checks that no path of one kind is inside a folder of another kind.
fn check_disjoint(layout: &Layout, field: &YamlField<'_>, diagnostics: &mut Diagnostics) {
    let first = |path: &DocumentPath| path.as_str().split('/').next().map(str::to_ascii_lowercase);
    let (channel, documents) = (first(&layout.channel), first(&layout.document_dir));
    let state = Some(STATE_FOLDER.to_owned());
    if channel == documents || channel == state || documents == state {
        diagnostics.add(
            field
                .diagnostic("the channel, the documents and `_state` must have separate paths")
                .with_hint("give the channel's file another name"),
        );
    }
}

fn read_path(field: &YamlField<'_>) -> Result<DocumentPath, Diagnostic> {
    let text = field.literal_text()?;
    let text = text.strip_prefix("./").unwrap_or(text);
    text.parse().map_err(|bad: BadName| field.diagnostic(bad.to_string()))
}

fn read_folder(field: &YamlField<'_>) -> Result<DocumentPath, Diagnostic> {
    let text = field.literal_text()?;
    let text = text.strip_prefix("./").unwrap_or(text);
    let text = text.strip_suffix('/').unwrap_or(text);
    text.parse().map_err(|_: BadName| not_beneath_folder(field))
}

fn read_dir(field: &YamlField<'_>) -> Result<Template, Diagnostic> {
    read_path_template(field).and_then(|(template, filled)| {
        if field.text()?.is_empty() || !is_beneath(&filled) {
            Err(not_beneath_folder(field))
        } else {
            Ok(template)
        }
    })
}

/// Reads the path of the database, which must end in a file name.
fn read_database(field: &YamlField<'_>) -> Result<Template, Diagnostic> {
    let (template, filled) = read_path_template(field)?;
    if path_components(&filled).is_empty() || filled.ends_with('/') || !is_beneath(&filled) {
        return Err(field
            .must_be("a file beneath the workflow file's folder")
            .with_hint("a relative path without `..`, such as `.workflow/agent-worker.db`"));
    }
    Ok(template)
}

/// Reads a path that is known before the run, and returns it also with an `x` for every reference. The `x` represents
/// any name and tag, because these begin with a letter or a digit and have no `..`.
fn read_path_template(field: &YamlField<'_>) -> Result<(Template, String), Diagnostic> {
    let text = field.text()?;
    let template = Template::read(text, &KnownNames::default()).map_err(|flaws| {
        let what = flaws
            .first()
            .map_or("the path is not a valid template", |flawed| flawed.flaw.message.as_str());
        field.diagnostic(what).with_hint("there are `workflow.name` and `workflow.tag`")
    })?;
    let known = |reference| matches!(reference, &Reference::WorkflowName | &Reference::Tag);
    if !template.references().all(known) {
        return Err(field
            .diagnostic(
                "a path is set before the run: it may contain only `workflow.name` and `workflow.tag`",
            )
            .with_hint("for example `.workflow/${{ workflow.name }}/${{ workflow.tag }}/`"));
    }
    let filled = template.render_with("x").text;
    Ok((template, filled))
}

fn is_beneath(path: &str) -> bool {
    let is_shaped = |name: &String| {
        name != ".." && name.len() <= MAX_FOLDER_NAME_BYTES && !name.chars().any(char::is_control)
    };
    !path.starts_with('/') && path_components(path).iter().all(is_shaped)
}

fn not_beneath_folder(field: &YamlField<'_>) -> Diagnostic {
    field.must_be("a folder beneath the workflow file's").with_hint("a relative path without `..`")
}

fn path_components(path: &str) -> Vec<String> {
    path.split('/').filter(|name| !matches!(*name, "" | ".")).map(str::to_owned).collect()
}

#[expect(clippy::expect_used, reason = "two words of this file, and a test that reads them")]
fn fixed_path(path: &str) -> DocumentPath {
    path.parse().expect("a path")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::parse;

    /// Returns the paths of the channel, the documents and the default document of `review:pr-1`.
    fn located_files(context: &str) -> String {
        let text = format!("agents: {{ a: {{ backend: mock }} }}\ncontext:\n{context}");
        let layout = parse(&text, Path::new("review.yaml")).unwrap().context.layout;
        let (name, tag) = ("review".parse().unwrap(), "pr-1".parse().unwrap());
        let folder = layout.folder(&name, &tag).join("/");
        let documents = layout.document_folder(&name, &tag).join("/");
        format!("{folder} {} {documents} {}", layout.channel, layout.document)
    }

    #[test]
    fn a_team_may_have_a_database_of_its_own() {
        let at = |db: &str| {
            let context = format!("context: {{ config: {{ db: '{db}' }} }}");
            let text = format!("agents: {{ a: {{ backend: mock }} }}\n{context}");
            let layout = parse(&text, Path::new("review.yaml")).map(|read| read.context.layout);
            let database =
                layout.map(|l| l.database(&"review".parse().unwrap(), &"pr-1".parse().unwrap()));
            database.map(|names| names.map(|names| names.join("/")))
        };
        let name = "./.workflow/${{ workflow.name }}-${{ workflow.tag }}.db";
        assert_eq!(at(name).unwrap().as_deref(), Some(".workflow/review-pr-1.db"));
        for refused in ["/team.db", "../team.db", "a/", ".", "${{ env.HOME }}", ""] {
            assert!(at(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn both_spellings_say_where_files_lie() {
        let usual = ".workflow/review/pr-1 channel.md .workflow/review/pr-1/documents notes.md";
        for (context, expected) in [
            ("  provider: file", usual),
            ("  documents: file", usual),
            ("  channel:\n  document:", usual),
            (
                "  dir: ./my-context/\n  channel: { file: discussion.md }\n  document: { file: workspace.md }",
                "my-context discussion.md my-context/documents workspace.md",
            ),
            (
                "  dir: .workflow/${{ instance }}/\n  channel:",
                ".workflow/pr-1 channel.md .workflow/pr-1/documents notes.md",
            ),
            (
                "  provider: file\n  config:\n    dir: a/${{ workflow.name }}-${{ workflow.tag }}\n    channel: ./log/talk.md\n    documentDir: texts/\n    document: plans/first.md",
                "a/review-pr-1 log/talk.md a/review-pr-1/texts plans/first.md",
            ),
            ("  config: { dir: . }", " channel.md documents notes.md"),
        ] {
            assert_eq!(located_files(context), expected, "{context}");
        }
    }
}
