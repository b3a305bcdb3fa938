//! The contract of every store, as tests: [`crate::contract_tests!`] makes a test of each check for a store.
//!
//! Deliberately absent: promises of one store only (power cuts: `tests/power_loss`).

mod batches;
mod listed;
mod logs;
mod nodes;

use bytes::Bytes;

use crate::batch::{Batch, BatchId, Key, Op};
use crate::{Outcome, Store};

pub use batches::*;
pub use listed::*;
pub use logs::*;
pub use nodes::*;

/// A store that can be closed and opened again.
pub trait Fixture: Sized {
    /// The number of cases of the check with random batches.
    const CASES: u32 = 24;

    /// The number of threads that share them. A store mostly waits for its disk.
    const THREADS: u32 = 4;

    /// An empty, open store.
    fn new() -> Self;

    /// The open store.
    fn store(&self) -> &dyn Store;

    /// Closes the store and opens it again.
    #[must_use]
    fn reopen(self) -> Self;
}

/// Makes a test module `$name` of every check of the contract, for the [`Fixture`] `$fixture`; or, after
/// `together`, one test of all checks.
#[macro_export]
macro_rules! contract_tests {
    (together $name:ident, $fixture:ty) => {
        $crate::contract_tests!(@list together $name, $fixture);
    };
    ($name:ident, $fixture:ty) => {
        $crate::contract_tests!(@list each $name, $fixture);
    };
    (@list $how:ident $name:ident, $fixture:ty) => {
        $crate::contract_tests!(@$how $name, $fixture:
            a_committed_batch_is_there_and_stays,
            a_refused_batch_changes_nothing,
            of_two_operations_on_one_key_the_later_holds,
            an_insert_is_refused_where_a_key_is_taken,
            batches_in_line_see_those_before_them,
            a_batch_with_a_guard_of_another_epoch_is_fenced,
            the_epoch_grows_with_every_opening,
            a_row_of_exactly_the_limit_fits,
            a_scan_is_in_order_and_within_its_bounds,
            answers_can_be_read_at_once,
            an_empty_batch_is_committed,
            a_measurement_counts_the_rows_of_each_table,
            log_numbers_are_dense_and_survive,
            log_records_of_every_size_are_read_back,
            a_trimmed_log_goes_on_counting,
            a_trim_keeps_exactly_what_it_should,
            refused_batches_leave_no_gap_in_a_log,
            the_tail_is_in_order_and_before_the_ticket,
            a_second_tail_closes_the_first,
            a_row_that_moves_keeps_its_place,
            a_document_stands_once_and_as_last_put,
            a_deleted_row_leaves_its_list,
            a_listed_row_without_an_entry_is_on_no_list,
            rows_without_a_value_come_last_in_both_directions,
            filters_combine,
            queries_agree_with_looking_at_every_row,
            whole_rows_can_be_put_into_another_list,
        );
    };
    (@each $name:ident, $fixture:ty: $($check:ident),* $(,)?) => {
        mod $name {
            use super::*;

            $(
                #[test]
                fn $check() {
                    $crate::testing::contract::block_on($crate::testing::contract::$check::<$fixture>());
                }
            )*
        }
    };
    (@together $name:ident, $fixture:ty: $($check:ident),* $(,)?) => {
        #[test]
        fn $name() {
            $(
                eprintln!(stringify!($check));
                $crate::testing::contract::block_on($crate::testing::contract::$check::<$fixture>());
            )*
        }
    };
}

/// Runs a future to its end.
///
/// # Panics
/// If the future does.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime can be had").block_on(future)
}

fn key(n: u8) -> Key {
    Key::new(1, 1, &[n])
}

fn value(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn put(n: u8, text: &str) -> Op {
    Op::Put { key: key(n), value: value(text), entry: None }
}

fn insert(n: u8, text: &str) -> Op {
    Op::Insert { key: key(n), value: value(text) }
}

fn batch(ops: Vec<Op>) -> Batch {
    Batch { id: BatchId(0), guards: Vec::new(), ops }
}

async fn commit(store: &dyn Store, ops: Vec<Op>) {
    let outcome = store.commit(batch(ops)).await;
    assert!(matches!(outcome, Outcome::Committed), "{outcome:?}");
}

async fn get(store: &dyn Store, n: u8) -> Option<Bytes> {
    store.get(&key(n)).await.expect("the store answers")
}
