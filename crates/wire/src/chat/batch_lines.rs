//! The lines of batches in `OpenAI`'s notation: requests, and answers.

use std::collections::HashSet;

use callboard_domain::Error;
use callboard_domain::chat_batch::{LineFault, MAX_FAULTS, MAX_LINES, Stop};
use callboard_domain::digest::Digest;
use callboard_domain::id::TaskId;
use callboard_domain::labels::MAX_TITLE;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::CreateChatCompletion;
use super::batches::ENDPOINT;
use crate::read::{Reading, reading};

/// A line, as far as it is looked at before its body is read.
#[derive(Deserialize)]
struct Outline {
    custom_id: Option<Value>,
    method: Option<Value>,
    url: Option<Value>,
    body: Option<Map<String, Value>>,
}

/// The `custom_id` of a line whose outline is right; its body may still be refused.
///
/// # Errors
/// The fault, without the number of the line.
pub fn custom_id(line: &[u8]) -> Result<String, LineFault> {
    let fault = |code: &str, param: Option<&str>, message: String| LineFault {
        code: code.to_owned(),
        line: None,
        message,
        param: param.map(str::to_owned),
    };
    let Outline { custom_id, method, url, body } =
        serde_json::from_slice(line).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => {
                fault("invalid_request", None, format!("the line is not a request: {error}"))
            }
            serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof
            | serde_json::error::Category::Io => {
                fault("invalid_json_line", None, format!("the line is not JSON: {error}"))
            }
        })?;
    let invalid = |param: &str, says: &str| {
        Err(fault("invalid_request", Some(param), format!("{param} {says}")))
    };
    let is = |value: &Option<Value>, only: &str| {
        value.as_ref().is_none_or(|value| value.is_null() || value.as_str() == Some(only))
    };
    let length = |text: &&str| (1..=MAX_TITLE).contains(&text.chars().count());
    let Some(id) = custom_id.as_ref().and_then(Value::as_str).filter(length) else {
        return invalid("custom_id", "must be a text of 1 to 200 characters");
    };
    if !is(&method, "POST") {
        return invalid("method", "must be POST");
    }
    if !is(&url, ENDPOINT) {
        let says = format!("url must be {ENDPOINT}, the endpoint of the batch");
        return Err(fault("url_mismatch", Some("url"), says));
    }
    if body.is_none() {
        return invalid("body", "is required: the body of a chat completion");
    }
    Ok(id.to_owned())
}

/// Reads the body of a parsed line, and every fault of it.
#[must_use]
pub fn body(mut line: Value) -> Reading<CreateChatCompletion> {
    reading(line.get_mut("body").map_or(Value::Null, Value::take))
}

/// The check of an input file, line by line. Its memory follows the number of lines.
#[derive(Debug, Default)]
pub struct Check {
    seen: HashSet<[u8; 32]>,
    total: u32,
    faults: Vec<LineFault>,
}

impl Check {
    /// Takes the `custom_id` of the next line that is not blank, or its fault.
    pub fn take(&mut self, number: u64, custom_id: Result<String, LineFault>) {
        self.total = self.total.saturating_add(1);
        if self.total == MAX_LINES + 1 {
            self.faults.push(LineFault {
                code: "too_many_tasks".to_owned(),
                line: Some(number),
                message: format!("a batch has at most {MAX_LINES} lines: split the file"),
                param: None,
            });
        }
        let fault = match custom_id {
            Ok(id) if self.seen.insert(*Digest::of(&id).as_bytes()) => return,
            Ok(id) => LineFault {
                code: "duplicate_custom_id".to_owned(),
                line: None,
                message: format!("an earlier line has the custom_id {id} too"),
                param: Some("custom_id".to_owned()),
            },
            Err(fault) => fault,
        };
        self.faults.push(LineFault { line: Some(number), ..fault });
    }

    /// True once no further line need be looked at.
    #[must_use]
    pub const fn is_decided(&self) -> bool {
        self.total > MAX_LINES || self.faults.len() >= MAX_FAULTS
    }

    /// The number of lines.
    ///
    /// # Errors
    /// The faults of the file.
    pub fn finish(self) -> Result<u32, Vec<LineFault>> {
        let Self { total, mut faults, .. } = self;
        if total == 0 {
            faults.push(LineFault {
                code: "empty_file".to_owned(),
                line: None,
                message: "the file has no line".to_owned(),
                param: None,
            });
        }
        if faults.is_empty() { Ok(total) } else { Err(faults) }
    }
}

