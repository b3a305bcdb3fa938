//! T3 and T4: executions of a plan go from the request to their end, by way of a worker whose model
//! answers at once.
//!
//! An execution counts once the result of its last step is acknowledged, which is the commit that
//! ends it, and its latency runs from before the request that starts it.

use std::sync::Arc;
use std::time::Duration;

use callboard_client::Call;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::complete::{Crew, Rounds};
use super::error::Error;
use super::http::Connection;
use super::meter::{Client, Summary, closed_loop};
use super::program::{Ground, Service, text};
use super::report::Row;
use super::worker::QUEUE;

/// The number of executions under way at once.
const EXECUTIONS: usize = 32;

/// A plan and its targets.
struct Work {
    together: Row,
    alone: Row,
    at_least: f64,
    at_most: f64,
    plan: Value,
    /// The most steps of an execution that run at once.
    width: usize,
}

/// The prompt of a step: the last one's begins with the number of the client that started the
/// execution.
fn step(id: &str, depends_on: &[String], last: bool) -> Value {
    let who = if last { "{{input.who}}" } else { "-" };
    let outputs: Vec<_> = depends_on.iter().map(|id| format!("{{{{{id}.output}}}}")).collect();
    let prompt = format!("{who} Sum up what is known of the order: {}", outputs.join(" "));
    json!({"id": id, "prompt": prompt, "queue": QUEUE, "dependsOn": depends_on})
}

fn plan(steps: &[Value]) -> Value {
    json!({"name": "load", "steps": steps})
}

/// Five steps, one after the other.
pub(super) async fn chain(ground: &Ground) -> Result<Vec<Row>, Error> {
    let id = |n: usize| format!("s{n}");
    let before = |n: usize| n.checked_sub(1).map(id).into_iter().collect::<Vec<_>>();
    let steps: Vec<_> = (0..5).map(|n| step(&id(n), &before(n), n == 4)).collect();
    let work = Work {
        together: Row::of("T3", "chain of 5 steps, 32 in flight", "executions/s"),
        alone: Row::of("T3", "chain of 5 steps, alone, p50", "ms"),
        at_least: 0.05,
        at_most: 10.0,
        plan: plan(&steps),
        width: 1,
    };
    run(ground, work).await
}

/// Ten steps at once, and one that joins them.
pub(super) async fn fan_out(ground: &Ground) -> Result<Vec<Row>, Error> {
    let ids: Vec<_> = (0..10).map(|n| format!("s{n}")).collect();
    let mut steps: Vec<_> = ids.iter().map(|id| step(id, &[], false)).collect();
    steps.push(step("join", &ids, true));
    let work = Work {
        together: Row::of("T4", "fan-out of 10 and join, 32 in flight", "executions/s"),
        alone: Row::of("T4", "fan-out of 10 and join, alone, p50", "ms"),
        at_least: 0.025,
        at_most: 7.0,
        plan: plan(&steps),
        width: 10,
    };
    run(ground, work).await
}

/// Starts an execution and waits until its last result was applied.
struct Waiting {
    connection: Connection,
    request: Vec<u8>,
    applied: Arc<[Notify]>,
    number: usize,
}

impl Client for Waiting {
    async fn once(&mut self) -> Result<(), Error> {
        self.connection.exchange(&self.request, 201).await?;
        self.applied[self.number].notified().await;
        Ok(())
    }
}

async fn run(ground: &Ground, work: Work) -> Result<Vec<Row>, Error> {
    let mut rounds = Rounds::default();
    for _ in 0..ground.options.rounds {
        rounds.baseline(ground).await?;
        let service = ground.service().await?;
        let operator = &service.operator;
        let plan = Call::post(&["plans"]).json(&work.plan);
        let plan = operator.client()?.data(plan).await?;
        let path = format!("/api/plans/{}/execute", text(&plan, "id")?);
        let mut crew = Crew::hire(&service, EXECUTIONS, EXECUTIONS * work.width).await?;
        let span = ground.options.span;
        rounds.together.push(load(&service, &mut crew, &path, EXECUTIONS, span).await?);
        rounds.alone.push(load(&service, &mut crew, &path, 1, span / 2).await?);
    }
    Ok(rounds.rows((work.together, work.at_least), (work.alone, work.at_most)))
}

/// Measures so many executions in flight, for so long.
async fn load(
    service: &Service,
    crew: &mut Crew,
    path: &str,
    count: usize,
    span: Duration,
) -> Result<Summary, Error> {
    let mut clients = Vec::with_capacity(count);
    for number in 0..count {
        let body = json!({"input": {"who": number.to_string()}}).to_string();
        let request = service.operator.post(path, &body);
        let connection = service.operator.open().await?;
        clients.push(Waiting { connection, request, applied: crew.applied(), number });
    }
    crew.serve(closed_loop(clients, span)).await
}
