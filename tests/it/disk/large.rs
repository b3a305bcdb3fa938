//! Power cuts of a server that has been at work for long: much data, and sled collecting its garbage.
//!
//! ```text
//! churn, fill ─▶ the base, which stays as it is     base + shim ─▶ log of the last part
//!                cut anywhere in it ─▶ image = base + log ─▶ start, compare all of the last part and
//!                                                             some of the rest
//! ```
//!
//! The long form churns for ten minutes, or for `CALLBOARD_CHURN` minutes, and holds 1 GB of texts; the
//! short one some seconds, and 6 MB.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callboard_disk::{Log, Model, Random, Shim, copy, power_cut, reboot};
use callboard_store::sled::{SledOptions, SledStore};
use callboard_store::{Key, LogId, Store};

use super::ledger::{Fact, Ledger};
use super::load::{Amount, Keys, check, set_up, work};
use super::long;
use super::program::Program;

/// How many facts of the base are compared after each cut.
const SAMPLE: usize = 200;
const USERS: usize = 8;
/// How much is done between two looks at whether it is enough.
const ROUNDS: usize = 20;
/// How long what has ended is kept while everything comes and goes.
const KEPT: &str = "5s";

/// What comes goes soon, for this long: how many bytes of prompts.
async fn churn(root: &Path, time: Duration, seed: u64) -> usize {
    let (program, keys, _) = start(root, KEPT).await;
    let (begun, mut bytes) = (Instant::now(), 0);
    for part in 0.. {
        let ledger = Arc::new(Ledger::default());
        work(&program.url, &keys, &ledger, amount(ROUNDS, seed + part)).await;
        assert_eq!(ledger.all_broken(), Vec::<String>::new());
        bytes += prompts(&ledger.facts());
        if begun.elapsed() > time {
            break;
        }
    }
    assert_eq!(program.terminate().code, Some(0));
    bytes
}

/// Works until there are so many bytes of prompts, and as many of outputs; what was acknowledged.
async fn fill(root: &Path, bytes: usize, seed: u64) -> Vec<Fact> {
    let (program, keys, ledger) = start(root, "forever").await;
    for part in 0.. {
        work(&program.url, &keys, &ledger, amount(ROUNDS, seed + part)).await;
        if prompts(&ledger.facts()) >= bytes {
            break;
        }
    }
    assert_eq!(program.terminate().code, Some(0));
    ledger.facts()
}

/// A server that keeps what has ended for so long.
async fn start(root: &Path, kept: &str) -> (Program, Keys, Arc<Ledger>) {
    let program = Program::start(&root.join("data"), &root.join("stderr"), |command| {
        command.env("CALLBOARD_RETENTION__ENDED", kept).env("CALLBOARD_RETENTION__HISTORY", kept);
    });
    let (program, ledger) = (program.expect("it starts"), Arc::new(Ledger::default()));
    let keys = set_up(&program.url, &ledger).await.expect("the server works");
    (program, keys, ledger)
}

fn amount(rounds: usize, seed: u64) -> Amount {
    Amount { users: USERS, rounds, long: text(), seed }
}

/// How many bytes of prompts were acknowledged.
fn prompts(facts: &[Fact]) -> usize {
    let prompt = |fact: &Fact| if let Fact::Task { prompt, .. } = fact { prompt.len() } else { 0 };
    facts.iter().map(prompt).sum()
}

/// For how long everything comes and goes before the base is made.
fn churned() -> Duration {
    let minutes = std::env::var("CALLBOARD_CHURN").ok();
    let minutes = minutes.map(|text| text.parse().expect("CALLBOARD_CHURN is a number of minutes"));
    let otherwise = if long() { Duration::from_mins(10) } else { Duration::from_secs(3) };
    minutes.map_or(otherwise, Duration::from_mins)
}

/// How long a long prompt is, and its output.
fn text() -> usize {
    if long() { 100_000 } else { 24_000 }
}

fn length(root: &Path) -> u64 {
    fs::metadata(root.join("data/store/db")).expect("a file of ours").len()
}

