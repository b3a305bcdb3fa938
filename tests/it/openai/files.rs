//! Files in the form of OpenAI's interface.

use reqwest::Method;
use serde_json::{Value, json};

use super::installed;
use crate::files::{PNG, download};
use crate::support::{Answer, Client, Server};

/// A form with these parts: name, file name and bytes.
pub(crate) async fn send_form(client: &Client, parts: &[(&str, Option<&str>, &[u8])]) -> Answer {
    let mut body = Vec::new();
    for (name, file, bytes) in parts {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        let head = format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--b--\r\n");
    let request = client.request(Method::POST, "/v1/files");
    client.send(request.header("content-type", "multipart/form-data; boundary=b").body(body)).await
}

/// Uploads a file; returns it.
pub(crate) async fn upload(client: &Client, name: &str, purpose: &str, bytes: &[u8]) -> Value {
    let parts = [("purpose", None, purpose.as_bytes()), ("file", Some(name), bytes)];
    let answer = send_form(client, &parts).await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    answer.body
}

/// The code and the param of a refusal.
#[track_caller]
pub(crate) fn refused(answer: &Answer, status: u16) -> (&str, &str) {
    assert_eq!(answer.status, status, "{:#}", answer.body);
    let error = &answer.body["error"];
    (error["code"].as_str().expect("a code"), error["param"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn a_file_has_openais_shape_and_is_the_file_of_the_api() {
    let server = Server::start();
    let client = server.client("operator").await;
    let file = upload(&client, "Röntgen.png", "vision", PNG).await;
    let id = file["id"].as_str().expect("an id");
    let created = file["created_at"].as_u64().expect("seconds");
    assert!((1_700_000_000..10_000_000_000).contains(&created), "{created}");
    assert_eq!(
        file,
        json!({
            "id": id, "object": "file", "bytes": PNG.len(), "created_at": created,
            "filename": "Röntgen.png", "purpose": "vision", "status": "processed",
        })
    );
    assert_eq!(client.get(&format!("/v1/files/{id}")).await.body, file);
    let api = client.get(&format!("/api/files/{id}")).await.expect(200);
    assert_eq!((&api["name"], &api["kind"]), (&json!("Röntgen.png"), &json!("image")));
    let content = client.request(Method::GET, &format!("/v1/files/{id}/content")).send().await;
    let content = content.expect("an answer");
    assert_eq!(content.headers()["content-type"], "image/png");
    assert_eq!(&*content.bytes().await.expect("it is whole"), PNG);
    let deleted = client.delete(&format!("/v1/files/{id}")).await;
    assert_eq!(deleted.body, json!({"id": id, "object": "file", "deleted": true}));
    assert_eq!(refused(&client.get(&format!("/v1/files/{id}")).await, 404), ("NOT_FOUND", ""));

    // A file of the API, and parts in the other order.
    let other = crate::files::upload(&client, "/api/files", "text/plain", "hi").await.expect(201);
    let id = other["id"].as_str().expect("an id");
    let shown = client.get(&format!("/v1/files/{id}")).await.body;
    assert_eq!([&shown["filename"], &shown["purpose"]], [&json!(id), &json!("user_data")]);
    let parts: [(&str, Option<&str>, &[u8]); 4] = [
        ("file", Some("a.jsonl"), b"{}\n"),
        ("expires_after[seconds]", None, b"7200"),
        ("expires_after[anchor]", None, b"created_at"),
        ("purpose", None, b"batch"),
    ];
    let file = send_form(&client, &parts).await.body;
    let kept = file["expires_at"].as_u64().zip(file["created_at"].as_u64());
    assert_eq!(kept.map(|(end, from)| end - from), Some(7_200), "{file}");
    let month = upload(&client, "b.jsonl", "batch", b"{}\n").await;
    let kept = month["expires_at"].as_u64().zip(month["created_at"].as_u64());
    assert_eq!(kept.map(|(end, from)| end - from), Some(30 * 86_400), "{month}");
}

#[tokio::test]
async fn a_form_that_is_no_upload_is_refused_and_leaves_nothing() {
    let server = Server::with(&[("LIMITS__FILE_BYTES", "5000")]);
    let client = server.client("operator").await;
    let file: (&str, Option<&str>, &[u8]) = ("file", Some("a"), b"hi");
    let purpose: (&str, Option<&str>, &[u8]) = ("purpose", None, b"batch");
    let text = |name, text: &'static str| (name, None::<&str>, text.as_bytes());
    let long = [b'x'; 5_001];
    for (parts, code, param) in [
        (vec![file], "VALIDATION_ERROR", "purpose"),
        (vec![purpose], "VALIDATION_ERROR", "file"),
        (vec![purpose, file, file], "VALIDATION_ERROR", "file"),
        (vec![purpose, ("file", Some("a"), b"".as_slice())], "VALIDATION_ERROR", "file"),
        (vec![file, text("purpose", "batch_output")], "VALIDATION_ERROR", "purpose"),
        (vec![file, text("purpose", "anything")], "VALIDATION_ERROR", "purpose"),
        (vec![file, purpose, text("colour", "red")], "unsupported", "colour"),
        (
            vec![file, purpose, text("expires_after[seconds]", "7200")],
            "VALIDATION_ERROR",
            "expires_after[anchor]",
        ),
        (
            vec![file, purpose, text("expires_after[seconds]", "60")],
            "VALIDATION_ERROR",
            "expires_after[seconds]",
        ),
        (vec![("purpose", None, long.as_slice()), file], "VALIDATION_ERROR", "purpose"),
    ] {
        assert_eq!(refused(&send_form(&client, &parts).await, 400), (code, param), "{parts:?}");
    }
    let large = send_form(&client, &[purpose, ("file", Some("a"), &long)]).await;
    assert_eq!(refused(&large, 413).0, "PAYLOAD_TOO_LARGE");
    let no_form = client.post_raw("/v1/files", "{}").await;
    assert_eq!(refused(&no_form, 415).0, "UNSUPPORTED_MEDIA_TYPE");
    assert_eq!(client.get("/v1/files").await.body["data"], json!([]));
}

#[tokio::test]
async fn files_are_listed_page_by_page_by_purpose_in_either_order() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut ids = Vec::new();
    for at in 0..5_u8 {
        let purpose = if at == 2 { "batch" } else { "user_data" };
        let file = upload(&client, &format!("{at}"), purpose, &[at + b'0']).await;
        ids.push(file["id"].as_str().expect("an id").to_owned());
    }
    let list = async |query: &str| client.get(&format!("/v1/files{query}")).await.body;
    let ids_of = |page: &Value| -> Vec<String> {
        let data = page["data"].as_array().expect("a list").iter();
        data.map(|file| file["id"].as_str().expect("an id").to_owned()).collect()
    };
    let newest: Vec<_> = ids.iter().rev().cloned().collect();
    let all = list("").await;
    assert_eq!(
        (&all["object"], &all["has_more"], &all["first_id"], &all["last_id"]),
        (&json!("list"), &json!(false), &json!(ids[4]), &json!(ids[0]))
    );
    assert_eq!(ids_of(&all), newest);
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = list(&format!("?limit=2{after}")).await;
        seen.extend(ids_of(&page));
        if page["has_more"] == false {
            break;
        }
        after = format!("&after={}", page["last_id"].as_str().expect("an id"));
    }
    assert_eq!(seen, newest);
    let next = list(&format!("?order=asc&limit=2&after={}", ids[1])).await;
    assert_eq!((ids_of(&next), &next["has_more"]), (ids[2..4].to_vec(), &json!(true)));
    assert_eq!(ids_of(&list("?purpose=batch").await), [ids[2].clone()]);
    assert_eq!(ids_of(&list("?purpose=user_data&limit=10000").await).len(), 4);
    for query in ["?limit=0", "?limit=10001", "?order=up", "?after=x", "?purpose=x", "?x=1"] {
        assert_eq!(client.get(&format!("/v1/files{query}")).await.status, 400, "{query}");
    }
}

#[tokio::test]
async fn files_are_seen_in_their_environment_and_project_alone() {
    let server = Server::start();
    let (operator, root) = (server.client("operator").await, server.admin().await);
    let file = upload(&operator, "a", "batch", b"hi").await;
    let path = format!("/v1/files/{}", file["id"].as_str().expect("an id"));
    let key = async |body: Value, project: &str| {
        let request = root.request(Method::POST, "/api/auth/keys");
        let made = root.send(request.header("Callboard-Project", project).json(&body)).await;
        Client::new(&server.url, made.expect(201)["key"].as_str().expect("a key"))
    };
    let project = root.post("/api/projects", &json!({"name": "other"})).await.expect(201);
    let other = project["id"].as_str().expect("an id");
    let test = json!({"name": "t", "role": "operator", "environment": "test"});
    let clients = [
        key(test, "default").await,
        key(json!({"name": "p", "role": "admin"}), other).await,
        key(json!({"name": "w", "role": "worker", "queues": ["q"]}), "default").await,
    ];
    for (at, client) in clients.iter().enumerate() {
        assert_eq!(client.get(&path).await.status, 404, "{at}");
        assert_eq!(client.get(&format!("{path}/content")).await.status, 404, "{at}");
        let list = client.get("/v1/files").await;
        assert!(at == 2 && list.status == 403 || list.body["data"] == json!([]), "{}", list.body);
        let deleted = client.delete(&path).await.status;
        assert!(deleted == 404 || (at == 2 && deleted == 403), "{deleted}");
    }
    assert_eq!(operator.get(&path).await.body, file);
}

#[tokio::test]
async fn the_library_uploads_lists_reads_and_deletes_files() {
    let (server, installed) = (Server::start(), installed().await);
    let client = server.client("operator").await;
    let said = installed.tell("files.py", &client, &[]).await;
    let id = said["id"].as_str().expect("an id");
    assert_eq!(
        said,
        json!({
            "id": id, "purpose": "batch", "filename": "in.jsonl", "bytes": 3, "status": "processed",
            "kept": 3_600, "content": "{}\n", "listed": 25, "ascending": true, "batches": 1,
            "deleted": true, "missing": 404, "param": "purpose",
        })
    );
    assert_eq!(download(&client, id, None).await.0, 404);
}
