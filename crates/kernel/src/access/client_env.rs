//! Variables of a run or an agent. The user's command sends its own; a client sets only names that the workflow file
//! declares or its token allows, and none that changes which programs the file's commands run. Pure.

use std::collections::{BTreeMap, BTreeSet};

use agent_worker_protocol::shell_words::is_protected_variable as is_protected;

use crate::{
    error::{Error, Result},
    kernel::Principal,
};

/// Returns true for a name that a shell accepts as a variable.
pub(crate) fn is_variable_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Checks the names that a token may set, when it is created.
pub(crate) fn check_granted(names: &BTreeSet<String>) -> Result<()> {
    match names.iter().find(|name| !is_variable_name(name) || is_protected(name)) {
        None => Ok(()),
        Some(name) if is_variable_name(name) => Err(Error::ProtectedEnv(name.clone())),
        Some(name) => Err(Error::BadRequest(format!("`{name}` is not the name of a variable"))),
    }
}

/// Returns the variables of a run or an agent that a caller requests. `base` are the daemon's own, which a client's
/// commands get.
pub(crate) fn requested_env(
    who: &Principal,
    env: BTreeMap<String, String>,
    base: &BTreeMap<String, String>,
    is_declared: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, String>> {
    let Principal::Client(token) = who else { return Ok(env) };
    for name in env.keys() {
        if is_protected(name) {
            return Err(Error::ProtectedEnv(name.clone()));
        }
        if !is_declared(name) && !token.scopes.env.contains(name) {
            return Err(Error::UndeclaredEnv(name.clone()));
        }
    }
    let mut all = base.clone();
    all.extend(env);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{Millis, Scopes, api::TokenView};

    use super::*;

    #[test]
    fn a_client_sets_declared_and_allowed_names_and_never_a_protected_one() {
        let scopes = Scopes { env: ["COLOR".into(), "PATH".into()].into(), ..Scopes::default() };
        let client =
            Principal::Client(TokenView { name: "ci".into(), created: Millis::new(0), scopes });
        let base: BTreeMap<String, String> =
            [("PATH".into(), "/daemon".into()), ("TZ".into(), "UTC".into())].into();
        let ask = |who: &Principal, name: &str| {
            let env = [(name.to_owned(), "mine".to_owned())].into();
            let declared = |name: &str| ["GREETING", "GIT_DIR", "TZ"].contains(&name);
            requested_env(who, env, &base, declared)
        };
        for (name, allowed) in [
            ("GREETING", true),
            ("COLOR", true),
            ("TZ", true),
            ("OTHER", false),
            ("coder/PATH", false),
            ("PATH", false),
            ("HOME", false),
            ("BASH_ENV", false),
            ("ENV", false),
            ("LD_PRELOAD", false),
            ("SHELLOPTS", false),
            ("PS4", false),
            ("IFS", false),
            ("GIT_DIR", false),
            ("BASH_FUNC_ls%%", false),
        ] {
            let env = ask(&client, name).ok();
            assert_eq!(env.is_some(), allowed, "{name}");
            if let Some(env) = env {
                assert_eq!((env["PATH"].as_str(), env[name].as_str()), ("/daemon", "mine"));
            }
            assert_eq!(ask(&Principal::User, name).unwrap().len(), 1, "the user: {name}");
        }
    }

    #[test]
    fn a_token_cannot_allow_a_protected_variable() {
        for (name, allowed) in
            [("COLOR", true), ("_x1", true), ("PATH", false), ("a/PATH", false), ("", false)]
        {
            assert_eq!(check_granted(&[name.to_owned()].into()).is_ok(), allowed, "{name}");
        }
    }
}
