//! The task endpoints, as the specification shows them.

use serde_json::{Value, json};

use crate::support::{Answer, Client, Events, FakeWorker, Server};

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_task_is_submitted_run_and_read_back() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;

    let task = json!({
        "prompt": "say hi", "model": "m", "queue": "default", "systemPrompt": "be brief",
        "context": {"b": 1, "a": [2, null]}, "priority": 7, "timeoutMs": 60_000, "tags": ["x", "y"],
        "maxTokens": 9, "temperature": 0.5, "seed": -7, "topP": 0.25, "stop": "END",
    });
    let made = client.post("/api/tasks", &task).await;
    assert!(made.headers["x-request-id"].to_str().is_ok());
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("x-xss-protection", "1; mode=block"),
        ("strict-transport-security", "max-age=31536000; includeSubDomains"),
    ] {
        assert_eq!(made.headers[name], value);
    }
    for name in ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] {
        assert!(made.headers[name].to_str().expect("text").parse::<u64>().is_ok());
    }
    let made = made.expect(201);
    for field in ["id", "status", "model", "queue", "priority", "tags", "createdAt"] {
        assert!(keys(&made).contains(&field), "{field} in {made:#}");
    }
    assert_eq!((&made["status"], &made["priority"]), (&json!("pending"), &json!(7)));
    let id = made["id"].as_str().expect("an id");
    assert!(id.starts_with("dt_task_") && id.len() == 34, "{id}");

    let assigned = worker.assignment().await;
    assert_eq!(
        assigned["task"],
        json!({
            "id": id, "model": "m", "queue": "default", "prompt": "say hi",
            "systemPrompt": "be brief", "context": {"b": 1, "a": [2, null]},
            "maxTokens": 9, "temperature": 0.5, "logprobs": false,
            "seed": -7, "topP": 0.25, "stop": ["END"],
        })
    );
    assert_eq!(assigned["attempt"], 1);
    let ack = worker.complete(&assigned["lease"], "hi").await;
    assert_eq!((&ack["of"], &ack["result"]), (&json!("complete"), &json!("applied")));

    let done = client.task(id).await;
    assert_eq!(done["status"], "completed");
    assert_eq!((&done["prompt"], &done["output"]), (&json!("say hi"), &json!("hi")));
    assert_eq!(done["usage"]["total"], 8);
    assert_eq!(done["workerId"], worker.id.as_str());
    let sampling = (&done["seed"], &done["topP"], &done["stop"]);
    assert_eq!(sampling, (&json!(-7), &json!(0.25), &json!(["END"])));
    assert_eq!(done["retryCount"], 0);
    for field in ["startedAt", "completedAt", "createdAt"] {
        let text = done[field].as_str().expect("an instant");
        assert!(text.len() == 24 && text.ends_with('Z'), "{text}");
    }
    assert!(done.get("cancelledAt").is_none());
    client.delete(&format!("/api/tasks/{id}")).await.refused(409);
}

