//! Many cases, some at a time.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;
use std::thread;

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
/// quite the same calls. `run` is told how often a case was tried before, and says whether it met it.
pub(super) fn run_until_met<C: Clone + Send + fmt::Debug>(
    cases: Vec<C>,
    run: impl AsyncFn(&C, usize) -> Result<bool, String> + Sync,
) -> Sum<C> {
    let mut sum = Sum { runs: 0, met: 0, unmet: cases, wrong: Vec::new() };
    for before in 0..TRIES {
        let cases = std::mem::take(&mut sum.unmet);
        let run = async |case: C| {
            let outcome = run(&case, before).await;
            (case, outcome)
        };
        for (case, outcome) in run_all(cases, run) {
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

/// Has all of `cases` run, each on one thread with a runtime. What came of them is in no order.
pub(super) fn run_all<C: Send, T: Send>(
    cases: impl IntoIterator<Item = C>,
    run: impl AsyncFn(C) -> T + Sync,
) -> Vec<T> {
    let cases: Mutex<VecDeque<C>> = Mutex::new(cases.into_iter().collect());
    let work = || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let mut done = Vec::new();
        loop {
            let next = cases.lock().expect("no holder panics").pop_front();
            let Some(case) = next else { return done };
            done.push(runtime.block_on(run(case)));
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    })
}
