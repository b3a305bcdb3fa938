//! Webhooks, by HTTP: [`WebhookClient`] for the runtime.
//!
//! Each webhook has a connection of its own, through the [`Guard`]: no redirect is followed, and no proxy of the
//! environment is used.

mod body;
mod secret;

use std::error::Error as _;
use std::fmt::Display;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::http::header::{CONNECTION, CONTENT_TYPE, HOST, LOCATION, RETRY_AFTER, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, Request, Response};
use callboard_common::text::is_unsafe;
use callboard_domain::Timestamp;
use callboard_domain::delivery::Failure;
use callboard_runtime::ports::{WebhookClient, WebhookContent};
use futures_util::StreamExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::{Position, Url};

pub use secret::{RIGHT, SecretPair, Signing, WebhookSecret, WebhookSecrets};

use super::guard::{Guard, NotConnected, Sender};

/// The time of a delivery, from the look-up of the receiver's name to its answer.
const ANSWERED: Duration = Duration::from_secs(15);
/// The time to read the text of a refusal, which is for people alone.
const WORDS: Duration = Duration::from_secs(1);
/// The most bytes of a refusal's text that are read.
const MAX_WORDS: usize = 4 << 10;
/// The most characters of a refusal's text that are kept.
const SHOWN_WORDS: usize = 300;
/// The most bytes of an answer's head.
const MAX_HEAD: usize = 64 << 10;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The client that sends webhooks.
pub struct Webhooks {
    guard: Arc<Guard>,
    secrets: Arc<WebhookSecrets>,
    /// Made for the first webhook over HTTPS.
    tls: OnceLock<TlsConnector>,
}

impl Webhooks {
    /// A client that signs with `secrets`. No connection is opened yet.
    #[must_use]
    pub const fn new(guard: Arc<Guard>, secrets: Arc<WebhookSecrets>) -> Self {
        Self { guard, secrets, tls: OnceLock::new() }
    }

    async fn deliver(&self, notice: WebhookContent) -> Result<u16, Failure> {
        let url = Url::parse(&notice.url).map_err(|error| for_good("callbackUrl", &error))?;
        let sender = Sender { project: notice.project, mode: notice.environment.mode() };
        let stream = self.guard.connect(&url, sender).await.map_err(|error| {
            // In the sandbox only the addresses of the settings are permitted.
            let is_final =
                matches!(error, NotConnected::Forbidden(..)) && notice.environment.is_test();
            Failure { permanent: is_final, message: error.to_string(), ..Failure::default() }
        })?;
        let request =
            self.request(&url, &notice).map_err(|error| for_good("callbackUrl", &error))?;
        // The request has a copy of the output, and the receiver may take its time.
        drop(notice);
        if url.scheme() != "https" {
            return exchange(stream, request).await;
        }
        let tls = if let Some(tls) = self.tls.get() {
            tls
        } else {
            let made = callboard_common::tls::client().map_err(later)?;
            self.tls.get_or_init(|| made.into())
        };
        let name =
            url.host_str().unwrap_or_default().trim_matches(['[', ']']).trim_end_matches('.');
        let name =
            ServerName::try_from(name.to_owned()).map_err(|e| for_good("callbackUrl", &e))?;
        let stream = tls.connect(name, stream).await;
        exchange(stream.map_err(|error| later(format!("TLS failed: {error}")))?, request).await
    }

    fn request(
        &self,
        url: &Url,
        notice: &WebhookContent,
    ) -> Result<Request<Body>, axum::http::Error> {
        let id = notice.delivery.to_string();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Signing { current, previous } = self.secrets.at(now());
        let mode = notice.environment.mode();
        let of = |pair: &SecretPair| Arc::clone(pair.of_project(notice.project).of_mode(mode));
        let (current, previous) = (of(&current), previous.as_ref().map(|(pair, _)| of(pair)));
        // The body has room for one signature, and receivers learn of the new secret by and by.
        let body = body::body(notice, previous.as_ref().unwrap_or(&current));
        let secrets = [Some(&current), previous.as_ref()];
        let secrets = secrets.into_iter().flatten().map(|secret| &**secret);
        let signature = body::signature(&id, since_1970.as_secs(), &body, secrets);
        let request = Request::post(&url[Position::BeforePath..Position::AfterQuery])
            .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
            .header(USER_AGENT, concat!("callboard/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .header(CONNECTION, "close")
            .header(WEBHOOK_ID, id)
            .header(WEBHOOK_TIMESTAMP, since_1970.as_secs())
            .header(WEBHOOK_SIGNATURE, signature);
        let request = match notice.trace {
            Some(trace) => request.header(TRACEPARENT, trace.to_string()),
            None => request,
        };
        request.body(Body::from(body))
    }
}

impl WebhookClient for Webhooks {
    fn post(
        &self,
        notice: WebhookContent,
    ) -> Pin<Box<dyn Future<Output = Result<u16, Failure>> + Send + '_>> {
        Box::pin(async move {
            let answer = timeout(ANSWERED, self.deliver(notice)).await;
            answer.unwrap_or_else(|_| {
                Err(later(format!("the receiver took longer than {} s", ANSWERED.as_secs())))
            })
        })
    }
}

/// The machine's time, by which receivers check signatures.
#[must_use]
pub fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX))
}

