//! The envelope of every answer.
//!
//! A handler's data is written to bytes at once, without a value in between; the request id, the
//! time and the duration are known outside of it, so the answer travels as a draft and the layer
//! around all routes writes its end. Deliberately absent: the answers outside of the envelope (`/health`,
//! the stream of events, the description of the interface), which handlers make with [`Reply::bare`]
//! or as plain responses.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use callboard_domain::query::Window;
use callboard_domain::{Error, Timestamp};
use serde::Serialize;

use super::body_budget::{AnswerPermit, Share};
use super::error::{ErrorBody, Failure, OpenAiError};
use super::headers::RequestId;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The answer of a successful handler.
#[derive(Debug)]
pub struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Enveloped(Draft),
    Bare(Vec<u8>),
    Unwritable,
}

impl Reply {
    /// 200 with `data`.
    #[must_use]
    pub fn ok(data: &impl Serialize) -> Self {
        Self::with_status(StatusCode::OK, data)
    }

    /// 201 with `data`.
    #[must_use]
    pub fn created(data: &impl Serialize) -> Self {
        Self::with_status(StatusCode::CREATED, data)
    }

    /// 200 with `data` alone, without the envelope.
    #[must_use]
    pub fn ok_bare(data: &impl Serialize) -> Self {
        Self::bare(StatusCode::OK, data)
    }

    /// Another status with `data`, such as the 503 of `/api/health`.
    #[must_use]
    pub fn with_status(status: StatusCode, data: &impl Serialize) -> Self {
        Self::new(status, Draft::success(data, None).map(Content::Enveloped))
    }

    /// 200 with one page of a list of `total` items.
    #[must_use]
    pub fn page(items: &impl Serialize, total: u64, Window { limit, offset }: Window) -> Self {
        let has_more = total > offset.saturating_add(limit) as u64;
        let pagination = Pagination { total, limit, offset, has_more };
        let draft = Draft::success(items, Some(&pagination));
        Self::new(StatusCode::OK, draft.map(Content::Enveloped))
    }

    /// `data` alone, without the envelope, for the paths that are not under `/api`.
    #[must_use]
    pub fn bare(status: StatusCode, data: &impl Serialize) -> Self {
        Self::new(status, serde_json::to_vec(data).map(Content::Bare))
    }

    /// This answer with one more header, such as `Idempotent-Replayed`.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// This answer, kept out of every cache, for one that carries a token or a key.
    #[must_use]
    pub fn secret(self) -> Self {
        self.header(CACHE_CONTROL, HeaderValue::from_static("no-store"))
    }

    fn new(status: StatusCode, content: serde_json::Result<Content>) -> Self {
        let content = content.unwrap_or_else(|error| {
            tracing::error!(%error, "an answer cannot be written as JSON");
            Content::Unwritable
        });
        Self { status, headers: HeaderMap::new(), content }
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let mut response = match self.content {
            Content::Enveloped(draft) => draft.into_response(),
            Content::Bare(bytes) => ([(CONTENT_TYPE, JSON)], bytes).into_response(),
            Content::Unwritable => return Failure(Error::Internal).into_response(),
        };
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers);
        response
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pagination {
    total: u64,
    limit: usize,
    offset: usize,
    has_more: bool,
}

/// The shape of the answers of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The envelope.
    Enveloped,
    /// The shape of OpenAI's answers.
    OpenAi,
}

impl Shape {
    pub(super) fn of(path: &str) -> Self {
        if path.starts_with("/v1/") { Self::OpenAi } else { Self::Enveloped }
    }
}

/// An answer whose request is not known yet.
#[derive(Debug, Clone)]
pub(super) enum Draft {
    /// An envelope that lacks its `meta` and its closing brace.
    Success(Vec<u8>),
    /// A refusal.
    Failure(Error),
}

