//! Names of models, queues and tags: the grammar of new ones, and old ones that go on.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Client, FakeWorker, Server};

/// A name that is a command to a shell.
const COMMAND: &str = "nightly;touch${IFS}%2Ftmp%2Fpwned;#";

async fn fault(client: &Client, method: Method, path: &str, body: &Value) -> (String, String) {
    let answer = client.send(client.request(method, path).json(body)).await;
    let (field, rule) = answer.fault();
    let message = answer.body["error"]["message"].as_str().expect("a text");
    assert!(message.contains("must be letters, digits and . _ - / : @ + ="), "{message}");
    (field, rule)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_name_that_could_command_a_shell_is_refused_wherever_one_enters() {
    let server = Server::start();
    let (operator, admin) = (server.client("operator").await, server.admin().await);
    let step = |member: Value| {
        let mut step = json!({"id": "a", "prompt": "p"});
        step.as_object_mut().expect("a step").extend(member.as_object().expect("members").clone());
        json!({"name": "n", "steps": [step]})
    };
    let template = |member: Value| {
        let mut template = json!({
            "name": "n", "version": "1.0.0", "industry": "custom", "inputSchema": {"type": "object"},
            "steps": [{"id": "a", "prompt": "p"}],
        });
        let members = member.as_object().expect("members").clone();
        template.as_object_mut().expect("a template").extend(members);
        template
    };
    let timing = json!({"name": "s", "at": "2099-01-01T00:00:00Z"});
    let schedule = |task: Value| {
        let mut schedule = timing.clone();
        schedule["target"] = json!({"task": task});
        schedule
    };
    let judge = json!({"method": "judge", "judgeModel": COMMAND});
    let (tasks, plans, templates) = ("/api/tasks", "/api/plans", "/api/templates");
    let deploy = "/api/templates/contract-review-v1/deploy";
    for (path, body, field) in [
        (tasks, json!({"prompt": "p", "model": COMMAND}), "model"),
        (tasks, json!({"prompt": "p", "queue": COMMAND}), "queue"),
        (tasks, json!({"prompt": "p", "tags": ["a b", COMMAND]}), "tags[1]"),
        (tasks, json!({"prompt": "p", "models": ["a", COMMAND]}), "models[1]"),
        (tasks, json!({"prompt": "p", "confidence": judge}), "confidence.judgeModel"),
        (
            "/api/tasks/batch",
            json!({"tasks": [{"prompt": "p", "queue": COMMAND}]}),
            "tasks[0].queue",
        ),
        (plans, step(json!({"queue": COMMAND})), "steps[0].queue"),
        (plans, step(json!({"model": COMMAND})), "steps[0].model"),
        (plans, step(json!({"models": ["a", COMMAND]})), "steps[0].models[1]"),
        (templates, template(json!({"tags": [COMMAND]})), "tags[0]"),
        (templates, template(json!({"defaults": {"queue": COMMAND}})), "defaults.queue"),
        (templates, template(json!({"defaults": {"model": COMMAND}})), "defaults.model"),
        (
            deploy,
            json!({"input": {"contract": "c"}, "modelOverrides": {"extract": COMMAND}}),
            "modelOverrides.extract",
        ),
        (
            deploy,
            json!({"input": {"contract": "c"}, "queueOverrides": {"extract": COMMAND}}),
            "queueOverrides.extract",
        ),
        ("/api/schedules", schedule(json!({"prompt": "p", "queue": COMMAND})), "target.task.queue"),
        (
            "/api/schedules",
            schedule(json!({"prompt": "p", "tags": [COMMAND]})),
            "target.task.tags[0]",
        ),
    ] {
        let found = fault(&operator, Method::POST, path, &body).await;
        assert_eq!(found, (field.to_owned(), "pattern".to_owned()), "{path} {body}");
    }
    let key = json!({"name": "k", "role": "worker", "queues": [COMMAND]});
    assert_eq!(fault(&admin, Method::POST, "/api/auth/keys", &key).await.0, "queues[0]");
    let queue = "/api/queues/nightly;touch$%7BIFS%7D%252Ftmp%252Fpwned;%23";
    let pause = json!({"paused": true});
    assert_eq!(fault(&operator, Method::PATCH, queue, &pause).await.0, "name");
    let limits = json!({"concurrent": 1});
    let model = "/api/models/a;b/limits";
    assert_eq!(fault(&admin, Method::PUT, model, &limits).await.0, "name");
    let chat = json!({"model": COMMAND, "messages": [{"role": "user", "content": "c"}]});
    let answer = operator.post("/v1/chat/completions", &chat).await;
    assert_eq!((answer.status.as_u16(), &answer.body["error"]["param"]), (400, &json!("model")));
    assert_eq!(admin.get("/api/queues").await.body["pagination"]["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_announces_names_and_prefixes() {
    let server = Server::start();
    let key = server.key("worker").await;
    let register = |queue: &str, model: &str| {
        json!({
            "type": "register", "name": "w", "version": "0", "queues": [queue], "models": [model],
            "concurrency": 1,
        })
    };
    for (queue, model, field) in [(COMMAND, "*", "queues"), ("default", COMMAND, "models")] {
        let mut worker = FakeWorker::dial(&server.url, &key).await;
        worker.send(register(queue, model)).await;
        let refused = worker.next().await.expect("a frame");
        let message = refused["error"]["message"].as_str().expect("a text");
        assert!(message.starts_with(&format!("{field} must be letters")), "{message}");
        assert_eq!(worker.closed().await, 4400);
    }
    for model in ["*", "gpt-*", "meta-llama/Llama-3.1-8B-Instruct"] {
        FakeWorker::register(&server.url, &key, register("default", model)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_there_already_goes_on() {
    let old = "An old model (8B)";
    let server = Server::with(&[("MODELS__DEFAULT", old)]);
    let (operator, admin) = (server.client("operator").await, server.admin().await);
    let task = json!({"prompt": "p", "model": old});
    let id = operator.submit(&task).await;
    operator.plan(&json!([{"id": "a", "prompt": "p", "model": old}])).await;
    let register = json!({
        "type": "register", "name": "w", "version": "0", "queues": ["default"], "models": [old],
        "concurrency": 1,
    });
    let key = server.key("worker").await;
    let mut worker = FakeWorker::register(&server.url, &key, register).await;
    let assigned = worker.assignment().await;
    assert_eq!(assigned["task"]["id"], id.as_str());
    worker.complete(&assigned["lease"], "out").await;
    worker.run(|_| Ok("out".to_owned()));
    let path = "/api/models/An%20old%20model%20(8B)/limits";
    let limits = json!({"concurrent": 9});
    admin.send(admin.request(Method::PUT, path).json(&limits)).await.expect_ok();

    // The texts of the clients of OpenAI are tags as they are, and go on as such.
    let tagged = json!({"prompt": "p", "tags": ["user:auth0|7"]});
    assert_eq!(operator.post("/api/tasks", &tagged).await.fault().0, "tags[0]");
    let chat = json!({"user": "auth0|7", "messages": [{"role": "user", "content": "c"}]});
    assert_eq!(operator.post("/v1/chat/completions", &chat).await.status, 200);
    operator.submit(&tagged).await;
}
