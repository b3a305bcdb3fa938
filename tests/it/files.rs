//! Files over HTTP: upload, download, parts, refusals, and what is left of them.

mod parts;
mod work;

use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Answer, Client, Server, until};

/// A picture of one pixel.
pub(crate) const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
const DIGEST_OF_HI: &str = "sha-256=j0NDRmSPa5bfid2pAcUXaxCm2Dlh3TwayItZstwyeqQ=";

pub(crate) async fn upload(
    client: &Client,
    path: &str,
    kind: &str,
    body: impl Into<reqwest::Body>,
) -> Answer {
    let request = client.request(Method::POST, path).header("content-type", kind).body(body);
    client.send(request).await
}

pub(crate) async fn download(
    client: &Client,
    id: &str,
    range: Option<&str>,
) -> (u16, HeaderMap, Vec<u8>) {
    let mut request = client.request(Method::GET, &format!("/api/files/{id}/content"));
    if let Some(range) = range {
        request = request.header("range", range);
    }
    let answer = request.send().await.expect("an answer");
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    (status, headers, answer.bytes().await.expect("it is whole").to_vec())
}

pub(crate) fn id_of(file: &Value) -> &str {
    file["id"].as_str().expect("an id")
}

#[tokio::test]
async fn a_file_comes_back_as_it_was_and_in_parts_also_after_a_crash() {
    let mut server = Server::start();
    let client = server.client("operator").await;
    let body: Vec<u8> = PNG.iter().copied().chain((0..241_u8).cycle().take(200_000)).collect();
    let path = "/api/files?name=R%C3%B6ntgen%20%221%22.png";
    let file = upload(&client, path, "text/html", body.clone()).await.expect(201);
    assert_eq!(
        (&file["contentType"], &file["kind"], &file["bytes"], &file["name"]),
        (&json!("image/png"), &json!("image"), &json!(body.len()), &json!("Röntgen \"1\".png")),
        "by the bytes, not by the header"
    );
    let id = id_of(&file);
    let (status, headers, whole) = download(&client, id, None).await;
    assert_eq!((status, whole == body), (200, true));
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-length", &body.len().to_string()),
        ("accept-ranges", "bytes"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("cache-control", "private, no-store"),
        (
            "content-disposition",
            "attachment; filename=\"R_ntgen _1_.png\"; filename*=UTF-8''R%C3%B6ntgen%20%221%22.png",
        ),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    server.kill();
    server.restart();
    let client = client.at(&server.url);
    let (status, headers, part) = download(&client, id, Some("bytes=3999-8001")).await;
    assert_eq!((status, &*part), (206, &body[3_999..8_002]));
    assert_eq!(headers["content-range"], format!("bytes 3999-8001/{}", body.len()));
    let (status, headers, _) = download(&client, id, Some("bytes=999999-")).await;
    assert_eq!(status, 416);
    assert_eq!(headers["content-range"], format!("bytes */{}", body.len()));
    let shown = client.get(&format!("/api/files/{id}")).await.expect(200);
    assert_eq!(shown, file);
    let list = client.get("/api/files").await.expect(200);
    assert_eq!(list, json!([file]));
    client.delete(&format!("/api/files/{id}")).await.expect(200);
    assert_eq!(client.get(&format!("/api/files/{id}")).await.refused(404), "NOT_FOUND");
}

#[tokio::test]
async fn a_form_has_one_part_with_the_file() {
    let server = Server::start();
    let client = server.client("operator").await;
    let form = |parts: &[&str]| {
        let part = |text: &&str| {
            format!(
                "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\\\a\\\\note.csv\"\r\n\
                 Content-Type: text/csv; charset=utf-8\r\n\r\n{text}\r\n"
            )
        };
        parts.iter().map(part).collect::<String>() + "--b--\r\n"
    };
    let kind = "multipart/form-data; boundary=b";
    let file = upload(&client, "/api/files", kind, form(&["a,b\r\n1,2"])).await.expect(201);
    assert_eq!(
        (&file["name"], &file["contentType"], &file["bytes"], &file["kind"]),
        (&json!("note.csv"), &json!("text/csv"), &json!(8), &json!("document"))
    );
    assert_eq!(download(&client, id_of(&file), None).await.2, b"a,b\r\n1,2");
    for (body, field, rule) in [
        (form(&["a", "b"]), "body", "length"),
        (form(&[]), "body", "required"),
        (form(&[""]), "body", "length"),
        ("--b\r\nContent-Disp".to_owned(), "body", "format"),
    ] {
        let refused = upload(&client, "/api/files", kind, body).await;
        assert_eq!(refused.fault(), (field.to_owned(), rule.to_owned()));
    }
    let refused = upload(&client, "/api/files", "multipart/form-data", "x").await;
    assert_eq!(refused.refused(415), "UNSUPPORTED_MEDIA_TYPE");
    let list = client.get("/api/files").await.expect(200);
    assert_eq!(list.as_array().map(Vec::len), Some(1), "nothing is kept of the others");
}

#[tokio::test]
async fn a_body_that_is_not_what_was_announced_leaves_nothing() {
    let server = Server::with(&[("LIMITS__FILE_BYTES", "5000")]);
    let client = server.client("operator").await;
    let with = async |name: &str, value: &str, body: &'static str| {
        let request = client.request(Method::POST, "/api/files").header(name, value).body(body);
        client.send(request).await
    };
    with("digest", DIGEST_OF_HI, "hi").await.expect(201);
    with("content-digest", "sha-256=:j0NDRmSPa5bfid2pAcUXaxCm2Dlh3TwayItZstwyeqQ=:", "hi")
        .await
        .expect(201);
    let fault = ("Digest".to_owned(), "format".to_owned());
    assert_eq!(with("digest", DIGEST_OF_HI, "ho").await.fault(), fault);
    assert_eq!(with("digest", "sha-256=hi", "hi").await.fault(), fault);
    let refused = with("content-encoding", "gzip", "hi").await;
    assert_eq!(refused.refused(415), "UNSUPPORTED_MEDIA_TYPE");
    let kind = "application/octet-stream";
    upload(&client, "/api/files", kind, vec![1; 5_000]).await.expect(201);
    let refused = upload(&client, "/api/files", kind, vec![1; 5_001]).await;
    assert_eq!(refused.refused(413), "PAYLOAD_TOO_LARGE");
    let refused = upload(&client, "/api/files", kind, Vec::new()).await;
    assert_eq!(refused.fault(), ("body".to_owned(), "length".to_owned()));
    let refused = upload(&client, "/api/files?name=a%0Ab", kind, "hi").await;
    assert_eq!(refused.fault(), ("name".to_owned(), "format".to_owned()));

    let address = server.url.strip_prefix("http://").expect("without TLS");
    let mut socket = TcpStream::connect(address).await.expect("it listens");
    let head = format!(
        "POST /api/files HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\ncontent-length: 4000\r\n\r\nhalf",
        client.token()
    );
    socket.write_all(head.as_bytes()).await.expect("it reads");
    socket.shutdown().await.expect("it is open");
    let mut answer = Vec::new();
    // The server may close the connection without an answer.
    let _ = socket.read_to_end(&mut answer).await;
    assert!(
        !String::from_utf8_lossy(&answer).contains("201"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    let list = client.get("/api/files").await.expect(200);
    assert_eq!(list.as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn files_are_seen_in_their_environment_by_their_roles() {
    let server = Server::start();
    let operator = server.client("operator").await;
    let file = upload(&operator, "/api/files", "image/png", PNG).await.expect(201);
    let path = format!("/api/files/{}", id_of(&file));
    for role in ["viewer", "worker"] {
        let client = server.client(role).await;
        client.get(&path).await.expect(200);
        assert_eq!(download(&client, id_of(&file), None).await.2, PNG, "{role}");
        let refused = upload(&client, "/api/files", "image/png", PNG).await;
        assert_eq!(refused.refused(403), "FORBIDDEN", "{role}");
        assert_eq!(client.delete(&path).await.refused(403), "FORBIDDEN", "{role}");
    }
    let admin = server.admin().await;
    let key = async |body: Value| {
        let made = admin.post("/api/auth/keys", &body).await.expect(201);
        Client::new(&server.url, made["key"].as_str().expect("a key"))
    };
    let test = key(json!({"name": "t", "role": "operator", "environment": "test"})).await;
    let bound = key(json!({"name": "w", "role": "worker", "queues": ["q"]})).await;
    for client in [&test, &bound] {
        assert_eq!(client.get(&path).await.refused(404), "NOT_FOUND");
        assert_eq!(client.get(&format!("{path}/content")).await.refused(404), "NOT_FOUND");
    }
    assert_eq!(bound.get("/api/files").await.refused(403), "FORBIDDEN");
    assert_eq!(test.get("/api/files").await.expect(200), json!([]));
    // The same bytes in the sandbox are another file of another content.
    let other = upload(&test, "/api/files", "image/png", PNG).await.expect(201);
    operator.delete(&path).await.expect(200);
    assert_eq!(download(&test, id_of(&other), None).await.2, PNG);
}

#[tokio::test]
async fn files_count_in_stored_bytes() {
    let server = Server::with(&[("LIMITS__STORED_BYTES", "100000")]);
    let client = server.client("operator").await;
    let kind = "application/octet-stream";
    // The measurement at the start may end after the first upload, and then count it.
    upload(&client, "/api/files", kind, vec![1; 150_000]).await.expect(201);
    until("the quota is used up", async || {
        let refused = upload(&client, "/api/files", kind, vec![2; 10]).await;
        refused.status == 403
    })
    .await;
    let refused = client.post("/api/tasks", &json!({"prompt": "p"})).await;
    assert_eq!(refused.refused(403), "QUOTA_EXCEEDED");
}
