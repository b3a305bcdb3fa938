//! One call of the interface, before it is sent.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value;

use super::{Server, is_read};
use crate::cli::failure::Failure;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// One call.
pub(in crate::cli) struct Call<'a> {
    pub(super) method: Method,
    pub(super) accept: &'static str,
    pub(super) body: Option<(&'static str, Vec<u8>)>,
    path: Vec<&'a str>,
    query: Vec<(&'a str, String)>,
    extra: HeaderMap,
    patient: bool,
}

impl<'a> Call<'a> {
    /// Reads `/api/<path>`.
    pub(in crate::cli) fn get(path: &[&'a str]) -> Self {
        Self::new(Method::GET, path)
    }

    /// Makes or does something at `/api/<path>`.
    pub(in crate::cli) fn post(path: &[&'a str]) -> Self {
        Self::new(Method::POST, path)
    }

    /// Changes what is at `/api/<path>`.
    pub(in crate::cli) fn patch(path: &[&'a str]) -> Self {
        Self::new(Method::PATCH, path)
    }

    /// Ends what is at `/api/<path>`.
    pub(in crate::cli) fn delete(path: &[&'a str]) -> Self {
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
        }
    }

    /// With a parameter, if it has a value.
    pub(in crate::cli) fn query(mut self, name: &'a str, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// With a parameter of several values, if there are any.
    pub(in crate::cli) fn commas(self, name: &'a str, values: &[String]) -> Self {
        self.query(name, (!values.is_empty()).then(|| values.join(",")))
    }

    /// With a JSON body.
    pub(in crate::cli) fn json(self, body: &Value) -> Self {
        self.raw("application/json", body.to_string().into_bytes())
    }

    /// With a body as it is.
    pub(in crate::cli) fn raw(mut self, kind: &'static str, body: Vec<u8>) -> Self {
        self.body = Some((kind, body));
        self
    }

    /// With a key that makes it safe to repeat (PROTOCOL.md 3).
    pub(in crate::cli) fn idempotency_key(mut self, key: Option<&str>) -> Result<Self, Failure> {
        if let Some(key) = key {
            let value = HeaderValue::from_str(key).map_err(|_| {
                Failure::Usage("the idempotency key holds characters no header may have".into())
            })?;
            self.extra.insert(IDEMPOTENCY_KEY, value);
        }
        Ok(self)
    }

    /// For server-sent events that come after `last`.
    pub(in crate::cli) fn events_after(mut self, last: Option<&str>) -> Self {
        self.accept = "text/event-stream";
        if let Some(last) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
            self.extra.insert(HeaderName::from_static("last-event-id"), last);
        }
        self
    }

    /// Answered as it is the first time, even when the server asks to come again.
    pub(in crate::cli) fn at_once(mut self) -> Self {
        self.patient = false;
        self
    }

    pub(super) fn url(&self, server: &Server) -> Url {
        let mut url = server.api(&self.path);
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        url
    }

    pub(super) fn headers(&self) -> HeaderMap {
        self.extra.clone()
    }

    pub(super) fn is_safe_to_repeat(&self) -> bool {
        self.patient && (is_read(&self.method) || self.extra.contains_key(IDEMPOTENCY_KEY))
    }
}
