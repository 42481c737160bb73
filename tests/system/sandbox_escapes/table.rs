//! The attempts to leave the sandbox, as shell commands, and the users for which each succeeds.

/// Who can carry out an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Nobody,
    Root,
    All,
}

/// The user who makes an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Account {
    Root,
    Unprivileged,
}

impl Reach {
    pub(super) fn includes(self, account: Account) -> bool {
        match self {
            Self::Nobody => false,
            Self::Root => account == Account::Root,
            Self::All => true,
        }
    }
}

/// One attempt, as a shell command, and the users for which it succeeds.
pub(super) struct Escape {
    pub(super) name: &'static str,
    /// Folder below the base.
    pub(super) folder: &'static str,
    pub(super) script: &'static str,
    pub(super) full: Reach,
    pub(super) basic: Reach,
    pub(super) off: Reach,
}

/// An attempt that both levels stop and that everybody can carry out without a sandbox.
const fn stopped(name: &'static str, script: &'static str) -> Escape {
    let folder = "project";
    Escape { name, folder, script, full: Reach::Nobody, basic: Reach::Nobody, off: Reach::All }
}

/// An attempt that only the level `full` stops.
const fn open_at_basic(name: &'static str, script: &'static str) -> Escape {
    Escape { basic: Reach::All, ..stopped(name, script) }
}

/// An attempt that only root can carry out without a sandbox.
const fn of_root(name: &'static str, script: &'static str) -> Escape {
    Escape { off: Reach::Root, ..stopped(name, script) }
}

/// Connects a socket and prints what the other end sends.
macro_rules! connect {
    ($family:literal, $kind:literal, $address:literal) => {
        concat!(
            "python3 -c 'import socket,os\ns=socket.socket(socket.",
            $family,
            ",socket.",
            $kind,
            ")\ns.settimeout(5)\ns.connect(",
            $address,
            ")\ns.send(b\"x\")\nprint(s.recv(100).decode())'"
        )
    };
}

/// Calls a function of the C library with a number and the bystander's pid, and prints the text if it returns 0 or more.
macro_rules! call {
    ($call:literal) => {
        concat!(
            "python3 -c 'import ctypes,os\nc=ctypes.CDLL(None)\npid=int(os.environ[\"BYSTANDER\"])\nr=",
            $call,
            "\nprint(\"ESCAPED\" if r>=0 else \"no\")'"
        )
    };
}

