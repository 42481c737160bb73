//! The scene of the kill: messages are sent, the daemon gets SIGKILL, the next one continues.

use std::{collections::BTreeMap, time::Duration};

use agent_worker_protocol::Seq;
use tokio::join;
use uuid::Uuid;

use super::{
    evidence::{once_check, restart_checks},
    show::{REMARK_PREFIX, Show, is_message_from, is_running},
    stage::Halt,
};
use crate::output::{styled_line::Tone, text::pluralize};

/// Number of messages that are sent around the kill.
const REMARKS: usize = 24;
/// Number of messages that the daemon acknowledges before the kill.
const ACKNOWLEDGED: usize = 12;
/// Time for which no daemon runs.
const ABSENCE: Duration = Duration::from_millis(800);

/// A message with its idempotency key.
struct Remark {
    text: String,
    key: String,
}

impl Remark {
    fn new(number: usize) -> Self {
        Self { text: format!("{REMARK_PREFIX}{number}"), key: Uuid::now_v7().to_string() }
    }
}

impl Show<'_, '_> {
    /// Kills the daemon while two agents work and a message is on its way, and checks what the next daemon has.
    pub(super) async fn kill_the_daemon(&mut self) -> Result<(), Halt> {
        self.show_until(|event| is_running(event, "reviewer")).await?;
        self.stage.heading(2).await?;
        let before = self.read_team().await?;
        let remarks: Vec<Remark> = (1..=REMARKS).map(Remark::new).collect();
        let sent = self.kill_while_sending(&remarks).await?;
        self.start_next_daemon().await?;
        let after = self.read_team().await?;
        self.check_all(&restart_checks(&before, &sent, &after)).await?;
        let again = format!(
            "Now all {} are sent, {} of them for the second time with the same key:",
            remarks.len(),
            sent.len()
        );
        self.stage.say(Tone::Plain, &again).await?;
        for remark in &remarks {
            self.send(&remark.text, &remark.key).await?;
        }
        let after = self.read_team().await?;
        let texts: Vec<&str> = remarks.iter().map(|remark| remark.text.as_str()).collect();
        self.check_all(&[once_check(&texts, &after)]).await?;
        // The agents were at work until now.
        self.home.create_file("drafted")?;
        self.show_until(|event| is_message_from(event, "writer")).await?;
        self.home.create_file("reviewed")?;
        self.show_until(|event| is_message_from(event, "reviewer")).await
    }

    /// Returns the messages that the killed daemon acknowledged.
    async fn kill_while_sending(
        &mut self,
        remarks: &[Remark],
    ) -> Result<BTreeMap<Seq, String>, Halt> {
        let mut sent = BTreeMap::new();
        let (first, rest) = remarks.split_at(ACKNOWLEDGED);
        for remark in first {
            sent.insert(self.send(&remark.text, &remark.key).await?, remark.text.clone());
        }
        let receipts = pluralize(sent.len(), "receipt");
        let total = remarks.len();
        let text = format!("You send {total} messages to the writer. After {receipts}:");
        self.stage.say(Tone::Plain, &text).await?;
        self.stage.say(Tone::Strong, &format!("$ kill -9 {}", self.daemon_pid)).await?;
        let killed = if let Some(remark) = rest.first() {
            let request = self.send_request(&remark.text);
            let (last, killed) =
                join!(self.client.send(&remark.key, &request), self.home.kill_daemon());
            // The daemon may have acknowledged this one too.
            sent.extend(last.ok().map(|reply| (reply.seq, remark.text.clone())));
            killed
        } else {
            self.home.kill_daemon().await
        };
        killed?;
        let workers = match self.workers().len() {
            1 => "1 worker is".to_owned(),
            number => format!("{} are", pluralize(number, "worker")),
        };
        let text = format!("The daemon is dead. {workers} still at work.");
        self.stage.say(Tone::Warn, &text).await?;
        self.stage.pause(ABSENCE).await?;
        Ok(sent)
    }
}
