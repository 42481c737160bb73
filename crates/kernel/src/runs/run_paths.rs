//! Paths of a request that starts a run or an agent: opened once, inside the caller's folders, with one spelling for
//! everybody.
//!
//! Invariant: the folder and the file are opened first, and the path of the open folder is compared with the caller's
//! scope. A check of the path's text would not see links, and a check before the open would not see a later change.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{ErrorKind, Seek as _},
    path::{Path, PathBuf},
};

use agent_worker_protocol::{FolderScope, RunDefaults, has_parent_component};
use agent_worker_workflow::{
    Error as WorkflowError, OpenFolder, Workflow, load_file, load_text, nearest_workflow_file,
    unset_env,
};

use crate::{
    error::{Error, Result},
    kernel::Principal,
};

const OUTSIDE_CWD: &str =
    "a client with a limited token may run commands only inside the folders of its token";

/// A workflow file that a caller may start, and the folder of its commands.
pub(super) struct RunFile {
    pub(super) workflow: Workflow,
    /// The open file, for errors that quote it; none for a limited token, which may not read the file.
    pub(super) text: Option<File>,
    /// Canonical path of the folder, and the name of the file in it.
    pub(super) path: PathBuf,
    /// Canonical path of the folder.
    pub(super) folder: PathBuf,
    pub(super) cwd: PathBuf,
}

/// Refuses a path that is relative or has a `..`.
pub(crate) fn require_plain_path(name: &str, path: &Path) -> Result<()> {
    if !path.is_absolute() || has_parent_component(path) {
        return Err(Error::BadRequest(format!("`{name}` must be an absolute path without `..`")));
    }
    Ok(())
}

/// The workflow file of a request, or its text.
#[derive(Debug)]
pub(super) struct RunFileRequest {
    pub(super) file: PathBuf,
    /// Text instead of the content of the file.
    pub(super) source: Option<String>,
    pub(super) cwd: PathBuf,
}

/// Opens and loads the file of a run for a caller. Blocks.
pub(super) fn open_run_file(
    who: &Principal,
    request: &RunFileRequest,
    defaults: &RunDefaults,
) -> Result<RunFile> {
    let RunFileRequest { file, source, cwd } = request;
    require_plain_path("file", file)?;
    require_plain_path("cwd", cwd)?;
    match source {
        Some(text) => load_source(who, request, text, defaults),
        None => load_existing_file(who, file, cwd, defaults),
    }
}

/// Loads a workflow whose text is in the request. Its commands run as the user, so that only the user may send one: the
/// files that another client may start are those that exist.
fn load_source(
    who: &Principal,
    request: &RunFileRequest,
    text: &str,
    defaults: &RunDefaults,
) -> Result<RunFile> {
    if !matches!(who, Principal::User) {
        return Err(Error::Forbidden("only the user may run a workflow that is not in a file"));
    }
    let file = &request.file;
    let unreadable = |error: std::io::Error| WorkflowError::Unreadable {
        path: file.clone(),
        why: error.to_string(),
    };
    let folder = OpenFolder::open(file.parent().unwrap_or(Path::new("/"))).map_err(unreadable)?;
    let path = folder.path().join(file.file_name().unwrap_or_default());
    let workflow = load_text(text, &folder, &path, defaults)?;
    let (folder, cwd) = (folder.path().to_owned(), request.cwd.clone());
    Ok(RunFile { workflow, text: None, path, folder, cwd })
}

