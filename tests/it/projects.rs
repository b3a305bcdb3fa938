//! Projects: what one team makes is neither seen, counted nor guessed by another one.

mod ids;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use callboard::http::document;
use callboard_domain::credential::project_named;
use reqwest::Method;
use serde_json::{Value, json};

use crate::erasure::{compact, held};
use crate::support::{Answer, Client, FakeWorker, Server, until};

/// A word that stands in every text and name of a project.
const WORD: &str = "zirconium";

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value:#}"))
}

/// A project, with a key of an admin and one of a worker.
struct Team {
    id: String,
    admin: Client,
    worker: String,
}

/// A request of a session for a project.
fn within(client: &Client, project: &str, method: Method, path: &str) -> reqwest::RequestBuilder {
    client.request(method, path).header("Callboard-Project", project)
}

async fn key(root: &Client, project: &str, key: Value) -> String {
    let made = within(root, project, Method::POST, "/api/auth/keys").json(&key);
    text(&root.send(made).await.expect(201), "key").to_owned()
}

async fn team(server: &Server, root: &Client, name: &str) -> Team {
    let project = root.post("/api/projects", &json!({"name": name})).await.expect(201);
    let id = text(&project, "id").to_owned();
    let admin = key(root, &id, json!({"name": "a", "role": "admin"})).await;
    let worker = key(root, &id, json!({"name": "w", "role": "worker"})).await;
    Team { id, admin: Client::new(&server.url, &admin), worker }
}

/// Answers the next task.
async fn finish(worker: &mut FakeWorker, output: &str) {
    let assigned = worker.assignment().await;
    worker.complete(&assigned["lease"], output).await;
}

/// Everything that a project can have, with `word` in every text; returns the identifiers by the beginning of their routes.
async fn fill(server: &Server, team: &Team, word: &str) -> BTreeMap<&'static str, String> {
    let (admin, mut ids) = (&team.admin, BTreeMap::new());
    let mut worker = FakeWorker::connect(server, &team.worker, 4).await;
    let task = admin.submit(&json!({"prompt": format!("a {word}"), "tags": [word]})).await;
    finish(&mut worker, &format!("{word} too")).await;
    admin.task_with_status(&task, "completed").await;
    let held = json!({"prompt": word, "hitl": {"required": true}});
    let held = admin.submit(&held).await;
    finish(&mut worker, word).await;
    admin.task_when(&held, |task| task["waitingFor"] == "approval").await;
    ids.insert("/api/hitl/", held);
    ids.insert("/api/tasks/", task);
    let plan = json!([{"id": "one", "prompt": word}, {"id": "two", "type": "wait", "signal": word, "dependsOn": ["one"]}]);
    let plan = admin.plan(&plan).await;
    let execution = admin.execute(&plan, &json!({})).await;
    finish(&mut worker, word).await;
    ids.insert("/api/plans/executions/", execution.clone());
    ids.insert("/api/executions/", execution);
    let schedule = json!({
        "name": word, "cron": "0 3 * * *", "target": {"task": {"prompt": word}},
    });
    let schedule = admin.post("/api/schedules", &schedule).await.expect(201);
    ids.insert("/api/schedules/", text(&schedule, "id").to_owned());
    ids.insert("/api/plans/", plan);
    let template = json!({
        "name": word, "description": word, "version": "1.0.0", "industry": "devops", "tags": [word],
        "visibility": "organization",
        "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}},
        "steps": [{"id": "one", "prompt": format!("{word} {{{{input.x}}}}")}],
    });
    admin.post("/api/templates", &template).await.expect(201);
    let template = format!("{word}-v1");
    ids.insert("/api/templates/", template.clone());
    let batch =
        json!({"templateId": template, "name": word, "rows": [{"key": word, "input": {"x": "1"}}]});
    let batch = admin.post("/api/batches", &batch).await.expect(201);
    ids.insert("/api/batches/", text(&batch, "id").to_owned());
    let budget =
        json!({"limit": 5, "period": "day", "match": {"tags": [word]}, "onExceed": "alert"});
    let budget = admin.post("/api/budgets", &budget).await.expect_ok();
    ids.insert("/api/budgets/", text(&budget, "id").to_owned());
    let bulk = json!({"action": "cancel", "filter": {"tags": [word]}});
    let bulk = admin.post("/api/bulk", &bulk).await;
    ids.insert("/api/bulk/", bulk.body["data"]["id"].as_str().unwrap_or_default().to_owned());
    let file = admin.request(Method::POST, &format!("/api/files?name={word}.txt"));
    let file = admin
        .send(file.header("content-type", "text/plain").body(word.to_owned()))
        .await
        .expect(201);
    ids.insert("/api/files/", text(&file, "id").to_owned());
    let view =
        json!({"name": word, "page": "tasks", "query": format!("tags={word}"), "shared": true});
    let view = admin.post("/api/views", &view).await.expect(201);
    ids.insert("/api/views/", text(&view, "id").to_owned());
    let queue = admin.request(Method::PATCH, &format!("/api/queues/{word}"));
    admin.send(queue.json(&json!({"concurrent": 3}))).await.expect_ok();
    let limits = admin.request(Method::PUT, &format!("/api/models/{word}/limits"));
    admin.send(limits.json(&json!({"requestsPerMinute": 3}))).await.expect_ok();
    ids.insert("/api/workers/", worker.id.clone());
    ids.insert("/api/projects/", team.id.clone());
    let keys = admin.get("/api/auth/keys").await.expect_ok();
    ids.insert("/api/auth/keys/", text(&keys[0], "id").to_owned());
    ids
}