impl Draft {
    fn success(data: &impl Serialize, pagination: Option<&Pagination>) -> serde_json::Result<Self> {
        // Most answers and their end fit.
        let mut json = Vec::with_capacity(768);
        json.extend_from_slice(br#"{"success":true,"data":"#);
        serde_json::to_writer(&mut json, data)?;
        if let Some(pagination) = pagination {
            json.extend_from_slice(br#","pagination":"#);
            serde_json::to_writer(&mut json, pagination)?;
        }
        Ok(Self::Success(json))
    }

    fn finish(self, shape: Shape, id: &RequestId, at: Timestamp, duration: Duration) -> Vec<u8> {
        let (mut json, is_success) = match self {
            Self::Success(json) => (json, true),
            Self::Failure(error) => {
                const TEXTS: &str = "an error has text members only";
                if shape == Shape::OpenAi {
                    return serde_json::to_vec(&OpenAiError(&error)).expect(TEXTS);
                }
                let mut json = Vec::with_capacity(512);
                json.extend_from_slice(br#"{"success":false,"error":"#);
                serde_json::to_writer(&mut json, &ErrorBody(&error)).expect(TEXTS);
                (json, false)
            }
        };
        let id = id.as_str();
        write!(json, r#","meta":{{"requestId":"{id}","timestamp":"{at}""#)
            .expect("a vector takes every write");
        if is_success {
            write!(json, r#","duration":{}"#, duration.as_millis())
                .expect("a vector takes every write");
        }
        json.extend_from_slice(b"}}");
        json
    }
}

impl IntoResponse for Draft {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the end of the envelope, if the answer has one, or a refusal in its shape. Of an answer to HEAD
/// only the length is reported. A long answer takes room of its `caller` until it is sent; without
/// room, a read is refused.
pub(super) fn finish(
    response: &mut Response,
    shape: Shape,
    id: &RequestId,
    duration: Duration,
    method: &Method,
    caller: &Share,
) {
    let Some(draft) = response.extensions_mut().remove::<Draft>() else {
        return;
    };
    let mut json = draft.finish(shape, id, now(), duration);
    let permit = caller.answer(json.len(), *method != Method::GET).unwrap_or_else(|error| {
        let refusal = Failure(error.clone()).into_response();
        *response.status_mut() = refusal.status();
        response.headers_mut().extend(refusal.headers().clone());
        json = Draft::Failure(error).finish(shape, id, now(), duration);
        None
    });
    send(response, json, method, permit);
}

/// Writes a refusal of a request that reached no route; it is short, and takes no room.
pub(super) fn refuse(response: &mut Response, shape: Shape, id: &RequestId, method: &Method) {
    if let Some(draft) = response.extensions_mut().remove::<Draft>() {
        let json = draft.finish(shape, id, now(), Duration::ZERO);
        send(response, json, method, None);
    }
}

fn send(response: &mut Response, json: Vec<u8>, method: &Method, permit: Option<AnswerPermit>) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(json.len()));
    if *method != Method::HEAD {
        *response.body_mut() = match permit {
            // The connection holds these bytes until it has written them.
            Some(permit) => Body::from(Bytes::from_owner(Held { json, _permit: permit })),
            None => Body::from(json),
        };
    }
}

/// An answer with the room that it takes.
struct Held {
    json: Vec<u8>,
    _permit: AnswerPermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.json
    }
}

fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::default().after(since_epoch.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::http::Edge;

    async fn sent(response: impl IntoResponse) -> (u16, String) {
        let mut response = response.into_response();
        let id = RequestId::given("r-1").expect("well formed");
        let (share, took) = (Share::tested(Edge::default()), Duration::from_millis(12));
        finish(&mut response, Shape::Enveloped, &id, took, &Method::GET, &share);
        let status = response.status().as_u16();
        let bytes =
            axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("a body in memory");
        let text = String::from_utf8(bytes.to_vec()).expect("JSON");
        (status, mask(&text))
    }

    /// Replaces the instant, after a look at its form.
    fn mask(text: &str) -> String {
        let Some((before, rest)) = text.split_once(r#""timestamp":""#) else {
            return text.to_owned();
        };
        let (instant, after) = rest.split_once('"').expect("a closing quote");
        assert!(instant.parse::<Timestamp>().is_ok_and(|at| at.to_string() == instant));
        format!(r#"{before}"timestamp":"NOW"{after}"#)
    }

    #[tokio::test]
    async fn data_is_wrapped_with_request_id_time_and_duration() {
        assert_eq!(
            sent(Reply::created(&json!({"id": "x"}))).await.1,
            r#"{"success":true,"data":{"id":"x"},"meta":{"requestId":"r-1","timestamp":"NOW","duration":12}}"#
        );
    }

    #[tokio::test]
    async fn a_page_says_whether_more_follows() {
        for (total, more) in [(3, "false"), (4, "true")] {
            let expected = format!(
                r#"{{"success":true,"data":[1],"pagination":{{"total":{total},"limit":1,"offset":2,"hasMore":{more}}},"meta":{{"requestId":"r-1","timestamp":"NOW","duration":12}}}}"#
            );
            assert_eq!(
                sent(Reply::page(&[1], total, Window { limit: 1, offset: 2 })).await.1,
                expected
            );
        }
    }

    #[tokio::test]
    async fn an_error_is_wrapped_without_a_duration() {
        assert_eq!(
            sent(Failure(Error::NoRoute)).await.1,
            r#"{"success":false,"error":{"code":"NOT_FOUND","message":"no route matches this path: GET /api/openapi.json lists all","retryable":false},"meta":{"requestId":"r-1","timestamp":"NOW"}}"#
        );
    }

    #[tokio::test]
    async fn a_bare_answer_is_its_data_alone() {
        let bare = Reply::bare(StatusCode::OK, &json!({"status": "ok"}));
        assert_eq!(sent(bare).await.1, r#"{"status":"ok"}"#);
    }

    #[tokio::test]
    async fn data_that_cannot_be_written_is_an_internal_error() {
        let unwritable = std::collections::BTreeMap::from([(vec![1], 1)]);
        let (status, text) = sent(Reply::ok(&unwritable)).await;
        assert_eq!(status, 500);
        assert!(text.contains(r#""code":"INTERNAL_ERROR""#), "{text}");
    }
}
