#!/bin/sh
# Installs agent-worker for the user who runs it. Needs no root and changes nothing but one file.
#
#   AGENT_WORKER_RELEASES=URL sh install.sh
#
# AGENT_WORKER_RELEASES  address of the folder with the archives of a release, such as https://host/releases/0.1.0
# AGENT_WORKER_BIN       folder of the program [default: ~/.local/bin]
# AGENT_WORKER_SHA256    checksum that the archive must have [default: the one next to the archive]
#
# The archive of this machine is agent-worker-TARGET.tar.gz with TARGET.tar.gz.sha256 next to it; scripts/release-check
# makes both. A checksum from the same address detects a damaged download. Only AGENT_WORKER_SHA256 detects another program.
set -eu

# A function, so that a download of this file that breaks off runs nothing.
main() {
  releases="${AGENT_WORKER_RELEASES:-}"
  [ -n "$releases" ] || fail "AGENT_WORKER_RELEASES is not set" \
    "set it to the address of the folder with the archives; or build from source: cargo install --path ."
  releases="${releases%/}"
  require_safe_address "$releases"
  target="$(find_target)"
  archive="agent-worker-$target.tar.gz"

  work="$(mktemp -d)"
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  download "$releases/$archive" "$work/$archive"
  expected="${AGENT_WORKER_SHA256:-}"
  if [ -z "$expected" ]; then
    download "$releases/$archive.sha256" "$work/sha256"
    expected="$(cut -d ' ' -f 1 "$work/sha256")"
  fi
  verify "$work/$archive" "$expected"

  tar -xzf "$work/$archive" -C "$work" "agent-worker-$target/agent-worker" 2>/dev/null ||
    fail "$archive does not contain agent-worker-$target/agent-worker" "report it to the author of the release"
  program="$work/agent-worker-$target/agent-worker"
  version="$("$program" --version)" ||
    fail "the program of $archive does not run on this machine" "build from source: cargo install --path ."

  folder="${AGENT_WORKER_BIN:-${HOME:?HOME is not set}/.local/bin}"
  mkdir -p "$folder" || fail "$folder could not be created" "set AGENT_WORKER_BIN to a folder that you may write"
  # A running program keeps its file: the new one takes over its name.
  new="$folder/.agent-worker.$$"
  trap 'rm -rf "$work" "$new"' EXIT
  { cp "$program" "$new" && chmod 755 "$new" && mv -f "$new" "$folder/agent-worker"; } ||
    fail "$folder/agent-worker could not be written" "set AGENT_WORKER_BIN to a folder that you may write"

  echo "installed $version: $folder/agent-worker"
  case ":$PATH:" in
    *":$folder:"*) echo "next: agent-worker demo" ;;
    *) echo "next: add $folder to PATH, then: agent-worker demo" ;;
  esac
  if [ -S "${AGENT_WORKER_HOME:-$HOME/.agent-worker}/daemon.sock" ]; then
    echo "after an upgrade, a running daemon is replaced without ending its agents: agent-worker daemon restart"
  fi
}

fail() {
  echo "error: $1" >&2
  echo "hint: $2" >&2
  exit 1
}

# Prints the target of this machine.
find_target() {
  system="$(uname -s)"
  machine="$(uname -m)"
  [ "$system" = Linux ] || fail "agent-worker runs on Linux, and this is $system" "use a Linux machine or container"
  case "$machine" in
    x86_64 | amd64) echo x86_64-unknown-linux-musl ;;
    aarch64 | arm64) echo aarch64-unknown-linux-musl ;;
    *) fail "there is no archive for $machine" "build from source: cargo install --path ." ;;
  esac
}

# Refuses an address that others can change on the way, unless the checksum is known.
require_safe_address() {
  case "$1" in
    https://* | file://*) ;;
    http://127.0.0.1 | http://127.0.0.1[:/]* | http://localhost | http://localhost[:/]*) ;;
    http://*)
      [ -n "${AGENT_WORKER_SHA256:-}" ] ||
        fail "$1 is not encrypted" "use https, or set AGENT_WORKER_SHA256 to the checksum of the archive" ;;
    *) fail "$1 is no address" "it begins with https:// or file://" ;;
  esac
}

# Downloads $1 to the file $2.
download() {
  if command -v curl >/dev/null 2>&1; then
    curl --fail --silent --show-error --location --output "$2" "$1" ||
      fail "$1 could not be downloaded" "check AGENT_WORKER_RELEASES"
  elif command -v wget >/dev/null 2>&1; then
    wget --quiet --output-document="$2" "$1" || fail "$1 could not be downloaded" "check AGENT_WORKER_RELEASES"
  else
    fail "neither curl nor wget is installed" "install one of them"
  fi
}

# Checks that the file $1 has the SHA-256 checksum $2.
verify() {
  command -v sha256sum >/dev/null 2>&1 || fail "sha256sum is not installed" "install coreutils"
  actual="$(sha256sum "$1" | cut -d ' ' -f 1)"
  [ "$actual" = "$2" ] ||
    fail "the archive has the checksum $actual instead of $2" "download it again; if it stays, do not use it"
}

main "$@"
