//! `install.sh` against a server on loopback, and `daemon install` with a stub of `systemctl` that runs the unit.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use crate::world::{CommandOutput, World, record_skip, wait_for};

const TARGET: &str = if cfg!(target_arch = "aarch64") {
    "aarch64-unknown-linux-musl"
} else {
    "x86_64-unknown-linux-musl"
};

/// A server of the files of a release.
struct ReleaseServer {
    address: String,
}

impl ReleaseServer {
    fn start(files: BTreeMap<String, Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let files = Arc::new(files);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let request = lines.next().unwrap().unwrap();
                while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
                let path = request.split(' ').nth(1).unwrap_or_default();
                let found = path.strip_prefix("/v1/").and_then(|name| files.get(name));
                let (status, body) = match found {
                    Some(body) => ("200 OK", body.as_slice()),
                    None => ("404 Not Found", &b""[..]),
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
            }
        });
        Self { address }
    }
}

/// A release whose program prints `version`, and its checksum.
fn release(world: &World, version: &str) -> (BTreeMap<String, Vec<u8>>, String) {
    let folder = world.project().join(format!("agent-worker-{TARGET}"));
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("agent-worker");
    fs::write(&program, format!("#!/bin/sh\necho 'agent-worker {version}'\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let archive = format!("agent-worker-{TARGET}.tar.gz");
    let made = Command::new("tar")
        .args(["-czf", &archive, &format!("agent-worker-{TARGET}")])
        .current_dir(world.project())
        .status();
    assert!(made.unwrap().success());
    let sum =
        Command::new("sha256sum").arg(&archive).current_dir(world.project()).output().unwrap();
    let checksum = String::from_utf8(sum.stdout.clone()).unwrap()[..64].to_owned();
    let content = fs::read(world.project().join(&archive)).unwrap();
    (BTreeMap::from([(format!("{archive}.sha256"), sum.stdout), (archive, content)]), checksum)
}

fn install(world: &World, env: &[(&str, &str)]) -> CommandOutput {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
    let mut command = world.command_of(Path::new("sh"), &[]);
    command.arg(script).envs(env.iter().copied());
    CommandOutput::from(command.output().unwrap())
}

fn installed(world: &World) -> PathBuf {
    world.home().parent().unwrap().join(".local/bin/agent-worker")
}

#[test]
fn install_sh_installs_a_verified_program_and_replaces_it_by_the_next_version() {
    let world = World::new();
    for version in ["0.1.0", "0.2.0"] {
        let (files, _) = release(&world, version);
        let server = ReleaseServer::start(files);
        let said = install(&world, &[("AGENT_WORKER_RELEASES", &server.address)]);
        assert_eq!(said.code, 0, "{said:?}");
        let program = installed(&world);
        assert!(said.stdout.contains(&format!("installed agent-worker {version}: ")), "{said:?}");
        assert!(said.stdout.contains("add ") && said.stdout.contains("to PATH"), "{said:?}");
        let ran = CommandOutput::from(Command::new(&program).output().unwrap());
        assert_eq!(ran.stdout, format!("agent-worker {version}\n"));
        let others = fs::read_dir(program.parent().unwrap()).unwrap().count();
        assert_eq!(others, 1, "no temporary file is left");
    }
    let (files, _) = release(&world, "0.3.0");
    for (name, content) in files {
        fs::write(world.project().join(name), content).unwrap();
    }
    let folder = format!("file://{}", world.project().display());
    let bin = world.project().join("a b");
    let env =
        [("AGENT_WORKER_RELEASES", folder.as_str()), ("AGENT_WORKER_BIN", bin.to_str().unwrap())];
    let said = install(&world, &env);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(bin.join("agent-worker").exists());
}

#[test]
fn install_sh_refuses_a_changed_archive_and_keeps_the_installed_program() {
    let world = World::new();
    let (files, checksum) = release(&world, "0.1.0");
    let server = ReleaseServer::start(files.clone());
    assert_eq!(install(&world, &[("AGENT_WORKER_RELEASES", &server.address)]).code, 0);
    let (other, _) = release(&world, "6.6.6");
    let archive = format!("agent-worker-{TARGET}.tar.gz");
    let mut changed = files;
    changed.insert(archive.clone(), other[&archive].clone());
    let server = ReleaseServer::start(changed);
    let said = install(&world, &[("AGENT_WORKER_RELEASES", &server.address)]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains(&format!("instead of {checksum}")), "{said:?}");
    // A server that changes the checksum too is detected by a checksum of the user's own.
    let server = ReleaseServer::start(other);
    let env =
        [("AGENT_WORKER_RELEASES", server.address.as_str()), ("AGENT_WORKER_SHA256", &checksum)];
    assert_eq!(install(&world, &env).code, 1);
    let ran = CommandOutput::from(Command::new(installed(&world)).output().unwrap());
    assert_eq!(ran.stdout, "agent-worker 0.1.0\n");
}

#[test]
fn install_sh_says_what_is_missing() {
    let world = World::new();
    let server = ReleaseServer::start(BTreeMap::new());
    for (env, error) in [
        (&[][..], "AGENT_WORKER_RELEASES is not set"),
        (&[("AGENT_WORKER_RELEASES", "http://releases.example/v1")], "is not encrypted"),
        (&[("AGENT_WORKER_RELEASES", "releases.example/v1")], "is no address"),
        (&[("AGENT_WORKER_RELEASES", &server.address)], "could not be downloaded"),
    ] {
        let said = install(&world, env);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.stderr.contains(error) && said.stderr.contains("\nhint: "), "{said:?}");
        assert!(!installed(&world).exists());
    }
}

/// A `systemctl` that notes its words, and runs the program of the unit as systemd would.
const SYSTEMCTL: &str = r#"#!/bin/bash
echo "$*" >> "$HOME/systemctl.log"
unit="$HOME/.config/systemd/user/agent-worker.service"
case "$*" in
  "--user enable --now agent-worker.service")
    while IFS= read -r line; do
      case "$line" in
        Environment=*) export "${line#Environment=}" ;;
        ExecStart=*) start="${line#ExecStart=}" ;;
      esac
    done < "$unit"
    "$AGENT_WORKER_PROGRAM" daemon status >/dev/null 2>&1 || setsid -f $start >/dev/null 2>&1 </dev/null ;;
  "--user disable --now agent-worker.service") "$AGENT_WORKER_PROGRAM" daemon stop ;;
  "--user show-environment") [ ! -e "$HOME/no-manager" ] || { echo "Failed to connect to bus" >&2; exit 1; } ;;
