//! Reaching the server: the address, the key in its header, and the upgrade to a web socket.
//!
//! Deliberately absent: retries (the runner's), and the frames.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Sink, Stream};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::Url;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderMap, HeaderValue, Response};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
};

use super::Error;

const PATH: &str = "/api/workers/connect";

/// The difference of the clocks up to which they count as equal: the resolution of the header is a
/// second.
const SAME_CLOCK_MS: i64 = 2000;

/// A web socket over any transport.
pub(super) trait Socket:
    Stream<Item = Result<Message, tungstenite::Error>>
    + Sink<Message, Error = tungstenite::Error>
    + Unpin
    + Send
{
}

impl<S> Socket for S where
    S: Stream<Item = Result<Message, tungstenite::Error>>
        + Sink<Message, Error = tungstenite::Error>
        + Unpin
        + Send
{
}

/// A maker of connections to a server.
pub(super) trait Dial: Send {
    /// A connection to the server.
    type Socket: Socket;

    /// Connects once.
    fn dial(&mut self) -> impl Future<Output = Result<Dialed<Self::Socket>, DialError>> + Send;
}

/// A connection that stands.
#[derive(Debug)]
pub(super) struct Dialed<S> {
    pub(super) socket: S,
    /// The milliseconds that the server's clock is ahead of ours.
    pub(super) clock_ahead_ms: i64,
}

/// The reason why there is no connection.
#[derive(Debug)]
pub(super) enum DialError {
    /// Another try cannot work.
    Fatal(Error),
    /// Another try may work later.
    Away(String),
}

/// The files of a client certificate and its key, in PEM; each connection reads them anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, then those of its issuers.
    pub cert: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
}

impl Identity {
    /// TLS that presents this certificate, and trusts the authorities of the system.
    fn connector(&self) -> Result<Connector, String> {
        callboard_common::tls::install_provider();
        let Self { cert, key } = self;
        let of =
            |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(cert).map_err(|error| of(cert, &error))?.collect();
        let chain = chain.map_err(|error| of(cert, &error))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| of(key, &error))?;
        let config = ClientConfig::builder()
            .with_root_certificates(callboard_common::tls::system_roots()?)
            .with_client_auth_cert(chain, private)
            .map_err(|error| of(cert, &error))?;
        Ok(Connector::Rustls(Arc::new(config)))
    }
}

/// The connections over TCP, with TLS if the address demands it.
pub(super) struct Tcp {
    request: Request,
    identity: Option<Identity>,
}

impl Tcp {
    /// Checks the address, the key and the certificate.
    pub(super) fn new(server: &str, key: &str, identity: Option<Identity>) -> Result<Self, Error> {
        let address = address(server)?;
        if let Some(identity) = &identity {
            if address.scheme() == "ws" {
                let reason = "a client certificate needs https";
                return Err(Error::Address { address: server.to_owned(), reason });
            }
            identity.connector().map_err(Error::Certificate)?;
        }
        let local = address.host_str().is_some_and(|host| {
            let host = host.trim_matches(['[', ']']);
            host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        });
        if address.scheme() == "ws" && !local {
            tracing::warn!(
                "the worker's key travels unencrypted: the server's address is not https"
            );
        }
        let mut request = address.as_str().into_client_request().map_err(|_| Error::Address {
            address: server.to_owned(),
            reason: "it is not a valid server URL",
        })?;
        let mut value =
            HeaderValue::try_from(format!("Bearer {}", key.trim())).map_err(|_| Error::Key)?;
        value.set_sensitive(true);
        request.headers_mut().insert("authorization", value);
        Ok(Self { request, identity })
    }
}

impl Dial for Tcp {
    type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

    async fn dial(&mut self) -> Result<Dialed<Self::Socket>, DialError> {
        callboard_common::tls::install_provider();
        let without_delay = true;
        let connector = self.identity.as_ref().map(Identity::connector).transpose();
        // The files of the certificate may be about to change.
        let connector = connector.map_err(DialError::Away)?;
        let request = self.request.clone();
        match connect_async_tls_with_config(request, None, without_delay, connector).await {
            Ok((socket, response)) => {
                let clock_ahead_ms = clock_ahead_ms(response.headers(), Timestamp::now());
                Ok(Dialed { socket, clock_ahead_ms })
            }
            Err(tungstenite::Error::Http(response)) => Err(refused(&response)),
            Err(error) => Err(DialError::Away(error.to_string())),
        }
    }
}

