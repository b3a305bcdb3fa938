//! T2: tasks go from submission to completion, by way of a worker whose model answers at once.
//!
//! A task counts when its result's acknowledgement is there, and its latency runs from before the
//! request that submits it.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::meter::{Client, Summary, closed_loop};
use crate::report::{Bound, Row};
use crate::submit::Submitter;
use crate::worker::Worker;
use crate::{IN_FLIGHT, Options, floor, program, runtime};

/// Submits a task and waits until its result was applied.
struct Waiting {
    submitter: Submitter,
    applied: Arc<[Notify]>,
    number: usize,
}

impl Client for Waiting {
    async fn once(&mut self) {
        self.submitter.once().await;
        self.applied[self.number].notified().await;
    }
}

/// Measures the program beside the bare store.
pub(crate) fn run(options: &Options) -> Vec<Row> {
    let runtime = runtime();
    let (mut ours, mut ours_alone, mut least, mut least_alone) = (vec![], vec![], vec![], vec![]);
    for _ in 0..options.rounds {
        let floor = floor::store(options.span());
        least.push(floor.together);
        least_alone.push(floor.alone);
        let (together, alone) = runtime.block_on(round(options));
        ours.push(together);
        ours_alone.push(alone);
    }
    vec![
        Row::ratio(
            "T2",
            "submitted → completed, 64 in flight",
            "tasks/s",
            (&ours, |summary| summary.rate),
            (&least, |summary| summary.rate),
            Bound::AtLeast(0.25),
        ),
        Row::ratio(
            "T2",
            "submitted → completed, alone, p50",
            "ms",
            (&ours_alone, |summary| summary.p50),
            (&least_alone, |summary| summary.p50),
            Bound::AtMost(4.0),
        ),
    ]
}

async fn round(options: &Options) -> (Summary, Summary) {
    let server = program::server();
    let [operator, worker] = program::keys(&server, ["operator", "worker"]).await;
    let applied: Arc<[Notify]> = (0..IN_FLIGHT).map(|_| Notify::new()).collect();
    let worker = Worker::connect(server.address, &worker, Arc::clone(&applied), IN_FLIGHT).await;
    let working = tokio::spawn(worker.work());
    let clients = async |count| {
        let mut clients = Vec::with_capacity(count);
        for number in 0..count {
            let word = number.to_string();
            let submitter = Submitter::connect(server.address, &operator, &word).await;
            clients.push(Waiting { submitter, applied: Arc::clone(&applied), number });
        }
        clients
    };
    let together = closed_loop(clients(IN_FLIGHT).await, options.span()).await;
    let alone = closed_loop(clients(1).await, options.span() / 2).await;
    working.abort();
    (together, alone)
}
