//! The worker against a server played by the test, over pipes and on a paused clock.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use callboard_client::worker::run_loop::{Dial, DialError};

use super::*;
use crate::provider::simulated::{self, Simulated};

/// Longer than anything a worker does by itself on a paused clock.
const PATIENCE: Duration = Duration::from_mins(2);

/// Ends of pipes for the worker, one per connection; refuses while there is none.
struct Pipes {
    ready: mpsc::UnboundedReceiver<WebSocketStream<DuplexStream>>,
    refusals: VecDeque<Error>,
}

impl Dial for Pipes {
    type Socket = WebSocketStream<DuplexStream>;

    async fn dial(&mut self) -> Result<Self::Socket, DialError> {
        match self.ready.try_recv() {
            Ok(socket) => Ok(socket),
            Err(_) => match self.refusals.pop_front() {
                Some(error) => Err(DialError::Fatal(error)),
                None => Err(DialError::Away("nobody is there".into())),
            },
        }
    }
}

/// The test's hold on a worker at work.
struct Bench {
    pipes: mpsc::UnboundedSender<WebSocketStream<DuplexStream>>,
    stop: Option<oneshot::Sender<()>>,
    worker: JoinHandle<Result<(), Error>>,
}

/// The server's end of one connection.
struct Line(WebSocketStream<DuplexStream>);

impl Bench {
    fn new(options: simulated::Options) -> Self {
        Self::refusing(options, VecDeque::new())
    }

    fn refusing(options: simulated::Options, refusals: VecDeque<Error>) -> Self {
        let (pipes, ready) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let register = Register {
            name: "w".into(),
            version: "1".into(),
            queues: vec!["default".into()],
            models: vec!["*".into()],
            functions: Vec::new(),
            concurrency: 2,
            resume: None,
        };
        let calls = Calls::new(Arc::new(Simulated::new(options)), None, register.concurrency);
        let runner = Runner::new(Pipes { ready, refusals }, register, Arc::new(calls), GRACE);
        let worker = tokio::spawn(runner.run(async move {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        }));
        Self { pipes, stop: Some(stop), worker }
    }

    async fn accept(&self) -> Line {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let client = WebSocketStream::from_raw_socket(theirs, Role::Client, None).await;
        self.pipes.send(client).unwrap();
        Line(WebSocketStream::from_raw_socket(ours, Role::Server, None).await)
    }

    /// A connection that is registered.
    async fn registered(&self) -> Line {
        let mut line = self.accept().await;
        assert_eq!(line.hear().await["type"], "register");
        line.say(registered(&[], &[])).await;
        line
    }

    fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }
}

impl Line {
    async fn say(&mut self, frame: Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let message = timeout(PATIENCE, self.0.next()).await.expect("the worker is silent");
        serde_json::from_str(message.unwrap().unwrap().to_text().unwrap()).unwrap()
    }

