//! The error table: one exhaustive match from the domain's refusals to status and code.
//!
//! The table is that of docs/reference/errors.md. Deliberately absent: logging. The code that turns a fault
//! inside into [`Error::Internal`] or [`Error::Unavailable`] logs it there, once.

use axum::http::header::{ALLOW, CONTENT_RANGE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use callboard_domain::execution::Use;
use callboard_domain::problem::Problem;
use callboard_domain::{Error, Rule, Timestamp};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::envelope::Draft;
use super::metrics::MetLimit;

/// The seconds of `Retry-After` in a 503.
const UNAVAILABLE_FOR: u64 = 5;

/// The seconds of `Retry-After` while everything is paused.
const PAUSED_FOR: u64 = 60;

/// The most faults of a definition that are listed: a prompt can hold a hundred thousand.
const MAX_LISTED: usize = 1_000;

/// A refusal on its way out: `?` makes it from an [`Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let (status, header) = (row(&error).status, header(&error));
        let limit = MetLimit::of(&error);
        let mut response = Draft::Failure(error).into_response();
        *response.status_mut() = status;
        if let Some(limit) = limit {
            response.extensions_mut().insert(limit);
        }
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The status of the answer.
    pub status: StatusCode,
    /// The error's machine-readable name.
    pub code: &'static str,
    /// True if the same request may succeed later.
    pub retryable: bool,
}