/// Sends the request and reads the answer's status.
async fn exchange<S>(stream: S, request: Request<Body>) -> Result<u16, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        later(format!("the receiver's connection broke: {error}{cause}"))
    };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_HEAD);
    let (mut sender, connection) =
        builder.handshake::<_, Body>(TokioIo::new(stream)).await.map_err(broken)?;
    // The driver ends with this function.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status();
    if status.is_success() {
        return Ok(status.as_u16());
    }
    let retry_after = retry_after(response.headers());
    let words = if status.is_redirection() {
        let to = response.headers().get(LOCATION).map(|to| one_line(to.as_bytes()));
        let to = to.map(|to| format!("; its Location is {to}")).unwrap_or_default();
        format!("redirects are not followed{to}")
    } else {
        timeout(WORDS, words(response.map(Body::new))).await.unwrap_or_default()
    };
    let code = status.as_u16();
    let separator = if words.is_empty() { "" } else { ": " };
    Err(Failure {
        permanent: code == 410,
        status: Some(code),
        retry_after,
        message: format!("the receiver answered {code}{separator}{words}"),
    })
}

/// The beginning of an answer's text, on one line.
async fn words(response: Response<Body>) -> String {
    let mut stream = response.into_body().into_data_stream();
    let mut bytes = Vec::new();
    while let Some(Ok(chunk)) = stream.next().await {
        let chunk: Bytes = chunk;
        bytes.extend_from_slice(&chunk[..chunk.len().min(MAX_WORDS - bytes.len())]);
        if bytes.len() == MAX_WORDS {
            break;
        }
    }
    one_line(&bytes)
}

/// The beginning of a receiver's text.
fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.trim().chars().take(SHOWN_WORDS);
    line.map(|c| if is_unsafe(c) { ' ' } else { c }).collect()
}

/// The wait that a receiver asks for: seconds, or an instant.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    Some(until.duration_since(SystemTime::now()).unwrap_or_default())
}

fn later(message: String) -> Failure {
    Failure { message, ..Failure::default() }
}

fn for_good(what: &str, error: &dyn Display) -> Failure {
    Failure { permanent: true, message: format!("{what}: {error}"), ..Failure::default() }
}