#[tokio::test]
async fn lists_filter_order_and_count() {
    let server = Server::start();
    let client = server.client("operator").await;
    for n in 1..=25_u64 {
        let tags = if n % 2 == 0 { json!(["even", "all"]) } else { json!(["all"]) };
        let queue = if n % 5 == 0 { "fives" } else { "default" };
        let task = json!({"prompt": "p", "priority": n % 10 + 1, "tags": tags, "queue": queue});
        client.submit(&task).await;
    }
    let list = async |query: &str| client.get(&format!("/api/tasks?{query}")).await;
    let first = list("").await;
    assert_eq!(
        first.body["pagination"],
        json!({"total": 25, "limit": 20, "offset": 0, "hasMore": true})
    );
    let items = first.expect_ok();
    assert_eq!(items.as_array().map(Vec::len), Some(20));
    assert!(items[0].get("prompt").is_none() && items[0].get("output").is_none());
    let ids: Vec<_> = items.as_array().expect("a list").iter().map(|t| t["id"].as_str()).collect();
    assert!(ids.is_sorted_by(|a, b| a > b), "newest first");

    let total = async |query: &str| list(query).await.body["pagination"]["total"].clone();
    assert_eq!(total("tags=even").await, 12);
    assert_eq!(total("tags=even,all&queue=fives").await, 2);
    assert_eq!(total("status=pending,failed").await, 25);
    assert_eq!(total("status=failed").await, 0);
    let created = items[0]["createdAt"].as_str().expect("an instant");
    assert_ne!(total(&format!("createdAfter={created}")).await, 0);
    assert_eq!(total("createdBefore=2020-01-01T00:00:00Z").await, 0);

    let page = list("orderBy=priority&order=asc&limit=100&offset=5").await;
    assert_eq!(page.body["pagination"]["hasMore"], false);
    let priorities: Vec<_> = page
        .expect_ok()
        .as_array()
        .expect("a list")
        .iter()
        .map(|task| task["priority"].as_u64().expect("a number"))
        .collect();
    assert_eq!(priorities.len(), 20);
    assert!(priorities.is_sorted());
}

#[tokio::test]
async fn a_batch_is_made_whole_or_not_at_all() {
    let server = Server::start();
    let client = server.client("operator").await;
    let batch = json!({"tasks": [{"prompt": "a", "model": "m"}, {"prompt": "b", "priority": 10}]});
    let made = client.post("/api/tasks/batch", &batch).await.expect(201);
    assert!(made["batchId"].as_str().expect("an id").starts_with("dt_batch_"));
    assert_eq!((&made["total"], &made["tasks"][1]["status"]), (&json!(2), &json!("pending")));
    let hundred = json!({"tasks": vec![json!({"prompt": "p", "tags": ["hundred"]}); 100]});
    let request = || {
        let request = client.request(reqwest::Method::POST, "/api/tasks/batch").json(&hundred);
        client.send(request.header("idempotency-key", "hundred"))
    };
    let (first, again) = (request().await.expect(201), request().await);
    assert_eq!(again.headers["idempotent-replayed"], "true");
    assert_eq!(again.expect(201), first);
    let found = client.get("/api/tasks?tags=hundred").await;
    assert_eq!(found.body["pagination"]["total"], 100);
    let more = json!({"tasks": vec![json!({"prompt": "p"}); 101]});
    let fault = client.post("/api/tasks/batch", &more).await.fault();
    assert_eq!(fault, ("tasks".into(), "length".into()));
    let bad = json!({"tasks": [{"prompt": "a"}, {"prompt": "b", "priority": 11}]});
    let fault = client.post("/api/tasks/batch", &bad).await.fault();
    assert_eq!(fault, ("tasks[1].priority".into(), "range".into()));
    let all = client.get("/api/tasks").await;
    assert_eq!(all.body["pagination"]["total"], 102);
}

