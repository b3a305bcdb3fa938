//! The real program in a process of its own, and clients that talk to it as anybody would.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use callboard_client::{Credential, Secret, StreamItem};
use futures_util::{SinkExt, StreamExt};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

pub(crate) mod clock;
pub(crate) mod credentials;
pub(crate) mod small_disk;

pub(crate) const ADMIN: &str = "admin@example.com";
pub(crate) const PASSWORD: &str = "correct horse battery staple";

/// A running server. Killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    pub(crate) dir: tempfile::TempDir,
    settings: Vec<(String, String)>,
    traced: bool,
    program: PathBuf,
    flags: Vec<String>,
}

impl Server {
    /// A server on a fresh directory.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// A server on a fresh directory, with settings such as `("WORKER__LEASE", "2s")`, and with variables of other
    /// programs such as `("$LD_PRELOAD", "…")`.
    pub(crate) fn with(settings: &[(&str, &str)]) -> Self {
        Self::of(PROGRAM.as_ref(), settings)
    }

    /// The same, with the program of another version.
    pub(crate) fn of(program: &Path, settings: &[(&str, &str)]) -> Self {
        Self::launched(program, settings, credentials::are_searched())
    }

    /// The same, logging everything to a file; dropping it fails if a credential stands in the log or data.
    pub(crate) fn traced(settings: &[(&str, &str)]) -> Self {
        Self::launched(PROGRAM.as_ref(), settings, true)
    }

    /// A server on the data in `dir`, by this program.
    pub(crate) fn on(dir: tempfile::TempDir, program: &Path, settings: &[(&str, &str)]) -> Self {
        Self::launched_in(dir, program, settings, false)
    }

    fn launched(program: &Path, settings: &[(&str, &str)], traced: bool) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self::launched_in(dir, program, settings, traced)
    }

    fn launched_in(
        dir: tempfile::TempDir,
        program: &Path,
        settings: &[(&str, &str)],
        traced: bool,
    ) -> Self {
        let settings: Vec<_> =
            settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let (child, url, lines) = launch(program, dir.path(), &settings, &[], traced);
        let (program, flags) = (program.into(), Vec::new());
        Self { child, url, lines, dir, settings, traced, program, flags }
    }

    /// The next line that it writes to standard output.
    pub(crate) fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("in UTF-8")
    }

    /// The setting of this name from the next start on.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.settings.retain(|(known, _)| known != name);
        self.settings.push((name.into(), value.into()));
    }

    /// Further flags from the next start on.
    pub(crate) fn flags(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where its data is.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The log of a traced server.
    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(self.dir.path().join(LOG)).expect("it is traced")
    }

    /// Adds a line to the log of a traced server.
    pub(crate) fn log(&self, line: &str) {
        let log = OpenOptions::new().append(true).open(self.dir.path().join(LOG));
        writeln!(log.expect("it is traced"), "{line}").expect("a file takes a line");
    }

    /// SIGKILL, and nothing else.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// SIGTERM; returns whether it ended in order.
    pub(crate) fn terminate(&mut self) -> bool {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().expect("kill runs");
        assert!(sent.success());
        self.child.wait().expect("it ends").success()
    }

    /// The same directory again, with other settings.
    pub(crate) fn restart_with(&mut self, settings: &[(&str, &str)]) {
        self.settings =
            settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        self.restart();
    }

    /// The same directory again, on another port.
    pub(crate) fn restart(&mut self) {
        (self.child, self.url, self.lines) =
            launch(&self.program, self.dir.path(), &self.settings, &self.flags, self.traced);
    }

    /// The same directory again, with the program of this version.
    pub(crate) fn upgrade(&mut self) {
        self.program = PROGRAM.into();
        self.restart();
    }

    /// An admin with a session.
    pub(crate) async fn admin(&self) -> Client {
        let anybody = Client::new(&self.url, "");
        let login = json!({"email": ADMIN, "password": PASSWORD});
        let session = anybody.post("/api/auth/login", &login).await.expect_ok();
        Client::new(&self.url, session["token"].as_str().expect("a token"))
    }

    /// A client with a fresh key of this role.
    pub(crate) async fn client(&self, role: &str) -> Client {
        Client::new(&self.url, &self.key(role).await)
    }

    /// A fresh key of this role.
    pub(crate) async fn key(&self, role: &str) -> String {
        let admin = self.admin().await;
        let made = admin.post("/api/auth/keys", &json!({"name": role, "role": role})).await;
        made.expect(201)["key"].as_str().expect("a key").to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !self.traced {
            return;
        }
        if std::thread::panicking() {
            let log = std::fs::read(self.dir.path().join(LOG)).unwrap_or_default();
            eprintln!("{}", String::from_utf8_lossy(&log));
        } else {
            credentials::assert_none_in(&[self.dir.path()]);
        }
    }
}

