//! Killed before and after the k-th write or sync, for every k of a short run, and of a recovery:
//! the next start shows everything acknowledged, and works on.
//!
//! ```text
//! nothing ──────────────┐
//! used, left in order ──┼─▶ start ─▶ a little work ─▶ killed at the k-th call ─▶ start, compare,
//! left by a kill ───────┘     └─▶ killed at the k-th call of the recovery, and again ─▶  finish
//! ```
//!
//! Rounds of the store come in between, so that the k-th call is not always the same one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_disk::{Call, Counts, Fault, Moment, Outcome, Random, Shim, copy};

use crate::disk::ledger::{Fact, Ledger};
use crate::disk::load::{Amount, Keys, is_loss, set_up, starts_again, work};
use crate::disk::long;
use crate::disk::pool::{Sum, run_until_met};
use crate::disk::program::Program;

/// How much is done in a run.
const ROUNDS: usize = 4;
/// Within how many kills a planted bug must be found: by replies, and by what workers were given, of which
/// there is less; and how many are made in one go.
const BY_REPLIES: usize = 9;
const BY_EFFECTS: usize = 90;
const AT_ONCE: usize = 9;

/// What a server finds when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Used,
    /// A kill was not followed by a start yet.
    Killed,
}

/// One run: a start for each kill, and a last one without.
#[derive(Debug, Clone)]
struct Case {
    number: usize,
    found: Found,
    kills: Vec<Fault>,
}

/// A directory, and what was acknowledged there.
#[derive(Debug)]
struct Left {
    root: PathBuf,
    facts: Vec<Fact>,
}

/// Where kills are made.
struct Bench {
    directory: tempfile::TempDir,
    shim: Shim,
    keys: Keys,
    used: Left,
    killed: Left,
    /// How many writes of the journal are held back.
    held: Option<u8>,
    /// Only what workers were given is compared, and no acknowledgement.
    effects_only: bool,
}

impl Bench {
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be had");
        let shim = Shim::build(directory.path());
        let path = |name: &str| directory.path().join(name);
        let (used, killed, stderr) = (path("used"), path("killed"), path("stderr"));
        let ledger = Arc::new(Ledger::default());
        let program = Program::start(&used.join("data"), &stderr, |_| ()).expect("it starts");
        let keys = set_up(&program.url, &ledger).await.expect("the server works");
        work(
            &program.url,
            &keys,
            &ledger,
            Amount { users: 2, rounds: ROUNDS, long: 6_000, seed: 1 },
        )
        .await;
        assert_eq!(program.terminate().code, Some(0));
        let used = Left { root: used, facts: ledger.facts() };

        copy(&used.root, &killed);
        let program = Program::start(&killed.join("data"), &stderr, |_| ()).expect("it starts");
        work(&program.url, &keys, &ledger, Amount { users: 3, rounds: 6, long: 6_000, seed: 2 })
            .await;
        assert!(program.kill().killed());
        let killed = Left { root: killed, facts: ledger.facts() };
        Self { directory, shim, keys, used, killed, held: None, effects_only: false }
    }

    /// Has writes of the journal held back in every start that is killed: a planted bug.
    fn with_late_writes(self) -> Self {
        Self { held: Some(8), ..self }
    }

    /// A copy of what the server is to find, and what was acknowledged of it.
    fn place(&self, found: Found, root: &Path) -> &[Fact] {
        let left = match found {
            Found::Nothing => {
                std::fs::create_dir_all(root).expect("a directory can be made");
                return &[];
            }
            Found::Used => &self.used,
            Found::Killed => &self.killed,
        };
        copy(&left.root, root);
        &left.facts
    }

    /// Starts, works and is killed, for each kill; then starts, and compares.
    async fn run(&self, case: &Case) -> Result<(), String> {
        let name = |what: &str| format!("{what}-{}", case.number);
        let path = |what: &str| self.directory.path().join(name(what));
        let (root, counts, stderr) = (path("disk"), path("counts"), path("stderr"));
        let mut facts = self.place(case.found, &root).to_vec();
        let data = root.join("data");
        for (life, kill) in (1_u64..).zip(&case.kills) {
            let ledger = Arc::new(Ledger::default());
            let started = Program::start(&data, &stderr, |command| {
                self.shim.load(command, &root);
                Shim::fail(command, Some(*kill), &counts);
                if let Some(writes) = self.held {
                    Shim::delay(command, writes);
                }
            });
            let ended = match started {
                Ok(mut program) => {
                    let seed = (case.number as u64) << 8 | life;
                    self.load(&mut program, case.found, &ledger, seed, Some(&counts)).await;
                    program.kill()
                }
                Err(ended) => ended,
            };
            if !ended.killed() {
                return Err(format!("it was not killed: {ended:?}"));
            }
            let broken = [ledger.all_broken(), vec![format!("{:?}", ledger.refusals())]].concat();
            if broken != ["{}"] {
                return Err(format!("{}; {}", broken.join("; "), ended.stderr));
            }
            if self.effects_only {
                let all = ledger.all().into_iter().map(|(_, fact)| fact);
                facts.extend(all.filter(|fact| matches!(fact, Fact::Given { .. })));
            } else {
                facts.extend(ledger.facts());
            }
        }
        starts_again(&data, &stderr, &facts).await?;
        std::fs::remove_dir_all(root).expect("a directory of ours");
        Ok(())
    }

    /// Works on the server; with `counts`, until the kill was met: how many calls a load makes depends on how
    /// many commits share a sync.
    async fn load(
        &self,
        program: &mut Program,
        found: Found,
        ledger: &Arc<Ledger>,
        seed: u64,
        counts: Option<&Path>,
    ) {
        let keys = if found == Found::Nothing {
            set_up(&program.url, ledger).await
        } else {
            Some(self.keys.clone())
        };
        let Some(keys) = keys else { return };
        for part in 0.. {
            let seed = part << 32 | seed;
            let amount = Amount { users: 1, rounds: ROUNDS, long: 6_000, seed };
            work(&program.url, &keys, ledger, amount).await;
            let met = counts.is_none_or(|counts| Counts::read(counts).faults > 0);
            if met || program.has_ended().is_some() {
                break;
            }
        }
    }

    /// The calls of a start alone, and of a start with the work.
    async fn counted(&self, found: Found) -> (Counts, Counts) {
        let path = |what: &str| self.directory.path().join(format!("counted-{what}-{found:?}"));
        let (root, counts, stderr) = (path("disk"), path("counts"), path("stderr"));
        self.place(found, &root);
        let program = Program::start(&root.join("data"), &stderr, |command| {
            self.shim.load(command, &root);
            Shim::fail(command, None, &counts);
        });
        let mut program = program.expect("it starts");
        let start = Counts::read(&counts);
        self.load(&mut program, found, &Arc::default(), 1, None).await;
        assert!(program.kill().killed());
        (start, Counts::read(&counts))
    }
}