#[tokio::test]
async fn a_hundred_posts_with_one_key_make_one_task() {
    let server = Server::start();
    let client = server.client("operator").await;
    let body = json!({"prompt": "once", "idempotencyKey": "k-1"});
    let posts = (0..100).map(|_| {
        let (client, body) = (client.clone(), body.clone());
        tokio::spawn(async move { client.post("/api/tasks", &body).await })
    });
    let mut made = Vec::new();
    let mut replays = 0;
    for post in posts.collect::<Vec<_>>() {
        let answer: Answer = post.await.expect("it ends");
        replays += usize::from(answer.headers.contains_key("idempotent-replayed"));
        made.push(answer.expect(201));
    }
    assert!(made.iter().all(|task| *task == made[0]), "the same status and data");
    assert_eq!(replays, 99);
    assert_eq!(client.get("/api/tasks").await.body["pagination"]["total"], 1);

    let other = json!({"prompt": "twice", "idempotencyKey": "k-1"});
    assert_eq!(client.post("/api/tasks", &other).await.refused(422), "IDEMPOTENCY_KEY_REUSED");
    // Another account's key is another key.
    let stranger = server.client("operator").await;
    let answer = stranger.post("/api/tasks", &other).await;
    assert!(!answer.headers.contains_key("idempotent-replayed"));
    answer.expect(201);
    // The header is the field, and both must agree.
    let differing = client
        .request(reqwest::Method::POST, "/api/tasks")
        .header("idempotency-key", "k-2")
        .json(&body);
    assert_eq!(client.send(differing).await.refused(400), "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_pending_task_says_what_it_waits_for_and_is_cancelled_once() {
    let server = Server::start();
    let client = server.client("operator").await;
    let id = client.submit(&json!({"prompt": "p", "model": "nobody-has-it"})).await;
    assert_eq!(client.task(&id).await["waitingFor"], "worker");
    let cancelled = client.delete(&format!("/api/tasks/{id}")).await.expect_ok();
    assert_eq!(keys(&cancelled), ["id", "status", "cancelledAt"]);
    assert_eq!(cancelled["status"], "cancelled");
    let again = client.delete(&format!("/api/tasks/{id}")).await;
    assert_eq!(again.refused(409), "INVALID_STATE");
}

#[tokio::test]
async fn roles_do_what_the_table_says() {
    let server = Server::start();
    let operator = server.client("operator").await;
    let viewer = server.client("viewer").await;
    let worker = server.client("worker").await;
    let id = operator.submit(&json!({"prompt": "p"})).await;
    for client in [&viewer, &worker] {
        assert_eq!(
            client.post("/api/tasks", &json!({"prompt": "p"})).await.refused(403),
            "FORBIDDEN"
        );
        client.delete(&format!("/api/tasks/{id}")).await.refused(403);
        client.get(&format!("/api/tasks/{id}")).await.expect_ok();
        client.get("/api/auth/users").await.refused(403);
    }
    operator.post("/api/auth/keys", &json!({"name": "k", "role": "viewer"})).await.refused(403);
    viewer.get("/api/workers").await.expect_ok();
    worker.get("/api/workers").await.refused(403);
    let nobody = Client::new(&server.url, "");
    let answer = nobody.get("/api/tasks").await;
    assert_eq!(answer.headers["www-authenticate"], "Bearer");
    assert_eq!(answer.refused(401), "UNAUTHORIZED");
    for token in ["svc_live_nonsense", "a.b.c", "x"] {
        Client::new(&server.url, token).get("/api/tasks").await.refused(401);
    }
}

#[tokio::test]
async fn the_first_admin_makes_users_who_sign_in() {
    let server = Server::start();
    let admin = server.admin().await;
    let user = json!({"email": "Ada@Example.com", "password": "lovelace-engine-1843", "name": "Ada", "role": "viewer"});
    let made = admin.post("/api/auth/users", &user).await.expect(201);
    assert_eq!((&made["role"], made.get("password")), (&json!("viewer"), None));
    let again = admin.post("/api/auth/users", &user).await;
    assert_eq!(again.refused(409), "EMAIL_EXISTS");
    let weak =
        json!({"email": "b@example.com", "password": "password", "name": "B", "role": "viewer"});
    assert_eq!(admin.post("/api/auth/users", &weak).await.refused(400), "WEAK_PASSWORD");

    let login = json!({"email": "ada@example.com", "password": "lovelace-engine-1843"});
    let anybody = Client::new(&server.url, "");
    let session = anybody.post("/api/auth/login", &login).await.expect_ok();
    assert_eq!(session["user"]["id"], made["id"]);
    let ada = Client::new(&server.url, session["token"].as_str().expect("a token"));
    ada.post("/api/tasks", &json!({"prompt": "p"})).await.refused(403);
    let user = format!("/api/auth/users/{}", made["id"].as_str().expect("an id"));
    let patch = admin.request(reqwest::Method::PATCH, &user).json(&json!({"role": "operator"}));
    assert_eq!(admin.send(patch).await.expect_ok()["role"], "operator");
    ada.post("/api/tasks", &json!({"prompt": "p"})).await.expect(201);

    let wrong = json!({"email": "ada@example.com", "password": "wrong password"});
    let unknown = json!({"email": "nobody@example.com", "password": "wrong password"});
    let (wrong, unknown) = (
        anybody.post("/api/auth/login", &wrong).await,
        anybody.post("/api/auth/login", &unknown).await,
    );
    assert_eq!(wrong.refused(401), "INVALID_CREDENTIALS");
    assert_eq!(wrong.body["error"], unknown.body["error"]);
}

#[tokio::test]
async fn more_requests_than_the_plan_allows_are_refused_and_not_counted() {
    let server = Server::with(&[("LIMITS_FREE__REQUESTS_PER_MINUTE", "5")]);
    let admin = server.admin().await;
    let key = json!({"name": "k", "role": "viewer", "plan": "free"});
    let key = admin.post("/api/auth/keys", &key).await.expect(201);
    let client = Client::new(&server.url, key["key"].as_str().expect("a key"));
    for left in (0..5).rev() {
        let answer = client.get("/api/tasks").await;
        assert_eq!(answer.headers["x-ratelimit-remaining"], left.to_string().as_str());
        answer.expect_ok();
    }
    let refused = client.get("/api/tasks").await;
    assert_eq!(refused.refused(429), "RATE_LIMIT_EXCEEDED");
    let wait: u64 =
        refused.headers["retry-after"].to_str().expect("text").parse().expect("seconds");
    assert!((1..=60).contains(&wait));
    assert_eq!(refused.headers["x-ratelimit-limit"], "5");
    client.get("/api/health").await.expect_ok();
}

#[tokio::test]
async fn health_tells_of_its_parts_without_credentials() {
    let server = Server::start();
    let anybody = Client::new(&server.url, "");
    let health = anybody.get("/api/health").await.expect_ok();
    assert_eq!(health["status"], "degraded");
    assert_eq!(health["components"]["workers"]["status"], "degraded");
    assert_eq!(health["components"]["vectorStore"]["status"], "not_configured");
    let _worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let bare = anybody.get("/health").await;
    assert_eq!((&bare.body["status"], bare.status.as_u16()), (&json!("ok"), 200));
    assert_eq!(bare.body["version"], env!("CARGO_PKG_VERSION"));
    assert!(bare.body["uptimeMs"].is_u64());
    let zones = bare.body["timeZoneData"].as_str().expect("a release");
    assert!(zones.starts_with("20"), "{zones}");
    for name in ["engine", "database", "workers"] {
        let component = anybody.get(&format!("/health/{name}")).await;
        assert_eq!((component.status.as_u16(), &component.body["status"]), (200, &json!("ok")));
        assert_eq!(component.body, bare.body["components"][name]);
    }
    let store = anybody.get("/health/vectorStore").await;
    assert_eq!((store.status.as_u16(), &store.body["status"]), (200, &json!("not_configured")));
    for probe in ["live", "ready"] {
        assert_eq!(anybody.get(&format!("/health/{probe}")).await.body["status"], "ok");
    }
    assert_eq!(anybody.get("/health/nothing").await.status.as_u16(), 404);
}

#[tokio::test]
async fn events_tell_a_task_s_life_and_resume_where_they_were_left() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let mut events = Events::open(&client, "events=task.*", None).await;
    let id = client.submit(&json!({"prompt": "p", "tags": ["t"]})).await;
    let assigned = worker.assignment().await;
    worker.send(json!({"type": "delta", "lease": assigned["lease"], "text": "he"})).await;
    worker.send(json!({"type": "delta", "lease": assigned["lease"], "text": "llo"})).await;
    worker.complete(&assigned["lease"], "hello").await;

    let mut stored = Vec::new();
    let mut pieces = String::new();
    let mut cursor = String::new();
    while stored.last().is_none_or(|name| name != "task.completed") {
        let (name, data) = events.next().await;
        if name == "task.delta" {
            assert_eq!(data["data"]["offset"], pieces.chars().count());
            pieces.push_str(data["data"]["text"].as_str().expect("text"));
            continue;
        }
        assert_eq!(data["resource"]["id"], id.as_str());
        if !stored.is_empty() {
            assert_eq!(data["prev"], cursor.as_str());
        }
        cursor = data["cursor"].as_str().expect("a cursor").to_owned();
        if name == "task.started" {
            assert_eq!(data["data"]["status"], "running");
        }
        stored.push(name);
    }
    assert_eq!(stored, ["task.created", "task.started", "task.completed"]);
    assert_eq!(pieces, "hello");

    client.submit(&json!({"prompt": "later", "tags": ["t"]})).await;
    let mut again = Events::open(&client, "events=task.created&tags=t", Some(&cursor)).await;
    let (name, data) = again.next().await;
    assert_eq!((name.as_str(), &data["prev"]), ("task.created", &json!(cursor)));
}

