use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Client, Server};

async fn ended(client: &Client, id: &str) -> Value {
    for _ in 0..1_200 {
        let job = client.get(&format!("/api/bulk/{id}")).await.expect_ok();
        if job["status"] == "completed" {
            return job;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the job does not end");
}

/// Before: `a,b` was the name of one queue, and the job did nothing and succeeded.
#[tokio::test]
async fn a_job_and_a_list_take_several_queues() {
    let server = Server::start();
    let operator = server.client("operator").await;
    for queue in ["a", "b", "c", "b"] {
        operator.submit(&json!({"prompt": "x", "queue": queue})).await;
    }
    let listed = operator.get("/api/tasks?queue=a,b").await;
    assert_eq!(listed.body["pagination"]["total"], 3, "{listed:?}");
    let cancel = json!({"action": "cancel", "filter": {"queue": "a,b"}});
    let job = operator.post("/api/bulk", &cancel).await.expect_ok();
    let job = ended(&operator, job["id"].as_str().expect("an id")).await;
    assert_eq!((&job["total"], &job["succeeded"]), (&json!(3), &json!(3)), "{job}");
    let left = operator.get("/api/tasks?status=pending").await;
    assert_eq!(left.body["data"][0]["queue"], "c", "{left:?}");
    assert_eq!(left.body["pagination"]["total"], 1, "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_on_after_a_kill_and_retries_each_task_once() {
    let mut server = Server::start();
    let operator = server.client("operator").await;
    let tasks: Vec<_> = (0..100)
        .map(|n| json!({"prompt": n.to_string(), "queue": "idle", "tags": ["bulk"]}))
        .collect();
    for _ in 0..5 {
        operator.post("/api/tasks/batch", &json!({"tasks": tasks})).await.expect(201);
    }
    operator.submit(&json!({"prompt": "another", "queue": "idle"})).await;

    let filter = json!({"tags": ["bulk"], "status": ["pending"]});
    let cancel = json!({"action": "cancel", "filter": filter, "expect": 499});
    assert_eq!(operator.post("/api/bulk", &cancel).await.refused(409), "INVALID_STATE");
    let dry = json!({"action": "cancel", "filter": filter, "dryRun": true});
    let dry = operator.post("/api/bulk", &dry).await.expect_ok();
    assert_eq!((&dry["total"], &dry["status"]), (&json!(500), &json!("dry_run")));
    let cancel = json!({"action": "cancel", "filter": filter, "expect": 500});
    let job = operator.post("/api/bulk", &cancel).await.expect_ok();
    let mut id = job["id"].as_str().expect("an id").to_owned();
    let mut operator = operator;
    for round in 0..2 {
        server.kill();
        server.restart();
        operator = operator.at(&server.url);
        let job = ended(&operator, &id).await;
        assert_eq!((&job["succeeded"], &job["skipped"]), (&json!(500), &json!(0)), "{job}");
        if round == 0 {
            let filter = json!({"tags": ["bulk"], "status": ["cancelled"]});
            let retry = json!({"action": "retry", "filter": filter});
            let job = operator.post("/api/bulk", &retry).await.expect_ok();
            id = job["id"].as_str().expect("an id").to_owned();
        }
    }
    let total = |page: crate::support::Answer| page.body["pagination"]["total"].clone();
    let again = operator.get("/api/tasks?tags=bulk&status=pending&limit=1").await;
    assert_eq!(total(again), 500);
    assert_eq!(total(operator.get("/api/tasks?limit=1").await), 1001);
    let admin = server.admin().await;
    let audit = admin.get("/api/audit?action=bulk.started").await.expect_ok();
    assert_eq!(audit.as_array().map(Vec::len), Some(2));
    assert_eq!(operator.get("/api/bulk").await.expect_ok()[0]["action"], "retry");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_job_is_refused_before_anything_is_done() {
    let server = Server::start();
    let operator = server.client("operator").await;
    let waiting = operator.submit(&json!({"prompt": "p", "queue": "idle"})).await;
    for (body, fault) in [
        (json!({"filter": {"queue": "idle"}}), ("action", "required")),
        (json!({"action": "approve", "filter": {"queue": "idle"}}), ("action", "enum")),
        (json!({"action": "cancel"}), ("filter", "required")),
        (json!({"action": "cancel", "filter": {}}), ("expect", "required")),
        (json!({"action": "cancel", "filter": {"status": ["x"]}}), ("filter.status[0]", "enum")),
        (json!({"action": "cancel", "filter": {"limit": 1}}), ("filter.limit", "unknown")),
        (
            json!({"action": "cancel", "filter": {"queue": "idle"}, "priority": 3}),
            ("priority", "unknown"),
        ),
        (json!({"action": "reprioritize", "filter": {"queue": "idle"}}), ("priority", "required")),
        (json!({"action": "reject", "filter": {"queue": "idle"}}), ("reason", "required")),
        (
            json!({"action": "cancel", "filter": {"queue": "idle"}, "reason": "x"}),
            ("reason", "unknown"),
        ),
        (
            json!({"action": "reject", "filter": {"queue": "idle"}, "reason": ""}),
            ("reason", "length"),
        ),
    ] {
        let (field, rule) = operator.post("/api/bulk", &body).await.fault();
        assert_eq!((field.as_str(), rule.as_str()), fault, "{body}");
    }
    let viewer = server.client("viewer").await;
    let cancel = json!({"action": "cancel", "filter": {"queue": "idle"}});
    assert_eq!(viewer.post("/api/bulk", &cancel).await.refused(403), "FORBIDDEN");
    assert_eq!(operator.task(&waiting).await["status"], "pending");
    assert_eq!(operator.get("/api/bulk/blk_none").await.refused(404), "NOT_FOUND");
    let urgent = json!({"action": "reprioritize", "filter": {"queue": "idle"}, "priority": 9});
    let job = operator.post("/api/bulk", &urgent).await.expect_ok();
    ended(&operator, job["id"].as_str().expect("an id")).await;
    assert_eq!(operator.task(&waiting).await["priority"], 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_jobs_run_at_the_same_time_and_one_more_is_refused() {
    let server = Server::start();
    let operator = server.client("operator").await;
    let tasks = vec![json!({"prompt": "p", "queue": "idle"}); 100];
    for _ in 0..30 {
        operator.post("/api/tasks/batch", &json!({"tasks": tasks})).await.expect(201);
    }
    let (mut taken, mut refused) = (0, None);
    while refused.is_none() && taken < 1_000 {
        let many = (0..20).map(|n| {
            let order = json!({
                "action": "reprioritize", "filter": {"queue": "idle"}, "priority": n % 10 + 1,
            });
            let operator = operator.clone();
            async move { operator.post("/api/bulk", &order).await }
        });
        for answer in futures_util::future::join_all(many).await {
            if answer.status == 409 {
                refused = Some(answer);
            } else {
                answer.expect_ok();
                taken += 1;
            }
        }
    }
    let refused = refused.expect("jobs are made faster than they end");
    let says = refused.body["error"]["message"].to_string();
    assert!(says.contains("100 bulk jobs run, which is the limit"), "{says}");
    assert!(taken >= 100, "{taken} were taken");
    let jobs = operator.get("/api/bulk?limit=100").await.expect_ok();
    let running = |job: &&Value| job["status"] == "running";
    let job = jobs.as_array().expect("a list").iter().find(running).expect("some run").clone();
    operator.delete(&format!("/api/bulk/{}", job["id"].as_str().expect("an id"))).await.expect_ok();
}
