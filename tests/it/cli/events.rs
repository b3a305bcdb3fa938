//! Events and texts on the command line, as they come.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::program::Home;
use crate::support::{Events, FakeWorker, Server};

#[tokio::test]
async fn events_are_followed_one_a_line() {
    let server = Server::start();
    let client = server.client("operator").await;
    let viewer = Home::new(&server.url).with_key(&server.key("viewer").await);
    let first = client.submit(&json!({"prompt": "p"})).await;
    // From the first place on, so that nothing depends on when the program connects.
    let follow = ["events", "follow", "--events", "task.created", "--after", "e3f", "-o", "jsonl"];
    let mut program = viewer.command(&follow).spawn().expect("it starts");
    let mut lines = BufReader::new(program.stdout.take().expect("it is piped")).lines();
    let second = client.submit(&json!({"prompt": "p"})).await;
    for id in [first, second] {
        let line = lines.next_line().await.expect("a line").expect("it goes on");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(
            (&event["event"], &event["resource"]["id"]),
            (&json!("task.created"), &json!(id))
        );
    }
    // Every filter leaves out what does not fit.
    let other = json!({"prompt": "p", "queue": "q", "tags": ["a"]});
    client.submit(&other).await;
    let wanted = client.submit(&json!({"prompt": "p", "queue": "q", "tags": ["a", "b"]})).await;
    for filter in [&["--task", &wanted][..], &["--queue", "q", "--tag", "a,b"]] {
        let all = [&["events", "follow", "--after", "e3f", "-o", "jsonl"], filter].concat();
        let mut program = viewer.command(&all).spawn().expect("it starts");
        let mut lines = BufReader::new(program.stdout.take().expect("it is piped")).lines();
        let line = lines.next_line().await.expect("a line").expect("it goes on");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(event["resource"]["id"], json!(wanted), "{filter:?}");
    }
    let unknown = viewer.run(&["events", "follow", "--events", "task.done"]).await.failed(5);
    assert!(unknown.contains("task.completed"), "{unknown}");
    Home::new(&server.url).run(&["events", "follow"]).await.failed(4);
}

/// One address for a server that comes back on another port.
struct Forwarded {
    url: String,
    to: Arc<Mutex<String>>,
}

impl Forwarded {
    async fn start(to: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let to = Arc::new(Mutex::new(to.to_owned()));
        let now = Arc::clone(&to);
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let to = now.lock().expect("no panic").replace("http://", "");
                tokio::spawn(async move {
                    // While the server is away the client's connection is closed.
                    if let Ok(mut to) = TcpStream::connect(to).await {
                        let _ = copy_bidirectional(&mut from, &mut to).await;
                    }
                });
            }
        });
        Self { url, to }
    }
}

#[tokio::test]
async fn following_goes_on_over_a_restart_without_a_hole() {
    let mut server = Server::start();
    let client = server.client("operator").await;
    let forwarded = Forwarded::start(&server.url).await;
    let viewer = Home::new(&forwarded.url).with_key(&server.key("viewer").await);
    let first = client.submit(&json!({"prompt": "p"})).await;
    let follow = ["events", "follow", "--events", "task.created", "--after", "e3f", "-o", "jsonl"];
    let mut program = viewer.command(&follow).spawn().expect("it starts");
    let mut lines = BufReader::new(program.stdout.take().expect("it is piped")).lines();
    let mut said = BufReader::new(program.stderr.take().expect("it is piped")).lines();
    let mut prev = json!("e3f");
    let mut next = async |id: &str| {
        let line = lines.next_line().await.expect("a line").expect("it goes on");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&event["resource"]["id"], &event["prev"]), (&json!(id), &prev), "{event}");
        prev = event["cursor"].clone();
    };
    next(&first).await;
    server.kill();
    assert!(said.next_line().await.expect("text").expect("a line").contains("connection lost"));
    server.restart();
    // It happens before the program is back.
    let second = client.at(&server.url).submit(&json!({"prompt": "p"})).await;
    forwarded.to.lock().expect("no panic").clone_from(&server.url);
    next(&second).await;
    let line = said.next_line().await.expect("text").expect("a line");
    assert!(line.contains("resumes where it broke off"), "{line}");
}

#[tokio::test]
async fn a_stream_without_events_yet_loses_none_over_a_restart() {
    let mut server = Server::start();
    let client = server.client("operator").await;
    let forwarded = Forwarded::start(&server.url).await;
    let through = client.at(&forwarded.url);
    client.submit(&json!({"prompt": "p", "queue": "quiet"})).await;
    let mut events = Events::open(&through, "events=task.created&queue=quiet", None).await;
    // Nothing comes, but the place at which the stream began.
    tokio::time::timeout(Duration::from_secs(1), events.next()).await.expect_err("no event");
    server.kill();
    events.breaks().await;
    server.restart();
    let id = client.at(&server.url).submit(&json!({"prompt": "p", "queue": "quiet"})).await;
    forwarded.to.lock().expect("no panic").clone_from(&server.url);
    events.opens_again().await;
    let (name, event) = events.next().await;
    assert_eq!((name.as_str(), &event["resource"]["id"]), ("task.created", &json!(id)));
}

/// The place is sent at most every 15 s, by the server's own clock.
#[tokio::test]
async fn a_stream_whose_filter_leaves_all_out_has_a_newer_place_all_the_same() {
    let server = Server::start();
    let client = server.client("operator").await;
    let request = client.request(Method::GET, "/api/events?queue=quiet");
    let mut stream = request.send().await.expect("an answer");
    let mut text = String::new();
    let mut ids = async |count: usize| {
        while text.matches("id: ").count() < count {
            let chunk = tokio::time::timeout(Duration::from_secs(25), stream.chunk()).await;
            let chunk = chunk.expect("in time").expect("a chunk").expect("it goes on");
            text.push_str(std::str::from_utf8(&chunk).expect("text"));
        }
        let id = text.lines().rev().find_map(|line| line.strip_prefix("id: "));
        id.expect("one").to_owned()
    };
    let first = ids(1).await;
    client.submit(&json!({"prompt": "p"})).await;
    let second = ids(2).await;
    assert_ne!(first, second);
    assert!(!text.contains("data"), "{text}");
    let id = client.submit(&json!({"prompt": "p", "queue": "quiet"})).await;
    let mut events = Events::open(&client, "queue=quiet", Some(&second)).await;
    let (_, event) = events.next().await;
    assert_eq!((&event["prev"], &event["resource"]["id"]), (&json!(second), &json!(id)));
}

#[tokio::test]
async fn a_submitted_text_is_printed_as_it_comes() {
    let server = Server::start();
    let operator = Home::new(&server.url).with_key(&server.key("operator").await);
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let submit = operator.command(&["tasks", "submit", "p", "--stream"]).output();
    let run = async {
        let first = worker.assignment().await;
        worker.send(json!({"type": "delta", "lease": first["lease"], "text": "void"})).await;
        let error = json!({"code": "PROVIDER_ERROR", "message": "busy"});
        let lease = &first["lease"];
        worker
            .send(json!({"type": "fail", "lease": lease, "retryable": true, "error": error}))
            .await;
        let second = worker.assignment().await;
        for text in ["go", "od"] {
            worker.send(json!({"type": "delta", "lease": second["lease"], "text": text})).await;
        }
        worker.complete(&second["lease"], "good").await;
    };
    let (ended, ()) = tokio::join!(submit, run);
    let ended = ended.expect("it runs");
    let (out, err) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{err}");
    assert_eq!(out, "void\ngood\n");
    assert!(err.contains("another attempt begins"), "{err}");
}
