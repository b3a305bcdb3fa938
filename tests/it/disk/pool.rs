//! Many cases, some at a time.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;

/// How many servers run at a time: they wait for the disk more than for the processor.
const AT_A_TIME: usize = 3;

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
