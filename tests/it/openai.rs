//! OpenAI's interface, with the client libraries that OpenAI publishes (`tests/openai`).

mod batches;
mod files;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::support::{Client, FakeWorker, Server};

const PATIENCE: Duration = Duration::from_mins(2);

/// The two libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Library {
    Python,
    Node,
}

use Library::{Node, Python};

const BOTH: [Library; 2] = [Python, Node];

/// Where the libraries are installed.
struct Installed {
    python: String,
    node: PathBuf,
    frameworks: String,
}

async fn installed() -> Installed {
    let install = scripts().join("install");
    let installed = Command::new(install).stdin(Stdio::null()).output().await;
    let installed = installed.expect("bash starts");
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let text = String::from_utf8(installed.stdout).expect("UTF-8");
    let mut lines = text.lines();
    let python = lines.next().expect("a python").to_owned();
    let node = lines.next().expect("a directory").into();
    Installed { python, node, frameworks: lines.next().expect("a python").to_owned() }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn scripts() -> PathBuf {
    root().join("tests/openai")
}

/// A client program on its way.
struct Running {
    lines: Lines<BufReader<ChildStdout>>,
    process: Child,
}

impl Installed {
    fn command(&self, library: Library, script: &Path) -> Command {
        let mut command = match library {
            Python => Command::new(&self.python),
            Node => {
                let mut node = Command::new("node");
                // A module is looked for beside the script.
                node.current_dir(&self.node);
                node
            }
        };
        command.arg(script).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Sends a request by a library.
    fn send(&self, library: Library, to: &Client, request: &Value) -> Running {
        let name = if library == Python { "client.py" } else { "client.mjs" };
        let mut process = self
            .command(library, &scripts().join(name))
            .args([&to.url, to.token(), &request.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the client starts");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        Running { lines, process }
    }

    /// Asks by a framework.
    fn ask(&self, what: &str, to: &Client) -> Running {
        Self::run(Command::new(&self.frameworks), "frameworks.py", to, &[what])
    }

    /// The last thing that a script of OpenAI's library for Python says.
    async fn tell(&self, script: &str, to: &Client, arguments: &[&str]) -> Value {
        Self::run(Command::new(&self.python), script, to, arguments).last().await
    }

    fn run(mut python: Command, script: &str, to: &Client, arguments: &[&str]) -> Running {
        let mut process = python
            .arg(scripts().join(script))
            .args([&to.url, to.token()])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the script starts");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        Running { lines, process }
    }

    /// The last thing that the client says of a request that needs nobody else.
    async fn said(&self, library: Library, to: &Client, request: &Value) -> Value {
        self.send(library, to, request).last().await
    }
}

impl Running {
    async fn next(&mut self) -> Option<Value> {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("in time");
        line.expect("UTF-8").map(|line| serde_json::from_str(&line).expect("JSON"))
    }

    async fn last(mut self) -> Value {
        let mut last = Value::Null;
        while let Some(said) = self.next().await {
            last = said;
        }
        let ended = timeout(PATIENCE, self.process.wait()).await.expect("in time");
        assert!(ended.expect("it ends").success(), "{last}");
        last
    }

    /// The next piece of a stream.
    async fn piece(&mut self) -> Value {
        loop {
            let said = self.next().await.expect("a piece");
            if said.get("piece").is_some() {
                return said;
            }
            assert_eq!(said, json!({"sent": true}));
        }
    }
}

fn asking(prompt: &str) -> Value {
    json!([{"role": "user", "content": prompt}])
}

async fn delta(worker: &mut FakeWorker, lease: &Value, text: &str) {
    worker.send(json!({"type": "delta", "lease": lease, "text": text})).await;
}

/// A server, an operator's client and a worker.
async fn setup(settings: &[(&str, &str)]) -> (Server, Client, FakeWorker) {
    let server = Server::with(settings);
    let client = server.client("operator").await;
    let key = server.key("worker").await;
    let worker = FakeWorker::connect(&server, &key, 8).await;
    (server, client, worker)
}

#[tokio::test]
async fn a_conversation_is_answered_whole_and_in_pieces() {
    let installed = installed().await;
    let (_server, client, mut worker) = setup(&[]).await;
    for library in BOTH {
        let body = json!({
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "hello"},
                {"role": "user", "content": [{"type": "text", "text": "why?"}]},
            ],
            "model": "gpt-x", "max_tokens": 9, "temperature": 0.5, "metadata": {"team": "a"},
            "user": "ann",
        });
        let headers = json!({"X-Callboard-Queue": "default", "X-Callboard-Priority": "7"});
        let request = json!({"do": "create", "body": body, "headers": headers});
        let asked = installed.send(library, &client, &request);
        let assigned = worker.assignment().await;
        let task = &assigned["task"];
        let earlier = json!([
            {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"},
        ]);
        assert_eq!((&task["prompt"], &task["systemPrompt"]), (&json!("why?"), &json!("Be brief.")));
        assert_eq!((&task["messages"], &task["model"]), (&earlier, &json!("gpt-x")));
        assert_eq!((&task["maxTokens"], &task["temperature"]), (&json!(9), &json!(0.5)));
        worker.complete(&assigned["lease"], "Because.").await;
        let expected = json!({
            "id": task["id"], "object": "chat.completion", "model": "gpt-x", "role": "assistant",
            "content": "Because.", "finish": "stop", "usage": [3, 5, 8],
        });
        assert_eq!(asked.last().await, expected, "{library:?}");
        let shown = client.task(task["id"].as_str().expect("an id")).await;
        assert_eq!((&shown["priority"], &shown["messages"]), (&json!(7), &earlier));
        assert_eq!(shown["tags"], json!(["team:a", "user:ann"]));

        let body = json!({"messages": asking("x"), "stream_options": {"include_usage": true}});
        let mut asked = installed.send(library, &client, &json!({"do": "stream", "body": body}));
        let assigned = worker.assignment().await;
        let (id, lease) = (&assigned["task"]["id"], &assigned["lease"]);
        delta(&mut worker, lease, "Bé").await;
        assert_eq!(asked.piece().await, json!({"id": id, "piece": "Bé"}));
        delta(&mut worker, lease, "cause").await;
        assert_eq!(asked.piece().await, json!({"id": id, "piece": "cause"}));
        worker.complete(lease, "Bécause so.").await;
        let expected =
            json!({"id": id, "text": "Bécause so.", "finish": "stop", "usage": [3, 5, 8]});
        assert_eq!(asked.last().await, expected, "{library:?}");
    }
}

#[tokio::test]
async fn models_are_the_exact_names_of_connected_workers_and_the_default() {
    let installed = installed().await;
    let (server, client, _worker) = setup(&[]).await;
    let register = json!({
        "type": "register", "name": "two", "version": "0", "queues": ["default"],
        "models": ["gpt-x", "claude-*"], "concurrency": 1,
    });
    let _two = FakeWorker::register(&server.url, &server.key("worker").await, register).await;
    for library in BOTH {
        let said = installed.said(library, &client, &json!({"do": "models"})).await;
        assert_eq!(said, json!({"models": ["gpt-x", "smollm2-135m"]}), "{library:?}");
    }
}

#[tokio::test]
async fn a_model_that_somebody_runs_is_found_by_name_slashes_included() {
    let installed = installed().await;
    // The worker is silent while the libraries start.
    let server = Server::with(&[("WORKER__LEASE", "10m"), ("WORKER__SILENT_AFTER", "5m")]);
    let client = server.client("operator").await;
    let register = json!({
        "type": "register", "name": "one", "version": "0", "queues": ["default"],
        "models": ["org/exact", "meta/llama-*"], "concurrency": 1,
    });
    let _worker = FakeWorker::register(&server.url, &server.key("worker").await, register).await;
    for library in BOTH {
        for model in ["org/exact", "meta/llama-3/8b", "smollm2-135m"] {
            let request = json!({"do": "retrieve", "model": model});
            let said = installed.said(library, &client, &request).await;
            assert_eq!(said, json!({"model": model}), "{library:?}");
        }
        let request = json!({"do": "retrieve", "model": "org/other"});
        let said = installed.said(library, &client, &request).await;
        assert_eq!((&said["error"], &said["code"]), (&json!("NotFoundError"), &json!("NOT_FOUND")));
    }
}

/// Answers as the fake worker's model, with the second text after a first one that has a fault.
async fn answered(worker: &mut FakeWorker, output: &str) -> Value {
    let assigned = worker.assignment().await;
    worker.complete(&assigned["lease"], output).await;
    assigned["task"].clone()
}

const ADA: &str = r#"{"name": "Ada", "age": 36}"#;

#[tokio::test]
async fn an_answer_is_parsed_by_the_schema_that_the_library_makes_of_a_type() {
    let installed = installed().await;
    let (_server, client, mut worker) = setup(&[]).await;
    let ada = json!({"parsed": {"name": "Ada", "age": 36}});
    for library in BOTH {
        let body = json!({
            "messages": [{"role": "user", "content": "Who?", "name": "ann"}],
            "temperature": 0.5, "seed": 7, "top_p": 0.25, "stop": "END", "n": null, "logprobs": null,
        });
        let asked = installed.send(library, &client, &json!({"do": "parse", "body": body}));
        // The server asks again over an answer that misses the schema.
        answered(&mut worker, r#"{"name": "Ada"}"#).await;
        let task = answered(&mut worker, &format!("Here you are:\n```json\n{ADA}\n```")).await;
        assert_eq!(asked.last().await, ada, "{library:?}");
        let schema = &task["outputSchema"];
        assert_eq!(schema["required"], json!(["name", "age"]), "{library:?}: {schema}");
        let sampling = (&task["seed"], &task["topP"], &task["stop"]);
        assert_eq!(sampling, (&json!(7), &json!(0.25), &json!(["END"])), "{library:?}");

        let body = json!({"messages": asking("Who?")});
        let request = json!({"do": "parse_stream", "body": body});
        let mut asked = installed.send(library, &client, &request);
        let assigned = worker.assignment().await;
        let (begin, rest) = ADA.split_at(9);
        delta(&mut worker, &assigned["lease"], begin).await;
        assert_eq!(asked.piece().await["piece"], begin, "{library:?}");
        delta(&mut worker, &assigned["lease"], rest).await;
        worker.complete(&assigned["lease"], ADA).await;
        assert_eq!(asked.last().await, ada, "{library:?}");

        // What goes before the JSON is taken off, so that nothing of it is streamed.
        let asked = installed.send(library, &client, &request);
        let assigned = worker.assignment().await;
        let text = format!("```json\n{ADA}\n```");
        delta(&mut worker, &assigned["lease"], &text[..6]).await;
        delta(&mut worker, &assigned["lease"], &text[6..]).await;
        worker.complete(&assigned["lease"], &text).await;
        assert_eq!(asked.last().await, ada, "{library:?}");
    }
}

#[tokio::test]
async fn frameworks_get_objects_and_ask_again_by_themselves() {
    let installed = installed().await;
    let (_server, client, mut worker) = setup(&[]).await;
    let ada = json!({"parsed": {"name": "Ada", "age": 36}});
    for what in ["instructor", "instructor-json"] {
        let asked = installed.ask(what, &client);
        // The schema takes any age, and the framework's own check does not.
        let first = answered(&mut worker, r#"{"name": "Ada", "age": 360}"#).await;
        let again = answered(&mut worker, ADA).await;
        assert_eq!(asked.last().await, ada, "{what}");
        assert_ne!(first["id"], again["id"], "{what}");
        assert_eq!((&first["seed"], &first["outputSchema"]["type"]), (&json!(7), &json!("object")));
    }
    let asked = installed.ask("langchain", &client);
    let task = answered(&mut worker, ADA).await;
    assert_eq!(asked.last().await, ada);
    assert_eq!((&task["topP"], &task["stop"]), (&json!(0.5), &json!(["END"])));
    let mut asked = installed.ask("langchain-stream", &client);
    let assigned = worker.assignment().await;
    delta(&mut worker, &assigned["lease"], "A").await;
    assert_eq!(asked.piece().await, json!({"piece": "A"}));
    worker.complete(&assigned["lease"], "Ada").await;
    assert_eq!(asked.last().await, json!({"piece": "da"}));
    // The default mode of instructor forces a tool.
    let refused = installed.ask("instructor-tools", &client).last().await;
    let says = refused["error"].as_str().expect("a refusal");
    assert!(says.contains("tools") && says.contains("mode=Mode.JSON_SCHEMA"), "{says}");
}

#[tokio::test]
async fn a_thinking_that_shows_only_at_its_end_ends_no_stream() {
    let installed = installed().await;
    let (_server, client, mut worker) = setup(&[]).await;
    for library in BOTH {
        let request = json!({"do": "stream", "body": {"messages": asking("x")}});
        let asked = installed.send(library, &client, &request);
        let assigned = worker.assignment().await;
        let id = assigned["task"]["id"].clone();
        delta(&mut worker, &assigned["lease"], "Hm.\n</think>\n\nPa").await;
        worker.complete(&assigned["lease"], "Paris").await;
        let text = "Hm.\n</think>\n\nParis";
        let expected = json!({"id": id, "text": text, "finish": "stop", "usage": null});
        assert_eq!(asked.last().await, expected, "{library:?}");
    }
}

#[tokio::test]
async fn a_fault_of_a_schema_is_told_where_the_client_wrote_it() {
    let (_server, client, _worker) = setup(&[]).await;
    let format =
        json!({"name": "x", "schema": {"type": "object", "properties": {"a": {"type": "nix"}}}});
    let format = json!({"type": "json_schema", "json_schema": format});
    let body = json!({"messages": asking("x"), "response_format": format});
    let refused = client.post("/v1/chat/completions", &body).await;
    let error = &refused.body["error"];
    assert_eq!(refused.status, 400);
    let param = error["param"].as_str().expect("a param");
    assert!(param.starts_with("response_format.json_schema.schema"), "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains(param)), "{error}");
    let hot = json!({"messages": asking("x"), "temperature": 1.5});
    let refused = client.post("/v1/chat/completions", &hot).await;
    let error = &refused.body["error"];
    assert_eq!((refused.status.as_u16(), &error["param"]), (400, &json!("temperature")));
    assert!(error["message"].as_str().is_some_and(|text| text.contains("send 1")), "{error}");
}

#[tokio::test]
async fn the_libraries_know_every_error() {
    let installed = installed().await;
    let settings = [("SERVER__CHAT_WAIT", "1s")];
    let (server, client, worker) = setup(&settings).await;
    let worker = worker.run(|task| match task["prompt"].as_str() {
        Some("fail") => Err("it broke".into()),
        Some(_) | None => Ok("done".into()),
    });
    let error = |name: &str, status: u16, code: &str, kind: &str, param: Value| {
        json!({
            "error": name, "status": status, "code": code, "type": kind, "param": param,
            "task": null, "location": null,
        })
    };
    for library in BOTH {
        let create = |body: Value| json!({"do": "create", "body": body, "retries": 0});
        let usual = create(json!({"messages": asking("x")}));
        let nobody = Client::new(&server.url, "dt_live_0000");
        let said = installed.said(library, &nobody, &usual).await;
        let expected =
            error("AuthenticationError", 401, "INVALID_TOKEN", "authentication_error", Value::Null);
        assert_eq!(said, expected);

        let viewer = server.client("viewer").await;
        let said = installed.said(library, &viewer, &usual).await;
        let expected =
            error("PermissionDeniedError", 403, "FORBIDDEN", "permission_error", Value::Null);
        assert_eq!(said, expected);

        let two = create(json!({"messages": asking("x"), "n": 2}));
        let said = installed.said(library, &client, &two).await;
        let invalid = "invalid_request_error";
        assert_eq!(said, error("BadRequestError", 400, "unsupported", invalid, json!("n")));

        let picture =
            json!([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]);
        let picture = create(json!({"messages": [{"role": "user", "content": picture}]}));
        let said = installed.said(library, &client, &picture).await;
        let param = json!("messages[0].content[0].image_url.url");
        assert_eq!(said, error("BadRequestError", 400, "unsupported", invalid, param));

        let fails = create(json!({"messages": asking("fail")}));
        let said = installed.said(library, &client, &fails).await;
        let (name, code) = (&said["error"], &said["code"]);
        assert_eq!((name, code), (&json!("UnprocessableEntityError"), &json!("PROVIDER_ERROR")));
        let task = said["task"].as_str().expect("the task's id");
        assert_eq!(said["location"], json!(format!("/api/tasks/{task}")));

        // Nobody serves that queue.
        let headers = json!({"X-Callboard-Queue": "nobodys"});
        let late = json!({"do": "create", "body": {"messages": asking("x")}, "headers": headers});
        let said = installed.said(library, &client, &late).await;
        let (name, code) = (&said["error"], &said["code"]);
        assert_eq!((name, code), (&json!("UnprocessableEntityError"), &json!("still_running")));
        let task = client.task(said["task"].as_str().expect("the task's id")).await;
        assert_eq!(task["status"], "pending");
        let late = json!({"do": "stream", "body": {"messages": asking("x")}, "headers": headers});
        let said = installed.said(library, &client, &late).await;
        assert_eq!((&said["error"], &said["code"]), (&json!("APIError"), &json!("still_running")));
        assert_eq!(client.task(said["task"].as_str().expect("its id")).await["status"], "pending");
    }
    worker.abort();
}

#[tokio::test]
async fn refusals_on_every_path_of_the_door_have_openais_shape() {
    let settings = [("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "40")];
    let server = Server::with(&settings);
    let client = server.client("operator").await;
    let shape = |answer: &crate::support::Answer| {
        let error = &answer.body["error"];
        let code = error["code"].as_str().unwrap_or_default().to_owned();
        let members: Vec<_> = error.as_object().expect("an error").keys().cloned().collect();
        assert_eq!(members, ["message", "type", "param", "code"], "{:#}", answer.body);
        (answer.status.as_u16(), code)
    };
    let not_found = client.get("/v1/embeddings").await;
    assert_eq!(shape(&not_found), (404, "NOT_FOUND".into()));
    let path = "/v1/chat/completions";
    assert_eq!(shape(&client.get(path).await), (405, "METHOD_NOT_ALLOWED".into()));
    let as_text = client.post_as(path, "text/plain", "{}").await;
    assert_eq!(shape(&as_text), (415, "UNSUPPORTED_MEDIA_TYPE".into()));
    assert_eq!(shape(&client.post_raw(path, "{").await), (400, "INVALID_JSON".into()));
    let large = client.post_raw(path, vec![b' '; 25 << 20]).await;
    assert_eq!(shape(&large), (413, "PAYLOAD_TOO_LARGE".into()));
    for _ in 0..40 {
        client.get("/v1/models").await;
    }
    let limited = client.get("/v1/models").await;
    assert_eq!(shape(&limited), (429, "RATE_LIMIT_EXCEEDED".into()));
    assert!(limited.headers.contains_key("retry-after"));
    let installed = installed().await;
    for library in BOTH {
        let said = installed.said(library, &client, &json!({"do": "models", "retries": 0})).await;
        assert_eq!((&said["error"], &said["status"]), (&json!("RateLimitError"), &json!(429)));
    }
}

#[tokio::test]
async fn a_task_that_waits_for_a_reviewer_is_submitted_once_and_its_answer_comes_later() {
    let installed = installed().await;
    let (_server, client, worker) = setup(&[]).await;
    let worker = worker.run(|_| Ok("done".into()));
    for (library, how) in BOTH.into_iter().flat_map(|it| [(it, "create"), (it, "stream")]) {
        let prompt = format!("{library:?} {how}");
        let body = json!({"messages": asking(&prompt), "hitl": {"required": true}, "user": prompt});
        let headers = json!({"Idempotency-Key": prompt});
        let request = json!({"do": how, "body": body, "headers": headers});
        let said = installed.said(library, &client, &request).await;
        assert_eq!(said["code"], "awaiting_approval", "{said}");
        if how == "create" {
            assert_eq!(said["error"], "UnprocessableEntityError");
        }
        let id = said["task"].as_str().expect("the task's id");
        let tag = prompt.replace(' ', "%20");
        let made = client.get(&format!("/api/tasks?tags=user:{tag}")).await;
        assert_eq!(made.body["pagination"]["total"], 1, "it was not sent again");
        client.post(&format!("/api/hitl/{id}/approve"), &json!({})).await.expect_ok();
        let said = installed.said(library, &client, &request).await;
        let text = if how == "create" { &said["content"] } else { &said["text"] };
        assert_eq!((&said["id"], text), (&json!(id), &json!("done")));
    }
    worker.abort();
}

#[tokio::test]
async fn a_task_goes_on_when_its_client_leaves() {
    let installed = installed().await;
    let (_server, client, mut worker) = setup(&[("LIMITS__STREAMS", "1")]).await;
    for library in BOTH {
        let body = json!({"messages": asking("x")});
        let asked = installed.send(library, &client, &json!({"do": "cancel", "body": body}));
        let assigned = worker.assignment().await;
        delta(&mut worker, &assigned["lease"], "so").await;
        let id = assigned["task"]["id"].clone();
        assert_eq!(asked.last().await, json!({"id": id, "piece": "so"}), "{library:?}");
        worker.complete(&assigned["lease"], "so far").await;
        let task = client.task(id.as_str().expect("an id")).await;
        assert_eq!((&task["status"], &task["output"]), (&json!("completed"), &json!("so far")));
        // The place of the one that left is free again.
        let free = async {
            let body = json!({"messages": asking("x"), "n": 1, "hitl": {"required": true}});
            loop {
                let post = client.post("/v1/chat/completions", &body);
                tokio::select! {
                    answer = post => assert_eq!(answer.status, 429, "{:#}", answer.body),
                    assigned = worker.assignment() => return assigned,
                }
            }
        };
        let assigned = timeout(PATIENCE, free).await.expect("in time");
        worker.complete(&assigned["lease"], "held").await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_before_the_answer_gives_back_its_place() {
    let (_server, client, mut worker) = setup(&[("LIMITS__STREAMS", "1")]).await;
    let body = json!({"messages": asking("x")});
    let asked = client.clone();
    let waiting =
        tokio::spawn(async move { asked.post("/v1/chat/completions", &body).await.status });
    let left = worker.assignment().await;
    waiting.abort();
    let body = json!({"messages": asking("y")});
    let next = async {
        loop {
            let post = client.post("/v1/chat/completions", &body);
            tokio::select! {
                answer = post => assert_eq!(answer.status, 429, "{:#}", answer.body),
                assigned = worker.assignment() => return assigned,
            }
        }
    };
    let next = timeout(PATIENCE, next).await.expect("in time");
    assert_eq!(next["task"]["prompt"], "y");
    worker.complete(&left["lease"], "done").await;
    let id = left["task"]["id"].as_str().expect("an id");
    assert_eq!(client.task(id).await["status"], "completed", "the task outlives its client");
}

#[tokio::test]
async fn the_sandbox_has_the_door_too() {
    let installed = installed().await;
    let server = Server::start();
    let admin = server.admin().await;
    let key = json!({"name": "t", "role": "operator", "environment": "test"});
    let key = admin.post("/api/auth/keys", &key).await.expect(201);
    let sandbox = Client::new(&server.url, key["key"].as_str().expect("a key"));
    for library in BOTH {
        for how in ["create", "stream"] {
            let request = json!({"do": how, "body": {"messages": asking("hi")}});
            let said = installed.said(library, &sandbox, &request).await;
            let text = if how == "create" { &said["content"] } else { &said["text"] };
            assert!(text.as_str().is_some_and(|text| text.contains("simulated")), "{said}");
            let id = said["id"].as_str().expect("an id");
            assert_eq!(admin.get(&format!("/api/tasks/{id}")).await.refused(404), "NOT_FOUND");
        }
    }
}

#[tokio::test]
async fn requests_that_wait_take_no_room_of_other_bodies() {
    let (_server, client, mut worker) = setup(&[("SERVER__BODIES_MAX_BYTES", "4194304")]).await;
    let long = "x".repeat(800 << 10);
    let said = |role: &str| json!({"role": role, "content": long});
    let body = json!({"messages": [said("user"), said("user")]});
    let (mut waiting, mut leases) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let (client, body) = (client.clone(), body.clone());
        waiting.push(tokio::spawn(async move { client.post("/v1/chat/completions", &body).await }));
        leases.push(worker.assignment().await["lease"].clone());
    }
    for lease in &leases {
        worker.complete(lease, "done").await;
    }
    for answer in waiting {
        assert_eq!(answer.await.expect("it is answered").status, 200);
    }
}

#[tokio::test]
async fn an_answer_that_begins_anew_ends_its_stream_with_an_error() {
    let installed = installed().await;
    let (_server, client, mut worker) = setup(&[]).await;
    for library in BOTH {
        let body = json!({"messages": asking("x")});
        let mut asked = installed.send(library, &client, &json!({"do": "stream", "body": body}));
        let assigned = worker.assignment().await;
        delta(&mut worker, &assigned["lease"], "one").await;
        asked.piece().await;
        let error = json!({"code": "PROVIDER_ERROR", "message": "broke"});
        let fail = json!({
            "type": "fail", "lease": assigned["lease"], "error": error, "retryable": true,
        });
        worker.send(fail).await;
        let id = &assigned["task"]["id"];
        let expected = json!({"error": "APIError", "code": "restarted", "task": id});
        assert_eq!(asked.last().await, expected, "{library:?}");
        let again = worker.assignment().await;
        assert_eq!((&again["task"]["id"], &again["attempt"]), (id, &json!(2)));
        worker.complete(&again["lease"], "two").await;
    }
}

#[tokio::test]
async fn a_cancelled_and_a_rejected_task_are_refused_for_good() {
    let installed = installed().await;
    let (_server, client, mut worker) = setup(&[]).await;
    for library in BOTH {
        for how in ["create", "stream"] {
            let body = json!({"messages": asking("x")});
            let asked = installed.send(library, &client, &json!({"do": how, "body": body}));
            let assigned = worker.assignment().await;
            let id = assigned["task"]["id"].as_str().expect("an id").to_owned();
            client.delete(&format!("/api/tasks/{id}")).await.expect_ok();
            let said = asked.last().await;
            assert_eq!((&said["code"], &said["task"]), (&json!("CANCELLED"), &json!(id)), "{said}");

            let key = format!("{library:?} {how}");
            let body = json!({"messages": asking("x"), "hitl": {"required": true}});
            let headers = json!({"Idempotency-Key": key});
            let request = json!({"do": how, "body": body, "headers": headers});
            let asked = installed.send(library, &client, &request);
            let assigned = worker.assignment().await;
            worker.complete(&assigned["lease"], "no").await;
            let said = asked.last().await;
            assert_eq!(said["code"], "awaiting_approval", "{said}");
            let id = said["task"].as_str().expect("an id");
            let reject = json!({"reason": "wrong"});
            client.post(&format!("/api/hitl/{id}/reject"), &reject).await.expect_ok();
            let said = installed.said(library, &client, &request).await;
            assert_eq!((&said["code"], &said["task"]), (&json!("REJECTED"), &json!(id)), "{said}");
            if how == "create" {
                assert_eq!(said["status"], 422);
            }
        }
    }
}

#[tokio::test]
async fn a_stream_that_a_restart_breaks_fails_and_its_key_gives_the_whole_text() {
    let installed = installed().await;
    let brief =
        [("WORKER__HEARTBEAT", "1s"), ("WORKER__SILENT_AFTER", "2500ms"), ("WORKER__LEASE", "3s")];
    for library in BOTH {
        let (mut server, client, mut worker) = setup(&brief).await;
        let key = server.key("worker").await;
        let headers = json!({"Idempotency-Key": "k"});
        let body = json!({"messages": asking("x")});
        let request = json!({"do": "stream", "body": body, "headers": headers, "retries": 0});
        let mut asked = installed.send(library, &client, &request);
        let assigned = worker.assignment().await;
        let id = assigned["task"]["id"].clone();
        delta(&mut worker, &assigned["lease"], "do").await;
        assert_eq!(asked.piece().await, json!({"id": id, "piece": "do"}));
        server.kill();
        let error = if library == Python { "APIConnectionError" } else { "terminated" };
        assert_eq!(asked.last().await["error"], error);
        server.restart();
        let client = client.at(&server.url);
        let _worker = FakeWorker::connect(&server, &key, 8).await.run(|_| Ok("done".into()));
        let said = installed.said(library, &client, &request).await;
        assert_eq!((&said["id"], &said["text"]), (&id, &json!("done")), "{library:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_says_that_the_task_goes_on() {
    let installed = installed().await;
    for (library, how) in BOTH.into_iter().flat_map(|it| [(it, "create"), (it, "stream")]) {
        let (mut server, client, mut worker) = setup(&[]).await;
        let request = json!({"do": how, "body": {"messages": asking("x")}});
        let asked = installed.send(library, &client, &request);
        let id = worker.assignment().await["task"]["id"].clone();
        // The worker says nothing more, and the server does not wait for it.
        drop(worker);
        let stopped = tokio::task::spawn_blocking(move || (server.terminate(), server));
        let said = asked.last().await;
        assert_eq!((&said["code"], &said["task"]), (&json!("still_running"), &id), "{said}");
        let (in_order, mut server) = stopped.await.expect("it ends");
        assert!(in_order, "{library:?} {how}");
        server.restart();
        let tasks = client.at(&server.url).get("/api/tasks").await;
        assert_eq!(tasks.body["pagination"]["total"], 1, "it was not sent again");
    }
}

#[tokio::test]
async fn over_a_restart_the_same_key_gives_the_same_task() {
    let installed = installed().await;
    let brief =
        [("WORKER__HEARTBEAT", "1s"), ("WORKER__SILENT_AFTER", "2500ms"), ("WORKER__LEASE", "3s")];
    for library in BOTH {
        let (mut server, client, mut worker) = setup(&brief).await;
        let key = server.key("worker").await;
        let headers = json!({"Idempotency-Key": "k"});
        let body = json!({"messages": asking("x")});
        let request = json!({"do": "create", "body": body, "headers": headers, "retries": 0});
        let asked = installed.send(library, &client, &request);
        let assigned = worker.assignment().await;
        let id = assigned["task"]["id"].clone();
        server.kill();
        let said = asked.last().await;
        assert_eq!(said, json!({"error": "APIConnectionError", "code": null, "task": null}));
        server.restart();
        let client = client.at(&server.url);
        let _worker = FakeWorker::connect(&server, &key, 8).await.run(|_| Ok("done".into()));
        let said = installed.said(library, &client, &request).await;
        assert_eq!((&said["id"], &said["content"]), (&id, &json!("done")), "{library:?}");
    }
}

#[tokio::test]
async fn the_examples_of_the_documentation_run() {
    let installed = installed().await;
    let (_server, client, worker) = setup(&[]).await;
    let worker = worker.run(|task| {
        let earlier = task["messages"].as_array().map_or(0, Vec::len);
        Ok(format!("{} after {earlier}", task["prompt"].as_str().unwrap_or_default()))
    });
    for library in BOTH {
        let name = if library == Python { "chat.py" } else { "chat.mjs" };
        let mut script = root().join("docs/how-to/openai").join(name);
        if library == Node {
            // Node looks for a module beside the script.
            let copy = installed.node.join(name);
            std::fs::copy(&script, &copy).expect("it can be copied");
            script = copy;
        }
        let mut command = installed.command(library, &script);
        command.arg("How?").env("CALLBOARD_URL", &client.url);
        let ran = command.env("CALLBOARD_API_KEY", client.token()).output().await;
        let ran = ran.expect("it runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let text = String::from_utf8(ran.stdout).expect("UTF-8");
        let lines: Vec<_> = text.lines().collect();
        let [first, second, third] = lines.as_slice() else { panic!("three lines: {text}") };
        assert!(first.starts_with("dt_task_") && first.ends_with(" How? after 0"), "{text}");
        assert_eq!((*second, *third), ("Why? after 2", "8 tokens"));
    }
    worker.abort();
}
