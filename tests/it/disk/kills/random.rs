//! Kills at random, of one directory that lives through all of them.
//!
//! ```text
//! start (now and then killed in it) ─▶ compare what is new since the last time, and some of the old
//!   ▲                                    ─▶ users and workers ─▶ SIGKILL, at once or much later ─┐
//!   └────────────────────────────────────────────────────────────────────────────────────────────┘
//! at the end: compare everything, finish everything, compare everything again
//! ```
//!
//! `CALLBOARD_KILLS=<n>` sets how many.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use callboard_disk::Random;

use super::careless::Careless;
use crate::disk::ledger::{Fact, Ledger};
use crate::disk::load::{
    Keys, compare, decide, execute, filler, set_up, starts_again, submit, submit_batch, submit_held,
};
use crate::disk::long;
use crate::disk::program::{Ended, Program};
use crate::disk::worker::Worker;
use crate::support::Client;

const USERS: usize = 12;
const WORKERS: usize = 3;
/// How many tasks a worker holds at a time.
const CONCURRENCY: usize = 24;
/// From so many unfinished tasks on, users wait before they ask for more.
const BACKLOG: i64 = 600;
const PAUSE: Duration = Duration::from_millis(5);
/// How many older acknowledgements are compared after each kill.
const SAMPLE: usize = 25;
/// A kill of a working server comes within this time.
const WITHIN: usize = 600;
/// The length of a life in which leases run out.
const LEASES_RUN_OUT: Duration = Duration::from_secs(3);
/// After how many kills it says how far it is.
const TELL: usize = 50;
/// After how many kills it asks how much is unfinished: to say that, the server must have read all
/// that it has, and kills are to come before that, too.
const LOOK: usize = 10;
/// How long users get to read what was sent before the kill.
const GRACE: Duration = Duration::from_secs(10);
/// How long workers may take to see that the server is gone.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often the server is killed.
fn kills() -> usize {
    let wanted = std::env::var("CALLBOARD_KILLS").ok();
    let wanted = wanted.map(|kills| kills.parse().expect("CALLBOARD_KILLS is a number"));
    wanted.unwrap_or(if long() { 1_000 } else { 10 })
}

/// What is added to the server under test, such as a shim.
pub(super) type Prepare = Box<dyn Fn(&mut Command) + Send>;

/// One directory, through many kills.
pub(super) struct Torture {
    data: PathBuf,
    stderr: PathBuf,
    prepare: Prepare,
    /// Who stands between the workers and the server: a planted bug.
    pub(super) between: Option<Careless>,
    /// One in so many lives is long enough for leases to run out.
    pub(super) long_lives: usize,
    random: Random,
    ledger: Arc<Ledger>,
    pub(super) keys: Keys,
    workers: Vec<Worker>,
    /// How many acknowledgements were compared already.
    compared: usize,
    pub(super) kills: usize,
    looked: usize,
    in_starts: usize,
    /// Users that did not see the kill.
    stuck: usize,
    /// How long the last start took.
    start: Duration,
}

impl Torture {
    /// A server on a directory under `root`, with what is needed to work on it.
    pub(super) async fn begin(root: &std::path::Path, seed: u64, prepare: Prepare) -> Self {
        let (data, stderr) = (root.join("data"), root.join("stderr"));
        let program = Program::start(&data, &stderr, &prepare).expect("it starts");
        let ledger = Arc::new(Ledger::default());
        let keys = set_up(&program.url, &ledger).await.expect("the server works");
        assert_eq!(program.terminate().code, Some(0));
        let workers = (0..WORKERS).map(|_| Worker::new(&keys.worker, CONCURRENCY)).collect();
        Self {
            data,
            stderr,
            prepare,
            between: None,
            long_lives: 25,
            random: Random::new(seed),
            ledger,
            keys,
            workers,
            compared: 0,
            kills: 0,
            looked: 0,
            in_starts: 0,
            stuck: 0,
            start: Duration::from_millis(300),
        }
    }

