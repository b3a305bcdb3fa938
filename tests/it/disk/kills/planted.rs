//! Tests of the tests: bugs, planted from outside, that the kills and their ledger must find.
//!
//! - writes of the journal held back in memory: a reply before its commit;
//! - a write that is dropped now and then;
//! - somebody before the server who has it take every answer, under any lease (`careless.rs`);
//! - a server, played by the test, that compares no leases and knows nothing of what it acknowledged.

use std::sync::Arc;

use callboard_disk::{Call, Fault, Outcome, Random, Shim, Timing};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

use super::careless::Careless;
use super::random::{Prepare, Torture};
use crate::disk::ledger::Ledger;
use crate::disk::worker::Worker;

/// Within how many kills a bug must be found.
const WITHIN: usize = 30;
/// The same of one that shows only once a lease ran out and its task was given out again.
const WITHIN_LEASES: usize = 100;

/// What is first found wrong of a server that runs under the shim.
async fn found(prepare: impl FnOnce(Shim, &std::path::Path) -> Prepare) -> String {
    let directory = tempfile::tempdir().expect("a directory can be had");
    let prepare = prepare(Shim::build(directory.path()), directory.path());
    let (_, seed) = Random::from_env();
    first_wrong(Torture::begin(directory.path(), seed, prepare).await, seed, WITHIN).await
}

/// What is first found wrong, at one of the first kills.
async fn first_wrong(mut torture: Torture, seed: u64, within: usize) -> String {
    while torture.kills < within {
        if let Err(reason) = torture.once().await {
            eprintln!("it is caught: seed {seed}, kill {}: {reason}", torture.kills);
            return reason;
        }
    }
    let reason = torture.end().await.err();
    reason.unwrap_or_else(|| panic!("seed {seed}: it went unnoticed"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_before_its_commit_is_found() {
    let reason = found(|shim, root| {
        let root = root.to_owned();
        Box::new(move |command| {
            shim.load(command, &root);
            Shim::delay(command, 8);
        })
    })
    .await;
    // It starts, in good faith, without what it acknowledged.
    assert!(!reason.contains("does not start"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_counts_under_a_lease_of_an_earlier_life_is_found() {
    let directory = tempfile::tempdir().expect("a directory can be had");
    let (_, seed) = Random::from_env();
    let mut torture = Torture::begin(directory.path(), seed, Box::new(|_| ())).await;
    torture.long_lives = 3;
    torture.between = Some(Careless::before(&torture.keys.worker).await);
    let reason = first_wrong(torture, seed, WITHIN_LEASES).await;
    assert!(reason.contains("was applied, which held nothing"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_dropped_now_and_then_is_found() {
    found(|shim, root| {
        let root = root.to_owned();
        Box::new(move |command| {
            shim.load(command, &root);
            let outcome = Outcome::Fails { errno: 0, timing: Timing::Every(7) };
            // Later than the last write of a start.
            let fault = Fault { call: Call::Write, at: 60, outcome };
            Shim::fail(command, Some(fault), &root.join("counts"));
        })
    })
    .await;
}

/// A server that gives out `assigned`, tasks and leases, acknowledges every completion as
/// applied, and ends the connection after so many acknowledgements.
async fn serve(connection: TcpStream, assigned: Vec<(&str, &str)>, acknowledged: usize) {
    let mut socket = tokio_tungstenite::accept_async(connection).await.expect("a worker");
    let (mut left, mut register) = (acknowledged, true);
    while let Some(Ok(Message::Text(frame))) = socket.next().await {
        let frame: Value = serde_json::from_str(&frame).expect("JSON");
        let mut answers = Vec::new();
        if std::mem::take(&mut register) {
            answers.push(json!({"type": "registered", "workerId": "w", "kept": [], "lost": []}));
            answers.extend(assigned.iter().map(|(task, lease)| {
                json!({"type": "assign", "lease": lease, "task": {"id": task, "prompt": "p"}})
            }));
        } else if left == 0 {
            break;
        } else if frame["type"] == "complete" {
            left -= 1;
            answers.push(json!({
                "type": "ack", "lease": frame["lease"], "of": "complete", "result": "applied",
            }));
        }
        for answer in answers {
            socket.send(Message::text(answer.to_string())).await.expect("the worker listens");
        }
    }
    // What was sent is to be read: the worker hangs up.
    socket.close(None).await.expect("the worker listens");
    while let Some(Ok(_)) = socket.next().await {}
}

/// What the worker makes of servers that live one after the other, each of which gives out these
/// leases and acknowledges so many answers.
async fn judged(lives: Vec<(Vec<(&'static str, &'static str)>, usize)>) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let ledger = Arc::new(Ledger::default());
    for (assigned, acknowledged) in lives {
        ledger.next_life();
        let mut worker = Worker::new("key", 8);
        let server = async {
            let (connection, _) = listener.accept().await.expect("a worker");
            serve(connection, assigned, acknowledged).await;
        };
        let working = async {
            let socket = worker.connect(&url).await.expect("the server is there");
            worker.work(socket, &ledger).await;
        };
        tokio::join!(server, working);
    }
    ledger.all_broken()
}

#[tokio::test]
async fn a_lease_that_is_not_compared_is_found() {
    let broken = judged(vec![(vec![("t", "old")], 0), (vec![("t", "new")], 2)]).await;
    assert_eq!(broken, ["an answer under old was applied, which held nothing"]);
}

#[tokio::test]
async fn a_task_that_is_run_again_after_its_acknowledgement_is_found() {
    let broken = judged(vec![(vec![("t", "old")], 1), (vec![("t", "new")], 0)]).await;
    assert_eq!(broken, ["t is run again after its output was acknowledged"]);
}

#[tokio::test]
async fn an_answer_that_is_applied_twice_is_found() {
    let eight = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, name)).to_vec();
    let broken = judged(vec![(eight, 9)]).await;
    assert_eq!(broken, ["an answer under h was applied, which held nothing"]);
}

#[tokio::test]
async fn a_server_that_does_as_it_should_breaks_no_rule() {
    let lives = vec![(vec![("t", "old"), ("u", "one")], 2), (vec![("v", "two")], 1)];
    assert_eq!(judged(lives).await, Vec::<String>::new());
}
