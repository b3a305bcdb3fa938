//! The address of a server, in one form, so that a login is found again.
//!
//! Deliberately absent: credentials in an address, which are refused.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;

use crate::Error;

/// The characters that are escaped within a segment.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A server's address without a trailing slash and without `/api`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    url: Url,
}

impl Server {
    /// The server of a worker, whose address may be that of its web socket: `ws` and `wss` too.
    ///
    /// # Errors
    /// Those of [`Server::parse`].
    #[cfg(feature = "worker")]
    pub fn of_worker(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let http =
            text.strip_prefix("ws").filter(|rest| rest.starts_with(':') || rest.starts_with("s:"));
        http.map_or_else(|| Self::parse(text), |rest| Self::parse(&format!("http{rest}")))
    }

    /// Reads an address such as `https://board.example` or `http://127.0.0.1:8080/api`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], if the text is no such address or holds credentials, which the error
    /// does not show.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let refused = |shown: &str, why: &str| {
            Error::InvalidArgument(format!("{shown} is not a valid server URL: {why}"))
        };
        // The text is not shown: a part of it may be a secret.
        let mut url = Url::parse(text.trim())
            .map_err(|_| refused("the address", "use a URL such as http://127.0.0.1:8080"))?;
        if !url.username().is_empty() || url.password().is_some() {
            let host = url.host_str().unwrap_or_default();
            return Err(refused(host, "a secret belongs into a file, not into the address"));
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused("the address", "only http and https are known"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            let host = url.host_str().unwrap_or_default();
            return Err(refused(host, "it has a query or a fragment"));
        }
        let path = url.path().trim_end_matches('/');
        let path = path.strip_suffix("/api").unwrap_or(path).trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self { url })
    }

    /// The address of `/api/<segments>`.
    pub(crate) fn api(&self, segments: &[&str]) -> Url {
        let mut path = format!("{}/api", self.url.path().trim_end_matches('/'));
        for segment in segments {
            path.push('/');
            path.extend(utf8_percent_encode(segment, RESERVED));
        }
        let mut url = self.url.clone();
        url.set_path(&path);
        url
    }

    /// True if the server is on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        callboard_common::proxy::is_local(self.url.host_str().unwrap_or_default())
    }

    /// True if the connection is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_with_and_without_its_slash_and_api() {
        let shown = |text| Server::parse(text).unwrap().to_string();
        for text in ["http://H:80", "http://h/", "http://h/api", "http://h/api/"] {
            assert_eq!(shown(text), "http://h", "{text}");
        }
        assert_eq!(shown("https://h/board/api"), "https://h/board");
        for bad in [
            "h:8080",
            "",
            "ftp://h",
            "http://h?x=1",
            "http://u:hunter2@h",
            "https://h/?api_key=hunter2",
            "admin:hunter2@h:8080",
            "https://admin:hunter2#ss@h",
        ] {
            let error = Server::parse(bad).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument(_)), "{bad}");
            assert!(!format!("{error:?}").contains("hunter2"));
        }
    }

    #[test]
    fn a_segment_cannot_leave_its_place() {
        let server = Server::parse("http://h/board").unwrap();
        let url = server.api(&["tasks", "a/../b?c=#ä"]);
        assert_eq!(url.as_str(), "http://h/board/api/tasks/a%2F..%2Fb%3Fc%3D%23%C3%A4");
    }
}