/// The row of an error.
#[must_use]
pub fn row(error: &Error) -> Row {
    let (status, code) = match error {
        Error::Invalid(_) => (StatusCode::BAD_REQUEST, "VALIDATION_ERROR"),
        Error::InvalidDefinition(problems) => {
            (StatusCode::BAD_REQUEST, problems.first().code.as_str())
        }
        Error::InvalidJson(_) => (StatusCode::BAD_REQUEST, "INVALID_JSON"),
        Error::InvalidYaml(_) => (StatusCode::BAD_REQUEST, "INVALID_YAML"),
        Error::CallbackForbidden { .. } => (StatusCode::BAD_REQUEST, "CALLBACK_URL_FORBIDDEN"),
        Error::WeakPassword(_) => (StatusCode::BAD_REQUEST, "WEAK_PASSWORD"),
        Error::Unauthorized(_) => (StatusCode::UNAUTHORIZED, "UNAUTHORIZED"),
        Error::InvalidToken(_) => (StatusCode::UNAUTHORIZED, "INVALID_TOKEN"),
        Error::TokenExpired(_) => (StatusCode::UNAUTHORIZED, "TOKEN_EXPIRED"),
        Error::InvalidCredentials => (StatusCode::UNAUTHORIZED, "INVALID_CREDENTIALS"),
        Error::Forbidden(_) => (StatusCode::FORBIDDEN, "FORBIDDEN"),
        Error::PasswordChangeRequired => (StatusCode::FORBIDDEN, "PASSWORD_CHANGE_REQUIRED"),
        Error::NotFound { .. } | Error::NoRoute => (StatusCode::NOT_FOUND, "NOT_FOUND"),
        Error::MethodNotAllowed { .. } => (StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
        Error::BodyTooSlow { .. } => (StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT"),
        Error::InvalidState(_) | Error::OutputUsed { .. } => {
            (StatusCode::CONFLICT, "INVALID_STATE")
        }
        Error::AlreadyDecided { .. } => (StatusCode::CONFLICT, "ALREADY_DECIDED"),
        Error::IdempotencyKeyInUse => (StatusCode::CONFLICT, "IDEMPOTENCY_KEY_IN_USE"),
        Error::VersionExists { .. } => (StatusCode::CONFLICT, "VERSION_EXISTS"),
        Error::BudgetExceeded(_) => (StatusCode::FORBIDDEN, "BUDGET_EXCEEDED"),
        Error::EmailExists(_) => (StatusCode::CONFLICT, "EMAIL_EXISTS"),
        Error::PayloadTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE"),
        Error::RangeNotSatisfiable { .. } => {
            (StatusCode::RANGE_NOT_SATISFIABLE, "RANGE_NOT_SATISFIABLE")
        }
        Error::UnsupportedMediaType(_) => {
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE")
        }
        Error::IdempotencyKeyReused => (StatusCode::UNPROCESSABLE_ENTITY, "IDEMPOTENCY_KEY_REUSED"),
        Error::TooManySchedules { .. } | Error::QuotaExceeded { .. } => {
            (StatusCode::FORBIDDEN, "QUOTA_EXCEEDED")
        }
        Error::RateLimited { .. }
        | Error::TooManyOpen { .. }
        | Error::TooManyConnections { .. }
        | Error::TooManyUnfinished { .. }
        | Error::TooMuchUnfinished { .. }
        | Error::TooMuchWaits { .. } => (StatusCode::TOO_MANY_REQUESTS, "RATE_LIMIT_EXCEEDED"),
        Error::HeadersTooLarge { .. } => {
            (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "HEADERS_TOO_LARGE")
        }
        Error::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR"),
        Error::DiskLow { .. } | Error::DiskFull { .. } => {
            (StatusCode::INSUFFICIENT_STORAGE, "INSUFFICIENT_STORAGE")
        }
        Error::Unavailable(_) | Error::Paused { .. } => {
            (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE")
        }
    };
    let retryable = matches!(
        error,
        Error::BodyTooSlow { .. }
            | Error::IdempotencyKeyInUse
            | Error::RateLimited { .. }
            | Error::TooManyOpen { .. }
            | Error::TooManyConnections { .. }
            | Error::TooManyUnfinished { .. }
            | Error::TooMuchUnfinished { .. }
            | Error::TooMuchWaits { .. }
            | Error::Unavailable(_)
            | Error::Paused { .. }
            | Error::DiskLow { .. }
            | Error::DiskFull { .. }
    );
    Row { status, code, retryable }
}

fn header(error: &Error) -> Option<(axum::http::HeaderName, HeaderValue)> {
    if row(error).status == StatusCode::UNAUTHORIZED {
        return Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
    }
    if let Error::MethodNotAllowed { allow, .. } = error {
        return HeaderValue::from_str(allow).ok().map(|allow| (ALLOW, allow));
    }
    if let Error::RangeNotSatisfiable { bytes } = error {
        let value = HeaderValue::from_str(&format!("bytes */{bytes}")).ok();
        return value.map(|value| (CONTENT_RANGE, value));
    }
    if let Error::Paused { .. } | Error::DiskLow { .. } | Error::DiskFull { .. } = error {
        return Some((RETRY_AFTER, HeaderValue::from(PAUSED_FOR)));
    }
    if let Error::RateLimited { retry_after, .. } = error {
        return Some((RETRY_AFTER, HeaderValue::from(*retry_after)));
    }
    if let Error::Unavailable(_)
    | Error::TooManyOpen { .. }
    | Error::TooManyConnections { .. }
    | Error::TooManyUnfinished { .. }
    | Error::TooMuchUnfinished { .. }
    | Error::TooMuchWaits { .. } = error
    {
        return Some((RETRY_AFTER, HeaderValue::from(UNAVAILABLE_FOR)));
    }
    None
}

/// An error as the wire shows it, in answers and in frames of sockets alike: code, message,
/// details where there are any, retryable.
#[derive(Debug, Clone, Copy)]
pub struct ErrorBody<'a>(pub &'a Error);

impl Serialize for ErrorBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(error) = self;
        let row = row(error);
        let details = Details::of(error);
        let mut fields =
            serializer.serialize_struct("Error", 3 + usize::from(details.is_some()))?;
        fields.serialize_field("code", row.code)?;
        fields.serialize_field("message", &Message(error))?;
        if let Some(details) = &details {
            fields.serialize_field("details", details)?;
        }
        fields.serialize_field("retryable", &row.retryable)?;
        fields.end()
    }
}

/// An error as OpenAI's interface shows it: `{"error": {message, type, param, code}}`.
#[derive(Debug, Clone, Copy)]
pub struct OpenAiError<'a>(pub &'a Error);

