//! Programs that cannot start: each fails its turn at once and is named.

use std::{fs, os::unix::fs::PermissionsExt as _};

use agent_worker_protocol::{Backend, FailureClass, Native, SessionPolicy};

use crate::{
    process::run_worker,
    programs::{executable_job, failure_of},
    stub_daemon::StubDaemon,
};

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let command = |program: &str| Backend::Command { command: vec![program.to_owned()] };
    let claude = Native {
        cli: "claude".into(),
        command: Vec::new(),
        args: Vec::new(),
        mode: None,
        session: SessionPolicy::Continue,
    };
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_string_lossy().into_owned()
    };
    for (backend, expected) in [
        (command("no-such-program"), "there is no program `no-such-program` on the PATH"),
        (command("/no/such/program"), "the program `/no/such/program` does not exist"),
        (
            command(&script("bad.sh", "#!/no/such/interp\n")),
            "`{folder}/bad.sh` needs the interpreter `/no/such/interp`, which does not exist; \
             correct the first line of the file, or install the interpreter",
        ),
        (
            command(&script("data", "no program\n")),
            "`{folder}/data` is neither a program of this machine nor a script; \
             begin a script with a line such as `#!/bin/sh`",
        ),
        (
            command("/etc/passwd"),
            "`/etc/passwd` is not executable; make it executable: chmod +x /etc/passwd",
        ),
        (
            Backend::Native(claude),
            "there is no program `claude` on the PATH; install it: npm install --global @anthropic-ai/claude-code",
        ),
    ] {
        let daemon = StubDaemon::accepting();
        let mut job = executable_job(&daemon, "");
        job.env.insert("PATH".to_owned(), "/no/such/folder".to_owned());
        job.backend = backend;
        let (class, why) = failure_of(run_worker(&job).await.outcome);
        let expected = expected.replace("{folder}", &folder.path().to_string_lossy());
        assert_eq!((class, why), (FailureClass::MissingProgram, expected));
    }
}
