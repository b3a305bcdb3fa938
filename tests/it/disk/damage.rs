//! A bit of the data directory flips, a file is cut short or is gone: everything acknowledged is
//! there and right, or the server refuses to start and says what to do, or it says so when it comes
//! upon the damage. It never shows anything wrong, and never forgets in silence.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use callboard_disk::{Random, copy};

use super::ledger::{Fact, Ledger};
use super::load::{Amount, check, set_up, work};
use super::long;
use super::program::Program;

/// What a directory went through.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Bit { at: u64, bit: u8 },
    Cut { length: u64 },
    Gone,
}

/// What became of it.
#[derive(Debug, Default)]
struct Sum {
    right: usize,
    refused: usize,
    /// It started, and reported the damage when it came upon it.
    told: usize,
}

/// A directory of a server that was used, over two openings, and what was acknowledged.
async fn used(root: &Path, orderly: bool, rounds: usize, seed: u64) -> Vec<Fact> {
    let ledger = Arc::new(Ledger::default());
    for opening in 0..2 {
        let stderr = root.join("stderr");
        let program = Program::start(&root.join("data"), &stderr, |_| ()).expect("it starts");
        let keys = set_up(&program.url, &ledger).await.expect("the server works");
        let amount = Amount { users: 6, rounds, long: 12_000, seed: seed + opening };
        work(&program.url, &keys, &ledger, amount).await;
        if orderly {
            assert_eq!(program.terminate().code, Some(0));
        } else {
            program.kill();
        }
    }
    ledger.facts()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory of ours") {
        let path = entry.expect("a directory of ours").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Damages a file under `data`: mostly the largest. The key that signs tokens is no acknowledgement,
/// and a directory without it gets another.
fn damage(data: &Path, random: &mut Random) -> (PathBuf, Damage) {
    let mut files = files(data);
    files.retain(|file| !file.ends_with("signing.key"));
    let length = |file: &PathBuf| fs::metadata(file).expect("a file of ours").len();
    let file = if random.below(10) < 7 {
        files.iter().max_by_key(|file| length(file)).expect("there are files").clone()
    } else {
        files[random.below(files.len())].clone()
    };
    let end = usize::try_from(length(&file)).expect("a small file");
    let damage = match random.below(10) {
        0 => Damage::Gone,
        1 | 2 => Damage::Cut { length: random.below(end.max(1)) as u64 },
        _ => Damage::Bit { at: random.below(end.max(1)) as u64, bit: 1 << random.below(8) },
    };
    match damage {
        Damage::Gone => fs::remove_file(&file).expect("a file of ours"),
        Damage::Cut { length } => {
            let file = fs::OpenOptions::new().write(true).open(&file).expect("a file of ours");
            file.set_len(length).expect("a file of ours");
        }
        Damage::Bit { at, bit } => {
            let mut bytes = fs::read(&file).expect("a file of ours");
            if let Some(byte) = bytes.get_mut(usize::try_from(at).expect("a small file")) {
                *byte ^= bit;
            }
            fs::write(&file, bytes).expect("a file of ours");
        }
    }
    (file, damage)
}

/// Whether what a comparison said is that the server answered with an error of its own, or ended.
fn is_refusal(reason: &str) -> bool {
    ["left: 500", "left: 503", "error sending request"].iter().any(|said| reason.contains(said))
}

/// Starts on what is left; an error if it is wrong, silent or panics.
async fn outcome(root: &Path, facts: &[Fact], sum: &mut Sum) -> Result<(), String> {
    let program = match Program::start(&root.join("data"), &root.join("stderr"), |_| ()) {
        Err(ended) if ended.in_words() && ended.stderr.contains("restore it from a backup") => {
            sum.refused += 1;
            return Ok(());
        }
        Err(ended) => return Err(format!("it does not say what to do: {ended:?}")),
        Ok(program) => program,
    };
    let compared = tokio::time::timeout(Duration::from_mins(2), check(&program.url, facts)).await;
    let stderr = program.stderr();
    let ended = program.terminate();
    if ended.panicked() {
        return Err(format!("it panics: {}", ended.stderr));
    }
    match compared {
        Ok(Ok(())) => sum.right += 1,
        // An answer that shows something must show what is right.
        Ok(Err(reason)) if is_refusal(&reason) && stderr.contains("restore it from a backup") => {
            sum.told += 1;
        }
        Ok(Err(reason)) => return Err(format!("{reason}; it says: {stderr:?}")),
        Err(_) => return Err(format!("it hangs; it says: {stderr:?}")),
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_told_and_never_shown_as_data() {
    let (directories, damages) = if long() { (8, 50) } else { (2, 8) };
    let (mut random, seed) = Random::from_env();
    let bench = tempfile::tempdir().expect("a directory can be had");
    let (mut sum, mut wrong) = (Sum::default(), Vec::new());
    for number in 0..directories {
        let start = bench.path().join(format!("start-{number}"));
        fs::create_dir_all(&start).expect("a directory can be made");
        let rounds = if number < 2 { 6 } else { 16 };
        let facts = used(&start, number % 2 == 0, rounds, random.draw() >> 8).await;
        for _ in 0..damages {
            let root = bench.path().join("damaged");
            copy(&start, &root);
            let (file, what) = damage(&root.join("data"), &mut random);
            if let Err(reason) = outcome(&root, &facts, &mut sum).await {
                let name = file.file_name().unwrap_or_default().to_owned();
                eprintln!("wrong: {what:?} of {name:?}, directory {number}: {reason}");
                wrong.push(format!("{what:?} of {name:?}, directory {number}: {reason}\n"));
            }
            fs::remove_dir_all(root).expect("a directory of ours");
        }
    }
    eprintln!("{sum:?}, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "seed {seed}: {}", wrong.join("\n"));
}
