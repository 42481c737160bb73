//! The rows of the matrix.

/// A situation of an agent that a user depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Situation {
    TeamTools,
    FinalAnswer,
    Tokens,
    SecondTurn,
    Cost,
    SessionShown,
    HandOver,
    RefusedKey,
    RateLimit,
    Overload,
    CutAnswer,
    ErrorAsText,
    LostTools,
    Crash,
    StopNow,
    Silence,
    SilentTool,
    Background,
    DaemonKilled,
    LateJoiner,
    LongText,
    LostConversation,
    SendNow,
    AttachedFile,
    Approved,
    Denied,
    KnownTools,
    Isolation,
    NoLeftovers,
    NoSecrets,
    Effort,
}

use Situation::*;

/// All situations in the order of the page: variant, id and words.
const ROWS: [(Situation, &str, &str); 31] = [
    (TeamTools, "team-tools", "uses the team's tools under its own name"),
    (FinalAnswer, "answer", "its answer is exactly the model's last text"),
    (SecondTurn, "second-turn", "its second turn continues the conversation"),
    (HandOver, "hand-over", "hands work over to the next agent, and each works once"),
    (Tokens, "tokens", "its tokens are those that the provider counted"),
    (Cost, "cost", "its cost is right"),
    (SessionShown, "session", "`status` shows its conversation and the command that opens it"),
    (RefusedKey, "refused-key", "401: it is stopped (`auth`)"),
    (RateLimit, "rate-limit", "429 with `Retry-After`: it is parked (`rate_limited`)"),
    (Overload, "overload", "529, and 503 with `Retry-After`: it is retried later (`transient`)"),
    (CutAnswer, "cut", "an answer that breaks off is no answer"),
    (ErrorAsText, "error-text", "an answer with the words of an error is an answer"),
    (LostTools, "lost-tools", "without a connection to the team's tools its turn fails"),
    (Crash, "crash", "a program that is ended by a signal has crashed, and no process is left"),
    (StopNow, "stop", "a stop in the middle of an answer leaves no process"),
    (Silence, "silence", "an answer that stays silent is ended at the limit of silence"),
    (SilentTool, "silent-tool", "a command may be silent for longer than that limit"),
    (
        Background,
        "background",
        "a command that it leaves running does not hold the turn or outlive it",
    ),
    (
        DaemonKilled,
        "daemon-killed",
        "`kill -9` of the daemon in its turn: the turn goes on, each call happens once",
    ),
    (LateJoiner, "late-joiner", "it knows an agent that joined after its first turn"),
    (LongText, "long-text", "a prompt of 58 KiB with `@` in code arrives unchanged"),
    (LostConversation, "lost-conversation", "it starts a new conversation if its own is lost"),
    (SendNow, "send-now", "`send --now` reaches it in the middle of an answer"),
    (AttachedFile, "file", "it reads an attached file without a question"),
    (Approved, "approved", "an approved command runs once, also after `kill -9` of the daemon"),
    (Denied, "denied", "a denied command never runs, and its turn goes on or fails (`permission`)"),
    (
        KnownTools,
        "known-tools",
        "its model is offered the tools of a list, none of which reaches past the turn",
    ),
    (Isolation, "isolation", "isolated, it shows its model nothing of the user's home"),
    (NoLeftovers, "leftovers", "project and home are unchanged after kills of workers and daemons"),
    (NoSecrets, "secrets", "no key and no token is among the arguments of its processes"),
    (Effort, "effort", "`effort` reaches its model"),
];

impl Situation {
    pub(crate) const ALL: [Self; 31] = {
        let mut all = [TeamTools; 31];
        let mut n = 0;
        while n < all.len() {
            all[n] = ROWS[n].0;
            n += 1;
        }
        all
    };

    /// Returns the word in the name of a result file.
    pub(crate) fn id(self) -> &'static str {
        self.row().1
    }

    /// Returns the description on the page.
    pub(crate) fn words(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> &'static (Self, &'static str, &'static str) {
        ROWS.iter().find(|row| row.0 == self).unwrap()
    }
}

#[test]
fn each_situation_of_the_matrix_has_one_row() {
    let mut ids = ROWS.map(|row| row.1);
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]));
    let mut all = Situation::ALL;
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(all.last(), Some(&Effort), "the last variant");
}