impl Serialize for OpenAiError<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct OpenAiErrorFields<'a> {
            message: Message<'a>,
            r#type: &'static str,
            param: Option<&'a str>,
            code: &'static str,
        }
        let Self(error) = self;
        let Row { status, code, .. } = row(error);
        let (param, rule) = if let Error::Invalid(fault) = error {
            (Some(fault.field.as_str()), Some(fault.rule))
        } else if let Error::InvalidDefinition(problems) = error {
            let first = problems.first();
            (Some(first.field.as_str()), first.code.rule())
        } else {
            (None, None)
        };
        let code = if rule == Some(Rule::Unknown) { "unsupported" } else { code };
        let kind = match status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        let fields = OpenAiErrorFields { message: Message(error), r#type: kind, param, code };
        let mut whole = serializer.serialize_struct("OpenAiError", 1)?;
        whole.serialize_field("error", &fields)?;
        whole.end()
    }
}

struct Message<'a>(&'a Error);

impl Serialize for Message<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Details<'a> {
    Field {
        field: &'a str,
        rule: &'static str,
    },
    Definition {
        field: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<&'static str>,
        errors: Vec<Listed<'a>>,
    },
    #[serde(rename_all = "camelCase")]
    Decision {
        decided_by: &'a str,
        decided_at: Instant,
    },
    #[serde(rename_all = "camelCase")]
    Uses {
        used_by: Vec<UseBody<'a>>,
    },
}

/// A use of an output.
#[derive(Serialize)]
struct UseBody<'a> {
    kind: &'static str,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    at: Instant,
}

impl<'a> From<&'a Use> for UseBody<'a> {
    fn from(Use { kind, id, name, at }: &'a Use) -> Self {
        Self { kind: kind.as_str(), id, name: name.as_deref(), at: Instant(*at) }
    }
}

/// One of the faults of a definition.
#[derive(Serialize)]
struct Listed<'a> {
    code: &'static str,
    field: &'a str,
    message: &'a str,
}

impl<'a> Listed<'a> {
    const fn of(problem: &'a Problem) -> Self {
        let Problem { code, field, message } = problem;
        Self { code: code.as_str(), field: field.as_str(), message: message.as_str() }
    }
}

impl<'a> Details<'a> {
    fn of(error: &'a Error) -> Option<Self> {
        if let Error::Invalid(fault) = error {
            let (field, rule) = (fault.field.as_str(), fault.rule.as_str());
            return Some(Self::Field { field, rule });
        }
        if let Error::InvalidDefinition(problems) = error {
            let first = problems.first();
            return Some(Self::Definition {
                field: &first.field,
                rule: first.code.rule().map(Rule::as_str),
                errors: problems.all().iter().take(MAX_LISTED).map(Listed::of).collect(),
            });
        }
        if let Error::AlreadyDecided { by, at, .. } = error {
            return Some(Self::Decision { decided_by: by, decided_at: Instant(*at) });
        }
        if let Error::OutputUsed { used_by, .. } = error {
            return Some(Self::Uses { used_by: used_by.iter().map(UseBody::from).collect() });
        }
        None
    }
}