    /// The next frame of this type; the others are passed over.
    async fn hear_a(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.hear().await;
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    async fn ended(mut self) {
        loop {
            match timeout(PATIENCE, self.0.next()).await.expect("the connection is open") {
                None | Some(Err(_) | Ok(Message::Close(_))) => return,
                Some(Ok(_)) => {}
            }
        }
    }
}

fn registered(kept: &[&str], lost: &[&str]) -> Value {
    json!({"type": "registered", "workerId": "wrk_1", "leaseMs": 30_000, "heartbeatMs": 10_000, "kept": kept, "lost": lost})
}

fn assign(lease: &str, model: &str) -> Value {
    json!({"type": "assign", "lease": lease, "attempt": 1, "deadlineAt": "2999-01-01T00:00:00.000Z",
        "task": {"id": format!("dt_task_{lease}"), "model": model, "queue": "default", "prompt": "hello", "later": 1}})
}

fn ack(lease: &str, of: &str) -> Value {
    json!({"type": "ack", "lease": lease, "of": of, "result": "applied"})
}

fn slowly() -> simulated::Options {
    simulated::Options { latency: Duration::from_secs(3), ..simulated::Options::default() }
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_the_key_forbids_ends_the_worker() {
    let bench = Bench::new(simulated::Options::default());
    let mut line = bench.accept().await;
    line.hear_a("register").await;
    let message = "queue default is not one of this key's, which are letters";
    let error = json!({"code": "FORBIDDEN", "message": message});
    line.say(json!({"type": "error", "error": error})).await;
    line.0.close(None).await.unwrap();
    let refused = Error::Refused { status: 403, message: message.into() };
    assert_eq!(bench.worker.await.unwrap(), Err(refused));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_turned_away_waits_longer_each_time() {
    let bench = Bench::new(simulated::Options::default());
    let begun = Instant::now();
    for _ in 0..8 {
        let mut line = bench.accept().await;
        line.hear_a("register").await;
        line.0.close(None).await.unwrap();
    }
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(6), "eight tries within {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_run_streamed_and_completed() {
    let bench = Bench::new(simulated::Options {
        per_word: Duration::from_millis(200),
        ..Default::default()
    });
    let mut line = bench.registered().await;
    line.say(assign("a", "m")).await;
    let mut text = String::new();
    let result = loop {
        let frame = line.hear().await;
        match frame["type"].as_str().unwrap() {
            "delta" => text.push_str(frame["text"].as_str().unwrap()),
            "heartbeat" => assert_eq!(frame["leases"], json!(["a"])),
            _ => break frame,
        }
    };
    assert_eq!((&result["type"], &result["lease"]), (&json!("complete"), &json!("a")));
    assert_eq!(result["output"], text);
    assert_eq!(result["confidenceSource"], "reported");
    line.say(ack("a", "complete")).await;
    assert_eq!(line.hear_a("heartbeat").await["leases"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_provider_is_told_with_its_time_to_wait() {
    let bench = Bench::new(simulated::Options::default());
    let mut line = bench.registered().await;
    line.say(assign("a", "simulated-rate-limited")).await;
    let expected = json!({"type": "fail", "lease": "a", "retryable": true, "retryAfterMs": 1000,
        "error": {"code": "PROVIDER_RATE_LIMITED", "message": "simulated rate limit"}});
    assert_eq!(line.hear().await, expected);
}

#[tokio::test(start_paused = true)]
async fn what_runs_outlives_the_connection_and_its_result_is_sent_after_resuming() {
    let bench = Bench::new(slowly());
    let mut line = bench.registered().await;
    line.say(assign("a", "m")).await;
    line.say(assign("b", "simulated-slow")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(line);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut line = bench.accept().await;
    let register = line.hear().await;
    assert_eq!(register["resume"], json!({"workerId": "wrk_1", "leases": ["a", "b"]}));
    line.say(registered(&["a", "b"], &[])).await;
    let first = line.hear_a("complete").await;
    assert_eq!(first["lease"], "a");
    drop(line);
    let mut line = bench.accept().await;
    assert_eq!(line.hear().await["resume"]["leases"], json!(["a", "b"]));
    line.say(registered(&["a"], &["b"])).await;
    assert_eq!(line.hear_a("complete").await, first, "not acknowledged, so sent again");
    line.say(ack("a", "complete")).await;
    assert_eq!(line.hear_a("heartbeat").await["leases"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_dropped_and_its_slot_is_free_at_once() {
    let bench = Bench::new(simulated::Options::default());
    let mut line = bench.registered().await;
    let start = Instant::now();
    line.say(assign("a", "simulated-slow")).await;
    line.say(assign("b", "simulated-slow")).await;
    line.say(json!({"type": "cancel", "lease": "a", "reason": "cancelled"})).await;
    line.say(assign("c", "m")).await;
    assert_eq!(line.hear_a("complete").await["lease"], "c");
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(line.hear_a("heartbeat").await["leases"], json!(["b", "c"]));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_enforced_here_too() {
    let bench = Bench::new(simulated::Options::default());
    let mut line = bench.registered().await;
    let mut frame = assign("a", "simulated-slow");
    // The instant is by another clock, and only shown.
    frame["deadlineAt"] = json!("2020-01-01T00:00:00.000Z");
    frame["timeoutMs"] = json!(1_000);
    let started = Instant::now();
    line.say(frame).await;
    let fail = line.hear().await;
    assert_eq!(
        (&fail["error"]["code"], &fail["retryable"]),
        (&json!("TASK_TIMEOUT"), &json!(true))
    );
    // Its report comes in time.
    assert_eq!(started.elapsed(), Duration::from_millis(950));
}

#[tokio::test(start_paused = true)]
async fn told_to_stop_it_finishes_what_runs_and_leaves() {
    let mut bench = Bench::new(slowly());
    let mut line = bench.registered().await;
    line.say(assign("a", "m")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    bench.stop();
    assert_eq!(line.hear().await, json!({"type": "drain"}));
    line.hear_a("complete").await;
    line.say(ack("a", "complete")).await;
    line.ended().await;
    assert_eq!(bench.worker.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn told_to_stop_it_leaves_within_the_time_whatever_runs() {
    let mut bench = Bench::new(simulated::Options::default());
    let mut line = bench.registered().await;
    line.say(assign("a", "simulated-slow")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    bench.stop();
    assert_eq!(bench.worker.await.unwrap(), Ok(()));
    assert_eq!(start.elapsed().as_secs(), 25);
}

#[tokio::test(start_paused = true)]
async fn what_still_runs_at_the_end_is_given_back_to_a_server_that_takes_it() {
    let mut bench = Bench::new(simulated::Options::default());
    let mut line = bench.accept().await;
    assert_eq!(line.hear().await["type"], "register");
    let mut registered = registered(&[], &[]);
    registered["takes"] = json!(["return"]);
    line.say(registered).await;
    line.say(assign("a", "simulated-slow")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    bench.stop();
    assert_eq!(line.hear_a("return").await, json!({"type": "return", "leases": ["a"]}));
    assert_eq!(start.elapsed().as_secs(), 25);
    line.ended().await;
    assert_eq!(bench.worker.await.unwrap(), Ok(()));
    assert!(start.elapsed() < Duration::from_secs(26), "it waits for nothing more");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_an_idle_worker_away_sees_it_leave() {
    let bench = Bench::new(simulated::Options::default());
    let mut line = bench.registered().await;
    line.say(json!({"type": "drain", "deadlineMs": 5000})).await;
    assert_eq!(line.hear().await, json!({"type": "drain"}));
    line.ended().await;
    assert_eq!(bench.worker.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_left_for_a_new_connection() {
    let bench = Bench::new(simulated::Options::default());
    let line = bench.registered().await;
    let start = Instant::now();
    line.ended().await;
    assert_eq!(start.elapsed().as_secs(), 30);
    bench.registered().await;
}

#[tokio::test(start_paused = true)]
async fn frames_that_it_does_not_know_are_passed_over() {
    let bench = Bench::new(simulated::Options::default());
    let mut line = bench.registered().await;
    line.say(json!({"type": "compliment", "text": "well done"})).await;
    line.say(json!(["no object"])).await;
    line.say(assign("a", "m")).await;
    line.hear_a("complete").await;
}

#[tokio::test(start_paused = true)]
async fn heartbeats_come_in_time_while_text_pours_out() {
    let words = simulated::Options { per_word: Duration::from_millis(60), ..Default::default() };
    let bench = Bench::new(words);
    let mut line = bench.registered().await;
    let mut frame = assign("a", "simulated-echo");
    frame["task"]["prompt"] = json!("word ".repeat(1000));
    line.say(frame).await;
    let (mut last, mut beats, mut deltas) = (Instant::now(), 0, 0);
    loop {
        let frame = line.hear().await;
        match frame["type"].as_str().unwrap() {
            "heartbeat" => {
                assert!(last.elapsed() < Duration::from_millis(10_100), "{:?}", last.elapsed());
                last = Instant::now();
                beats += 1;
                line.say(json!({"type": "leases", "renewed": ["a"], "lost": []})).await;
            }
            "delta" => deltas += 1,
            _ => break,
        }
    }
    assert!(beats >= 5 && deltas >= 500, "{beats} {deltas}");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_refused_later_ends_the_worker() {
    let refused = Error::Refused { status: 401, message: "revoked".into() };
    let bench = Bench::refusing(simulated::Options::default(), [refused].into());
    let error = bench.worker.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the server refused the worker's key with status 401: revoked");
}

#[tokio::test]
async fn over_tcp_the_key_is_in_the_header_and_a_refusal_is_final() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = Options {
        identity: None,
        server: format!("http://{}", listener.local_addr().unwrap()),
        key: "svc_worker_1\n".into(),
        name: "w".into(),
        queues: vec!["default".into()],
        models: None,
        concurrency: 0,
        provider: Arc::new(Simulated::default()),
        spans: None,
        grace: GRACE,
    };
    assert!(!format!("{options:?}").contains("svc_worker_1"));
    let worker = tokio::spawn(run(options, std::future::pending()));

    let (socket, _) = listener.accept().await.unwrap();
    let mut socket = tokio_tungstenite::accept_async(socket).await.unwrap();
    let register = socket.next().await.unwrap().unwrap();
    let register: Value = serde_json::from_str(register.to_text().unwrap()).unwrap();
    let expected = json!({"type": "register", "name": "w", "version": env!("CARGO_PKG_VERSION"),
        "queues": ["default"], "models": ["*"], "concurrency": 1});
    assert_eq!(register, expected);
    drop(socket);

    let (mut socket, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert!(socket.read_buf(&mut head).await.unwrap() > 0);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("GET /api/workers/connect HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains("authorization: bearer svc_worker_1\r\n"), "{head}");
    let body =
        r#"{"success": false, "error": {"code": "FORBIDDEN", "message": "not a worker's key"}}"#;
    let answer = format!("HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    socket.write_all(answer.as_bytes()).await.unwrap();
    let refused = Error::Refused { status: 403, message: "not a worker's key".into() };
    assert_eq!(worker.await.unwrap(), Err(refused));
}
