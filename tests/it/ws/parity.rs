//! `/api/events` and `/ws` send the same events under the same filters, and keep the same ones.

use super::*;
use crate::support::{Events, until};

/// A selection of events, in the form of either way.
struct Selection {
    query: String,
    filter: Value,
    is_last: fn(&Value) -> bool,
    /// The texts of its `task.delta` events, sorted.
    pieces: &'static [&'static str],
}

/// The stored events in order, and the pieces of outputs.
#[derive(Debug, Default, PartialEq)]
struct Told {
    stored: Vec<Value>,
    pieces: Vec<Value>,
}

impl Told {
    fn keep(&mut self, event: Value) {
        match event["event"].as_str() {
            Some("task.delta") => self.pieces.push(event),
            // A length is published as it is at that moment, at most once a second.
            Some("queue.depth") => {}
            _ => self.stored.push(event),
        }
    }
}

impl Selection {
    fn new(
        (query, filter): (String, Value),
        is_last: fn(&Value) -> bool,
        pieces: &'static [&'static str],
    ) -> Self {
        Self { query, filter, is_last, pieces }
    }

    async fn over_sse(&self, mut events: Events) -> Told {
        let mut told = Told::default();
        loop {
            let (name, event) = events.next().await;
            assert_eq!(event["event"], name);
            let is_last = (self.is_last)(&event);
            told.keep(event);
            if is_last {
                return told;
            }
        }
    }

    async fn over_ws(&self, mut ws: Ws) -> Told {
        let mut told = Told::default();
        loop {
            let mut frame = ws.expect("event").await;
            assert_eq!(frame["sub"], "s");
            let members = frame.as_object_mut().expect("an object");
            members.retain(|name, _| !["type", "sub"].contains(&name.as_str()));
            let is_last = (self.is_last)(&frame);
            told.keep(frame);
            if is_last {
                return told;
            }
        }
    }
}

/// A task with a gate and a webhook, and an execution of two steps. Nobody runs them yet.
async fn submitted(client: &Client) -> (String, String) {
    // Nobody listens there any more.
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", nobody.local_addr().expect("an address"));
    drop(nobody);
    let task = json!({
        "prompt": "p", "queue": "q", "tags": ["t", "u"], "hitl": {"required": true},
        "callbackUrl": url,
    });
    let task = client.submit(&task).await;
    let plan = json!([{"id": "a", "prompt": "p"}, {"id": "b", "prompt": "q", "dependsOn": ["a"]}]);
    (task, client.execute(&client.plan(&plan).await, &json!({})).await)
}

/// Runs both to their ends, each attempt with a piece of its output, and submits a last task.
async fn run_all(server: &Server, client: &Client, task: &str, execution: &str) {
    let register = json!({
        "type": "register", "name": "both", "version": "0", "queues": ["q", "default"],
        "models": ["*"], "concurrency": 1,
    });
    let key = server.key("worker").await;
    let mut worker = FakeWorker::register(&server.url, &key, register).await;
    for _ in 0..3 {
        let assigned = worker.assignment().await;
        let (lease, step) = (&assigned["lease"], assigned["task"]["stepId"].as_str());
        let text = step.unwrap_or("piece");
        worker.send(json!({"type": "delta", "lease": lease, "text": text})).await;
        worker.complete(lease, text).await;
    }
    client.execution_with_status(execution, "completed").await;
    client.post(&format!("/api/hitl/{task}/approve"), &json!({})).await.expect_ok();
    let path = format!("/api/webhooks/deliveries?status=dead&taskId={task}");
    until("the webhook is given up", async || client.get(&path).await.expect_ok() != json!([]))
        .await;
    client.submit(&json!({"prompt": "p", "queue": "q", "tags": ["last"]})).await;
}

#[tokio::test]
async fn both_ways_tell_the_same_under_every_filter() {
    let settings = [("WEBHOOKS__ALLOW", "127.0.0.1/32"), ("WEBHOOKS__RETRY_SECONDS", "")];
    let server = Server::with(&settings);
    let client = server.client("operator").await;
    let (task, execution) = submitted(&client).await;
    let announced = |event: &Value| event["event"] == "webhook.failed";
    let ended = |event: &Value| event["event"] == "execution.completed";
    let last = |event: &Value| event["data"]["tags"] == json!(["last"]);
    let of = |query: &str, filter: Value| (query.to_owned(), filter);
    let selections = [
        Selection::new(
            of(&format!("taskId={task}"), json!({"taskId": task})),
            announced,
            &["piece"],
        ),
        Selection::new(of("tags=t,u", json!({"tags": ["t", "u"]})), announced, &["piece"]),
        Selection::new(of("queue=q", json!({"queue": "q"})), announced, &["piece"]),
        Selection::new(
            of(&format!("executionId={execution}"), json!({"executionId": execution})),
            ended,
            &["a", "b"],
        ),
        Selection::new(of("queue=q&tags=last", json!({"queue": "q", "tags": ["last"]})), last, &[]),
        Selection::new(of("", json!({})), last, &["a", "b", "piece"]),
    ];
    let viewer = server.client("viewer").await;
    let mut open = Vec::new();
    for selection in selections {
        let events = Events::open(&viewer, &selection.query, None).await;
        let mut ws = Ws::connect(&server.url, viewer.token()).await;
        ws.subscribe("s", json!({"events": ["*"], "filter": selection.filter})).await;
        open.push((selection, events, ws));
    }
    run_all(&server, &client, &task, &execution).await;
    for (selection, events, ws) in open {
        let (sse, ws) = (selection.over_sse(events).await, selection.over_ws(ws).await);
        assert_eq!(sse, ws, "{}", selection.query);
        let texts = sse.pieces.iter().map(|piece| piece["data"]["text"].as_str().expect("text"));
        let mut texts: Vec<_> = texts.collect();
        texts.sort_unstable();
        assert_eq!(texts, selection.pieces, "{}", selection.query);
        let mut prev = Value::Null;
        for event in &sse.stored {
            assert_eq!(event["prev"], prev, "{}", selection.query);
            assert!(event["resource"]["version"].is_u64(), "{event}");
            prev = event["cursor"].clone();
        }
        assert!(sse.pieces.iter().all(|piece| piece["resource"]["version"].is_u64()));
        assert!(sse.pieces.iter().all(|piece| piece.get("cursor").is_none()));
    }
}

