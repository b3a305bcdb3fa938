//! The cost of one caller's data for everybody else: memory, time, connections (docs/reference/executions.md).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::approvals::fixture::Fixture;
use crate::support::{Client, FakeWorker, Server, until};

mod lists;
mod shares;

/// The resident memory of a server, in MiB.
fn resident(server: &Server) -> u64 {
    resident_of(server.pid())
}

fn resident_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    let status = status.expect("the process lives");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    let kib: u64 = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("KiB");
    kib / 1024
}

/// The longest answer of `/health` and the most resident memory while something goes on. A thread of its
/// own asks, so that no work of the test delays it.
async fn watched<T>(server: &Server, of: impl Future<Output = T>) -> (T, Duration, u64) {
    let over = Arc::new(AtomicBool::new(false));
    let (url, pid, stop) = (server.url.clone(), server.pid(), Arc::clone(&over));
    let watch = async move {
        let anybody = Client::new(&url, "");
        let (mut longest, mut most) = (Duration::ZERO, 0);
        while !stop.load(Ordering::Relaxed) {
            let asked = Instant::now();
            assert_eq!(anybody.get("/health").await.status.as_u16() / 100, 2);
            longest = longest.max(asked.elapsed());
            most = most.max(resident_of(pid));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        (longest, most)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let watching = std::thread::spawn(move || runtime.block_on(watch));
    let done = of.await;
    over.store(true, Ordering::Relaxed);
    let (longest, most) = watching.join().expect("every answer is a success");
    (done, longest, most)
}

/// Before: no request of anybody was answered for 33 seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_costly_condition_holds_nobody_up() {
    let fixture = Fixture::open().await;
    let client = &fixture.operator;
    let matches = vec![r"''.matches('\\w{4}')"; 40].join("||");
    let condition = format!("input.n.exists(i, {matches} || i == -1)");
    let step = json!({"id": "a", "prompt": "p", "condition": condition});
    let plan = json!({"name": "p", "steps": [step]});
    let answer = client.post("/api/plans", &plan).await;
    if answer.status.as_u16() == 400 {
        assert_eq!(answer.refused(400), "INVALID_CONDITION");
        return;
    }
    let plan = answer.expect(201)["id"].as_str().expect("an id").to_owned();
    let input = json!({"input": {"n": (0..700).collect::<Vec<_>>()}});
    let run = async {
        let begun = Instant::now();
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.push(client.execute(&plan, &input).await);
        }
        for id in ids {
            client.execution_when(&id, |execution| execution["status"] != "running").await;
        }
        begun.elapsed()
    };
    let (took, longest, _) = watched(&fixture.server, run).await;
    println!("four executions took {took:?}; the longest answer of /health was {longest:?}");
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// A plan of `steps` root steps that each render a mebibyte twice.
async fn wide_plan(client: &Client, steps: usize) -> String {
    let step = |number| json!({"id": format!("s{number}"), "prompt": "{{input.x}}", "systemPrompt": "{{input.x}}"});
    let steps: Vec<Value> = (0..steps).map(step).collect();
    client.plan(&json!(steps)).await
}

/// Before: 4.1 GB and a 503 after 11 seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_wide_plan_of_long_prompts_runs_in_little_memory() {
    let fixture = Fixture::open().await;
    let client = &fixture.operator;
    let plan = wide_plan(client, 500).await;
    let input = json!({"input": {"x": "x".repeat(1 << 20)}});
    let before = resident(&fixture.server);
    let run = async {
        let id = client.execute(&plan, &input).await;
        client.execution_when(&id, |execution| execution["progress"]["running"] != 0).await;
        let path = format!("/api/plans/executions/{id}");
        assert_eq!(client.delete(&path).await.status.as_u16(), 200);
    };
    let ((), longest, most) = watched(&fixture.server, run).await;
    println!("{before} MiB before, {most} MiB at most; the longest answer was {longest:?}");
    assert!(most < before + 100, "{before} MiB before, {most} MiB at most");
}

