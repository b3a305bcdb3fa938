//! Nodes of one cluster, and a client that asks until one answers.

use std::path::Path;
use std::time::{Duration, Instant};

use callboard_postgres::Server as Postgres;
use serde_json::{Value, json};

use super::caller::Caller;
use super::proxy::Proxy;
use crate::support::{ADMIN, Answer, Client, FakeWorker, PASSWORD, PROGRAM, Server, credentials};

/// The term of every node.
pub(crate) const TERM: Duration = Duration::from_secs(2);

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Server>,
    pub(crate) proxy: Proxy,
    pub(crate) postgres: Postgres,
    pub(crate) database: String,
    pub(crate) token: String,
    caller: Caller,
}

impl Cluster {
    pub(crate) async fn start(count: usize) -> Self {
        Self::with(count, &[]).await
    }

    /// Nodes with further settings. Node 0 reaches the database through the proxy.
    pub(crate) async fn with(count: usize, settings: &[(&str, &str)]) -> Self {
        Self::of(PROGRAM.as_ref(), count, settings).await
    }

    /// The same, with the program of another version.
    pub(crate) async fn of(program: &Path, count: usize, settings: &[(&str, &str)]) -> Self {
        callboard_common::tls::install_provider();
        let postgres = Postgres::start();
        let database = postgres.database();
        let own = postgres.url(&database);
        let proxy = Proxy::start(postgres.socket());
        let port = proxy.port;
        let mut urls = vec![own; count];
        urls[0] = format!("postgres://callboard@127.0.0.1:{port}/{database}?sslmode=disable");
        Self::on(program, (postgres, database, proxy), &urls, settings).await
    }

    /// Two nodes on a primary with a synchronous standby.
    pub(crate) async fn replicated(settings: &[(&str, &str)]) -> (Self, Postgres) {
        callboard_common::tls::install_provider();
        let postgres = Postgres::start();
        let database = postgres.database();
        let standby = postgres.standby();
        let url = postgres.url_with(&standby, &database);
        let proxy = Proxy::start(postgres.socket());
        let urls = [url.clone(), url];
        let database = (postgres, database, proxy);
        (Self::on(PROGRAM.as_ref(), database, &urls, settings).await, standby)
    }

    async fn on(
        program: &Path,
        (postgres, database, proxy): (Postgres, String, Proxy),
        urls: &[String],
        settings: &[(&str, &str)],
    ) -> Self {
        let node = |url: &String| {
            let mut all = vec![
                ("STORE__URL", url.as_str()),
                ("AUTH__SIGNING_KEY", "the signing key of every node of this cluster"),
                ("WEBHOOKS__SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
                ("CLUSTER__KEY", "the key with which nodes sign what they forward"),
                ("CLUSTER__TERM", "2s"),
            ];
            all.extend(settings);
            Server::of(program, &all)
        };
        let nodes: Vec<_> = urls.iter().map(node).collect();
        let (token, caller) = (String::new(), Caller::new("", Duration::from_secs(30)));
        let mut cluster = Self { nodes, proxy, postgres, database, token, caller };
        let login = json!({"email": ADMIN, "password": PASSWORD});
        let session = cluster.ask(0, ("POST", "/api/auth/login"), &login, "").await;
        session["token"].as_str().expect("a token").clone_into(&mut cluster.token);
        cluster.caller = cluster.caller.with_token(&cluster.token);
        cluster
    }

    /// The data of an answer of this node, which is asked until it answers with a success.
    pub(crate) async fn ask(
        &self,
        node: usize,
        (method, path): (&str, &str),
        body: &Value,
        key: &str,
    ) -> Value {
        let url = || self.nodes[node].url.clone();
        let mut refusal = String::new();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(40) {
            let asked = self.caller.ask(url, ((method, path), body, key));
            let Ok(answer) = tokio::time::timeout(Duration::from_secs(40), asked).await else {
                break;
            };
            let Answer { status, mut body, .. } = answer;
            if status.is_success() {
                return body["data"].take();
            }
            // A node that has just started may not have joined yet.
            refusal = format!("{status} {body}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{method} {path} is not answered with a success: {refusal}")
    }

    pub(crate) async fn submit(&self, node: usize, prompt: &str) -> String {
        let body = json!({"prompt": prompt});
        let made = self.ask(node, ("POST", "/api/tasks"), &body, prompt).await;
        made["id"].as_str().expect("an id").to_owned()
    }

    pub(crate) async fn get(&self, node: usize, path: &str) -> Value {
        self.ask(node, ("GET", path), &Value::Null, "").await
    }

    pub(crate) async fn metrics(&self, node: usize) -> String {
        let call = self.caller.request("GET", &format!("{}/metrics", self.nodes[node].url));
        let answer = call.send().await.expect("an answer");
        answer.text().await.expect("a text")
    }

    /// The number of tasks in a list at a node.
    pub(crate) async fn total(&self, node: usize) -> usize {
        let client = Client::new(&self.nodes[node].url, &self.token);
        let page = client.get("/api/tasks?limit=1").await;
        let total = page.body["pagination"]["total"].as_u64().expect("a number");
        usize::try_from(total).expect("small")
    }

    /// The active node and its identifier, in the view of `node`.
    pub(crate) async fn active_with_id(&self, node: usize) -> (usize, String) {
        let nodes = self.get(node, "/api/cluster").await;
        let nodes = nodes.as_array().expect("nodes");
        let active = nodes.iter().find(|node| node["status"] == "active");
        let active = active.unwrap_or_else(|| panic!("none is active: {nodes:?}"));
        let address = active["address"].as_str().expect("an address").trim_end_matches('/');
        let number = self.nodes.iter().position(|node| node.url == address);
        (number.expect("one of ours"), active["id"].as_str().expect("an id").to_owned())
    }

    pub(crate) async fn active(&self, node: usize) -> usize {
        self.active_with_id(node).await.0
    }

    /// A key of this role.
    pub(crate) async fn key(&self, node: usize, role: &str) -> String {
        let body = json!({"name": role, "role": role});
        let made = self.ask(node, ("POST", "/api/auth/keys"), &body, "").await;
        made["key"].as_str().expect("a key").to_owned()
    }

    pub(crate) async fn worker(&self, node: usize) -> FakeWorker {
        let key = self.key(node, "worker").await;
        FakeWorker::connect_to(&self.nodes[node].url, &key, 2).await
    }

    /// A value in the database.
    pub(crate) fn sql(&self, sql: &str) -> String {
        self.postgres.psql(&self.database, sql).expect("the database answers")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if credentials::are_searched() && !std::thread::panicking() {
            credentials::assert_none_in(&[self.postgres.directory()]);
        }
    }
}

pub(crate) fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}
