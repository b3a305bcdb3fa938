//! T5 and T6: many tasks and approvals wait. Their memory, and the time until they are back
//! after kill -9.
//!
//! Memory is reported twice: of the process that took the submissions in, which still holds garbage
//! of that work, and of one that was started on the stored items. Approvals wait for an hour at
//! most here; an approval that waits a day is the same row.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::Semaphore;

use super::error::Error;
use super::meter::{count, millis};
use super::program::{Ground, Program, Service};
use super::report::{Bound, Row};
use super::worker::{QUEUE, Worker};

/// The number of waiting items, unless an option gives another.
const ITEMS: usize = 100_000;
/// The tasks that one request submits.
const BATCH: usize = 100;
/// The time that the server is idle before its memory is read: long enough for the allocator to
/// give back its reserve.
pub(super) const IDLE: Duration = Duration::from_secs(30);

/// T5: memory of waiting items. There is no baseline.
pub(super) async fn memory(ground: &Ground) -> Result<Vec<Row>, Error> {
    let empty = idle(&ground.server().await?).await?;
    let items = ground.options.items.unwrap_or(ITEMS) / BATCH * BATCH;
    let each = async |server: &Program| {
        Ok::<_, Error>((idle(server).await? - empty) / count(items as u64))
    };
    let row = |what, figure| Row::of("T5", what, "B").figure(figure).bound(Bound::AtMost(1024.0));
    let mut rows = Vec::new();
    let tasks = ground.service().await?;
    submit(&tasks, items, false).await?;
    rows.push(row("memory of a pending task, as it came", each(tasks.own()?).await?));
    let tasks = ground.server_on(tasks.kill().await?, &[]).await?;
    rows.push(row("memory of a pending task, after a start", each(&tasks).await?));
    drop(tasks);
    let approvals = ground.service().await?;
    hold(&approvals, items).await?;
    rows.push(row("memory of a waiting approval, as it came", each(approvals.own()?).await?));
    let approvals = ground.server_on(approvals.kill().await?, &[]).await?;
    rows.push(row("memory of a waiting approval, after a start", each(&approvals).await?));
    Ok(rows)
}

/// T6: back after kill -9, half of it tasks and half approvals. There is no baseline.
pub(super) async fn recovery(ground: &Ground) -> Result<Vec<Row>, Error> {
    let half = ground.options.items.unwrap_or(ITEMS) / BATCH / 2 * BATCH;
    let service = ground.service().await?;
    hold(&service, half).await?;
    submit(&service, half, false).await?;
    let worker = service.worker.clone();
    let directory = service.kill().await?;
    let begin = Instant::now();
    let server = ground.server_on(directory, &[]).await?;
    server.ready().await?;
    let ready = begin.elapsed();
    let begin = Instant::now();
    let worker = server.site.as_by(&worker);
    Worker::connect(&worker, Arc::new([]), 1).await?.first().await?;
    let first = begin.elapsed();
    let row = |what, took, most| {
        Row::of("T6", what, "ms").figure(millis(took)).bound(Bound::AtMost(most))
    };
    Ok(vec![
        row("kill -9 with everything waiting → ready", ready, 3_000.0),
        row("ready → first dispatch", first, 1_000.0),
    ])
}

/// The server's memory after a while without work.
pub(super) async fn idle(server: &Program) -> Result<f64, Error> {
    tokio::time::sleep(IDLE).await;
    server.resident()
}

/// Submits tasks and answers them, so that all of them wait for a reviewer.
async fn hold(service: &Service, count: usize) -> Result<(), Error> {
    let worker = Worker::connect(&service.worker, Arc::new([]), BATCH).await?;
    let room = Semaphore::new(0);
    tokio::try_join!(worker.answer(count, &room), submit(service, count, true)).map(drop)
}

async fn submit(service: &Service, count: usize, held: bool) -> Result<(), Error> {
    let prompt = "Sum up what the customer wants.";
    let mut task = json!({"prompt": prompt, "model": "bench-model", "queue": QUEUE});
    if held {
        task["hitl"] = json!({"required": true, "timeoutMs": 3_600_000});
    }
    let body = json!({"tasks": vec![task; BATCH]}).to_string();
    let request = service.operator.post("/api/tasks/batch", &body);
    let mut connection = service.operator.open().await?;
    for _ in 0..count / BATCH {
        connection.exchange(&request, 201).await?;
    }
    Ok(())
}
