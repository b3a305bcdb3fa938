//! Request bodies: their size, their time, their kind.

pub(super) mod lines;
pub(super) mod pieces;

use std::time::{Duration, Instant};

use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use axum::http::{HeaderMap, HeaderValue, Request};
use bytes::{Bytes, BytesMut};
use callboard_domain::Error;
use callboard_wire::read::Format;
use futures_util::StreamExt;

use super::Edge;
use super::auth::BodySender;
use super::body_budget::Share;

/// The largest body taken, in bytes.
pub const MAX_BODY: usize = 2 * 1024 * 1024;

/// The time after which the caller of a body that has arrived is looked at again.
const SLOW: Duration = Duration::from_millis(100);

/// The allowed types of a body.
const JSON: &[(&str, Format)] = &[("application/json", Format::Json)];
/// The allowed types of a template's body.
const JSON_OR_YAML: &[(&str, Format)] = &[
    ("application/json", Format::Json),
    ("application/yaml", Format::Yaml),
    ("text/yaml", Format::Yaml),
];

/// The allowed types of a body of lines.
const LINES: &[(&str, Format)] = &[
    ("application/x-ndjson", Format::Json),
    ("application/ndjson", Format::Json),
    ("application/jsonl", Format::Json),
];

/// Passes if the body is lines of JSON.
///
/// # Errors
///
/// [`Error::UnsupportedMediaType`].
pub(super) fn expect_lines(headers: &HeaderMap) -> Result<(), Error> {
    let given = format(headers, LINES);
    given.map(|_| ()).ok_or(Error::UnsupportedMediaType("application/x-ndjson, not encoded"))
}

/// Passes if the body is JSON: `application/json`, of any case, with `charset=utf-8` at most.
///
/// # Errors
///
/// [`Error::UnsupportedMediaType`].
pub fn expect_json(headers: &HeaderMap) -> Result<(), Error> {
    let given = format(headers, JSON);
    given.map(|_| ()).ok_or(Error::UnsupportedMediaType("application/json, not encoded"))
}

/// The format of the body: JSON, or YAML as `application/yaml` or `text/yaml`.
///
/// # Errors
///
/// [`Error::UnsupportedMediaType`].
pub fn expect_json_or_yaml(headers: &HeaderMap) -> Result<Format, Error> {
    let says = "application/json, application/yaml or text/yaml, not encoded";
    format(headers, JSON_OR_YAML).ok_or(Error::UnsupportedMediaType(says))
}

fn format(headers: &HeaderMap, taken: &[(&str, Format)]) -> Option<Format> {
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return None;
    }
    format_of(headers.get(CONTENT_TYPE).map(HeaderValue::to_str)?.ok()?, taken)
}

fn format_of(content_type: &str, taken: &[(&str, Format)]) -> Option<Format> {
    let mut parts = content_type.split(';').map(str::trim);
    let is = |part: &str, wanted: &str| part.eq_ignore_ascii_case(wanted);
    let media = parts.next()?;
    let (_, format) = taken.iter().find(|(name, _)| is(media, name))?;
    let in_utf_8 = parts
        .all(|part| part.is_empty() || is(part, "charset=utf-8") || is(part, "charset=\"utf-8\""));
    in_utf_8.then_some(*format)
}

/// Reads the whole body of a request.
///
/// # Errors
///
/// [`Error::PayloadTooLarge`] above [`Edge::max_body`], with or without a length;
/// [`Error::BodyTooSlow`] if the body takes longer than [`Edge::body_timeout`];
/// [`Error::InvalidJson`] if it breaks off; [`Error::TooMuchUnfinished`] and [`Error::Unavailable`]
/// if the budget has no room for it; the error of a credential that was revoked meanwhile.
pub async fn read(request: Request<axum::body::Body>) -> Result<Bytes, Error> {
    let edge = request.extensions().get::<Edge>().copied().unwrap_or_default();
    let (limit, max) = (edge.body_timeout, edge.max_body);
    let announced = request
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok())
        .unwrap_or(0);
    let waits = request.headers().contains_key(EXPECT);
    let share = request.extensions().get::<Share>().cloned();
    let (sender, began) = (request.extensions().get::<BodySender>().cloned(), Instant::now());
    let mut body = Incoming { pieces: request.into_body().into_data_stream(), share };
    if announced > max && waits {
        // The caller has not sent the body, and after this answer never will.
        return Err(Error::PayloadTooLarge { limit: max });
    }
    let all = tokio::time::timeout(limit, body.collect(announced, max)).await;
    let all = all.map_err(|_| Error::BodyTooSlow { seconds: limit.as_secs() })?;
    if all.is_err() {
        // The bytes that were read are dropped.
        body.share.iter().for_each(Share::reset);
    }
    body.share.iter().for_each(Share::finish);
    if let Some(sender) = sender.filter(|_| began.elapsed() > SLOW) {
        sender.check()?;
    }
    all
}