/// The address of the workers' web socket on this server.
fn address(server: &str) -> Result<Url, Error> {
    let refused = |reason| Error::Address { address: server.to_owned(), reason };
    let mut url = Url::parse(server.trim()).map_err(|_| refused("it is not a valid URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        let address = url.host_str().unwrap_or_default().to_owned();
        return Err(Error::Address {
            address,
            reason: "the key belongs into a file, not into the URL",
        });
    }
    let scheme = match url.scheme() {
        "http" | "ws" => "ws",
        "https" | "wss" => "wss",
        _ => return Err(refused("only http and https are known")),
    };
    url.set_scheme(scheme).map_err(|()| refused("it has no host"))?;
    url.set_path(&format!("{}{PATH}", url.path().trim_end_matches('/')));
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// 401 and 403 are final: the key will not become better. Any other status may pass.
fn refused(response: &Response<Option<Vec<u8>>>) -> DialError {
    let status = response.status().as_u16();
    if !matches!(status, 401 | 403) {
        return DialError::Away(format!("the server answered {status}"));
    }
    let body = response.body().as_deref().unwrap_or_default();
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = body["error"]["message"].as_str().unwrap_or("no reason was given");
    DialError::Fatal(Error::Refused { status, message: message.chars().take(300).collect() })
}

/// The milliseconds that the server's `Date` is ahead of our clock: a deadline is in the server's
/// time.
fn clock_ahead_ms(headers: &HeaderMap, now: Timestamp) -> i64 {
    let date = headers.get("date").and_then(|date| date.to_str().ok());
    let Some(date) = date.and_then(|date| rfc2822::parse(date).ok()) else {
        return 0;
    };
    let ahead = date.timestamp().as_millisecond() - now.as_millisecond();
    if ahead.abs() < SAME_CLOCK_MS { 0 } else { ahead }
}

/// The time from now to a deadline in the server's time; zero when it passed. `None`: the deadline
/// can't be read, and the server alone enforces it.
pub(super) fn remaining(
    deadline_at: &str,
    clock_ahead_ms: i64,
    now: Timestamp,
) -> Option<Duration> {
    let deadline: Timestamp = deadline_at.parse().ok()?;
    let millis = deadline.as_millisecond() - (now.as_millisecond() + clock_ahead_ms);
    Some(Duration::from_millis(millis.try_into().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    const NOW: &str = "2026-11-21T10:00:00Z";

    #[test]
    fn an_address_of_a_server_becomes_that_of_its_web_socket() {
        let found = |server| address(server).unwrap().to_string();
        assert_eq!(found("http://127.0.0.1:8080"), "ws://127.0.0.1:8080/api/workers/connect");
        assert_eq!(found("https://host/board/"), "wss://host/board/api/workers/connect");
        assert_eq!(found("ws://host:1/?x=1"), "ws://host:1/api/workers/connect");
        for bad in ["host:8080", "ftp://host", "", "http://"] {
            assert!(address(bad).is_err(), "{bad}");
        }
        assert!(!address("http://u:hunter2@h").unwrap_err().to_string().contains("hunter2"));
    }

    #[test]
    fn a_key_that_no_header_can_hold_is_refused_without_showing_it() {
        let error = Tcp::new("http://127.0.0.1:1", "sk\n1", None).err().unwrap();
        assert_eq!(error, Error::Key);
    }

    #[test]
    fn a_certificate_that_cannot_be_read_or_would_not_be_sent_is_refused_at_once() {
        let missing = || Some(Identity { cert: "/nowhere.pem".into(), key: "/nowhere.key".into() });
        let error = Tcp::new("https://127.0.0.1:1", "k", missing()).err().unwrap();
        assert!(error.to_string().contains("/nowhere.pem"), "{error}");
        let error = Tcp::new("http://127.0.0.1:1", "k", missing()).err().unwrap();
        assert!(error.to_string().contains("needs https"), "{error}");
    }

    #[tokio::test]
    async fn a_server_that_speaks_no_tls_is_one_that_may_come_back() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("https://{}", listener.local_addr().unwrap());
        let answer = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        };
        let mut tcp = Tcp::new(&server, "k", None).unwrap();
        let (dialed, ()) = tokio::join!(tcp.dial(), answer);
        assert!(matches!(dialed, Err(DialError::Away(_))), "{dialed:?}");
    }

    #[test]
    fn only_a_refused_key_is_final() {
        let answer = |status: u16, body: &str| {
            let response = Response::builder().status(status).body(Some(body.as_bytes().to_vec()));
            refused(&response.unwrap())
        };
        let fatal = answer(
            401,
            r#"{"success": false, "error": {"code": "INVALID_TOKEN", "message": "unknown key"}}"#,
        );
        let expected = Error::Refused { status: 401, message: "unknown key".into() };
        assert!(matches!(fatal, DialError::Fatal(error) if error == expected));
        assert!(matches!(answer(403, "no"), DialError::Fatal(Error::Refused { status: 403, .. })));
        assert!(matches!(answer(503, ""), DialError::Away(_)));
        assert!(matches!(answer(404, ""), DialError::Away(_)));
    }

    #[test]
    fn a_deadline_is_counted_on_the_servers_clock() {
        let now: Timestamp = NOW.parse().unwrap();
        let headers = |date: &'static str| {
            HeaderMap::from_iter([("date".parse().unwrap(), HeaderValue::from_static(date))])
        };
        assert_eq!(clock_ahead_ms(&headers("Sat, 21 Nov 2026 10:00:01 GMT"), now), 0);
        assert_eq!(clock_ahead_ms(&headers("Sat, 21 Nov 2026 09:58:20 GMT"), now), -100_000);
        assert_eq!(clock_ahead_ms(&headers("nonsense"), now), 0);
        let deadline = "2026-11-21T10:00:05.500Z";
        assert_eq!(remaining(deadline, 0, now), Some(Duration::from_millis(5500)));
        assert_eq!(remaining(deadline, -100_000, now), Some(Duration::from_millis(105_500)));
        assert_eq!(remaining(deadline, 60_000, now), Some(Duration::ZERO));
        assert_eq!(remaining("soon", 0, now), None);
    }
}