/// An instant as text: a stored one is a number, the wire's is not.
struct Instant(Timestamp);

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use callboard_domain::problem::{Code, Problems};
    use serde_json::{Value, json};

    use super::*;

    fn body(error: &Error) -> Value {
        serde_json::to_value(ErrorBody(error)).expect("an error has a JSON form")
    }

    fn answer(error: Error) -> (u16, HeaderMap) {
        let response = Failure(error).into_response();
        (response.status().as_u16(), response.headers().clone())
    }

    #[test]
    fn every_error_has_the_status_and_the_code_of_the_table() {
        let text = || "x".to_owned();
        let at = Timestamp::from_millis(0);
        let table = [
            (Error::invalid("a", Rule::Type, "x"), 400, "VALIDATION_ERROR", false),
            (Error::PasswordChangeRequired, 403, "PASSWORD_CHANGE_REQUIRED", false),
            (Error::InvalidJson(text()), 400, "INVALID_JSON", false),
            (Error::InvalidYaml(text()), 400, "INVALID_YAML", false),
            (
                Error::CallbackForbidden { field: text(), url: text() },
                400,
                "CALLBACK_URL_FORBIDDEN",
                false,
            ),
            (Error::WeakPassword(text()), 400, "WEAK_PASSWORD", false),
            (Error::Unauthorized(text()), 401, "UNAUTHORIZED", false),
            (Error::InvalidToken(text()), 401, "INVALID_TOKEN", false),
            (Error::TokenExpired("token"), 401, "TOKEN_EXPIRED", false),
            (Error::InvalidCredentials, 401, "INVALID_CREDENTIALS", false),
            (Error::Forbidden(text()), 403, "FORBIDDEN", false),
            (Error::not_found("task", "x"), 404, "NOT_FOUND", false),
            (Error::NoRoute, 404, "NOT_FOUND", false),
            (
                Error::MethodNotAllowed { method: text(), allow: text() },
                405,
                "METHOD_NOT_ALLOWED",
                false,
            ),
            (Error::BodyTooSlow { seconds: 30 }, 408, "REQUEST_TIMEOUT", true),
            (Error::InvalidState(text()), 409, "INVALID_STATE", false),
            (Error::AlreadyDecided { task: text(), by: text(), at }, 409, "ALREADY_DECIDED", false),
            (Error::OutputUsed { task: text(), used_by: Vec::new() }, 409, "INVALID_STATE", false),
            (Error::IdempotencyKeyInUse, 409, "IDEMPOTENCY_KEY_IN_USE", true),
            (Error::VersionExists { id: text(), version: text() }, 409, "VERSION_EXISTS", false),
            (Error::BudgetExceeded(text()), 403, "BUDGET_EXCEEDED", false),
            (Error::EmailExists(text()), 409, "EMAIL_EXISTS", false),
            (Error::PayloadTooLarge { limit: 1 }, 413, "PAYLOAD_TOO_LARGE", false),
            (Error::UnsupportedMediaType("x"), 415, "UNSUPPORTED_MEDIA_TYPE", false),
            (Error::IdempotencyKeyReused, 422, "IDEMPOTENCY_KEY_REUSED", false),
            (Error::RateLimited { limit: 1, retry_after: 9 }, 429, "RATE_LIMIT_EXCEEDED", true),
            (
                Error::TooManyOpen { what: "event streams", limit: 1 },
                429,
                "RATE_LIMIT_EXCEEDED",
                true,
            ),
            (Error::TooManyUnfinished { has: 1, limit: 1 }, 429, "RATE_LIMIT_EXCEEDED", true),
            (Error::TooManySchedules { has: 1, limit: 1 }, 403, "QUOTA_EXCEEDED", false),
            (Error::QuotaExceeded { stored: 1, limit: 1 }, 403, "QUOTA_EXCEEDED", false),
            (Error::TooManyConnections { limit: 1 }, 429, "RATE_LIMIT_EXCEEDED", true),
            (Error::TooMuchUnfinished { limit: 1 }, 429, "RATE_LIMIT_EXCEEDED", true),
            (Error::TooMuchWaits { what: "requests", limit: 1 }, 429, "RATE_LIMIT_EXCEEDED", true),
            (Error::HeadersTooLarge { limit: 1 }, 431, "HEADERS_TOO_LARGE", false),
            (Error::Internal, 500, "INTERNAL_ERROR", false),
            (Error::Unavailable("draining"), 503, "UNAVAILABLE", true),
            (Error::RangeNotSatisfiable { bytes: 1 }, 416, "RANGE_NOT_SATISFIABLE", false),
            (Error::DiskLow { free: 1, needed: 2 }, 507, "INSUFFICIENT_STORAGE", true),
            (Error::DiskFull { free: 1, needed: 2 }, 507, "INSUFFICIENT_STORAGE", true),
        ];
        for (error, status, code, retryable) in table {
            let row = row(&error);
            let found = (row.status.as_u16(), row.code, row.retryable);
            assert_eq!(found, (status, code, retryable), "{error:?}");
            assert_eq!(answer(error).0, status);
        }
    }

    #[test]
    fn an_error_is_told_with_its_details() {
        assert_eq!(
            body(&Error::invalid("tasks[2].prompt", Rule::Required, "it is required")),
            json!({
                "code": "VALIDATION_ERROR",
                "message": "it is required",
                "details": {"field": "tasks[2].prompt", "rule": "required"},
                "retryable": false,
            })
        );
        let problems = Problems::none_of(vec![
            Problem::new(Code::MissingDependency, "steps[0].dependsOn[0]", "names no step"),
            Problem::rule(Rule::Length, "steps[1].prompt", "must not be empty"),
        ]);
        assert_eq!(
            body(&problems.expect_err("there are two").into()),
            json!({
                "code": "MISSING_DEPENDENCY",
                "message": "steps[0].dependsOn[0] names no step",
                "details": {"field": "steps[0].dependsOn[0]", "errors": [
                    {"code": "MISSING_DEPENDENCY", "field": "steps[0].dependsOn[0]",
                     "message": "steps[0].dependsOn[0] names no step"},
                    {"code": "VALIDATION_ERROR", "field": "steps[1].prompt",
                     "message": "steps[1].prompt must not be empty"},
                ]},
                "retryable": false,
            })
        );
        let decided = Error::AlreadyDecided {
            task: "dt_task_9".to_owned(),
            by: "usr_1".to_owned(),
            at: Timestamp::from_millis(0),
        };
        assert_eq!(
            body(&decided),
            json!({
                "code": "ALREADY_DECIDED",
                "message": "dt_task_9 was already decided by usr_1 at 1970-01-01T00:00:00.000Z",
                "details": {"decidedBy": "usr_1", "decidedAt": "1970-01-01T00:00:00.000Z"},
                "retryable": false,
            })
        );
        assert_eq!(
            body(&Error::Internal),
            json!({"code": "INTERNAL_ERROR", "message": "internal error", "retryable": false})
        );
    }

    #[test]
    fn an_error_has_openais_shape_too() {
        let openai = |error| serde_json::to_value(OpenAiError(&error)).expect("it has a JSON form");
        let expected = |message: &str, kind: &str, param: Option<&str>, code: &str| json!({"error": {"message": message, "type": kind, "param": param, "code": code}});
        let unknown = Error::invalid("tools", Rule::Unknown, "tools is not supported");
        let range = Error::invalid("temperature", Rule::Range, "it is too high");
        for (error, expected) in [
            (
                unknown,
                expected(
                    "tools is not supported",
                    "invalid_request_error",
                    Some("tools"),
                    "unsupported",
                ),
            ),
            (
                range,
                expected(
                    "it is too high",
                    "invalid_request_error",
                    Some("temperature"),
                    "VALIDATION_ERROR",
                ),
            ),
            (
                Error::Unauthorized("who?".into()),
                expected("who?", "authentication_error", None, "UNAUTHORIZED"),
            ),
            (Error::Internal, expected("internal error", "server_error", None, "INTERNAL_ERROR")),
        ] {
            assert_eq!(openai(error), expected);
        }
    }

    #[test]
    fn an_error_brings_the_headers_that_belong_to_it() {
        let method =
            Error::MethodNotAllowed { method: "PUT".to_owned(), allow: "GET, HEAD".to_owned() };
        let limited = Error::RateLimited { limit: 60, retry_after: 7 };
        for (error, name, value) in [
            (Error::Unauthorized("x".to_owned()), "www-authenticate", "Bearer"),
            (Error::InvalidToken("x".to_owned()), "www-authenticate", "Bearer"),
            (Error::TokenExpired("token"), "www-authenticate", "Bearer"),
            (Error::InvalidCredentials, "www-authenticate", "Bearer"),
            (method, "allow", "GET, HEAD"),
            (limited, "retry-after", "7"),
            (Error::Unavailable("draining"), "retry-after", "5"),
        ] {
            let (_, headers) = answer(error);
            assert_eq!(headers.get(name).map(HeaderValue::as_bytes), Some(value.as_bytes()));
        }
    }
}
