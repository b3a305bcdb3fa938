//! Many cases, some at a time.

use std::fmt;

use callboard_disk::in_parallel;
use tokio::runtime::Builder;

/// How many servers run at a time: they wait for the disk more than for the processor.
const AT_A_TIME: usize = 3;

/// How often a case is tried that does not come to what it is about.
const TRIES: usize = 6;

/// What became of cases that are each to meet something: a fault, a kill.
#[derive(Debug)]
pub(super) struct Sum<C> {
    pub(super) runs: usize,
    /// How many met it and were right.
    pub(super) met: usize,
    /// Those that never met it.
    pub(super) unmet: Vec<C>,
    /// What was wrong.
    pub(super) wrong: Vec<String>,
}

/// Has all of `cases` run, and those again that did not meet what they were to meet: no two runs make
/// quite the same calls. `run` receives the number of earlier tries of a case, and returns whether it met it.
pub(super) fn run_until_met<C: Clone + Send + fmt::Debug>(
    cases: Vec<C>,
    run: impl AsyncFn(&C, usize) -> Result<bool, String> + Sync,
) -> Sum<C> {
    let mut sum = Sum { runs: 0, met: 0, unmet: cases, wrong: Vec::new() };
    for before in 0..TRIES {
        let cases = std::mem::take(&mut sum.unmet);
        let run = |case: C| {
            let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let outcome = runtime.expect("a runtime").block_on(run(&case, before));
            (case, outcome)
        };
        for (case, outcome) in in_parallel(AT_A_TIME, cases, run) {
            sum.runs += 1;
            match outcome {
                Ok(true) => sum.met += 1,
                Ok(false) => sum.unmet.push(case),
                Err(reason) => sum.wrong.push(format!("{case:?}: {reason}")),
            }
        }
    }
    sum
}
