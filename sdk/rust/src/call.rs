//! A call of the API, before it is sent.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value;

use crate::{Error, Server};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The content type of an answer that may have any.
pub(crate) const ANY_TYPE: &str = "*/*";

/// A call of `/api/<path>`. The client escapes each segment of the path.
pub struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) accept: &'static str,
    pub(crate) body: Option<(&'static str, Vec<u8>)>,
    path: Vec<&'a str>,
    query: Vec<(&'a str, String)>,
    extra: HeaderMap,
    patient: bool,
    /// True if the caller says that the call is safe to repeat.
    repeats: bool,
    /// False if a 401 is about the call's content, not about the token.
    pub(crate) renews: bool,
}

impl<'a> Call<'a> {
    /// A GET.
    #[must_use]
    pub fn get(path: &[&'a str]) -> Self {
        Self::new(Method::GET, path)
    }

    /// A POST.
    #[must_use]
    pub fn post(path: &[&'a str]) -> Self {
        Self::new(Method::POST, path)
    }

    /// A PUT.
    #[must_use]
    pub fn put(path: &[&'a str]) -> Self {
        Self::new(Method::PUT, path)
    }

    /// A PATCH.
    #[must_use]
    pub fn patch(path: &[&'a str]) -> Self {
        Self::new(Method::PATCH, path)
    }

    /// A DELETE.
    #[must_use]
    pub fn delete(path: &[&'a str]) -> Self {
        Self::new(Method::DELETE, path)
    }

    fn new(method: Method, path: &[&'a str]) -> Self {
        Self {
            method,
            accept: "application/json",
            body: None,
            path: path.to_vec(),
            query: Vec::new(),
            extra: HeaderMap::new(),
            patient: true,
            repeats: false,
            renews: true,
        }
    }

    /// Adds a query parameter, if it has a value.
    #[must_use]
    pub fn query(mut self, name: &'a str, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// Adds a query parameter of several values, unless there are none.
    #[must_use]
    pub fn commas(self, name: &'a str, values: &[String]) -> Self {
        self.query(name, (!values.is_empty()).then(|| values.join(",")))
    }

    /// Adds query parameters.
    #[cfg(feature = "api")]
    pub(crate) fn pairs(mut self, pairs: Vec<(&'a str, String)>) -> Self {
        self.query.extend(pairs);
        self
    }

    /// Sets a JSON body.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.raw("application/json", body.to_string().into_bytes())
    }

    /// Sets a body of the content type `kind`.
    #[must_use]
    pub fn raw(mut self, kind: &'static str, body: Vec<u8>) -> Self {
        self.body = Some((kind, body));
        self
    }

    /// Adds an idempotency key, if there is one. With it the call is safe to repeat.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], if the key has characters that no header may have.
    pub fn idempotency_key(mut self, key: Option<&str>) -> Result<Self, Error> {
        if let Some(key) = key {
            let value = HeaderValue::from_str(key).map_err(|_| {
                Error::InvalidArgument(
                    "the idempotency key holds characters no header may have".into(),
                )
            })?;
            self.extra.insert(IDEMPOTENCY_KEY, value);
        }
        Ok(self)
    }

    /// Asks for server-sent events that come after the event `last`.
    #[must_use]
    pub fn events_after(mut self, last: Option<&str>) -> Self {
        self.accept = "text/event-stream";
        if let Some(last) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
            self.extra.insert(HeaderName::from_static("last-event-id"), last);
        }
        self
    }

    /// Asks for bytes, which [`crate::Client::stream`] opens.
    #[must_use]
    pub fn bytes(mut self) -> Self {
        self.accept = "application/octet-stream";
        self
    }

    /// Asks for a text of the content type `kind`, which [`crate::Client::stream`] opens.
    #[must_use]
    pub fn accepting(mut self, kind: &'static str) -> Self {
        self.accept = kind;
        self
    }

    /// Asks for bytes of any type, which [`crate::Client::stream`] opens.
    #[must_use]
    pub fn of_any_type(self) -> Self {
        self.accepting(ANY_TYPE)
    }

    /// Takes a 401 as an answer to the call's own content, such as a password, and not to the token.
    #[must_use]
    pub fn without_renewal(mut self) -> Self {
        self.renews = false;
        self
    }

    /// Returns the first answer, even if the server asks for patience.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.patient = false;
        self
    }

    /// Says that the call is safe to repeat, as if it had an idempotency key: because each of its parts has one.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.repeats = true;
        self
    }

    pub(crate) fn url(&self, server: &Server) -> Url {
        let mut url = server.api(&self.path);
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        url
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        self.extra.clone()
    }

    pub(crate) fn is_safe_to_repeat(&self) -> bool {
        let reads = matches!(self.method, Method::GET | Method::HEAD);
        self.patient && (reads || self.repeats || self.extra.contains_key(IDEMPOTENCY_KEY))
    }
}
