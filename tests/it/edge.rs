//! What requests without credentials, and clients that leave or do not read, may cost the others.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::overload::reading;
use crate::support::{ADMIN, Answer, Client, FakeWorker, PASSWORD, Server, until};

fn address(server: &Server) -> &str {
    server.url.trim_start_matches("http://")
}

/// A request of which no more than this is sent.
async fn say(server: &Server, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address(server)).await.expect("it listens");
    stream.write_all(text.as_bytes()).await.expect("it is open");
    stream
}

fn post(path: &str, credential: &str, length: usize, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\n{credential}content-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

async fn login(server: &Server, email: &str, password: &str, from: &str) -> Answer {
    let client = Client::new(&server.url, "");
    let request = client.request(Method::POST, "/api/auth/login").header("x-forwarded-for", from);
    client.send(request.json(&json!({"email": email, "password": password}))).await
}

#[tokio::test]
async fn a_low_limit_of_files_is_raised_and_else_bounds_the_connections() {
    use std::io::BufRead;

    let start = |limits: &str| {
        let dir = tempfile::tempdir().expect("a directory");
        let log = std::fs::File::create(dir.path().join("log")).expect("a file");
        let script = format!("{limits}; exec \"$0\" serve --listen 127.0.0.1:0 --data-dir data");
        let mut child = std::process::Command::new("sh")
            .args(["-c", &script, crate::support::PROGRAM])
            .current_dir(dir.path())
            .env("CALLBOARD_LOG", "warn")
            .env("CALLBOARD_SERVER__HEADER_TIMEOUT", "1h")
            .env("CALLBOARD_SERVER__MAX_CONNECTIONS", "200")
            .stdout(std::process::Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("it is piped");
        std::io::BufReader::new(out).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on http://").expect("an address");
        let log = std::fs::read_to_string(dir.path().join("log")).expect("a log");
        (child, address.to_owned(), log, dir)
    };
    let (mut child, _, log, _dir) = start("ulimit -Sn 64");
    assert!(!log.contains("limit of open files"), "{log}");
    child.kill().expect("it runs");
    child.wait().expect("it ends");

    let (mut child, address, log, _dir) = start("ulimit -n 256");
    assert!(log.contains("192 connections are taken at once"), "{log}");
    let mut held = Vec::new();
    for _ in 0..300 {
        let stream = TcpStream::connect(&address).await.expect("the kernel takes it");
        stream.try_write(b"GET / HTTP/1.1\r\nhost: a").expect("it takes some bytes");
        held.push(stream);
    }
    let client = crate::support::plain_http().build().expect("a client");
    let live = format!("http://{address}/health/live");
    until("the process says that it lives", async || {
        client.get(&live).send().await.is_ok_and(|answer| answer.status() == 200)
    })
    .await;
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[tokio::test]
async fn a_public_endpoint_reads_eight_kibibytes() {
    let server = Server::start();
    let anybody = Client::new(&server.url, "");
    let long = json!({"email": ADMIN, "password": "x".repeat(8_200), "refreshToken": "x"});
    for path in ["/api/auth/login", "/api/auth/refresh"] {
        let refused = anybody.post(path, &long).await;
        assert_eq!(refused.refused(413), "PAYLOAD_TOO_LARGE");
        let message = refused.body["error"]["message"].as_str().expect("a message");
        assert!(message.contains("8192"), "{message}");
    }
    let padded = format!("{}{}", json!({"email": ADMIN, "password": PASSWORD}), " ".repeat(8_000));
    anybody.post_raw("/api/auth/login", padded).await.expect_ok();
}

/// The status that a caller reads who sends all of the body first, as most clients do.
fn told_after_sending(
    url: &str,
    (path, token, bytes): (&str, &str, usize),
) -> std::io::Result<u16> {
    use std::io::{Read, Write};
    let host = url.strip_prefix("http://").expect("an address");
    let mut stream = std::net::TcpStream::connect(host)?;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {bytes}\r\n\r\n"
    )?;
    stream.write_all(&vec![b' '; bytes])?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    Ok(String::from_utf8_lossy(&head[9..]).parse().expect("a status"))
}

/// Tried before: a caller with an expired key met a broken pipe in place of 401.
#[tokio::test]
async fn a_caller_who_still_sends_reads_the_refusal() {
    let server = Server::with(&[("LIMITS__FILE_BYTES", "1048576")]);
    let key = server.key("operator").await;
    let most = 100 << 20;
    for (path, token, bytes, status) in [
        ("/api/files", "wrong", most, 401),
        ("/api/files", "wrong", 20_000, 401),
        ("/api/files", key.as_str(), most, 413),
        ("/api/tasks", "wrong", 3 << 20, 401),
        ("/api/tasks", key.as_str(), most, 413),
        ("/api/tasks/bulk", key.as_str(), 30 << 20, 415),
        ("/v1/chat/completions", key.as_str(), 30 << 20, 413),
        ("/api/auth/login", "", 20 << 20, 413),
        ("/api/nothing", key.as_str(), 20 << 20, 404),
    ] {
        let (url, path_of, token) = (server.url.clone(), path.to_owned(), token.to_owned());
        let told = move || told_after_sending(&url, (&path_of, &token, bytes));
        let told = tokio::task::spawn_blocking(told).await.expect("no panic");
        assert_eq!(told.ok(), Some(status), "{path}, {bytes} bytes");
    }
}

#[tokio::test]
async fn unfinished_sign_ins_take_no_room_from_others_and_are_given_up_soon() {
    let server = Server::with(&[("SERVER__BODIES_MAX_BYTES", "4194304")]);
    let operator = server.client("operator").await;
    let mut open = Vec::new();
    for _ in 0..100 {
        let half = post("/api/auth/login", "", 100_000, &" ".repeat(60_000));
        open.push(say(&server, &half).await);
        let half = post("/api/auth/login", "", 8_000, &" ".repeat(7_900));
        open.push(say(&server, &half).await);
    }
    let began = Instant::now();
    operator.post("/api/tasks", &json!({"prompt": "x".repeat(900_000)})).await.expect(201);
    server.admin().await;
    let mut statuses = Vec::new();
    for stream in &mut open {
        let mut told = vec![0; 12];
        stream.read_exact(&mut told).await.expect("an answer");
        statuses.push(String::from_utf8_lossy(&told[9..]).into_owned());
    }
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    statuses.sort();
    statuses.dedup();
    assert!(statuses.iter().all(|it| ["408", "413", "429"].contains(&it.as_str())), "{statuses:?}");
    assert!(statuses.contains(&"408".to_owned()), "{statuses:?}");
}

#[tokio::test]
async fn unfinished_bodies_of_an_account_are_a_quarter_of_all() {
    let server = Server::with(&[("SERVER__BODIES_MAX_BYTES", "16777216")]);
    let (key, other) = (server.key("operator").await, server.client("operator").await);
    let credential = format!("authorization: Bearer {key}\r\n");
    let mut open = Vec::new();
    for _ in 0..5 {
        let half = post("/api/tasks", &credential, 1_000_000, &" ".repeat(950_000));
        open.push(say(&server, &half).await);
    }
    // Four of them fill the account's 4 MiB, whichever comes last.
    let client = Client::new(&server.url, &key);
    until("one of its bodies is too much", async || {
        let body = json!({"prompt": "x".repeat(900_000)});
        client.post("/api/tasks", &body).await.status == 429
    })
    .await;
    let refused = client.post("/api/tasks", &json!({"prompt": "x".repeat(900_000)})).await;
    assert_eq!(refused.refused(429), "RATE_LIMIT_EXCEEDED");
    assert!(refused.headers.contains_key("retry-after"));
    let message = refused.body["error"]["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("unfinished"), "{message}");
    client.post("/api/tasks", &json!({"prompt": "small"})).await.expect(201);
    other.post("/api/tasks", &json!({"prompt": "x".repeat(1_000_000)})).await.expect(201);
    // One that ends frees its room.
    open.truncate(2);
    until("there is room again", async || {
        client.post("/api/tasks", &json!({"prompt": "x".repeat(900_000)})).await.status == 201
    })
    .await;
    let mut ends = Vec::new();
    for mut one in open {
        // One that was refused is closed.
        let _ = one.write_all(&vec![b' '; 50_000]).await;
        let mut told = [0; 12];
        one.read_exact(&mut told).await.expect("an answer");
        ends.push(String::from_utf8_lossy(&told[9..]).into_owned());
    }
    assert!(ends.iter().any(|status| status == "400"), "{ends:?}");
}

/// Before: a minute, until the tries that nobody waited for any more were forgotten.
#[tokio::test]
async fn sign_ins_whose_clients_left_hold_nobody_up() {
    let server = Server::start();
    let body = json!({"email": ADMIN, "password": PASSWORD}).to_string();
    let mut leavers = Vec::new();
    for _ in 0..40 {
        leavers.push(say(&server, &post("/api/auth/login", "", body.len(), &body)).await);
    }
    // Some are being hashed, and the others wait.
    tokio::time::sleep(Duration::from_millis(30)).await;
    drop(leavers);
    let began = Instant::now();
    login(&server, ADMIN, PASSWORD, "").await.expect_ok();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn nobody_locks_an_account_for_others_for_good() {
    let server = Server::with(&[("SERVER__TRUSTED_PROXIES", "127.0.0.1/32")]);
    let (home, office) = ("192.0.2.1", "198.51.100.7");
    login(&server, ADMIN, PASSWORD, home).await.expect_ok();
    // One address, five failures: locked there for the rest of the minute.
    let attacker = "203.0.113.1";
    for _ in 0..5 {
        let refused = login(&server, ADMIN, "wrong horse battery", attacker).await;
        assert_eq!(refused.refused(401), "INVALID_CREDENTIALS");
    }
    let locked = login(&server, ADMIN, PASSWORD, attacker).await;
    assert_eq!(locked.refused(429), "RATE_LIMIT_EXCEEDED");
    let seconds = |answer: &Answer| -> u64 {
        let after = answer.headers.get("retry-after").and_then(|after| after.to_str().ok());
        after.and_then(|after| after.parse().ok()).expect("a Retry-After")
    };
    assert!(seconds(&locked) > 30);
    // Where the account has signed in before, nothing changes.
    login(&server, ADMIN, PASSWORD, home).await.expect_ok();
    // A new address waits, and then comes in for sure.
    let wait = login(&server, ADMIN, PASSWORD, office).await;
    assert_eq!(wait.refused(429), "RATE_LIMIT_EXCEEDED");
    assert!(seconds(&wait) <= 2, "{}", seconds(&wait));
    tokio::time::sleep(Duration::from_secs(seconds(&wait))).await;
    login(&server, ADMIN, PASSWORD, office).await.expect_ok();
    // An account that does not exist answers alike.
    for n in 0..5 {
        let from = format!("203.0.113.{}", 10 + n);
        let refused = login(&server, "nobody@example.com", "wrong horse battery", &from).await;
        assert_eq!(refused.refused(401), "INVALID_CREDENTIALS");
    }
    let wait = login(&server, "nobody@example.com", "wrong horse battery", office).await;
    assert_eq!(wait.refused(429), "RATE_LIMIT_EXCEEDED");
}

/// Five wrong passwords from these addresses, then the right one from another: the wait in seconds.
async fn guessed(server: &Server, from: [&str; 5], then: &str) -> u64 {
    for address in from {
        let refused = login(server, ADMIN, "wrong horse battery", address).await;
        assert_eq!(refused.refused(401), "INVALID_CREDENTIALS");
    }
    let locked = login(server, ADMIN, PASSWORD, then).await;
    assert_eq!(locked.refused(429), "RATE_LIMIT_EXCEEDED");
    let after = locked.headers.get("retry-after").and_then(|after| after.to_str().ok());
    after.and_then(|after| after.parse().ok()).expect("a Retry-After")
}

fn warns_of(server: &Server, address: &str) -> bool {
    let says = |line: &str| line.contains("WARN") && line.contains("too many wrong passwords");
    server.logged().lines().any(|line| says(line) && line.contains(address))
}

#[tokio::test]
async fn an_address_that_nobody_trusted_claims_counts_for_nothing_and_the_log_names_the_real_one() {
    let claimed: [_; 5] = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5"];
    let server = Server::traced(&[]);
    assert!(guessed(&server, claimed, "192.0.2.6").await > 30, "they are one address");
    assert!(warns_of(&server, "127.0.0.1") && !warns_of(&server, "192.0.2."));
}

#[tokio::test]
async fn the_addresses_of_one_network_of_ipv6_are_one() {
    let near = ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4", "2001:db8::5:6:7:8"];
    let server = Server::traced(&[("SERVER__TRUSTED_PROXIES", "127.0.0.1/32")]);
    assert!(guessed(&server, near, "2001:db8::9").await > 30, "they are one address");
    assert!(warns_of(&server, "2001:db8::"));
    let far = login(&server, ADMIN, PASSWORD, "2001:db8:0:1::1").await;
    let after = far.headers.get("retry-after").and_then(|after| after.to_str().ok());
    assert!(after.is_none_or(|after| matches!(after, "1" | "2")), "{after:?}");
}

/// A request whose client reads no more of the answer than its status, 200.
async fn unread_answer(server: &Server, path: &str, token: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("it is ours");
    let connected = socket.connect(address(server).parse().expect("an address")).await;
    let mut stream = connected.expect("it listens");
    let ask = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.expect("it is open");
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.expect("an answer");
    assert_eq!(&first[9..], b"200");
    stream
}

/// True if the server's end of a client's connection is open.
fn is_open(stream: &TcpStream) -> bool {
    let port = |address: std::net::SocketAddr| format!(":{:04X}", address.port());
    let (own, peer) = (stream.local_addr(), stream.peer_addr());
    let (own, peer) = (port(own.expect("it is bound")), port(peer.expect("it is connected")));
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the system has one");
    table.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().take(4).collect();
        matches!(fields[..], [_, local, remote, "01"] if local.ends_with(&peer) && remote.ends_with(&own))
    })
}

/// Before: the connection stayed for as long as its client did.
#[tokio::test]
async fn a_stream_that_nobody_reads_is_closed_with_its_right() {
    let server = Server::with(&[("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "100000")]);
    let operator = server.client("operator").await;
    let anybody = Client::new(&server.url, "");
    let sign_in = json!({"email": ADMIN, "password": PASSWORD});
    let session = anybody.post("/api/auth/login", &sign_in).await.expect_ok();
    let token = session["token"].as_str().expect("a token");
    let stream = unread_answer(&server, "/api/events", token).await;
    // More events than the buffers between the two hold.
    let tags: Vec<String> = (0..32).map(|n| format!("{n:064}")).collect();
    let tasks = vec![json!({"prompt": "p", "tags": tags}); 100];
    for _ in 0..25 {
        operator.post("/api/tasks/batch", &json!({"tasks": tasks})).await.expect(201);
    }
    assert!(is_open(&stream));
    Client::new(&server.url, token).post("/api/auth/logout", &json!({})).await.expect_ok();
    let began = Instant::now();
    until("it is closed", async || !is_open(&stream)).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// Before: each was held until its client closed the connection.
#[tokio::test]
async fn an_account_that_reads_no_answers_gets_no_more_of_them() {
    let server = Server::start();
    let (key, other) = (server.key("viewer").await, server.client("viewer").await);
    let operator = server.client("operator").await;
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let worker = worker.run(|_| Ok("x".repeat(12 << 20)));
    let task = operator.submit(&json!({"prompt": "p"})).await;
    operator.task_with_status(&task, "completed").await;
    let path = format!("/api/tasks/{task}");
    let mut unread = vec![unread_answer(&server, &path, &key).await];
    // The first frame of a stream counts like the answer itself.
    unread.push(unread_answer(&server, &format!("{path}/stream"), &key).await);
    // Two of 12 MiB are in the account's 32 MiB, and a third is not.
    let client = Client::new(&server.url, &key);
    let refused = client.get(&path).await;
    assert_eq!(refused.refused(429), "RATE_LIMIT_EXCEEDED");
    assert!(refused.headers.contains_key("retry-after"));
    assert!(refused.headers.contains_key("x-ratelimit-limit"));
    let message = refused.body["error"]["message"].as_str().expect("a message");
    assert!(message.contains("33554432 bytes of unread answers"), "{message}");
    let refused = client.get(&format!("{path}/stream")).await;
    assert_eq!(refused.refused(429), "RATE_LIMIT_EXCEEDED");
    client.get("/api/tasks").await.expect_ok();
    other.get(&path).await.expect_ok();
    unread.pop();
    until("there is room again", async || client.get(&path).await.status == 200).await;
    worker.abort();
}

/// Before: each of 30 streams that nobody reads held the item's end, 280 MB in all.
#[tokio::test]
async fn the_ends_of_streams_that_nobody_reads_wait_for_room() {
    const OUTPUT: usize = 6 << 20;
    let server = Server::start();
    let (key, other) = (server.key("viewer").await, server.client("viewer").await);
    let operator = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let task = operator.submit(&json!({"prompt": "p"})).await;
    let assigned = worker.assignment().await;
    let path = format!("/api/tasks/{task}/stream");
    let mut unread = Vec::new();
    for _ in 0..30 {
        unread.push(unread_answer(&server, &path, &key).await);
    }
    let (own, others) = (Client::new(&server.url, &key), other);
    let read = async |client: Client| {
        let answer = client.request(Method::GET, &path).send().await.expect("an answer");
        let text = answer.text().await.expect("it ends in order");
        let (_, end) = text.rsplit_once("event: end\ndata: ").expect("an end");
        let end: Value = serde_json::from_str(end.trim()).expect("JSON");
        end["output"].as_str().map(str::len)
    };
    let waits = tokio::spawn({
        let (own, path) = (own.clone(), path.clone());
        async move {
            let answer = own.request(Method::GET, &path).send().await.expect("an answer");
            answer.text().await.expect("it ends in order").len()
        }
    });
    let memory = || reading(&server).memory;
    let before = memory();
    worker.complete(&assigned["lease"], &"x".repeat(OUTPUT)).await;
    let (mut most, until) = (memory(), Instant::now() + Duration::from_millis(1_500));
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
        most = most.max(memory());
    }
    assert!(most < before + 150.0, "{before} MB, then {most} MB");
    assert_eq!(read(others).await, Some(OUTPUT), "another account");
    drop(unread);
    let length = tokio::time::timeout(Duration::from_secs(10), waits).await.expect("its turn");
    assert!(length.expect("no panic") > OUTPUT);
}

#[tokio::test]
async fn a_submission_whose_stream_has_no_room_is_answered_and_its_snapshot_waits() {
    let server = Server::with(&[("SERVER__BODIES_MAX_BYTES", "33554432")]);
    let key = server.key("operator").await;
    let operator = Client::new(&server.url, &key);
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let worker = worker.run(|_| Ok("x".repeat(7_800_000)));
    let long = operator.submit(&json!({"prompt": "p"})).await;
    operator.task_with_status(&long, "completed").await;
    worker.abort();
    let unread = unread_answer(&server, &format!("/api/tasks/{long}"), &key).await;
    let prompt = "p".repeat(900_000);
    let submit = operator.request(Method::POST, "/api/tasks?stream=true");
    let mut stream = submit.json(&json!({"prompt": prompt})).send().await.expect("an answer");
    assert_eq!(stream.status(), 201);
    let early = tokio::time::timeout(Duration::from_millis(200), stream.chunk()).await;
    assert!(early.is_err(), "there is no room: {early:?}");
    drop(unread);
    let snapshot = tokio::time::timeout(Duration::from_secs(10), stream.chunk()).await;
    let snapshot = snapshot.expect("there is room").expect("the stream is open").expect("a frame");
    assert!(snapshot.starts_with(b"event: snapshot\n"));
}

/// Before: a page of approvals carried every prompt and output whole.
#[tokio::test]
async fn a_list_of_approvals_shows_the_beginning_of_long_texts() {
    let fixture = crate::approvals::fixture::Fixture::open().await;
    let (long, short) =
        (fixture.required(&"ü".repeat(50_000)).await, fixture.required("short").await);
    let edit = "e".repeat(40_000);
    let other = fixture.required("other").await;
    fixture.approve(&other, &json!({"modifiedOutput": edit})).await.expect_ok();
    for path in ["/api/hitl/pending", "/api/hitl"] {
        let items = fixture.operator.get(path).await.expect_ok();
        let item = |id: &str| {
            items.as_array().expect("a list").iter().find(|it| it["taskId"] == id).cloned()
        };
        let cut = item(&long).expect("it is listed");
        for text in ["prompt", "output"] {
            let shown = cut[text].as_str().expect("a text");
            assert_eq!(
                (shown.chars().count(), shown.starts_with("üüü")),
                (2_000, true),
                "{path} {text}"
            );
            assert_eq!(cut[format!("{text}Truncated")], true, "{path} {text}");
        }
        let whole = item(&short).expect("it is listed");
        assert_eq!((&whole["prompt"], &whole["output"]), (&json!("short"), &json!("short")));
        assert_eq!((whole.get("promptTruncated"), whole.get("outputTruncated")), (None, None));
        if let Some(edited) = item(&other) {
            let shown = &edited["decision"]["modifiedOutput"];
            assert_eq!(shown.as_str().map(str::len), Some(2_000));
            assert_eq!(edited["decision"]["modifiedOutputTruncated"], true);
        }
    }
    let alone = fixture.item(&long).await;
    assert_eq!(alone["output"].as_str().map(|text| text.chars().count()), Some(50_000));
    assert_eq!(alone.get("outputTruncated"), None);
    assert_eq!(fixture.item(&other).await["decision"]["modifiedOutput"], Value::from(edit));
}

#[tokio::test]
async fn a_body_whose_caller_was_revoked_meanwhile_does_nothing() {
    let server = Server::start();
    let admin = server.admin().await;
    let made = admin.post("/api/auth/keys", &json!({"name": "k", "role": "operator"})).await;
    let made = made.expect(201);
    let (id, key) = (made["id"].as_str().expect("an id"), made["key"].as_str().expect("a key"));
    let credential = format!("authorization: Bearer {key}\r\n");
    let body = json!({"prompt": "too late"}).to_string();
    let (begin, end) = body.split_at(5);
    let mut slow = say(&server, &post("/api/tasks", &credential, body.len(), begin)).await;
    until("the request has come in", async || {
        let keys = admin.get("/api/auth/keys").await.expect_ok();
        let all = keys.as_array().expect("a list");
        all.iter().any(|key| key["id"] == id && !key["lastUsedAt"].is_null())
    })
    .await;
    admin.delete(&format!("/api/auth/keys/{id}")).await.expect_ok();
    // The body is slow by now: the key was used before, and its revocation is durable.
    tokio::time::sleep(Duration::from_millis(150)).await;
    slow.write_all(end.as_bytes()).await.expect("it is open");
    let mut told = [0; 12];
    slow.read_exact(&mut told).await.expect("an answer");
    assert_eq!(&told[9..], b"401");
    let tasks = admin.get("/api/tasks").await;
    assert_eq!(tasks.body["pagination"]["total"], 0);
}

#[tokio::test]
async fn an_action_whose_client_hangs_up_is_in_the_audit_log() {
    const TASKS: u64 = 40;
    let server = Server::start();
    let admin = server.admin().await;
    let credential = format!("authorization: Bearer {}\r\n", server.key("admin").await);
    for _ in 0..TASKS {
        let id = admin.submit(&json!({"prompt": "x"})).await;
        let path = format!("/api/tasks/{id}");
        let cancel = format!("DELETE {path} HTTP/1.1\r\nhost: x\r\n{credential}\r\n");
        drop(say(&server, &cancel).await);
    }
    let total = async |path: &str| {
        admin.get(path).await.body["pagination"]["total"].as_u64().expect("a number")
    };
    // A request that has not been read yet may be lost with its connection.
    let cancelled = async || total("/api/tasks?status=cancelled").await;
    until("some are cancelled", async || cancelled().await >= TASKS / 4).await;
    until("each is in the log", async || {
        total("/api/audit?action=task.cancelled").await == cancelled().await
    })
    .await;
}
