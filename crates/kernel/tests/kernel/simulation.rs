//! Simulations of whole teams with random actions from a seed and with daemon restarts; afterwards all records must
//! be consistent.

use std::{panic, thread, time::Duration};

use agent_worker_kernel::{Error, Options, RandomSource};
use agent_worker_protocol::{EventKind, FailureClass, RunId, RunState, Seq, Span, hash};

use crate::{
    run_ledger::RunLedger,
    scripted_worker::{ScriptEnd, ScriptedWorker},
    world::{KernelWorld, StoreLocation, team, within},
};

const SEEDS: u64 = 200;
const THREADS: usize = 4;
const TEAM: [&str; 5] = ["ann", "ben", "cat", "dan", "eve"];

/// A reproducible source of chance for a seed.
struct SeededLuck(RandomSource);

impl SeededLuck {
    fn new(seed: u64, what: &str) -> Self {
        let hash = hash(&[&seed.to_le_bytes(), what.as_bytes()]);
        Self(RandomSource::seeded(u64::from_le_bytes(hash[..8].try_into().unwrap())))
    }

    /// Returns a number from 0 to `end`, exclusive.
    fn below(&self, end: u64) -> u64 {
        let secret = self.0.random_bytes().unwrap();
        u64::from_le_bytes(secret[..8].try_into().unwrap()) % end
    }

    fn time_below(&self, seconds: u64) -> Duration {
        Duration::from_millis(self.below(seconds * 1_000))
    }

    fn word(&self) -> &'static str {
        ["please", "now", "again", "poison"][usize::try_from(self.below(25)).unwrap() / 8]
    }

    fn mate(&self) -> &'static str {
        TEAM[usize::try_from(self.below(5)).unwrap()]
    }
}

/// Runs one turn of an agent; a refusal because the run has ended ends the turn.
async fn turn(worker: ScriptedWorker, luck: SeededLuck) -> ScriptEnd {
    for _ in 0..luck.below(4) {
        worker.pass_time(luck.time_below(20)).await;
        let went = match luck.below(7) {
            0..=2 => worker.send(&format!("@{} {}", luck.mate(), luck.word())).await.map(drop),
            3 => worker.send(&format!("@{} @{}", luck.mate(), luck.mate())).await.map(drop),
            4 => worker.inbox().await.map(drop),
            5 => match worker.inbox().await {
                Ok(mail) => {
                    let until = mail.first().map_or(Seq::new(0), |message| message.seq);
                    worker.ack(until).await.map(drop)
                }
                Err(error) => Err(error),
            },
            _ => worker.heartbeat().await.map(drop),
        };
        if went.is_err() {
            return ScriptEnd::Crashes;
        }
    }
    if worker.job.woken_by.contains("poison") {
        return ScriptEnd::fails(FailureClass::Fatal);
    }
    match luck.below(100) {
        0..40 => ScriptEnd::done("done"),
        40..60 => ScriptEnd::done(&format!("Done.\n\n@{} {}", luck.mate(), luck.word())),
        60..70 => ScriptEnd::done(&format!("Thanks @{}", luck.mate())),
        70..78 => ScriptEnd::fails(FailureClass::Fatal),
        78..86 => ScriptEnd::fails(FailureClass::Transient),
        86..91 => ScriptEnd::rate_limited(worker.now().plus(luck.time_below(120))),
        91..97 => ScriptEnd::Crashes,
        97..99 => worker.hang().await,
        _ => ScriptEnd::fails(FailureClass::Auth),
    }
}

/// Restarts the daemon, sometimes after killing its workers.
async fn restarts(world: &mut KernelWorld, luck: &SeededLuck) {
    for _ in 0..luck.below(3) {
        world.pass_time(luck.time_below(90)).await;
        world.stop_daemon().await;
        if luck.below(3) == 0 {
            world.machine.kill_all().await;
        }
        world.pass_time(luck.time_below(30)).await;
        world.restart_daemon().await;
    }
}

/// Waits until a run has ended; stops one that is paused at a limit.
async fn over(world: &KernelWorld, run: RunId) {
    let still = |kind| matches!(kind, Some(EventKind::RunEnded | EventKind::RunPaused));
    let event = world.wait_for_event(run, |event| still(event.kind())).await;
    if event.kind() == Some(EventKind::RunPaused) {
        let data = event.data();
        let limit = data["cause"]["limit"].as_str();
        assert!(
            matches!(limit, Some("hops" | "turns")),
            "nobody works and it does not end: {event:?}"
        );
        within(world.machine.wait_until_empty()).await;
        // The last turn may have finished everything that was left: then the run ends by itself.
        match world.stop(run).await {
            Ok(_) | Err(Error::RunEnded(_)) => {}
            Err(error) => panic!("the paused run cannot be stopped: {error}"),
        }
    }
    let state = world.wait_until_ended(run).await.state;
    assert!(matches!(state, RunState::Ended { .. }), "{state}");
}

async fn simulate(seed: u64) {
    let sweep = Span::from_secs(60);
    let options = Options {
        workers: 4,
        workers_per_instance: 3,
        sweep_interval: sweep,
        ..Options::default()
    };
    let mut world = KernelWorld::with(StoreLocation::Memory, options, seed).await;
    for agent in TEAM {
        world.machine.set_worker_script(agent, move |worker| {
            let what = format!("{} {}", worker.job.activation, worker.nth);
            turn(worker, SeededLuck::new(seed, &what))
        });
    }
    let limits = "limits: { hops: 12, turns: 80, wall: 20h }";
    let file = team(&TEAM.join(" "), &format!("{limits}\nkickoff: '@all go'"));
    let run = world.run(&file).await;
    restarts(&mut world, &SeededLuck::new(seed, "restarts")).await;
    over(&world, run).await;
    let peak = world.machine.peak_concurrency();
    assert!(peak.of_one_agent <= 1 && peak.in_one_instance <= 3, "{peak:?}");
    assert_eq!(world.machine.live_worker_count(), 0);
    RunLedger::read(&world, run).await.check_balance();
}

/// Returns true if a seed's simulation is consistent; otherwise the difference has been printed.
fn holds(seed: u64) -> bool {
    panic::catch_unwind(|| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(simulate(seed));
    })
    .is_ok()
}

#[test]
fn whatever_a_team_does_every_message_is_accounted_for() {
    // A simulation mostly waits for the store's thread: several in parallel take little longer than one.
    let failed: Vec<u64> = thread::scope(|scope| {
        let shares = (0..THREADS as u64).map(|first| (first..SEEDS).step_by(THREADS));
        let shares = shares.map(|mut seeds| scope.spawn(move || seeds.find(|seed| !holds(*seed))));
        let shares: Vec<_> = shares.collect();
        shares.into_iter().filter_map(|share| share.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "seeds {failed:?} do not add up; what is wrong is told above");
}
