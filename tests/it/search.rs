//! The search of the texts of tasks: it shows what the task itself shows to the caller at this moment, and nothing else.

use callboard_domain::search::texts::SNIPPET;
use reqwest::Method;
use serde_json::{Value, json};

use crate::approvals::fixture::Fixture;
use crate::support::{Client, FakeWorker, Server};

/// The answer to a search.
async fn found(client: &Client, query: &str) -> Value {
    client.get(&format!("/api/search?q={query}")).await.expect_ok()
}

/// The ids of the tasks that a search finds.
async fn ids(client: &Client, query: &str) -> Vec<String> {
    let found = found(client, query).await;
    let hits = found["hits"].as_array().expect("hits");
    hits.iter().map(|hit| hit["id"].as_str().expect("an id").to_owned()).collect()
}

/// The snippet of a hit, with its matches in brackets.
fn snippet(hit: &Value) -> String {
    let piece = |piece: &Value| {
        let text = piece["text"].as_str().expect("a text");
        if piece["match"] == true { format!("[{text}]") } else { text.to_owned() }
    };
    hit["snippet"].as_array().expect("pieces").iter().map(piece).collect()
}

#[tokio::test]
async fn words_of_prompts_and_outputs_are_found_with_the_text_around_them() {
    let fixture = Fixture::open().await;
    let client = &fixture.operator;
    let long = format!(
        "Sehr geehrte Frau Müller, {} Ihr Zähler",
        "zum Vertrag K-10241 gilt: ".repeat(300)
    );
    let done = client.submit(&json!({"prompt": long, "title": "Letter"})).await;
    client.task_with_status(&done, "completed").await;
    let parts = json!({
        "prompt": "Quince", "systemPrompt": "You are Medlar", "queue": "nobody",
        "context": {"customer": "Sorb\nRowan"}, "messages": [{"role": "user", "content": "Hawthorn"}],
    });
    let waiting = client.submit(&parts).await;

    let all = found(client, "MÜLLER+zähl").await;
    let hit = &all["hits"][0];
    assert_eq!(all["hits"].as_array().map(Vec::len), Some(1), "{all:#}");
    assert_eq!(
        (&hit["id"], &hit["kind"], &hit["where"]),
        (&json!(done), &json!("task"), &json!("output"))
    );
    assert_eq!((&hit["title"], &hit["status"]), (&json!("Letter"), &json!("completed")));
    assert!(snippet(hit).starts_with("Sehr geehrte Frau [Müller], zum Vertrag"), "{hit:#}");
    assert_eq!(snippet(hit).chars().count() - 2, SNIPPET);
    assert!(all["next"].is_null() && all["searchedTo"].is_string(), "{all:#}");
    for (word, place) in [
        ("quin", "prompt"),
        ("medlar", "systemPrompt"),
        ("rowan", "context"),
        ("hawthorn", "messages"),
    ] {
        let all = found(client, word).await;
        assert_eq!(
            (&all["hits"][0]["id"], &all["hits"][0]["where"]),
            (&json!(waiting), &json!(place))
        );
    }
    assert_eq!(ids(client, "quince+rowan").await, [waiting], "its texts have them together");
    for nothing in ["uller", "müller+quince", "schmidt", "k-1024111"] {
        assert_eq!(ids(client, nothing).await, [""; 0], "{nothing}");
    }
}

#[tokio::test]
async fn a_search_goes_on_where_it_ended_and_tells_steps_from_tasks() {
    let fixture = Fixture::open().await;
    let client = &fixture.operator;
    let mut tasks = Vec::new();
    for number in 0..5 {
        tasks.push(client.submit(&json!({"prompt": format!("quince {number}")})).await);
    }
    let execution = fixture.start(&json!([{"id": "one", "prompt": "a quince"}]), &json!({})).await;
    let ended = client.execution_with_status(&execution, "completed").await;
    tasks.push(ended["steps"]["one"]["taskId"].as_str().expect("an id").to_owned());
    tasks.reverse();
    assert_eq!(ids(client, "quince").await, tasks, "the newest first");
    let (mut read, mut query) = (Vec::new(), "quince&limit=2".to_owned());
    loop {
        read.extend(ids(client, &query).await);
        let all = found(client, &query).await;
        let Some(next) = all["next"].as_str() else { break };
        query = format!("quince&limit=2&cursor={next}");
    }
    assert_eq!(read, tasks);
    let steps = found(client, "quince&kinds=step").await;
    assert_eq!(steps["hits"].as_array().map(Vec::len), Some(1));
    let hit = &steps["hits"][0];
    assert_eq!((&hit["kind"], &hit["executionId"]), (&json!("step"), &json!(execution)));
    assert_eq!((&hit["stepId"], &hit["id"]), (&json!("one"), &json!(tasks[0])));
    assert_eq!(ids(client, "quince&kinds=task").await, tasks[1..]);
}