/// The program of this version.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_callboard");

/// The value of a setting that takes a variable away.
pub(crate) const UNSET: &str = "(unset)";

/// The log of a traced server.
const LOG: &str = "log";

fn launch(
    program: &Path,
    dir: &Path,
    settings: &[(String, String)],
    flags: &[String],
    traced: bool,
) -> (Child, String, std::io::Lines<BufReader<ChildStdout>>) {
    credentials::keep(PASSWORD);
    let mut command = Command::new(program);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(dir.join("data"))
        .args(flags)
        .env("CALLBOARD_ADMIN_EMAIL", ADMIN)
        .env("CALLBOARD_ADMIN_PASSWORD", PASSWORD)
        // Many run at once, and some of their directories are copied.
        .env("CALLBOARD_STORE__RESERVE_BYTES", "0")
        .stdout(Stdio::piped());
    // They are the tests' own, and the server warns of names that it does not know.
    for own in ["CALLBOARD_TEST_LOGS", "CALLBOARD_TEST_STRICT", "CALLBOARD_VERSION"] {
        command.env_remove(own);
    }
    for (name, value) in settings {
        credentials::keep_setting(name, value);
        let name =
            name.strip_prefix('$').map_or_else(|| format!("CALLBOARD_{name}"), str::to_owned);
        if value == UNSET {
            command.env_remove(name)
        } else {
            command.env(name, value)
        };
    }
    if traced {
        let log = OpenOptions::new().create(true).append(true).open(dir.join(LOG));
        command.env("CALLBOARD_LOG", "trace").stderr(log.expect("a file"));
    } else if std::env::var_os("CALLBOARD_LOG").is_none() {
        command.env("CALLBOARD_LOG", "warn");
    }
    let mut child = command.spawn().expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let line = lines.next().expect("it says where it listens").expect("in UTF-8");
    let url = line.strip_prefix("listening on ").expect("it says where it listens").to_owned();
    (child, url, lines)
}

/// A client of the HTTP interface.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    pub(crate) url: String,
    token: String,
}

/// An answer: its status, its headers and its body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The answer to a request, or the error of the connection.
    pub(crate) async fn of(request: reqwest::RequestBuilder) -> reqwest::Result<Self> {
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = response.bytes().await?;
        let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        credentials::keep_in(&body["data"]);
        Ok(Self { status, headers, body })
    }

    /// The data of a 200.
    pub(crate) fn expect_ok(self) -> Value {
        self.expect(200)
    }

    /// The data of this status.
    #[track_caller]
    pub(crate) fn expect(mut self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{:#}", self.body);
        self.body["data"].take()
    }

    /// The code of an error of this status.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16) -> &str {
        assert_eq!(self.status.as_u16(), status, "{:#}", self.body);
        assert_eq!(self.body["success"], false);
        assert!(self.body["meta"]["requestId"].is_string());
        self.body["error"]["code"].as_str().expect("an error has a code")
    }

    /// Field and rule of a broken rule.
    #[track_caller]
    pub(crate) fn fault(&self) -> (String, String) {
        assert_eq!(self.refused(400), "VALIDATION_ERROR");
        let details = &self.body["error"]["details"];
        let text = |name: &str| details[name].as_str().unwrap_or_default().to_owned();
        (text("field"), text("rule"))
    }
}

/// A client of servers on this machine, which speak plain HTTP: reading the certificates of the system takes an
/// unoptimised client longer than its calls.
pub(crate) fn plain_http() -> reqwest::ClientBuilder {
    // The provider of the crypto is chosen once for the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().tls_certs_only([])
}

impl Client {
    pub(crate) fn new(url: &str, token: &str) -> Self {
        credentials::keep(token);
        // Shorter than the server's, which closes what is idle for 10 s: a request that is sent just
        // then is lost with its connection.
        let idle = Duration::from_secs(5);
        let http = plain_http().pool_idle_timeout(idle).build().expect("a client");
        Self { http, url: url.to_owned(), token: token.to_owned() }
    }

