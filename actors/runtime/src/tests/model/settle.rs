//! The end of a run: every client and worker does its part, and nothing may be left over.

use std::time::Duration;

use callboard_domain::execution::Status as Phase;
use callboard_domain::query::{Executions, Tasks};
use callboard_domain::task::{OnConflict, Request, Status};

use super::asks::{self, KEYS};
use super::clients::Ruling;
use super::limits::{RATE, RATED};
use super::moves::ALL;
use super::workers::{Player, own_queue};
use super::world::{LEASE, LIVE, World};

/// How many rounds of about a second it may take until all has ended.
const ROUNDS: usize = 400;

impl World {
    /// Brings everything to its end.
    ///
    /// # Errors
    /// Something is stuck or left over.
    pub(super) async fn settle(&mut self) -> Result<(), String> {
        self.disk.spare();
        self.end_former().await;
        // After a commit that was refused the process goes on, and must have undone it everywhere.
        if self.is_over() || !self.shared().is_innocent() && self.chance.percent(30) {
            self.note("the process is started a last time");
            self.crash(usize::MAX, None).await;
        }
        self.machine.catch_up(|| self.handle.now());
        let had_trouble = self.disk.was_troubled();
        self.loosen().await?;
        self.everybody_works().await;
        for round in 0.. {
            self.verdict()?;
            if self.disk.was_troubled() != had_trouble || self.is_over() {
                return Err("the disk has trouble that nobody asked for".into());
            }
            let open = self.open().await;
            if open.is_empty() && self.clients.is_empty() {
                break;
            }
            if round == ROUNDS {
                return Err(format!("stuck: {open:?}, {} requests", self.clients.len()));
            }
            self.everybody_answers().await;
            self.wait(Duration::from_secs(1)).await;
            self.judge_limits()?;
            while self.clients.try_join_next().is_some() {}
        }
        self.wait(Duration::from_secs(3)).await;
        let awake = self.handle.awake();
        if awake > 0 {
            return Err(format!("{awake} actors are awake with nothing to do"));
        }
        let timer_count = self.handle.timer_count();
        if timer_count > 0 {
            return Err(format!("{timer_count} are to be woken with nothing to do"));
        }
        self.verdict()
    }

    async fn everybody_works(&mut self) {
        let count = self.shared().players.len();
        if count == 0 {
            self.shared().players.push(Player::new(0, 2));
        }
        for number in 0..count.max(1) {
            let fine = {
                let mut shared = self.shared();
                shared.hear();
                let player = &mut shared.players[number];
                player.silent = false;
                player.link().is_some() && !player.draining
            };
            if !fine {
                self.connect(number, true, false).await;
            }
        }
    }

    /// The unfinished items, by name.
    async fn open(&self) -> Vec<String> {
        let statuses = vec![Status::Pending, Status::Running];
        let query = Tasks { statuses, window: ALL, ..Tasks::default() };
        let tasks = self.read(self.handle.tasks(LIVE, &query).await);
        let statuses = vec![Phase::Pending, Phase::Running];
        let query = Executions { statuses, window: ALL, ..Executions::default() };
        let runs = self.read(self.handle.executions(LIVE, &query).await);
        let task =
            |task: &callboard_domain::task::Task| format!("{} {:?}", task.spec.id, task.state);
        let run = |run: &crate::read::runs::Overview| run.execution.head.spec.id.to_string();
        tasks.iter().map(task).chain(runs.iter().map(run)).collect()
    }

    async fn everybody_answers(&mut self) {
        let again: Vec<_> = {
            let mut shared = self.shared();
            shared.hear();
            let away = |player: &&Player| player.link().is_none();
            shared.players.iter().filter(away).map(|player| player.number).collect()
        };
        for number in again {
            self.connect(number, true, false).await;
        }
        let query =
            Executions { statuses: vec![Phase::Running], window: ALL, ..Executions::default() };
        let runs = self.read(self.handle.executions(LIVE, &query).await);
        for run in runs {
            let awaits = |(_, row): (u16, &callboard_domain::execution::StepState)| {
                row.stage == callboard_domain::execution::Stage::Awaiting
            };
            if run.execution.steps().any(awaits) {
                for name in ["go0", "go1"] {
                    self.signal(run.execution.head.spec.id, name.into());
                }
            }
        }
        let held = self.held().await;
        for task in held {
            self.decide(task, "zoe", Ruling::Approve(None));
        }
        let mut counter = self.counter;
        {
            let mut shared = self.shared();
            let shared = &mut *shared;
            for player in &mut shared.players {
                for lease in player.holds.clone() {
                    counter += 1;
                    let answer = Ok(format!("out {counter}"));
                    player.answer(&mut shared.oracle, lease, answer, (Some(0.9), 50));
                }
            }
        }
        self.counter = counter;
    }