/// An identifier of the same kind that nothing has.
fn unknown(id: &str) -> String {
    match id.rsplit_once('_') {
        Some((prefix, _)) => format!("{prefix}_00000000000000000000000001"),
        None => format!("{id}x"),
    }
}

/// The answer to a request that names this identifier, without what is of the request itself.
async fn answer(client: &Client, method: &Method, path: &str, id: &str) -> (u16, String) {
    let mut request = client.request(method.clone(), path);
    if !matches!(*method, Method::GET | Method::DELETE) {
        request = request.json(&json!({}));
    }
    let Answer { status, mut body, .. } = client.send(request).await;
    body["meta"].take();
    (status.as_u16(), body.to_string().replace(id, "ID"))
}

#[tokio::test]
async fn nothing_of_a_project_is_seen_counted_or_guessed_from_another_one() {
    let server = Server::with(&[("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000")]);
    let root = server.admin().await;
    let alpha = team(&server, &root, "alpha").await;
    let beta = team(&server, &root, "beta").await;
    let ids = fill(&server, &alpha, WORD).await;
    let test =
        key(&root, &alpha.id, json!({"name": "t", "role": "operator", "environment": "test"}));
    let test = Client::new(&server.url, &test.await);
    let default = server.client("admin").await;
    let document = document();
    let (mut wrong, mut asked) = (Vec::new(), 0);
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            let method: Method = method.to_uppercase().parse().expect("a method");
            // What has no end.
            if path.ends_with("/stream") || ["/api/events", "/ws"].contains(&path.as_str()) {
                continue;
            }
            let own = ids
                .iter()
                .filter(|(begin, _)| path.starts_with(**begin))
                .max_by_key(|it| it.0.len());
            let named = path.contains('{').then_some(own).flatten();
            for (who, client) in [("beta", &beta.admin), ("default", &default), ("sandbox", &test)]
            {
                if who == "default" && path.starts_with("/api/projects") {
                    continue;
                }
                if who == "sandbox" && path.starts_with("/api/projects") {
                    continue;
                }
                // The audit log and the metrics are the server's.
                if who == "default" && (path == "/api/audit" || path.ends_with("/metrics")) {
                    continue;
                }
                match named {
                    Some((_, id)) => {
                        let place = |id: &str| {
                            let begin = path.find('{').expect("a parameter");
                            let end = path.find('}').expect("its end") + 1;
                            let rest =
                                path[end..].replace("{other}", id).replace("{version}", "1.0.0");
                            let rest = rest
                                .replace("{step}", "one")
                                .replace("{user}", "usr_00000000000000000000000001");
                            format!("{}{id}{rest}", &path[..begin])
                        };
                        let other = unknown(id);
                        let known = answer(client, &method, &place(id), id).await;
                        let nobodys = answer(client, &method, &place(&other), &other).await;
                        asked += 1;
                        if known != nobodys || known.0 < 400 {
                            wrong.push(format!(
                                "{who}: {method} {path}: {known:?}, of nothing {nobodys:?}"
                            ));
                        }
                    }
                    None if method == Method::GET && !path.contains('{') => {
                        let mut request = client.request(Method::GET, path);
                        if path == "/api/search" {
                            request = request.query(&[("q", &WORD[..4])]);
                        }
                        let answer = request.send().await.expect("an answer");
                        let body = answer.text().await.expect("a body");
                        asked += 1;
                        let seen = |id: &&String| !id.is_empty() && body.contains(id.as_str());
                        if body.contains(WORD) || ids.values().find(seen).is_some() {
                            wrong.push(format!("{who}: GET {path} shows {body}"));
                        }
                    }
                    None => {}
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {asked}: {wrong:#?}", wrong.len());
    assert!(asked > 250, "{asked} requests");
}

#[tokio::test]
async fn the_same_names_are_other_things_in_another_project() {
    let server = Server::start();
    let root = server.admin().await;
    let alpha = team(&server, &root, "alpha").await;
    let beta = team(&server, &root, "beta").await;
    let task = json!({"prompt": "x"});
    let mut made = Vec::new();
    for client in [&alpha.admin, &beta.admin] {
        let one = client.post_once("/api/tasks", "k", &task).await.expect(201);
        let again = client.post_once("/api/tasks", "k", &task).await.expect(201);
        assert_eq!(one["id"], again["id"]);
        made.push(text(&one, "id").to_owned());
    }
    assert_ne!(made[0], made[1]);
    // A warning speaks of the project's own workers.
    let register = json!({
        "type": "register", "name": "w", "version": "0", "queues": [WORD], "models": [WORD], "concurrency": 1,
    });
    let _of_alpha = FakeWorker::register(&server.url, &alpha.worker, register).await;
    for client in [&alpha.admin, &beta.admin, &alpha.admin] {
        let warned = client.post("/api/tasks", &json!({"prompt": "y", "queue": "idle"})).await;
        let said = warned.expect(201)["warnings"].to_string();
        assert_eq!(said.contains(WORD), client.token() == alpha.admin.token(), "{said}");
    }
    // A pause is of the queue of one project, and a worker serves its own.
    let pause = alpha.admin.request(Method::PATCH, "/api/queues/default");
    alpha.admin.send(pause.json(&json!({"paused": true}))).await.expect_ok();
    let mut of_alpha = FakeWorker::connect(&server, &alpha.worker, 2).await;
    let mut of_beta = FakeWorker::connect(&server, &beta.worker, 2).await;
    finish(&mut of_beta, "done").await;
    beta.admin.task_with_status(&made[1], "completed").await;
    let waiting = alpha.admin.task(&made[0]).await;
    assert_eq!(waiting["waitingFor"], "queue_paused");
    let resume = alpha.admin.request(Method::PATCH, "/api/queues/default");
    alpha.admin.send(resume.json(&json!({"paused": false}))).await.expect_ok();
    finish(&mut of_alpha, "done").await;
    alpha.admin.task_with_status(&made[0], "completed").await;
    // A budget counts in its project.
    let budget =
        json!({"limit": 1, "period": "day", "match": {"tags": ["x"]}, "onExceed": "reject"});
    alpha.admin.post("/api/budgets", &budget).await.expect_ok();
    let budgets = async |client: &Client| client.get("/api/budgets").await.expect_ok();
    assert_eq!(budgets(&alpha.admin).await.as_array().map(Vec::len), Some(1));
    assert_eq!(budgets(&beta.admin).await, json!([]));
    let usage = alpha.admin.get("/api/usage?groupBy=model").await.expect_ok();
    assert_eq!(usage["groups"][0]["tasks"], 1, "{usage:#}");
}

#[tokio::test]
async fn a_member_has_one_role_in_a_project_and_loses_all_of_it_with_the_membership() {
    let mut server = Server::start();
    let root = server.admin().await;
    let alpha = team(&server, &root, "alpha").await;
    let person =
        json!({"email": "p@example.com", "password": "lovelace-engine-1843", "role": "viewer"});
    let person = text(&root.post("/api/auth/users", &person).await.expect(201), "id").to_owned();
    let login = json!({"email": "p@example.com", "password": "lovelace-engine-1843"});
    let session = Client::new(&server.url, "").post("/api/auth/login", &login).await.expect_ok();
    let client = Client::new(&server.url, text(&session, "token"));
    let list = |client: &Client, project: &str| within(client, project, Method::GET, "/api/tasks");

    // Whoever is no member hears what somebody hears who names no project.
    let refused = client.send(list(&client, &alpha.id)).await;
    assert_eq!(refused.refused(404), "NOT_FOUND");
    let unknown = client.send(list(&client, "prj_00000000000000000000000001")).await;
    assert_eq!(unknown.refused(404), "NOT_FOUND");
    assert_eq!(client.get("/api/projects").await.expect_ok().as_array().unwrap().len(), 1);

    let member = format!("/api/projects/{}/members/{person}", alpha.id);
    let set = |role: &str| root.request(Method::PUT, &member).json(&json!({"role": role}));
    assert_eq!(text(&root.send(set("operator")).await.expect_ok(), "role"), "operator");
    client.send(list(&client, &alpha.id)).await.expect_ok();
    let submit =
        within(&client, &alpha.id, Method::POST, "/api/tasks").json(&json!({"prompt": "x"}));
    client.send(submit).await.expect(201);
    assert_eq!(client.post("/api/tasks", &json!({"prompt": "x"})).await.refused(403), "FORBIDDEN");
    // By the parameter too.
    client.get(&format!("/api/tasks?project={}", alpha.id)).await.expect_ok();
    let projects = client.get("/api/projects").await.expect_ok();
    assert_eq!((&projects[1]["role"], &projects[1]["members"]), (&json!("operator"), &json!(2)));

    // An admin there makes keys, which end with the role.
    root.send(set("admin")).await.expect_ok();
    let made = key(&client, &alpha.id, json!({"name": "own", "role": "operator"})).await;
    assert!(project_named(&made).is_some());
    let own = Client::new(&server.url, &made);
    own.get("/api/tasks").await.expect_ok();
    assert_eq!(
        own.send(list(&own, "prj_00000000000000000000000000")).await.refused(404),
        "NOT_FOUND"
    );
    let mut stream =
        within(&client, &alpha.id, Method::GET, "/api/events").send().await.expect("a stream");
    assert_eq!(stream.status(), 200);
    let begun = Instant::now();
    root.delete(&member).await.expect_ok();
    assert_eq!(client.send(list(&client, &alpha.id)).await.refused(404), "NOT_FOUND");
    assert_eq!(own.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    while stream.chunk().await.is_ok_and(|chunk| chunk.is_some()) {}
    assert!(begun.elapsed() < Duration::from_secs(5));

    // What is about the server is not for an admin of a project, and all of it outlives the process.
    for path in ["/api/auth/users", "/api/audit", "/api/cluster", "/api/system/backup"] {
        assert_eq!(alpha.admin.get(path).await.refused(403), "FORBIDDEN", "{path}");
    }
    let pause = alpha.admin.post("/api/system/pause", &json!({"reason": "x"})).await;
    assert_eq!(pause.refused(403), "FORBIDDEN");
    server.kill();
    server.restart();
    let alpha_again = Client::new(&server.url, alpha.admin.token());
    assert_eq!(alpha_again.get("/api/tasks").await.expect_ok().as_array().unwrap().len(), 1);
    let audit = server.admin().await.get("/api/audit?action=key.created").await.expect_ok();
    assert_eq!(text(&audit[0]["details"], "project"), alpha.id);
}

#[tokio::test]
async fn an_archived_project_takes_no_new_work_until_it_is_taken_out() {
    let server = Server::start();
    let root = server.admin().await;
    let alpha = team(&server, &root, "alpha").await;
    let path = format!("/api/projects/{}", alpha.id);
    let change = |body: Value| root.request(Method::PATCH, &path).json(&body);
    let archived = root.send(change(json!({"archived": true}))).await.expect_ok();
    assert!(archived["archivedAt"].is_string());
    let task = json!({"prompt": "x"});
    assert_eq!(alpha.admin.post("/api/tasks", &task).await.refused(409), "INVALID_STATE");
    alpha.admin.get("/api/tasks").await.expect_ok();
    let renamed = root.send(change(json!({"archived": false, "name": "omega"}))).await.expect_ok();
    assert_eq!((text(&renamed, "name"), &renamed["archivedAt"]), ("omega", &Value::Null));
    alpha.admin.post("/api/tasks", &task).await.expect(201);
    for taken in ["omega", "default"] {
        let made = root.post("/api/projects", &json!({"name": taken})).await;
        assert_eq!(made.refused(409), "INVALID_STATE");
    }
    let default = "/api/projects/prj_00000000000000000000000000";
    let request = root.request(Method::PATCH, default).json(&json!({"name": "x"}));
    assert_eq!(root.send(request).await.refused(409), "INVALID_STATE");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_project_is_gone_with_everything_in_it() {
    let mut server = Server::start();
    let root = server.admin().await;
    let (alpha, beta) = (team(&server, &root, "alpha").await, team(&server, &root, "beta").await);
    let ids = fill(&server, &alpha, WORD).await;
    let path = format!("/api/projects/{}", alpha.id);
    let own = alpha.admin.request(Method::DELETE, &path).json(&json!({"confirm": "alpha"}));
    assert_eq!(alpha.admin.send(own).await.refused(403), "FORBIDDEN");
    let confirmed =
        |name: &str| root.send(root.request(Method::DELETE, &path).json(&json!({"confirm": name})));
    assert_eq!(root.delete(&path).await.refused(415), "UNSUPPORTED_MEDIA_TYPE");
    let refused = confirmed("beta").await;
    assert_eq!(refused.body["error"]["details"]["field"], "confirm", "{:#}", refused.body);
    // What runs, waits and is held ends with it.
    confirmed("alpha").await.expect_ok();
    assert_eq!(root.get(&path).await.refused(404), "NOT_FOUND");
    assert_eq!(alpha.admin.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    let listed = within(&root, &alpha.id, Method::GET, "/api/tasks");
    assert_eq!(root.send(listed).await.refused(404), "NOT_FOUND");
    let again = team(&server, &root, "alpha").await;
    for (route, id) in &ids {
        if !matches!(*route, "/api/auth/keys/" | "/api/workers/" | "/api/projects/") {
            let found = again.admin.get(&format!("{route}{id}")).await;
            assert!(matches!(found.status.as_u16(), 404 | 405), "{route}: {:#}", found.body);
        }
    }
    let output = format!("{WORD} too");
    assert_eq!(held(&server.data(), &[&output]), [&output]);
    let kept = beta.admin.submit(&json!({"prompt": "stays"})).await;

    server.kill();
    server.restart();
    let root = server.admin().await;
    until("its rows are gone", async || {
        root.get("/api/audit?action=project.purged").await.expect_ok()[0]["target"] == alpha.id
    })
    .await;
    beta.admin.at(&server.url).get(&format!("/api/tasks/{kept}")).await.expect_ok();
    assert!(server.terminate());
    compact(&server.data());
    assert_eq!(held(&server.data(), &[&output]), [""; 0], "after the compaction");
}
