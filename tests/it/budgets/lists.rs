//! Lists show no long text whole, however long the texts of their items are (docs/reference/tasks.md).

use serde_json::{Value, json};

use super::{resident, watched};
use crate::approvals::fixture::Fixture;
use crate::support::{Answer, Client};

const MIB: usize = 1 << 20;
/// The items of each list.
const ITEMS: usize = 12;

/// A page and its length in bytes.
async fn page(client: &Client, path: &str) -> (Vec<Value>, usize) {
    let answer: Answer = client.get(&format!("{path}?limit=100")).await;
    let length = answer.headers["content-length"].to_str().expect("a text");
    let length = length.parse().expect("a number");
    let items = answer.expect_ok();
    (items.as_array().expect("a list").clone(), length)
}

/// The longest text in a value.
fn longest(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.iter().map(longest).max().unwrap_or(0),
        Value::Object(members) => members.values().map(longest).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_carry_no_text_of_a_mebibyte() {
    let fixture = Fixture::open().await;
    let client = &fixture.operator;
    let text = "x".repeat(MIB);
    let plan = json!([{"id": "a", "prompt": "{{input.x}}", "requiresApproval": true}]);
    let plan = client.plan(&plan).await;
    let mut executions = Vec::new();
    for _ in 0..ITEMS {
        executions.push(client.execute(&plan, &json!({"input": {"x": text}})).await);
    }
    let mut tasks = Vec::new();
    for execution in &executions {
        tasks.push(fixture.waiting(execution, "a").await);
    }
    let before = resident(&fixture.server);

    let read = async {
        let pending = page(client, "/api/hitl/pending").await;
        (pending, page(client, "/api/plans/executions").await)
    };
    let ((pending, running), slowest, most) = watched(&fixture.server, read).await;
    println!(
        "{ITEMS} approvals in {} bytes, {ITEMS} executions in {} bytes; {before} to {most} MiB, \
         the longest answer of /health was {slowest:?}",
        pending.1, running.1
    );
    for item in &pending.0 {
        for text in ["prompt", "output"] {
            assert_eq!(item[text].as_str().map(str::len), Some(2_000), "{text}");
            assert_eq!(item[format!("{text}Truncated")], true, "{text}");
        }
        assert!(longest(item) <= 2_000, "{}", longest(item));
    }
    assert_eq!((pending.0.len(), running.0.len()), (ITEMS, ITEMS));
    assert!(pending.1 < ITEMS * 8_192, "{} bytes", pending.1);
    assert!(running.1 < ITEMS * 2_048, "{} bytes", running.1);
    assert!(most < before + 100, "{before} MiB before, {most} MiB at most");

    // Decided with a text of the same length, and refused.
    let (edited, refused) = tasks.split_at(ITEMS / 2);
    for task in edited {
        let body = json!({"modifiedOutput": "e".repeat(MIB), "comment": "c".repeat(10_000)});
        fixture.approve(task, &body).await.expect_ok();
    }
    for task in refused {
        fixture.reject(task, &json!({"reason": "r".repeat(10_000)})).await.expect_ok();
    }
    for execution in &executions {
        client.execution_when(execution, |execution| execution["status"] != "running").await;
    }
    let (decided, bytes) = page(client, "/api/hitl").await;
    let cut = |item: &&Value| item["decision"]["modifiedOutputTruncated"] == true;
    assert_eq!(decided.iter().filter(cut).count(), edited.len());
    assert!(bytes < ITEMS * 20_480, "{bytes} bytes");
    let (ended, bytes) = page(client, "/api/plans/executions").await;
    for execution in &ended {
        for whole in ["input", "steps", "output"] {
            assert!(execution.get(whole).is_none(), "{whole} of {}", execution["id"]);
        }
    }
    assert!(bytes < ITEMS * 2_048, "{bytes} bytes");

    // The other lists of work.
    let schedule = json!({
        "name": "s", "cron": "@monthly", "target": {"task": {"prompt": text}},
    });
    client.post("/api/schedules", &schedule).await.expect(201);
    let steps = json!([{"id": "a", "prompt": text, "systemPrompt": "p".repeat(MIB / 2)}]);
    client.plan(&steps).await;
    let template = json!({
        "name": "t", "version": "1.0.0", "industry": "custom", "inputSchema": {"type": "object"},
        "steps": steps,
    });
    client.post("/api/templates", &template).await.expect(201);
    for path in ["/api/tasks", "/api/schedules", "/api/plans", "/api/templates"] {
        let (items, bytes) = page(client, path).await;
        assert!(!items.is_empty(), "{path}");
        assert!(bytes < items.len() * 8_192, "{path}: {bytes} bytes");
    }
}
