//! Sequences over broken connections and restarts, and clients that do not read.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

/// True in the long form of the tests.
fn is_long() -> bool {
    std::env::var_os("CALLBOARD_LONG").is_some()
}

/// A subscriber that comes back after every break, and checks that nothing is missing.
struct Subscriber {
    key: String,
    cursor: Option<String>,
    ids: HashSet<String>,
    not_resumed: u64,
}

impl Subscriber {
    /// Reads `count` events and breaks the connection, or until it is broken.
    async fn read(&mut self, url: &str, count: usize) -> Option<()> {
        let mut ws = Ws::try_connect(url, &self.key).await.ok()?;
        let mut subscribe =
            json!({"type": "subscribe", "id": 1, "sub": "s", "events": ["task.created"]});
        if let Some(cursor) = &self.cursor {
            subscribe["resume"] = cursor.as_str().into();
        }
        ws.send(subscribe).await;
        let subscribed = ws.next().await.ok()?;
        if subscribed["type"] == "bye" {
            return None;
        }
        assert_eq!(subscribed["type"], "subscribed");
        let mut prev = json!(self.cursor);
        if subscribed["resumed"] == false {
            self.not_resumed += u64::from(self.cursor.is_some());
            self.cursor = subscribed["cursor"].as_str().map(str::to_owned);
            prev = Value::Null;
        }
        for _ in 0..count {
            let frame = ws.next().await.ok()?;
            if frame["type"] == "bye" {
                return None;
            }
            assert_eq!(frame["type"], "event", "{frame}");
            assert_eq!(frame["prev"], prev, "a hole");
            prev = frame["cursor"].clone();
            self.cursor = prev.as_str().map(str::to_owned);
            let id = frame["resource"]["id"].as_str().expect("an id").to_owned();
            assert!(self.ids.insert(id), "told twice");
        }
        Some(())
    }
}