struct Incoming {
    pieces: axum::body::BodyDataStream,
    share: Option<Share>,
}

impl Incoming {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let broken = |_| Error::InvalidJson("it ended before it was complete".to_owned());
        self.pieces.next().await.transpose().map_err(broken)
    }

    /// The next piece, for which there is room.
    async fn next_held(&mut self) -> Result<Option<Bytes>, Error> {
        let piece = self.next().await?;
        if let (Some(piece), Some(share)) = (&piece, &self.share) {
            share.take(piece.len())?;
        }
        Ok(piece)
    }

    async fn collect(&mut self, announced: usize, max: usize) -> Result<Bytes, Error> {
        let too_large = Error::PayloadTooLarge { limit: max };
        if announced > max {
            return Err(too_large);
        }
        // Most bodies are one piece, which is taken without a copy.
        let Some(first) = self.next_held().await? else {
            return Ok(Bytes::new());
        };
        if first.len() > max {
            return Err(too_large);
        }
        let Some(second) = self.next_held().await? else {
            return Ok(first);
        };
        let mut all = BytesMut::with_capacity(announced.max(first.len() + second.len()));
        all.extend_from_slice(&first);
        let mut next = Some(second);
        while let Some(piece) = next {
            if all.len() + piece.len() > max {
                return Err(too_large);
            }
            all.extend_from_slice(&piece);
            next = self.next_held().await?;
        }
        Ok(all.freeze())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use futures_util::stream;

    use super::*;

    fn pieces(count: usize, size: usize) -> Body {
        let piece = Bytes::from(vec![b' '; size]);
        Body::from_stream(stream::iter((0..count).map(move |_| Ok::<_, Infallible>(piece.clone()))))
    }

    async fn length(body: Body) -> Result<usize, Error> {
        read(Request::new(body)).await.map(|bytes| bytes.len())
    }

    #[tokio::test]
    async fn a_body_is_taken_up_to_its_limit_in_one_piece_or_many() {
        let too_large = Err(Error::PayloadTooLarge { limit: MAX_BODY });
        assert_eq!(length(Body::empty()).await, Ok(0));
        assert_eq!(length(pieces(1, MAX_BODY)).await, Ok(MAX_BODY));
        assert_eq!(length(pieces(1024, 2048)).await, Ok(MAX_BODY));
        assert_eq!(length(pieces(1, MAX_BODY + 1)).await, too_large);
        assert_eq!(length(pieces(1025, 2048)).await, too_large);
    }

    #[tokio::test]
    async fn an_endless_body_is_not_read_on_forever() {
        let piece = Bytes::from_static(&[b' '; 4096]);
        let endless = stream::repeat_with(move || Ok::<_, Infallible>(piece.clone()));
        let too_large = Err(Error::PayloadTooLarge { limit: MAX_BODY });
        assert_eq!(length(Body::from_stream(endless)).await, too_large);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_given_up() {
        let silent = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        assert_eq!(length(silent).await, Err(Error::BodyTooSlow { seconds: 30 }));
    }

    #[tokio::test]
    async fn a_length_announced_too_large_is_refused_before_it_is_sent() {
        let silent = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let request = Request::builder()
            .header(CONTENT_LENGTH, MAX_BODY + 1)
            .header(EXPECT, "100-continue")
            .body(silent)
            .expect("a request");
        let too_large = Error::PayloadTooLarge { limit: MAX_BODY };
        assert_eq!(read(request).await, Err(too_large));
    }

    #[test]
    fn only_json_in_utf_8_is_json_and_only_yaml_is_yaml() {
        for right in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\"",
            "application/json;",
        ] {
            assert_eq!(format_of(right, JSON), Some(Format::Json), "{right}");
        }
        for wrong in [
            "",
            "text/json",
            "application/jsonp",
            "application/problem+json",
            "application/json; charset=latin1",
            "application/json, text/plain",
            "application/x-www-form-urlencoded",
        ] {
            assert_eq!(format_of(wrong, JSON_OR_YAML), None, "{wrong}");
        }
        for yaml in ["application/yaml", "Text/YAML; charset=utf-8"] {
            assert_eq!(format_of(yaml, JSON), None, "{yaml}");
            assert_eq!(format_of(yaml, JSON_OR_YAML), Some(Format::Yaml), "{yaml}");
        }
    }
}
