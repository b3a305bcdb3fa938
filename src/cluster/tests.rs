//! Three nodes in one process over one memory store, reached by HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use callboard_store::Store as _;
use callboard_store::ownership::NodeId;
use callboard_store::testing::memory::{Cluster, MemoryStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Node;
use crate::backend::Shared;
use crate::config::{Config, Flags};
use crate::service::Port;

const TERM: Duration = Duration::from_secs(1);
const ADMIN: (&str, &str) = ("ada@example.com", "correct horse battery");

struct Member {
    url: String,
    store: Arc<MemoryStore>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
    _directory: TempDir,
}

/// Without the certificates of the system, which take an unoptimised client longer than its calls.
pub(super) fn plain_http() -> reqwest::Client {
    callboard_common::tls::install_provider();
    reqwest::Client::builder().tls_certs_only([]).build().expect("a client")
}

struct Nodes {
    cluster: Cluster,
    members: BTreeMap<u128, Member>,
    client: reqwest::Client,
}

impl Nodes {
    async fn new(count: u128) -> Self {
        let (members, client) = (BTreeMap::new(), plain_http());
        let mut all = Self { cluster: Cluster::new(TERM), members, client };
        for number in 1..=count {
            all.start(number).await;
        }
        all
    }

    async fn start(&mut self, number: u128) {
        let directory = tempfile::tempdir().expect("a directory");
        let variables = [
            ("CALLBOARD_SERVER__LISTEN", "127.0.0.1:0"),
            ("CALLBOARD_SERVER__DATA_DIR", directory.path().to_str().expect("a path")),
            ("CALLBOARD_AUTH__SIGNING_KEY", "the signing key of the cluster's tests"),
            ("CALLBOARD_WEBHOOKS__SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
            ("CALLBOARD_CLUSTER__KEY", "the key that all of these nodes share"),
            ("CALLBOARD_ADMIN_EMAIL", ADMIN.0),
            ("CALLBOARD_ADMIN_PASSWORD", ADMIN.1),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let config = Config::load(Flags::default(), variables).expect("right settings");
        let store = Arc::new(self.cluster.node(NodeId(number)));
        let shared = Shared { store: store.clone(), ownership: store.clone() };
        let opened = Port::open(&config).expect("it listens");
        let node = Node::join(config, opened, shared, |_| {}).await.expect("it joins");
        let (url, (stop, stopped)) = (node.url(), oneshot::channel());
        let running = tokio::spawn(async move {
            let shutdown = async move { drop(stopped.await) };
            let ended = Box::pin(node.serve(shutdown)).await;
            tracing::debug!(?ended, "a node has ended");
        });
        let member = Member { url, store, stop, running, _directory: directory };
        self.members.insert(number, member);
    }

    /// Cuts a node off and closes its port, as a kill does.
    fn kill(&mut self, number: u128) {
        let node = self.members.remove(&number).expect("it runs");
        node.store.cut_off();
        node.running.abort();
    }

    async fn call(
        &self,
        node: u128,
        request: (&str, &str),
        body: Value,
        token: &str,
    ) -> (u16, Value) {
        let (method, path) = request;
        let url = format!("{}{path}", self.members[&node].url);
        let method = method.parse().expect("a method");
        let mut call = self.client.request(method, url).bearer_auth(token);
        if !body.is_null() {
            call = call.json(&body).header("Idempotency-Key", body["prompt"].to_string());
        }
        match call.send().await {
            Ok(answer) => {
                let status = answer.status().as_u16();
                (status, answer.json().await.unwrap_or_default())
            }
            Err(_) => (0, Value::Null),
        }
    }

    /// Calls until the answer is no 503 and the connection holds.
    async fn call_until_answered(
        &self,
        node: u128,
        request: (&str, &str),
        body: Value,
        token: &str,
    ) -> (u16, Value) {
        loop {
            let answer = self.call(node, request, body.clone(), token).await;
            if ![0, 503].contains(&answer.0) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn token(&self, node: u128) -> String {
        let body = json!({"email": ADMIN.0, "password": ADMIN.1});
        let request = ("POST", "/api/auth/login");
        let (status, answer) = self.call_until_answered(node, request, body, "").await;
        assert_eq!(status, 200, "{answer}");
        answer["data"]["token"].as_str().expect("a token").to_owned()
    }

    async fn submit(&self, node: u128, prompt: &str, token: &str) -> String {
        let (request, body) = (("POST", "/api/tasks"), json!({"prompt": prompt}));
        let (status, answer) = self.call_until_answered(node, request, body, token).await;
        assert_eq!(status, 201, "{answer}");
        answer["data"]["id"].as_str().expect("an id").to_owned()
    }

    async fn total(&self, node: u128, token: &str) -> Value {
        let request = ("GET", "/api/tasks?limit=1");
        let (status, answer) = self.call_until_answered(node, request, Value::Null, token).await;
        assert_eq!(status, 200, "{answer}");
        answer["pagination"]["total"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_answers_every_request_and_goes_on_when_the_active_one_dies() {
    let mut nodes = Nodes::new(3).await;
    let token = nodes.token(3).await;
    let mut made = Vec::new();
    for node in [1, 2, 3] {
        made.push(nodes.submit(node, &format!("first {node}"), &token).await);
    }
    // A key finds its task on any node.
    assert_eq!(nodes.submit(2, "first 1", &token).await, made[0]);
    for node in [1, 2, 3] {
        assert_eq!(nodes.total(node, &token).await, 3);
    }

    nodes.kill(1);
    for node in [2, 3] {
        made.push(nodes.submit(node, &format!("second {node}"), &token).await);
        assert_eq!(nodes.submit(node, "first 3", &token).await, made[2]);
        assert_eq!(nodes.total(node, &token).await, 3 + u64::try_from(node).expect("small") - 1);
    }

    // It comes back and forwards; a session that was ended on another node is ended there as well.
    nodes.start(1).await;
    assert_eq!(nodes.total(1, &token).await, 5);
    let request = ("POST", "/api/auth/logout");
    let (status, answer) = nodes.call_until_answered(2, request, Value::Null, &token).await;
    assert_eq!(status, 200, "{answer}");
    let request = ("GET", "/api/tasks");
    assert_eq!(nodes.call_until_answered(1, request, Value::Null, &token).await.0, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_stopped_in_order_is_replaced_at_once() {
    let mut nodes = Nodes::new(2).await;
    let token = nodes.token(2).await;
    let first = nodes.submit(1, "first", &token).await;
    let leaving = nodes.members.remove(&1).expect("it runs");
    let second = {
        leaving.stop.send(()).expect("it runs");
        nodes.submit(2, "second", &token).await
    };
    assert_ne!(first, second);
    leaving.running.await.expect("it ends in order");
    assert_eq!(nodes.total(2, &token).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_cut_off_answers_with_the_state_of_the_others_afterwards() {
    let nodes = Nodes::new(2).await;
    let token = nodes.token(1).await;
    nodes.submit(1, "first", &token).await;
    for cuts in [MemoryStore::cut_off, MemoryStore::freeze] {
        let before = nodes.total(2, &token).await.as_u64().expect("a number");
        let active = if nodes.members[&1].store.epoch(callboard_store::Partition(0)).is_some() {
            1
        } else {
            2
        };
        cuts(&nodes.members[&active].store);
        let other = 3 - active;
        nodes.submit(other, &format!("while {active} is cut off, {before}"), &token).await;
        nodes.members[&active].store.heal();
        for node in [active, other] {
            assert_eq!(nodes.total(node, &token).await, before + 1);
        }
    }
}
