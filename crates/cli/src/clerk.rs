//! Carries to the daemon what a person says with a key to what an agent asks for, in the live view.
//!
//! What is open is read from the daemon, by the run's own id and folder: events only say when to look.

use std::{collections::BTreeSet, future::pending, pin::Pin, time::Duration};

use agent_worker_host::DialError;
use agent_worker_protocol::{
    ApprovalId, Consent, Millis, Target,
    api::{ApprovalView, ConsentRequest, RunStarted, RunView},
};
use uuid::Uuid;

use crate::{
    client::{Client, Reach, Scope},
    consent::Panel,
    console::Size,
    error::CliError,
    keys::{Hearing, Keys},
    line::{Line, Tone},
};

/// How long to wait before looking again where looking failed.
const AGAIN: Duration = Duration::from_secs(1);

/// Whoever is at the keyboard, and what they are asked.
pub(crate) struct Clerk {
    run: RunStarted,
    seat: Seat,
    keys: Keys,
    panel: Panel,
    /// What was open when it was last looked, oldest first.
    open: Vec<ApprovalView>,
    /// What was known to be open then.
    looked_for: BTreeSet<i64>,
    look_again: Option<Millis>,
    /// The request that is being answered.
    answering: Option<ApprovalId>,
    /// What is under way.
    errand: Option<Pin<Box<dyn Future<Output = Done> + Send>>>,
}

/// Whether anybody can answer with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// A person who reads along in a terminal that can be drawn on.
    Taken,
    /// Nobody.
    Empty,
}

enum Done {
    Looked(BTreeSet<i64>, Result<Vec<ApprovalView>, DialError>),
    Answered(ApprovalId, Result<ApprovalView, DialError>),
}

impl Clerk {
    pub(crate) fn new(run: RunStarted, seat: Seat) -> Self {
        Self {
            run,
            seat,
            keys: Keys::default(),
            panel: Panel::default(),
            open: Vec::new(),
            looked_for: BTreeSet::new(),
            look_again: None,
            answering: None,
            errand: None,
        }
    }

    /// Takes in what is wanted now and which keys were pressed.
    pub(crate) fn attend(&mut self, wanted: BTreeSet<i64>, client: &Client, now: Millis) {
        if self.seat == Seat::Empty {
            return;
        }
        self.open.retain(|request| wanted.contains(&request.id.get()));
        if self.open.is_empty() {
            self.keys.leave();
            self.panel.hide();
        } else {
            match self.keys.listen() {
                Hearing::GoesOn => {}
                Hearing::Begins | Hearing::Nothing => self.panel.hide(),
            }
            let said = self.panel.press(&self.keys.pressed(), now);
            if let (Some((id, consent)), None) = (said, self.answering) {
                // A look that was under way is taken again afterwards.
                self.answering = Some(id);
                self.errand = Some(Box::pin(answer(client.clone(), self.run.clone(), id, consent)));
            }
        }
        let is_late = self.look_again.is_some_and(|at| now >= at);
        if self.errand.is_none() && (wanted != self.looked_for || is_late) {
            self.look_again = None;
            self.errand = Some(Box::pin(look(client.clone(), self.run.clone(), wanted)));
        }
    }

    /// The request that can be answered now, in so much room.
    pub(crate) fn draw(&mut self, room: Size, now: Millis) -> Vec<Line> {
        match (self.seat, self.answering) {
            (Seat::Taken, None) if self.keys.listen() != Hearing::Nothing => {
                self.panel.draw(&self.open, room, now)
            }
            (Seat::Taken | Seat::Empty, _) => {
                self.panel.hide();
                Vec::new()
            }
        }
    }

    /// Leaves the terminal as it was.
    pub(crate) fn close(&mut self) {
        self.seat = Seat::Empty;
        self.keys.leave();
    }

    /// Waits until what is under way is done; for ever if nothing is. May be dropped while it waits.
    pub(crate) async fn done(&mut self, now: impl Fn() -> Millis) -> Option<Line> {
        let done = match &mut self.errand {
            Some(errand) => errand.await,
            None => pending().await,
        };
        self.errand = None;
        match done {
            Done::Looked(wanted, Ok(open)) => {
                (self.open, self.looked_for) = (open, wanted);
                None
            }
            Done::Looked(wanted, Err(_)) => {
                self.looked_for = wanted;
                self.look_again = Some(now().plus(AGAIN));
                None
            }
            Done::Answered(id, answered) => {
                self.answering = None;
                self.open.retain(|request| request.id != id);
                self.look_again = Some(now().plus(AGAIN));
                let error = CliError::from(answered.err()?);
                let what = format!("request #{id} is not answered: {}", error.body().message);
                Some(Line::of(Tone::Warn, what))
            }
        }
    }
}

/// What is open in a run.
async fn look(client: Client, run: RunStarted, wanted: BTreeSet<i64>) -> Done {
    let looked = async {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let RunView { project, .. } = client.run(run.run).await?;
        let target = Some(Target::instance(&run.instance));
        let mut open = client.approvals(&Scope { target, project, reach: Reach::Here }).await?;
        open.retain(|request| request.run == run.run);
        Ok(open)
    };
    let looked = looked.await;
    Done::Looked(wanted, looked)
}

async fn answer(client: Client, run: RunStarted, id: ApprovalId, consent: Consent) -> Done {
    let answered = async {
        let RunView { project, .. } = client.run(run.run).await?;
        let target = Some(Target::instance(&run.instance));
        let request = ConsentRequest { target, project: Some(project), reason: None };
        client.consent(&Uuid::now_v7().to_string(), id, consent, &request).await
    };
    let answered = answered.await;
    Done::Answered(id, answered)
}
