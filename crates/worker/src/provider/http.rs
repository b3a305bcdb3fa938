//! The HTTP that all providers share: one POST, answered by a bounded stream of events.
//!
//! The bytes of an answer say what it is, not its headers: some servers send JSON where a stream was asked
//! for, and call a stream by another name. JSON becomes one event; a page or other words are a failure.
//!
//! Deliberately absent: retries, redirects (a key must not travel to another host), an overall
//! time-out (the attempt's deadline is the worker's business), and any body in a log.

mod listing;

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use callboard_common::proxy::is_local;
use callboard_common::sse::{Event, Parser};
use callboard_domain::model_limits::Reported;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use serde_json::Value;

use super::failure::{Advice, Failure, Words, classify};
use super::lenient;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const KEEPALIVE: Duration = Duration::from_secs(30);
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// The longest answer in JSON, in bytes: the longest output, escaped, and its log-probabilities.
const MAX_JSON_BYTES: usize = 64 * 1024 * 1024;
/// The bytes of an answer that are kept for the words of a failure.
const KEPT: usize = 1024;

/// The reason why a provider can't be set up as configured.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The base URL is no http or https URL, or carries credentials.
    #[error("the base URL {url} can't be used: {reason}")]
    BaseUrl {
        /// The URL as given, without credentials.
        url: String,
        /// The fault.
        reason: &'static str,
    },
    /// The key has characters that no header may have. The error does not show it.
    #[error("the provider's key can't be sent in a header: it has control characters")]
    Key,
    /// The system's certificates or its resolver can't be used.
    #[error("the HTTP client could not be set up: are the system's CA certificates installed?")]
    Client(#[source] reqwest::Error),
}

/// A provider's key. `Debug` does not show it.
#[derive(Clone)]
pub(super) struct Key(String);

/// One address that takes prompts, and the headers to send along.
#[derive(Debug)]
pub(super) struct Endpoint {
    client: Client,
    url: Url,
    headers: HeaderMap,
    key: Option<Key>,
    provider: &'static str,
}

/// The answer that came instead of a stream.
pub(super) struct Refusal {
    /// The failure that the answer means.
    pub(super) failure: Failure,
    /// The HTTP status and the provider's text, if the provider answered at all.
    pub(super) answer: Option<(u16, Words)>,
}

/// The events of one answer. Dropping them closes the connection.
#[derive(Debug)]
pub(super) struct Events {
    response: Response,
    form: Form,
    /// The first bytes.
    beginning: Vec<u8>,
    advice: Advice,
}

/// The form of an answer.
#[derive(Debug)]
enum Form {
    /// No byte but white space has come.
    Unknown,
    Stream(Parser),
    Json(Vec<u8>),
    Page,
    Ended,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { failure, answer: None }
    }
}