    /// A start, all that was acknowledged since the last, some work, and a kill.
    pub(super) async fn once(&mut self) -> Result<(), String> {
        if self.random.below(5) == 0 {
            self.killed_in_start()?;
        }
        let began = Instant::now();
        let program = Program::start(&self.data, &self.stderr, &self.prepare);
        let program = program.map_err(|ended| format!("it does not start: {ended:?}"))?;
        self.start = began.elapsed();
        let client = Client::new(&program.url, &self.keys.operator);
        let mut facts = self.ledger.some(self.compared, SAMPLE, &mut self.random);
        facts.extend(self.ledger.since(self.compared));
        self.compared = self.ledger.len();
        compare(&client, facts).await?;
        self.ledger.next_life();
        if self.kills >= self.looked + LOOK {
            self.looked = self.kills;
            let total = async |path| {
                let list = client.get(path).await;
                list.body["pagination"]["total"].as_i64().expect("a total")
            };
            let held = total("/api/hitl/pending?limit=1").await;
            // What waits for an approval is running, and no worker has it.
            let open = total("/api/tasks?status=pending,running&limit=1").await - held;
            self.ledger.unfinished(open);
        }
        let ended = self.work_until_killed(program, &client).await?;
        if !ended.killed() {
            return Err(format!("it was not killed: {ended:?}"));
        }
        self.kills += 1;
        let broken = self.ledger.all_broken();
        if !broken.is_empty() {
            return Err(broken.join("; "));
        }
        if !self.ledger.refusals().is_empty() {
            return Err(format!("it refused: {:?}; {}", self.ledger.refusals(), ended.stderr));
        }
        Ok(())
    }

    /// Once or a few times in a row, anywhere up to a little after the start.
    fn killed_in_start(&mut self) -> Result<(), String> {
        for _ in 0..=self.random.below(3) {
            let longest = usize::try_from(self.start.as_micros()).expect("a short time") * 5 / 4;
            let moment = Duration::from_micros(self.random.below(longest.max(1)) as u64);
            let ended = Program::killed_after(&self.data, &self.stderr, moment, &self.prepare);
            if !ended.killed() {
                return Err(format!("it was not killed in its start: {ended:?}"));
            }
            self.kills += 1;
            self.in_starts += 1;
        }
        Ok(())
    }

    async fn work_until_killed(
        &mut self,
        program: Program,
        client: &Client,
    ) -> Result<Ended, String> {
        let moment = if self.random.below(self.long_lives) == 0 {
            LEASES_RUN_OUT
        } else {
            Duration::from_millis(self.random.below(WITHIN) as u64)
        };
        let gone = Arc::new(AtomicBool::new(false));
        let url = match &self.between {
            Some(between) => between.leads_to(&program.url),
            None => program.url.clone(),
        };
        let mut workers = Vec::new();
        for mut worker in self.workers.drain(..) {
            // Some workers die with the server, and what they held comes back by itself.
            if self.random.below(12) == 0 {
                worker = Worker::new(&self.keys.worker, CONCURRENCY);
            }
            let (url, ledger) = (url.clone(), Arc::clone(&self.ledger));
            workers.push(tokio::spawn(async move {
                if let Some(socket) = worker.connect(&url).await {
                    worker.work(socket, &ledger).await;
                }
                worker
            }));
        }
        let users: Vec<_> = (0..USERS)
            .map(|number| User {
                decides: number % 3 == 0,
                client: client.clone(),
                plan: self.keys.plan.clone(),
                ledger: Arc::clone(&self.ledger),
                gone: Arc::clone(&gone),
                random: Random::new(self.random.draw()),
            })
            .map(|user| tokio::spawn(user.work()))
            .collect();
        tokio::time::sleep(moment).await;
        let ended = program.kill();
        gone.store(true, Ordering::Relaxed);
        for mut user in users {
            // All is compared first, and then the test fails.
            if let Ok(over) = tokio::time::timeout(GRACE, &mut user).await {
                over.map_err(|error| error.to_string())?;
            } else {
                user.abort();
                self.stuck += 1;
            }
        }
        for worker in workers {
            let over = tokio::time::timeout(PATIENCE, worker).await;
            let over = over.map_err(|_| "a worker does not see that the server is gone")?;
            self.workers.push(over.map_err(|error| error.to_string())?);
        }
        Ok(ended)
    }

