//! Deliveries of webhooks, against the real server.

use serde_json::json;

use super::program::Home;
use crate::support::{Server, until};

#[tokio::test]
async fn deliveries_are_listed_and_sent_again_and_the_secret_is_shown_to_an_admin() {
    let server = Server::with(&[
        ("WEBHOOKS__ALLOW", "127.0.0.1/32"),
        ("WEBHOOKS__EVENTS", "task.cancelled"),
        ("WEBHOOKS__RETRY_SECONDS", ""),
    ]);
    // Nobody listens there any more.
    let unused = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", unused.local_addr().expect("an address"));
    drop(unused);
    let key = server.key("operator").await;
    let operator = server.client("operator").await;
    let task = operator.submit(&json!({"prompt": "p", "callbackUrl": url})).await;
    operator.delete(&format!("/api/tasks/{task}")).await.expect_ok();

    let home = Home::new(&server.url).with_key(&key);
    let dead = ["webhooks", "list", "--status", "dead", "--task", &task];
    until("the delivery is dead", async || {
        home.json(&dead).await["data"].as_array().is_some_and(|list| list.len() == 1)
    })
    .await;
    let listed = home.json(&dead).await;
    let delivery = &listed["data"][0];
    assert_eq!((&delivery["url"], &delivery["attempts"]), (&json!(url), &json!(1)));
    let id = delivery["id"].as_str().expect("an id");
    let table = home.run(&["webhooks", "list"]).await.ok();
    assert!(table.contains(id) && table.contains("task.cancelled"), "{table}");

    let again = home.json(&["webhooks", "redeliver", id]).await;
    assert_eq!((&again["id"], &again["status"]), (&json!(id), &json!("pending")));
    home.run(&["webhooks", "redeliver", "dlv_00000000000000000000000000"]).await.failed(3);
    home.run(&["webhooks", "list", "--status", "done"]).await.failed(5);
    home.run(&["webhooks", "secret"]).await.failed(4);

    let admin = Home::new(&server.url).signed_in().await;
    let secret = admin.run(&["webhooks", "secret"]).await.ok();
    let kept = std::fs::read_to_string(server.data().join("webhook.secret")).expect("it is kept");
    assert_eq!(secret, format!("{kept}\n"));
    let own = admin.run(&["webhooks", "secret", "--sandbox"]).await.ok();
    let secrets = json!({"secret": kept, "sandboxSecret": own.trim_end()});
    assert_eq!(admin.json(&["webhooks", "secret"]).await, secrets);
    assert_ne!(own, secret);
}
