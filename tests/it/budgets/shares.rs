//! The shares of accounts and projects in long computations: the definitions of one make no other wait.

use super::*;
use crate::projects_share::{key, project};

/// A schema whose compilation looks all characters up, so many times.
fn costly(patterns: usize, seed: usize) -> Value {
    let pattern = |n| {
        (format!("p{n}"), json!({"pattern": format!("(?i)[\\x{{0}}-\\x{{10ffff}}]{seed}-{n}")}))
    };
    json!({"type": "object", "properties": (0..patterns).map(pattern).collect::<serde_json::Map<_, _>>()})
}

fn template(name: &str, input: &Value) -> Value {
    json!({
        "name": name, "version": "1.0.0", "industry": "custom", "inputSchema": input,
        "steps": [{"id": "a", "prompt": "x"}],
    })
}

/// Before: each took 0.6 s, on a thread of its own.
#[tokio::test(flavor = "multi_thread")]
async fn faults_of_reading_are_told_before_anything_is_compiled() {
    let server = Server::start();
    let operator = server.client("operator").await;
    let mut faulty = template("costly", &costly(20, 0));
    faulty["outputSchema"] = costly(20, 1);
    faulty["surprise"] = json!(1);
    faulty["steps"][0]["condition"] = json!("this is no condition");
    let began = Instant::now();
    for _ in 0..50 {
        let refused = operator.post("/api/templates", &faulty).await;
        assert_eq!(refused.refused(400), "VALIDATION_ERROR");
        assert_eq!(refused.body["error"]["details"]["field"], "surprise", "{:#}", refused.body);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// Before: each of the schemas was within its own limits, and all took minutes.
#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_a_definition_is_counted_before_it_is_paid() {
    let server = Server::start();
    let operator = server.client("operator").await;
    let step =
        |n: usize| json!({"id": format!("s{n}"), "prompt": "x", "outputSchema": costly(13, n)});
    let steps: Vec<_> = (0..200).map(step).collect();
    let mut whole = template("costly", &json!({"type": "object"}));
    whole["steps"] = json!(steps);
    let plan = json!({"name": "costly", "steps": steps});
    let task = |n| json!({"prompt": "x", "outputSchema": costly(13, n)});
    let batch = json!({"tasks": (0..100).map(task).collect::<Vec<_>>()});
    for (path, body, field) in [
        ("/api/templates", &whole, "steps[2].outputSchema.properties.p"),
        ("/api/plans", &plan, "steps[2].outputSchema.properties.p"),
        ("/api/tasks/batch", &batch, "tasks[2].outputSchema.properties.p"),
    ] {
        let refused = operator.post(path, body).await;
        assert_eq!(refused.refused(400), "VALIDATION_ERROR");
        let error = &refused.body["error"];
        assert_eq!(error["details"]["rule"], "length");
        let place = error["details"]["field"].as_str().expect("a field");
        assert!(place.starts_with(field), "{place}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("30000000") && message.contains("(?i)"), "{message}");
    }
}

/// Before: the other account's template came last, as all definitions were in one line.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_with_many_definitions_makes_no_other_wait_and_is_told_when_they_are_too_many() {
    let server = Server::start();
    let (flood, other) = (server.key("operator").await, server.key("operator").await);
    let (flood, other) = (Client::new(&server.url, &flood), Client::new(&server.url, &other));
    let (mut all, sent) = (JoinSet::new(), 100);
    for n in 0..sent {
        let flood = flood.clone();
        let body = template(&format!("flood {n}"), &costly(15, n));
        all.spawn(async move { flood.post("/api/templates", &body).await });
    }
    let mut answered = Vec::new();
    // Those beyond the line are refused at once.
    while answered.len() < 36 {
        let answer = all.join_next().await.expect("there are more").expect("it is answered");
        answered.push(answer);
    }
    let refused: Vec<_> = answered.iter().filter(|it| it.status.as_u16() == 429).collect();
    assert!(refused.len() >= 30, "{} of 36", refused.len());
    for one in refused {
        assert_eq!(one.refused(429), "RATE_LIMIT_EXCEEDED");
        assert!(one.headers.contains_key("retry-after"));
        let message = one.body["error"]["message"].as_str().expect("a message");
        assert!(message.contains("64 requests"), "{message}");
    }
    let body = template("other", &costly(15, sent));
    other.post("/api/templates", &body).await.expect(201);
    let mut done = 0;
    while let Some(answer) = all.try_join_next() {
        done += usize::from(answer.expect("it is answered").status.as_u16() == 201);
    }
    assert!(done < 10 && !all.is_empty(), "{done} of the flood came before, {} after", all.len());
    all.abort_all();
}

/// Before: the other project's template came last, as each account of the flood had as much right to a turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_with_many_accounts_makes_no_other_project_wait() {
    let server = Server::start();
    let root = server.admin().await;
    let other = project(&root, "other").await;
    let other = Client::new(&server.url, &key(&root, &other, "admin").await);
    let (mut flood, mut all, accounts) = (Vec::new(), JoinSet::new(), 40);
    for _ in 0..accounts {
        flood.push(Client::new(&server.url, &key(&root, "default", "operator").await));
    }
    for (n, flood) in flood.into_iter().enumerate() {
        let body = template(&format!("flood {n}"), &costly(15, n));
        all.spawn(async move { flood.post("/api/templates", &body).await });
    }
    // Each needs several turns, so none is answered before all have begun.
    root.get("/api/tasks").await.expect_ok();
    other.post("/api/templates", &template("other", &costly(15, accounts))).await.expect(201);
    let done = std::iter::from_fn(|| all.try_join_next()).count();
    assert!(done < 10 && !all.is_empty(), "{done} of the flood came before, {} after", all.len());
    all.abort_all();
}
