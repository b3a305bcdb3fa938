//! A provider's words about an error, in the shapes that are seen in the wild.

use serde_json::Value;

use super::milliseconds;
use crate::provider::lenient::{count, string};

/// The longest text of a page that is read, in bytes.
const MAX_PAGE: usize = 64 * 1024;

/// The kinds of errors without a status, in lower case and without anything between the words.
const KINDS: [(&str, u16); 26] = [
    ("invalidrequest", 400),
    ("invalidargument", 400),
    ("badrequest", 400),
    ("contextlength", 400),
    ("contextsize", 400),
    ("authentication", 401),
    ("unauthenticated", 401),
    ("unauthorized", 401),
    ("invalidapikey", 401),
    ("billing", 402),
    ("permission", 403),
    ("forbidden", 403),
    ("notfound", 404),
    ("toolarge", 413),
    ("ratelimit", 429),
    ("resourceexhausted", 429),
    ("toomanyrequests", 429),
    ("insufficientquota", 429),
    ("throttl", 429),
    ("overloaded", 529),
    ("serviceunavailable", 503),
    ("unavailable", 503),
    ("deadlineexceeded", 504),
    ("timeout", 504),
    ("extraforbidden", 422),
    ("unprocessable", 422),
];

/// A provider's words about an error.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::provider) struct Words {
    /// The sentence.
    pub(in crate::provider) message: String,
    /// `error.type`, `error.code` and `error.status`, in lower case, joined by a space.
    pub(in crate::provider) kind: String,
    /// The parameter that the error names.
    pub(in crate::provider) param: Option<String>,
    /// An HTTP status inside the body, as streams have it.
    pub(in crate::provider) status: Option<u16>,
    /// The wait that Google's `RetryInfo` asks for, in milliseconds.
    pub(in crate::provider) retry_delay_ms: Option<u64>,
}

impl Words {
    /// Reads an error's body: JSON, the text of a page in HTML, or plain text.
    pub(in crate::provider) fn read(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(json) => Self::of(&json),
            Err(_) if is_page(body) => Self { message: page_text(body), ..Self::default() },
            Err(_) => Self { message: body.trim().to_owned(), ..Self::default() },
        }
    }

    /// Reads `{"error": {…}}`, `{"error": "…"}`, `{"errors": [{…}]}`, `{"message": "…"}`,
    /// `{"detail": …}`, `{"base_resp": {…}}`, or a list of one of them.
    fn of(json: &Value) -> Self {
        // Gemini answers with a list of one.
        let json = json.get(0).unwrap_or(json);
        let error = ["error", "errors", "base_resp"].iter().find_map(|name| json.get(*name));
        let error = error.map(|error| error.get(0).unwrap_or(error));
        // `"error": true` says that the other members are about one.
        let error = error.filter(|error| error.is_object() || error.is_string()).unwrap_or(json);
        let names = [
            "message",
            "msg",
            "detail",
            "reason",
            "error_message",
            "error_description",
            "status_msg",
            "title",
            "error",
        ];
        let message = names.iter().find_map(|name| error.get(*name).filter(|it| !it.is_null()));
        let mut message = text(message.unwrap_or(error));
        // OpenRouter repeats the words of the provider behind it.
        if let Some(raw) = error.pointer("/metadata/raw").filter(|raw| !raw.is_null()) {
            message = format!("{message}: {}", text(raw));
        }
        let kinds = ["type", "code", "status"].iter().filter_map(|name| error.get(*name));
        let kind: Vec<String> = kinds.filter_map(Value::as_str).map(str::to_lowercase).collect();
        Self {
            message,
            kind: kind.join(" "),
            param: error.get("param").and_then(Value::as_str).map(str::to_owned),
            status: status(error).or_else(|| status(json)),
            retry_delay_ms: retry_delay(error),
        }
    }

    /// True if the account has no money left: another try costs time and cannot work.
    pub(super) fn out_of_money(&self) -> bool {
        let signs = ["insufficient_quota", "enforced_spend_limit_reached", "billing_error"];
        signs.iter().any(|sign| self.kind.contains(sign) || self.message.contains(sign))
    }

    /// The status that an error within an answer of status 200 would have had by itself.
    pub(in crate::provider) fn status_of_event(&self) -> u16 {
        const SAYINGS: [(&str, u16); 3] =
            [("rate limit", 429), ("too many requests", 429), ("overloaded", 529)];
        let kind: String = self.kind.chars().filter(char::is_ascii_alphanumeric).collect();
        let message = self.message.to_lowercase();
        let known = KINDS.iter().find(|(sign, _)| kind.contains(sign));
        let said = || SAYINGS.iter().find(|(sign, _)| message.contains(sign));
        let named = || known.or_else(said).map(|(_, status)| *status);
        self.status.or_else(named).unwrap_or(500)
    }
}

/// True if an event of this name or with these members is an error instead of a piece of an answer.
pub(in crate::provider) fn is_error(name: &str, json: &Value) -> bool {
    let says = |member: &str| match json.get(member) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(members)) => !members.is_empty(),
        Some(Value::Bool(true) | Value::Number(_)) => true,
    };
    let is_named = |member: &str| string(json.get(member)).is_some_and(|of| of.contains("error"));
    let failed = json.pointer("/base_resp/status_code").is_some_and(|code| *code != 0);
    // A piece of an answer has none of these beside `choices`, or beside Anthropic's `type`.
    let is_piece = ["choices", "type", "usage"].iter().any(|member| json.get(*member).is_some());
    let about_it = ["message", "detail", "errors", "msg", "error_message"];
    name == "error"
        || says("error")
        || is_named("object")
        || is_named("type")
        || failed
        || !is_piece && about_it.into_iter().any(says)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// An HTTP status of an error among the members.
fn status(error: &Value) -> Option<u16> {
    let names = ["code", "status", "status_code", "statusCode", "http_code"];
    let codes = names.iter().filter_map(|name| count(error.get(*name)));
    codes.filter_map(|code| u16::try_from(code).ok()).find(|code| (400..600).contains(code))
}

/// `retryDelay` among the details of an error, such as `34s`.
fn retry_delay(error: &Value) -> Option<u64> {
    let details = error.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    milliseconds(delay.strip_suffix('s')?, 1000.0)
}

/// True for a text in HTML.
fn is_page(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('<')
}

/// The words of a page in HTML: its text without tags, scripts and styles, white space folded.
fn page_text(page: &str) -> String {
    let mut rest = page[..page.floor_char_boundary(MAX_PAGE)].trim_start_matches('\u{feff}');
    let mut text = String::new();
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        text.push(' ');
        rest = &rest[at..];
        let name = rest[1..].split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let hidden = ["script", "style"].into_iter().find(|of| name.eq_ignore_ascii_case(of));
        let end = match hidden {
            Some(name) => find_ignoring_case(rest, &format!("</{name}")),
            None => Some(0),
        };
        let end = end.and_then(|from| Some(from + rest[from..].find('>')? + 1));
        rest = end.map_or("", |end| &rest[end..]);
    }
    text.push_str(rest);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn find_ignoring_case(text: &str, sign: &str) -> Option<usize> {
    let windows = text.as_bytes().windows(sign.len());
    windows.into_iter().position(|window| window.eq_ignore_ascii_case(sign.as_bytes()))
}
