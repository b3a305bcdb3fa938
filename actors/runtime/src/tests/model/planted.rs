//! Tests of the tests: each planted bug is found, within a few seeds.
//!
//! Read the trace of the seed.

use super::disk::Flaw;
use super::{Bug, MOVES, play};
use crate::kernel::planted::Fault;

/// Within how many seeds a bug must be found.
const WITHIN: u64 = 60;

/// The first of the seeds finds it whose fault says this.
fn found_within(seeds: std::ops::Range<u64>, bug: Bug, says: &str) {
    let run =
        |seed| play(seed, MOVES, Some(bug)).verdict.err().map(|why| format!("seed {seed}: {why}"));
    let found = seeds.filter_map(run).find(|why| why.contains(says));
    println!("{}", found.expect("it is found"));
}

fn found_as(flaw: Flaw, says: &str) {
    found_within(0..WITHIN, Bug::Outside(flaw), says);
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

#[test]
fn a_rate_that_counts_what_is_not_given_out_is_found() {
    found_within(120..180, Bug::Inside(Fault::RateCountsParked), "");
}

#[test]
fn a_failed_commit_that_is_not_undone_is_found() {
    found_within(0..60, Bug::Inside(Fault::FailedCommitStands), "");
}

#[test]
fn steps_that_reserve_too_late_are_found() {
    found_within(90..150, Bug::Inside(Fault::StepsReserveLate), "");
}

#[test]
fn a_cost_that_fits_no_row_is_found() {
    found_within(0..60, Bug::Inside(Fault::CostInOneRow), "");
}

#[test]
fn room_that_is_kept_for_a_task_that_cannot_go_is_found() {
    found_within(0..60, Bug::Inside(Fault::RoomIsKept), "");
}

#[test]
fn a_task_without_a_price_that_waits_for_its_budget_is_found() {
    found_within(0..60, Bug::Inside(Fault::UnpricedWaits), "");
}

#[test]
fn a_bound_that_is_that_of_the_newest_task_is_found() {
    found_within(110..170, Bug::Inside(Fault::BoundOfTheTask), "");
}