#[tokio::test]
async fn events_that_are_no_longer_kept_are_told_as_missing() {
    let server = Server::with(&[("EVENTS__KEEP_MAX", "5")]);
    let client = server.client("operator").await;
    let subscribe = json!({"events": ["task.created"]});
    let mut ws = Ws::connect(&server.url, client.token()).await;
    ws.subscribe("s", subscribe.clone()).await;
    client.submit(&json!({"prompt": "p"})).await;
    let first = ws.expect("event").await["cursor"].clone();
    let cursor = first.as_str().expect("a cursor");
    for _ in 0..20 {
        client.submit(&json!({"prompt": "p"})).await;
    }
    let mut resume = subscribe.clone();
    resume["resume"] = first.clone();
    let mut told = Value::Null;
    for attempt in 0.. {
        let mut ws = Ws::connect(&server.url, client.token()).await;
        told = ws.subscribe("s", resume.clone()).await;
        if told["resumed"] == false {
            break;
        }
        assert!(attempt < 300, "old events stay");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // What follows goes on from there.
    let mut events = Events::open(&client, "events=task.created", Some(cursor)).await;
    let (name, gap) = events.next().await;
    assert_eq!(name, "gap");
    assert_eq!((&gap["from"], &gap["to"]), (&first, &told["cursor"]));
    assert_eq!(gap["reason"], "expired");
    let id = client.submit(&json!({"prompt": "p"})).await;
    let (_, next) = events.next().await;
    assert_eq!((&next["prev"], &next["resource"]["id"]), (&gap["to"], &json!(id)));
}

#[tokio::test]
async fn a_cursor_that_was_never_given_is_refused_or_cannot_be_resumed() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut ws = Ws::connect(&server.url, client.token()).await;
    let get = |cursor: &'static str| {
        let request = client.request(Method::GET, "/api/events").header("last-event-id", cursor);
        client.send(request)
    };
    let wrong = ["e", "e+1", "E1", "eF", "1", "e 1", "e00000000000000001", "effffffffffffffff"];
    for wrong in wrong {
        let fault = get(wrong).await.fault();
        assert_eq!(fault, ("Last-Event-ID".into(), "format".into()), "{wrong}");
        let subscribe = json!({"type": "subscribe", "sub": "s", "events": ["*"], "resume": wrong});
        ws.send(subscribe).await;
        let error = ws.expect("error").await;
        assert_eq!(error["error"]["details"]["field"], "resume", "{wrong}: {error}");
    }
    for (n, ahead) in ["efffffffffffffffe", "e7fffffffffffffff"].into_iter().enumerate() {
        let resume = json!({"events": ["*"], "resume": ahead});
        let told = ws.subscribe(&format!("s{n}"), resume).await;
        assert_eq!(told["resumed"], false, "{told}");
        let (name, gap) = Events::open(&client, "", Some(ahead)).await.next().await;
        assert_eq!((name.as_str(), &gap["to"]), ("gap", &told["cursor"]));
    }
}

/// The bound is that of docs/reference/events.md; half of the pieces keep it even on a machine that runs
/// other tests.
#[tokio::test]
async fn a_piece_reaches_its_subscribers_within_50_ms() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let id = client.submit(&json!({"prompt": "p"})).await;
    let assigned = worker.assignment().await;
    let filter = json!({"events": ["task.delta"], "filter": {"taskId": id}});
    let mut ws = Ws::connect(&server.url, client.token()).await;
    ws.subscribe("s", filter).await;
    let mut events = Events::open(&client, &format!("events=task.delta&taskId={id}"), None).await;
    let mut took = Vec::new();
    for offset in 0..100 {
        let sent = Instant::now();
        let delta = json!({"type": "delta", "lease": assigned["lease"], "text": "x"});
        worker.send(delta).await;
        assert_eq!(ws.expect("event").await["data"], json!({"text": "x", "offset": offset}));
        events.next().await;
        took.push(sent.elapsed());
    }
    took.sort_unstable();
    println!("a piece took {:?} at the median, {:?} at most", took[50], took[99]);
    assert!(took[50] < Duration::from_millis(50), "{:?}", took[50]);
}
