//! A real server, clients of it, workers of the library, and a proxy that cuts connections.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use callboard_client::types::CreateKey;
use callboard_client::{Callboard, Client, Credential, Server, Worker, worker};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const EMAIL: &str = "admin@example.com";
const PASSWORD: &str = "correct horse battery staple 9";
const PATIENCE: Duration = Duration::from_mins(1);

/// `callboard serve` with a data directory of its own.
pub struct Board {
    directory: tempfile::TempDir,
    process: Child,
    pub url: String,
    pub admin: Callboard,
}

fn binary() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/callboard");
    std::env::var_os("CALLBOARD_BIN").map_or(built, PathBuf::from)
}

impl Board {
    pub async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (process, url) = serve(directory.path(), "127.0.0.1:0").await;
        let nobody = Client::new(Server::parse(&url).unwrap(), Credential::None).unwrap();
        let admin = Callboard::from(nobody).log_in(EMAIL, PASSWORD).await.unwrap();
        Self { directory, process, url, admin }
    }

    /// kill -9.
    pub async fn kill(&mut self) {
        self.process.kill().await.unwrap();
    }

    /// The server again, at the same address and on the same data.
    pub async fn again(&mut self) {
        let listen = self.url.trim_start_matches("http://").to_owned();
        (self.process, _) = serve(self.directory.path(), &listen).await;
    }

    /// A client with a key of this role.
    pub async fn client(&self, role: &str) -> Callboard {
        self.client_at(role, &self.url).await
    }

    pub async fn client_at(&self, role: &str, url: &str) -> Callboard {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("{role}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let key = self.admin.keys().create(CreateKey::new(name, role)).await.unwrap();
        Callboard::with_key(url, key.key).unwrap()
    }

    /// A worker of the library, without models and functions.
    pub async fn worker(&self) -> Worker {
        Worker::new(self.client("worker").await)
    }
}

async fn serve(directory: &Path, listen: &str) -> (Child, String) {
    let log = std::fs::File::options().create(true).append(true).open(directory.join("log"));
    let mut command = Command::new(binary());
    command
        .args(["serve", "--listen", listen, "--data-dir"])
        .arg(directory.join("data"))
        .current_dir(directory)
        .env_clear()
        .env("HOME", directory)
        .env("CALLBOARD_ADMIN_EMAIL", EMAIL)
        .env("CALLBOARD_ADMIN_PASSWORD", PASSWORD)
        .stdout(Stdio::piped())
        .stderr(log.unwrap())
        .kill_on_drop(true);
    let mut process = command.spawn().expect("target/debug/callboard, or CALLBOARD_BIN");
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap_or_default();
    let told = || std::fs::read_to_string(directory.join("log")).unwrap_or_default();
    let url = line.split_whitespace().find(|word| word.starts_with("http://"));
    let url =
        url.unwrap_or_else(|| panic!("the server did not start: {line}{}", told())).to_owned();
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (process, url)
}

/// A worker that runs beside the test.
pub struct Running {
    stop: Option<oneshot::Sender<()>>,
    done: JoinHandle<Result<(), worker::Error>>,
}

impl Running {
    pub fn start(worker: Worker) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let done = tokio::spawn(worker.run_until(async move {
            let _ = stopped.await;
        }));
        Self { stop: Some(stop), done }
    }

    pub async fn stop(mut self) -> Result<(), worker::Error> {
        let _ = self.stop.take().unwrap().send(());
        tokio::time::timeout(PATIENCE, self.done).await.expect("the worker hangs").unwrap()
    }

    pub async fn ended(self) -> Result<(), worker::Error> {
        tokio::time::timeout(PATIENCE, self.done).await.expect("the worker hangs").unwrap()
    }
}

/// Waits until the state is reached.
pub async fn until<F: Future<Output = bool>>(mut reached: impl FnMut() -> F) {
    let wait = async {
        while !reached().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the state is not reached");
}

/// A proxy of TCP, which can cut an answer after some bytes, and delay it.
pub struct Proxy {
    pub url: String,
    pub rules: Arc<Rules>,
}

/// The treatment of the connections that begin from now on.
pub struct Rules {
    /// The bytes of an answer after which the next connection is cut, once; `usize::MAX` for none.
    pub cut_after: AtomicUsize,
    pub cuts: AtomicUsize,
    /// The pause before each piece of an answer, in milliseconds.
    pub pause_ms: AtomicU64,
}

impl Proxy {
    pub async fn start(board: &Board) -> Self {
        let rules = Arc::new(Rules {
            cut_after: AtomicUsize::new(usize::MAX),
            cuts: AtomicUsize::new(0),
            pause_ms: AtomicU64::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (target, shared) =
            (board.url.trim_start_matches("http://").to_owned(), Arc::clone(&rules));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, target.clone(), Arc::clone(&shared)));
            }
        });
        Self { url, rules }
    }

    /// Cuts the next answer after these bytes.
    pub fn cut(&self, after: usize) {
        self.rules.cut_after.store(after, Ordering::SeqCst);
    }
}

async fn relay(client: TcpStream, target: String, rules: Arc<Rules>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = async { tokio::io::copy(&mut from_client, &mut to_server).await.map(drop) };
    let down = async {
        let (mut buffer, mut sent) = (vec![0; 16 << 10], 0);
        loop {
            let length = from_server.read(&mut buffer).await?;
            if length == 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(rules.pause_ms.load(Ordering::SeqCst))).await;
            let limit = rules.cut_after.load(Ordering::SeqCst);
            if sent + length > limit {
                to_client.write_all(&buffer[..limit.saturating_sub(sent)]).await?;
                rules.cut_after.store(usize::MAX, Ordering::SeqCst);
                rules.cuts.fetch_add(1, Ordering::SeqCst);
                return Ok::<_, std::io::Error>(());
            }
            to_client.write_all(&buffer[..length]).await?;
            sent += length;
        }
    };
    // Either end ends the connection.
    tokio::select! {
        _ = up => {}
        _ = down => {}
    }
}
