//! T3 and T4: executions of a plan go from the request to their end, by way of a worker whose model
//! answers at once.
//!
//! An execution counts when the result of its last step was acknowledged, which is the commit that
//! ends it, and its latency runs from before the request that starts it.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::http::{Connection, post};
use crate::meter::{Client, Summary, closed_loop};
use crate::report::{Bound, Row};
use crate::worker::Worker;
use crate::{Options, floor, program, runtime};

/// How many executions are under way at once.
const EXECUTIONS: usize = 32;

/// A plan and what is wanted of it.
struct Work {
    target: &'static str,
    together: &'static str,
    alone: &'static str,
    at_least: f64,
    at_most: f64,
    plan: String,
    /// How many of its steps run at once at most.
    width: usize,
}

/// The prompt of a step: the last one's begins with the number of who started the execution.
fn step(id: &str, depends_on: &[String], last: bool) -> String {
    let who = if last { "{{input.who}}" } else { "-" };
    let outputs: Vec<_> = depends_on.iter().map(|id| format!("{{{{{id}.output}}}}")).collect();
    let depends_on: Vec<_> = depends_on.iter().map(|id| format!("\"{id}\"")).collect();
    format!(
        r#"{{"id":"{id}","prompt":"{who} Sum up what is known of the order: {}","dependsOn":[{}]}}"#,
        outputs.join(" "),
        depends_on.join(",")
    )
}

fn plan(steps: &[String]) -> String {
    format!(r#"{{"name":"load","steps":[{}]}}"#, steps.join(","))
}

/// Five steps, one after the other.
pub(crate) fn chain(options: &Options) -> Vec<Row> {
    let id = |n: usize| format!("s{n}");
    let before = |n: usize| n.checked_sub(1).map(id).into_iter().collect::<Vec<_>>();
    let steps: Vec<_> = (0..5).map(|n| step(&id(n), &before(n), n == 4)).collect();
    run(
        options,
        &Work {
            target: "T3",
            together: "chain of 5 steps, 32 in flight",
            alone: "chain of 5 steps, alone, p50",
            at_least: 0.05,
            at_most: 10.0,
            plan: plan(&steps),
            width: 1,
        },
    )
}

/// Ten steps at once, and one that joins them.
pub(crate) fn fan_out(options: &Options) -> Vec<Row> {
    let ids: Vec<_> = (0..10).map(|n| format!("s{n}")).collect();
    let mut steps: Vec<_> = ids.iter().map(|id| step(id, &[], false)).collect();
    steps.push(step("join", &ids, true));
    run(
        options,
        &Work {
            target: "T4",
            together: "fan-out of 10 and join, 32 in flight",
            alone: "fan-out of 10 and join, alone, p50",
            at_least: 0.025,
            at_most: 7.0,
            plan: plan(&steps),
            width: 10,
        },
    )
}

/// Starts an execution and waits until its last result was applied.
struct Waiting {
    connection: Connection,
    request: Vec<u8>,
    applied: Arc<[Notify]>,
    number: usize,
}

impl Client for Waiting {
    async fn once(&mut self) {
        self.connection.exchange(&self.request, 201).await;
        self.applied[self.number].notified().await;
    }
}

fn run(options: &Options, work: &Work) -> Vec<Row> {
    let runtime = runtime();
    let (mut ours, mut ours_alone, mut least, mut least_alone) = (vec![], vec![], vec![], vec![]);
    for _ in 0..options.rounds {
        let floor = floor::store(options.span());
        least.push(floor.together);
        least_alone.push(floor.alone);
        let (together, alone) = runtime.block_on(round(options, work));
        ours.push(together);
        ours_alone.push(alone);
    }
    vec![
        Row::ratio(
            work.target,
            work.together,
            "executions/s",
            (&ours, |summary| summary.rate),
            (&least, |summary| summary.rate),
            Bound::AtLeast(work.at_least),
        ),
        Row::ratio(
            work.target,
            work.alone,
            "ms",
            (&ours_alone, |summary| summary.p50),
            (&least_alone, |summary| summary.p50),
            Bound::AtMost(work.at_most),
        ),
    ]
}

async fn round(options: &Options, work: &Work) -> (Summary, Summary) {
    let server = program::server();
    let [operator, worker] = program::keys(&server, ["operator", "worker"]).await;
    let mut connection = Connection::open(server.address).await;
    let plan = connection.data(&post("/api/plans", Some(&operator), &work.plan), 201).await;
    let path = format!("/api/plans/{}/execute", plan["id"].as_str().expect("a plan has an id"));
    let applied: Arc<[Notify]> = (0..EXECUTIONS).map(|_| Notify::new()).collect();
    let room = EXECUTIONS * work.width;
    let worker = Worker::connect(server.address, &worker, Arc::clone(&applied), room).await;
    let working = tokio::spawn(worker.work());
    let clients = async |count| {
        let mut clients = Vec::with_capacity(count);
        for number in 0..count {
            let connection = Connection::open(server.address).await;
            let body = format!(r#"{{"input":{{"who":"{number}"}}}}"#);
            let request = post(&path, Some(&operator), &body);
            clients.push(Waiting { connection, request, applied: Arc::clone(&applied), number });
        }
        clients
    };
    let together = closed_loop(clients(EXECUTIONS).await, options.span()).await;
    let alone = closed_loop(clients(1).await, options.span() / 2).await;
    working.abort();
    (together, alone)
}
