//! The next event, drawn by chance.
//!
//! A move only moves.

use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::approval::State as Held;
use callboard_domain::execution::Status as Phase;
use callboard_domain::id::{ExecutionId, TaskId};
use callboard_domain::query::{Approvals, Executions, Page, Tasks, Window};
use callboard_domain::task::{LeaseToken, Request, Status};

use super::asks;
use super::chance::Chance;
use super::clients::Ruling;
use super::disk::Trouble;
use super::workers::Player;
use super::world::{LIVE, World};
use crate::handle::Start;
use crate::items::worker::WorkerMessage;

/// The executions that have not ended.
const OPEN: [Phase; 2] = [Phase::Pending, Phase::Running];
/// How many workers there are at most.
const PLAYERS: usize = 4;
/// Enough for everything that a run makes.
pub(super) const ALL: Window = Window { limit: 100_000, offset: 0 };

impl World {
    /// One thing happens, and a while may pass.
    pub(super) async fn step(&mut self) {
        if self.is_over() {
            self.note("the process has died");
            self.crash(0, None).await;
        }
        if self.chance.percent(30) {
            self.end_former().await;
        }
        if self.chance.percent(6) {
            self.some_limit().await;
            return self.breathe().await;
        }
        match self.chance.below(100) {
            0..13 => self.some_task(),
            13..20 => self.some_execution(),
            20..22 => self.some_fork().await,
            22..30 => self.some_worker().await,
            30..55 => self.some_answer(),
            55..60 => self.some_stale_answer(),
            60..74 => self.some_review().await,
            74..77 => self.some_cancel().await,
            77..79 => self.some_cancel_of_execution().await,
            79 => self.some_signal().await,
            80..84 => self.some_retry().await,
            84..88 => self.some_trouble().await,
            88..90 => self.some_jump(),
            90..92 => self.some_silence(),
            _ => {
                let seconds = self.chance.within(1, 6);
                self.note(format!("{seconds} s pass"));
                self.wait(Duration::from_secs(seconds)).await;
            }
        }
        self.breathe().await;
    }

    /// A moment, in which unfinished work goes on or not.
    async fn breathe(&mut self) {
        match self.chance.below(4) {
            0 => {}
            1 => tokio::task::yield_now().await,
            2 => tokio::time::sleep(Duration::from_millis(self.chance.below(10))).await,
            _ => tokio::time::sleep(Duration::from_millis(self.chance.below(300))).await,
        }
        self.shared().hear();
    }

    fn some_task(&mut self) {
        let bounded = self.chance.percent(if self.limits.planned.is_some() { 40 } else { 25 });
        if self.chance.percent(25) {
            // One of a few keys; the same body has the same prompt.
            let (key, body) = (self.chance.below(4), self.chance.below(10) / 6);
            let prompt = format!("key {key} body {body}");
            let request = asks::task(&mut Chance::new(key), prompt);
            return self.submit(vec![request], false, Some((format!("key-{key}"), body)));
        }
        // More than its plan lets run, and some of it later, when the plan may be another.
        let is_planned = bounded && self.limits.planned.is_some();
        let single = if is_planned { 20 } else { 80 };
        let count = if self.chance.percent(single) { 1 } else { self.chance.within(2, 4) };
        let mut requests = Vec::new();
        for _ in 0..count {
            let prompt = format!("prompt {}", self.next());
            let start_at = self.start_at(if is_planned { 60 } else { 15 });
            requests.push(Request { start_at, ..asks::task(&mut self.chance, prompt) });
        }
        self.submit(requests, bounded, None);
    }

    fn some_execution(&mut self) {
        let plans = self.shared().oracle.plans.clone();
        match self.chance.pick(&plans) {
            Some(plan) if plans.len() > 2 || self.chance.percent(60) => {
                if self.chance.percent(20) {
                    let mut same = Chance::new(plan.depends_on.len() as u64);
                    let start = asks::start(&mut same, plan.depends_on.len());
                    return self.execute(plan.id, start, false, true);
                }
                let start_at = self.start_at(15);
                let start = asks::start(&mut self.chance, plan.depends_on.len());
                let start = Start { start_at, ..start };
                let bounded = self.chance.percent(20);
                self.execute(plan.id, start, bounded, false);
            }
            Some(_) | None => {
                let (source, depends_on) = asks::plan(&mut self.chance);
                self.note(format!("a plan {depends_on:?}"));
                self.make_plan(source, depends_on);
            }
        }
    }