    /// Every worker can be given as much as it has asked for, and the bounded account can run as much
    /// as it may: no place was lost on the way.
    ///
    /// # Errors
    /// One was.
    pub(super) async fn every_place_is_free(&mut self) -> Result<(), String> {
        // One that was silent until now may have been sent away meanwhile.
        self.everybody_works().await;
        let there: Vec<_> = {
            let shared = self.shared();
            shared
                .players
                .iter()
                .map(|player| (player.number, player.profile.concurrency))
                .collect()
        };
        for (number, concurrency) in &there {
            let request =
                |n: usize| asks::plain(format!("place {number} {n}"), &own_queue(*number));
            let requests = (0..*concurrency).map(request).collect();
            self.submit(requests, false, None);
        }
        self.wait(Duration::from_secs(1)).await;
        for (number, concurrency) in there {
            let held = self.shared().players[number].holds.len();
            if held != concurrency {
                return Err(format!("w{number} has room for {concurrency} and is given {held}"));
            }
        }
        self.all_done().await?;
        let request = |n: u32| asks::plain(format!("bounded {n}"), "default");
        self.submit((0..=asks::BOUND).map(request).collect(), true, None);
        self.wait(Duration::from_secs(1)).await;
        let running: usize = self.shared().players.iter().map(|player| player.holds.len()).sum();
        let room: usize = self.shared().players.iter().map(|p| p.profile.concurrency).sum();
        let expected = room.min(usize::try_from(asks::BOUND).expect("small"));
        if running != expected {
            return Err(format!("the bounded account may run {expected} and runs {running}"));
        }
        self.all_done().await?;
        self.every_key_is_free().await?;
        self.the_rate_is_free().await
    }

    /// A task that is refused while its key is used up is taken.
    async fn every_key_is_free(&mut self) -> Result<(), String> {
        for key in KEYS {
            let flow = Some(asks::of_key(key, OnConflict::Reject));
            let request = Request { flow, ..asks::plain(format!("use of {}", key.0), "default") };
            self.shared().oracle.maybe.insert(request.inputs.prompt.clone());
            let taken = self.handle.submit(&self.bounded(), vec![request], false, None).await;
            taken.map_err(|error| format!("nothing runs, and {} is used up: {error}", key.0))?;
        }
        self.all_done().await
    }

    /// The queue with a rate gives out as many leases as its rate allows beside those of the last minute.
    async fn the_rate_is_free(&mut self) -> Result<(), String> {
        // Of a lease whose commit was refused nothing is left but its place in the rate.
        if !self.limits.is_rated || !self.shared().is_innocent() {
            return Ok(());
        }
        let given = self.leases_of_last_minute(RATED).await?;
        let rest = (RATE as usize).saturating_sub(given);
        let number = {
            let players = &mut self.shared().players;
            players.push(Player::new(players.len(), RATE as usize));
            players.len() - 1
        };
        self.connect(number, false, false).await;
        let request = |n: usize| asks::plain(format!("rate {n}"), RATED);
        if rest == 0 {
            return Ok(());
        }
        self.submit((0..rest).map(request).collect(), false, None);
        self.wait(Duration::from_secs(1)).await;
        let running: usize = self.shared().players.iter().map(|player| player.holds.len()).sum();
        if running < rest {
            return Err(format!("{given} of {RATE} leases a minute, and {running} of {rest} more"));
        }
        self.verdict()
    }

    async fn all_done(&mut self) -> Result<(), String> {
        for _ in 0..10 {
            self.everybody_answers().await;
            self.wait(Duration::from_secs(1)).await;
        }
        while self.clients.try_join_next().is_some() {}
        let open = self.open().await;
        if open.is_empty() { self.verdict() } else { Err(format!("left over: {open:?}")) }
    }

    /// Every worker's lease that could still run has run out.
    pub(super) async fn leases_run_out(&self) {
        self.wait(LEASE * 2).await;
    }
}
