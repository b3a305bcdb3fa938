//! The whole runtime under simulated time: random events happen, and plain books say
//! what must hold.
//!
//! ```text
//!   seed ─▶ moves ─▶ clients, workers ─▶ runtime ─▶ disk     crashes, refusals, jumps of the clock
//!             │             │                         │
//!             └────────▶ oracle: acknowledged ──▶ audit: stored
//! ```
//!
//! One thread, a paused clock and a disk without threads: a seed is a run, and the same run every
//! time. `CALLBOARD_SEED=7 cargo test -p callboard-runtime --lib tests::model -- --nocapture` plays one
//! and prints what happened.
//!
//! To add a planted bug: name it in [`disk::Flaw`] and plant it in the disk or in the workers, or name one that the
//! program had in [`crate::kernel::planted`] and plant it there, and add a test to [`planted`] that the model finds
//! it.

mod alarm;
mod asks;
mod audit;
mod chance;
mod clients;
mod clock;
mod disk;
mod limits;
mod moves;
mod oracle;
mod planted;
mod settle;
mod workers;
mod world;

use std::hash::{DefaultHasher, Hash, Hasher};

use callboard_store::{Key, Store};

use self::alarm::Alarm;
use self::disk::Flaw;
use self::world::World;
use crate::kernel::planted::{Fault, Planted};

/// How many moves a run has.
const MOVES: u64 = 60;
/// How many seeds are played.
const SEEDS: u64 = 272;
const SEEDS_LONG: u64 = 10_000;
/// Among how many tests they are shared.
const PARTS: u64 = 8;

/// A planted bug.
#[derive(Debug, Clone, Copy)]
enum Bug {
    /// Of the disk or of a worker.
    Outside(Flaw),
    /// Of the program under test.
    Inside(Fault),
}

/// The result of a run: its trace, a digest of it and of the disk, and the fault, if any.
struct Run {
    trace: Vec<String>,
    digest: u64,
    verdict: Result<(), String>,
}

/// Plays a seed for so many moves.
fn play(seed: u64, moves: u64, bug: Option<Bug>) -> Run {
    let (flaw, fault) = match bug {
        Some(Bug::Outside(flaw)) => (Some(flaw), None),
        Some(Bug::Inside(fault)) => (None, Some(fault)),
        None => (None, None),
    };
    let _planted = Planted::set(fault);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let _alarm = Alarm::set();
    runtime.block_on(async {
        let mut world = World::new(seed, flaw).await;
        world.reviewers().await;
        world.set_limits().await;
        let verdict = life(&mut world, moves).await;
        let memory = world.memory.clone();
        let trace = world.end().await;
        let mut digest = DefaultHasher::new();
        trace.hash(&mut digest);
        let (first, last) = (Key::new(0, 0, &[]), Key::new(u8::MAX, u8::MAX, &[]));
        let rows = memory.scan(first, last, usize::MAX).await.expect("memory can be read");
        for (key, value) in rows {
            (key.0, value).hash(&mut digest);
        }
        Run { trace, digest: digest.finish(), verdict }
    })
}

async fn life(world: &mut World, moves: u64) -> Result<(), String> {
    for number in 1..=moves {
        let start = world.shared().start;
        world.step().await;
        world.verdict()?;
        world.judge_limits()?;
        if number % 12 == 0 || world.shared().start != start {
            world.audit().await?;
        }
    }
    world.settle().await?;
    world.audit_at_rest().await?;
    if world.chance.percent(50) {
        world.note("the server is stopped and started at rest");
        world.restart().await;
        world.settle().await?;
        world.audit_at_rest().await?;
    }
    if world.chance.percent(20) {
        world.leases_run_out().await;
        world.settle().await?;
    }
    world.every_place_is_free().await
}

/// The fewest moves that fail, which are as a rule easier to read.
fn shortest(seed: u64) -> (u64, Run) {
    for moves in 1..MOVES {
        let run = play(seed, moves, None);
        if run.verdict.is_err() {
            return (moves, run);
        }
    }
    (MOVES, play(seed, MOVES, None))
}

fn must_pass(seed: u64) {
    if play(seed, MOVES, None).verdict.is_err() {
        let (moves, run) = shortest(seed);
        let why = run.verdict.err().unwrap_or_else(|| "not the same run again".into());
        run.trace.iter().for_each(|line| println!("{line}"));
        panic!(
            "seed {seed}, {moves} moves: {why}\nplay it: CALLBOARD_SEED={seed} cargo test -p \
             callboard-runtime --lib tests::model -- --nocapture"
        );
    }
}

/// The seeds of one part, or the one that is asked for.
fn seeds_of_part(part: u64) {
    if let Ok(seed) = std::env::var("CALLBOARD_SEED") {
        let seed = seed.parse().expect("CALLBOARD_SEED is a number");
        if part == 0 {
            must_pass(seed);
            let run = play(seed, MOVES, None);
            run.trace.iter().for_each(|line| println!("{line}"));
        }
        return;
    }
    let long = std::env::var_os("CALLBOARD_LONG").is_some();
    let seeds = if long { SEEDS_LONG } else { SEEDS };
    (0..seeds).filter(|seed| seed % PARTS == part).for_each(must_pass);
}

macro_rules! seeds {
    ($($name:ident = $part:literal;)*) => {$(
        #[test]
        fn $name() {
            seeds_of_part($part);
        }
    )*};
}

seeds! {
    whatever_happens_what_was_acknowledged_holds_1 = 0;
    whatever_happens_what_was_acknowledged_holds_2 = 1;
    whatever_happens_what_was_acknowledged_holds_3 = 2;
    whatever_happens_what_was_acknowledged_holds_4 = 3;
    whatever_happens_what_was_acknowledged_holds_5 = 4;
    whatever_happens_what_was_acknowledged_holds_6 = 5;
    whatever_happens_what_was_acknowledged_holds_7 = 6;
    whatever_happens_what_was_acknowledged_holds_8 = 7;
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 1000..1010 {
        let (one, other) = (play(seed, MOVES, None), play(seed, MOVES, None));
        let first = one.trace.iter().zip(&other.trace).find(|(one, other)| one != other);
        assert_eq!(first, None, "seed {seed}");
        assert_eq!(one.digest, other.digest, "seed {seed}");
    }
}
