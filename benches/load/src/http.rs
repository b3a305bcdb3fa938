//! The load maker's HTTP/1.1: one kept-alive connection, requests that were made beforehand, and
//! only the needed part of an answer read. The client shares the cores with the measured server, so
//! it does no other work.
//!
//! [`Site::client`] gives the usual client, for every request that is not load.

use std::net::{SocketAddr, ToSocketAddrs};

use callboard_client::{ApiError, Client, Credential, Secret, Server};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

use super::error::{Error, broken};

/// The server of the requests, and the credentials that they carry.
#[derive(Debug, Clone)]
pub(super) struct Site {
    address: SocketAddr,
    host: String,
    /// The beginning of every path, for a server behind a proxy.
    prefix: String,
    token: Option<String>,
}

impl Site {
    /// The server at `url`, asked with this key or token.
    ///
    /// # Errors
    /// The address is not plain HTTP, or its host has no address.
    pub(super) fn parse(url: &str, token: Option<String>) -> Result<Self, Error> {
        let unreachable = |reason: String| unreachable(url.to_owned(), reason);
        let parsed = Url::parse(url).map_err(|error| unreachable(error.to_string()))?;
        if parsed.scheme() != "http" {
            return Err(broken(format!(
                "{url} is not measured: load is made over plain http only"
            )));
        }
        let host = parsed.host_str().unwrap_or_default();
        let port = parsed.port_or_known_default().unwrap_or(80);
        let bare = host.trim_matches(['[', ']']);
        let mut addresses =
            (bare, port).to_socket_addrs().map_err(|error| unreachable(error.to_string()))?;
        let address = addresses.next().ok_or_else(|| unreachable("it has no address".into()))?;
        let prefix = parsed.path().trim_end_matches('/').to_owned();
        Ok(Self { address, host: format!("{host}:{port}"), prefix, token })
    }

    /// A server on this machine.
    pub(super) fn local(address: SocketAddr) -> Self {
        Self { address, host: address.to_string(), prefix: String::new(), token: None }
    }

    /// The same server, with another token.
    pub(super) fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// This server, with the token of `other`.
    pub(super) fn as_by(&self, other: &Self) -> Self {
        Self { token: other.token.clone(), ..self.clone() }
    }

    /// True if the server shares this machine's cores and disk.
    pub(super) fn is_local(&self) -> bool {
        self.address.ip().is_loopback()
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The usual client of the server.
    pub(super) fn client(&self) -> Result<Client, Error> {
        let server = Server::parse(&format!("http://{}{}", self.host, self.prefix))?;
        let key = self.token.clone().map(|token| Credential::Key(Secret::new(token)));
        Ok(Client::new(server, key.unwrap_or(Credential::None))?)
    }

    /// A POST of JSON.
    pub(super) fn post(&self, path: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        let rest =
            format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        self.request("POST", path, &rest)
    }

    pub(super) fn get(&self, path: &str) -> Vec<u8> {
        self.request("GET", path, "\r\n")
    }

    pub(super) fn delete(&self, path: &str) -> Vec<u8> {
        self.request("DELETE", path, "\r\n")
    }

    fn request(&self, method: &str, path: &str, rest: &str) -> Vec<u8> {
        let Self { host, prefix, token, .. } = self;
        let authorization =
            token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n"));
        let authorization = authorization.unwrap_or_default();
        format!("{method} {prefix}{path} HTTP/1.1\r\nhost: {host}\r\n{authorization}{rest}")
            .into_bytes()
    }

    /// A new connection.
    pub(super) async fn open(&self) -> Result<Connection, Error> {
        let stream = TcpStream::connect(self.address).await;
        let stream = stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
        let stream = stream
            .map_err(|error| unreachable(format!("http://{}", self.host), error.to_string()))?;
        Ok(Connection { stream, received: Vec::with_capacity(16 << 10) })
    }
}

fn unreachable(server: String, reason: String) -> Error {
    callboard_client::Error::Unreachable { server, reason }.into()
}

/// An open connection.
pub(super) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// The places of an answer's parts.
struct Head {
    status: u16,
    body: std::ops::Range<usize>,
}

impl Connection {
    /// Sends a request and waits for the whole answer, which must have this status.
    pub(super) async fn exchange(&mut self, request: &[u8], status: u16) -> Result<&[u8], Error> {
        let lost = Error::of("a connection was lost");
        self.stream.write_all(request).await.map_err(lost)?;
        self.received.clear();
        let head = loop {
            let read = self.stream.read_buf(&mut self.received).await;
            if read.map_err(Error::of("a connection was lost"))? == 0 {
                return Err(broken("the server closed a connection"));
            }
            if let Some(head) = head(&self.received)?
                && head.body.end <= self.received.len()
            {
                break head;
            }
        };
        let body = &self.received[head.body];
        if head.status == status {
            return Ok(body);
        }
        let text = || Value::String(String::from_utf8_lossy(body).into_owned());
        let body = serde_json::from_slice(body).unwrap_or_else(|_| text());
        let refusal = Box::new(ApiError::read(head.status, &body));
        Err(callboard_client::Error::Api(refusal).into())
    }

    /// Sends a request and returns the member `data` of the answer.
    pub(super) async fn data(&mut self, request: &[u8], status: u16) -> Result<Value, Error> {
        let body = self.exchange(request, status).await?;
        let mut body: Value =
            serde_json::from_slice(body).map_err(Error::of("an answer is no JSON"))?;
        Ok(body["data"].take())
    }
}

/// The head of an answer; `None` until all of it was received.
fn head(received: &[u8]) -> Result<Option<Head>, Error> {
    const LENGTH: &[u8] = b"\r\ncontent-length: ";
    let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let number = |digits: &[u8]| -> usize {
        let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |number, digit| 10 * number + usize::from(digit - b'0'))
    };
    let mut names = received[..end].windows(LENGTH.len());
    let length = names.position(|name| name.eq_ignore_ascii_case(LENGTH));
    let (Some(length), Some(status)) = (length, received.get(9..12)) else {
        return Err(broken("an answer has no length"));
    };
    let length = number(&received[length + LENGTH.len()..]);
    let status = u16::try_from(number(status)).unwrap_or_default();
    Ok(Some(Head { status, body: end + 4..end + 4 + length }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_found_once_it_is_whole() {
        let answer = b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\nx: y\r\n\r\nabc";
        assert!(head(&answer[..40]).unwrap().is_none());
        let whole = head(answer).unwrap().unwrap();
        assert_eq!((whole.status, &answer[whole.body]), (201, &b"abc"[..]));
        assert!(head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }

    #[test]
    fn a_site_keeps_the_path_and_refuses_what_is_encrypted() {
        let site = Site::parse("http://127.0.0.1:8080/board/", Some("k".into())).unwrap();
        let request = String::from_utf8(site.get("/api/tasks")).unwrap();
        assert_eq!(
            request,
            "GET /board/api/tasks HTTP/1.1\r\nhost: 127.0.0.1:8080\r\n\
             authorization: Bearer k\r\n\r\n"
        );
        assert!(site.is_local());
        assert!(Site::parse("https://127.0.0.1", None).is_err());
    }
}
