//! TLS of the server's own (docs/reference/cli.md).

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{ADMIN, PASSWORD, Server, credentials, until};

/// An authority, and a directory with a certificate of it.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("ca.pem"), issuer.pem()).expect("it is written");
        let authority = Self { issuer, dir };
        authority.certify();
        authority
    }

    /// Writes a new certificate for 127.0.0.1, and its key.
    fn certify(&self) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        fs::write(self.path("cert.pem"), cert.pem()).expect("it is written");
        fs::write(self.path("key.pem"), key.serialize_pem()).expect("it is written");
    }

    /// Writes a certificate that ended in 2024, and its key.
    fn certify_expired(&self) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(2023, 1, 1);
        params.not_after = rcgen::date_time_ymd(2024, 1, 1);
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        fs::write(self.path("cert.pem"), cert.pem()).expect("it is written");
        fs::write(self.path("key.pem"), key.serialize_pem()).expect("it is written");
    }

    /// Writes a certificate for clients, and its key, under this name.
    fn certify_client(&self, name: &str) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        fs::write(self.path(&format!("{name}.pem")), cert.pem()).expect("it is written");
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).expect("it is written");
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn server(&self) -> Server {
        let (cert, key) = (self.path("cert.pem"), self.path("key.pem"));
        Server::with(&[("TLS__CERT", &cert), ("TLS__KEY", &key)])
    }

    /// A client that trusts this authority alone.
    fn client(&self) -> reqwest::Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let pem = self.issuer.pem();
        let root = reqwest::Certificate::from_pem(pem.as_bytes()).expect("a certificate");
        reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([root])
            .tls_info(true)
            .pool_max_idle_per_host(0)
            .build()
            .expect("a client")
    }
}

/// The certificate with which a server answers.
async fn served(client: &reqwest::Client, server: &Server) -> Option<Vec<u8>> {
    let answer = client.get(format!("{}/health/live", server.url)).send().await.ok()?;
    let info = answer.extensions().get::<reqwest::tls::TlsInfo>()?;
    info.peer_certificate().map(<[u8]>::to_vec)
}

#[tokio::test]
async fn a_server_speaks_tls_and_nothing_else() {
    let authority = Authority::new();
    let server = authority.server();
    let address = server.url.strip_prefix("https://").expect("it says so");
    assert!(served(&authority.client(), &server).await.is_some());

    let mut plain = TcpStream::connect(address).await.expect("it listens");
    plain.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it is open");
    let mut answer = Vec::new();
    // A reset is a close as well.
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn a_certificate_that_changes_is_read_again_within_ten_seconds() {
    let authority = Authority::new();
    let (server, client) = (authority.server(), authority.client());
    let first = served(&client, &server).await.expect("TLS");
    // Half a change is not taken.
    fs::write(authority.path("key.pem"), "no key").expect("it is written");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(served(&client, &server).await.as_ref(), Some(&first));
    authority.certify();
    until("the new certificate is served", async || {
        served(&client, &server).await.is_some_and(|now| now != first)
    })
    .await;
}

#[tokio::test]
async fn the_command_line_and_a_worker_speak_tls() {
    let authority = Authority::new();
    let server = authority.server();
    let (client, home) = (authority.client(), tempfile::tempdir().expect("a directory"));
    let post = async |path: &str, token: &str, body: serde_json::Value| {
        let request = client.post(format!("{}{path}", server.url)).bearer_auth(token).json(&body);
        let answer: serde_json::Value =
            request.send().await.expect("an answer").json().await.expect("JSON");
        credentials::keep_in(&answer["data"]);
        answer["data"].clone()
    };
    let login = json!({"email": ADMIN, "password": PASSWORD});
    let session = post("/api/auth/login", "", login).await;
    let token = session["token"].as_str().expect("a token");
    let key = post("/api/auth/keys", token, json!({"name": "w", "role": "worker"})).await;
    let key_file = home.path().join("key");
    fs::write(&key_file, key["key"].as_str().expect("a key")).expect("it is written");
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        let ca = authority.path("ca.pem");
        command.env("HOME", home.path()).env("SSL_CERT_FILE", ca).stderr(Stdio::null());
        command
    };
    let mut worker = command()
        .args(["worker", "--server", &server.url, "--provider", "simulated", "--key-file"])
        .arg(&key_file)
        .spawn()
        .expect("it starts");
    let admin = post("/api/auth/keys", token, json!({"name": "a", "role": "operator"})).await;
    let done = command()
        .args(["tasks", "submit", "hello", "--model", "simulated", "--wait", "-o", "json"])
        .env("CALLBOARD_SERVER", &server.url)
        .env("CALLBOARD_API_KEY", admin["key"].as_str().expect("a key"))
        .output();
    worker.kill().expect("it runs");
    worker.wait().expect("it ends");
    let done = done.expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

#[tokio::test]
async fn a_worker_needs_a_certificate_where_an_authority_for_them_is_set() {
    let (authority, other) = (Authority::new(), Authority::new());
    authority.certify_client("worker");
    other.certify_client("worker");
    let (cert, key) = (authority.path("cert.pem"), authority.path("key.pem"));
    let ca = authority.path("ca.pem");
    let server = Server::with(&[("TLS__CERT", &cert), ("TLS__KEY", &key), ("TLS__CLIENT_CA", &ca)]);
    // Nobody else needs one.
    let client = authority.client();
    let login = json!({"email": ADMIN, "password": PASSWORD});
    let path = |path: &str| format!("{}{path}", server.url);
    let answer = client.post(path("/api/auth/login")).json(&login).send().await.expect("TLS");
    let session: serde_json::Value = answer.json().await.expect("JSON");
    credentials::keep_in(&session["data"]);
    let token = session["data"]["token"].as_str().expect("a token");
    let made = client.post(path("/api/auth/keys")).bearer_auth(token);
    let made = made.json(&json!({"name": "w", "role": "worker"})).send().await.expect("TLS");
    let made: serde_json::Value = made.json().await.expect("JSON");
    credentials::keep_in(&made["data"]);
    let home = tempfile::tempdir().expect("a directory");
    let key_file = home.path().join("key");
    fs::write(&key_file, made["data"]["key"].as_str().expect("a key")).expect("it is written");

    let worker = |certificate: Option<&Authority>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        command.env("HOME", home.path()).env("SSL_CERT_FILE", authority.path("ca.pem"));
        command.args(["worker", "--server", &server.url, "--provider", "simulated"]);
        command.arg("--key-file").arg(&key_file);
        if let Some(of) = certificate {
            command.args(["--client-cert", &of.path("worker.pem")]);
            command.args(["--client-key-file", &of.path("worker.key")]);
        }
        command.stderr(Stdio::piped());
        command
    };
    let connected = async || {
        let answer = client.get(path("/api/workers")).bearer_auth(token).send().await;
        let answer: serde_json::Value = answer.expect("TLS").json().await.expect("JSON");
        answer["data"].as_array().is_some_and(|workers| !workers.is_empty())
    };
    let refused = worker(None).output().expect("it runs");
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("client_ca"), "{text}");
    let mut stranger = worker(Some(&other)).stderr(Stdio::null()).spawn().expect("it starts");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!connected().await, "a certificate of another authority");
    stranger.kill().expect("it runs");
    stranger.wait().expect("it ends");
    let mut known = worker(Some(&authority)).stderr(Stdio::null()).spawn().expect("it starts");
    until("the worker is connected", connected).await;
    known.kill().expect("it runs");
    known.wait().expect("it ends");
}

