//! Messages in parts: texts, images and documents of earlier turns, each at its place.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use callboard_worker::provider::anthropic::Anthropic;
use callboard_worker::provider::openai::OpenAi;
use reqwest::Method;
use serde_json::{Value, json};

use super::work::{PDF, kept, provider, work};
use super::{PNG, download};
use crate::support::{FakeWorker, Server};

fn turn(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn part(kind: &str, file: &str) -> Value {
    json!({"type": kind, "file": file})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[tokio::test]
async fn the_parts_of_a_task_are_leased_shown_and_keep_their_files() {
    let server = Server::start();
    let client = server.client("operator").await;
    let (scan, photo, own) = (
        kept(&client, "scan.pdf", PDF).await,
        kept(&client, "p.png", PNG).await,
        kept(&client, "own.pdf", b"%PDF-1.4\n").await,
    );
    let content =
        json!([text("First:"), part("image", &photo), part("document", &scan), text("Now?")]);
    let messages = json!([turn(content), {"role": "assistant", "content": "A cat."}]);
    let task = json!({"prompt": "And this?", "model": "m", "messages": messages, "files": [own]});
    let made = client.post_once("/api/tasks", "k", &task).await.expect(201);
    let id = made["id"].as_str().expect("an id").to_owned();
    let shown = client.task(&id).await;
    assert_eq!((&shown["messages"], &shown["files"]), (&messages, &json!([own])));
    let again = client.post_once("/api/tasks", "k", &task).await.expect(201);
    assert_eq!(again["id"], id.as_str());
    let mut changed = task.clone();
    changed["messages"][0]["content"][1] = part("document", &own);
    let answer = client.post_once("/api/tasks", "k", &changed).await;
    assert_eq!(answer.refused(422), "IDEMPOTENCY_KEY_REUSED");

    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let assigned = worker.assignment().await;
    let leased = &assigned["task"]["messages"][0]["content"];
    assert_eq!(leased[0], text("First:"));
    assert_eq!((&leased[1]["type"], &leased[1]["file"]["id"]), (&json!("image"), &json!(photo)));
    assert_eq!(leased[1]["file"]["contentType"], "image/png");
    assert_eq!(
        (&leased[2]["type"], &leased[2]["file"]["name"]),
        (&json!("document"), &json!("scan.pdf"))
    );
    assert_eq!(assigned["task"]["files"].as_array().map(Vec::len), Some(1));
    assert_eq!(assigned["task"]["files"][0]["id"], own.as_str());
    for file in [&scan, &photo, &own] {
        let refused = client.delete(&format!("/api/files/{file}")).await;
        assert_eq!(refused.refused(409), "INVALID_STATE");
    }
    worker.complete(&assigned["lease"], "A dog.").await;
    let shown = client.task_with_status(&id, "completed").await;
    assert_eq!((&shown["messages"], &shown["files"]), (&messages, &json!([own])));

    // The erasure of the texts takes the files that nothing else refers to.
    let admin = server.admin().await;
    let erase = admin.request(Method::DELETE, &format!("/api/tasks/{id}/texts"));
    admin.send(erase.json(&json!({"reason": "asked"}))).await.expect_ok();
    for file in [&scan, &photo, &own] {
        assert_eq!(download(&client, file, None).await.0, 404);
    }
    assert!(client.task(&id).await.get("messages").is_none());
}

#[tokio::test]
async fn a_part_that_cannot_be_is_refused_by_its_place() {
    let server = Server::start();
    let client = server.client("operator").await;
    let png = kept(&client, "a.png", PNG).await;
    let missing = "file_00000000000000000000000000";
    let at = |place: &str| format!("messages[0].content{place}");
    let many: Vec<_> = (0..20).map(|_| part("image", &png)).collect();
    for (content, files, field, rule) in [
        (json!([]), json!([]), at(""), "length"),
        (json!(vec![text("x"); 101]), json!([]), at(""), "length"),
        (json!(7), json!([]), at(""), "type"),
        (json!([{"type": "sound", "file": png}]), json!([]), at("[0].type"), "enum"),
        (json!([{"type": "text"}]), json!([]), at("[0].text"), "required"),
        (json!([{"type": "image"}]), json!([]), at("[0].file"), "required"),
        (
            json!([{"type": "image", "file": png, "text": "x"}]),
            json!([]),
            at("[0].text"),
            "unknown",
        ),
        (json!([text("x"), part("image", "a.png")]), json!([]), at("[1].file"), "format"),
        (json!([text("x"), part("image", missing)]), json!([]), at("[1].file"), "format"),
        (json!([text("x"), part("document", &png)]), json!([]), at("[1].file"), "format"),
        (json!(many), json!([png]), "messages".to_owned(), "length"),
        (json!([text(&"x".repeat((1 << 20) + 1))]), json!([]), "messages".to_owned(), "length"),
    ] {
        let task = json!({"prompt": "p", "messages": [turn(content)], "files": files});
        let refused = client.post("/api/tasks", &task).await;
        assert_eq!(refused.fault(), (field, rule.to_owned()), "{}", refused.body);
    }
    let batch = json!({"tasks": [{"prompt": "p"}, {
        "prompt": "p", "messages": [turn(json!([part("image", missing)]))],
    }]});
    let refused = client.post("/api/tasks/batch", &batch).await;
    assert_eq!(refused.fault().0, "tasks[1].messages[0].content[0].file");
    let step = |content: Value| json!({"name": "p", "steps": [{"id": "a", "prompt": "p", "messages": [turn(content)]}]});
    for (content, end) in [
        (json!([part("image", "a.png")]), "[0].file"),
        (json!([part("image", "{{input")]), "[0].file"),
        (json!([text("{{b.output}}")]), "[0].text"),
    ] {
        let refused = client.post("/api/plans", &step(content)).await;
        let field = &refused.body["error"]["details"]["field"];
        assert_eq!(field, &format!("steps[0].messages[0].content{end}"), "{}", refused.body);
    }
}

#[tokio::test]
async fn a_steps_parts_take_texts_and_files_from_the_input() {
    let server = Server::start();
    let client = server.client("operator").await;
    let (one, two) = (kept(&client, "1.pdf", PDF).await, kept(&client, "2.png", PNG).await);
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let content = json!([
        text("Of {{input.who}}:"),
        part("document", "{{input.scans}}"),
        part("image", "{{input.photo}}"),
        part("image", "{{input.none}}"),
    ]);
    let steps = json!([{
        "id": "a", "prompt": "Compare.", "model": "m", "files": ["{{input.photo}}"],
        "messages": [turn(content.clone())],
    }]);
    let plan = client.plan(&steps).await;
    let shown = client.get(&format!("/api/plans/{plan}")).await.expect_ok();
    assert_eq!(shown["steps"][0]["messages"][0]["content"], content);
    let input = json!({"who": "Ann", "scans": [one, one], "photo": two, "none": ""});
    let execution = client.execute(&plan, &json!({"input": input})).await;
    let assigned = worker.assignment().await;
    let content = assigned["task"]["messages"][0]["content"].as_array().expect("parts");
    let leased: Vec<_> = content.iter().map(|it| (&it["type"], &it["file"]["id"])).collect();
    let (document, image, null) = (&json!("document"), &json!("image"), &Value::Null);
    let (one, two) = (&json!(one), &json!(two));
    assert_eq!(leased, [(&json!("text"), null), (document, one), (document, one), (image, two)]);
    assert_eq!(content[0]["text"], "Of Ann:");
    assert_eq!(&assigned["task"]["files"][0]["id"], two);
    worker.complete(&assigned["lease"], "same").await;
    client.execution_with_status(&execution, "completed").await;
    let input = json!({"who": "Ann", "scans": "a.pdf", "photo": two, "none": ""});
    let execution = client.execute(&plan, &json!({"input": input})).await;
    let failed = client.execution_with_status(&execution, "failed").await;
    assert_eq!(failed["error"]["code"], "RENDER_FAILED", "{failed}");
}

#[tokio::test]
async fn providers_get_the_parts_of_a_turn_at_their_places() {
    let server = Server::start();
    let client = server.client("operator").await;
    let (url, mut asked) = provider().await;
    let openai = OpenAi::new(&format!("{url}/v1"), None).expect("a client");
    let anthropic = Anthropic::new(&url, None, Arc::default()).expect("a client");
    work(&server, Arc::new(openai), "openai").await;
    work(&server, Arc::new(anthropic), "anthropic").await;
    let (photo, scan) = (kept(&client, "p.png", PNG).await, kept(&client, "scan.pdf", PDF).await);
    let ask = async |queue: &str, model: &str| {
        let content =
            json!([text("One:"), part("image", &photo), text("Two:"), part("document", &scan)]);
        let task = json!({
            "prompt": "And?", "queue": queue, "model": model, "timeoutMs": 60_000,
            "messages": [turn(content), {"role": "assistant", "content": "A cat."}],
            "retry": {"maxAttempts": 5},
        });
        client.submit(&task).await
    };
    let (image, pdf) = (STANDARD.encode(PNG), STANDARD.encode(PDF));
    let mut seen = async || {
        let asked = tokio::time::timeout(Duration::from_mins(1), asked.recv()).await;
        asked.expect("in time").expect("it was asked")
    };
    // Ollama, vLLM and llama.cpp are asked in OpenAI's form, in which a conversation may come too.
    let in_openais_form = json!([
        text("One:"),
        {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{image}")}},
        text("Two:"),
        {"type": "file", "file":
            {"filename": "scan.pdf", "file_data": format!("data:application/pdf;base64,{pdf}")}},
    ]);
    let id = ask("openai", "m").await;
    client.task_with_status(&id, "completed").await;
    assert_eq!(seen().await, in_openais_form);
    let chat = json!({"model": "m", "messages": [
        turn(in_openais_form.clone()),
        {"role": "assistant", "content": "A cat."},
        {"role": "user", "content": "And?"},
    ]});
    let chat = client.request(Method::POST, "/v1/chat/completions").json(&chat);
    let answer = client.send(chat.header("x-callboard-queue", "openai")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(seen().await, in_openais_form);
    let id = ask("anthropic", "m").await;
    client.task_with_status(&id, "completed").await;
    assert_eq!(
        seen().await,
        json!([
            text("One:"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}},
            text("Two:"),
            {"type": "document", "title": "scan.pdf", "source":
                {"type": "base64", "media_type": "application/pdf", "data": pdf}},
        ])
    );
    let id = ask("openai", "vision-only").await;
    let failed = client.task_with_status(&id, "failed").await;
    let error = (&failed["error"]["code"], &failed["attempt"]);
    assert_eq!(error, (&json!("PROVIDER_ERROR"), &json!(1)));
    let message = failed["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("Unknown part type") && message.contains(&scan), "{message}");
}
