//! Somebody between the workers and the server who puts every answer under the lease that its task has
//! by then. From outside it is a server that compares no leases: a planted bug.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::support::upgrade;

/// Where workers connect to instead of the server.
#[derive(Debug)]
pub(super) struct Careless {
    url: String,
    server: Arc<Mutex<String>>,
}

/// Tasks and leases, through all lives of the server.
#[derive(Debug, Default)]
struct Leases {
    tasks: HashMap<String, String>,
    newest: HashMap<String, String>,
}

impl Leases {
    fn given(&mut self, frame: &Value) {
        let (lease, task) = (text(&frame["lease"]), text(&frame["task"]["id"]));
        self.tasks.insert(lease.clone(), task.clone());
        self.newest.insert(task, lease);
    }

    /// The lease that the task of `lease` has now.
    fn instead(&self, lease: &str) -> String {
        let newest = self.tasks.get(lease).and_then(|task| self.newest.get(task));
        newest.cloned().unwrap_or_else(|| lease.to_owned())
    }
}

impl Careless {
    /// Listens for workers with this key.
    pub(super) async fn before(key: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (server, key) = (Arc::new(Mutex::new(String::new())), key.to_owned());
        let (leases, to) = (Arc::new(Mutex::new(Leases::default())), Arc::clone(&server));
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let to = to.lock().expect("no holder panics").clone();
                tokio::spawn(pass_on(connection, to, key.clone(), Arc::clone(&leases)));
            }
        });
        Self { url, server }
    }

    /// Its address, from which the way leads to the server at `url` from now on.
    pub(super) fn leads_to(&self, url: &str) -> String {
        url.clone_into(&mut self.server.lock().expect("no holder panics"));
        self.url.clone()
    }
}

/// Passes frames on, both ways, until either side is gone.
async fn pass_on(worker: TcpStream, url: String, key: String, leases: Arc<Mutex<Leases>>) {
    let Ok(mut worker) = tokio_tungstenite::accept_async(worker).await else { return };
    let Ok((mut server, _)) = tokio_tungstenite::connect_async(upgrade(&url, &key)).await else {
        return;
    };
    // The leases under which answers came, in the order of their acknowledgements.
    let mut answered: HashMap<String, VecDeque<Value>> = HashMap::new();
    loop {
        let sent = tokio::select! {
            message = worker.next() => {
                let Some(mut frame) = frame(message) else { return };
                if frame["type"] == "complete" {
                    let came = frame["lease"].take();
                    let lease = leases.lock().expect("no holder panics").instead(&text(&came));
                    answered.entry(lease.clone()).or_default().push_back(came);
                    frame["lease"] = lease.into();
                }
                server.send(Message::text(frame.to_string())).await
            }
            message = server.next() => {
                let Some(mut frame) = frame(message) else { return };
                if frame["type"] == "assign" {
                    leases.lock().expect("no holder panics").given(&frame);
                } else if frame["type"] == "ack" {
                    let came = answered.get_mut(&text(&frame["lease"]));
                    frame["lease"] = came.and_then(VecDeque::pop_front).unwrap_or_default();
                }
                worker.send(Message::text(frame.to_string())).await
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// `None` once its sender is gone; neither side says anything but frames.
fn frame(message: Option<Result<Message, Error>>) -> Option<Value> {
    match message {
        Some(Ok(Message::Text(text))) => Some(serde_json::from_str(&text).expect("JSON")),
        _ => None,
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