    /// Compares everything, has all of it finished, and compares again.
    pub(super) async fn end(&self) -> Result<Acknowledged, String> {
        let facts = self.ledger.facts();
        starts_again(&self.data, &self.stderr, &facts).await?;
        Ok(Acknowledged::of(&facts))
    }
}

/// How much was acknowledged.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Acknowledged {
    tasks: usize,
    outputs: usize,
    executions: usize,
    decisions: usize,
}

impl Acknowledged {
    fn of(facts: &[Fact]) -> Self {
        let mut sum = Self::default();
        for fact in facts {
            match fact {
                Fact::Task { .. } => sum.tasks += 1,
                Fact::Output { .. } => sum.outputs += 1,
                Fact::Execution { .. } => sum.executions += 1,
                Fact::Decision { .. } => sum.decisions += 1,
                Fact::Given { .. } | Fact::Key(_) | Fact::Plan(_) => {}
            }
        }
        sum
    }

    const fn all(self) -> usize {
        self.tasks + self.outputs + self.executions + self.decisions
    }
}

/// Somebody who asks for this and that, or decides, until the server is gone.
struct User {
    /// Lists come late after a start, and only those who decide need them.
    decides: bool,
    client: Client,
    plan: String,
    ledger: Arc<Ledger>,
    gone: Arc<AtomicBool>,
    random: Random,
}

impl User {
    async fn work(mut self) {
        while !self.gone.load(Ordering::Relaxed) {
            let (client, ledger) = (&self.client, &*self.ledger);
            let prompt = format!("{:x}", self.random.draw());
            match self.random.below(10) {
                _ if self.decides => decide(client, ledger, &mut self.random).await,
                _ if ledger.backlog() > BACKLOG => tokio::time::sleep(PAUSE).await,
                0..3 => submit(client, ledger, prompt).await,
                3 => {
                    let prompt = format!("{prompt} {}", filler(&mut self.random, 6_000));
                    submit(client, ledger, prompt).await;
                }
                4..6 => {
                    let prompts = (0..8).map(|number| format!("{prompt}.{number}")).collect();
                    submit_batch(client, ledger, prompts).await;
                }
                6..8 => submit_held(client, ledger, prompt).await,
                _ => execute(client, &self.plan, ledger, prompt).await,
            }
        }
    }
}

// On one thread: on several, a request that is handed to its connection just as that one breaks may
// never be answered (https://github.com/hyperium/hyper/issues/4122).
#[tokio::test]
async fn killed_again_and_again_nothing_acknowledged_is_lost() {
    let (_, seed) = Random::from_env();
    let directory = tempfile::tempdir().expect("a directory can be had");
    let began = Instant::now();
    let mut torture = Torture::begin(directory.path(), seed, Box::new(|_| ())).await;
    let (wanted, mut told) = (kills(), 0);
    let outcome = async {
        while torture.kills < wanted {
            torture.once().await.map_err(|why| format!("kill {}: {why}", torture.kills))?;
            if torture.kills >= told + TELL {
                told = torture.kills;
                let facts = torture.ledger.len();
                eprintln!("{} kills, {facts} facts, {:?}", torture.kills, began.elapsed());
            }
        }
        let (kills, in_starts) = (torture.kills, torture.in_starts);
        eprintln!(
            "{kills} kills, {in_starts} of them in a start, {:?}; {} leases replaced, {} users stuck",
            began.elapsed(),
            torture.ledger.replaced(),
            torture.stuck
        );
        torture.end().await
    };
    match outcome.await {
        Ok(acknowledged) => {
            let all = acknowledged.all();
            eprintln!(
                "seed {seed}: {all} writes acknowledged, none lost: {acknowledged:?}; {:?}",
                began.elapsed()
            );
            let least = if long() { 100 } else { 5 } * wanted;
            assert!(all >= least, "there was work: {all} writes");
            assert_eq!(torture.stuck, 0, "users that did not see that the server was gone");
        }
        Err(reason) => {
            let kept = directory.keep();
            let facts = format!("{:#?}", torture.ledger.facts());
            std::fs::write(kept.join("acknowledged"), facts).expect("a file can be made");
            panic!("seed {seed}: {reason} (kept in {})", kept.display());
        }
    }
}