    async fn some_worker(&mut self) {
        let count = self.shared().players.len();
        if count < PLAYERS && (count == 0 || self.chance.percent(40)) {
            let concurrency = usize::try_from(self.chance.within(1, 3)).expect("small");
            self.shared().players.push(Player::new(count, concurrency));
            return self.connect(count, false, false).await;
        }
        let number = self.chance.index(count);
        match self.chance.below(10) {
            0..3 => {
                self.note(format!("w{number} is cut off"));
                self.shared().players[number].cut();
            }
            3 => {
                self.note(format!("w{number} drains"));
                let mut shared = self.shared();
                let player = &mut shared.players[number];
                player.draining = true;
                if let Some(link) = player.link() {
                    link.say(WorkerMessage::Draining);
                }
            }
            4 => {
                self.note(format!("w{number} comes back and remembers nothing"));
                self.connect(number, true, true).await;
            }
            5 => {
                self.note(format!("w{number} comes back as another"));
                self.connect(number, false, true).await;
            }
            _ => self.connect(number, true, false).await,
        }
    }

    fn some_silence(&mut self) {
        let count = self.shared().players.len();
        if count == 0 {
            return;
        }
        let number = self.chance.index(count);
        let mut shared = self.shared();
        let player = &mut shared.players[number];
        player.silent = !player.silent;
        let silent = player.silent;
        shared.note(format!("w{number} is silent: {silent}"));
    }

    /// A worker that holds something answers.
    fn some_answer(&mut self) {
        for _ in 0..self.chance.within(1, 3) {
            let busy: Vec<_> = {
                let mut shared = self.shared();
                shared.hear();
                let there = |player: &&Player| player.link().is_some() && !player.silent;
                let players = shared.players.iter().filter(there);
                players.flat_map(|p| p.holds.iter().map(|lease| (p.number, *lease))).collect()
            };
            let Some((number, lease)) = self.chance.pick(&busy) else { return };
            self.answer(number, lease);
            if self.chance.percent(10) {
                self.answer(number, lease);
            }
        }
    }

    /// A worker answers under a lease that may be anybody's and long over.
    fn some_stale_answer(&mut self) {
        let (leases, there): (Vec<_>, Vec<_>) = {
            let mut shared = self.shared();
            shared.hear();
            let old = |player: &Player| player.old.clone();
            let held = |lease: &LeaseToken| {
                let mut held = shared.players.iter().flat_map(|player| &player.holds);
                held.any(|held| held.task == lease.task)
            };
            let there = shared.players.iter().filter(|player| player.link().is_some());
            let there = there.map(|player| player.number).collect();
            let mut leases: Vec<_> = shared.players.iter().flat_map(old).collect();
            // Those are worth most whose task somebody else works on by now.
            if leases.iter().any(held) {
                leases.retain(held);
            }
            (leases, there)
        };
        if let (Some(number), Some(lease)) = (self.chance.pick(&there), self.chance.pick(&leases)) {
            self.answer(number, lease);
        }
    }

    fn answer(&mut self, number: usize, lease: LeaseToken) {
        let answer = match self.chance.below(100) {
            0..80 => Ok(format!("out {}", self.next())),
            80..95 => Err(true),
            _ => Err(false),
        };
        #[expect(clippy::cast_precision_loss, reason = "a hundred")]
        let confidence = self.chance.below(100) as f64 / 100.0;
        let confidence = self.chance.percent(80).then_some(confidence);
        let share = self.chance.below(101);
        let mut shared = self.shared();
        shared.note(format!("w{number} answers {answer:?} under {lease}"));
        let shared = &mut *shared;
        shared.players[number].answer(&mut shared.oracle, lease, answer, (confidence, share));
    }

    /// The items of a page, which can always be read.
    pub(super) fn read<T>(&self, page: Result<Page<T>, Error>) -> Vec<T> {
        match page {
            Ok(page) => page.items,
            Err(error) => {
                self.shared().oracle.fault(format!("a list cannot be read: {error}"));
                Vec::new()
            }
        }
    }

    /// The outputs that wait for a reviewer.
    pub(super) async fn held(&self) -> Vec<TaskId> {
        let statuses = vec![Held::Pending, Held::Assigned, Held::Escalated, Held::Expired];
        let query = Approvals { statuses, window: ALL, ..Approvals::default() };
        let items = self.read(self.handle.approvals(LIVE, &query).await);
        items.iter().map(|item| item.approval.id()).collect()
    }