/// Before: an answer of 500 MB.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_shows_two_mebibytes_of_prompts() {
    let fixture = Fixture::open().await;
    let client = &fixture.operator;
    let plan = wide_plan(client, 500).await;
    let dry = json!({"input": {"x": "x".repeat(1 << 20)}, "options": {"dryRun": true}});
    let before = resident(&fixture.server);
    let path = format!("/api/plans/{plan}/execute");
    let run = client.post(&path, &dry);
    let (answer, longest, most) = watched(&fixture.server, run).await;
    let data = answer.expect_ok();
    let steps = data["steps"].as_array().expect("steps");
    let shown: usize = steps.iter().map(|step| step["prompt"].as_str().map_or(0, str::len)).sum();
    let cut = steps.iter().filter(|step| step["promptTruncated"] == true).count();
    println!("{shown} bytes shown, {cut} cut, {before} to {most} MiB, longest answer {longest:?}");
    assert!(shown <= 2 << 20 && cut >= 498, "{shown} bytes, {cut} cut");
    assert!(most < before + 100, "{before} MiB before, {most} MiB at most");
}

/// Before: every output whole, however many steps there were.
#[tokio::test(flavor = "multi_thread")]
async fn an_execution_shows_eight_mebibytes_of_outputs() {
    let fixture = Fixture::open().await;
    let body = json!({"name": "t", "role": "operator", "environment": "test"});
    let key = fixture.admin.post("/api/auth/keys", &body).await.expect(201);
    let client = Client::new(&fixture.server.url, key["key"].as_str().expect("a key"));
    let step = |number: usize| {
        let prompt = if number == 0 { "short" } else { "{{input.x}}" };
        json!({"id": format!("s{number}"), "prompt": prompt, "model": "simulated-echo"})
    };
    let plan = client.plan(&json!((0..24).map(step).collect::<Vec<_>>())).await;
    let id = client.execute(&plan, &json!({"input": {"x": "x".repeat(1 << 20)}})).await;
    let path = format!("/api/plans/executions/{id}");
    until("it is completed", async || {
        let list = client.get("/api/plans/executions").await.expect_ok();
        list[0]["status"] == "completed"
    })
    .await;
    let before = resident(&fixture.server);
    let read = async {
        let mut answer = Value::Null;
        for _ in 0..2 {
            answer = client.get(&path).await.expect_ok();
        }
        answer
    };
    let (execution, longest, most) = watched(&fixture.server, read).await;
    let steps = execution["steps"].as_object().expect("steps");
    let shown: usize = steps.values().map(|step| step["output"].as_str().map_or(0, str::len)).sum();
    let cut = steps.values().filter(|step| step["outputTruncated"] == true).count();
    println!("{shown} bytes shown, {cut} cut, {before} to {most} MiB, longest answer {longest:?}");
    assert!(shown <= 8 << 20 && cut == 23, "{shown} bytes, {cut} cut");
    assert_eq!(steps["s0"]["output"], "short");
    assert!(steps["s0"].get("outputTruncated").is_none());
    assert!(most < before + 100, "{before} MiB before, {most} MiB at most");
    let task = client.task(steps["s1"]["taskId"].as_str().expect("an id")).await;
    assert_eq!(task["output"].as_str().map(str::len), Some(1 << 20), "the task has the whole");
}

/// Before: 1.2 GB for good, and again at each start.
#[tokio::test(flavor = "multi_thread")]
async fn schemas_full_of_patterns_are_refused_or_cost_little() {
    let mut fixture = Fixture::open().await;
    let before = resident(&fixture.server);
    let pattern = |number: usize| {
        (format!("p{number}"), json!({"pattern": format!("^\\w{{{}}}$", number % 9 + 1)}))
    };
    let properties: serde_json::Map<_, _> = (0..3_000).map(pattern).collect();
    let mut taken = 0;
    for number in 0..30 {
        let template = json!({
            "name": format!("t{number}"), "version": "1.0.0", "industry": "custom",
            "inputSchema": {"type": "object", "properties": properties},
            "steps": [{"id": "a", "prompt": "p"}],
        });
        let answer = fixture.operator.post("/api/templates", &template).await;
        if answer.status.as_u16() == 201 {
            taken += 1;
        } else {
            assert_eq!(answer.fault(), ("inputSchema".into(), "length".into()));
        }
    }
    let after = resident(&fixture.server);
    fixture.crash(Duration::ZERO).await;
    until("it serves", async || fixture.operator.get("/api/templates").await.status == 200).await;
    let again = resident(&fixture.server);
    println!("{taken} taken; {before} MiB before, {after} after, {again} after a restart");
    assert!(after < before + 100 && again < before + 100, "{before}, {after}, {again} MiB");
}