impl Key {
    /// A key, unless it is empty: an empty variable means no key.
    pub(super) fn new(text: Option<String>) -> Option<Self> {
        text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).map(Self)
    }

    /// The header's value `<prefix><key>`, marked as not to be shown.
    pub(super) fn header(&self, prefix: &str) -> Result<HeaderValue, ConfigError> {
        let value = format!("{prefix}{}", self.0);
        let mut value = HeaderValue::try_from(value).map_err(|_| ConfigError::Key)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// A base URL without a trailing slash, checked.
pub(super) fn base_url(text: &str) -> Result<Url, ConfigError> {
    let refused = |url: &str, reason| ConfigError::BaseUrl { url: url.to_owned(), reason };
    let mut url = Url::parse(text.trim()).map_err(|_| refused(text, "it is not a valid URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        let host = url.host_str().unwrap_or_default();
        return Err(refused(host, "put the key into the environment, not into the URL"));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused(text, "only http and https are known"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refused(text, "it has a query or a fragment"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

impl Endpoint {
    /// The endpoint `<base><path>`. Proxies from the environment are not used for loopback.
    pub(super) fn new(
        provider: &'static str,
        base: &Url,
        path: &str,
        key: Option<Key>,
        headers: HeaderMap,
    ) -> Result<Self, ConfigError> {
        callboard_common::tls::install_provider();
        let mut url = base.clone();
        url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
        let mut builder = Client::builder()
            .user_agent(concat!("callboard/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(KEEPALIVE)
            .redirect(Policy::none());
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        if url.scheme() == "http" {
            // Redirects are not followed, so TLS is never used: a machine without the system's
            // certificates (a slim container) must not fail over them.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(ConfigError::Client)?;
        Ok(Self { client, url, headers, key, provider })
    }

    /// Sends the body and waits for the head of the answer.
    pub(super) async fn post(&self, body: &Value) -> Result<Events, Refusal> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).json(body);
        let response = request.send().await.map_err(|error| Refusal {
            failure: Failure::unreachable(told("the provider could not be reached", error)),
            answer: None,
        })?;
        let status = response.status();
        let request_id =
            ["x-request-id", "request-id"].iter().find_map(|name| header(&response, name));
        tracing::debug!(
            provider = self.provider,
            status = status.as_u16(),
            request_id,
            "the provider answered"
        );
        if !status.is_success() {
            return Err(self.refusal(response).await);
        }
        let advice = Advice::read(|name| header(&response, name), jiff::Timestamp::now());
        Ok(Events { response, form: Form::Unknown, beginning: Vec::new(), advice })
    }

    /// The refusal that an error inside an answer of status 200 means.
    pub(super) fn error_event(&self, data: &str, events: &Events) -> Refusal {
        let words = self.redacted(data);
        let status = words.status_of_event();
        Refusal { failure: classify(status, &words, &events.advice), answer: Some((status, words)) }
    }

    /// The failure of an answer that ended without a text, in the words that it had instead.
    pub(super) fn unanswered(&self, events: &Events) -> Failure {
        let words = self.redacted(&String::from_utf8_lossy(&events.beginning)).message;
        let what = match (&events.form, words.as_str()) {
            (Form::Page, _) => "a page instead of an answer",
            (_, "") => return Failure::broken("the provider sent an empty answer"),
            (Form::Unknown | Form::Stream(_) | Form::Json(_) | Form::Ended, _) => "no answer",
        };
        Failure::broken(format!("the provider sent {what}: {words}"))
    }

    async fn refusal(&self, mut response: Response) -> Refusal {
        let advice = Advice::read(|name| header(&response, name), jiff::Timestamp::now());
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = MAX_ERROR_BYTES - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == MAX_ERROR_BYTES {
                break;
            }
        }
        let words = self.redacted(&String::from_utf8_lossy(&body));
        Refusal { failure: classify(status, &words, &advice), answer: Some((status, words)) }
    }

    /// The provider's text, without the key if the text repeats it.
    fn redacted(&self, body: &str) -> Words {
        let mut words = Words::read(body);
        if let Some(Key(key)) = &self.key {
            words.message = words.message.replace(key, "…");
        }
        words
    }
}

impl Events {
    /// The next event; `None` when the provider closed the stream in good order.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Form::Stream(parser) = &mut self.form
                && let Some(event) = parser.pop()
            {
                return Ok(Some(event));
            }
            let chunk = self.response.chunk().await;
            match chunk
                .map_err(|error| Failure::broken(told("the provider's stream broke", error)))?
            {
                Some(chunk) => self.take(&chunk)?,
                None => return Ok(self.end()),
            }
        }
    }

    /// The provider's own limits, from the headers.
    pub(super) const fn limits(&self) -> Reported {
        self.advice.limits
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        let beyond = || {
            Failure::refused("the provider sent an answer that is larger than the worker accepts")
        };
        let mut chunk = chunk;
        if matches!(self.form, Form::Unknown) {
            chunk = &chunk[chunk.iter().take_while(|byte| is_blank(**byte)).count()..];
            self.form = Form::of(chunk.first().copied());
        }
        let room = KEPT - self.beginning.len();
        self.beginning.extend_from_slice(&chunk[..chunk.len().min(room)]);
        match &mut self.form {
            Form::Stream(parser) => parser.push(chunk).map_err(|_| beyond()),
            Form::Json(bytes) if bytes.len() + chunk.len() > MAX_JSON_BYTES => Err(beyond()),
            Form::Json(bytes) => {
                bytes.extend_from_slice(chunk);
                Ok(())
            }
            Form::Unknown | Form::Page | Form::Ended => Ok(()),
        }
    }

    /// The last event: the JSON, or the event that the stream's end left without a blank line.
    fn end(&mut self) -> Option<Event> {
        if matches!(self.form, Form::Page | Form::Unknown | Form::Ended) {
            return None;
        }
        match std::mem::replace(&mut self.form, Form::Ended) {
            // What was cut within is no event.
            Form::Stream(mut parser) => {
                parser.rest().filter(|event| lenient::values(&event.data).is_some())
            }
            Form::Json(bytes) => {
                let data = String::from_utf8_lossy(&bytes).into_owned();
                Some(Event { name: String::new(), data })
            }
            Form::Page | Form::Unknown | Form::Ended => None,
        }
    }
}

impl Form {
    /// The form of an answer whose first byte besides blanks is this one.
    fn of(first: Option<u8>) -> Self {
        match first {
            None => Self::Unknown,
            Some(b'{' | b'[') => Self::Json(Vec::new()),
            Some(b'<') => Self::Page,
            Some(_) => Self::Stream(Parser::default()),
        }
    }
}

/// True for white space, and for the bytes of a byte order mark.
const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0xEF | 0xBB | 0xBF)
}

/// A header map with one entry, as most providers need.
pub(super) fn headers<const N: usize>(entries: [(&'static str, HeaderValue); N]) -> HeaderMap {
    entries.into_iter().map(|(name, value)| (HeaderName::from_static(name), value)).collect()
}

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// The error with its causes, and without the address, which the reader knows.
fn told(what: &str, error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut message = format!("{what}: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    message
}

fn is_loopback(url: &Url) -> bool {
    is_local(url.host_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_may_end_in_a_slash_and_may_not_hold_a_key() {
        assert_eq!(
            base_url("http://127.0.0.1:8080/v1/").unwrap().as_str(),
            "http://127.0.0.1:8080/v1"
        );
        assert_eq!(base_url("https://api.example").unwrap().path(), "/");
        for bad in ["ftp://host", "host:80", "", "http://h/v1?key=1"] {
            assert!(base_url(bad).is_err(), "{bad}");
        }
        let secret = base_url("http://user:hunter2@host/v1").unwrap_err().to_string();
        assert!(!secret.contains("hunter2"), "{secret}");
    }

    #[test]
    fn loopback_is_recognised_in_its_notations() {
        for local in
            ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "http://a.localhost"]
        {
            assert!(is_loopback(&Url::parse(local).unwrap()), "{local}");
        }
        assert!(!is_loopback(&Url::parse("http://localhost.example").unwrap()));
    }

    #[test]
    fn a_key_is_not_shown() {
        let key = Key::new(Some(" sk-1 ".into())).unwrap();
        let header = key.header("Bearer ").unwrap();
        assert_eq!(header, "Bearer sk-1");
        assert!(!format!("{key:?} {header:?}").contains("sk-1"));
        assert!(Key::new(Some("  ".into())).is_none());
    }
}