#[tokio::test]
async fn a_search_shows_what_the_caller_may_read_of_each_task() {
    let fixture = Fixture::open().await;
    let held = fixture.required("quince").await;
    for (role, status) in [("viewer", 200), ("reviewer", 403), ("worker", 200)] {
        let client = fixture.server.client(role).await;
        for path in [format!("/api/tasks/{held}"), "/api/search?q=quince".into()] {
            assert_eq!(client.get(&path).await.status, status, "{role}: {path}");
        }
    }
    // A reviewer's text takes the place of the model's.
    fixture.approve(&held, &json!({"modifiedOutput": "medlar"})).await.expect_ok();
    assert_eq!(found(&fixture.operator, "medlar").await["hits"][0]["where"], "output");
    assert_eq!(found(&fixture.operator, "quince").await["hits"][0]["where"], "prompt");

    // A key that is bound to queues finds what it holds.
    let queue = json!({"name": "w", "role": "worker", "queues": ["letters"]});
    let key = fixture.admin.post("/api/auth/keys", &queue).await.expect(201);
    let key = key["key"].as_str().expect("a key");
    let bound = Client::new(&fixture.server.url, key);
    let register = json!({
        "type": "register", "name": "w", "version": "0", "queues": ["letters"], "models": ["*"],
        "concurrency": 1,
    });
    let task = fixture.operator.submit(&json!({"prompt": "quince", "queue": "letters"})).await;
    assert_eq!(ids(&bound, "quince").await, [""; 0]);
    let mut worker = FakeWorker::register(&fixture.server.url, key, register).await;
    let assigned = worker.assignment().await;
    assert_eq!(ids(&bound, "quince").await, [task]);
    worker.complete(&assigned["lease"], "done").await;

    // The sandbox is apart.
    let test = json!({"name": "t", "role": "operator", "environment": "test"});
    let test = fixture.admin.post("/api/auth/keys", &test).await.expect(201);
    let test = Client::new(&fixture.server.url, test["key"].as_str().expect("a key"));
    let own = test.submit(&json!({"prompt": "rowan"})).await;
    assert_eq!(ids(&test, "rowan").await, [own]);
    assert_eq!(ids(&test, "quince").await, [""; 0]);
    assert_eq!(ids(&fixture.operator, "rowan").await, [""; 0]);
}

#[tokio::test]
async fn an_erased_word_is_found_nowhere() {
    let fixture = Fixture::open().await;
    let (client, admin) = (&fixture.operator, &fixture.admin);
    let task = json!({"prompt": "the quince of Medlar", "systemPrompt": "quince", "context": {"a": "quince"}});
    let erased = client.submit(&task).await;
    let long = client.submit(&json!({"prompt": "quince ".repeat(2_000)})).await;
    let kept = client.submit(&json!({"prompt": "a quince"})).await;
    for id in [&erased, &long, &kept] {
        client.task_with_status(id, "completed").await;
    }
    assert_eq!(ids(client, "quince").await.len(), 3);
    for id in [&erased, &long] {
        let path = format!("/api/tasks/{id}/texts");
        let request = admin.request(Method::DELETE, &path).json(&json!({"reason": "asked for"}));
        admin.send(request).await.expect_ok();
    }
    assert_eq!(ids(client, "quince").await, [kept]);
    for word in ["medlar", "quince+medlar"] {
        assert_eq!(ids(client, word).await, [""; 0]);
        for list in ["tasks", "plans/executions", "templates", "plans", "hitl"] {
            assert_eq!(
                client.get(&format!("/api/{list}?search={word}")).await.expect_ok(),
                json!([])
            );
        }
    }
}

#[tokio::test]
async fn a_setting_bounds_the_days_and_turns_the_search_off() {
    let mut server = Server::with(&[("SEARCH__DAYS", "7")]);
    let admin = server.admin().await;
    let task = admin.submit(&json!({"prompt": "quince"})).await;
    assert_eq!(ids(&admin, "quince&days=7").await, [task]);
    let fault = async |query: &str| admin.get(&format!("/api/search{query}")).await.fault();
    let of = |field: &str, rule: &str| (field.to_owned(), rule.to_owned());
    assert_eq!(fault("?q=quince&days=8").await, of("days", "range"));
    assert_eq!(fault("?q=--").await, of("q", "pattern"));
    assert_eq!(fault("").await, of("q", "required"));
    assert_eq!(fault("?q=a&cursor=x").await, of("cursor", "format"));
    assert_eq!(fault("?q=a&limit=51").await, of("limit", "range"));
    server.kill();
    server.restart_with(&[("SEARCH__DAYS", "0")]);
    let admin = server.admin().await;
    assert_eq!(admin.get("/api/search?q=quince").await.refused(409), "INVALID_STATE");
}