/// A worker's socket, by hand: an upgrade, and then any bytes.
async fn socket(server: &Server, key: &str) -> TcpStream {
    let address = server.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let upgrade = format!(
        "GET /api/workers/connect HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\
         connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(upgrade.as_bytes()).await.expect("it is open");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("an answer"));
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    stream.write_all(&frame(0x81, REGISTER.as_bytes())).await.expect("it is open");
    stream
}

const REGISTER: &str =
    r#"{"type":"register","name":"w","version":"0","queues":["q"],"models":["*"],"concurrency":1}"#;

/// The head of a frame of this length, masked with zeros.
fn head(first: u8, length: usize) -> Vec<u8> {
    let mut head = vec![first];
    match length {
        0..126 => head.push(0x80 | u8::try_from(length).expect("below 126")),
        126..65_536 => {
            head.push(0xfe);
            head.extend(u16::try_from(length).expect("below 65,536").to_be_bytes());
        }
        _ => {
            head.push(0xff);
            head.extend((length as u64).to_be_bytes());
        }
    }
    head.extend([0; 4]);
    head
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    [head(first, payload.len()), payload.to_vec()].concat()
}

/// The frames of a socket until it is closed or silent for three seconds.
async fn told(stream: &mut TcpStream) -> Vec<u8> {
    let mut told = vec![0; 1 << 16];
    let mut length = 0;
    let wait = Duration::from_secs(3);
    while let Ok(Ok(more @ 1..)) =
        tokio::time::timeout(wait, stream.read(&mut told[length..])).await
    {
        length += more;
    }
    told.truncate(length);
    told
}

/// Before: 24 sockets of one key with an unfinished frame of 32 MiB each cost 745 MB.
#[tokio::test(flavor = "multi_thread")]
async fn unfinished_frames_share_a_budget() {
    let server = Server::start();
    let key = server.key("worker").await;
    let mut idle = FakeWorker::connect(&server, &key, 1).await;
    let before = resident(&server);
    let mut sockets = JoinSet::new();
    for _ in 0..24 {
        let mut stream = socket(&server, &key).await;
        sockets.spawn(async move {
            let piece = vec![b'x'; 1 << 16];
            let mut whole = stream.write_all(&head(0x81, 32 << 20)).await.is_ok();
            for _ in 0..511 {
                let write = stream.write_all(&piece);
                let sent = tokio::time::timeout(Duration::from_secs(20), write).await;
                whole &= matches!(sent, Ok(Ok(())));
                if !whole {
                    break;
                }
            }
            (stream, whole)
        });
    }
    let all = async {
        let mut all = Vec::new();
        while let Some(socket) = sockets.join_next().await {
            all.push(socket.expect("no panic"));
        }
        all
    };
    let (all, longest, most) = watched(&server, all).await;
    println!("{before} MiB before, {most} MiB at most; the longest answer was {longest:?}");
    // A busy machine returns memory late that was given back.
    assert!(most < before + 160, "{before} MiB before, {most} MiB at most");
    let mut refused = 0;
    for (mut stream, whole) in all {
        let told = String::from_utf8_lossy(&told(&mut stream).await).into_owned();
        let is_refused = told.contains("RATE_LIMIT_EXCEEDED") && told.contains("unfinished");
        refused += usize::from(is_refused);
        assert!(whole || is_refused || told.is_empty(), "{told}");
    }
    assert!(refused >= 12, "{refused} were told why");
    idle.send(json!({"type": "heartbeat", "leases": []})).await;
    idle.receive("leases").await;
    // The room is free again.
    assert_eq!(idle.complete(&json!("x"), &"y".repeat(20 << 20)).await["result"], "stale");
}

/// Before: a socket kept the room of the longest frame that it had ever sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_socket_gives_back_the_room_of_a_long_frame() {
    let server = Server::start();
    let key = server.key("worker").await;
    let output = "y".repeat(24 << 20);
    let before = resident(&server);
    let mut workers = Vec::new();
    for _ in 0..12 {
        let mut worker = FakeWorker::connect(&server, &key, 1).await;
        assert_eq!(worker.complete(&json!("x"), &output).await["result"], "stale");
        workers.push(worker);
    }
    let kept = || resident(&server).saturating_sub(before);
    // The allocator gives back after ten seconds what nobody uses.
    for _ in 0..200 {
        if kept() < 100 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("{before} MiB before, {} MiB kept by 12 sockets", kept());
    assert!(kept() < 100, "{} MiB", kept());
}

#[tokio::test]
async fn frames_in_pieces_with_pings_between_are_one_frame() {
    let server = Server::start();
    let mut stream = socket(&server, &server.key("worker").await).await;
    let text = format!(
        r#"{{"type":"complete","lease":"é","output":"{}","usage":{{"input":1,"output":1}}}}"#,
        "ü".repeat(100_000)
    );
    let bytes = text.as_bytes();
    // A character is cut in two.
    let (first, rest) = bytes.split_at(39);
    let (second, last) = rest.split_at(70_000);
    for frame in [
        frame(0x01, first),
        frame(0x89, b"?"),
        frame(0x00, second),
        frame(0x80, last),
        frame(0x81, br#"{"type":"heartbeat","leases":["no lease"]}"#),
    ] {
        stream.write_all(&frame).await.expect("it is open");
    }
    let told = String::from_utf8_lossy(&told(&mut stream).await).into_owned();
    assert!(told.contains(r#""type":"ack""#) && told.contains("stale"), "{told}");
    assert!(told.contains(r#""lost":["no lease"]"#), "{told}");
}

/// Before: 420 streams of one viewer, and nobody else was served.
#[tokio::test]
async fn an_account_has_fifty_event_streams() {
    let fixture = Fixture::open().await;
    let viewer = fixture.key("viewer").await.client;
    let mut streams = Vec::new();
    for _ in 0..50 {
        let stream = viewer.request(Method::GET, "/api/events").send().await.expect("an answer");
        assert_eq!(stream.status(), 200);
        streams.push(stream);
    }
    let more = viewer.get("/api/events").await;
    assert_eq!(more.refused(429), "RATE_LIMIT_EXCEEDED");
    assert!(more.headers.contains_key("retry-after"));
    let message = more.body["error"]["message"].as_str().expect("a message");
    assert!(message.contains("50 event streams"), "{message}");
    let other = fixture.operator.request(Method::GET, "/api/events").send().await;
    assert_eq!(other.expect("an answer").status(), 200);
    streams.pop();
    until("a closed stream frees its place", async || {
        let again = viewer.request(Method::GET, "/api/events").send().await;
        again.expect("an answer").status() == 200
    })
    .await;
}

/// Before: 7.5 s, because every stream that waited for room read its item first, and all of them stood in
/// one line.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_streams_of_large_items_delay_no_other_account() {
    let server = Server::start();
    let loud = server.client("operator").await;
    let quiet = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let large = loud.submit(&json!({"prompt": "p"})).await;
    let assigned = worker.assignment().await;
    let small = quiet.submit(&json!({"prompt": "p"})).await;
    // Nobody reads these streams, so few of them have room for their end.
    let mut streams = Vec::new();
    for _ in 0..30 {
        let stream = loud.request(Method::GET, &format!("/api/tasks/{large}/stream"));
        streams.push(stream.send().await.expect("an answer"));
    }
    let ack = worker.complete(&assigned["lease"], &"y".repeat(12 << 20)).await;
    assert_eq!(ack["result"], "applied");
    let (begun, mut longest) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < Duration::from_secs(5) {
        let asked = Instant::now();
        let stream = quiet.request(Method::GET, &format!("/api/tasks/{small}/stream"));
        let mut stream = stream.send().await.expect("an answer");
        assert!(stream.chunk().await.expect("it is open").is_some(), "a snapshot");
        longest = longest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("the longest wait for a snapshot was {longest:?}");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
}

/// Before: each text of a `delta` stayed in memory whole until its slowest subscriber had read it, 320 MB
/// here and as much again in JSON.
#[tokio::test(flavor = "multi_thread")]
async fn long_deltas_cost_little_however_many_subscribers_do_not_read_them() {
    let server = Server::with(&[("WORKER__LEASE", "10m")]);
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let id = client.submit(&json!({"prompt": "p"})).await;
    let assigned = worker.assignment().await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let stream = client.request(Method::GET, "/api/events?events=task.delta").send().await;
        streams.push(stream.expect("an answer"));
    }
    let before = resident(&server);
    let text = "y".repeat(16 << 20);
    let send = async {
        for _ in 0..20 {
            worker.send(json!({"type": "delta", "lease": assigned["lease"], "text": text})).await;
        }
        worker.complete(&assigned["lease"], "done").await
    };
    let (ack, longest, most) = watched(&server, send).await;
    assert_eq!(ack["result"], "applied");
    println!("{before} MiB before, {most} MiB at most; the longest answer was {longest:?}");
    // A frame of 16 MiB, its text, and what the allocator keeps of them.
    assert!(most < before + 200, "{before} MiB before, {most} MiB at most");
    client.task_with_status(&id, "completed").await;
}

/// Before: all of them were read, and their answers stayed in memory for up to 30 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_read_its_answers_is_not_read() {
    const ALL: usize = 4_000;
    let server = Server::start();
    let key = server.key("worker").await;
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    let before = resident(&server);
    let heartbeat = json!({"type": "heartbeat", "leases": vec!["x".repeat(60); 900]});
    let mut sent = 0;
    // What has no room any more waits.
    while let Ok(()) =
        tokio::time::timeout(Duration::from_secs(3), worker.send(heartbeat.clone())).await
    {
        sent += 1;
        assert!(sent < ALL, "all are read, with {} MiB after {before}", resident(&server));
    }
    let after = resident(&server);
    println!("{sent} heartbeats of 57 kB were sent; {before} MiB before, {after} MiB after");
    assert!(after < before + 40, "{before} MiB before, {after} MiB after");

    // A frame costs a multiple of its length, if it holds little but small values.
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    let many = json!({"type": "heartbeat", "leases": vec![""; 40_000]});
    worker.send(many).await;
    let refused = worker.next().await.expect("a frame");
    let says = refused["error"]["message"].as_str().expect("a message");
    assert!(says.contains("at most 32768 values"), "{says}");
}

#[tokio::test]
async fn every_answer_has_the_rate_headers() {
    let fixture = Fixture::open().await;
    let nobody = Client::new(&fixture.server.url, "");
    let long = "a".repeat(40_000);
    for (client, method, path, header, status) in [
        (&fixture.operator, Method::GET, "/api/tasks", "", 200),
        (&fixture.operator, Method::GET, "/api/nowhere", "", 404),
        (&fixture.operator, Method::PUT, "/api/tasks", "", 405),
        (&fixture.operator, Method::GET, "/api/tasks", long.as_str(), 431),
        (&nobody, Method::GET, "/api/tasks", "", 401),
        (&nobody, Method::GET, "/nowhere", "", 404),
        (&nobody, Method::GET, "/health", "", 200),
        (&nobody, Method::GET, "/health/live", "", 200),
    ] {
        let request = client.request(method.clone(), path).header("x-long", header);
        let answer = client.send(request).await;
        assert_eq!(answer.status.as_u16(), status, "{method} {path}");
        for name in ["limit", "remaining", "reset"] {
            let name = format!("x-ratelimit-{name}");
            assert!(answer.headers.contains_key(&name), "{method} {path} {status}: no {name}");
        }
    }
}

/// Before: a directory that was there kept its mode, and the store's files followed the umask.
#[tokio::test]
async fn what_is_stored_is_for_nobody_else() {
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    let mut server = Server::start();
    server.kill();
    set_permissions(server.data(), Permissions::from_mode(0o755)).expect("it is ours");
    server.restart();
    let mut directories = vec![server.data()];
    let mut seen = 0;
    while let Some(directory) = directories.pop() {
        let mode = metadata(&directory).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", directory.display());
        for entry in std::fs::read_dir(directory).expect("it can be read") {
            let entry = entry.expect("an entry");
            let metadata = entry.metadata().expect("it is there");
            if metadata.is_dir() {
                directories.push(entry.path());
            }
            let mode = metadata.permissions().mode() & 0o777;
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", entry.path().display());
            seen += 1;
        }
    }
    assert!(seen > 3, "{seen} files");
}