#[tokio::test]
async fn the_openapi_document_and_the_routes_agree() {
    let server = Server::start();
    let admin = server.admin().await;
    let document = admin.get("/api/openapi.json").await.body;
    assert_eq!(document["openapi"], "3.1.0");
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let real = path.replace("{id}", "dt_task_00000000000000000000000000");
        let options = admin.send(admin.request(reqwest::Method::OPTIONS, &real)).await;
        let allowed = options.headers["allow"].to_str().expect("text");
        let mut allowed: Vec<_> =
            allowed.split(", ").filter(|m| !matches!(*m, "HEAD" | "OPTIONS")).collect();
        allowed.sort_unstable();
        let mut described: Vec<_> =
            methods.as_object().expect("methods").keys().map(|m| m.to_uppercase()).collect();
        described.sort_unstable();
        assert_eq!(allowed, described, "{path}");
    }
}

#[tokio::test]
async fn a_task_of_the_greatest_size_in_every_field_is_taken_found_and_ended() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::register(
        &server.url,
        &server.key("worker").await,
        json!({
            "type": "register", "name": "fake", "version": "0", "models": ["*"], "concurrency": 1,
            "queues": ["😀".repeat(128)],
        }),
    )
    .await;
    let tags: Vec<_> = (10..42).map(|n| format!("{n}{}", "😀".repeat(62))).collect();
    let url = format!("https://example.com/{}", "x".repeat(2_028));
    let context: serde_json::Map<_, _> =
        (0..25).map(|n| (n.to_string(), "c".repeat(10_000).into())).collect();
    let task = json!({
        "prompt": "ü".repeat(1 << 19), "model": "模".repeat(128), "queue": "😀".repeat(128),
        "systemPrompt": "s".repeat(100_000), "tags": tags, "callbackUrl": url, "context": context,
    });
    let id = client.submit(&task).await;
    let assigned = worker.assignment().await;
    assert_eq!(assigned["task"]["prompt"], task["prompt"]);
    let running = client.task_with_status(&id, "running").await;
    for field in ["prompt", "model", "queue", "systemPrompt", "tags", "callbackUrl", "context"] {
        assert_eq!(running[field], task[field], "{field}");
    }
    let query = [("tags", &*format!("{},{}", tags[0], tags[31])), ("model", &*"模".repeat(128))];
    let found = client.send(client.request(reqwest::Method::GET, "/api/tasks").query(&query)).await;
    assert_eq!(found.body["pagination"]["total"], 1);
    let error = json!({"code": "PROVIDER_ERROR", "message": "\u{1}".repeat(100_000)});
    let fail =
        json!({"type": "fail", "lease": assigned["lease"], "error": error, "retryable": false});
    worker.send(fail).await;
    assert_eq!(worker.receive("ack").await["result"], "applied");
    assert_eq!(client.task(&id).await["status"], "failed");
}