pub(super) const ESCAPES: [Escape; 37] = [
    stopped("the daemon's database", "cat $BASE/state/agent-worker.db"),
    stopped("a run's token file", "cat $BASE/state/runs/1/mcp.token"),
    stopped("a key of ssh", "cat ~/.ssh/id_ed25519"),
    stopped("passwords of the network", "cat ~/.netrc"),
    of_root("passwords of the system", "grep -q '^root:' /etc/shadow && echo ESCAPED"),
    stopped("read by an absolute path", "cat $BASE/outside/file"),
    stopped("write by an absolute path", "echo x >> $BASE/outside/log && echo ESCAPED"),
    stopped("read through a link", "ln -sf $BASE/outside/file l; cat l"),
    stopped("write through a link", "ln -sf $BASE/outside/log l; echo x >> l && echo ESCAPED"),
    stopped("hard link", "rm -f h; ln $BASE/outside/file h && cat h"),
    stopped("list the folder above", "ls .. | grep -q outside && echo ESCAPED"),
    stopped("the root of a process", "cat /proc/$BYSTANDER/root$BASE/outside/file"),
    stopped("the environment of a process", "tr '\\0' '\\n' < /proc/$BYSTANDER/environ"),
    stopped("memory of a process", "head -c 0 /proc/$BYSTANDER/mem && echo ESCAPED"),
    stopped(
        "trace a process",
        call!(
            "c.ptrace(16,pid,0,0)\nos.waitpid(-1,os.WNOHANG|0x40000000) if r==0 else 0\nc.ptrace(17,pid,0,0)"
        ),
    ),
    stopped("signal a process", "kill -0 $BYSTANDER && echo ESCAPED"),
    stopped(
        "connect by address",
        connect!("AF_INET", "SOCK_STREAM", "(\"127.0.0.1\",int(os.environ[\"PORT\"]))"),
    ),
    stopped(
        "connect by name",
        connect!("AF_INET", "SOCK_STREAM", "(\"localhost\",int(os.environ[\"PORT\"]))"),
    ),
    stopped(
        "connect over IPv6",
        connect!("AF_INET6", "SOCK_STREAM", "(\"::ffff:127.0.0.1\",int(os.environ[\"PORT\"]))"),
    ),
    stopped(
        "UDP",
        connect!("AF_INET", "SOCK_DGRAM", "(\"127.0.0.1\",int(os.environ[\"UDP_PORT\"]))"),
    ),
    stopped(
        "abstract socket",
        connect!("AF_UNIX", "SOCK_STREAM", "\"\\0\"+os.environ[\"ABSTRACT\"]"),
    ),
    open_at_basic(
        "the daemon's socket",
        connect!("AF_UNIX", "SOCK_STREAM", "os.environ[\"BASE\"]+\"/state/daemon.sock\""),
    ),
    open_at_basic(
        "a socket such as docker's",
        connect!("AF_UNIX", "SOCK_STREAM", "os.environ[\"BASE\"]+\"/outside/docker.sock\""),
    ),
    stopped("vsock", call!("c.socket(40,1,0)")),
    of_root("packet socket", call!("c.socket(17,3,0)")),
    of_root("raw socket", call!("c.socket(2,3,1)")),
    stopped("netlink socket for devices", call!("c.socket(16,3,15)")),
    stopped("user namespace by unshare", call!("c.unshare(0x10000000)")),
    stopped(
        "user namespace by clone",
        call!("c.syscall(56,0x10000011,0,0,0,0)\nos._exit(0) if r==0 else 0"),
    ),
    of_root("settings of the kernel", call!("os.open(\"/proc/sys/kernel/core_pattern\",1)")),
    open_at_basic("hooks of git", "echo x > .git/hooks/post-commit && echo ESCAPED"),
    open_at_basic(
        "settings of git",
        "git config core.fsmonitor x && git config --unset core.fsmonitor && echo ESCAPED",
    ),
    open_at_basic(
        "another folder for git",
        "echo . > .git/commondir && rm .git/commondir && echo ESCAPED",
    ),
    open_at_basic("move the git folder", "mv .git moved && mv moved .git && echo ESCAPED"),
    open_at_basic(
        "settings of agents",
        "mkdir -p .claude && echo '{}' > .claude/settings.json && rm -r .claude && echo ESCAPED",
    ),
    Escape {
        folder: "plain",
        ..open_at_basic(
            "create a git folder",
            "mkdir .git && touch .git/config && rm -r .git && echo ESCAPED",
        )
    },
    stopped(
        "a memory bomb",
        "python3 -c 'import mmap\nmmap.mmap(-1,5<<30,flags=0x4022)\nprint(\"ESCAPED\")'",
    ),
];

pub(super) const WORKTREE_ESCAPES: [Escape; 3] = [
    Escape {
        folder: "tree",
        ..stopped("hooks of a worktree", "echo x > $BASE/project/.git/hooks/x && echo ESCAPED")
    },
    Escape {
        folder: "tree",
        ..stopped("settings of a worktree", "git config user.name b && echo ESCAPED")
    },
    Escape {
        folder: "tree",
        ..open_at_basic("the pointer of a worktree", "mv .git x && mv x .git && echo ESCAPED")
    },
];

/// A fork bomb of processes that wait. In a sandbox of root the number is not limited, but all end with it.
pub(super) const FORK_BOMB: Escape = Escape {
    name: "a fork bomb",
    folder: "project",
    script: "python3 -c 'import os,signal\nn=[]\ntry:\n  while len(n)<1200:\n    p=os.fork()\n    if p==0: signal.pause()\n    n.append(p)\n  print(\"ESCAPED\")\nexcept OSError: pass\nfinally:\n  for p in n: os.kill(p,9)'",
    full: Reach::Root,
    basic: Reach::All,
    off: Reach::All,
};