#[test]
fn clear_text_beyond_loopback_is_refused() {
    let serve = |behind_proxy: &str| {
        let dir = tempfile::tempdir().expect("a directory");
        credentials::keep(PASSWORD);
        let mut child = Command::new(env!("CARGO_BIN_EXE_callboard"))
            .args(["serve", "--listen", "0.0.0.0:0", "--data-dir"])
            .arg(dir.path().join("data"))
            .env("CALLBOARD_ADMIN_EMAIL", ADMIN)
            .env("CALLBOARD_ADMIN_PASSWORD", PASSWORD)
            .env("CALLBOARD_SERVER__BEHIND_PROXY", behind_proxy)
            .env("CALLBOARD_LOG", "trace")
            .stdout(Stdio::piped())
            .stderr(fs::File::create(dir.path().join("log")).expect("a file"))
            .spawn()
            .expect("it starts");
        if behind_proxy == "true" {
            let mut line = [0; 12];
            std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut line)
                .expect("it listens");
            child.kill().expect("it runs");
        }
        let status = child.wait().expect("it ends");
        credentials::assert_none_in(&[dir.path()]);
        (status, fs::read_to_string(dir.path().join("log")).expect("text"))
    };
    let (status, text) = serve("false");
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("[tls]") && text.contains("behind_proxy"), "{text}");
    serve("true");
}

fn hang_up(server: &Server) {
    let id = server.pid().to_string();
    assert!(Command::new("kill").args(["-HUP", &id]).status().expect("kill runs").success());
}

#[tokio::test]
async fn an_expired_certificate_is_refused_while_the_old_one_is_good() {
    let authority = Authority::new();
    let (cert, key) = (authority.path("cert.pem"), authority.path("key.pem"));
    let server = Server::traced(&[("TLS__CERT", &cert), ("TLS__KEY", &key)]);
    let client = authority.client();
    let first = served(&client, &server).await.expect("an answer");
    authority.certify_expired();
    hang_up(&server);
    until("the expired one is refused", async || {
        server.logged().contains("it has expired, at 2024-01-01T00:00:00Z")
    })
    .await;
    assert_eq!(served(&client, &server).await.as_ref(), Some(&first));
    authority.certify();
    hang_up(&server);
    until("the next one is taken", async || {
        served(&client, &server).await.is_some_and(|certificate| certificate != first)
    })
    .await;
}

#[tokio::test]
async fn the_time_left_of_the_certificate_is_a_metric_and_its_end_a_warning() {
    let authority = Authority::new();
    authority.certify_expired();
    let (cert, key) = (authority.path("cert.pem"), authority.path("key.pem"));
    let server =
        Server::traced(&[("TLS__CERT", &cert), ("TLS__KEY", &key), ("METRICS__PUBLIC", "true")]);
    assert!(server.logged().contains("clients refuse the certificate"), "{}", server.logged());
    // A client that does not mind.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true);
    let client = client.build().expect("a client");
    let get = async |path: &str| {
        let answer = client.get(format!("{}{path}", server.url)).send().await.expect("an answer");
        answer.text().await.expect("a text")
    };
    let metrics = get("/metrics").await;
    assert!(
        metrics.contains("svc_certificate_expires_seconds{certificate=\"server\"} -"),
        "{metrics}"
    );
    assert!(get("/health").await.contains("days left; renew it"));
    authority.certify();
    hang_up(&server);
    until("the certificate is good", async || {
        !get("/metrics").await.contains("certificate=\"server\"} -")
    })
    .await;
    assert!(!get("/health").await.contains("renew it"));
}
