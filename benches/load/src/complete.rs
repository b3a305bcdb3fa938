//! T2: tasks go from submission to completion, by way of a worker whose model answers at once.
//!
//! A task counts once its result is acknowledged, and its latency runs from before the request that
//! submits it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::IN_FLIGHT;
use super::error::{Error, broken};
use super::meter::{Client, Summary, closed_loop};
use super::program::{Ground, Service};
use super::report::{Bound, Row};
use super::submit::Submitter;
use super::worker::Worker;

/// Submits a task and waits until its result was applied.
struct Waiting {
    submitter: Submitter,
    applied: Arc<[Notify]>,
    number: usize,
}

impl Client for Waiting {
    async fn once(&mut self) -> Result<(), Error> {
        self.submitter.once().await?;
        self.applied[self.number].notified().await;
        Ok(())
    }
}

/// Measurements of 64 tasks in flight and of one alone, and of their baselines.
#[derive(Default)]
pub(super) struct Rounds {
    pub(super) together: Vec<Summary>,
    pub(super) alone: Vec<Summary>,
    pub(super) least_together: Vec<Summary>,
    pub(super) least_alone: Vec<Summary>,
}

impl Rounds {
    /// Adds the baseline's figures.
    pub(super) async fn baseline(&mut self, ground: &Ground) -> Result<(), Error> {
        if let Some(baseline) = ground.store_baseline().await? {
            self.least_together.push(baseline.together);
            self.least_alone.push(baseline.alone);
        }
        Ok(())
    }

    /// The row of many tasks in flight, by rate, and the row of one, by median latency, beside
    /// their baselines.
    pub(super) fn rows(&self, together: (Row, f64), alone: (Row, f64)) -> Vec<Row> {
        let rate = |summary: &Summary| summary.rate;
        let p50 = |summary: &Summary| summary.p50;
        let many = together.0.beside((&self.together, rate), (&self.least_together, rate));
        let one = alone.0.beside((&self.alone, p50), (&self.least_alone, p50));
        vec![many.bound(Bound::AtLeast(together.1)), one.bound(Bound::AtMost(alone.1))]
    }
}

/// Measures the program beside the bare store.
pub(super) async fn run(ground: &Ground) -> Result<Vec<Row>, Error> {
    let mut rounds = Rounds::default();
    for _ in 0..ground.options.rounds {
        rounds.baseline(ground).await?;
        let service = ground.service().await?;
        let mut crew = Crew::hire(&service, IN_FLIGHT, IN_FLIGHT).await?;
        rounds.together.push(load(&service, &mut crew, IN_FLIGHT, ground.options.span).await?);
        rounds.alone.push(load(&service, &mut crew, 1, ground.options.span / 2).await?);
    }
    Ok(rounds.rows(
        (Row::of("T2", "submitted → completed, 64 in flight", "tasks/s"), 0.25),
        (Row::of("T2", "submitted → completed, alone, p50", "ms"), 4.0),
    ))
}

/// Measures `count` tasks in flight for `span`.
pub(super) async fn load(
    service: &Service,
    crew: &mut Crew,
    count: usize,
    span: Duration,
) -> Result<Summary, Error> {
    let mut clients = Vec::with_capacity(count);
    for number in 0..count {
        let submitter = Submitter::connect(&service.operator, &number.to_string()).await?;
        clients.push(Waiting { submitter, applied: crew.applied(), number });
    }
    crew.serve(closed_loop(clients, span)).await
}

/// A worker, and the channels of its reports.
pub(super) struct Crew {
    applied: Arc<[Notify]>,
    working: JoinSet<Result<(), Error>>,
}

impl Crew {
    /// A worker that reports to up to `clients` clients, and has room for `room` tasks.
    pub(super) async fn hire(
        service: &Service,
        clients: usize,
        room: usize,
    ) -> Result<Self, Error> {
        let applied: Arc<[Notify]> = (0..clients).map(|_| Notify::new()).collect();
        let worker = Worker::connect(&service.worker, Arc::clone(&applied), room).await?;
        let mut working = JoinSet::new();
        working.spawn(worker.work());
        Ok(Self { applied, working })
    }

    /// The signals of applied results, by the number of the client.
    pub(super) fn applied(&self) -> Arc<[Notify]> {
        Arc::clone(&self.applied)
    }

    /// The figures of `load`. A worker that breaks ends the load.
    pub(super) async fn serve(
        &mut self,
        load: impl Future<Output = Result<Summary, Error>>,
    ) -> Result<Summary, Error> {
        tokio::select! {
            summary = load => summary,
            ended = self.working.join_next() => match ended {
                Some(Ok(Err(error))) => Err(error),
                _ => Err(broken("the worker broke")),
            },
        }
    }
}