/// Disconnects and restarts under load: every subscriber receives every task's events, once.
#[tokio::test]
async fn every_sequence_is_whole_over_disconnects_and_restarts() {
    let (disconnects, restarts) = if is_long() { (500, 20) } else { (40, 2) };
    let unlimited = ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "10000000");
    let mut server = Server::with(&[unlimited]);
    let submitter = server.client("operator").await;
    let mut subscribers = Vec::new();
    for _ in 0..4 {
        let (key, ids) = (server.key("viewer").await, HashSet::new());
        let mut subscriber = Subscriber { key, cursor: None, ids, not_resumed: 0 };
        // From the beginning.
        assert_eq!(subscriber.read(&server.url, 0).await, Some(()));
        subscribers.push(subscriber);
    }
    let url = Arc::new(std::sync::Mutex::new(server.url.clone()));
    let (stop, breaks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let made = Arc::new(AtomicU64::new(0));
    let current = |url: &std::sync::Mutex<String>| url.lock().expect("no panic").clone();
    let load = {
        let (url, stop, count) = (Arc::clone(&url), Arc::clone(&stop), Arc::clone(&made));
        tokio::spawn(async move {
            let (mut acknowledged, mut number) = (HashSet::new(), 0_u64);
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                let client = submitter.at(&current(&url));
                let request = client.request(Method::POST, "/api/tasks");
                let key = format!("task-{number}");
                let request = request.header("idempotency-key", key);
                let made = client.try_send(request.json(&json!({"prompt": "p"}))).await;
                if let Some(made) = made.filter(|made| made.status.as_u16() == 201) {
                    acknowledged
                        .insert(made.body["data"]["id"].as_str().expect("an id").to_owned());
                    count.fetch_add(1, Ordering::Relaxed);
                } else {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            acknowledged
        })
    };
    let readers: Vec<_> = subscribers
        .into_iter()
        .map(|mut subscriber| {
            let (url, stop) = (Arc::clone(&url), Arc::clone(&stop));
            let breaks = Arc::clone(&breaks);
            tokio::spawn(async move {
                let mut count = 1;
                while !stop.load(Ordering::Relaxed) {
                    count = count * 7 % 31;
                    if subscriber.read(&current(&url), count).await.is_none() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    breaks.fetch_add(1, Ordering::Relaxed);
                }
                subscriber
            })
        })
        .collect();
    for restart in 1..=restarts {
        let enough = disconnects * restart / restarts;
        while breaks.load(Ordering::Relaxed) < enough {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if restart % 2 == 0 {
            server = tokio::task::spawn_blocking(move || {
                assert!(server.terminate());
                server
            })
            .await
            .expect("it ends");
        } else {
            server.kill();
        }
        server.restart();
        url.lock().expect("no panic").clone_from(&server.url);
    }
    crate::support::until("there was work", async || made.load(Ordering::Relaxed) > 50).await;
    stop.store(true, Ordering::Relaxed);
    let acknowledged = load.await.expect("the load ends");
    let last = server.client("operator").await.submit(&json!({"prompt": "the last"})).await;
    for reader in readers {
        let mut subscriber = reader.await.expect("a whole sequence");
        while !subscriber.ids.contains(&last) {
            assert_eq!(subscriber.read(&server.url, 1).await, Some(()), "the server runs");
        }
        let missing = acknowledged.iter().filter(|id| !subscriber.ids.contains(*id)).count();
        assert!(missing == 0 || subscriber.not_resumed > 0, "{missing} tasks are missing");
        assert_eq!(subscriber.not_resumed, 0, "the log reaches back that far");
    }
    assert!(acknowledged.len() > 50, "{} tasks", acknowledged.len());
}

/// Clients that never read do no harm to those that do, and the memory stays bounded.
#[tokio::test]
async fn clients_that_never_read_harm_nobody() {
    let (clients, events) = if is_long() { (100, 100_000) } else { (20, 10_000) };
    let begun = Instant::now();
    let unlimited = ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "10000000");
    let server = Server::with(&[unlimited, ("LIMITS__STREAMS", "200")]);
    let client = server.client("operator").await;
    let key = server.key("viewer").await;
    let mut silent = Vec::new();
    for _ in 0..clients {
        let mut ws = Ws::connect(&server.url, &key).await;
        ws.subscribe("s", json!({"events": ["task.created"]})).await;
        silent.push(ws);
    }
    let mut reader = Ws::connect(&server.url, &key).await;
    reader.subscribe("s", json!({"events": ["task.created"]})).await;
    let before = memory(server.pid());
    let tags: Vec<_> = (0..20).map(|n| format!("{n}{}", "x".repeat(40))).collect();
    let load = tokio::spawn(async move {
        let tasks = vec![json!({"prompt": "p", "tags": tags}); 100];
        for _ in 0..events / 100 {
            client.post("/api/tasks/batch", &json!({"tasks": tasks})).await.expect(201);
        }
    });
    let mut prev = Value::Null;
    for _ in 0..events {
        let frame = reader.expect("event").await;
        assert_eq!(frame["prev"], prev, "a hole");
        prev = frame["cursor"].clone();
    }
    load.await.expect("all were submitted");
    // What the tasks themselves take grows with their number; a socket holds 4 MiB at most.
    let grown = memory(server.pid()).saturating_sub(before) >> 20;
    let allowed = clients * 5 + events / 500 + 150;
    assert!(grown < allowed, "{grown} MiB more, {allowed} are allowed");
    let mut one = silent.pop().expect("a client");
    if is_long() || begun.elapsed() > Duration::from_secs(25) {
        tokio::time::sleep(Duration::from_secs(31)).await;
        // After so long, the server may have given the socket up with its `bye` unread.
        let closed = one.closed_or_reset().await;
        assert!(matches!(closed, None | Some(4503)), "{closed:?}");
        return;
    }
    let (mut told, mut prev) = (0, json!(null));
    let gap = loop {
        let frame = one.next().await.expect("the socket is open");
        if frame["type"] == "gap" {
            break frame;
        }
        assert_eq!(frame["prev"], prev, "a hole");
        prev = frame["cursor"].clone();
        told += 1;
    };
    assert!(told < events, "{told} of {events} events were told");
    assert_eq!((&gap["from"], &gap["reason"]), (&prev, &json!("slow")));
}

/// The memory of a process, in bytes.
fn memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}
