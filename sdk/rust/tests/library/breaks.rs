//! Killed servers, slow and cut connections: nothing is lost, nothing comes twice.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard_client::types::{CreateKey, CreateTask, TasksListQuery};
use callboard_client::worker::Task;
use callboard_client::{Callboard, Error};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::Semaphore;

use crate::support::{Board, Proxy, Running, until};

/// A worker that notes each prompt, and answers it word by word; `hold` waits for the gate after the first word.
async fn worker(board: &Board, ran: &Arc<Mutex<Vec<String>>>, gate: &Arc<Semaphore>) -> Running {
    let (ran, gate) = (Arc::clone(ran), Arc::clone(gate));
    let worker = board.worker().await.concurrency(8).model("*", move |task: Task| {
        ran.lock().unwrap().push(task.prompt.clone());
        let words: Vec<String> = task.prompt.split_inclusive(' ').map(str::to_owned).collect();
        let gate = Arc::clone(&gate);
        stream::iter(words.into_iter().enumerate()).then(move |(at, word)| {
            let gate = Arc::clone(&gate);
            async move {
                if at == 1 {
                    drop(gate.acquire().await);
                }
                word
            }
        })
    });
    Running::start(worker)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing() {
    let mut board = Board::start().await;
    let cb = board.client("operator").await;
    let (ran, gate) = (Arc::default(), Arc::new(Semaphore::new(0)));
    let worker = worker(&board, &ran, &gate).await;
    let place = cb.cursor().await.unwrap().unwrap();
    let waited = cb.tasks().submit("hold waited for").await.unwrap();
    let waiting = tokio::spawn(waited.wait());
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let (gathered, mut stream) = (Arc::clone(&pieces), cb.tasks().stream("hold one two three"));
    let streaming = tokio::spawn(async move {
        while let Some(piece) = stream.try_next().await? {
            gathered.lock().unwrap().push(piece);
        }
        Ok::<_, Error>(())
    });
    let log = cb.events().names(["task.created", "task.completed"]).after(place);
    let events = tokio::spawn(log.stream().take(8).try_collect::<Vec<_>>());
    until(|| async { *pieces.lock().unwrap() == ["hold "] && ran.lock().unwrap().len() == 2 })
        .await;
    cb.tasks().run("before").await.unwrap();
    board.kill().await;
    let other = cb.clone();
    let submitting = tokio::spawn(async move { other.tasks().submit("away").await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    board.again().await;
    let away = submitting.await.unwrap().unwrap();
    assert_eq!(away.wait().await.unwrap().output_text(), "away");
    gate.add_permits(1);
    assert_eq!(waiting.await.unwrap().unwrap().output_text(), "hold waited for");
    streaming.await.unwrap().unwrap();
    assert_eq!(pieces.lock().unwrap().concat(), "hold one two three");
    worker.stop().await.unwrap();
    // Each task ran once, although the server died while they ran.
    let mut ran = ran.lock().unwrap().clone();
    ran.sort_unstable();
    assert_eq!(ran, ["away", "before", "hold one two three", "hold waited for"]);
    let mut seen = BTreeMap::new();
    for event in events.await.unwrap().unwrap() {
        let task = event.body["resource"]["id"].as_str().unwrap().to_owned();
        *seen.entry((event.name, task)).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 8);
    assert!(seen.values().all(|count| *count == 1), "{seen:?}");
    assert_eq!(cb.tasks().list(&TasksListQuery::new()).total().await.unwrap(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_over_a_killed_server_submits_each_task_once() {
    let mut board = Board::start().await;
    let cb = board.client("operator").await;
    let tasks = (0..2500).map(|n| CreateTask::new().prompt(format!("task {n}")).queue("nobody"));
    let mut imported = cb.tasks().import_lines(tasks);
    let mut ids = vec![imported.try_next().await.unwrap().unwrap().result.unwrap()];
    let rest = tokio::spawn(imported.try_collect::<Vec<_>>());
    tokio::time::sleep(Duration::from_millis(50)).await;
    board.kill().await;
    board.again().await;
    ids.extend(rest.await.unwrap().unwrap().into_iter().map(|it| it.result.unwrap()));
    assert_eq!(ids.len(), 2500);
    let all = cb.tasks().list(&TasksListQuery::new()).all().await.unwrap();
    let mut listed: Vec<_> = all.into_iter().map(|task| task.id).collect();
    ids.sort_unstable();
    listed.sort_unstable();
    assert_eq!(ids, listed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_answer_makes_no_second_task() {
    let board = Board::start().await;
    let proxy = Proxy::start(&board).await;
    let cuts = |count| proxy.rules.cuts.load(Ordering::SeqCst) == count;
    for (at, length) in [0, 20, 400].into_iter().enumerate() {
        // A client of its own has a connection of its own.
        let cb = board.client_at("operator", &proxy.url).await;
        proxy.cut(length);
        cb.tasks().submit(CreateTask::new().prompt("x").queue("nobody")).await.unwrap();
        assert!(cuts(at + 1));
    }
    let cb = board.client("operator").await;
    assert_eq!(cb.tasks().list(&TasksListQuery::new()).total().await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_takes_no_key_is_not_repeated() {
    let board = Board::start().await;
    let proxy = Proxy::start(&board).await;
    let cb = board.client_at("admin", &proxy.url).await;
    proxy.cut(0);
    let lost = cb.keys().create(CreateKey::new("once", "viewer")).await;
    assert!(matches!(lost, Err(Error::Unreachable { .. })), "{lost:?}");
    let keys = board.admin.keys().list(&Default::default()).all().await.unwrap();
    assert_eq!(keys.iter().filter(|key| key.name == "once").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_connection_is_waited_for_and_a_cut_stream_goes_on() {
    let board = Board::start().await;
    let proxy = Proxy::start(&board).await;
    let (ran, gate) = (Arc::default(), Arc::new(Semaphore::new(0)));
    let worker = worker(&board, &ran, &gate).await;
    let cb = board.client_at("operator", &proxy.url).await;
    proxy.rules.pause_ms.store(300, Ordering::SeqCst);
    let mut stream = cb.tasks().stream("hold one two three");
    let first = stream.try_next().await.unwrap().unwrap();
    proxy.rules.pause_ms.store(0, Ordering::SeqCst);
    // The connection of the stream has carried more than this.
    proxy.cut(1);
    gate.add_permits(1);
    let rest: Vec<_> = stream.try_collect().await.unwrap();
    assert_eq!(format!("{first}{}", rest.concat()), "hold one two three");
    assert_eq!(proxy.rules.cuts.load(Ordering::SeqCst), 1);
    assert_eq!(ran.lock().unwrap().len(), 1);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stays_away_is_borne_for_the_patience_alone() {
    let mut board = Board::start().await;
    let cb: Callboard = board.client("operator").await.patience(Duration::from_millis(600));
    let waiting = cb.tasks().submit(CreateTask::new().prompt("x").queue("nobody")).await.unwrap();
    board.kill().await;
    assert!(matches!(waiting.wait().await, Err(Error::Unreachable { .. })));
    assert!(matches!(cb.tasks().run("x").await, Err(Error::Unreachable { .. })));
}