    /// The key or the access token.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The same client, of the server at this address.
    pub(crate) fn at(&self, url: &str) -> Self {
        Self::new(url, &self.token)
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.url));
        if self.token.is_empty() { request } else { request.bearer_auth(&self.token) }
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let answer = self.attempt(request).await;
        answer.unwrap_or_else(|error| panic!("no answer: {error:?}"))
    }

    /// The answer, or nothing if the connection broke.
    pub(crate) async fn try_send(&self, request: reqwest::RequestBuilder) -> Option<Answer> {
        self.attempt(request).await.ok()
    }

    async fn attempt(&self, request: reqwest::RequestBuilder) -> reqwest::Result<Answer> {
        Answer::of(request.timeout(ANSWERED)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        credentials::keep_in(body);
        self.send(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn post_raw(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        let request = self.request(Method::POST, path);
        self.send(request.header("content-type", "application/json").body(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// Submits a task and returns its identifier.
    pub(crate) async fn submit(&self, task: &Value) -> String {
        let task = self.post("/api/tasks", task).await.expect(201);
        task["id"].as_str().expect("an id").to_owned()
    }

    pub(crate) async fn task(&self, id: &str) -> Value {
        self.get(&format!("/api/tasks/{id}")).await.expect_ok()
    }

    /// The task as soon as `wanted` holds; looks every few milliseconds for up to a minute.
    pub(crate) async fn task_when(&self, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..6_000 {
            last = self.task(id).await;
            if wanted(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never came to what was wanted: {last:#}");
    }

    /// Posts a body of another type than JSON.
    pub(crate) async fn post_as(&self, path: &str, content_type: &str, body: &str) -> Answer {
        let request = self.request(Method::POST, path).header("content-type", content_type);
        self.send(request.body(body.to_owned())).await
    }

    /// Posts with an idempotency key.
    pub(crate) async fn post_once(&self, path: &str, key: &str, body: &Value) -> Answer {
        let request = self.request(Method::POST, path).header("idempotency-key", key);
        self.send(request.json(body)).await
    }

    /// Makes a plan of these steps and returns its identifier.
    pub(crate) async fn plan(&self, steps: &Value) -> String {
        let plan = json!({"name": "a plan", "steps": steps});
        let plan = self.post("/api/plans", &plan).await.expect(201);
        plan["id"].as_str().expect("an id").to_owned()
    }

    /// Starts an execution of a plan and returns its identifier.
    pub(crate) async fn execute(&self, plan: &str, body: &Value) -> String {
        let execution = self.post(&format!("/api/plans/{plan}/execute"), body).await.expect(201);
        execution["id"].as_str().expect("an id").to_owned()
    }

    pub(crate) async fn execution(&self, id: &str) -> Value {
        self.get(&format!("/api/plans/executions/{id}")).await.expect_ok()
    }

    /// The execution as soon as `wanted` holds; looks every few milliseconds for up to a minute.
    pub(crate) async fn execution_when(&self, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..3_000 {
            last = self.execution(id).await;
            if wanted(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it never came to what was wanted: {last:#}");
    }

    /// The execution once it has this status.
    pub(crate) async fn execution_with_status(&self, id: &str, status: &str) -> Value {
        self.execution_when(id, |execution| execution["status"] == status).await
    }

    /// The task once it has this status.
    pub(crate) async fn task_with_status(&self, id: &str, status: &str) -> Value {
        self.task_when(id, |task| task["status"] == status).await
    }
}

pub(crate) fn upgrade(
    url: &str,
    key: &str,
) -> tokio_tungstenite::tungstenite::handshake::client::Request {
    let url = format!("{}/api/workers/connect", url.replace("http", "ws"));
    let mut request = url.into_client_request().expect("an address");
    let bearer = format!("Bearer {key}").parse().expect("a header");
    request.headers_mut().insert("authorization", bearer);
    request
}

/// A worker whose every frame the test sends: the protocol by hand.
pub(crate) struct FakeWorker {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub(crate) id: String,
    pub(crate) registered: Value,
    /// Assignments that came while another frame was waited for.
    early: VecDeque<Value>,
    /// The heartbeats that were not answered yet, by who wants the answer.
    beats: VecDeque<Beat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beat {
    Test,
    Own,
}

impl FakeWorker {
    /// A worker for the queue `default` and any model.
    pub(crate) async fn connect(server: &Server, key: &str, concurrency: usize) -> Self {
        Self::connect_to(&server.url, key, concurrency).await
    }

    /// The same, at this address.
    pub(crate) async fn connect_to(url: &str, key: &str, concurrency: usize) -> Self {
        let register = json!({
            "type": "register", "name": "fake", "version": "0", "queues": ["default"],
            "models": ["*"], "concurrency": concurrency,
        });
        Self::register(url, key, register).await
    }

    /// The same, if the server is there.
    pub(crate) async fn try_connect(url: &str, key: &str, concurrency: usize) -> Option<Self> {
        let register = json!({
            "type": "register", "name": "fake", "version": "0", "queues": ["default"],
            "models": ["*"], "concurrency": concurrency,
        });
        Self::try_register(url, key, register).await
    }

    /// A worker that registers with this frame.
    pub(crate) async fn register(url: &str, key: &str, register: Value) -> Self {
        Self::try_register(url, key, register).await.expect("a connection")
    }

    /// The same, if the server is there.
    pub(crate) async fn try_register(url: &str, key: &str, register: Value) -> Option<Self> {
        let (socket, _) = tokio_tungstenite::connect_async(upgrade(url, key)).await.ok()?;
        let mut worker = Self::on(socket);
        worker.try_send(register).await.ok()?;
        worker.registered = worker.next().await.filter(|frame| frame["type"] == "registered")?;
        worker.id = worker.registered["workerId"].as_str().expect("an id").to_owned();
        Some(worker)
    }

    /// A connection on which nothing has been said yet.
    pub(crate) async fn dial(url: &str, key: &str) -> Self {
        let dialled = tokio_tungstenite::connect_async(upgrade(url, key)).await;
        let (socket, _) = dialled.expect("a connection");
        Self::on(socket)
    }

    const fn on(socket: WebSocketStream<MaybeTlsStream<TcpStream>>) -> Self {
        Self {
            socket,
            id: String::new(),
            registered: Value::Null,
            early: VecDeque::new(),
            beats: VecDeque::new(),
        }
    }

    /// The code with which the server closes; frames before it are passed over.
    pub(crate) async fn closed(&mut self) -> u16 {
        loop {
            let message = self.socket.next().await.expect("a close frame").expect("a message");
            if let Message::Close(frame) = message {
                return frame.expect("it closes with a code").code.into();
            }
        }
    }

    /// The status with which a connection is refused.
    pub(crate) async fn refused(url: &str, key: &str) -> u16 {
        match tokio_tungstenite::connect_async(upgrade(url, key)).await {
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => {
                response.status().as_u16()
            }
            other => panic!("it was not refused: {other:?}"),
        }
    }

    pub(crate) async fn try_send(
        &mut self,
        frame: Value,
    ) -> Result<(), tokio_tungstenite::tungstenite::Error> {
        if frame["type"] == "heartbeat" {
            self.beats.push_back(Beat::Test);
        }
        self.socket.send(Message::text(frame.to_string())).await
    }

    /// Sends a frame as it is written.
    pub(crate) async fn send_text(&mut self, frame: String) {
        self.socket.send(Message::text(frame)).await.expect("the socket is open");
    }

    pub(crate) async fn send(&mut self, frame: Value) {
        self.try_send(frame).await.expect("the socket is open");
    }

    /// The next frame of any kind; `None` once the socket is closed.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let wait = Duration::from_mins(1);
        loop {
            let message = tokio::time::timeout(wait, self.socket.next()).await.expect("a frame");
            match message {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text).expect("JSON");
                    if frame["type"] == "leases" && self.beats.pop_front() == Some(Beat::Own) {
                        continue;
                    }
                    return Some(frame);
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// The next frame of this type; others are passed over, but assignments are kept.
    pub(crate) async fn receive(&mut self, kind: &str) -> Value {
        if kind == "assign"
            && let Some(assigned) = self.early.pop_front()
        {
            return assigned;
        }
        loop {
            let frame = self.next().await.expect("the socket is open");
            if frame["type"] == kind {
                return frame;
            }
            if frame["type"] == "assign" {
                self.early.push_back(frame);
            }
        }
    }

    /// The next task. The worker beats while there is none, since the program that submits it may take longer
    /// to start than the server waits for a silent worker.
    pub(crate) async fn assignment(&mut self) -> Value {
        if let Some(assigned) = self.early.pop_front() {
            return assigned;
        }
        loop {
            let pause = tokio::time::sleep(Duration::from_millis(500));
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    frame = self.next() => {
                        let frame = frame.expect("the socket is open");
                        if frame["type"] == "assign" {
                            return frame;
                        }
                    }
                    () = &mut pause => break,
                }
            }
            self.beat().await;
        }
    }

    /// Sends a heartbeat whose answer no test sees.
    async fn beat(&mut self) {
        self.send(json!({"type": "heartbeat", "leases": []})).await;
        *self.beats.back_mut().expect("it was sent") = Beat::Own;
    }

    /// Runs everything that it is given: `answer` makes an output of a task, or an error that is
    /// not retried. Ends with the socket.
    pub(crate) fn run(
        self,
        answer: impl Fn(&Value) -> Result<String, String> + Send + 'static,
    ) -> tokio::task::JoinHandle<()> {
        self.run_with(move |task| match answer(task) {
            Ok(output) => json!({
                "type": "complete", "output": output, "usage": {"input": 3, "output": 5},
            }),
            Err(message) => json!({
                "type": "fail", "retryable": false,
                "error": {"code": "PROVIDER_ERROR", "message": message},
            }),
        })
    }

    /// Answers every task with the frame that `answer` makes of it, and the lease.
    pub(crate) fn run_with(
        mut self,
        answer: impl Fn(&Value) -> Value + Send + 'static,
    ) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move {
            let mut beat = tokio::time::interval(Duration::from_secs(2));
            loop {
                let early = self.early.pop_front();
                let frame = tokio::select! {
                    biased;
                    () = std::future::ready(()), if early.is_some() => early,
                    frame = self.next() => frame,
                    _ = beat.tick() => {
                        let _ = self.try_send(json!({"type": "heartbeat", "leases": []})).await;
                        continue;
                    }
                };
                let Some(frame) = frame else { return };
                if frame["type"] != "assign" {
                    continue;
                }
                let mut answer = answer(&frame["task"]);
                answer["lease"] = frame["lease"].clone();
                if self.try_send(answer).await.is_err() {
                    return;
                }
            }
        })
    }

    /// Answers under a lease and returns what became of it.
    pub(crate) async fn complete(&mut self, lease: &Value, output: &str) -> Value {
        let usage = json!({"input": 3, "output": 5});
        self.send(json!({"type": "complete", "lease": lease, "output": output, "usage": usage}))
            .await;
        self.receive("ack").await
    }
}

/// How long an answer may take, so that a request which its connection lost as that one broke does not
/// wait for ever (<https://github.com/hyperium/hyper/issues/4122>).
const ANSWERED: Duration = Duration::from_mins(2);

/// How long an event may take: a real model on a busy machine is slow.
const PATIENCE: Duration = Duration::from_mins(5);

/// A reader of events, as the client library gives them.
pub(crate) struct Events(callboard_client::Events);

impl Events {
    /// Returns once the connection stands. `query` is a list of `name=value`, not escaped, with `&` between.
    pub(crate) async fn open(client: &Client, query: &str, last: Option<&str>) -> Self {
        let server = callboard_client::Server::parse(&client.url).expect("an address");
        let key = Credential::Key(Secret::new(client.token.clone()));
        let client = callboard_client::Client::new(server, key).expect("a client");
        let query: Vec<_> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let mut events = callboard_client::Events::new(&client, &query).after(last);
        let opened = events.next().await;
        assert!(matches!(opened, StreamItem::Opened { .. }), "{opened:?}");
        Self(events)
    }

    pub(crate) async fn breaks(&mut self) {
        let item = self.0.next().await;
        assert!(matches!(item, StreamItem::Broken), "{item:?}");
    }

    /// Returns once the connection stands again.
    pub(crate) async fn opens_again(&mut self) {
        let open = async { while !matches!(self.0.next().await, StreamItem::Opened { .. }) {} };
        tokio::time::timeout(PATIENCE, open).await.expect("in time");
    }

    pub(crate) async fn next(&mut self) -> (String, Value) {
        match tokio::time::timeout(PATIENCE, self.0.next()).await.expect("in time") {
            StreamItem::Event(event) => (event.name, event.body),
            other @ (StreamItem::Opened { .. } | StreamItem::Broken) => {
                panic!("the stream holds: {other:?}")
            }
        }
    }
}

/// Waits until it is so, for up to half a minute.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    for _ in 0..3_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never comes that {what}");
}
