//! Tests of the tests: each planted bug is found, within a few seeds.
//!
//! Deliberately absent: how long it takes to understand one. Read the trace of the seed.

use super::disk::Flaw;
use super::{MOVES, play};

/// Within how many seeds a bug must be found.
const WITHIN: u64 = 60;

/// The first seed finds it whose fault says this.
fn found_as(flaw: Flaw, says: &str) {
    let run =
        |seed| play(seed, MOVES, Some(flaw)).verdict.err().map(|why| format!("seed {seed}: {why}"));
    let found = (0..WITHIN).filter_map(run).find(|why| why.contains(says));
    println!("{}", found.expect("it is found"));
}

fn found(flaw: Flaw) {
    found_as(flaw, "");
}

#[test]
fn a_lease_that_is_not_compared_is_found() {
    found(Flaw::LeasesNotCompared);
}

#[test]
fn a_submission_that_is_answered_and_given_out_before_its_commit_is_found() {
    found_as(Flaw::LiesToSubmissions, "is not there");
}

#[test]
fn a_disk_that_answers_before_it_writes_is_found() {
    found(Flaw::Lies);
}

#[test]
fn a_commit_of_which_half_is_written_is_found() {
    found(Flaw::Tears);
}

#[test]
fn a_commit_that_is_overtaken_by_one_of_the_same_item_is_found() {
    found(Flaw::Reorders);
}
