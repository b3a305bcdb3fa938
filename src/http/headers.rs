//! Headers that every answer carries, and the request id.
//!
//! Deliberately absent: the headers of single errors, which stand beside the error table, and
//! those of rate limits.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// The header that carries the request id, in and out.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The security headers of every answer.
const SECURITY: [(HeaderName, HeaderValue); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::X_XSS_PROTECTION, HeaderValue::from_static("1; mode=block")),
    (
        header::STRICT_TRANSPORT_SECURITY,
        HeaderValue::from_static("max-age=31536000; includeSubDomains"),
    ),
];

/// The name of one request, in its answer and in the log; an extension of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// The caller's request id, if it is well formed, else a new one.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(X_REQUEST_ID).and_then(|id| id.to_str().ok());
        given.and_then(Self::given).unwrap_or_else(Self::made)
    }

    /// The given id, if it is 1 to 128 characters of `A-Z a-z 0-9 . _ -`.
    #[must_use]
    pub fn given(text: &str) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=128).contains(&text.len()) || !text.bytes().all(plain) {
            return None;
        }
        HeaderValue::from_str(text).ok().map(Self)
    }

    fn made() -> Self {
        let text = format!("req_{:032x}", rand::random::<u128>());
        Self(HeaderValue::try_from(text).expect("hexadecimal digits are visible ASCII"))
    }

    /// The id as text, which needs no escaping anywhere.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // The id came in as text, so the conversion cannot fail.
        self.0.to_str().unwrap_or_default()
    }
}

/// The headers of every stream of events: no proxy may gather it, compress it or keep it.
/// (<https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_buffering>)
const OF_STREAMS: [(HeaderName, HeaderValue); 2] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
];

/// Puts the request id and the security headers on an answer, and those of streams on a stream.
pub(super) fn stamp(headers: &mut HeaderMap, id: &RequestId) {
    headers.insert(X_REQUEST_ID, id.0.clone());
    for (name, value) in SECURITY {
        headers.insert(name, value);
    }
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) {
        for (name, value) in OF_STREAMS {
            headers.insert(name, value);
        }
    }
}

/// The bytes that the request's line and headers took on the wire, give or take the version.
pub(super) fn size(request: &Request) -> usize {
    let uri = request.uri();
    let line = uri.path().len() + uri.query().map_or(0, str::len);
    let field = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
    line + request.headers().iter().map(field).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &'static [u8]) -> RequestId {
        let value = HeaderValue::from_bytes(id).expect("bytes of a header");
        RequestId::of(&HeaderMap::from_iter([(X_REQUEST_ID, value)]))
    }

    #[test]
    fn a_stream_passes_proxies_as_it_is_written() {
        let of_type = |kind: &'static str| {
            let entries = [
                (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
                (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            ];
            let mut headers = HeaderMap::from_iter(entries);
            stamp(&mut headers, &RequestId::made());
            headers
        };
        for kind in ["text/event-stream", "text/event-stream; charset=utf-8"] {
            let headers = of_type(kind);
            let caching: Vec<_> = headers.get_all(header::CACHE_CONTROL).into_iter().collect();
            assert_eq!(caching, ["no-cache, no-transform"]);
            assert_eq!(headers["x-accel-buffering"], "no");
        }
        assert!(!of_type("application/json").contains_key("x-accel-buffering"));
    }

    #[test]
    fn a_well_formed_request_id_is_kept_and_any_other_replaced() {
        assert_eq!(of(b"Abc.1_2-3").as_str(), "Abc.1_2-3");
        assert_eq!(of(&[b'x'; 128]).as_str().len(), 128);
        for malformed in [&b""[..], b"a b", b"a\"b", b"\xff", b"a/b", &[b'x'; 129]] {
            let made = of(malformed);
            assert_eq!(made.as_str().len(), 36);
            assert!(RequestId::given(made.as_str()).is_some());
        }
        assert_ne!(RequestId::of(&HeaderMap::new()), RequestId::of(&HeaderMap::new()));
    }
}