#[cfg(test)]
mod tests {
    use callboard_runtime::ports::WebhookContent;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ClientConfig, RootCertStore, ServerConfig};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::super::guard::{Resolve, Resolving};
    use super::body::tests::notice;
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    /// Every name is this machine.
    struct ThisMachine;

    impl Resolve for ThisMachine {
        fn resolve(&self, _: String, port: u16) -> Resolving {
            Box::pin(async move { Ok(vec![([127, 0, 0, 1], port).into()]) })
        }
    }

    fn client() -> Webhooks {
        let guard = Guard::new(vec!["127.0.0.1/32".parse().expect("a network")]);
        let guard = Arc::new(guard.with_resolver(Arc::new(ThisMachine)));
        let secret = WebhookSecret::parse(SECRET).expect("a secret");
        Webhooks::new(guard, Arc::new(WebhookSecrets::of(secret)))
    }

    fn to(url: String) -> WebhookContent {
        WebhookContent { url, ..notice(Some("an output")) }
    }

    async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> String {
        let mut bytes = Vec::new();
        while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
            let mut some = [0; 1024];
            let count = stream.read(&mut some).await.expect("it sends");
            assert!(count > 0, "it hung up");
            bytes.extend_from_slice(&some[..count]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A receiver that answers one request with these bytes, and then holds the connection.
    async fn answering(answer: Vec<u8>) -> (u16, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let head = read_head(&mut stream).await;
            // The client may hang up when it has read enough.
            let _ = stream.write_all(&answer).await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            head
        });
        (port, served)
    }

    async fn answered(answer: &str) -> Result<u16, Failure> {
        let (port, _served) = answering(answer.as_bytes().to_vec()).await;
        client().post(to(format!("http://127.0.0.1:{port}/hook"))).await
    }

    #[tokio::test]
    async fn a_request_names_the_host_and_the_delivery() {
        let (port, served) = answering(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()).await;
        let url = format!("http://hooks.example.com:{port}/a%20b/?c={{d}}#e");
        assert_eq!(client().post(to(url)).await, Ok(204));
        let head = served.await.expect("no panic");
        let lines: Vec<_> = head.split("\r\n").collect();
        assert_eq!(lines[0], "POST /a%20b/?c={d} HTTP/1.1");
        let host = format!("host: hooks.example.com:{port}");
        for line in
            [&*host, "content-type: application/json", "webhook-id: dlv_00000000000000000000000700"]
        {
            assert!(lines.contains(&line), "{head}");
        }
        assert!(!head.contains("transfer-encoding"), "{head}");
    }

    #[tokio::test]
    async fn only_a_2xx_is_success_and_no_redirect_is_followed() {
        assert_eq!(answered("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await, Ok(202));
        let trap = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = trap.local_addr().expect("an address").port();
        for status in [301, 302, 303, 307, 308] {
            let location = format!("location: http://127.0.0.1:{port}/\r\ncontent-length: 0");
            let failure = answered(&format!("HTTP/1.1 {status} Moved\r\n{location}\r\n\r\n")).await;
            let failure = failure.expect_err("a redirect");
            assert_eq!((failure.status, failure.permanent), (Some(status), false));
            assert_eq!(
                failure.message,
                format!(
                    "the receiver answered {status}: redirects are not followed; its Location is \
                     http://127.0.0.1:{port}/"
                )
            );
        }
        let connected = timeout(Duration::from_millis(50), trap.accept()).await;
        assert!(connected.is_err(), "a redirect was followed");
    }

    #[tokio::test]
    async fn a_refusal_is_told_with_its_first_words_on_one_line() {
        let failure =
            answered("HTTP/1.1 410 Gone\r\ncontent-length: 9\r\n\r\nno\nmore\u{1b}!").await;
        let failure = failure.expect_err("a refusal");
        assert_eq!(
            (failure.status, failure.permanent, failure.retry_after),
            (Some(410), true, None)
        );
        assert_eq!(failure.message, "the receiver answered 410: no more !");
        let busy = "HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n";
        let failure = answered(busy).await.expect_err("a refusal");
        assert_eq!((failure.status, failure.permanent), (Some(503), false));
        assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(failure.message, "the receiver answered 503");
    }

    #[tokio::test]
    async fn an_endless_answer_is_not_read_to_its_end() {
        let endless = format!("HTTP/1.1 500 No\r\n\r\n{}", "x".repeat(64 << 20));
        let failure = answered(&endless).await.expect_err("a refusal");
        assert_eq!(failure.message.len(), "the receiver answered 500: ".len() + SHOWN_WORDS);
        let head = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 20));
        assert!(answered(&head).await.expect_err("its head has no end").status.is_none());
        // Words that never come keep nobody waiting.
        let slow = "HTTP/1.1 500 No\r\ncontent-length: 100\r\n\r\nhalf";
        assert_eq!(answered(slow).await.expect_err("a refusal").status, Some(500));
    }

    #[tokio::test]
    async fn an_answer_that_is_no_http_is_a_failure() {
        for nonsense in ["", "hello\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "SSH-2.0-x\r\n"] {
            let failure = answered_and_closed(nonsense).await.expect_err("no answer");
            assert_eq!((failure.status, failure.permanent), (None, false), "{failure:?}");
            assert!(failure.message.starts_with("the receiver's connection broke"), "{failure:?}");
        }
    }

    async fn answered_and_closed(answer: &'static str) -> Result<u16, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            read_head(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.expect("it reads");
        });
        let answer = client().post(to(format!("http://127.0.0.1:{port}/"))).await;
        served.await.expect("no panic");
        answer
    }

    #[tokio::test]
    async fn a_receiver_that_does_not_answer_fails_after_fifteen_seconds() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let client = client();
        let posting = client.post(to(format!("http://127.0.0.1:{port}/")));
        let accept = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            read_head(&mut stream).await;
            // Nothing else will happen.
            tokio::time::pause();
            stream
        };
        let (answer, _stream) = tokio::join!(posting, accept);
        let failure = answer.expect_err("no answer");
        assert_eq!(failure.message, "the receiver took longer than 15 s");
    }

    #[tokio::test]
    async fn https_is_for_a_certificate_of_that_name_that_is_trusted() {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["hooks.example.com".to_owned()]).expect("a name");
        let cert = params.signed_by(&key, &issuer).expect("a certificate");
        let plain = client();
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .expect("they belong together");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let mut roots = RootCertStore::empty();
        roots.add(issuer.der().clone()).expect("a certificate");
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let trusting = Webhooks { tls: TlsConnector::from(Arc::new(config)).into(), ..client() };

        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let served = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                read_head(&mut stream).await;
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("it reads");
                let _ = stream.shutdown().await;
            }
        });
        let right = || to(format!("https://hooks.example.com:{port}/"));
        assert_eq!(trusting.post(right()).await, Ok(204));
        for (client, url) in [
            (&plain, right().url),
            (&trusting, format!("https://other.example.com:{port}/")),
            (&trusting, format!("https://127.0.0.1:{port}/")),
        ] {
            let failure = client.post(to(url.clone())).await.expect_err("no trust");
            assert!(failure.message.starts_with("TLS failed"), "{url}: {failure:?}");
        }
        served.abort();
    }

    #[test]
    fn a_receiver_asks_for_time_in_seconds_or_by_an_instant() {
        let asked = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().expect("a value"))]);
            retry_after(&headers).map(|wait| wait.as_secs())
        };
        assert_eq!(asked("120"), Some(120));
        assert_eq!(asked(" 0 "), Some(0));
        assert_eq!(asked("99999999999999999999999"), Some(u64::MAX));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0), "it has passed");
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_mins(2));
        assert!((118..=120).contains(&asked(&soon).expect("an instant")));
        for wrong in ["", "soon", "-1", "1.5"] {
            assert_eq!(asked(wrong), None, "{wrong}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
