//! T5 and T6: many tasks and approvals wait. What each costs in memory, and how soon they are back
//! after kill -9.
//!
//! Memory is told twice: of the process that took them in, which still holds what the way there left
//! behind, and of one that was started on them. Approvals wait for an hour at most here; what waits a
//! day is the same row.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::Notify;

use crate::http::{Connection, post};
use crate::meter::millis;
use crate::program::Program;
use crate::report::{Bound, Row};
use crate::worker::Worker;
use crate::{Options, program, runtime};

/// How many tasks one request submits.
const BATCH: usize = 100;
/// How long the server has nothing to do before its memory is looked at: long enough for the allocator
/// to give back what it holds for a while.
const IDLE: Duration = Duration::from_secs(30);

/// T5: memory of what waits. There is no floor.
pub(crate) fn memory(options: &Options) -> Vec<Row> {
    let empty = {
        let server = program::server();
        std::thread::sleep(IDLE);
        server.resident()
    };
    let count = options.items;
    let each = |server: &Program| {
        std::thread::sleep(IDLE);
        #[expect(clippy::cast_precision_loss, reason = "a count of items")]
        let each = (server.resident() - empty) / count as f64;
        each
    };
    let row = |what, figure| Row::plain("T5", what, "B", figure, Bound::AtMost(1024.0));
    let (tasks, approvals) = (pending(count), held(count));
    vec![
        row("memory of a pending task, as it came", each(&tasks)),
        row("memory of a pending task, after a start", each(&program::server_on(tasks.kill()))),
        row("memory of a waiting approval, as it came", each(&approvals)),
        row(
            "memory of a waiting approval, after a start",
            each(&program::server_on(approvals.kill())),
        ),
    ]
}

/// T6: back after kill -9, half of it tasks and half approvals. There is no floor.
pub(crate) fn recovery(options: &Options) -> Vec<Row> {
    let directory = both(options.items / 2).kill();
    let begin = Instant::now();
    let server = program::server_on(directory);
    let (ready, first) = runtime().block_on(async {
        let mut connection = Connection::open(server.address).await;
        let ready = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";
        connection.exchange(ready, 200).await;
        let ready = begin.elapsed();
        let [worker] = program::keys(&server, ["worker"]).await;
        let begin = Instant::now();
        Worker::connect(server.address, &worker, Arc::new([]), 1).await.first().await;
        (ready, begin.elapsed())
    });
    let row = |what, took, most| Row::plain("T6", what, "ms", millis(took), Bound::AtMost(most));
    vec![
        row("kill -9 with everything waiting → ready", ready, 3_000.0),
        row("ready → first dispatch", first, 1_000.0),
    ]
}

fn pending(count: usize) -> Program {
    let server = program::server();
    runtime().block_on(submit(&server, count, false));
    server
}

fn held(count: usize) -> Program {
    let server = program::server();
    runtime().block_on(hold(&server, count));
    server
}

fn both(count: usize) -> Program {
    let server = held(count);
    runtime().block_on(submit(&server, count, false));
    server
}

/// Submits tasks and has them answered, so that all of them wait for a reviewer.
async fn hold(server: &Program, count: usize) {
    let [worker] = program::keys(server, ["worker"]).await;
    let nobody: Arc<[Notify]> = Arc::new([]);
    let worker = Worker::connect(server.address, &worker, nobody, BATCH).await;
    tokio::join!(worker.answer(count), submit(server, count, true));
}

async fn submit(server: &Program, count: usize, held: bool) {
    let [operator] = program::keys(server, ["operator"]).await;
    let mut task = json!({"prompt": "Sum up what the customer wants.", "model": "bench-model"});
    if held {
        task["hitl"] = json!({"required": true, "timeoutMs": 3_600_000});
    }
    let body = json!({"tasks": vec![task; BATCH]}).to_string();
    let request = post("/api/tasks/batch", Some(&operator), &body);
    let mut connection = Connection::open(server.address).await;
    for _ in 0..count / BATCH {
        connection.exchange(&request, 201).await;
    }
}