/// The bytes of all rows and records, with their keys.
async fn live(root: &Path) -> u64 {
    const PAGE: usize = 1000;
    let fails = Box::new(|error: &callboard_store::Error| panic!("{error}"));
    let options = SledOptions::new(root.join("data/store"), 64 << 20, fails);
    let store = SledStore::open(options).expect("it opens");
    let (mut from, to, mut sum) = (Key::new(0, 0, &[]), Key::new(255, 255, &[255; 64]), 0);
    loop {
        let page = store.scan(from.clone(), to.clone(), PAGE).await.expect("it can be read");
        sum += page.iter().map(|(key, value)| key.0.len() + value.len()).sum::<usize>() as u64;
        let Some((last, _)) = page.last() else { break };
        from = Key([&*last.0, &[0]].concat().into());
    }
    for log in (0..=u8::MAX).map(LogId) {
        let mut after = 0;
        loop {
            let page = store.read_log(log, after, PAGE).await.expect("it can be read");
            sum += page.iter().map(|record| record.bytes.len() as u64).sum::<u64>();
            let Some(last) = page.last() else { break };
            after = last.sequence;
        }
    }
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_data_survives_power_cuts_while_garbage_is_collected() {
    let (bytes, cuts) = if long() { (1 << 29, 24) } else { (3 << 20, 2) };
    let (mut random, seed) = Random::from_env();
    let directory = tempfile::tempdir().expect("a directory can be had");
    let shim = Shim::build(directory.path());
    let path = |name: &str| directory.path().join(name);
    let (base, root, log) = (path("base"), path("root"), path("log"));
    fs::create_dir_all(&base).expect("a directory can be made");
    let gone = churn(&base, churned(), random.draw() >> 16).await;
    let kept = length(&base);
    eprintln!("{gone} bytes of prompts came and went; {kept} on the disk");
    // As many bytes of outputs came and went, and sled writes all of it several times.
    assert!(!long() || kept < 2 * gone as u64, "what is free is not used again");
    let facts = fill(&base, bytes, random.draw() >> 16).await;
    assert!(length(&base) >= 2 * bytes as u64, "there is less than there should be");

    copy(&base, &root);
    let begun = Instant::now();
    let program = Program::start(&root.join("data"), &path("stderr"), |command| {
        shim.load(command, &root);
        Shim::log(command, &log);
    });
    let program = program.expect("it starts");
    eprintln!("{} bytes, ready after {:?}", length(&base), begun.elapsed());
    let ledger = Ledger::beside(log.clone());
    let keys = set_up(&program.url, &ledger).await.expect("the server works");
    let rounds = if long() { 160 } else { 20 };
    work(&program.url, &keys, &ledger, amount(rounds, random.draw() >> 16)).await;
    program.kill();
    let events = Log::read(&log, &root);
    let of_tail: Vec<_> = ledger.all();
    let disk = length(&root);
    let live = live(&root).await;
    fs::remove_dir_all(&root).expect("a directory of ours");
    eprintln!(
        "{disk} bytes hold {live}, {} %; {} events, {} acknowledgements, {} before",
        disk * 100 / live,
        events.events.len(),
        of_tail.len(),
        facts.len()
    );

    for cut in 0..cuts {
        let at = random.below(events.events.len() + 1);
        let model = if cut % 2 == 0 { Model::Ordered } else { Model::Harsh };
        let image = path("image");
        power_cut(&base, &events.events, at, model, &mut random, &image);
        reboot(&image);
        let tail = of_tail.iter().filter(|(length, _)| events.events_by(*length) <= at);
        let mut expected: Vec<Fact> = tail.map(|(_, fact)| fact.clone()).collect();
        expected.extend((0..SAMPLE).map(|_| facts[random.below(facts.len())].clone()));
        let place = format!("seed {seed}, {model:?}, before event {at}");
        let begun = Instant::now();
        let program = match Program::start(&image.join("data"), &path("stderr"), |_| ()) {
            Ok(program) => program,
            Err(ended) => {
                panic!("{place}: {ended:?} (kept in {})", directory.keep().display())
            }
        };
        let ready = begun.elapsed();
        if let Err(reason) = check(&program.url, &expected).await {
            panic!("{place}: {reason} (kept in {})", directory.keep().display());
        }
        assert_eq!(program.terminate().code, Some(0));
        eprintln!(
            "cut {cut}, {model:?}, at {at}: ready after {ready:?}, {} compared",
            expected.len()
        );
        fs::remove_dir_all(image).expect("a directory of ours");
    }
}
