//! Reaching the server: the address, the key in its header, the tunnel through a proxy of the environment, and
//! the upgrade to a web socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_common::proxy::{Proxy, Route, is_local, route};
use callboard_common::tls::explained;
use futures_util::{Sink, Stream};
use reqwest::Url;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Response};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, client_async_tls_with_config,
    connect_async_tls_with_config,
};

use super::Error;

const PATH: &str = "/api/workers/connect";
/// The most bytes of a proxy's answer.
const MAX_HEAD: usize = 8 << 10;

/// A web socket over any transport.
pub trait Socket:
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
pub trait Dial: Send {
    /// A connection to the server.
    type Socket: Socket;

    /// Connects once.
    fn dial(&mut self) -> impl Future<Output = Result<Self::Socket, DialError>> + Send;
}

/// The reason why there is no connection.
#[derive(Debug)]
pub enum DialError {
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
pub struct Tcp {
    request: Request,
    /// The server's host and port.
    target: String,
    route: Route,
    identity: Option<Identity>,
}

impl Tcp {
    /// Checks the address, the key and the certificate.
    ///
    /// # Errors
    /// One of them can't be used.
    pub fn new(server: &str, key: &str, identity: Option<Identity>) -> Result<Self, Error> {
        let address = address(server)?;
        if let Some(identity) = &identity {
            if address.scheme() == "ws" {
                let reason = "a client certificate needs https";
                return Err(Error::Address { address: server.to_owned(), reason });
            }
            identity.connector().map_err(Error::Certificate)?;
        }
        let host = address.host_str().unwrap_or_default();
        if address.scheme() == "ws" && !is_local(host) {
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
        let target = format!("{host}:{}", address.port_or_known_default().unwrap_or_default());
        // ws is http, and wss is https.
        let route = route(&format!("http{}", address.as_str().trim_start_matches("ws")));
        if let Route::Through(proxy) = &route {
            tracing::info!(%proxy, "the server is reached through the proxy of the environment");
        }
        Ok(Self { request, target, route, identity })
    }
}

impl Dial for Tcp {
    type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

    async fn dial(&mut self) -> Result<Self::Socket, DialError> {
        callboard_common::tls::install_provider();
        let without_delay = true;
        let connector = self.identity.as_ref().map(Identity::connector).transpose();
        // The files of the certificate may be about to change.
        let connector = connector.map_err(DialError::Away)?;
        let request = self.request.clone();
        let connected = match &self.route {
            Route::Direct => {
                connect_async_tls_with_config(request, None, without_delay, connector).await
            }
            Route::Through(proxy) => {
                let stream = tunnel(proxy, &self.target).await.map_err(|why| {
                    DialError::Away(format!("the proxy {proxy} gives no way to the server: {why}"))
                })?;
                client_async_tls_with_config(request, stream, None, connector).await
            }
        };
        match connected {
            Ok((socket, _)) => Ok(socket),
            Err(tungstenite::Error::Http(response)) => Err(refused(&response)),
            Err(error) => Err(DialError::Away(explained(error.to_string()))),
        }
    }
}

/// A connection to `target` through an HTTP proxy (RFC 9110, section 9.3.6).
async fn tunnel(proxy: &Proxy, target: &str) -> Result<TcpStream, String> {
    if proxy.scheme != "http" {
        return Err("only proxies of http:// are supported".to_owned());
    }
    let host = proxy.host.trim_matches(['[', ']']);
    let broken = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect((host, proxy.port)).await.map_err(broken)?;
    stream.set_nodelay(true).map_err(broken)?;
    let mut head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
    if let Some(authorization) = &proxy.authorization {
        head.extend_from_slice(b"Proxy-Authorization: ");
        head.extend_from_slice(authorization);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    stream.write_all(&head).await.map_err(broken)?;
    let mut answer = Vec::new();
    // The server says nothing before it is spoken to, so nothing follows the head of a success.
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        if answer.len() >= MAX_HEAD || stream.read_buf(&mut answer).await.map_err(broken)? == 0 {
            return Err("its answer has no end".to_owned());
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).unwrap_or_default();
    match status {
        "200" => Ok(stream),
        "407" => Err("it answered 407, as it wants a user and a password: write them into the address, as in \
                      HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT"
            .to_owned()),
        _ => Err(format!("it answered {}", answer.lines().next().unwrap_or_default())),
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
