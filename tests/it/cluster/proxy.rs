//! A proxy between a node and the database, which can be cut.

use std::path::PathBuf;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

/// The state of the connections through a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Bytes pass both ways.
    Open,
    /// Bytes pass to the database, and none come back.
    Unanswered,
    /// Connections break, and no new one is made.
    Cut,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    way: watch::Sender<Way>,
}

impl Proxy {
    /// A proxy in front of the database's socket, on a thread of its own: a test blocks while a node starts.
    pub(crate) fn start(socket: PathBuf) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        listener.set_nonblocking(true).expect("a socket");
        let way = watch::Sender::new(Way::Open);
        let state = way.subscribe();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(run(listener, socket, state));
        });
        Self { port, way }
    }

    pub(crate) fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

/// Accepts connections until the proxy is dropped.
async fn run(listener: std::net::TcpListener, socket: PathBuf, mut state: watch::Receiver<Way>) {
    let listener = TcpListener::from_std(listener).expect("a socket");
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted
                    && *state.borrow() != Way::Cut
                {
                    tokio::spawn(join(client, socket.clone(), state.clone()));
                }
            }
            changed = state.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

/// Passes bytes until an end closes or the proxy is cut.
async fn join(client: TcpStream, path: PathBuf, state: watch::Receiver<Way>) {
    let Ok(database) = UnixStream::connect(path).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_database, mut to_database) = database.into_split();
    let there = async {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from_client.read(&mut bytes).await {
            if to_database.write_all(&bytes[..length]).await.is_err() {
                return;
            }
        }
    };
    let mut open = state.clone();
    let back = async {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from_database.read(&mut bytes).await {
            let opens = open.wait_for(|way| *way != Way::Unanswered).await.is_ok();
            if !opens || to_client.write_all(&bytes[..length]).await.is_err() {
                return;
            }
        }
    };
    let mut cut = state.clone();
    tokio::select! {
        () = there => {}
        () = back => {}
        _ = cut.wait_for(|way| *way == Way::Cut) => {}
    }
}