esac
"#;

fn world_with_systemctl() -> (World, PathBuf) {
    let folder = tempfile::tempdir().unwrap().keep();
    let program = folder.join("systemctl");
    fs::write(&program, SYSTEMCTL).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    let world = World::with(&[
        ("PATH", &path),
        ("AGENT_WORKER_PROGRAM", env!("CARGO_BIN_EXE_agent-worker")),
    ]);
    (world, folder)
}

fn user_folder(world: &World) -> PathBuf {
    world.home().parent().unwrap().to_owned()
}

#[test]
fn the_service_takes_over_a_running_team_and_is_removed_without_its_data() {
    let (world, folder) = world_with_systemctl();
    world.file(
        "team.yaml",
        "name: team\nagents: { coder: { mock: [{ run: 'until [ -e go ]; do sleep 0.05; done', say: Done. }] } }\nkickoff: '@coder go'\n",
    );
    assert_eq!(world.run(&["start", "team.yaml", "--background"]).code, 0);
    wait_for("the worker", || {
        (world.json(&["daemon", "status", "--json"])["workers"] == 1).then_some(())
    });
    let before = world.daemon_pid().unwrap();

    let file = user_folder(&world).join(".config/systemd/user/agent-worker.service");
    let printed = world.run(&["daemon", "install", "--print"]);
    assert_eq!(printed.code, 0, "{printed:?}");
    assert!(!file.exists(), "--print writes nothing");
    let said = world.run(&["daemon", "install"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), printed.stdout);
    for line in ["KillMode=process", "Delegate=yes", "Restart=on-failure"] {
        assert!(printed.stdout.lines().any(|one| one == line), "{line}: {printed:?}");
    }
    assert!(
        said.stderr.contains("ran systemctl --user enable --now agent-worker.service"),
        "{said:?}"
    );
    let after = world.daemon_pid().unwrap();
    assert_ne!(before, after);
    assert_eq!(world.json(&["daemon", "status", "--json"])["workers"], 1, "the worker was adopted");

    let again = world.json(&["daemon", "install", "--json"]);
    assert_eq!(again["changed"], false);
    world.file("go", "");
    wait_for("the end of the turn", || {
        world.run(&["peek", "@team"]).stdout.contains("Done.").then_some(())
    });

    let removed = world.run(&["daemon", "uninstall"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert!(!file.exists());
    assert!(world.run(&["peek", "@team"]).stdout.contains("Done."));
    assert_eq!(world.json(&["daemon", "uninstall", "--json"])["changed"], false);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_service_is_refused_without_systemd_and_beside_a_unit_of_another_origin() {
    let (world, folder) = world_with_systemctl();
    fs::write(user_folder(&world).join("no-manager"), "").unwrap();
    let said = world.run(&["daemon", "install"]);
    assert_eq!(said.code, 1, "{said:?}");
    let cause = "systemd does not manage the services of this user";
    assert!(
        said.stderr.contains(cause) && said.stderr.contains("Failed to connect to bus"),
        "{said:?}"
    );
    let file = user_folder(&world).join(".config/systemd/user/agent-worker.service");
    assert!(!file.exists());

    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "[Service]\nExecStart=/my/own\n").unwrap();
    for words in [["daemon", "install"], ["daemon", "uninstall"]] {
        let said = world.run(&words);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.stderr.contains("was not written by agent-worker"), "{said:?}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "[Service]\nExecStart=/my/own\n");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn systemd_accepts_the_unit() {
    let world = World::new();
    let said = world.json(&["daemon", "install", "--print", "--json"]);
    let unit = world.file("agent-worker.service", said["unit"].as_str().unwrap());
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--user", "--man=no"]).arg(unit).env("XDG_RUNTIME_DIR", world.project());
    let Ok(verified) = verify.output() else {
        record_skip("systemd-analyze is not installed");
        return;
    };
    let output = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && !output.contains("agent-worker.service:"), "{output}");
}

#[test]
fn a_backup_of_a_live_database_has_all_messages() {
    let world = World::new();
    world.file("team.yaml", "name: team\nagents: { coder: { mock: [{ say: Done. }] } }\n");
    assert_eq!(world.run(&["start", "team.yaml", "--background"]).code, 0);
    let long = "x".repeat(200_000);
    world.file("long.txt", &long);
    assert_eq!(world.run(&["send", "@team", "hello", "--attach", "long.txt"]).code, 0);
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/how-to/operations.md"));
    let block = page.unwrap();
    let block = block.split("```sh\n").find(|block| block.contains(".backup")).unwrap();
    let script = block.split("\n```").next().unwrap();
    let mut shell = world.command_of(Path::new("bash"), &["-euo", "pipefail", "-c", script]);
    let saved = CommandOutput::from(shell.output().unwrap());
    assert_eq!(saved.code, 0, "{saved:?}");

    let backup = user_folder(&world).join("agent-worker-backup");
    let restored = World::new();
    let copied = Command::new("cp").arg("-a").arg(&backup).arg(restored.home()).status().unwrap();
    assert!(copied.success());
    // The team belongs to the folder of its file.
    let mut peek = restored.command(&["peek", "@team"]);
    let said = CommandOutput::from(peek.current_dir(world.project()).output().unwrap());
    assert!(said.code == 0 && said.stdout.contains("hello"), "{said:?}");
    let said = restored.run(&["doctor"]);
    assert!(said.stdout.contains("no damage found"), "{said:?}");
}
