//! `callboard tasks import` and `export`, over kills of the program and of the server.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::program::Home;
use crate::support::{Client, FakeWorker, Server, until};

/// The file of all tasks that an export writes, line by line.
fn lines(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a file");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// An address that stays while the server behind it changes its port.
async fn relay(to: &Arc<Mutex<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it has one");
    let to = Arc::clone(to);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let to = to.lock().unwrap_or_else(PoisonError::into_inner).clone();
            tokio::spawn(async move {
                let Ok(mut far) = TcpStream::connect(to.trim_start_matches("http://")).await else {
                    return;
                };
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    format!("http://{address}")
}

async fn total(client: &Client) -> u64 {
    let listed = client.get("/api/tasks?limit=1").await;
    listed.body["pagination"]["total"].as_u64().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_is_imported_once_over_kills_of_the_program_and_the_server() {
    const LINES: usize = 4_000;
    let mut server = Server::with(&[("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000")]);
    let operator = server.key("operator").await;
    let address = Arc::new(Mutex::new(server.url.clone()));
    let home = Home::new(&relay(&address).await).with_key(&operator);
    let text: Vec<_> = (0..LINES).map(|at| format!("{{\"prompt\":\"line {at}\"}}\n")).collect();
    let text = text.concat();
    let file = home.file("tasks.jsonl", &text);
    let client = Client::new(&server.url, &operator);

    // The program is killed.
    let mut child = home.command(&["tasks", "import", &file]).spawn().expect("it starts");
    until("some are in", async || total(&client).await > 300).await;
    child.kill().await.expect("it runs");
    let before = total(&client).await;
    assert!(before < LINES as u64, "it was killed in the middle");

    // It goes on, and the server is killed.
    let child = home.command(&["tasks", "import", &file]).spawn().expect("it starts");
    until("more are in", async || total(&client).await > before).await;
    server.kill();
    server.restart();
    address.lock().expect("no panic").clone_from(&server.url);
    let ended = child.wait_with_output().await.expect("it ends");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(!Path::new(&format!("{file}.state")).exists());

    let client = Client::new(&server.url, &operator);
    assert_eq!(total(&client).await, LINES as u64, "each line once");
    let out = home.file("out.jsonl", "");
    home.run(&["tasks", "export", &out]).await.ok();
    let prompts: HashSet<String> = lines(&out)
        .iter()
        .map(|task| task["prompt"].as_str().expect("a prompt").to_owned())
        .collect();
    assert_eq!((lines(&out).len(), prompts.len()), (LINES, LINES));
}

#[tokio::test]
async fn refused_lines_are_mended_and_the_others_are_not_submitted_twice() {
    let server = Server::start();
    let operator = server.key("operator").await;
    let home = Home::new(&server.url).with_key(&operator);
    let client = Client::new(&server.url, &operator);
    let file = home.file("t.jsonl", "{\"prompt\":\"a\"}\n\n{\"prompt\":1}\n{\"prompt\":\"c\"}\n");
    let refused = home.run(&["tasks", "import", &file]).await.failed(10);
    assert!(refused.contains("line 3: ") && refused.contains("1 lines were refused"), "{refused}");
    assert_eq!(total(&client).await, 2);
    home.file("t.jsonl", "{\"prompt\":\"a\"}\n\n{\"prompt\":\"b\"}\n{\"prompt\":\"c\"}\n");
    let counts = home.json(&["tasks", "import", &file]).await;
    assert_eq!(counts, json!({"submitted": 1, "replayed": 2, "refused": 0, "lines": 3}));
    assert_eq!(total(&client).await, 3);
    // Done, it is another import.
    home.run(&["tasks", "import", &file]).await.ok();
    assert_eq!(total(&client).await, 6);

    let rows = home
        .file("t.csv", "prompt,priority,tags,context.city\n\"Hi, \"\"you\"\"\",9,\"a,b\",Rome\n");
    let printed = home.run(&["tasks", "import", &rows, "-o", "jsonl"]).await.ok();
    let answer: Value = serde_json::from_str(printed.trim()).expect("JSON");
    let task = client.task(answer["id"].as_str().expect("an id")).await;
    assert_eq!(
        [&task["prompt"], &task["priority"], &task["tags"], &task["context"]],
        [&json!("Hi, \"you\""), &json!(9), &json!(["a", "b"]), &json!({"city": "Rome"})]
    );
    home.run(&["tasks", "import", "/nowhere.jsonl"]).await.failed(1);
    let faulty = home.file("f.csv", "prompt,priority\nx,high\n");
    assert!(home.run(&["tasks", "import", &faulty]).await.failed(5).contains("row 1"));
}

#[tokio::test]
async fn a_file_in_openais_batch_format_goes_in_and_comes_out() {
    let server = Server::start();
    let operator = server.key("operator").await;
    let home = Home::new(&server.url).with_key(&operator);
    let client = Client::new(&server.url, &operator);
    let request = |id: &str, ask: &str| {
        json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions",
            "body": {"model": "m", "messages": [{"role": "user", "content": ask}]}})
        .to_string()
    };
    let file = format!("{}\n{}\n", request("r-1", "one"), request("r-2", "two"));
    let file = home.file("batch.jsonl", &file);
    home.run(&["tasks", "import", &file]).await.ok();
    let again = home.json(&["tasks", "import", &file]).await;
    assert_eq!(again["replayed"], 2, "custom_id is the idempotency key");
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 2).await;
    worker.run(|task| match task["prompt"].as_str() {
        Some("one") => Ok("eins".to_owned()),
        _ => Err("no".to_owned()),
    });
    until("they have ended", async || {
        client.get("/api/tasks?status=completed,failed").await.body["pagination"]["total"] == 2
    })
    .await;
    let out = home.file("out.jsonl", "");
    home.run(&["tasks", "export", &out, "--as", "openai"]).await.ok();
    let mut out = lines(&out);
    out.sort_by_key(|line| line["custom_id"].to_string());
    let answer = &out[0]["response"]["body"]["choices"][0]["message"];
    assert_eq!((&out[0]["custom_id"], &answer["content"]), (&json!("r-1"), &json!("eins")));
    assert_eq!((&out[1]["custom_id"], &out[1]["response"]), (&json!("r-2"), &Value::Null));
    assert!(out[1]["error"]["code"].is_string(), "{out:?}");
    let table =
        home.run(&["tasks", "export", "-", "--as", "csv", "--status", "completed"]).await.ok();
    assert!(table.starts_with("id,title,status,model") && table.lines().count() == 2, "{table}");
}