/// Opens `HOST:PORT` through the proxy of the sandbox, or directly without one, and prints the first bytes that the other
/// end sends.
macro_rules! tunnel {
    ($target:literal) => {
        concat!(
            "python3 - <<'END'\nimport os,socket\nfrom urllib.parse import urlsplit\n",
            "target=",
            $target,
            "\nproxy=os.environ.get('HTTPS_PROXY')\n",
            "host,port=(urlsplit(proxy).hostname,urlsplit(proxy).port) if proxy else target.rsplit(':',1)\n",
            "s=socket.create_connection((host.strip('[]'),int(port)),10)\n",
            "if proxy:\n",
            "  s.sendall(('CONNECT '+target+' HTTP/1.1\\r\\n\\r\\n').encode())\n",
            "  head=s.recv(4096).decode()\n",
            "  if ' 200 ' not in head: raise SystemExit(head)\n",
            "s.sendall(b'x')\nprint(s.recv(100).decode())\nEND"
        )
    };
}

/// The hosts of the attempts below. The second name has an address of this machine, as if its owner had changed it.
pub(super) const LISTED_HOSTS: [&str; 3] =
    ["127.0.0.1:$PORT", "$LOCAL_NAME:$OTHER_PORT", "*.example.com"];

/// An attempt in a sandbox with a list of hosts, which the level `basic` refuses as a whole.
const fn by_network(name: &'static str, script: &'static str) -> Escape {
    stopped(name, script)
}

pub(super) const NETWORK_ESCAPES: [Escape; 12] = [
    Escape {
        full: Reach::All,
        ..by_network("a listed host", tunnel!("'127.0.0.1:'+os.environ['PORT']"))
    },
    Escape {
        full: Reach::All,
        ..by_network(
            "a listed port of this machine, without a proxy",
            connect!("AF_INET", "SOCK_STREAM", "(\"127.0.0.1\",int(os.environ[\"PORT\"]))"),
        )
    },
    by_network("a host that is not listed", tunnel!("'127.0.0.1:'+os.environ['OTHER_PORT']")),
    by_network(
        "a port that is not listed, without the proxy",
        connect!("AF_INET", "SOCK_STREAM", "(\"127.0.0.1\",int(os.environ[\"OTHER_PORT\"]))"),
    ),
    by_network(
        "a listed name with an address of this machine",
        tunnel!("os.environ['LOCAL_NAME']+':'+os.environ['OTHER_PORT']"),
    ),
    by_network("a name of this machine", tunnel!("'localhost:'+os.environ['PORT']")),
    by_network("a name in upper case", tunnel!("'LOCALHOST:'+os.environ['PORT']")),
    by_network("an address in IPv6", tunnel!("'[::ffff:127.0.0.1]:'+os.environ['OTHER_PORT']")),
    by_network("an address as a number", tunnel!("'2130706433:'+os.environ['PORT']")),
    by_network("an address with an octal part", tunnel!("'0177.0.0.1:'+os.environ['PORT']")),
    by_network(
        "UDP",
        connect!("AF_INET", "SOCK_DGRAM", "(\"127.0.0.1\",int(os.environ[\"UDP_PORT\"]))"),
    ),
    // The socket that carried the ports into the sandbox exists inside; without a sandbox there is none.
    Escape {
        off: Reach::Nobody,
        ..by_network(
            "the socket of the network",
            connect!("AF_UNIX", "SOCK_STREAM", "\"/run/agent-worker-network.sock\""),
        )
    },
];

/// Eight processes that use 640 MiB together, none of which has more than the limit of 512 MiB.
pub(super) const MEMORY_BOMB: Escape = Escape {
    name: "a memory bomb of several processes",
    folder: "project",
    script: "python3 -c 'import os,time\np=[]\nfor i in range(8):\n  r,w=os.pipe()\n  c=os.fork()\n  if c==0:\n    b=os.urandom(1<<20)*80\n    os.write(w,b\"x\")\n    time.sleep(20)\n    os._exit(0)\n  p.append((c,r))\nfor c,r in p: os.read(r,1)\ntime.sleep(4)\nfor c,r in p: os.kill(c,9)\nprint(\"ESCAPED\")'",
    full: Reach::Nobody,
    basic: Reach::Nobody,
    off: Reach::All,
};