    async fn some_review(&mut self) {
        let held = self.held().await;
        let Some(task) = self.chance.pick(&held) else { return };
        if self.chance.percent(20) {
            let by = ["ann", "bob"][self.chance.index(2)];
            let release = self.chance.percent(30);
            return self.claim(task, by, release);
        }
        let racers = if self.chance.percent(70) { 1 } else { 3 };
        for by in ["ann", "bob", "eve"].iter().take(racers) {
            let ruling = match self.chance.below(10) {
                0..4 => Ruling::Approve(None),
                4..6 => Ruling::Approve(Some(format!("edit {}", self.next()))),
                6..8 => Ruling::Reject { retry: true },
                _ => Ruling::Reject { retry: false },
            };
            self.decide(task, by, ruling);
        }
        if self.chance.percent(10) {
            self.cancel(task);
        }
    }

    async fn some_cancel(&mut self) {
        let statuses = if self.chance.percent(90) {
            vec![Status::Pending, Status::Running]
        } else {
            Status::ALL.to_vec()
        };
        let query = Tasks { statuses, window: ALL, ..Tasks::default() };
        let items = self.read(self.handle.tasks(LIVE, &query).await);
        let ids: Vec<_> = items.iter().map(|task| task.spec.id).collect();
        if let Some(id) = self.chance.pick(&ids) {
            self.cancel(id);
        }
    }

    async fn some_execution_that(&mut self, is: Vec<Phase>) -> Option<ExecutionId> {
        let query = Executions { statuses: is, window: ALL, ..Executions::default() };
        let items = self.read(self.handle.executions(LIVE, &query).await);
        let ids: Vec<_> = items.iter().map(|item| item.execution.head.spec.id).collect();
        self.chance.pick(&ids)
    }

    /// A fork of any execution, from a step or from what differs.
    async fn some_fork(&mut self) {
        let only_completed = self.chance.percent(50);
        let statuses = if only_completed { vec![Phase::Completed] } else { Phase::ALL.to_vec() };
        let Some(id) = self.some_execution_that(statuses).await else { return };
        let from_step = self.chance.percent(40).then(|| format!("s{}", self.chance.below(3)));
        self.fork(id, from_step, only_completed);
    }

    async fn some_cancel_of_execution(&mut self) {
        if let Some(id) = self.some_execution_that(OPEN.to_vec()).await {
            self.cancel_execution(id);
        }
    }

    async fn some_signal(&mut self) {
        if let Some(id) = self.some_execution_that(OPEN.to_vec()).await {
            let name = format!("go{}", self.chance.below(2));
            self.signal(id, name);
        }
    }

    async fn some_retry(&mut self) {
        if let Some(id) = self.some_execution_that(vec![Phase::Failed, Phase::Cancelled]).await {
            self.retry_execution(id);
        }
    }

    async fn some_trouble(&mut self) {
        let soon = self.chance.within(1, 12);
        match self.chance.below(11) {
            10 => {
                self.note("another process takes over");
                let applied = self.chance.index(3);
                self.take_over(applied).await;
            }
            0 => {
                self.note("the process dies");
                let applied = self.chance.index(3);
                self.crash(applied, None).await;
            }
            1 => {
                self.note("the process dies, and again while it recovers");
                let trouble = (self.chance.within(1, 5), Trouble::CrashAfter);
                self.crash(0, Some(trouble)).await;
            }
            2 => {
                self.note("the server is stopped and started");
                self.restart().await;
            }
            3 => {
                self.note(format!("commit {soon} from now is refused"));
                self.disk.plan(soon, Trouble::Refused);
            }
            4..7 => {
                self.note(format!("the process dies before commit {soon} from now"));
                self.disk.plan(soon, Trouble::CrashBefore);
            }
            _ => {
                self.note(format!("the process dies after commit {soon} from now"));
                self.disk.plan(soon, Trouble::CrashAfter);
            }
        }
    }

    fn some_jump(&mut self) {
        if self.chance.percent(30) {
            let seconds = [5, 60, 3_600][self.chance.index(3)];
            self.note(format!("the machine sleeps for {seconds} s"));
            self.machine.seen(self.handle.now());
            return self.machine.sleep(seconds * 1_000);
        }
        let by = [-10, 3_600, -3_600, 5, 60][self.chance.index(5)];
        self.note(format!("the wall clock is set by {by} s"));
        self.set_clock(by * 1_000);
    }
}
