//! Files in messages: sent, listed, read by an agent, and refused.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::json;

use crate::{
    normalized_output::run_lines_normalized,
    shell_transcript::{run_lines, shell},
    world::World,
};

/// The first bytes of a PNG, which are no text.
const PNG: [u8; 10] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', 0, 0xff];

/// Prints the paths, modes and sizes of its files, and the content of the first one.
const READER: &str = r#"#!/bin/sh
input=$(cat)
paths=$(printf '%s' "$input" | grep -o '"path":"[^"]*"' | cut -d'"' -f4)
for path in $paths; do
    case "$input" in *"</message-"*"File attached to message 1: $path ("*) ;; *) echo "not in the prompt: $path" ;; esac
done
first=$(echo "$paths" | head -n 1)
echo "$(stat -c '%a %s' $paths | tr '\n' ' ')$(basename -a $paths | tr '\n' ' ')$(cat "$first")"
"#;

fn reader_team() -> World {
    let world = World::new();
    let script = world.file("reader.sh", READER);
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    let yaml = "name: team\nagents:\n  reader: { backend: command, command: [./reader.sh] }\n";
    world.file("team.yaml", yaml);
    let said = world.run(&["start", "team.yaml", "--background"]);
    assert_eq!(said.code, 0, "{said:?}\n{}", world.log());
    world
}

#[test]
fn a_resource_is_read_by_the_beginning_of_its_id() {
    let world = reader_team();
    assert_eq!(shell(&world, "printf hello | agent-worker resource create -").code, 0);
    insta::assert_snapshot!(run_lines_normalized(&world, r"
        agent-worker resource read 2cf24
        agent-worker resource read ffffff
        agent-worker resource read 2cf
    "), @r#"
    $ agent-worker resource read 2cf24
    hello
    $ agent-worker resource read ffffff
    ! error: no resource has an id that begins with `ffffff`
    ! hint: `agent-worker resource list` lists the resources
    (exit 1)
    $ agent-worker resource read 2cf
    ! error: invalid value '2cf' for '<ID>': `2cf` is not a resource's id: 4 to 64 hex digits
    !
    ! For more information, try '--help'.
    (exit 2)
    "#);
}

#[test]
fn an_agent_reads_the_files_of_a_message_and_a_person_sees_them() {
    let world = reader_team();
    world.file("note 1.txt", "hello");
    fs::write(world.project().join("shot.png"), PNG).unwrap();
    insta::assert_snapshot!(run_lines_normalized(&world, r#"
        agent-worker send reader@team "look" --attach "note 1.txt" --attach shot.png --wait
        agent-worker peek @team
        agent-worker resource list
        agent-worker export @team --format md
    "#), @r#"
    $ agent-worker send reader@team "look" --attach "note 1.txt" --attach shot.png --wait
    600 5 600 10 1-1-note_1.txt 1-2-shot.png hello
    ! #1 → reader
    $ agent-worker peek @team
    TIME #1 user → reader: look
    attached to #1: note 1.txt (text/plain, 5 B), resource 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
    attached to #1: shot.png (image/png, 10 B), resource d44c4eee8f72efac76c1f294e7260408825c8dad42adaaf6e9bee7e7ef4c7de3
    TIME #2 reader (answer to #1): 600 5 600 10 1-1-note_1.txt 1-2-shot.png hello
    $ agent-worker resource list
    ID  TYPE  BYTES  KEPT  CREATED BY
    2cf24dba5fb0  text/plain  5  TIME ago  user
    d44c4eee8f72  image/png  10  TIME ago  user
    $ agent-worker export @team --format md
    # @team

    ## #1 user → reader
    *INSTANT*

    > look

    *attached: note 1.txt (text/plain, 5 B), resource 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824*

    *attached: shot.png (image/png, 10 B), resource d44c4eee8f72efac76c1f294e7260408825c8dad42adaaf6e9bee7e7ef4c7de3*

    ## #2 reader (answer to #1)
    *INSTANT*

    > 600 5 600 10 1-1-note_1.txt 1-2-shot.png hello
    "#);
    let read = world.json(&["peek", "@team", "--json"]);
    let files = read["items"][0]["attachments"].clone();
    assert_eq!(files[0]["name"], "note 1.txt");
    assert_eq!(files[1]["media_type"], "image/png");
    assert_eq!((&files[0]["size"], &files[1]["size"]), (&json!(5), &json!(10)));
    let exported = world.json(&["export", "@team", "--json"]);
    assert_eq!(exported["items"][0]["attachments"], files);
    for (file, content) in [(&files[0], b"hello".as_slice()), (&files[1], &PNG)] {
        let id = file["resource"].as_str().unwrap();
        let read = world.command(&["resource", "read", id]).output().unwrap();
        assert_eq!(read.stdout, content, "{read:?}");
    }
    let id = files[1]["resource"].as_str().unwrap();
    let part = world.json(&["resource", "read", id, "--json"]);
    assert_eq!(
        (&part["encoding"], &part["content"]),
        (&json!("base64"), &json!("iVBORw0KGgoA/w=="))
    );
}

#[test]
fn a_file_that_cannot_be_attached_is_refused_before_anything_is_sent() {
    let world = World::new();
    world.file("team.yaml", "name: team\nagents: { me: { backend: mock } }\n");
    let large = fs::File::create(world.project().join("large.bin")).unwrap();
    large.set_len(11 * 1024 * 1024).unwrap();
    fs::create_dir(world.project().join("folder")).unwrap();
    insta::assert_snapshot!(run_lines(&world, "
        agent-worker send me@team look --attach missing.png
        agent-worker send me@team look --attach folder
        agent-worker send me@team look --attach team.yaml --attach large.bin
    "), @"
    $ agent-worker send me@team look --attach missing.png
    ! error: cannot attach missing.png: No such file or directory (os error 2)
    (exit 2)
    $ agent-worker send me@team look --attach folder
    ! error: cannot attach folder: it is a folder
    ! hint: attach its files one by one, or an archive of the folder
    (exit 2)
    $ agent-worker send me@team look --attach team.yaml --attach large.bin
    ! error: cannot attach large.bin: it has 11 MiB, and a file has at most SOME MiB
    ! hint: an agent on this machine can read the file itself: write its path into the message
    (exit 2)
    ");
    assert_eq!(world.daemon_pid(), None);
}