/// The answer to a line.
#[derive(Debug, Serialize)]
pub struct AnswerLine<'a, B> {
    id: String,
    custom_id: &'a str,
    response: Option<LineResponse<B>>,
    error: Option<LineError>,
}

#[derive(Debug, Serialize)]
struct LineResponse<B> {
    status_code: u16,
    request_id: String,
    body: B,
}

#[derive(Debug, Serialize)]
struct LineError {
    code: &'static str,
    message: &'static str,
}

/// The identifier of a line's request, which has the digits of its task's.
fn request_id(task: TaskId) -> String {
    let task = task.to_string();
    format!("batch_req_{}", task.strip_prefix(TaskId::PREFIX).unwrap_or(&task))
}

impl<'a, B: Serialize> AnswerLine<'a, B> {
    /// The answer that `POST /v1/chat/completions` would have given.
    #[must_use]
    pub fn answered(custom_id: &'a str, task: TaskId, status_code: u16, body: B) -> Self {
        let (id, request_id) = (request_id(task), task.to_string());
        let response = Some(LineResponse { status_code, request_id, body });
        Self { id, custom_id, response, error: None }
    }
}

impl<'a> AnswerLine<'a, Value> {
    /// A line whose task was cancelled with its batch, or was never made.
    #[must_use]
    pub fn stopped(custom_id: &'a str, task: TaskId, stop: Stop) -> Self {
        let message = match stop {
            Stop::Cancelled => "the batch was cancelled before this request had its answer",
            Stop::Expired => "the completion window was over before this request had its answer",
        };
        Self::without(custom_id, task, LineError { code: stop.as_str(), message })
    }

    /// A line whose answer was removed or erased.
    #[must_use]
    pub fn removed(custom_id: &'a str, task: TaskId) -> Self {
        let message = "the answer was removed or erased before the batch had ended";
        Self::without(custom_id, task, LineError { code: "answer_removed", message })
    }

    fn without(custom_id: &'a str, task: TaskId, error: LineError) -> Self {
        Self { id: request_id(task), custom_id, response: None, error: Some(error) }
    }
}

impl<B: Serialize> AnswerLine<'_, B> {
    /// The line in JSON, with its end.
    ///
    /// # Errors
    /// [`Error::Internal`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut line = serde_json::to_vec(self).map_err(|_| Error::Internal)?;
        line.push(b'\n');
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_is_right_or_says_its_fault() {
        let right = br#"{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{}}"#;
        assert_eq!(custom_id(right).as_deref(), Ok("a"));
        assert_eq!(custom_id(br#"{"custom_id":"a","body":{"x":[{}]},"y":1}"#).as_deref(), Ok("a"));
        for (line, code, param) in [
            (r#"{"custom_id":"a""#, "invalid_json_line", None),
            ("7", "invalid_request", None),
            (r#"{"custom_id":"a","body":[]}"#, "invalid_request", None),
            (r#"{"custom_id":"","body":{}}"#, "invalid_request", Some("custom_id")),
            (r#"{"body":{}}"#, "invalid_request", Some("custom_id")),
            (r#"{"custom_id":"a","method":"GET","body":{}}"#, "invalid_request", Some("method")),
            (r#"{"custom_id":"a","url":"/v1/embeddings","body":{}}"#, "url_mismatch", Some("url")),
            (r#"{"custom_id":"a"}"#, "invalid_request", Some("body")),
        ] {
            let fault = custom_id(line.as_bytes()).expect_err(line);
            assert_eq!((fault.code.as_str(), fault.param.as_deref()), (code, param), "{line}");
        }
    }

    #[test]
    fn a_file_has_lines_none_twice_and_not_too_many() {
        let id = |at: u32| Ok(at.to_string());
        let check = |ids: std::ops::RangeInclusive<u32>| {
            let mut check = Check::default();
            ids.for_each(|at| check.take(u64::from(at), id(at)));
            check
        };
        assert_eq!(check(1..=MAX_LINES).finish(), Ok(MAX_LINES));
        let many = check(1..=MAX_LINES + 1);
        assert!(many.is_decided());
        assert_eq!(many.finish().expect_err("too many")[0].code, "too_many_tasks");
        assert_eq!(Check::default().finish().expect_err("none")[0].code, "empty_file");
        let mut twice = check(1..=2);
        twice.take(5, id(1));
        let faults = twice.finish().expect_err("a fault");
        assert_eq!((faults[0].code.as_str(), faults[0].line), ("duplicate_custom_id", Some(5)));
    }
}