fn load_existing_file(
    who: &Principal,
    file: &Path,
    cwd: &Path,
    defaults: &RunDefaults,
) -> Result<RunFile> {
    let not_found = || Error::NoInstance(format!("workflow file {} in your scope", file.display()));
    let opened = open(who, file);
    let (opened, folder) = match (opened, is_limited(who)) {
        (Ok(opened), _) => opened,
        (Err(_), true) => return Err(not_found()),
        (Err(error), false) => {
            let near = nearest_workflow_file(file).filter(|_| error.kind() == ErrorKind::NotFound);
            let near = near.map(|name| file.with_file_name(name));
            let near = near.map(|near| format!("; did you mean `{}`?", near.display()));
            let (path, why) = (file.to_owned(), format!("{error}{}", near.unwrap_or_default()));
            return Err(WorkflowError::Unreadable { path, why }.into());
        }
    };
    let path = folder.path().join(file.file_name().unwrap_or_default());
    let text = opened.try_clone().ok().filter(|_| !is_limited(who));
    let workflow = match load_file(opened, &folder, &path, defaults) {
        Ok(workflow) => workflow,
        Err(error) if !is_limited(who) => return Err(error.into()),
        // The error quotes the file, which may be any private text, so a limited token learns only that the file is invalid.
        Err(_) if who.can_reach_project(&folder.path().to_string_lossy()) => {
            let file = file.display();
            return Err(Error::BadRequest(format!(
                "{file} is not a valid workflow file; `agent-worker validate` shows its mistakes to the user"
            )));
        }
        Err(_) => return Err(not_found()),
    };
    let cwd = resolve_cwd(who, cwd, &[folder.path()])?;
    Ok(RunFile { workflow, text, path, folder: folder.path().to_owned(), cwd })
}

impl RunFile {
    /// Returns the error for variables that `env` lacks, with their places in the file. Blocks.
    pub(super) fn unset_env(&mut self, env: &BTreeMap<String, String>) -> Option<WorkflowError> {
        let mut text = self.text.take()?;
        // The load left the position at the end.
        text.rewind().ok()?;
        unset_env(text, &self.path, &self.workflow, env)
    }
}

/// Returns the folder for commands that a caller may use: for a limited token a folder that exists inside the token's
/// folders or inside one of `own`, by its canonical path. Blocks.
pub(super) fn resolve_cwd(who: &Principal, cwd: &Path, own: &[&Path]) -> Result<PathBuf> {
    let folders = match folder_scope(who) {
        FolderScope::Unlimited => return Ok(cwd.to_owned()),
        FolderScope::Named => Vec::new(),
        FolderScope::Folders(folders) => folders,
    };
    require_plain_path("cwd", cwd)?;
    // The path of the open folder is compared and stored, so that the spelling of the request does not matter.
    let folder = OpenFolder::open(cwd).map_err(|_| Error::Forbidden(OUTSIDE_CWD))?;
    let mut roots = folders.iter().chain(own);
    if roots.any(|root| folder.path().starts_with(root)) {
        return Ok(folder.path().to_owned());
    }
    Err(Error::Forbidden(OUTSIDE_CWD))
}

/// Opens a file and its folder; for a token of some folders, beneath one of them.
fn open(who: &Principal, file: &Path) -> std::io::Result<(File, OpenFolder)> {
    let not_found = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let (Some(parent), Some(name)) = (file.parent(), file.file_name()) else {
        return Err(not_found());
    };
    let FolderScope::Folders(roots) = folder_scope(who) else {
        let folder = OpenFolder::open(parent)?;
        return Ok((folder.file(Path::new(name))?, folder));
    };
    let beneath = |root: &Path| {
        let path = file.strip_prefix(root).ok()?;
        let root = OpenFolder::open(root).ok()?;
        let folder = root.folder_beneath(path.parent()?).ok()?;
        Some((root.file_beneath(path).ok()?, folder))
    };
    roots.into_iter().find_map(beneath).ok_or_else(not_found)
}

fn folder_scope(who: &Principal) -> FolderScope<'_> {
    match who {
        Principal::Client(token) => token.scopes.folders(),
        Principal::User => FolderScope::Unlimited,
        // Neither may start anything; if one ever could, it would have no folder.
        Principal::Agent(_) | Principal::Anonymous => FolderScope::Folders(Vec::new()),
    }
}

fn is_limited(who: &Principal) -> bool {
    folder_scope(who) != FolderScope::Unlimited
}