/// A kill before and one after each of so many writes and syncs.
pub(super) fn every(calls: Counts) -> Vec<Fault> {
    let mut kills = Vec::new();
    for (call, last) in [(Call::Write, calls.writes), (Call::Sync, calls.syncs)] {
        for at in 1..=last {
            for moment in [Moment::Before, Moment::After] {
                kills.push(Fault { call, at, outcome: Outcome::Kills(moment) });
            }
        }
    }
    kills
}

/// What is tried: everything, or a sample of each kind.
fn cases(random: &mut Random, runs: &[(Found, Vec<Fault>)], recovery: &[Fault]) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |found, kills| cases.push(Case { number: cases.len() + 1, found, kills });
    for (found, kills) in runs {
        if long() {
            for kill in kills {
                add(*found, vec![*kill]);
            }
        } else {
            for _ in 0..7 {
                add(*found, vec![kills[random.below(kills.len())]]);
            }
        }
    }
    for _ in 0..if long() { 100 } else { 4 } {
        let length = 2 + random.below(4);
        let kills = (0..length).map(|_| recovery[random.below(recovery.len())]);
        add(Found::Killed, kills.collect());
    }
    cases
}

#[test]
fn killed_at_any_write_or_sync_it_starts_again_with_all_that_it_acknowledged() {
    let (mut random, seed) = Random::from_env();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let bench = runtime.block_on(Bench::new());
    let (_, fresh) = runtime.block_on(bench.counted(Found::Nothing));
    let (_, used) = runtime.block_on(bench.counted(Found::Used));
    let (recovery, after_kill) = runtime.block_on(bench.counted(Found::Killed));
    let runs = [
        (Found::Nothing, every(fresh)),
        (Found::Used, every(used)),
        (Found::Killed, every(after_kill)),
    ];
    let cases = cases(&mut random, &runs, &every(recovery));
    let kills: usize = cases.iter().map(|case| case.kills.len()).sum();
    let count = cases.len();
    let run = async |case: &Case, _| bench.run(case).await.map(|()| true);
    let Sum { wrong, .. } = run_until_met(cases, run);
    eprintln!("{count} cases, {kills} kills; {recovery:?} {used:?} {fresh:?}");
    if !wrong.is_empty() {
        let kept = bench.directory.keep();
        panic!("seed {seed}: {} (kept in {})", wrong.join("\n"), kept.display());
    }
}

#[test]
fn a_reply_before_its_commit_is_found_at_a_boundary() {
    late_writes_are_found(false);
}

#[test]
fn an_effect_before_its_commit_is_found_at_a_boundary() {
    late_writes_are_found(true);
}

/// The tests of the test: a kill here and there, until one of them finds it.
fn late_writes_are_found(effects_only: bool) {
    let (mut random, seed) = Random::from_env();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let bench = runtime.block_on(Bench::new()).with_late_writes();
    let bench = Bench { effects_only, ..bench };
    let most = if effects_only { BY_EFFECTS } else { BY_REPLIES };
    let (start, whole) = runtime.block_on(bench.counted(Found::Used));
    // After the start, there is something to lose.
    let first = usize::try_from(start.writes).expect("few");
    let writes = usize::try_from(whole.writes).expect("few") - first;
    let mut case = |number| {
        let at = (first + 1 + random.below(writes)) as u64;
        let kill = Fault { call: Call::Write, at, outcome: Outcome::Kills(Moment::After) };
        Case { number, found: Found::Used, kills: vec![kill] }
    };
    let run = async |case: &Case, _| bench.run(case).await.map(|()| true);
    let lost = (0..most).step_by(AT_ONCE).find_map(|first| {
        let cases = (first..first + AT_ONCE).map(&mut case).collect();
        run_until_met(cases, run).wrong.into_iter().find(|reason| is_loss(reason))
    });
    eprintln!("it is caught: {}", lost.unwrap_or_else(|| panic!("seed {seed}: it went unnoticed")));
}
