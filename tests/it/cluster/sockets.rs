//! Sockets and streams through a node that stops, or that loses the node which answers them.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::SLACK;
use super::nodes::Cluster;
use crate::support::{Client, Events, FakeWorker, upgrade};

/// The close code after which a client connects again.
const RESTART: u16 = 1012;
/// The longest time from a signal to the close frame.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A socket of events.
struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    /// Returns once the server has said that it is ready.
    async fn open(url: &str, token: &str) -> Self {
        let mut request = upgrade(url, token);
        *request.uri_mut() = format!("{}/ws", url.replace("http", "ws")).parse().expect("a URL");
        let (mut socket, _) = tokio_tungstenite::connect_async(request).await.expect("it opens");
        socket.next().await.expect("a frame").expect("it is ready");
        Self(socket)
    }

    /// The code with which it is closed; 1006 without a close frame.
    async fn closed(mut self) -> u16 {
        while let Some(Ok(message)) = self.0.next().await {
            if let Message::Close(frame) = message {
                return frame.map_or(1005, |frame| frame.code.into());
            }
        }
        1006
    }
}

/// The sockets of a worker and of a reader of events at one node.
struct Sockets {
    worker: FakeWorker,
    events: Socket,
}

impl Sockets {
    async fn open(cluster: &Cluster, node: usize) -> Self {
        let events = Socket::open(&cluster.nodes[node].url, &cluster.token).await;
        Self { worker: cluster.worker(node).await, events }
    }

    /// The codes with which both are closed, and the time until then.
    async fn closed(mut self) -> ([u16; 2], Duration) {
        let begun = Instant::now();
        let (worker, events) = tokio::join!(self.worker.closed(), self.events.closed());
        ([worker, events], begun.elapsed())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_through_a_standby_are_closed_for_a_restart_when_one_of_its_two_nodes_ends() {
    let mut cluster = Cluster::start(2).await;
    let active = cluster.active(0).await;
    let standby = 1 - active;

    // The standby stops.
    let sockets = tokio::spawn(Sockets::open(&cluster, standby).await.closed());
    let client = Client::new(&cluster.nodes[standby].url, &cluster.token);
    let mut stream = Events::open(&client, "events=hitl.*", None).await;
    let begun = Instant::now();
    let is_in_order = tokio::task::block_in_place(|| cluster.nodes[standby].terminate());
    assert!(is_in_order);
    let ended = begun.elapsed();
    let (codes, _) = sockets.await.expect("close frames");
    assert_eq!(codes, [RESTART; 2]);
    assert!(ended <= 2 * AT_ONCE + SLACK, "{ended:?}");
    stream.breaks().await;

    // The node that answers is killed.
    cluster.nodes[standby].restart();
    let sockets = tokio::spawn(Sockets::open(&cluster, standby).await.closed());
    let killed_at = Instant::now();
    cluster.nodes[active].kill();
    let (codes, _) = sockets.await.expect("close frames");
    assert_eq!(codes, [RESTART; 2]);
    let closed = killed_at.elapsed();
    assert!(closed <= AT_ONCE + SLACK, "{closed:?}");
}
