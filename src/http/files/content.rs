//! The bytes of a file, as the client reads them.
//!
//! A browser that opens the answer saves it, or shows it without scripts and without the service's origin.

use std::io;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, IF_RANGE, RANGE,
};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use callboard_domain::Error;
use callboard_domain::file::{File, Part, UNKNOWN_MEDIA_TYPE, part};
use callboard_domain::id::Environment;
use callboard_runtime::Handle;
use futures_util::stream;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use crate::http::Failure;
use crate::http::describe::{Input, Operation};

/// The characters of a name that are escaped in `filename*` (RFC 8187).
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_').remove(b'~').remove(b'!');

/// The headers of every content.
const FIXED: [(HeaderName, HeaderValue); 4] = [
    (ACCEPT_RANGES, HeaderValue::from_static("bytes")),
    (CACHE_CONTROL, HeaderValue::from_static("private, no-store")),
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox")),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// The `Range` header; none beside an `If-Range`, which no content has a validator for.
pub(in crate::http) struct AskedRange(Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for AskedRange {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let range = parts.headers.get(RANGE).filter(|_| !parts.headers.contains_key(IF_RANGE));
        Ok(Self(range.and_then(|range| range.to_str().ok()).map(str::to_owned)))
    }
}

impl Input for AskedRange {
    fn describe(operation: &mut Operation) {
        let text = "the part to be sent, such as `bytes=0-99`; a malformed one is passed over";
        operation.header("Range", text, &json!({"type": "string"}));
        operation.refusals.remove(&400);
    }
}

/// Begins the answer.
pub(in crate::http) async fn begin(
    handle: &Handle,
    environment: Environment,
    file: &File,
    AskedRange(range): &AskedRange,
) -> Result<Response, Error> {
    let asked = range.as_deref().map(|range| part(range, file.bytes)).transpose()?.flatten();
    let sent = asked.unwrap_or(Part { from: 0, length: file.bytes });
    let reader = handle.read_file(environment, file, sent).await?;
    let pieces = stream::unfold(Some(reader), async |reader| {
        let mut reader = reader?;
        match reader.next().await {
            Ok(piece) => piece.map(|piece| (Ok::<_, io::Error>(piece), Some(reader))),
            // The client sees that the answer breaks off.
            Err(error) => Some((Err(io::Error::other(error.to_string())), None)),
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.extend(FIXED);
    let media = HeaderValue::from_str(&file.media_type);
    headers.insert(CONTENT_TYPE, media.unwrap_or(HeaderValue::from_static(UNKNOWN_MEDIA_TYPE)));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(sent.length));
    headers.extend(
        HeaderValue::from_str(&disposition(file)).ok().map(|value| (CONTENT_DISPOSITION, value)),
    );
    if asked.is_some() {
        let last = sent.from + sent.length - 1;
        let range = format!("bytes {}-{last}/{}", sent.from, file.bytes);
        headers.extend(HeaderValue::from_str(&range).ok().map(|range| (CONTENT_RANGE, range)));
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// `attachment` with the file's name, in both notations of RFC 6266.
fn disposition(file: &File) -> String {
    let Some(name) = &file.name else {
        return format!("attachment; filename=\"{}\"", file.id);
    };
    let plain = |letter: char| {
        let is_plain = letter == ' ' || (letter.is_ascii_graphic() && !"\"\\/%".contains(letter));
        if is_plain { letter } else { '_' }
    };
    let plain: String = name.chars().map(plain).collect();
    format!(
        "attachment; filename=\"{plain}\"; filename*=UTF-8''{}",
        utf8_percent_encode(name, ESCAPED)
    )
}
